"""Planning: what is stated is what the tests then do, and the formulas' own limits."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.intervals import Interval, tango
from answerkey.metrics_core.statistics.paired import mcnemar, paired_difference
from answerkey.metrics_core.statistics.power import (
    decide,
    detectable_mean,
    detectable_share,
    mcnemar_power,
    minimum_detectable,
    needed_for_mean,
    needed_for_share,
    needed_to_decide,
)
from tests.metrics_core.statistics.simulations import remembered, share


def test_the_textbook_figures() -> None:
    # Standard deviation .4 in both releases, correlation .5, so .4 of the difference: (1.96 + .84) * .4 / sqrt(n).
    for n, expected in ((100, 0.112), (500, 0.050), (1000, 0.035)):
        assert detectable_mean(n, 0.4) == pytest.approx(expected, abs=0.0025)
    assert needed_for_mean(0.05, 0.4) == pytest.approx(((1.959964 + 0.841621) * 0.4 / 0.05) ** 2, abs=3)


@pytest.mark.parametrize(("n", "sd", "power"), [(8, 0.3, 0.8), (20, 0.2, 0.9), (200, 0.4, 0.8)])
def test_the_power_stated_for_means_is_the_power_had(n: int, sd: float, power: float) -> None:
    effect = detectable_mean(n, sd, power=power)
    assert effect is not None
    # Exactly, by the non-central t distribution.
    limit, shift = scipy.stats.t.ppf(0.975, n - 1), effect / sd * math.sqrt(n)
    exact = scipy.stats.nct.sf(limit, n - 1, shift) + scipy.stats.nct.cdf(-limit, n - 1, shift)
    assert exact == pytest.approx(power, abs=0.012)


def test_the_power_stated_for_sign_flips_is_the_power_had() -> None:
    effect = detectable_mean(50, 0.3)
    assert effect is not None
    rows = np.random.default_rng(1).normal(effect, 0.3, (1000, 50))
    # A seed each: a few hundred flips that all comparisons share err all to the same side.
    seen = share(
        paired_difference(np.zeros(50), row, permutations=199, seed=seed).p <= 0.05 for seed, row in enumerate(rows)
    )
    assert seen == pytest.approx(0.8, abs=0.035)


def test_the_power_stated_for_clusters_is_the_power_had() -> None:
    rng, clusters = np.random.default_rng(2), np.repeat(np.arange(50), 4).tolist()
    # Variance .02 + .02, correlation .5 within clusters of 4: design effect 1 + 3 * .5.
    effect = detectable_mean(200, 0.2, design_effect=2.5, cluster_size=4)
    assert effect is not None
    noise = rng.normal(0, math.sqrt(0.02), (800, 50, 1)) + rng.normal(0, math.sqrt(0.02), (800, 50, 4))
    found = [
        paired_difference(np.zeros(200), row, clusters=clusters, permutations=199, seed=seed)
        for seed, row in enumerate((effect + noise).reshape(800, 200))
    ]
    assert share(one.p <= 0.05 for one in found) == pytest.approx(0.8, abs=0.035)
    assert np.mean([minimum_detectable(one) for one in found]) == pytest.approx(effect, rel=0.03)


@pytest.mark.parametrize(("n", "changed"), [(60, 0.2), (300, 0.1), (1618, 286 / 1618)])
def test_the_power_stated_for_shares_is_the_power_had(n: int, changed: float) -> None:
    effect = detectable_share(n, changed)
    assert effect is not None
    assert mcnemar_power(n, max(changed, effect), effect) == pytest.approx(0.8, abs=1e-4)
    parts = [(max(changed, effect) + effect) / 2, (max(changed, effect) - effect) / 2]
    draws = np.random.default_rng(3).multinomial(n, [*parts, 1 - sum(parts)], 6000)
    p = remembered(mcnemar)
    assert share(p(a, b) <= 0.05 for a, b, _ in draws) == pytest.approx(0.8, abs=0.02)


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(0, 10), st.data())
def test_the_power_of_mcnemars_test_is_a_sum_over_all_outcomes(n: int, tenths: int, data: st.DataObject) -> None:
    effect = data.draw(st.integers(-tenths, tenths)) / 10
    changed = tenths / 10
    up, down = (changed + effect) / 2, (changed - effect) / 2
    power = sum(
        scipy.stats.multinomial.pmf([a, b, n - a - b], n, [up, down, 1 - changed])
        for a in range(n + 1)
        for b in range(n + 1 - a)
        if mcnemar(a, b) <= 0.05
    )
    assert mcnemar_power(n, changed, effect) == pytest.approx(power, abs=1e-9)


def test_the_needed_rows_are_the_fewest_that_are_enough() -> None:
    n = needed_for_mean(0.02, 0.3, design_effect=1.5, cluster_size=3)
    at, below = (detectable_mean(rows, 0.3, design_effect=1.5, cluster_size=3) for rows in (n, n - 1))
    assert at is not None
    assert below is not None
    assert at <= 0.02 < below
    n = needed_for_share(0.03, 0.18)
    assert mcnemar_power(n, 0.18, 0.03) >= 0.8 > mcnemar_power(n - 1, 0.18, 0.03)
    # The formula for large samples (Miettinen 1968), a little below because the exact test asks for more.
    z, z_power = 1.959964, 0.841621
    assert n == pytest.approx(((z + z_power) ** 2 * 0.18 / 0.03**2), rel=0.04)


def test_a_difference_larger_than_what_changed_needs_more_changes() -> None:
    # Nothing changed in 40 rows: 6 changes one way would have been seen, and 20 % of 40 bring 6 with a chance of .8.
    effect = detectable_share(40, 0.0)
    assert effect is not None
    assert scipy.stats.binom.sf(5, 40, effect) == pytest.approx(0.8, abs=1e-4)
    assert needed_for_share(1.0, 0.0) == 6
    assert detectable_share(5, 0.5) is None
    assert detectable_share(6, 0.5) == pytest.approx(0.8 ** (1 / 6), abs=1e-4)


def test_planning_from_a_comparison() -> None:
    rng = np.random.default_rng(4)
    old, new = (rng.random(400) < 0.6).astype(float), (rng.random(400) < 0.6).astype(float)
    binary = paired_difference(old, new, binary=True)
    assert binary.fixed is not None
    assert binary.broken is not None
    assert minimum_detectable(binary) == detectable_share(400, (binary.fixed + binary.broken) / 400)
    graded = paired_difference(old, new)
    assert graded.sd is not None
    assert minimum_detectable(graded, power=0.9) == detectable_mean(400, graded.sd, power=0.9)
    # The two plan for nearly the same test.
    assert minimum_detectable(graded) == pytest.approx(minimum_detectable(binary), rel=0.05)


def test_where_there_is_no_telling_none_is_said() -> None:
    assert minimum_detectable(paired_difference([0.1], [0.4])) is None
    assert minimum_detectable(paired_difference([0.1, 0.5, 0.2], [0.1, 0.5, 0.2])) is None
    assert minimum_detectable(paired_difference([0, 1], [0, 1], binary=True)) is None
    assert minimum_detectable(paired_difference([0.1, 0.5], [0.3, 0.1], clusters=["a", "a"])) is None
    assert detectable_mean(6, 0.2, cluster_size=4) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: detectable_mean(0, 0.1), "n: at least one row"),
        (lambda: detectable_mean(10, -0.1), "finite sd"),
        (lambda: detectable_mean(10, math.nan), "finite sd"),
        (lambda: detectable_mean(10, math.inf), "finite sd"),
        (lambda: detectable_mean(10, 0.1, cluster_size=0.5), "cluster_size of at least 1"),
        (lambda: detectable_mean(10, 0.1, power=1.0), "level and power"),
        (lambda: detectable_mean(10, 0.1, power=0.01), "level and power"),
        (lambda: needed_for_mean(0.0, 0.1), "effect: at least 0.0001"),
        (lambda: needed_for_share(-0.1, 0.1), "effect: at least 0.0001"),
        (lambda: needed_for_share(1.5, 0.1), "effect: at most 1"),
        (lambda: mcnemar_power(10, 0.1, 0.2), r"\|effect\| <= changed <= 1 is needed, not 0.2 and 0.1"),
        (lambda: detectable_share(10, 1.5), "changed: a share is needed, not 1.5"),
    ],
)
def test_unusable_plans_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


@cache
def gate(fixed: int, broken: int, n: int, margin: float) -> str:
    return decide(tango(fixed, broken, n), margin)


def decisions(n: int, fixed: float, broken: float, margin: float, seed: int) -> list[str]:
    draws = np.random.default_rng(seed).multinomial(n, [fixed, broken, 1 - fixed - broken], 6000)
    return [gate(int(a), int(b), n, margin) for a, b, _ in draws]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.019, 0.03, "PASS"),
        (0.01, 0.03, "PASS"),
        (-0.05, -0.021, "FAIL"),
        (-0.03, -0.01, "INCONCLUSIVE"),
        (-0.03, 0.05, "INCONCLUSIVE"),
        (-0.02, 0.05, "INCONCLUSIVE"),
        (-0.05, -0.02, "INCONCLUSIVE"),
    ],
)
def test_the_definition(low: float, high: float, expected: str) -> None:
    assert decide(Interval(low, high, "t"), 0.02) == expected


def test_no_interval_is_no_pass() -> None:
    assert decide(None, 0.5) == "INCONCLUSIVE"


def test_unusable_margins_are_refused() -> None:
    for margin in (-0.01, math.nan, math.inf):
        with pytest.raises(ValueError, match="margin: a finite number of at least 0 is needed"):
            decide(None, margin)
        with pytest.raises(ValueError, match="margin: "):
            needed_to_decide(None, margin, 10)
    with pytest.raises(ValueError, match="n: at least one row is needed, not 0"):
        needed_to_decide(None, 0.1, 0)


@pytest.mark.parametrize("changed", [0.05, 0.18, 0.4])
def test_at_a_margin_of_0_equal_releases_rarely_get_an_answer(changed: float) -> None:
    found = decisions(400, changed / 2, changed / 2, 0.0, seed=1)
    # Each false answer has a nominal chance of 2.5 %.
    assert share(decision == "FAIL" for decision in found) <= 0.035
    assert share(decision == "PASS" for decision in found) <= 0.035
    assert share(decision == "INCONCLUSIVE" for decision in found) >= 0.94


def test_graded_scores_at_a_margin_of_0() -> None:
    rng = np.random.default_rng(2)
    old, new = rng.beta(4, 2, (2000, 100)), rng.beta(4, 2, (2000, 100))
    found = [decide(paired_difference(a, b, permutations=1).interval, 0.0) for a, b in zip(old, new, strict=True)]
    assert share(decision == "FAIL" for decision in found) <= 0.035
    assert share(decision == "PASS" for decision in found) <= 0.035


def test_a_release_that_is_worse_by_the_margin_passes_1_time_in_40() -> None:
    found = decisions(1000, 0.08, 0.10, 0.02, seed=3)
    assert 0.015 <= share(decision == "PASS" for decision in found) <= 0.035
    assert 0.015 <= share(decision == "FAIL" for decision in found) <= 0.035


def test_the_needed_rows_bring_the_stated_chance_to_pass() -> None:
    interval = tango(54, 54, 600)
    needed = needed_to_decide(interval, 0.03, 600)
    assert needed is not None
    # Planned by the textbook: (1.96 + .84)^2 * .18 / .03^2.
    assert needed == pytest.approx((1.959964 + 0.841621) ** 2 * 0.18 / 0.03**2, rel=0.05)
    found = decisions(needed, 0.09, 0.09, 0.03, seed=4)
    assert share(decision == "PASS" for decision in found) == pytest.approx(0.8, abs=0.03)


def test_the_needed_rows_follow_power_level_and_width() -> None:
    interval = Interval(-0.05, 0.05, "t")
    z, z_power = scipy.stats.norm.ppf(0.975), scipy.stats.norm.ppf(0.8)
    assert needed_to_decide(interval, 0.05, 100) == math.ceil(100 * ((z + z_power) / z) ** 2)
    assert needed_to_decide(interval, 0.05, 100, power=0.5) == 100
    assert needed_to_decide(Interval(-0.1, 0.1, "t"), 0.05, 100, power=0.5) == 400
    assert needed_to_decide(interval, 0.0, 100) is None
    assert needed_to_decide(None, 0.05, 1) is None
