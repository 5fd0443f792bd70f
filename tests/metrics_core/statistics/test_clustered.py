"""The shared ground of the statistics: clusters, and intervals of sums of row effects."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.bounded_mean import bounded_mean
from answerkey.metrics_core.statistics.clustered import (
    codes_of,
    design_effect,
    mean,
    mean_interval,
    standard_deviation,
    unit_sums,
)
from answerkey.metrics_core.statistics.intervals import unseen
from tests.metrics_core.statistics.simulations import width

SCORE = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


def test_clusters_are_numbered_and_a_row_without_one_is_on_its_own():
    codes = codes_of(["b", None, "a", "b", None, 1], 6)
    assert codes.tolist() == [0, 1, 2, 0, 3, 4]
    assert unit_sums(np.array([1.0, 2, 3, 4, 5, 6]), codes).tolist() == [5, 2, 3, 5, 6]
    assert codes_of(None, 3) is codes_of(["a", "b", None], 3) is None


@given(st.lists(SCORE, min_size=1, max_size=50))
def test_the_mean_does_not_know_the_order(scores):
    assert mean(np.array(scores)) == mean(np.array(sorted(scores))) == pytest.approx(np.mean(scores), abs=1e-12)


@given(st.lists(st.lists(SCORE, min_size=1, max_size=5), min_size=2, max_size=20))
def test_the_interval_of_a_clustered_mean_is_that_of_the_sums(clusters):
    values = np.array([score for cluster in clusters for score in cluster])
    names = [f"c{i}" for i, cluster in enumerate(clusters) for _ in cluster]
    interval = mean_interval(values, codes_of(names, len(values)), low=-1.0)
    oracle = bounded_mean([sum(cluster) for cluster in clusters], [len(cluster) for cluster in clusters], low=-1.0)
    assert interval[:2] == pytest.approx(oracle[:2], abs=1e-9)
    assert interval.method == ("bounded-mean" if len(values) == len(clusters) else "cluster-bounded-mean")


def test_rows_that_repeat_one_another_say_what_one_says():
    scores = np.random.default_rng(3).random(12)
    tenfold = mean_interval(np.repeat(scores, 10), np.repeat(np.arange(12), 10))
    assert tenfold[:2] == pytest.approx(mean_interval(scores, None)[:2])


def test_rows_that_are_all_equal_do_not_look_certain():
    # The least mean of a hundred rows that all have .3, at 2.5 %: .3 * .025^(1/100).
    assert mean_interval(np.full(100, 0.3), None).low == pytest.approx(0.3 * 0.025**0.01, abs=1e-6)


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_a_few_tiny_changes_do_not_narrow_the_interval(changed):
    change = np.zeros(200)
    change[:changed] = 1e-3
    interval, unchanged = (mean_interval(rows, None, low=-1.0) for rows in (change, np.zeros(200)))
    assert width(interval) == pytest.approx(width(unchanged), rel=0.01)


def test_fewer_than_two_units_have_no_interval():
    assert mean_interval(np.ones(1), None) is mean_interval(np.array([0.1, 0.2, 0.3]), np.zeros(3, np.intp)) is None
    for n in (0, 1):
        assert unseen(0.5, 1.0, n) is standard_deviation(np.ones(n)) is None


def test_the_design_effect_is_the_ratio_of_the_two_squared_errors():
    values = np.array([0.1, 0.2, 0.9, 0.8, 0.5, 0.6])
    codes = codes_of(["a", "a", "b", "b", "c", "c"], 6)
    sums = [0.3 - 2 * values.mean(), 1.7 - 2 * values.mean(), 1.1 - 2 * values.mean()]
    clustered = 3 / 2 * sum(s * s for s in sums) / 36
    independent = values.var(ddof=1) / 6
    assert design_effect(values, codes) == pytest.approx(clustered / independent, rel=1e-12)
    assert design_effect(values, None) == design_effect(np.full(6, 0.1), codes) == 1.0


def test_copies_of_a_row_are_as_much_design_effect_as_there_are_copies():
    values = np.repeat(np.random.default_rng(1).random(400), 5)
    assert design_effect(values, np.repeat(np.arange(400), 5)) == pytest.approx(5, rel=0.01)
