"""Calibration from a warehouse and from files, kept for the gate, expired with the signature."""

import json

import numpy as np
import pytest

from answerkey.metrics_core.decide.agreement import agreement
from answerkey.metrics_core.decide.ppi import ppi_mean
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.calibrate import calibrate, columns_of, store_calibration
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.gate.labels import read_labels
from answerkey.tasks.warehouse.home import Home
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import jsonl, query, refusal

FIELD = "judge.match"


def judged(release, n=400, labelled=400, seed=0, errors=0.1, **more):
    """A release with a judge that is wrong on a share `errors` of the answers; people labelled the first ones."""
    rng = np.random.default_rng(seed)
    truth, wrong = rng.random(n) < 0.7, rng.random(n) < errors
    names = [f"q{i:04}" for i in range(n)]
    return Made(
        release,
        {FIELD: dict(zip(names, (truth ^ wrong).astype(float).tolist(), strict=True))},
        labels=dict(zip(names[:labelled], truth.tolist(), strict=False)),
        signatures={"judge": "judge|v1|prompt:aaa"} | more,
    )


def test_the_labels_that_came_with_the_answers(home):
    made = judged("a"), judged("b", seed=1)
    ids = warehouse(home, made)
    calibration = calibrate(home, FIELD, reports=["a", "b"])
    assert (calibration.report_ids, calibration.labels, calibration.signature) == (
        tuple(ids),
        "answers.correct",
        "judge|v1|prompt:aaa",
    )
    whole, a, _ = calibration.parts
    scores = [*made[0].scores[FIELD].values(), *made[1].scores[FIELD].values()]
    labels = [*made[0].labels.values(), *made[1].labels.values()]
    assert whole.agreement == agreement(scores, labels, clusters=[*made[0].labels, *made[1].labels])
    assert (whole.n, whole.clusters, a.release, a.n) == (800, 400, "a", 400)


def test_a_part_of_the_labels_corrects_the_mean_of_all(home):
    made = judged("a", n=1000, labelled=100, errors=0.15)
    warehouse(home, [made])
    [corrected] = calibrate(home, FIELD, reports=["a"]).corrected
    scores = [float(v) for v in made.scores[FIELD].values()]
    labels = [made.labels.get(name) for name in made.scores[FIELD]]
    assert corrected.corrected == ppi_mean(scores, [None if v is None else float(v) for v in labels])
    assert (corrected.corrected.labelled, corrected.corrected.unlabelled) == (100, 900)
    assert corrected.raw.value == pytest.approx(np.mean(scores))
    # The truth is .7: a judge that errs on 15 % of each kind reports .64, with a narrow interval.
    assert corrected.raw.interval.high < 0.7 < corrected.corrected.interval.high


@pytest.mark.nightly
def test_what_is_kept_can_be_demanded_until_the_signature_changes(home, tmp_path):
    warehouse(home, [judged("a"), judged("b")])
    rules = parse_policy({"primary": FIELD, "margin": 0.1, "rules": [f"kappa {FIELD} >= 0.6"]}, "x")
    store_calibration(home, calibration := calibrate(home, FIELD, reports=["a", "b"]))
    after = gate(home, "a", "b", rules).verdict
    assert after.outcome == "PASS"
    kappas = [part.agreement.kappa.value for part in calibration.parts[1:]]
    assert after.rules[1].value == min(kappas)
    assert "400 labels that came with the answers" in after.rules[1].sentence
    rows = query(home, "SELECT release, n FROM calibrations ORDER BY release NULLS FIRST")
    assert rows == [(None, 800), ("a", 400), ("b", 400)]
    columns = {row[0] for row in query(home, "SELECT column_name FROM (DESCRIBE calibrations)")}
    assert set(columns_of(calibration, calibration.parts[0])) <= columns
    other = tmp_path / "other"
    warehouse(other, [judged("a", judge="judge|v1|prompt:bbb"), judged("b", judge="judge|v1|prompt:bbb")])
    store_calibration(Home(other), calibration)
    expired = gate(Home(other), "a", "b", rules).verdict
    assert expired.outcome == "INCOMPLETE"
    assert "its calibration on answers of a has expired (prompt aaa → bbb); run answerkey" in expired.rules[1].sentence


def test_a_file_of_labels_takes_the_place_of_those_in_the_answers(tmp_path):
    made = judged("a", n=40)
    warehouse(tmp_path / "home", [made])
    rows = [
        {"id": name, "label": "yes" if value else "No", "second": "yes" if i else None}
        for i, (name, value) in enumerate(list(made.scores[FIELD].items())[:20])
    ]
    file = jsonl(tmp_path / "labels.jsonl", [*rows, {"id": "q0030", "label": "nan"}, {"id": "gone", "label": 1}])
    calibration = calibrate(Home(tmp_path / "home"), FIELD, reports=["a"], labels=file)
    [whole, _] = calibration.parts
    assert (whole.n, whole.agreement.accuracy.value, calibration.n_without_score, calibration.labels) == (
        20,
        1.0,
        1,
        file,
    )
    assert whole.ceiling.n == 19
    # A spreadsheet's mark before the id, which cannot be seen
    marked = jsonl(tmp_path / "marked.jsonl", [{**row, "id": f"\ufeff{row['id']}"} for row in rows])
    assert calibrate(Home(tmp_path / "home"), FIELD, reports=["a"], labels=marked).parts[0].n == 20


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"label": 1}], r"row 1: no id; name the column with --map id=COLUMN"),
        ([{"id": "a", "label": "maybe"}], r"row 1: label 'maybe' is neither true nor false"),
        ([{"id": "a", "label": 1}, {"id": "a", "label": 0}], r"row 2: a second label for a of all releases; keep one"),
        ([{"id": "a", "label": None}], r"no row has a label; name the column with --map label=COLUMN"),
        ([{"id": "a", "label": 1, "score": "inf"}], r"row 1: score 'inf' is neither a number nor true or false"),
        ([{"id": ["a"], "label": 1}], r"row 1: id is a list; map one item of it"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, rows, line):
    assert line in refusal(read_labels, jsonl(tmp_path / "labels.jsonl", rows))


def test_what_cannot_be_calibrated_says_why(home, tmp_path):
    warehouse(home, [judged("a", labelled=0), judged("b", judge="judge|v1|prompt:bbb")])
    for arguments, line in (
        ({"name": "judge"}, "judge: write METRIC.FIELD"),
        ({"name": "judge.mach", "reports": ["a"]}, r"judge.mach: faq/a/v1 has judge.match"),
        ({"name": FIELD, "reports": ["a"]}, "no answer has a score and a label"),
        ({"name": FIELD, "reports": ["a", "b"]}, "faq/b/v1 and faq/a/v1 were not scored in the same way; name one"),
    ):
        assert line in refusal(calibrate, home, **arguments)
    file = jsonl(tmp_path / "labels.jsonl", [{"id": "elsewhere", "label": 1}])
    assert "no label is about an answer of these reports; the first is 'elsewhere', and an id of the " in refusal(
        calibrate, home, FIELD, reports=["a"], labels=file
    )


@pytest.mark.parametrize(
    ("judge", "n", "kappa"),
    [("judge_bem", 3572, 0.637), ("judge_gpt4", 3561, 0.685), ("judge_davinci003", 3573, 0.672)],
)
def test_three_judges_of_nq301(shared, tmp_path, judge, n, kappa):
    found = stored(shared, tmp_path, judge)
    whole, *systems = found.parts
    assert (whole.n, whole.clusters, len(systems), found.signature) == (n, 301, 12, f"{judge}|stored")
    assert whole.agreement.kappa.value == pytest.approx(kappa, abs=5e-4)
    assert whole.agreement.base_rate == pytest.approx(0.693, abs=3e-3)
    for part in found.parts:
        row = columns_of(found, part)
        for name in ("kappa", "ac1", "sensitivity", "specificity", "bias"):
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    assert json.loads(json.dumps(columns_of(found, whole), allow_nan=False))["n_clusters"] == 301


def test_two_annotators_and_a_graded_score_of_nq301(shared, tmp_path):
    more = ["label=meta.annotators.0", "second=meta.annotators.1"]
    whole = stored(shared, tmp_path, "bem_p_equiv", *more).parts[0]
    assert whole.ceiling.kappa.value == pytest.approx(0.735, abs=0.01)
    assert whole.auroc.interval.low < 0.881 < whole.auroc.interval.high
    assert whole.threshold.interval.low <= whole.threshold.value <= whole.threshold.interval.high


def stored(shared, tmp_path, judge, *more):
    paths = ["id=meta.question_id", "release=model", "label=human_label", f"score=meta.{judge}", *more]
    return calibrate(Home(tmp_path), f"{judge}.match", labels=str(shared / "data/nq301/nq301.jsonl"), mapping=paths)
