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

    >>> Estimate(0.8, clopper_pearson(8, 10)).value
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


def clopper_pearson(successes: float, n: float, level: float = LEVEL) -> Interval | None:
    """The exact interval for a proportion (Clopper and Pearson 1934).

    Each end is wrong with a chance of at most (1 - level) / 2, for any n and any true share. Wilson's interval is
    narrower, and wrong on one side up to 4 times in 100 where it says 2.5.

    Args:
        successes: how many of `n` are 1, 0 to n.

    >>> [round(end, 3) for end in clopper_pearson(8, 10)[:2]]
    [0.444, 0.975]
    >>> clopper_pearson(1, 1) is None
    True
    """
    if n < 2:
        return None
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return Interval(low, high, "clopper-pearson")


def independent_difference(new: Estimate, old: Estimate) -> Interval | None:
    """Interval for new - old of two independent samples, from the interval of each (MOVER; Zou and Donner 2008).

    Of Wilson's intervals it is Newcombe's method 10 (1998). Its level is that of the two intervals, or above it where
    they are conservative.

    >>> new, old = Estimate(56 / 70, clopper_pearson(56, 70)), Estimate(48 / 80, clopper_pearson(48, 80))
    >>> [round(end, 4) for end in independent_difference(new, old)[:2]]
    [0.0439, 0.3442]
    """
    if new.interval is None or old.interval is None:
        return None
    value = new.value - old.value
    below = math.hypot(new.value - new.interval.low, old.interval.high - old.value)
    above = math.hypot(new.interval.high - new.value, old.value - old.interval.low)
    return Interval(value - below, value + above, "mover")


class SumStatistic(NamedTuple):
    """A statistic of summed rows of numbers, for instance corpus BLEU.

    `value`: from sums, shape (..., numbers), to the statistic, shape (...). `extremes`: from a mean row, shape
    (numbers,), to the worst row of its size and to the best one.

    >>> import numpy as np
    >>> ratio = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
    >>> float(ratio.value(np.array([3.0, 4.0])))
    0.75
    """

    value: Callable[[np.ndarray], np.ndarray]
    extremes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def bootstrap(
    stats: np.ndarray,
    statistic: SumStatistic,
    *,
    seed: int,
    resamples: int = 1000,
    level: float = LEVEL,
) -> Interval | None:
    """Interval for a statistic of summed rows: a Bayesian bootstrap with one group added.

    All groups get random weights that are uniform on the simplex (Rubin 1981), and so does one more: the worst possible
    for the lower end, the best possible for the upper end, as in `bounded_mean` (Gaffke 2005). The percentile bootstrap
    (Efron 1979) is too narrow for few groups, and much too narrow where few of them make the sum. That this one keeps
    its level is measured (docs/statistics.md), not proved.

    Args:
        stats: (groups, numbers): sufficient statistics, one row per cluster or sample.
        resamples: drawn; more where the level needs them.

    >>> import numpy as np
    >>> hits_and_rows = np.array([[3.0, 4.0], [1.0, 4.0], [2.0, 4.0], [4.0, 4.0]])
    >>> ratio = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
    >>> found = bootstrap(hits_and_rows, ratio, seed=0)
    >>> [round(end, 2) for end in found[:2]]
    [0.21, 0.92]
    """
    import numpy as np

    groups = len(stats)
    if groups < 2:
        return None
    rng, tail = np.random.default_rng(seed), (1 - level) / 2
    draws = max(resamples, math.ceil(_LEAST_IN_TAIL / tail))
    worst, best = statistic.extremes(stats.mean(axis=0))
    low, high = np.empty(draws), np.empty(draws)
    batch = max(1, _CELLS // groups)
    for start in range(0, draws, batch):
        part = slice(start, min(start + batch, draws))
        weights = rng.standard_exponential((part.stop - start, groups + 1))
        weights *= groups / weights.sum(axis=1, keepdims=True)
        totals, added = weights[:, :-1] @ stats, weights[:, -1:]
        low[part] = statistic.value(totals + added * worst)
        high[part] = statistic.value(totals + added * best)
    observed = float(statistic.value(stats.sum(axis=0)))
    ends = min(observed, float(np.quantile(low, tail))), max(observed, float(np.quantile(high, 1 - tail)))
    return Interval(*ends, "bounded-bootstrap")


_LEAST_IN_TAIL = 25
"""Draws beyond either end of a bootstrap interval, from which the ends are taken."""
_CELLS = 1_000_000
"""Weights are drawn in batches of so many, 8 MB."""


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


def paired_proportions(fixed: int, broken: int, n: int, level: float = LEVEL) -> Interval | None:
    """Interval for the difference of two paired proportions: Tango's, widened where it is too narrow on one side.

    Where rows changed in one direction only, or few did, one end of Tango's interval is wrong up to 5 times in 100
    where 2.5 is stated. So each end is the further one of Tango's and of a square-and-add interval (MOVER; Zou and
    Donner 2008) of Clopper and Pearson's intervals for the fixed and the broken rows. By enumeration, over shares of 0
    to 0.3 and 10 to 300 rows, both ends are then wrong at most 2.7 times in 100, at 0 to 4 % more width.

    Args:
        fixed: rows that went from 0 to 1; `broken`: from 1 to 0; together at most `n`, the rows compared.

    >>> [round(end, 3) for end in paired_proportions(fixed=10, broken=4, n=100)[:2]]
    [-0.018, 0.142]
    """
    score = tango(fixed, broken, n, level)
    up, down = clopper_pearson(fixed, n, level), clopper_pearson(broken, n, level)
    if score is None or up is None or down is None:
        return None
    shares = fixed / n, broken / n
    difference = shares[0] - shares[1]
    low = difference - math.hypot(shares[0] - up.low, down.high - shares[1])
    high = difference + math.hypot(up.high - shares[0], shares[1] - down.low)
    return Interval(max(-1.0, min(score.low, low)), min(1.0, max(score.high, high)), "tango-mover")


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
