"""What evaluate returns: outcomes, the numbers of a report, and what may be said about a difference."""

import gc
import pickle
import tempfile
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from answerkey import Sample, Scored, create, evaluate
from answerkey.metrics_core.comparison import Comparison, FieldComparison, adjust
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Field, Metric
from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, run

METRICS = ("exact_match", "token_overlap")
N = 40


def frame(right, rows=N, **columns):
    """Answers to questions, one of which nobody can answer, in groups of two."""
    made = {
        "id": [f"q{n}" for n in range(rows)],
        "question": [f"Question {n}?" for n in range(rows)],
        "answer": [None if n == 7 else f"city {n}" if right(n) else "no idea" for n in range(rows)],
        "reference": [f"City {n}" for n in range(rows)],
    }
    return pd.DataFrame({**made, **columns})


OLD, NEW = frame(lambda n: n % 3 == 0), frame(lambda n: n % 3 != 1)


@pytest.fixture(scope="module")
def results():
    return evaluate(OLD, METRICS), evaluate(NEW, METRICS)


@pytest.fixture(scope="module")
def releases():
    """Both releases of one frame."""
    return evaluate(both(), METRICS)


@pytest.fixture(scope="module")
def undefined():
    """Nine right answers but for a blank one, which has no score."""
    return evaluate(frame(lambda _: True, 9), METRICS, blank_answer="undefined")


def both(**columns):
    """Both releases in one frame, with a human label for each answer. Row 39 is missing in the new release."""
    rows = pd.concat([OLD.assign(model="old"), NEW.assign(model="new").iloc[:-1]], ignore_index=True)
    right = [text == f"city {n[1:]}" for text, n in zip(rows["answer"], rows["id"], strict=True)]
    return rows.assign(right=right, **columns)


def test_numbers_and_verdicts_are_those_of_the_command_line(tmp_path):
    frame = both()
    frame["cluster"] = [f"c{int(n[1:]) // 2}" for n in frame["id"]]
    # Without a word, a release has no answer; the command line takes a row without one for a blank answer.
    file = jsonl(tmp_path / "answers.jsonl", frame.to_dict("records"))
    metrics = (*METRICS, "meaning_match")
    run(tmp_path / "home", Source(file, dataset="d", paths={"label": "right"}), metrics)
    home, results = Home(tmp_path / "home"), evaluate(frame, metrics, label="right")
    [report] = read_reports(home, ["d/new/v1"])
    summary = results["new"].summary()
    for score in report.overall:
        mean, low, high, scored, total = summary.loc[score.name]
        assert (scored, total) == (score.n_scored, score.n_total)
        assert (mean, low, high) == pytest.approx((score.mean, score.ci_low, score.ci_high), abs=1e-6)
    there, here = compare(home, "d/old/v1", "d/new/v1"), results.compare("new", "old")
    assert here.rows == there.rows
    assert here.rows[0].name == "label.correct"
    for primary, rules in (("label.correct", []), ("exact_match.match", ["level token_overlap.recall >= 0.2"]),
                           ("meaning_match.match", [])):  # fmt: skip
        policy = {"primary": primary, "margin": 0.1, "rules": rules}
        assert results.gate(**policy).rules == gate(home, "old", "new", parse_policy(policy, "policy")).verdict.rules


def test_a_frame_with_releases_gives_the_result_of_each(releases):
    assert list(releases) == ["old", "new"]
    assert [len(result.samples) for result in releases.values()] == [N, N - 1]
    assert list(releases["new"].scores("exact_match.match"))[:3] == [1.0, 0.0, 1.0]
    comparison = releases.compare("new", "old")
    assert comparison == releases.compare() == releases["new"].compare(releases["old"])
    assert (comparison.old, comparison.new, comparison.n_common) == ("old", "new", N - 1)
    assert "old → new: 39 samples in both" in comparison.to_html()
    headline = comparison.to_markdown().splitlines()[4]
    assert headline.startswith("| exact\\_match.match    | 0.333 | 0.667 | +0.333 \\[+0.165, ")
    lines = str(releases).splitlines()
    assert [cell.strip() for cell in lines[2].split("|")] == ["", "", "old", "new", ""]
    assert [line.split("|")[1].strip() for line in lines[4:6]] == [
        "exact_match.match", "token_overlap.recall",
    ]  # fmt: skip


def test_a_frame_with_one_release_gives_its_result_by_name():
    results = evaluate(OLD.assign(model="old"), METRICS)
    assert list(results) == ["old"]
    with pytest.raises(UserError, match="name the new and the old release, of old"):
        results.compare()


def test_the_gate_names_its_reasons(releases):
    verdict = releases.gate(margin=0.02)
    assert (verdict.outcome, verdict.basis) == ("PASS", "text")
    assert verdict.sentence.startswith("new may ship in place of old")
    assert [rule.rule for rule in verdict.rules] == ["exact_match.match >= -0.02", "coverage >= 0.95"]
    assert ">PASS</td>" in verdict.to_html()
    assert "| coverage &gt;= 0.95" not in verdict.to_markdown()
    assert releases.gate("old", "new", margin=0.02).outcome == "FAIL"
    sliced = releases.gate(margin=0.02, rules=["exact_match.match[lang=en] >= -0.1", "kappa exact_match.match >= 0.6"])
    assert sliced.outcome == "INCOMPLETE"
    assert "the two reports have no slice lang=en in common" in sliced.rules[1].sentence


def test_slices_and_several_answers_count_as_on_the_command_line():
    def release(answers):
        return [
            Sample(f"q{n}", answer, ["Paris"], f"Question {n}?", slices={"lang": "en" if n < 20 else "de"})
            for n in range(40)
            for answer in answers(n)
        ]

    old = evaluate(release(lambda n: ["Rome", "Paris"]), METRICS)
    new = evaluate(release(lambda n: ["Paris", "Paris"] if n < 20 else ["Rome", "Rome"]), METRICS)
    rows = {row.slice: row for row in new.compare(old).rows if row.field == "match"}
    assert {name: (row.old, row.new, row.n_common) for name, row in rows.items()} == {
        "all": (0.5, 0.5, 40), "lang=de": (0.5, 0.0, 20), "lang=en": (0.5, 1.0, 20),
    }  # fmt: skip
    rules = [f"exact_match.match[lang={lang}] >= -0.1" for lang in ("en", "de")]
    verdict = new.gate(old, margin=0.4, rules=rules)
    assert [rule.outcome for rule in verdict.rules] == ["PASS", "PASS", "FAIL", "PASS"]


def test_a_metric_that_fails_everywhere_says_so():
    def length(answer, references):
        return float(len(answer))

    with pytest.warns(
        UserWarning, match=r"length has no score for any of 2 samples: .*outside 0\.0 to 1\.0 \(2 of them\)"
    ):
        result = evaluate([Sample(name, "Paris", ["Paris"]) for name in "ab"], [length])
    assert "length has no score for any of 2 samples" in result.to_html()
    assert "length has no score for any of 2 samples" in str(result)
    assert result.summary().loc["length.score", "scored"] == 0


def test_a_row_for_each_sample(results, undefined):
    table = results[1].to_pandas()
    assert list(table.columns[:5]) == ["id", "question", "answer", "references", "exact_match.match"]
    assert table.shape[0] == N
    assert table["exact_match.match"].mean() == pytest.approx(results[1].summary().loc["exact_match.match", "mean"])
    assert list(table["references"][3]) == ["City 3"]
    assert table.loc[7, ["exact_match.match", "exact_match.status"]].tolist() == [0.0, "scored"]
    assert pd.isna(table["answer"][7])
    without_score = undefined.to_pandas()
    assert np.isnan(without_score["exact_match.match"][7])
    assert without_score["exact_match.reason"][7] == "blank answer"


def test_the_worst_come_first_and_nothing_without_a_number(results, undefined):
    worst = results[1].worst(3)
    assert list(worst["id"]) == ["q1", "q4", "q7"]
    assert list(worst["exact_match.match"]) == [0.0, 0.0, 0.0]
    assert len(results[1].worst(10_000, "token_overlap.f1")) == N
    assert "q7" not in set(undefined.worst(9)["id"])


def test_what_got_worse_comes_first(results):
    changed = results[1].changed(results[0], 3)
    assert changed.empty
    changed = results[0].changed(results[1], 3)
    assert list(changed["sample_id"]) == ["q11", "q14", "q17"]
    assert (list(changed["old"]), list(changed["new"])) == ([1.0] * 3, [0.0] * 3)
    assert (changed["old_answer"][0], changed["new_answer"][0]) == ("city 11", "no idea")
    assert len(results[1].changed(results[0], field="token_overlap.f1", direction="better")) == 10


@dataclass(frozen=True)
class Words(Metric):
    """How many words an answer has: fewer are better."""

    name = "words"
    fields = (Field("n", high=9.0, lower_is_better=True),)

    def score(self, sample):
        return float(len((sample.answer or "").split()))


def test_where_less_is_better_more_is_worse():
    answers = (["a", "a b c", "a b"], ["a b", "a", "a b"])
    old, new = (
        evaluate([Sample(f"q{place}", text, ["a"]) for place, text in enumerate(texts)], [Words()]) for texts in answers
    )
    assert list(old.worst(3)["id"]) == ["q1", "q2", "q0"]
    assert list(new.changed(old)["sample_id"]) == ["q0"]
    assert list(new.changed(old, direction="better")["difference"]) == [-2.0]


def test_answers_to_one_question_are_not_independent():
    samples = [Sample(f"q{n % 5}", "a" if n % 5 < 3 else "b", ["a"]) for n in range(50)]
    [one] = evaluate(samples, ["exact_match"]).means(["exact_match.match"])
    [few] = evaluate(samples[:5], ["exact_match"]).means(["exact_match.match"])
    assert one.mean == few.mean == 0.6
    assert (one.low, one.high) == pytest.approx((few.low, few.high), abs=0.01)


def test_a_pair_is_written_once_and_goes_with_its_result(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new = evaluate(OLD, METRICS), evaluate(NEW, METRICS)
    assert new.gate(old, margin=0.02).outcome == "PASS"
    assert new.compare(old).rows[0].finding == "better"
    assert len(new.changed(old, direction="both")) == 10
    assert len(list(tmp_path.iterdir())) == 1
    del new
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_results_without_a_metric_in_common_say_so():
    samples = [Sample("q0", "Paris", ["Paris"], "?")]
    comparison = evaluate(samples, ["exact_match"]).compare(evaluate(samples, ["rouge_l"]))
    assert (comparison.rows, comparison.not_comparable) == ((), "the two reports have no field in common")
    assert "no field in common" in comparison._repr_html_()


def test_a_comparison_as_a_frame_and_as_a_table(results):
    comparison = results[1].compare(results[0], all_fields=True)
    table = comparison.to_pandas()
    assert list(table["field"]) == ["match", "precision", "recall", "f1"]
    assert set(table["finding"]) == {"better"}
    assert comparison.to_html() == comparison._repr_html_()
    assert "better" in comparison._repr_html_()
    assert "+0.325" in comparison._repr_html_()
    assert "Corrected for comparing 4 fields at once (Holm)" in comparison._repr_html_()
    assert "<td>0.000</td>" not in comparison._repr_html_()


def test_a_notebook_shows_texts_and_never_markup():
    samples = [Sample("<script>alert(1)</script>", "<b>", ["<b>"])]
    result = evaluate(samples, ["exact_match"])
    assert "<script" not in result._repr_html_() + result.worst()._repr_html_()
    assert "exact_match.match" in result._repr_html_()
    assert repr(result).splitlines()[-2:] == ["| exact_match.match | 1.000  |", "| scored/total      | 1/1    |"]
    assert evaluate([], ["exact_match"])._repr_html_().count("–") == 1
    assert repr(evaluate(samples, [])).startswith("1 sample: mean [95 % interval]")


def test_half_a_character_is_no_reason_to_show_nothing():
    result = evaluate([Sample("q0", "Paris \ud83d", ["Paris \ud83d"], "?")], ["exact_match"])
    assert list(result.to_pandas()["answer"]) == list(result.worst()["answer"]) == ["Paris ?"]
    assert [list(reference) for reference in result.to_pandas()["references"]] == [["Paris ?"]]


def test_it_is_a_list_and_goes_to_other_processes(results):
    restored = pickle.loads(pickle.dumps(results[0]))
    assert restored == results[0] == list(results[0])
    assert restored.compare(results[0]).rows[0].difference == 0
    assert len(results[0]) == 2 * N


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda one: one.compare(OLD), "the baseline is a DataFrame; give the result of"),
        (lambda one: one.compare(one, "exact_match.match"), "fields is the text 'exact_match.match'; give a list: "),
        (lambda one: one.compare(one, ["exact_match.mach"]), "exact_match.mach: these reports have .*did you mean"),
        (lambda one: one.worst("exact_match.match"), "n is 'exact_match.match'; give a count, and name a field"),
        (lambda one: one.worst(3, "recall"), "recall: this result has exact_match.match, "),
        (lambda one: one.worst(-1), "n is -1; give a count"),
        (lambda one: evaluate([], []).worst(), "this result has no metrics"),
        (lambda one: one.gate(one, margin=-1), "gate: margin: '-1' cannot be used; write the largest loss"),
        (lambda one: one.gate(one, margin=0.1, primary="exact_match.mach"), "exact_match.mach: neither report has"),
    ],
)
def test_usual_mistakes(results, mistake, message):
    with pytest.raises(UserError, match=message):
        mistake(results[0])


def test_a_release_of_another_name_is_refused(releases):
    with pytest.raises(UserError, match="no release 'nwe'; there are old, new; did you mean new"):
        releases.compare("nwe", "old")


# What may be said about a difference.


BETTER = FieldComparison(
    "label", "correct", "all", n_common=100, n_only_old=0, n_only_new=0, old=0.5, new=0.6, difference=0.1, low=0.02,
    high=0.18, p=0.01, p_adjusted=0.03, mde=0.1, fixed=20, broken=10, test="mcnemar",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, "better"),
        ({"difference": -0.1, "low": -0.18, "high": -0.02}, "worse"),
        # The interval alone shows nothing that the corrected test does not show, and the reverse.
        ({"p_adjusted": 0.05}, "not shown to differ"),
        ({"low": 0.0}, "not shown to differ"),
        ({"low": None, "high": None}, "not shown to differ"),
        ({"p_adjusted": None}, "better"),
        ({"difference": None}, None),
    ],
)
def test_a_finding_needs_interval_and_test(changes, finding):
    assert replace(BETTER, **changes).finding == finding


def compared(*p):
    """Two fields on all samples, and a slice of each."""
    rows = [
        replace(BETTER, p=one, p_adjusted=None, slice=slice_) for slice_, one in zip(("all", "x=1") * 2, p, strict=True)
    ]
    return Comparison("d/a/v1", "d/b/v1", tuple(rows))


def test_what_is_read_together_is_adjusted_together():
    first, second = compared(0.01, 0.02, 0.04, 0.03), compared(0.005, 0.001, 0.5, 0.9)
    [alone] = adjust([first])
    assert [row.p_adjusted for row in alone.rows] == pytest.approx([0.02, 0.03, 0.04, 0.03])
    assert alone.n_pairs == 1
    both = adjust([first, second])
    overall = [row.p_adjusted for one in both for row in one.overall]
    assert overall == pytest.approx([0.03, 0.08, 0.02, 0.5])
    slices = [row.p_adjusted for one in both for row in one.rows if row.slice != "all"]
    assert slices == pytest.approx([0.04, 0.04, 0.004, 0.9])
    assert {one.n_pairs for one in both} == {2}
    assert adjust([]) == ()


# The four outcomes, and what a measurement shows of each.


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_no_scores(bad):
    with pytest.raises(ValueError, match=r"\{'f1': 1\.0, 'recall': -?(nan|inf)\}: a score is a finite number"):
        Scored({"f1": 1.0, "recall": bad})


def test_who_changes_the_values_of_a_measurement_changes_no_other():
    for name in ("contains", "token_overlap"):
        samples = [Sample("1", "It is Paris now.", ["Paris"]), Sample("2", "It is Paris now.", ["Paris"])]
        [metric] = create([name])
        one, other = metric.measure(samples)
        before = dict(one.values), dict(one.details)
        for mine in (one.values, one.details):
            mine["mine"] = 1.0
        assert (other.values, other.details) == (one.values, one.details) == before
        assert metric.measure(samples)[0].values == before[0]
