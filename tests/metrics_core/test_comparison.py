"""What may be said about a difference."""

from dataclasses import replace

import pytest

from answerkey.metrics_core.comparison import Comparison, FieldComparison, adjust

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
    assert alone.n_candidates == 1
    both = adjust([first, second])
    overall = [row.p_adjusted for one in both for row in one.overall]
    assert overall == pytest.approx([0.03, 0.08, 0.02, 0.5])
    slices = [row.p_adjusted for one in both for row in one.rows if row.slice != "all"]
    assert slices == pytest.approx([0.04, 0.04, 0.004, 0.9])
    assert {one.n_candidates for one in both} == {2}
    # Of candidates that are evaluated elsewhere only the number is known.
    [one_of_four] = adjust([first], 4)
    assert [row.p_adjusted for row in one_of_four.rows] == pytest.approx([0.08, 0.12, 0.16, 0.12])
    assert (one_of_four.n_candidates, adjust([])) == (4, ())
