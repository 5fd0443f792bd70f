"""Confidence intervals for one mean, from sufficient statistics.

Every function takes counts and sums rather than rows, so that a database can do the summing. All intervals
are two-sided at 95 % unless `level` says otherwise. Fewer than two observations have no interval, because
one of zero width would look like certainty.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

LEVEL = 0.95
"""The confidence level of every interval that does not name its own."""


class Interval(NamedTuple):
    """Lower end, upper end, and the name of the method.

    >>> Interval(-0.02, 0.31, "t").clipped(0.0, 1.0)
    Interval(low=0.0, high=0.31, method='t')
    """

    low: float
    high: float
    method: str

    def clipped(self, low: float, high: float) -> Interval:
        """The part of the interval that lies inside the range of the statistic."""
        return Interval(max(low, self.low), min(high, self.high), self.method)


class Estimate(NamedTuple):
    """A statistic and its interval; `interval` is None where there are too few rows for one.

    >>> Estimate(0.8, wilson(8, 10)).value
    0.8
    """

    value: float
    interval: Interval | None


def percent(level: float) -> str:
    """A level as text, with as many digits as tell it apart from 100 %.

    >>> percent(0.95), percent(0.975), percent(1 - 0.05 / 930)
    ('95 %', '97.5 %', '99.9946 %')
    """
    digits = max(0, 1 - math.floor(math.log10(100 * (1 - level))))
    text = f"{100 * level:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def wilson(successes: float, n: int, level: float = LEVEL) -> Interval | None:
    """Wilson's score interval for a proportion (Wilson 1927).

    Args:
        successes: how many of `n` are 1, 0 to n.

    >>> [round(end, 3) for end in wilson(8, 10)[:2]]
    [0.49, 0.943]
    >>> wilson(1, 1) is None
    True
    """
    if n < 2:
        return None
    z = normal_quantile(level)
    p = successes / n
    centre = p + z * z / (2 * n)
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low, high = (centre - margin) / scale, (centre + margin) / scale
    # At the ends the formula is exact and floating point is not.
    return Interval(0.0 if successes == 0 else low, 1.0 if successes == n else high, "wilson")


def student_t(mean: float, sd: float, n: int, level: float = LEVEL) -> Interval | None:
    """Student's t interval for a mean; `sd` is the sample standard deviation (n - 1).

    >>> [round(end, 3) for end in student_t(mean=0.5, sd=0.2, n=16)[:2]]
    [0.393, 0.607]
    """
    if n < 2:
        return None
    margin = t_quantile(level, n - 1) * sd / math.sqrt(n)
    return Interval(mean - margin, mean + margin, "t")


def cluster_t(mean: float, residuals: float, n: int, clusters: int, level: float = LEVEL) -> Interval | None:
    """t interval for a mean of rows that come in clusters (Miller 2024, appendix A, with C / (C - 1)).

    Args:
        residuals: sum over clusters of the square of (sum over the cluster's rows of value - mean).
        n: rows; `clusters`: how many clusters they come in.

    >>> [round(end, 3) for end in cluster_t(mean=0.5, residuals=9.0, n=40, clusters=10)[:2]]
    [0.321, 0.679]
    """
    if clusters < 2:
        return None
    error = math.sqrt(clusters / (clusters - 1) * residuals) / n
    margin = t_quantile(level, clusters - 1) * error
    return Interval(mean - margin, mean + margin, "cluster-t")


def independent_difference(new: Estimate, old: Estimate) -> Interval | None:
    """Interval for new - old of two independent samples, from the interval of each (MOVER; Zou and Donner 2008).

    Of Wilson's intervals it is Newcombe's method 10 (1998). Its level is that of the two intervals, or above it where
    they are conservative.

    >>> new, old = Estimate(56 / 70, wilson(56, 70)), Estimate(48 / 80, wilson(48, 80))
    >>> [round(end, 4) for end in independent_difference(new, old)[:2]]
    [0.0524, 0.3339]
    """
    if new.interval is None or old.interval is None:
        return None
    value = new.value - old.value
    below = math.hypot(new.value - new.interval.low, old.interval.high - old.value)
    above = math.hypot(new.interval.high - new.value, old.value - old.interval.low)
    return Interval(value - below, value + above, "mover")


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
        stats: (groups, numbers): sufficient statistics, one row per cluster or sample.
        statistic: from the sum over groups, shape (numbers,), to the statistic.

    >>> import numpy as np
    >>> hits_and_rows = np.array([[3.0, 4.0], [1.0, 4.0], [2.0, 4.0], [4.0, 4.0]])
    >>> [round(end, 3) for end in bootstrap(hits_and_rows, lambda total: total[0] / total[1], seed=0)[:2]]
    [0.375, 0.875]
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


def tango(fixed: int, broken: int, n: int, level: float = LEVEL) -> Interval | None:
    """Score interval for the difference of two paired proportions (Tango 1998).

    It contains every difference that the score test (McNemar's at 0) does not reject at 1 - level. Unlike a t interval
    it keeps its width where few rows changed, or none.

    Args:
        fixed: rows that went from 0 to 1; `broken`: from 1 to 0; together at most `n`, the rows compared.

    >>> [round(end, 3) for end in tango(fixed=10, broken=4, n=100)[:2]]
    [-0.015, 0.142]
    >>> [round(end, 3) for end in tango(fixed=0, broken=0, n=100)[:2]]
    [-0.037, 0.037]
    """
    if n < 2:
        return None
    from scipy.optimize import brentq

    z, observed = normal_quantile(level), (fixed - broken) / n

    def beyond(difference: float, side: int) -> float:
        """How far `difference` lies from the observed one, less z standard errors under it."""
        # The likeliest share of broken rows, given the difference: the larger root of a quadratic.
        b = (2 * n - fixed + broken) * difference - fixed - broken
        share = (math.sqrt(max(0.0, b * b + 8 * n * broken * difference * (1 - difference))) - b) / (4 * n)
        variance = 2 * share + difference * (1 - difference)
        return side * (difference - observed) * n - z * math.sqrt(max(0.0, n * variance))

    # Where all rows changed alike, or none did, the observed difference is a root too, but not the one wanted.
    low = -1.0 if broken == n else brentq(beyond, -1.0, observed - 1e-9, args=(-1,), xtol=1e-12)
    high = 1.0 if fixed == n else brentq(beyond, observed + 1e-9, 1.0, args=(1,), xtol=1e-12)
    return Interval(float(low), float(high), "tango")


def unseen(value: float, span: float, n: int, level: float = LEVEL) -> Interval | None:
    """The interval that remains where `n` observations do not differ from each other.

    A formula with a standard deviation has zero width there, but observations unlike these may have been missed: by
    Wilson's interval (1927) up to z^2 / (n + z^2) of all, each of which moves the value by `span` at most.

    >>> [round(end, 3) for end in unseen(value=0.0, span=1.0, n=100)[:2]]
    [-0.037, 0.037]
    """
    if n < 2:
        return None
    z = normal_quantile(level)
    margin = span * z * z / (n + z * z)
    return Interval(value - margin, value + margin, "unseen")


def normal_quantile(level: float) -> float:
    """Half the width, in standard errors, of a two-sided normal interval.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + level) / 2)


def t_quantile(level: float, df: float) -> float:
    """Half the width, in standard errors, of a two-sided t interval with `df` degrees of freedom.

    >>> round(t_quantile(0.95, df=9), 3)
    2.262
    """
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))
