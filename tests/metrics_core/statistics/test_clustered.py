"""The shared ground of the statistics: checks, clusters, and intervals of sums of row effects."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.clustered import (
    check_same_rows,
    codes_of,
    design_effect,
    mean,
    mean_interval,
    numbers,
    proportion_interval,
    standard_deviation,
    unit_sums,
    zeros_and_ones,
)
from answerkey.metrics_core.statistics.intervals import cluster_t, student_t, unseen, wilson
from tests.metrics_core.statistics.simulations import held

SCORE = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, math.nan], "scores: row 1 is not a finite number"),
        ([math.inf, 0.5], "scores: row 0 is not a finite number"),
        ([[0.5], [0.2]], r"scores: one number per row is needed, and the shape is \(2, 1\)"),
    ],
)
def test_numbers_must_be_finite_and_one_a_row(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numbers(values, "scores")


def test_zeros_and_ones_may_be_booleans_and_nothing_between() -> None:
    assert zeros_and_ones([True, False, 1, 0.0], "labels").tolist() == [1, 0, 1, 0]
    with pytest.raises(ValueError, match=r"labels: only 0 and 1 are allowed, not 0\.5"):
        zeros_and_ones([1, 0.5], "labels")


def test_rows_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="old and new: 2 and 1 rows are not the same rows"):
        check_same_rows(np.zeros(2), np.zeros(1), "old and new")
    with pytest.raises(ValueError, match="old and new: there are no rows"):
        check_same_rows(np.zeros(0), np.zeros(0), "old and new")


def test_clusters_are_numbered_and_a_row_without_one_is_on_its_own() -> None:
    codes = codes_of(["b", None, "a", "b", None, 1], 6)
    assert codes is not None
    assert codes.tolist() == [0, 1, 2, 0, 3, 4]
    assert unit_sums(np.array([1.0, 2, 3, 4, 5, 6]), codes).tolist() == [5, 2, 3, 5, 6]


def test_clusters_of_one_row_are_no_clusters() -> None:
    assert codes_of(None, 3) is None
    assert codes_of(["a", "b", None], 3) is None
    with pytest.raises(ValueError, match="clusters: 2 of them for 3 rows"):
        codes_of(["a", "b"], 3)


@given(st.lists(SCORE, min_size=1, max_size=50))
def test_the_mean_does_not_know_the_order(scores: list[float]) -> None:
    assert mean(np.array(scores)) == mean(np.array(sorted(scores))) == pytest.approx(np.mean(scores), abs=1e-12)


@given(st.lists(SCORE, min_size=20, max_size=40, unique=True))
def test_the_interval_of_a_mean_is_students(scores: list[float]) -> None:
    values = np.array(scores)
    interval = mean_interval(values, None)
    oracle = student_t(float(values.mean()), float(values.std(ddof=1)), len(values))
    assert interval is not None
    assert oracle is not None
    if interval.method == "t":
        assert interval[:2] == pytest.approx(oracle[:2], abs=1e-9)
    else:
        # Nearly all rows are equal: the spread is a guess, and the interval wider.
        assert interval.low <= oracle.low <= oracle.high <= interval.high


@given(st.lists(st.lists(SCORE, min_size=1, max_size=5, unique=True), min_size=20, max_size=30))
def test_the_interval_of_a_clustered_mean_is_cluster_t(clusters: list[list[float]]) -> None:
    values = np.array([score for cluster in clusters for score in cluster])
    names = [f"c{i}" for i, cluster in enumerate(clusters) for _ in cluster]
    residuals = sum((sum(cluster) - len(cluster) * values.mean()) ** 2 for cluster in clusters)
    oracle = cluster_t(float(values.mean()), residuals, len(values), len(clusters))
    interval = mean_interval(values, codes_of(names, len(values)))
    assert oracle is not None
    assert interval is not None
    if interval.method in ("cluster-t", "t"):
        assert interval[:2] == pytest.approx(oracle[:2], abs=1e-9)
    else:
        assert interval.low <= oracle.low <= oracle.high <= interval.high


def test_rows_that_are_all_equal_do_not_look_certain() -> None:
    interval = mean_interval(np.full(100, 0.3), None)
    # 3.84 / 103.84 of all rows may be unlike these.
    assert interval == unseen(0.3, 1.0, 100)
    assert interval is not None
    assert interval.method == "unseen"
    assert (interval.low, interval.high) == pytest.approx((0.3 - 0.036995, 0.3 + 0.036995), abs=1e-5)
    everything, all_right = unseen(1.0, 1.0, 100), wilson(100, 100)
    assert everything is not None
    assert all_right is not None
    assert everything.low == pytest.approx(all_right.low, abs=1e-12)


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_a_few_changed_rows_are_not_surer_than_none(changed: int) -> None:
    change = np.zeros(200)
    change[:changed] = 1e-3
    interval, none = mean_interval(change, None), mean_interval(np.zeros(200), None)
    assert interval is not None
    assert none is not None
    assert interval.method == "unseen"
    assert interval.high - interval.low == pytest.approx(none.high - none.low)
    change[:20] = 1e-3
    enough = mean_interval(change, None)
    assert enough is not None
    assert enough.method == "t"


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_units_have_no_interval(n: int) -> None:
    if n:
        assert mean_interval(np.ones(n), None) is None
    assert mean_interval(np.array([0.1, 0.2, 0.3]), np.zeros(3, np.intp)) is None
    assert unseen(0.5, 1.0, n) is None
    assert standard_deviation(np.ones(n)) is None


def test_the_design_effect_is_the_ratio_of_the_two_squared_errors() -> None:
    values = np.array([0.1, 0.2, 0.9, 0.8, 0.5, 0.6])
    codes = codes_of(["a", "a", "b", "b", "c", "c"], 6)
    sums = [0.3 - 2 * values.mean(), 1.7 - 2 * values.mean(), 1.1 - 2 * values.mean()]
    clustered = 3 / 2 * sum(s * s for s in sums) / 36
    independent = values.var(ddof=1) / 6
    assert design_effect(values, codes) == pytest.approx(clustered / independent, rel=1e-12)
    assert design_effect(values, None) == 1.0
    assert design_effect(np.full(6, 0.1), codes) == 1.0


def test_copies_of_a_row_are_as_much_design_effect_as_there_are_copies() -> None:
    values = np.repeat(np.random.default_rng(1).random(400), 5)
    effect = design_effect(values, np.repeat(np.arange(400), 5))
    assert effect == pytest.approx(5, rel=0.01)


def test_a_clustered_share_holds_the_truth_19_times_in_20() -> None:
    rng, codes = np.random.default_rng(1), np.repeat(np.arange(60), 5)
    share = rng.beta(8, 2, (2000, 60, 1))
    hits = (rng.random((2000, 60, 5)) < share).astype(float).reshape(2000, 300)
    assert 0.93 <= held((proportion_interval(row, codes) for row in hits), 0.8) <= 0.97
    assert held((proportion_interval(row, None) for row in hits), 0.8) < 0.93
