"""Which fields speak for reports: the primary one, one per metric, and nothing twice."""

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.registry import DEFAULT_METRICS
from answerkey.tasks.reports.headline import fields_of, headlines, primary
from answerkey.tasks.reports.report import read_reports
from tests.tasks.comparing_help import answer, release, releases


def reports(home, *names):
    return read_reports(home, [f"d/{name}/v1" for name in names])


def rows(n=4, labelled=0, references=("yes it is",)):
    return [
        answer(i, "it is", True if i < labelled else None, references=list(references))
        | ({"correct": None} if labelled and i >= labelled else {})
        for i in range(n)
    ]


def test_the_default_run_has_four_headlines_and_the_match_decides(home):
    release(home, "one", rows(), DEFAULT_METRICS)
    found = reports(home, "one")
    assert primary(found) == "meaning_match.match"
    assert headlines(found) == (
        "meaning_match.match", "answer_correctness.token_overlap_recall", "semantic_similarity.similarity",
        "ground_truth_similarity.similarity",
    )  # fmt: skip
    assert headlines(found, "answer_correctness.bleu_score")[:2] == (
        "answer_correctness.bleu_score", "semantic_similarity.similarity",
    )  # fmt: skip
    assert len(fields_of(found)) == 7 + 1 + 2 + 4


def test_labels_decide_where_at_least_half_of_the_answers_have_one(home):
    releases(home, {"half": rows(labelled=2), "few": rows(labelled=1)}, ("exact_match", "meaning_match"))
    assert primary(reports(home, "half")) == "label.correct"
    assert primary(reports(home, "half", "few")) == primary(reports(home, "few")) == "meaning_match.match"
    assert headlines(reports(home, "few")) == ("meaning_match.match", "label.correct", "exact_match.match")


def test_without_labels_and_match_the_first_metric_decides(home):
    release(home, "one", rows(labelled=1), ("rouge_l", "exact_match"))
    assert primary(reports(home, "one")) == "rouge_l.recall"
    release(home, "two", rows(), ("exact_match", "meaning_match"))
    # What both have comes before what one of them has.
    both = reports(home, "one", "two")
    assert primary(both) == "exact_match.match"
    assert set(headlines(both)) == {"exact_match.match", "label.correct", "rouge_l.recall", "meaning_match.match"}
    assert primary(both, "rouge_l.f1") == "rouge_l.f1"
    with pytest.raises(UserError, match=r"rouge_l\.f2: these reports have .*; did you mean rouge_l\.f1\?"):
        primary(both, "rouge_l.f2")


def test_a_report_of_an_earlier_version_names_no_headline(home):
    release(home, "one", rows(), ("answer_correctness", "tests.metrics_core.data.custom_metrics:Politeness"))
    [report] = reports(home, "one")
    kept = report.manifest["metrics"]
    assert kept["answer_correctness"]["headline"] == "token_overlap_recall"
    for note in kept.values():
        del note["headline"]
    assert headlines([report]) == ("answer_correctness.token_overlap_recall", "politeness.polite")
