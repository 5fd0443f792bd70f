"""What the other modules share: checked arrays, clusters of rows, and the interval of a sum of row effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.bounded_mean import Floats, bounded_mean
from answerkey.metrics_core.statistics.intervals import (
    LEVEL,
    Interval,
    clopper_pearson,
    normal_quantile,
    t_quantile,
    unseen,
)

Codes = npt.NDArray[np.intp]
"""The cluster or group of each row, shape (rows,), counted from 0."""

Mask = npt.NDArray[np.bool_]
"""Which of the rows: shape (rows,)."""

Clusters = Sequence[Hashable] | None
"""The cluster of each row, None for a row that belongs to no cluster; None altogether if all rows are independent."""


def numbers(values: npt.ArrayLike, name: str) -> Floats:
    """`values` as finite floats of shape (rows,).

    Raises:
        ValueError: not one number per row, NaN or infinity; the message starts with `name`.

    >>> numbers([0, 0.5], "scores")
    array([0. , 0.5])
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: one number per row is needed, and the shape is {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: row {int(np.argmin(np.isfinite(array)))} is not a finite number")
    return array


def zeros_and_ones(values: npt.ArrayLike, name: str) -> Floats:
    """`values` as floats of shape (rows,) that are 0 or 1.

    Raises:
        ValueError: anything else; the message starts with `name`.

    >>> zeros_and_ones([True, False], "labels")
    array([1., 0.])
    """
    array = numbers(values, name)
    other = array[(array != 0) & (array != 1)]
    if other.size:
        raise ValueError(f"{name}: only 0 and 1 are allowed, not {other[0]:g}")
    return array


def check_same_rows(first: Floats, second: Floats, names: str) -> None:
    """Raise an error unless two arrays are of the same rows.

    Raises:
        ValueError: different lengths, or no rows.

    >>> try:
    ...     check_same_rows(np.zeros(3), np.zeros(2), "old and new")
    ... except ValueError as error:
    ...     print(error)
    old and new: 3 and 2 rows are not the same rows
    """
    if len(first) != len(second):
        raise ValueError(f"{names}: {len(first)} and {len(second)} rows are not the same rows")
    if not len(first):
        raise ValueError(f"{names}: there are no rows")


def codes_of(clusters: Clusters, n: int) -> Codes | None:
    """The cluster of each of `n` rows as a number, in the order of first appearance.

    None where no two rows share a cluster: such rows are independent.

    Raises:
        ValueError: not one cluster per row.

    >>> codes_of(["q1", "q1", "q2", None], 4)
    array([0, 0, 1, 2])
    >>> codes_of(["q1", "q2"], 2) is None
    True
    """
    if clusters is None:
        return None
    if len(clusters) != n:
        raise ValueError(f"clusters: {len(clusters)} of them for {n} rows")
    seen: dict[Hashable, int] = {}
    # A row without a cluster gets a name of its own, which no cluster can have: it is one shorter.
    names = [(row,) if cluster is None else ("cluster", cluster) for row, cluster in enumerate(clusters)]
    codes = [seen.setdefault(name, len(seen)) for name in names]
    return None if len(seen) == n else np.array(codes, np.intp)


def unit_sums(values: Floats, codes: Codes | None) -> Floats:
    """Sums over each independent unit: the clusters, or the rows themselves. The first axis is summed.

    >>> unit_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]))
    array([3., 4.])
    """
    if codes is None:
        return values
    units, inverse = np.unique(codes, return_inverse=True)
    sums = np.zeros((len(units), *values.shape[1:]))
    np.add.at(sums, inverse, values)
    return sums


def mean(values: Floats) -> float:
    """The mean, the same to the last bit in any order of the rows.

    >>> mean(np.array([0.1] * 10))
    0.1
    """
    return math.fsum(values.tolist()) / len(values)


def standard_deviation(values: Floats) -> float | None:
    """The sample standard deviation (n - 1): None for fewer than two rows, 0 where they differ by rounding only.

    >>> standard_deviation(np.array([1.0, 3.0]))
    1.4142135623730951
    >>> standard_deviation(np.array([1.0])) is None
    True
    """
    if len(values) < 2:
        return None
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return 0.0
    return float(np.std(values, ddof=1))


class Scale(NamedTuple):
    """A scale on which a statistic near the end of its range is less skewed: an increasing function and its inverse.

    `slope` is the derivative of `forward`.

    >>> log = Scale(math.log, lambda x: 1 / x, math.exp)
    >>> log.back(log.forward(2.0))
    2.0
    """

    forward: Callable[[float], float]
    slope: Callable[[float], float]
    back: Callable[[float], float]


def sum_interval(
    value: float,
    effects: Floats,
    codes: Codes | None,
    *,
    span: float,
    method: str,
    scale: Scale | None = None,
    n: int | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """t interval of a statistic that is, to first order, a sum of independent row effects (the delta method).

    The squared error is n / (n - 1) times the sum over the clusters (rows, where there are none) of the square of
    their summed effects: for a mean that is Student's t, and with clusters Miller's (2024) clustered error.

    Where next to no unit differs from the rest, the spread is a guess and t intervals are far too narrow: 2 changed
    rows of 200 are not 40 times surer than none. So where fewer than z^2 units (and less than a quarter of them)
    carry the error, the interval is at least as wide as `unseen` makes it. How many carry it is the participation
    ratio, (sum of squares)^2 / sum of fourth powers, which is k where k of many rows differ alike. A `scale` allows
    for that by itself, as long as there is any error at all.

    Args:
        effects: (rows,): what each row moves the value by; they sum to 0. For a mean: (row - mean) / rows.
        span: the most that one row can move the value, times the number of rows; for `unseen`.
        method: the name of the interval; "cluster-" is put before it where there are clusters.
        scale: on which the interval is value +- margin; the statistic's own scale by default.
        n: the independent observations that the spread was estimated from, if not all clusters (rows). Where they fall
            into groups with an error each: those of the smallest group that matters.

    >>> scores = np.array([0.2, 0.4, 0.9, 0.7, 0.3, 0.5])
    >>> effects = (scores - mean(scores)) / len(scores)
    >>> [round(end, 3) for end in sum_interval(mean(scores), effects, None, span=1.0, method="t")[:2]]
    [0.226, 0.774]
    """
    sums = unit_sums(effects, codes)
    n = len(sums) if n is None else n
    if n < 2:
        return None
    squares = math.fsum((sums * sums).tolist())
    name = method if codes is None else f"cluster-{method}"
    margin = t_quantile(level, n - 1) * math.sqrt(n / (n - 1) * squares)
    carriers = _carriers(sums, squares, span / len(effects))
    if scale is not None and carriers:
        centre, reach = scale.forward(value), margin * scale.slope(value)
        return Interval(scale.back(centre - reach), scale.back(centre + reach), name)
    plain = Interval(value - margin, value + margin, name)
    if carriers >= min(normal_quantile(level) ** 2, n / 4):
        return plain
    return max(plain, unseen(value, span, n, level) or plain, key=lambda interval: interval.high)


def _carriers(sums: Floats, squares: float, most: float) -> float:
    """How many of the effects carry the error; 0 where they are rounding errors beside `most`, the largest possible."""
    if squares <= (1e-10 * most) ** 2:
        return 0.0
    # Scaled first: fourth powers of small effects may underflow.
    return 1 / float(np.sum((sums * sums / squares) ** 2))


def mean_interval(
    values: Floats, codes: Codes | None, *, low: float = 0.0, high: float = 1.0, level: float = LEVEL
) -> Interval | None:
    """Interval for the mean of `values`, which lie in `low` to `high`: `bounded_mean` of the rows, or of the clusters.

    Both ends keep their level for few rows, for few clusters and for rare large losses.

    >>> scores = np.array([0.2, 0.4, 0.9, 0.7, 0.3, 0.5])
    >>> [round(end, 3) for end in mean_interval(scores, None)[:2]]
    [0.24, 0.772]
    >>> [round(end, 3) for end in mean_interval(scores, np.array([0, 0, 1, 1, 2, 2]))[:2]]
    [0.134, 0.872]
    """
    if codes is None:
        return bounded_mean(values, low=low, high=high, level=level)
    interval = bounded_mean(
        unit_sums(values, codes), np.unique(codes, return_counts=True)[1], low=low, high=high, level=level
    )
    return interval and interval._replace(method=f"cluster-{interval.method}")


def proportion_interval(values: Floats, codes: Codes | None, level: float = LEVEL) -> Interval | None:
    """Interval for the mean of zeros and ones: Clopper and Pearson's, or `mean_interval` where there are clusters.

    >>> [round(end, 3) for end in proportion_interval(np.array([1.0, 1.0, 0.0, 1.0]), None)[:2]]
    [0.194, 0.994]
    """
    if codes is None:
        return clopper_pearson(float(values.sum()), len(values), level)
    return mean_interval(values, codes, level=level)


def design_effect(values: Floats, codes: Codes | None) -> float:
    """The factor by which clusters increase the variance of the mean (Kish 1965; here as in Miller 2024).

    1 where the rows are independent or do not vary. n rows are worth n / design effect independent ones.

    >>> design_effect(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    3.0
    """
    spread = standard_deviation(values)
    if codes is None or not spread:
        return 1.0
    sums = unit_sums(values - mean(values), codes)
    n, count = len(values), len(sums)
    return float(sums @ sums) * count / (count - 1) / (n * spread * spread) if count > 1 else 1.0
