"""The binomial distribution beside that of `scipy.stats`."""

import numpy as np
import pytest
import scipy.stats

from answerkey.metrics_core.statistics.binomial import at_most, most_below


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of trials and chances, 0 trials and the chances 0 and 1 among them."""
    rng = np.random.default_rng(3)
    n = np.concatenate([rng.integers(0, 60, 2000), rng.integers(0, 5000, 2000), rng.integers(0, 10**7, 300)])
    p = np.concatenate([rng.random(2000), rng.random(2000) ** 3, rng.random(300)])
    p[::50], p[1::50] = 0, 1
    return n.astype(float), p


def test_the_chance_of_at_most_so_many_is_the_distribution_function(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    n, p = drawn
    k = np.floor(np.random.default_rng(4).random(len(n)) * (n + 3)) - 1
    assert np.abs(at_most(k, n, p) - scipy.stats.binom.cdf(k, n, p)).max() < 1e-13


@pytest.mark.parametrize("tail", [5e-13, 1e-9, 0.0005, 0.025, 0.2, 0.9])
def test_the_largest_outcome_below_a_tail_is_one_under_the_quantile(
    tail: float, drawn: tuple[np.ndarray, np.ndarray]
) -> None:
    n, p = drawn
    assert (most_below(tail, n, p) == scipy.stats.binom.ppf(tail, n, p) - 1).all()
    # From the other end: more than k are as likely as fewer than n - k failures.
    assert (n - 1 - most_below(tail, n, 1 - p) == scipy.stats.binom.isf(tail, n, p)).all()
