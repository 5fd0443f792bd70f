"""The interval of a difference of two independent samples, against published values and the level that it states."""

import math

import numpy as np
import pytest

from answerkey.metrics_core.statistics.clustered import proportion_interval
from answerkey.metrics_core.statistics.intervals import (
    Estimate,
    Interval,
    independent_difference,
    normal_quantile,
)


def wilson(successes, n):
    z, p = normal_quantile(0.95), successes / n
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, Interval(max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale), "wilson"))


@pytest.mark.parametrize(
    ("new", "old", "ends"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombes_table(new, old, ends):
    """Newcombe (1998), Interval estimation for the difference between independent proportions, table II, method 10."""
    found = independent_difference(wilson(*new), wilson(*old))
    assert found
    assert found[:2] == pytest.approx(ends, abs=6e-5)


def test_its_level_is_at_least_that_of_its_parts():
    rng = np.random.default_rng(1)
    for n, m, p, q in ((20, 200, 0.9, 0.9), (40, 400, 0.8, 0.95)):
        held = 0
        for _ in range(400):
            new, old = ((rng.random(size) < share).astype(float) for size, share in ((n, p), (m, q)))
            parts = [Estimate(float(one.mean()), proportion_interval(one, None)) for one in (new, old)]
            found = independent_difference(*parts)
            held += found is not None and found.low <= p - q <= found.high
        assert held / 400 > 0.93


def test_without_both_intervals_the_difference_has_none():
    assert independent_difference(Estimate(0.5, None), wilson(1, 2)) is None
