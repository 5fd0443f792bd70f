"""Two releases on the same samples: the difference, its interval, its p-value, and how many answers changed.

Everything is paired by row. Both releases answer the same questions, easy and hard, so the relevant spread is that of
the differences, which is mostly smaller than that of either release (Miller 2024).

The permutation tests exchange the two releases within a row, or within a cluster. If the releases do not differ, the
two answers of a row are exchangeable, so the observed difference is compared with those after exchanging the releases
in some of the units (rows or clusters). All exchanges are tried if there are at most `permutations` of them, otherwise
a seeded sample: p is then (1 + as extreme) / (1 + sample), which is never 0 and never too small (Phipson and Smyth
2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats, Units, assumed_range
from .clustered import (
    Clusters,
    Codes,
    are_few,
    codes_of,
    design_effect,
    mean,
    mean_interval,
    standard_deviation,
    unit_sums,
)
from .intervals import LEVEL, Interval, SumStatistic, bootstrap, paired_proportions

PERMUTATIONS = 9999

_CELLS = 2_000_000
"""The cells of a batch of exchanges, 16 MB, so that memory does not grow with the rows."""

_GAINS = 0.5
"""How much farther from the mean gains may be than any difference that was seen, at the end that shows a loss."""

_ROUNDING = 1e-12
"""The largest relative difference between two ways of adding the same numbers."""


def sign_flip(sums: Floats, *, seed: int = 0, permutations: int = PERMUTATIONS) -> float:
    """Two-sided p-value of a mean difference of 0, by flipping the sign of each unit's difference (Fisher 1935).

    The result does not depend on the order of the units, nor on units without a difference.

    Args:
        sums: (units,): new - old, summed over the rows of each unit.

    >>> sign_flip(np.array([0.1, 0.2, 0.1, 0.4]))
    0.125
    """
    # Sorted, so that the result does not depend on the order of the units
    sizes = np.sort(np.abs(sums[sums != 0]))
    total = float(sizes.sum())
    observed = abs(float(sums.sum())) - _ROUNDING * total
    return _share(lambda flipped: np.abs(total - 2 * (flipped @ sizes)) >= observed, len(sizes), seed, permutations)


def exchange(
    old: Floats,
    new: Floats,
    statistic: Callable[[Floats], Floats],
    *,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> float:
    """Two-sided p-value of a difference of 0 in a statistic of summed rows (approximate randomisation; Noreen 1989).

    Args:
        old: (units, numbers): sufficient statistics; `new`: likewise, of the same units.
        statistic: from sums over units, shape (..., numbers), to the statistic, shape (...).

    >>> old, new = np.array([[1.0, 4.0], [2.0, 4.0]]), np.array([[3.0, 4.0], [4.0, 4.0]])
    >>> exchange(old, new, lambda total: total[..., 0] / total[..., 1])
    0.5
    """
    # Units that are equal do not change under an exchange
    moves = (new - old)[(new != old).any(axis=1)]
    old_sums = old.sum(axis=0)
    new_sums = new.sum(axis=0)
    observed = abs(float(statistic(new_sums) - statistic(old_sums))) - _ROUNDING

    def extreme(exchanged: Floats) -> np.ndarray:
        moved = exchanged @ moves
        return np.abs(statistic(new_sums - moved) - statistic(old_sums + moved)) >= observed

    return _share(extreme, len(moves), seed, permutations)


def _share(extreme: Callable[[Floats], np.ndarray], units: int, seed: int, permutations: int) -> float:
    """The share of exchanges that are `extreme`, among all or among a sample plus the observed one."""
    n_extreme = 0
    if units < 63 and 2**units <= permutations:
        # Every subset of the units, as rows of zeros and ones
        numbers = np.arange(2**units)
        for part in np.array_split(numbers, 1 + len(numbers) * units // _CELLS):
            exchanged = ((part[:, None] >> np.arange(units)) & 1).astype(np.float64)
            n_extreme += int(extreme(exchanged).sum())
        return n_extreme / len(numbers)

    # Random subsets, all equally likely
    rng = np.random.default_rng(seed)
    width = (units + 7) // 8
    batch = max(1, _CELLS // units)
    for start in range(0, permutations, batch):
        rows = min(batch, permutations - start)
        # One random bit per unit: eight times fewer random bytes than integers of 0 and 1.
        packed = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
        exchanged = np.unpackbits(packed, axis=1, count=units).astype(np.float64)
        n_extreme += int(extreme(exchanged).sum())
    return (1 + n_extreme) / (1 + permutations)


Test = Literal["mcnemar", "sign-flip", "cluster sign-flip", "exchange"]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference between two releases in one metric field.

    Attributes:
        n: rows that both releases have.
        units: the number of independent units: clusters, or rows.
        old: the statistic of the old release, `new`: of the new one, `difference`: new - old.
        interval: for the difference; None for fewer than two units.
        p: two-sided p-value of the hypothesis of no difference, 0..1, by `test`.
        fixed: rows that went from 0 to 1; `broken`: from 1 to 0; None if scores are not 0 or 1.
        sd: sample standard deviation of the rows' differences; `design_effect`: the factor by which clusters increase
            the variance of their mean. Planning needs both. None and 1 for a single row, or if the statistic is not a
            mean.
        changes: the differences, summed by unit, for planning; `span`: the range of the scores.

    >>> paired_difference([0, 0, 1, 1], [1, 1, 1, 0], binary=True).difference
    0.25
    """

    n: int
    units: int
    old: float
    new: float
    difference: float
    interval: Interval | None
    p: float
    test: Test
    fixed: int | None = None
    broken: int | None = None
    sd: float | None = None
    design_effect: float = 1.0
    changes: Units | None = field(default=None, repr=False, compare=False)
    span: float = 1.0


def paired_difference(
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    binary: bool = False,
    clusters: Clusters = None,
    span: float = 1.0,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
    level: float = LEVEL,
) -> PairedDifference:
    """Compare the means of two releases on the same rows.

    | scores | interval | test |
    |---|---|---|
    | 0 or 1 | Tango's score interval, widened (`paired_proportions`) | exact McNemar |
    | any | `bounded_mean` | sign flips |
    | any, in clusters | `bounded_mean` of the clusters' sums | sign flips of whole clusters |

    Args:
        old: (rows,): scores of the old release; `new`: of the new one, of the same rows in the same order.
        binary: scores are 0 or 1.
        clusters: (rows,): rows of one cluster are not independent; a row with None belongs to no cluster.
        span: length of the range that scores lie in, 1 for 0..1. Infinite for values with an open end, such as seconds:
            see `change_range`.
        seed: of the sign flips, if not all of them can be tried; `permutations`: the number of flips to try then.

    >>> result = paired_difference([0] * 6 + [1] * 4, [1] * 9 + [0], binary=True)
    >>> result.difference, result.fixed, result.broken, result.p
    (0.5, 6, 1, 0.125)
    """
    old_scores = np.asarray(old, np.float64)
    new_scores = np.asarray(new, np.float64)
    change = new_scores - old_scores
    codes = codes_of(clusters, len(change))
    sums = unit_sums(change, codes)
    bounds = change_range(change, codes, span=span, usual=mean(old_scores))
    # Zeros and ones have an exact test, unless they are in clusters
    fixed = int((change > 0).sum())
    broken = int((change < 0).sum())
    test: Test
    if binary and codes is None:
        test = "mcnemar"
        p = float(mcnemar(fixed, broken))
    else:
        test = "sign-flip" if codes is None else "cluster sign-flip"
        p = sign_flip(sums, seed=seed, permutations=permutations)
    return PairedDifference(
        n=len(change),
        units=len(sums),
        old=mean(old_scores),
        new=mean(new_scores),
        difference=mean(change),
        interval=difference_interval(change, codes, binary=binary, bounds=bounds, level=level),
        p=p,
        test=test,
        fixed=fixed if binary else None,
        broken=broken if binary else None,
        sd=standard_deviation(change),
        design_effect=design_effect(change, codes),
        changes=Units(sums, unit_sums(np.ones(len(change)), codes), np.ones(len(sums))),
        span=-bounds[0],
    )


def difference_interval(
    change: Floats,
    codes: Codes | None,
    *,
    binary: bool,
    bounds: tuple[float, float] = (-1.0, 1.0),
    level: float = LEVEL,
) -> Interval | None:
    """The interval of `paired_difference` for its rows' differences, of shape (rows,), inside `bounds`.

    >>> [round(end, 3) for end in difference_interval(np.array([1.0, 0.0, 0.0, -1.0]), None, binary=True)[:2]]
    [-0.607, 0.607]
    """
    if binary and codes is None:
        return paired_proportions(int((change > 0).sum()), int((change < 0).sum()), len(change), level)
    return mean_interval(change, codes, low=bounds[0], high=bounds[1], level=level)


def change_range(change: Floats, codes: Codes | None, *, span: float = 1.0, usual: float = 0.0) -> tuple[float, float]:
    """The range of the differences of two releases that their interval allows for.

    The new release may have lost everything on rows that were not asked, so the lower end, above which it may ship,
    allows for -`span`. The upper end, below which it is worse, would hardly ever show that documents got worse if it
    allowed for `span`. It allows for gains half as far from the mean as the farthest difference that was seen
    (`assumed_range`), where enough units differ from the mean to show their spread.

    Where `span` is infinite, both ends allow for the larger end of the `assumed_range`, and at least for `usual`: a
    question that was not asked may change by as much as a usual one takes.

    Args:
        change: (rows,): differences; `codes`: their clusters.
        span: length of the range of the scores; infinite for seconds, tokens and the like.
        usual: the mean of the old release.

    >>> change_range(np.array([-0.2, -0.1, 0.0] * 20), None)
    (-1.0, 0.0)
    >>> change_range(np.full(300, 10.0), None, span=math.inf, usual=100.0)
    (-100.0, 100.0)
    """
    sums = unit_sums(change, codes)
    sizes = unit_sums(np.ones(len(change)), codes)
    # Without a highest score: what was seen says what is possible
    if math.isinf(span):
        low, high = assumed_range(sums, sizes)
        span = max(-low, high, abs(usual))
        return -span, span
    if are_few(sums - mean(change) * sizes, span):
        return -span, span
    return -span, min(span, round(assumed_range(sums, sizes, factor=_GAINS)[1], 12))


def mcnemar(fixed: npt.ArrayLike, broken: npt.ArrayLike) -> Floats:
    """Exact two-sided p-values that fixed and broken rows are equally likely (McNemar 1947; binomial distribution).

    1 if nothing changed. The test is conservative, so p may stay above 0.05 although the interval just excludes 0. The
    mid-p is closer to 0.05 on average but may reject more often than it states.

    Args:
        fixed: rows that went from 0 to 1; `broken`: from 1 to 0; counts, or arrays of counts.

    >>> float(mcnemar(fixed=6, broken=0))
    0.03125
    """
    from scipy.special import bdtr

    up = np.asarray(fixed, np.int64)
    down = np.asarray(broken, np.int64)
    # With equal chances both tails are the same; they meet if the counts differ by at most 1.
    p: Floats = np.where(np.abs(up - down) <= 1, 1.0, 2 * bdtr(np.minimum(up, down).astype(float), up + down, 0.5))
    return p


def pooled_difference(
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    statistic: SumStatistic,
    *,
    clusters: Clusters = None,
    seed: int = 0,
    resamples: int = 1000,
    permutations: int = 999,
) -> PairedDifference:
    """Compare a statistic that is not a mean of rows, for instance corpus BLEU, of two releases on the same rows.

    The interval is the `bootstrap` of the difference, with the same weights for both releases; the test exchanges the
    releases in random units.

    Args:
        old: (rows, numbers): sufficient statistics of the old release's rows; `new`: of the new one's.
        statistic: of one release; its value is finite for any sum over rows.

    >>> old, new = [[1, 4], [2, 4], [2, 4]], [[3, 4], [2, 4], [4, 4]]
    >>> ratio = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
    >>> result = pooled_difference(old, new, ratio)
    >>> round(float(result.difference), 3), result.test
    (0.333, 'exchange')
    """
    old_scores = np.asarray(old, np.float64)
    pooled = np.hstack([old_scores, np.asarray(new, np.float64)])
    sums = unit_sums(pooled, codes_of(clusters, len(pooled)))
    # Sorted, so that the seed gives the same numbers in any order of the rows.
    sums = sums[np.lexsort(sums.T)]
    width = old_scores.shape[1]

    def difference(totals: Floats) -> Floats:
        result: Floats = statistic.value(totals[..., width:]) - statistic.value(totals[..., :width])
        return result

    def extremes(mean: Floats) -> tuple[Floats, Floats]:
        old_worst, old_best = statistic.extremes(mean[:width])
        new_worst, new_best = statistic.extremes(mean[width:])
        return np.hstack([old_best, new_worst]), np.hstack([old_worst, new_best])

    total = sums.sum(axis=0)
    return PairedDifference(
        n=len(pooled),
        units=len(sums),
        old=float(statistic.value(total[:width])),
        new=float(statistic.value(total[width:])),
        difference=float(difference(total)),
        interval=bootstrap(sums, SumStatistic(difference, extremes), seed=seed, resamples=resamples),
        p=exchange(sums[:, :width], sums[:, width:], statistic.value, seed=seed, permutations=permutations),
        test="exchange",
    )
