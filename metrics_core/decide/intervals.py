"""Confidence intervals for a mean, a proportion, or a difference of two of these; and pass@k.

Most functions take counts and sums rather than rows, so that a database can do the summing. All intervals are
two-sided, by default at 95 %. Fewer than two observations have no interval, because one of zero width would look like
certainty.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

LEVEL = 0.95
"""The default confidence level."""
MIN_COVERAGE = 0.95
"""The default share of rows with a number from which on their mean speaks for all rows."""
LEAST_COVERAGE = 0.5
"""The share of rows with a number below which there is no mean."""


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
    """A statistic and its interval; `interval` is None if there are too few rows.

    >>> Estimate(0.8, clopper_pearson(8, 10)).value
    0.8
    """

    value: float
    interval: Interval | None


def of_all_rows(
    mean: float | None,
    interval: Interval | None,
    coverage: float,
    low: float,
    high: float,
    min_coverage: float = MIN_COVERAGE,
) -> tuple[float | None, Interval | None]:
    """A mean and its interval as they hold for all rows, of which only some have a number.

    The rows with a number are no sample of all: often they are those that cost nothing or are easy. Below
    `min_coverage` the interval begins where it would if every other row had the lowest value, and ends where it would
    if every other row had the highest (the bounds of Manski, Anatomy of the Selection Problem, 1989). Below
    `LEAST_COVERAGE` there is no mean, and where the range of a field is not known there are neither.

    Args:
        mean: of the rows with a number; None: there are none.
        interval: of that mean.
        coverage: the share of the rows with a number, 0 to 1.
        low, high: the range of a number.

    >>> of_all_rows(0.9, Interval(0.8, 0.95, "t"), 0.8, 0.0, 1.0)
    (0.9, Interval(low=0.64, high=0.96, method='t+missing'))
    >>> of_all_rows(1.0, Interval(0.4, 1.0, "t"), 0.25, 0.0, 1.0)
    (None, Interval(low=0.1, high=1.0, method='t+missing'))
    """
    if mean is None or coverage >= min_coverage:
        return mean, interval
    # Every row without a number may have any value of the range
    missing = 1.0 - coverage
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None
    if interval is None:
        interval = Interval(mean, mean, "none")
    wider = Interval(
        round(coverage * interval.low + missing * low, 12),
        round(coverage * interval.high + missing * high, 12),
        f"{interval.method}+missing",
    )
    return (None if coverage < LEAST_COVERAGE else mean), wider


def percent(level: float) -> str:
    """A level as text, with enough digits to distinguish it from 100 %.

    >>> percent(0.95), percent(0.975), percent(1 - 0.05 / 930)
    ('95 %', '97.5 %', '99.9946 %')
    """
    digits = max(0, 1 - math.floor(math.log10(100 * (1 - level))))
    text = f"{100 * level:.{digits}f}"
    if digits:
        text = text.rstrip("0").rstrip(".")
    return f"{text} %"


def decimals(value: float, *limits: float) -> int:
    """The number of decimals, 3 to 6, that show on which side of each limit a number lies; 3 if it equals all of them.

    >>> decimals(0.0123, 0.0), decimals(0.0001, 0.0), decimals(-0.01996, 0.0, -0.02), decimals(0.0, 0.0)
    (3, 4, 5, 3)
    """
    # Nearer ones count as equal, because six decimals would not show the difference either
    unequal = [limit for limit in limits if abs(limit - value) >= 0.5e-6]
    for n in range(3, 6):
        if round(value, n) not in [round(limit, n) for limit in unequal]:
            return n
    return 6


def clopper_pearson(successes: float, n: float, level: float = LEVEL) -> Interval | None:
    """The exact interval for a proportion (Clopper and Pearson 1934).

    Each end is wrong with a chance of at most (1 - level) / 2, for any n and any true share. Wilson's interval is
    narrower, but one of its ends is wrong up to 4 times in 100 instead of the stated 2.5.

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

    With Wilson's intervals this is Newcombe's method 10 (1998). Its level is about that of the two intervals; lower for
    shares near 0 and 1 (see `unpaired_proportions`).

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


_TAIL_OF_EACH = 0.72
"""The error of either proportion's interval, as a share of that of their difference."""


Count = tuple[int, int]
"""Successes, and all rows."""


def unpaired_proportions(old: Count, new: Count, level: float = LEVEL) -> Interval | None:
    """Interval for new - old of two proportions of independent samples.

    The square-and-add interval (MOVER) of two Clopper-Pearson intervals whose level is higher than `level`: with equal
    levels, an end at 95 % was wrong with a chance of up to .033. By enumeration of 5 to 1,000 rows each, and of shares
    that differ by at most .5, it is now wrong with a chance of at most .028.

    >>> [round(end, 3) for end in unpaired_proportions((41, 50), (47, 50))[:2]]
    [-0.031, 0.272]
    """
    # Each interval is at a higher level than the difference, whose ends were wrong too often at equal ones
    level = 1 - _TAIL_OF_EACH * (1 - level)
    estimates = [Estimate(successes / n, clopper_pearson(successes, n, level)) for successes, n in (new, old)]
    return independent_difference(*estimates)


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

    All groups get random weights that are uniform on the simplex (Rubin 1981), and so does one added group: the worst
    possible one for the lower end, the best possible one for the upper end, as in `bounded_mean` (Gaffke 2005). The
    percentile bootstrap (Efron 1979) is too narrow for few groups, and much too narrow if few of them dominate the sum.
    That this bootstrap keeps its level is measured (docs/error_rates.md), not proved.

    Args:
        stats: (groups, numbers): sufficient statistics, one row per cluster or sample.
        resamples: the number of draws; more are drawn if the level needs them.

    >>> import numpy as np
    >>> hits_and_rows = np.array([[3.0, 4.0], [1.0, 4.0], [2.0, 4.0], [4.0, 4.0]])
    >>> ratio = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
    >>> result = bootstrap(hits_and_rows, ratio, seed=0)
    >>> [round(end, 2) for end in result[:2]]
    [0.21, 0.92]
    """
    import numpy as np

    groups = len(stats)
    if groups < 2:
        return None
    rng = np.random.default_rng(seed)
    tail = (1 - level) / 2
    draws = max(resamples, math.ceil(_LEAST_IN_TAIL / tail))
    worst, best = statistic.extremes(stats.mean(axis=0))
    low = np.empty(draws)
    high = np.empty(draws)
    # In batches, so that memory does not grow with the groups
    batch = max(1, _CELLS // groups)
    for start in range(0, draws, batch):
        part = slice(start, min(start + batch, draws))
        weights = rng.standard_exponential((part.stop - start, groups + 1))
        weights *= groups / weights.sum(axis=1, keepdims=True)
        totals = weights[:, :-1] @ stats
        added = weights[:, -1:]
        low[part] = statistic.value(totals + added * worst)
        high[part] = statistic.value(totals + added * best)
    # The interval contains what was observed
    observed = float(statistic.value(stats.sum(axis=0)))
    return Interval(
        min(observed, float(np.quantile(low, tail))),
        max(observed, float(np.quantile(high, 1 - tail))),
        "bounded-bootstrap",
    )


_LEAST_IN_TAIL = 25
"""The least number of draws beyond either end of a bootstrap interval."""
_CELLS = 1_000_000
"""The number of weights in a batch, 8 MB."""


def tango(fixed: int, broken: int, n: int, level: float = LEVEL) -> Interval | None:
    """Score interval for the difference of two paired proportions (Tango 1998).

    It contains every difference that the score test (McNemar's at 0) does not reject at 1 - level. Unlike a t interval,
    it keeps its width if few rows changed, or none.

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

    observed = (fixed - broken) / n
    z = normal_quantile(level)
    # If all rows changed in the same direction, or none did, the observed difference is a root too, but not the end.
    low = -1.0 if broken == n else brentq(_tango, -1.0, observed - 1e-9, args=(fixed, broken, n, z), xtol=1e-12)
    # The upper end is minus the lower end for the releases in the other order
    high = -1.0 if fixed == n else brentq(_tango, -1.0, -observed - 1e-9, args=(broken, fixed, n, z), xtol=1e-12)
    return Interval(float(low), -float(high), "tango")


def _tango(difference: Any, fixed: Any, broken: Any, n: Any, z: float) -> Any:
    """The distance of a difference below the observed one minus z standard errors, times n. Arrays broadcast."""
    import numpy as np

    # The likeliest share of broken rows, given the difference: the larger root of a quadratic.
    linear = (2 * n - fixed + broken) * difference - fixed - broken
    root = np.sqrt(np.maximum(0.0, linear * linear + 8 * n * broken * difference * (1 - difference)))
    share = (root - linear) / (4 * n)
    variance = 2 * share + difference * (1 - difference)
    return fixed - broken - difference * n - z * np.sqrt(np.maximum(0.0, n * variance))


def paired_proportions(fixed: int, broken: int, n: int, level: float = LEVEL) -> Interval | None:
    """Interval for the difference of two paired proportions: Tango's, widened on a side where it is too narrow.

    If few rows changed, or all in one direction, one end of Tango's interval is wrong up to 5 times in 100 instead of
    the stated 2.5. So each end is the outer one of Tango's and of a square-and-add interval (MOVER; Zou and Donner
    2008) of Clopper and Pearson's intervals for the fixed and the broken rows. By enumeration over a grid of shares, at
    10 rows an end is then wrong with a chance of at most .031 if at most half of the rows change, .046 if up to nine in
    ten do, and .086 for any shares (docs/statistics.md). Intervals are 0 to 4 % wider than Tango's.

    Args:
        fixed: rows that went from 0 to 1; `broken`: from 1 to 0; together at most `n`, the rows compared.

    >>> [round(end, 3) for end in paired_proportions(fixed=10, broken=4, n=100)[:2]]
    [-0.018, 0.142]
    """
    score = tango(fixed, broken, n, level)
    if score is None:
        return None
    low = float(_mover(fixed, broken, n, level))
    high = -float(_mover(broken, fixed, n, level))
    return Interval(max(-1.0, min(score.low, low)), min(1.0, max(score.high, high)), "tango-mover")


def _mover(fixed: Any, broken: Any, n: Any, level: float) -> Any:
    """The lower end of a square-and-add interval for the difference of two paired proportions. Arrays broadcast."""
    import numpy as np
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    # Clopper and Pearson's lower end for the fixed rows, and their upper end for the broken ones
    min_fixed = np.where(fixed > 0, betaincinv(np.maximum(fixed, 0.5), n - fixed + 1, tail), 0.0)
    max_broken = np.where(broken < n, betaincinv(broken + 1, np.maximum(n - broken, 0.5), 1 - tail), 1.0)
    return (fixed - broken) / n - np.hypot(fixed / n - min_fixed, max_broken - broken / n)


def proportions_above(
    fixed: npt.ArrayLike, broken: npt.ArrayLike, n: int, floor: float, level: float = LEVEL
) -> npt.NDArray[np.bool_]:
    """Whether each of many samples of `n` rows has a `paired_proportions` interval above `floor`; arrays of counts.

    For the other side, exchange fixed and broken rows and change the sign of `floor`.

    >>> proportions_above([10, 30], [4, 4], 100, floor=0.0).tolist()
    [False, True]
    """
    import numpy as np

    up = np.asarray(fixed, np.float64)
    down = np.asarray(broken, np.float64)
    if n < 2 or floor < -1:
        return np.full(up.shape, n > 1)
    # Tango's end lies above the floor if the score test rejects the floor, so no root needs to be found.
    score = (up - down > floor * n) & (_tango(floor, up, down, n, z=normal_quantile(level)) > 0)
    above: npt.NDArray[np.bool_] = score & (_mover(up, down, n, level) > floor)
    return above


def unseen(value: float, span: float, n: int) -> Interval | None:
    """The interval if `n` observations do not differ from each other.

    A formula with a standard deviation has zero width then, but different observations may have been missed: by
    Wilson's interval (1927) up to a share of z^2 / (n + z^2), each of which moves the value by `span` at most.

    >>> [round(end, 3) for end in unseen(value=0.0, span=1.0, n=100)[:2]]
    [-0.037, 0.037]
    """
    if n < 2:
        return None
    z = normal_quantile(LEVEL)
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


def pass_at_k(n: int, right: int, k: int) -> float:
    """The chance that at least one of `k` answers is right, estimated from `right` of `n` answers.

    1 - C(n - right, k) / C(n, k): the share of the subsets of k answers with a right one in it, which is unbiased
    (Chen et al., Evaluating Large Language Models Trained on Code, 2021, equation 1).

    >>> pass_at_k(5, 1, 5), pass_at_k(5, 0, 5), pass_at_k(4, 1, 2)
    (1.0, 0.0, 0.5)
    """
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float:
    """The chance that all of `k` answers are right (pass^k), estimated from `right` of `n` answers.

    C(right, k) / C(n, k): the share of the subsets of k answers that are all right, which is unbiased (Yao et al.,
    tau-bench, 2024).

    >>> pass_hat_k(5, 4, 5), pass_hat_k(5, 5, 5), pass_hat_k(4, 3, 2)
    (0.0, 1.0, 0.5)
    """
    return math.comb(right, k) / math.comb(n, k)
