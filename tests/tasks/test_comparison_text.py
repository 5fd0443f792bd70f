"""Comparisons in plain words."""

from dataclasses import replace

import pytest

from metrics_core.pair import Comparison, Pair
from tasks.comparison_text import cells, chance, markdown, only_one, verdict

ROW = Comparison(
    "label", "correct", "all", n_common=1618, n_only_old=3, n_only_new=0, old=0.7843, new=0.7855, difference=0.0012,
    low=-0.0193, high=0.0219, p=0.95, p_adjusted=1.0, mde=0.0298, fixed=144, broken=142, test="mcnemar",
    missing_new={"absent": 3},
)  # fmt: skip
BETTER = replace(ROW, difference=0.05, low=0.03, high=0.07, p_adjusted=1e-6)


def test_a_row_of_the_table() -> None:
    assert cells(ROW) == (
        "label.correct", "1,618", "0.784", "0.785", "+0.001 ±0.021", "1.000",
        "not shown to differ (would show ±0.030)", "144/142",
    )  # fmt: skip
    assert cells(replace(BETTER, slice="lang=en", fixed=None, broken=None)) == (
        "lang=en", "1,618", "0.784", "0.785", "+0.050 ±0.020", "<0.001", "better", "–",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (BETTER, "better"),
        (replace(BETTER, difference=-0.05, low=-0.07, high=-0.03), "worse"),
        (replace(ROW, mde=None), "not shown to differ"),
        (
            replace(ROW, needed=2400),
            "not shown to differ (would show ±0.030; this one would take about 2,400 rows)",
        ),
        (replace(ROW, difference=None, note="only d/b/v1 has it"), "not compared: only d/b/v1 has it"),
    ],
)
def test_verdicts(row: Comparison, words: str) -> None:
    assert verdict(row) == words


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
    pair = Pair("d/a/v1", "d/b/v1", (ROW, failed, replace(failed, field="spread")))
    assert list(only_one(pair)) == [
        "meaning_match.match, meaning_match.spread: some rows have a number in one report only: "
        "12 only in d/a/v1, where d/b/v1 has 12 failed"
    ]


def test_markdown_shows_text_from_data_as_it_is() -> None:
    slice_ = replace(BETTER, slice="lang=<b>|x")
    page = markdown(Pair("d/a_b/v1", "d/[b]/v1", (ROW, slice_), warnings=("answers are *longer*",)))
    assert page.startswith("# d/a\\_b/v1 → d/\\[b\\]/v1\n\n- answers are \\*longer\\*\n")
    assert "## all: 1,618 rows" in page
    assert "## lang=\\<b\\>\\|x: 1,618 rows" in page
    assert "| label.correct | 1,618 | 0.784 | 0.785 | +0.050 ±0.020 | \\<0.001 | better | 144/142 |" in page
