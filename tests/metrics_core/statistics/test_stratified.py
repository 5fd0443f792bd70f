"""The score interval in strata: Tango's where there is one stratum, and sound where errors have not been seen yet."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.statistics.intervals import tango
from answerkey.metrics_core.statistics.ppi import stratified_score

COUNTS = st.tuples(*[st.integers(0, 30)] * 3).filter(lambda counts: sum(counts) >= 2)


def ends(estimate):
    return estimate.interval[:2]


@given(COUNTS)
def test_one_stratum_is_tangos_interval(counts):
    broken, _, fixed = counts
    expected = tango(fixed, broken, sum(counts))
    assert ends(stratified_score([counts], [1.0], math.inf)) == pytest.approx(expected[:2], abs=1e-6)


@given(st.lists(st.tuples(st.tuples(*[st.integers(0, 12)] * 3), st.integers(1, 9)), min_size=1, max_size=4))
def test_ends_are_ordered_and_turn_with_the_signs(strata):
    counts = np.array([row for row, _ in strata])
    shares = np.array([share for _, share in strata]) / sum(share for _, share in strata)
    estimate = stratified_score(counts, shares, 500)
    assert (estimate is None) == (counts.sum() < 2)
    if estimate is not None:
        low, high = ends(estimate)
        assert -1 <= low <= estimate.value + 1e-9
        assert estimate.value - 1e-9 <= high <= 1
        back = ends(stratified_score(counts[:, ::-1], shares, 500))
        assert back == pytest.approx((-high, -low), abs=1e-6)


def test_a_stratum_without_values_may_have_any_mean():
    low, high = ends(stratified_score([[0, 100, 0]], [1.0], 1000))
    assert (low, high) == pytest.approx((-0.037, 0.037), abs=1e-3)
    low, high = ends(stratified_score([[0, 100, 0], [0, 0, 0]], [0.9, 0.1], 1000))
    assert low < -0.1
    assert high > 0.1
