"""Comparisons in plain words."""

from dataclasses import replace

import pytest

from answerkey.metrics_core.comparison import Comparison, FieldComparison
from answerkey.tasks.publish.text import HEAD, HUMAN, chance, finding, human_note, only_one, table

ROW = FieldComparison(
    "label", "correct", "all", n_common=1618, n_only_old=3, n_only_new=0, old=0.7843, new=0.7855, difference=0.0012,
    low=-0.0193, high=0.0219, p=0.95, p_adjusted=1.0, mde=0.0298, fixed=144, broken=142, test="mcnemar",
    missing_new={"absent": 3},
)  # fmt: skip
BETTER = replace(ROW, difference=0.05, low=0.03, high=0.07, p_adjusted=1e-6)


def test_a_row_of_the_table() -> None:
    head, (row,) = table([ROW])
    assert head == HEAD
    assert row == (
        "label.correct", "1,618", "0.784", "0.785", "+0.001 ±0.021", "1.000",
        "not shown to differ (detectable: ±0.030)", "144/142",
    )  # fmt: skip
    assert table([replace(BETTER, slice="lang=en", fixed=None, broken=None)])[1][0] == (
        "lang=en", "1,618", "0.784", "0.785", "+0.050 ±0.020", "<0.001", "better", "–",
    )  # fmt: skip


def test_what_people_would_find_has_a_column_where_it_is_known() -> None:
    predicted = replace(BETTER, people=-0.0412, people_low=-0.09, people_high=0.01, n_labelled=1200)
    head, rows = table([predicted, ROW])
    assert head[4:7] == ("difference", HUMAN, "p adjusted")
    assert [row[5] for row in rows] == ["-0.041 ±0.050", "–"]
    note = human_note(Comparison("a", "b", (predicted, ROW)))
    assert note and note.startswith("in human labels: ") and "estimated from the 1,200 rows" in note
    assert human_note(Comparison("a", "b", (ROW,))) is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (BETTER, "better"),
        (replace(BETTER, difference=-0.05, low=-0.07, high=-0.03), "worse"),
        (replace(ROW, mde=None), "not shown to differ"),
        (
            replace(ROW, needed=2400),
            "not shown to differ (detectable: ±0.030; about 2,400 rows needed for this one)",
        ),
        (replace(ROW, difference=None, note="only d/b/v1 has it"), "not compared: only d/b/v1 has it"),
    ],
)
def test_verdicts(row: FieldComparison, words: str) -> None:
    assert finding(row) == words


def test_a_chance_is_never_nought() -> None:
    assert [chance(p) for p in (None, 0.0, 0.0004, 0.0006, 0.05, 1.0)] == [
        "–",
        "<0.001",
        "<0.001",
        "0.001",
        "0.050",
        "1.000",
    ]


def test_rows_of_one_report_only_are_told_once() -> None:
    failed = replace(ROW, metric="meaning_match", field="match", missing_new={"absent": 3, "failed": 12})
    pair = Comparison("d/a/v1", "d/b/v1", (ROW, failed, replace(failed, field="spread")))
    assert list(only_one(pair)) == [
        "meaning_match.match, meaning_match.spread: some rows have a number in one report only: "
        "12 only in d/a/v1, where d/b/v1 has 12 failed"
    ]
