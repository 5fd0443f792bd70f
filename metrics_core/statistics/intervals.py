"""Confidence intervals for one mean, from sufficient statistics.

Every function takes counts and sums rather than rows, so that a database can do the summing. All intervals
are two-sided at 95 % unless `level` says otherwise. Fewer than two observations have no interval: a
zero-width one would look like certainty.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

LEVEL = 0.95


class Interval(NamedTuple):
    """Lower and upper end, and how they were found."""

    low: float
    high: float
    method: str

    def clipped(self, low: float, high: float) -> Interval:
        """The part inside the range of the statistic."""
        return Interval(max(low, self.low), min(high, self.high), self.method)


def wilson(successes: float, n: int, level: float = LEVEL) -> Interval | None:
    """Wilson's score interval for a proportion (Wilson 1927).

    Args:
        successes: how many of `n` are 1, in [0, n].
    """
    if n < 2:
        return None
    z = _normal_quantile(level)
    p = successes / n
    centre = p + z * z / (2 * n)
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low, high = (centre - margin) / scale, (centre + margin) / scale
    # At the ends the formula is exact, and floating point is not.
    return Interval(0.0 if successes == 0 else low, 1.0 if successes == n else high, "wilson")


def student_t(mean: float, sd: float, n: int, level: float = LEVEL) -> Interval | None:
    """Student's t interval for a mean; `sd` is the sample standard deviation (n - 1)."""
    if n < 2:
        return None
    margin = _t_quantile(level, n - 1) * sd / math.sqrt(n)
    return Interval(mean - margin, mean + margin, "t")


def cluster_t(mean: float, residuals: float, n: int, clusters: int, level: float = LEVEL) -> Interval | None:
    """t interval for a mean of rows that come in clusters (Miller 2024, appendix A, with C / (C - 1)).

    Args:
        residuals: sum over clusters of the square of (sum over the cluster's rows of value - mean).
        n: rows; `clusters`: how many clusters they come in.
    """
    if clusters < 2:
        return None
    error = math.sqrt(clusters / (clusters - 1) * residuals) / n
    margin = _t_quantile(level, clusters - 1) * error
    return Interval(mean - margin, mean + margin, "cluster-t")


def bootstrap(
    stats: np.ndarray,
    statistic: Callable[[np.ndarray], float],
    *,
    seed: int,
    resamples: int = 1000,
    level: float = LEVEL,
) -> Interval | None:
    """Percentile bootstrap (Efron 1979) of a statistic of summed rows, for instance corpus BLEU.

    Args:
        stats: (groups, numbers): sufficient statistics, one row a cluster or sample.
        statistic: from the sum over groups, shape (numbers,), to the statistic.
    """
    import numpy as np

    groups = len(stats)
    if groups < 2:
        return None
    rng = np.random.default_rng(seed)
    share = np.full(groups, 1 / groups)
    values = [statistic(rng.multinomial(groups, share) @ stats) for _ in range(resamples)]
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high), "bootstrap")


def _normal_quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + level) / 2)


def _t_quantile(level: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))
