"""Adjusted p-values against their definitions, and the errors that they promise to hold."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.multiple_testing import benjamini_hochberg, holm, planned_level, shared_level

PS = st.lists(st.floats(0, 1), max_size=6)


def closed(p, test):
    """The closure principle: the largest Bonferroni p of all families that hold the test."""
    families = (family for size in range(1, len(p) + 1) for family in itertools.combinations(range(len(p)), size))
    return max(min(1.0, len(f) * min(p[i] for i in f)) for f in families if test in f)


def step_up(p, test):
    """The smallest q at which the test is among those that the step-up procedure rejects."""
    n, order = len(p), sorted(p)
    return min(min(1.0, n * order[k] / (k + 1)) for k in range(n) if order[k] >= p[test])


@pytest.mark.parametrize(("adjust", "definition"), [(holm, closed), (benjamini_hochberg, step_up)])
@given(p=PS)
def test_adjusted_p_values_are_those_of_the_definition(adjust, definition, p):
    assert adjust(p) == pytest.approx([definition(p, i) for i in range(len(p))], abs=1e-12)


def test_holm_rejects_something_true_at_most_1_time_in_20():
    p = np.random.default_rng(1).random((2000, 12))
    p[:, :3] /= 1000
    assert 0.03 <= np.mean([min(holm(row)[3:]) <= 0.05 for row in p]) <= 0.055


def test_of_what_benjamini_hochberg_rejects_at_most_1_in_20_is_true():
    p = np.random.default_rng(2).random((2000, 12))
    p[:, :6] /= 300
    rejected = [np.array(benjamini_hochberg(row)) <= 0.05 for row in p]
    false = np.mean([row[6:].sum() / max(1, row.sum()) for row in rejected])
    # It holds the share of true ones below q times their share of all tests, here a half.
    assert 0.015 <= false <= 0.05


def test_looks_and_candidates_share_one_error():
    looks = [1 - shared_level(look=look) for look in range(1, 100_000)]
    assert looks[:3] == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12])
    assert 0.0499 < math.fsum(looks) < 0.05
    assert [1 - shared_level(look=2, candidates=k) for k in (1, 4)] == pytest.approx([0.05 / 6, 0.05 / 24])
    assert shared_level(level=0.9) == 0.9


EQUAL = [k / 5 for k in range(1, 6)]


def bounds(fractions, spent=None):
    analyses = range(1, len(fractions) + 1)
    levels = [planned_level(fractions[:last], spent=spent and spent[:last]) for last in analyses]
    return np.array([scipy.stats.norm.isf((1 - level) / 2) for level in levels])


@pytest.mark.parametrize(
    ("fractions", "spent", "cost"),
    [
        (EQUAL, None, 1.04),
        ([k / 10 for k in range(1, 11)], None, 1.05),
        ([0.1, 0.15, 0.7, 0.71, 1.0], None, 1.05),
        (EQUAL, EQUAL, 1.2),
    ],
)
def test_planned_analyses_keep_their_error_and_cost_few_rows(fractions, spent, cost):
    times = np.array(fractions)
    steps = np.sqrt(np.diff(times, prepend=0.0))
    paths = np.cumsum(np.random.default_rng(4).standard_normal((60_000, len(times))) * steps, axis=1)
    limits = bounds(fractions, spent)
    crossed = paths / np.sqrt(times) > limits
    assert crossed.any(axis=1).mean() == pytest.approx(0.025, abs=0.002)
    if spent:
        first = np.maximum.accumulate(crossed, axis=1).mean(axis=0)
        assert first == pytest.approx(0.025 * np.array(spent), abs=0.002)
    # A fixed number of rows has a power of .8 with this drift; so much more of it does with the analyses.
    drift = (1.959964 + 0.841621) * math.sqrt(cost)
    assert ((paths + drift * times) / np.sqrt(times) > limits).any(axis=1).mean() >= 0.8


def test_planned_levels_are_those_of_the_literature():
    # Five equal steps; Jennison and Turnbull (2000) and Lan and DeMets (1983) have them to two or three digits.
    assert bounds(EQUAL) == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=1e-3)
    assert planned_level([1.0]) == planned_level([1.3]) == pytest.approx(0.95)
    assert planned_level([0.5, 1.0], candidates=4) > planned_level([0.5, 1.0])
    # Even the earliest analysis has a level below 1.
    assert planned_level([0.001]) < 1


def test_more_rows_than_planned_spend_the_rest():
    assert planned_level([0.5, 1.2]) == pytest.approx(planned_level([0.5, 1.0]), abs=2e-3)
