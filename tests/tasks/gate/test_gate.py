"""The gate on reports in a warehouse: evidence, coverage, missing things, real releases."""

from datetime import datetime
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from answerkey.metrics_core.decide.verdict import RuleOutcome, Verdict
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.metrics_core.registry import create
from answerkey.tasks.gate.calibrate import calibrate, store_calibration
from answerkey.tasks.gate.gate import check_fields, gate, read_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict, junit, stored_verdicts, worst
from answerkey.tasks.releases.register import keep_gate, kept_gate
from tests.tasks.gating_help import Made, evouna, warehouse
from tests.tasks.staging_help import at, jsonl, query, refusal, run, source_of

FIELD = "label.correct"


def policy(margin=0.02, *rules, primary=FIELD):
    return parse_policy({"primary": primary, "margin": margin, "rules": list(rules)}, "x")


def decided(home, old, new, rules, **both):
    ids = warehouse(home, [Made("old", {FIELD: old}, **both), Made("new", {FIELD: new}, **both)])
    return gate(at(home), *ids, rules)


def scores(n, wrong):
    return {f"q{i:04}": float(i >= wrong) for i in range(n)}


def test_releases_and_reports_can_be_named(home):
    ids = warehouse(home, [Made("old", {FIELD: scores(500, 50)}), Made("new", {FIELD: scores(500, 150)})])
    assert ids == ["faq/old/v1", "faq/new/v1"]
    gated = gate(home, "old", "faq/new", policy())
    assert (gated.old, gated.new, gated.verdict.outcome) == (*ids, "FAIL")
    assert gated == gate(home, *ids, policy())
    assert gated.verdict.sentence.startswith(
        "new must not ship in place of old: label.correct went from 0.900 to 0.700"
    )
    assert "cannot be compared with itself" in refusal(gate, home, "old", "old", policy())
    assert "newest: no such report or release" in refusal(gate, home, "old", "newest", policy())


def test_what_is_missing_or_cannot_be_gated_is_incomplete(home):
    fields = dict.fromkeys((FIELD, "judge.match", "bleu.corpus_bleu"), scores(900, 0))
    signed = (("old", "judge|v2|prompt:a1"), ("new", "judge|v2|prompt:b2"))
    warehouse(home, [Made(name, fields, signatures={"judge": signature}) for name, signature in signed])
    for old, primary, words in (
        ("gone", FIELD, "there is no report or release gone"),
        ("old", "label.corect", "label.corect: faq/old/v1 has no such field; did you mean label.correct?"),
        ("old", "judge.match", "computed in a different way, prompt a1 → b2; evaluate both releases with the same"),
        ("old", "bleu.corpus_bleu", "use bleu.bleu"),
    ):
        verdict = gate(home, old, "new", policy(primary=primary)).verdict
        assert (verdict.outcome, verdict.rules[0].outcome) == ("INCOMPLETE", "INCOMPLETE")
        assert words in verdict.sentence


def test_samples_that_one_release_left_out_count_against_it(home):
    old, new = scores(1000, 0), scores(1000, 0)
    for i in range(20):
        new[f"q{i:04}"] = "failed: timeout"
        new[f"q{i + 100:04}"] = "undefined: not labelled"
        del new[f"q{i + 200:04}"]
    # Undefined in both: these count for neither release.
    for i in range(500, 900):
        old[f"q{i:04}"] = new[f"q{i:04}"] = None
    gated = decided(home, old, new, policy())
    assert gated.verdict.outcome == "INCOMPLETE"
    assert gated.verdict.rules[1].sentence == (
        "label.correct has the least: 540 of 600 samples of new (20 absent, 20 failed, 20 undefined) have a "
        "comparable number; score what failed again with --only-failed, or evaluate what is absent"
    )
    # With 20 of 600 lost for certain and 40 unknown, the loss is .033 to .1.
    for margin, outcome, values in ((0.01, "FAIL", (-20 / 600, 20, 40)), (0.15, "PASS", (-60 / 600, 20, 40))):
        [rule, _] = gate(home, "old", "new", policy(margin, "coverage >= 0.9")).verdict.rules
        assert (rule.outcome, rule.value, rule.n_unanswered, rule.n_unmeasured) == (outcome, *values)
    [rule, _] = gate(home, "old", "new", policy(0.06, "coverage >= 0.9")).verdict.rules
    assert (rule.outcome, rule.value) == ("INCOMPLETE", -60 / 600)
    assert rule.sentence.endswith(
        "600 samples, 20 of them not answered by new and counted as 0: 20 absent, 40 of them not scored and counted "
        "as 0: 20 failed (timeout), 20 undefined (not labelled)); this decides nothing, because it would be PASS "
        "if what was not scored had the best values; score what failed again with --only-failed, or complete the data "
        "set"
    )


def test_answers_that_were_not_measured_never_pass_and_never_fail_by_themselves(home):
    """A judge that was down for 30 of 1,000 answers, alone and beside answers that are missing."""
    down = scores(1000, 100) | {f"q{i:04}": "failed: timeout" for i in range(200, 230)}
    over_budget = {name: "skipped: budget" if isinstance(v, str) else v for name, v in down.items()}
    also_missing = down | {f"q{i:04}": "unanswered" for i in range(300, 349)}
    undefined = scores(1000, 100) | dict.fromkeys([f"q{i:04}" for i in range(200, 249)], "undefined: blank answer")
    no_question = {
        name: "undefined: no question: it is missing or blank" if v == "undefined: blank answer" else v
        for name, v in undefined.items()
    }
    made = {
        "old": scores(1000, 100), "down": down, "budget": over_budget, "both": also_missing, "blank": undefined,
        "question": no_question,
    }  # fmt: skip
    warehouse(home, [Made(name, {"judge.match": found}) for name, found in made.items()])
    rules = policy(0.02, "level judge.match >= 0.86", "coverage >= 0.9", primary="judge.match")
    outcomes = {
        name: [rule.outcome for rule in gate(home, "old", name, rules).verdict.rules] for name in list(made)[1:]
    }
    assert outcomes == {
        "down": ["INCOMPLETE", "INCOMPLETE", "PASS"],
        "budget": ["INCOMPLETE", "INCOMPLETE", "PASS"],
        "both": ["FAIL", "INCOMPLETE", "PASS"],
        "blank": ["FAIL", "INCONCLUSIVE", "PASS"],
        "question": ["INCOMPLETE", "INCOMPLETE", "PASS"],
    }
    wide = policy(0.08, primary="judge.match")
    assert gate(home, "old", "down", wide).verdict.outcome == "PASS"


def test_slices_and_clusters_come_from_the_reports(tmp_path):
    names = sorted(scores(400, 0))
    slices = {name: {"lang": "ru" if i < 100 else "en"} for i, name in enumerate(names)}
    rules = policy(0.3, f"{FIELD}[lang=ru] >= -0.05", f"{FIELD}[lang=fr] >= -0.05")
    new = scores(400, 60)
    gated = decided(tmp_path / "a", scores(400, 0), new, rules, slices=slices)
    assert [rule.outcome for rule in gated.verdict.rules] == ["PASS", "FAIL", "INCOMPLETE", "PASS"]
    assert (gated.verdict.rules[1].value, gated.verdict.rules[1].n) == (-0.6, 100)
    assert "label.correct[lang=fr]: the two reports have no slice lang=fr in common" in gated.verdict.rules[2].sentence
    clusters = {name: str(i // 100) for i, name in enumerate(names)}
    gated = decided(tmp_path / "b", scores(400, 0), new, policy(0.1), clusters=clusters)
    assert gated.verdict.outcome == "INCONCLUSIVE"
    assert gated.verdict.rules[0].n_clusters == 4
    assert ", 400 samples in 4 clusters); a loss of 0.1 or more is not ruled out, and with 4 clus" in (
        gated.verdict.sentence
    )


def test_policy_files(tmp_path):
    file = tmp_path / "gate.yaml"
    file.write_text("primary: label.correct\nmargin: 0.02\nrules:\n  - label.correct[lang=ru] >= -0.05\n")
    assert [rule.text for rule in read_policy(str(file)).rules] == [
        "label.correct >= -0.02", "label.correct[lang=ru] >= -0.05", "coverage >= 0.95",
    ]  # fmt: skip
    file.write_text("primary: label.correct\nmargin: 0.02\nrules:\n  - label.correct >= -0.05\n  - recall > 0\n")
    assert "gate.yaml:5: rule 'recall > 0': not understood; write METRIC.FIELD >= -0" in refusal(read_policy, str(file))
    file.write_text("primary: !!python/object/apply:os.getcwd []")
    assert "not YAML" in refusal(read_policy, str(file))
    assert "No such file" in refusal(read_policy, str(tmp_path / "none.yaml"))
    # Each line stands for ten times the one before.
    lines = [
        "a: &a [1]",
        *(f"{name}: &{name} [{', '.join(['*' + before] * 10)}]" for before, name in pairwise("abcdefghij")),
    ]
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"gate.yaml:\d+: more than 200,000 values$"):
        read_policy(str(file))


def test_a_policy_may_be_its_own_text():
    texts = ("primary: label.correct\nmargin: 0.02\n", '{"primary": "label.correct", "margin": 0.02}')
    assert {read_policy(text) for text in texts} == {policy(0.02)}
    assert refusal(read_policy, "{primary: label.correct}").startswith("policy:1: margin: missing")


def test_a_policy_is_refused_before_anything_is_scored_if_the_run_cannot_have_its_fields():
    check_fields(policy(0.02, "rouge_l.recall >= -0.03"), create(["rouge_l"]))
    assert "rouge_l.recal: this run will have no such field; did you mean rouge_l.rec" in refusal(
        check_fields, policy(primary="rouge_l.recal"), create(["rouge_l", "bleu"])
    )
    assert "meaning_match.match: this run will have no such field; it has bleu.bleu" in refusal(
        check_fields, policy(0.02, "kappa meaning_match.match >= 0.6"), create(["bleu"])
    )


def test_verdicts_are_kept_and_the_newest_counts(home):
    ids = warehouse(home, [Made(n, {FIELD: scores(500, wrong)}) for n, wrong in (("old", 50), ("new", 150))])
    first = gate(home, *ids, policy())
    assert stored_verdicts(home, [ids[1]]) == (first,)
    second = gate(home, *ids, policy(0.4))
    missing = gate(home, "gone", "new", policy())
    assert (second.verdict.outcome, second.margin) == ("PASS", 0.4)
    assert stored_verdicts(home, [ids[1]]) == (second, missing)
    assert stored_verdicts(home, [ids[0]]) == ()
    rows = query(home, "SELECT old_report, outcome, rules->0->>'outcome' FROM verdicts ORDER BY created_at")
    assert rows == [(ids[0], "FAIL", "FAIL"), (ids[0], "PASS", "PASS"), ("gone", "INCOMPLETE", "INCOMPLETE")]
    assert worst([second, missing]) == "INCOMPLETE"
    assert worst([second, missing, first]) == "FAIL"


def test_releases_that_each_lose_a_little_ship_only_where_the_policy_moves_the_baseline(home):
    # Each loses .04 of 2,000 answers
    first, *reports = warehouse(home, [Made(f"r{n}", {FIELD: scores(2000, 80 * n)}) for n in range(4)])
    outcomes = {"anchor": ["PASS", "FAIL", "FAIL"], "last shipped": ["PASS"] * 3}
    for baseline, expected in outcomes.items():
        policy = parse_policy({"primary": FIELD, "margin": 0.05, "baseline": baseline}, "x")
        keep_gate(home, "faq", first, policy)

        verdicts = [gate(home, kept_gate(home, "faq")[0], report, policy).verdict for report in reports]

        assert [verdict.outcome for verdict in verdicts] == expected
        said = f" Against the anchor {first}: {FIELD} went from 1.000 to 0.880 (-0.120, 95 % interval -0.1"
        assert (said in verdicts[-1].sentence) == (baseline == "last shipped")


def test_two_reports_of_one_release_go_by_their_versions(home):
    rows = [{"id": f"q{i}", "reference": "yes", "answer": "yes"} for i in range(300)]
    for _ in range(2):
        run(home, source_of(home, rows, "faq", release="r"), ["exact_match"])
    gated = gate(home, "faq/r/v1", "faq/r/v2", policy(primary="exact_match.match"))
    assert gated.verdict.sentence.startswith("r v2 may ship in place of r v1: exact_match.match went")


@pytest.mark.nightly
def test_a_judge_is_calibrated_on_both_releases_or_not_at_all(home, tmp_path):
    """Good on the old release, never tried on the new one, then bad on it."""
    name, labels = "judge.match", {f"q{i:04}": i >= 50 for i in range(500)}
    made = [
        Made(release, {name: scores(500, 50)}, labels=labels if release == "old" else {}) for release in ("old", "new")
    ]
    warehouse(home, made)
    rules = policy(0.02, f"kappa {name} >= 0.6", primary=name)
    assert "judge.match: it was never calibrated; run" in gate(home, "old", "new", rules).verdict.rules[1].sentence
    store_calibration(home, calibrate(home, name, reports=["old"]))
    verdict = gate(home, "old", "new", rules).verdict
    assert (verdict.outcome, verdict.rules[1].outcome) == ("INCOMPLETE", "INCOMPLETE")
    assert verdict.rules[1].sentence == (
        "judge.match: it was calibrated on answers of old, and not on those of new; run answerkey calibrate "
        "judge.match --report faq/old/v1 --report faq/new/v1"
    )
    for wrong, outcome, words in (
        (50, "PASS", "kappa of judge.match on old is 1.000"),
        (450, "INCOMPLETE", "kappa of judge.match on new is 0.0"),
    ):
        rows = [{"id": f"q{i:04}", "label": int(i >= 50 if wrong == 50 else i % 2)} for i in range(500)]
        people = jsonl(tmp_path / f"people{wrong}.jsonl", rows)
        store_calibration(home, calibrate(home, name, reports=["new"], labels=people))
        verdict = gate(home, "old", "new", rules).verdict
        assert (verdict.outcome, verdict.rules[1].outcome) == (outcome, outcome)
        assert verdict.rules[1].sentence.startswith(words)
    assert f"500 labels of {people}" in verdict.rules[1].sentence


def test_junit_has_one_case_per_rule_and_survives_any_name():
    nasty = '<script>alert(1)</script> "><img onerror=x> & \x00\x1b[31m \ud800 ]]> \u202e'
    outcomes = ("PASS", "FAIL", "INCONCLUSIVE", "INCOMPLETE")
    rules = tuple(RuleOutcome(f"rule {nasty} {outcome}", outcome, f"why {nasty}") for outcome in outcomes)
    decided_at = datetime(2026, 5, 1, 7)
    verdict = ReleaseVerdict(nasty, "new", policy(), Verdict("FAIL", nasty, rules))
    [lenient] = ElementTree.fromstring(junit(verdict, decided_at, 1.5, allow_inconclusive=True).encode())
    assert [lenient.get(name) for name in ("failures", "errors", "skipped")] == ["1", "1", "1"]
    written = junit(verdict, decided_at, 1.5).encode()
    [suite] = ElementTree.fromstring(written)
    assert (suite.get("timestamp"), suite.get("time")) == ("2026-05-01T07:00:00", "1.500")
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["4", "2", "1"]
    cases = suite.findall("testcase")
    shown = nasty.replace("\x00", "�").replace("\x1b", "�").replace("\ud800", "�")
    assert [case.get("name") for case in cases] == [f"rule {shown} {outcome}" for outcome in outcomes]
    assert [[child.tag for child in case] for case in cases] == [
        ["system-out"], ["failure"], ["failure"], ["error"],
    ]  # fmt: skip
    assert cases[0][0].text == f"why {shown}"
    assert cases[1][0].get("message") == f"FAIL: why {shown}"
    assert b"<script>" not in written


@pytest.mark.nightly
def test_real_releases(home, shared):
    labels = evouna(shared)
    warehouse(home, [Made(name, {FIELD: labels[name]}) for name in ("chatgpt", "gpt4", "newbing")])
    assert gate(home, "chatgpt", "gpt4", policy(0)).verdict.outcome == "PASS"
    assert gate(home, "gpt4", "newbing", policy(0)).verdict.outcome == "INCONCLUSIVE"
