"""The gate on made-up evidence: outcomes, precedence, sentences, and its error rates by simulation."""

import dataclasses

import numpy as np
import pytest

from answerkey.metrics_core.gate.evidence import Calibrated, Coverage, Evidence, Missing, PairedScores
from answerkey.metrics_core.gate.gate import apply_policy, rounded
from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.metrics_core.statistics.intervals import Estimate, Interval

FIELD = "label.correct"


def policy(margin=0.02, *rules):
    return parse_policy({"primary": FIELD, "margin": margin, "rules": list(rules)}, "x")


def column(both, fixed, broken, neither):
    old = np.repeat([1.0, 0.0, 1.0, 0.0], [both, fixed, broken, neither])
    new = np.repeat([1.0, 1.0, 0.0, 0.0], [both, fixed, broken, neither])
    return PairedScores(old, new, binary=True)


def evidence(*columns, slices=("all",), **changes):
    full = (Coverage("old", 100, 100), Coverage("new", 100, 100))
    found = Evidence("old", "new", dict(zip([(FIELD, s) for s in slices], columns, strict=True)), {FIELD: full})
    return dataclasses.replace(found, **changes)


def gated(*counts, margin=0.02, rules=(), **changes):
    return apply_policy(policy(margin, *rules), evidence(column(*counts), **changes))


def outcomes(verdict):
    return [verdict.outcome, *(rule.outcome for rule in verdict.rules)]


def test_as_good_on_enough_samples_passes():
    found = gated(9000, 100, 100, 800)
    assert outcomes(found) == ["PASS", "PASS", "PASS"]
    assert found.sentence == (
        "new may ship in place of old, every rule holds: label.correct went from 0.910 to 0.910 (+0.000, 95 % interval "
        "-0.003 to +0.003, 10,000 samples); a loss of 0.02 or more is ruled out."
    )
    [rule, _] = found.rules
    assert (rule.rule, rule.value, rule.n, rule.needed) == ("label.correct >= -0.02", 0.0, 10000, None)
    assert rule.low == pytest.approx(-0.0028, abs=2e-4)


def test_the_level_reaches_every_interval_and_every_sentence():
    rules = policy(0.02, f"level {FIELD} >= 0.5")
    usual, wider = (apply_policy(rules, evidence(column(9000, 100, 100, 800)), level) for level in (0.95, 1 - 0.05 / 6))
    assert (wider.level, [rule.level for rule in wider.rules]) == (1 - 0.05 / 6, [1 - 0.05 / 6] * 2 + [None])
    for narrow, wide in zip(usual.rules[:2], wider.rules[:2], strict=True):
        assert narrow.low and narrow.high and wide.low and wide.high
        assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(2.638 / 1.960, rel=0.02)
        assert "95 % interval" in narrow.sentence
        assert "99.17 % interval" in wide.sentence
    # A loss that is shown at 95 %, and not at the level of the thirtieth look.
    lost = evidence(column(400, 30, 60, 10))
    assert [apply_policy(policy(0.0), lost, level).outcome for level in (0.95, 1 - 0.05 / 930)] == [
        "FAIL", "INCONCLUSIVE",
    ]  # fmt: skip


def test_a_real_loss_fails():
    found = gated(500, 10, 100, 390)
    assert outcomes(found) == ["FAIL", "FAIL", "PASS"]
    assert found.sentence.startswith(
        "new must not ship in place of old: label.correct went from 0.600 to 0.510 (-0.090, "
    )
    assert found.sentence.endswith("; it lost more than the 0.02 that is tolerated.")


def test_too_few_samples_are_inconclusive_and_say_how_many_would_do():
    found = gated(400, 30, 30, 40)
    assert outcomes(found) == ["INCONCLUSIVE", "INCONCLUSIVE", "PASS"]
    # The interval is 1.96 * sqrt(60) / 500 = .0304 either way; (.0304 / .02 * (1.96 + .84) / 1.96) ^ 2 * 500.
    assert found.rules[0].needed == pytest.approx(2360, rel=0.05)
    needed = rounded(found.rules[0].needed or 0, 2)
    assert found.sentence.endswith(
        f"a loss of 0.02 or more is not ruled out, and about {needed:,} samples would rule it out "
        "with a power of 80 % if both releases are equally good."
    )


def test_two_identical_releases_over_few_samples_are_inconclusive():
    assert gated(15, 0, 0, 5).outcome == "INCONCLUSIVE"
    assert gated(1500, 0, 0, 500).outcome == "PASS"
    # At a margin of 0 the new release must be better, and no number of samples shows that of equal ones.
    found = gated(1500, 0, 0, 500, margin=0.0)
    assert (found.outcome, found.rules[0].needed) == ("INCONCLUSIVE", None)
    assert found.sentence.endswith("a gain is not shown, and more samples like these would not show it.")


def test_one_sample_has_no_interval_and_decides_nothing():
    found = gated(1, 0, 0, 0)
    assert found.outcome == "INCONCLUSIVE"
    assert "(+0.000, no interval, 1 sample)" in found.sentence


@pytest.mark.parametrize("margin", [0.0, 0.02, 1.0])
def test_a_metric_that_is_missing_never_passes(margin):
    found = apply_policy(policy(margin), evidence(Missing("new has no such field"), coverage={}))
    assert outcomes(found) == ["INCOMPLETE"] * 3
    assert found.sentence == ("It cannot be decided whether new may ship: label.correct: new has no such field.")
    assert apply_policy(policy(margin), Evidence("old", "new", {}, {})).outcome == "INCOMPLETE"
    nothing = PairedScores(*[np.full(5, np.nan)] * 2, binary=True)
    assert apply_policy(policy(margin), evidence(nothing)).outcome == "INCOMPLETE"


UNCOVERED = "decides nothing, because only 949 of 1,000 samples of new (51 failed) have a comparable number"


@pytest.mark.parametrize("numbers", [(9000, 100, 100, 800), (500, 10, 100, 390)])
def test_a_field_that_is_not_covered_decides_nothing(numbers):
    thin = (Coverage("old", 1000, 1000), Coverage("new", 1000, 949, {"failed": 51}))
    found = gated(*numbers, coverage={FIELD: thin})
    assert outcomes(found) == ["INCOMPLETE"] * 3
    assert f"; this {UNCOVERED}" in found.rules[0].sentence
    assert UNCOVERED in found.sentence
    assert found.rules[1].value == 0.949
    just = (Coverage("old", 1000, 1000), Coverage("new", 1000, 950))
    assert gated(9000, 100, 100, 800, coverage={FIELD: just}).outcome == "PASS"


def test_a_failure_on_sound_evidence_outweighs_what_is_missing():
    found = gated(500, 10, 100, 390, rules=["gone.field >= 0"])
    assert outcomes(found) == ["FAIL", "FAIL", "INCOMPLETE", "INCOMPLETE"]
    found = gated(400, 30, 30, 40, rules=["gone.field >= 0"])
    assert outcomes(found) == ["INCOMPLETE", "INCONCLUSIVE", "INCOMPLETE", "INCOMPLETE"]


def test_a_slice_has_a_rule_of_its_own():
    columns = column(9000, 100, 100, 800), column(50, 0, 40, 10)
    found = apply_policy(policy(0.02, f"{FIELD}[lang=ru] >= -0.05"), evidence(*columns, slices=("all", "lang=ru")))
    assert outcomes(found) == ["FAIL", "PASS", "FAIL", "PASS"]
    assert found.sentence.startswith("new must not ship in place of old: label.correct[lang=ru] went from 0.900 to 0.5")


@pytest.mark.parametrize(("floor", "outcome"), [(0.8, "PASS"), (0.9, "INCONCLUSIVE"), (0.95, "FAIL")])
def test_a_level_goes_by_the_lower_end_of_the_new_release(floor, outcome):
    found = gated(880, 20, 0, 100, margin=0.5, rules=[f"level {FIELD} >= {floor}"])
    assert (found.rules[1].outcome, found.rules[1].value) == (outcome, 0.9)
    # Clopper and Pearson's interval of 900 of 1,000.
    assert (found.rules[1].low, found.rules[1].high) == pytest.approx((0.8797, 0.9179), abs=1e-4)


def judged(*kappa):
    return apply_policy(
        policy(0.02, f"kappa {FIELD} >= 0.6"), evidence(column(9000, 100, 100, 800), calibrations={FIELD: kappa})
    )


def kappa(value, low, high):
    return Calibrated("a", Estimate(value, Interval(low, high, "delta-log-t")), 300, "of people.csv")


def test_a_judge_is_as_good_as_on_the_release_where_it_is_worst():
    good, poor, open_ = kappa(0.7, 0.61, 0.79), kappa(0.4, 0.3, 0.5), kappa(0.65, 0.55, 0.75)
    found = judged(good, kappa(0.8, 0.7, 0.9))
    assert outcomes(found) == ["PASS"] * 4
    assert (found.rules[1].value, found.rules[1].sentence[-53:]) == (
        0.7, "at least 0.6 is shown, and on the other release as well"[-53:],
    )  # fmt: skip
    assert (judged(good, poor).outcome, judged(good, poor).rules[1].value) == ("INCOMPLETE", 0.4)
    assert judged(open_, good).rules[1].outcome == "INCONCLUSIVE"
    missing = judged(poor, Missing("it was calibrated on old, and not on new"))
    assert "not on new" in missing.rules[1].sentence


def test_a_calibration_that_is_demanded_must_be_there_and_good_enough():
    assert outcomes(judged(kappa(0.7, 0.61, 0.79))) == ["PASS"] * 4
    # Too few labels to decide, and agreement that is certainly too low.
    assert outcomes(judged(kappa(0.65, 0.55, 0.75)))[:3] == ["INCONCLUSIVE"] * 3
    found = judged(kappa(0.4, 0.3, 0.5))
    assert outcomes(found)[:3] == ["INCOMPLETE"] * 3
    numbers = "kappa of label.correct on a is 0.400 (95 % interval 0.300 to 0.500, 300 labels of people.csv)"
    assert numbers in found.sentence
    assert outcomes(judged(Missing("it was never calibrated")))[:3] == ["INCOMPLETE"] * 3
    assert judged(Calibrated("a", None, 9, "x")).outcome == "INCOMPLETE"
    assert judged(kappa(0.65, 0.55, 0.75)).rules[1].needed == pytest.approx(300 * (0.1 / 0.05 * 1.4294) ** 2, rel=0.01)


def test_clusters_widen_the_interval():
    counts = (800, 30, 100, 70)
    alone = gated(*counts)
    assert alone.outcome == "FAIL"
    assert gated(*counts, clusters=np.arange(1000) // 25).outcome == "INCONCLUSIVE"
    # Clusters of one sample each do not count as clusters.
    assert gated(*counts, clusters=np.arange(1000)) == alone


def test_too_few_clusters_are_inconclusive_whatever_the_answers():
    few, many = (
        gated(1600, 0, 0, 0, rules=[f"level {FIELD} >= 0.9"], clusters=np.arange(1600) // size) for size in (80, 8)
    )
    assert outcomes(few) == ["INCONCLUSIVE"] * 3 + ["PASS"]
    assert [rule.n_clusters for rule in few.rules] == [20, 20, None]
    # log(1 / 40) / log(1 - .02) and / log(.9).
    assert few.rules[0].sentence.endswith(
        "1,600 samples in 20 clusters); a loss of 0.02 or more is not ruled out, and with 20 clusters it could not be "
        "even if no answer changed; it takes about 183"
    )
    assert few.rules[1].sentence.endswith(
        "at least 0.9 is not shown, and with 20 clusters it could not be whatever the answers are; it takes about 36"
    )
    assert outcomes(many) == ["PASS"] * 4


@pytest.mark.slow
def test_more_rules_raise_no_more_false_alarms():
    """Five slices of releases that are equally good: one in 40 alarms, as with one rule, not one in 8."""
    names = [f"s={i}" for i in range(5)]
    rules = policy(1.0, *(f"{FIELD}[{name}] >= 0" for name in names))
    rng, alarms, uncorrected = np.random.default_rng(3), 0, 0
    for _ in range(250):
        columns = [column(0, f := int(rng.binomial(100, 0.5)), 100 - f, 0) for _ in names]
        found = apply_policy(rules, evidence(column(9, 0, 0, 0), *columns, slices=("all", *names)))
        alarms += found.outcome == "FAIL"
        uncorrected += any((rule.high or 0) < 0 for rule in found.rules[1:-1])
    assert alarms <= 12
    assert uncorrected >= 20


def test_holm_lets_the_second_rule_fail_more_easily():
    # z of 30 broken and 14 fixed is 2.41: below 2.5 (one of four), above 1.96 (the last one).
    clear, close = column(100, 0, 100, 100), column(500, 14, 30, 456)
    rules = policy(0.0, *(f"{FIELD}[s={i}] >= 0" for i in range(3)))
    slices = ("all", "s=0", "s=1", "s=2")
    alone = apply_policy(rules, evidence(close, *[column(900, 0, 0, 100)] * 3, slices=slices))
    assert alone.outcome == "INCONCLUSIVE"
    assert "(it is below the floor, but not by enough after the correction for 4 rules)" in alone.sentence
    with_others = apply_policy(rules, evidence(close, clear, clear, clear, slices=slices))
    assert outcomes(with_others)[1:5] == ["FAIL"] * 4
