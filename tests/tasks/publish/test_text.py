"""Numbers and comparisons in plain words."""

from dataclasses import replace

import pytest

from answerkey.metrics_core.comparison import Comparison, FieldComparison, family_note
from answerkey.metrics_core.decide.verdict import Verdict
from answerkey.tasks.publish.table import estimate
from answerkey.tasks.publish.text import (
    chance,
    doubts,
    ends,
    finding,
    headline,
    number,
    percent,
    signed,
    undetectable,
)

ROW = FieldComparison(
    "label", "correct", "all", n_common=1618, n_only_old=3, n_only_new=0, old=0.7843, new=0.7855, difference=0.0012,
    low=-0.0193, high=0.0219, p=0.95, p_adjusted=1.0, mde=0.0298, fixed=144, broken=142, test="mcnemar",
    missing_new={"absent": 3},
)  # fmt: skip
BETTER = replace(ROW, difference=0.05, low=0.03, high=0.07, p_adjusted=1e-6)


def test_a_finding_or_why_there_is_none():
    rows = (BETTER, replace(BETTER, difference=-0.05, low=-0.07, high=-0.03), ROW)
    assert [finding(row) for row in rows] == ["better", "worse", "not shown to differ"]
    assert finding(replace(BETTER, p_adjusted=0.08)) == "not shown to differ (by p adjusted)"
    left_out = replace(BETTER, n_unanswered=49, low_with_unanswered=-0.011)
    assert finding(left_out) == "not shown to differ (unanswered count as wrong)"
    assert finding(replace(ROW, difference=None, note="only d/b/v1 has it")) == "not compared: only d/b/v1 has it"


def test_the_headline_says_what_is_shown_and_leaves_its_numbers_to_a_verdict():
    def said(row, verdict=None):
        return headline(Comparison("a", "b", (row,)), "label.correct", verdict)

    assert said(BETTER) == (
        "b is better than a: label.correct went from 0.784 to 0.785 (+0.050, 95 % interval +0.030 to +0.070, "
        "1,618 samples)."
    )
    worse = replace(BETTER, difference=-0.05, low=-0.07, high=-0.03, n_clusters=30)
    assert said(worse) == (
        "b is worse than a: label.correct went from 0.784 to 0.785 (-0.050, 95 % interval -0.070 to -0.030, "
        "1,618 samples in 30 clusters)."
    )
    assert said(worse, Verdict("FAIL", "No.")) == "b is worse than a in label.correct."
    nothing = (
        "No difference between b and a is shown: label.correct went from 0.784 to 0.785 (+0.001, 95 % interval -0.019 "
        "to +0.022, 1,618 samples). The interval contains 0. "
    )
    assert said(ROW) == f"{nothing}These samples show a difference of 0.030 with a power of 80 %."
    assert said(replace(ROW, needed=2400)) == (
        f"{nothing}Roughly 2,000 samples, anything from 7 up, would show a difference of this size with a power of "
        "80 %."
    )
    beside = "No difference between b and a is shown in label.correct. The interval contains 0."
    assert said(ROW, Verdict("PASS", "Yes.")) == beside
    adjusted = replace(BETTER, p_adjusted=0.08, mde=None)
    assert said(adjusted).endswith("The p-value, adjusted for everything that was compared, is 0.080.")
    left_out = replace(BETTER, n_unanswered=49, low_with_unanswered=-0.011)
    assert said(left_out).startswith("No difference between b and a is shown: ")
    assert (
        "With the lowest score for the 49 samples that b did not answer, the interval begins at -0.011. These samples"
        in said(left_out)
    )
    none = replace(ROW, difference=None, low=None, high=None, note="only a has it")
    assert said(none) == "b cannot be compared with a in label.correct: only a has it."
    assert headline(Comparison("a", "b", ()), "x.y", Verdict("INCOMPLETE", "?")) == ("b and a share no number of x.y.")


@pytest.mark.parametrize(
    ("show", "shown"),
    [
        (number, {None: "–", 0.6754: "0.675", -0.0201: "-0.020", 1: "1.000", 0.0: "0.000"}),
        # Differences have a sign unless they are nothing.
        (signed, {None: "–", 0.0123: "+0.012", -0.5: "-0.500", 0.0: "0.000", -0.00004: "-0.00004", 1e-9: "0.000"}),
        # Shares are never rounded to all or nothing, and p-values never to nothing.
        (percent, {None: "–", 1.0: "100 %", 0.9999: "> 99.9 %", 0.0001: "< 0.1 %", 0.0: "0 %", 0.784: "78.4 %"}),
        (chance, {None: "–", 0.0: "< 0.001", 0.0004: "< 0.001", 0.0006: "0.001", 0.05: "0.050", 1.0: "1.000"}),
    ],
)
def test_numbers(show, shown):
    assert {value: show(value) for value in shown} == shown


def test_what_cannot_be_shown_is_said_with_its_reason():
    note = "no difference can be shown with 5 clusters; it takes at least 6"
    few = replace(ROW, mde=None, n_clusters=5, mde_note=note)
    pair = Comparison("a", "b", (few, replace(few, metric="rouge_l", field="f1"), BETTER))
    assert headline(pair, "label.correct").endswith(f"The interval contains 0. N{note[1:]}.")
    assert list(undetectable(pair)) == [f"label.correct, rouge_l.f1: {note}"]


def test_an_interval_has_two_ends():
    assert ends(0.5537, 0.772) == "0.554 to 0.772"
    assert ends(None, None) == "–"
    assert str(estimate(0.671, 0.5537, 0.772)) == "0.671 [0.554, 0.772]"
    assert str(estimate(-0.031, -0.05, 0.0, signed)) == "-0.031 [-0.050, 0.000]"
    assert (str(estimate(0.5)), str(estimate(None))) == ("0.500", "–")


def test_samples_of_one_report_only_are_listed_once():
    failed = replace(ROW, metric="meaning_match", field="match", missing_new={"absent": 3, "failed": 12})
    pair = Comparison("d/a/v1", "d/b/v1", (ROW, failed, replace(failed, field="spread")))
    assert list(doubts(pair)) == [
        "meaning_match.match, meaning_match.spread: some samples have a number in one report only: "
        "12 only in d/a/v1, where d/b/v1 has 12 failed"
    ]


def test_the_family_of_the_adjusted_p_values_is_stated():
    two = Comparison("a", "b", (ROW, replace(ROW, field="other")))
    several = family_note(replace(two, n_pairs=5))
    assert several == "Corrected for comparing 2 fields of 5 pairs at once (Holm)"
    assert family_note(two) == "Corrected for comparing 2 fields at once (Holm)"
    assert family_note(replace(two, rows=two.rows[:1])) is None
