"""What may be said about a difference."""

from dataclasses import replace

import pytest

from answerkey.metrics_core.comparison import Comparison, FieldComparison

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
        ({"p_adjusted": 0.05, "level": 0.9}, "better"),
        ({"low": 0.0}, "not shown to differ"),
        ({"low": None, "high": None}, "not shown to differ"),
        ({"p_adjusted": None}, "better"),
        ({"difference": None}, None),
    ],
)
def test_a_finding_needs_interval_and_test(changes: dict[str, float | None], finding: str | None) -> None:
    assert replace(BETTER, **changes).finding == finding  # type: ignore[arg-type]


def test_names_and_overall() -> None:
    slice_ = replace(BETTER, slice="lang=en")
    pair = Comparison("d/a/v1", "d/b/v1", (BETTER, slice_))
    assert BETTER.name == "label.correct"
    assert pair.overall == (BETTER,)
