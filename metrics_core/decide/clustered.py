"""Clusters of rows, and the intervals of means and of sums of row effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats, bounded_mean
from .intervals import (
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
"""A selection of rows, of shape (rows,)."""

Clusters = Sequence[Hashable] | Codes | None
"""The cluster of each row (None: the row belongs to no cluster), or None if all rows are independent."""


_LEAST_DEPENDENCE = 0.01
"""Of the variance of a mean: a few copies among many samples are as good as independent, and cost no better method."""


def codes_of(clusters: Clusters, n: int) -> Codes | None:
    """Number the clusters of `n` rows in the order of first appearance.

    None if no two rows share a cluster: such rows are independent.

    >>> codes_of(["q1", "q1", "q2", None], 4)
    array([0, 0, 1, 2])
    >>> codes_of(["q1", "q2"], 2) is None
    True
    """
    if clusters is None:
        return None
    code_of: dict[Hashable, int] = {}
    codes = []
    for row, cluster in enumerate(clusters):
        # A row without a cluster gets a name that no cluster can have, since it is a shorter tuple.
        name = (row,) if cluster is None else ("cluster", cluster)
        codes.append(code_of.setdefault(name, len(code_of)))
    return None if len(code_of) == n else np.array(codes, np.intp)


def dependent_samples(
    columns: Mapping[str, Any], old: str, new: str
) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    """Codes of the samples of two releases that are not independent, and notes on them.

    Samples that are together in the data of either release are dependent: neither file can undo what the other shows.
    Of the others, those with the same question and the same answers in both releases are copies, and no more evidence
    than one of them.

    Args:
        columns: (samples,) each. `clustered`: whether the sample has a cluster in either release; `cluster`: its code
            there, else a code of its own; `old_cluster` and `new_cluster`: a code of that in each release, where
            `in_old_cluster` and `in_new_cluster`; `copies`: the same for samples that are copies of each other.
        old, new: names of the releases.

    Returns:
        Codes of shape (samples,), None where all samples are independent.

    >>> no = np.zeros(3, bool)
    >>> about = {"clustered": no, "cluster": np.arange(3), "copies": np.array([7, 8, 7])}
    >>> sides = {f"{side}_cluster": no for side in ("old", "new", "in_old", "in_new")}
    >>> codes, notes = dependent_samples({**about, **sides}, "v1", "v2")
    >>> bool(codes[0] == codes[2] != codes[1]), len(notes)
    (True, 1)
    """
    clustered = columns["clustered"].astype(bool)
    codes = columns["cluster"].astype(np.int64)
    notes = []
    sides = [
        (np.asarray(columns[f"{side}_cluster"]), columns[f"in_{side}_cluster"].astype(bool)) for side in ("old", "new")
    ]

    # Clusters that the two data sets form differently
    in_both = sides[0][1] & sides[1][1]
    pairs = np.stack([cluster[in_both] for cluster, _ in sides], axis=1)
    if (pairs[:, 0] != pairs[:, 1]).any():
        codes = _connected(sides)
        n_old, n_new = (len(np.unique(clusters)) for clusters in pairs.T)
        if not n_old == n_new == len(np.unique(pairs, axis=0)):
            notes.append(
                f"The {in_both.sum():,} samples with a cluster in both data sets are in {n_old:,} clusters with {old} "
                f"and in {n_new:,} with {new}. Samples that are in one cluster with either count as dependent, which "
                f"makes {len(np.unique(codes[in_both])):,}."
            )

    # Copies among the other samples
    copies = columns["copies"]
    _, index, group, counts = np.unique(copies[~clustered], return_index=True, return_inverse=True, return_counts=True)
    if (counts * (counts - 1.0)).sum() > _LEAST_DEPENDENCE * len(copies):
        codes[~clustered] = codes.max(initial=0) + 1 + index[group]
        n_groups = int((counts > 1).sum())
        groups = "1 cluster" if n_groups == 1 else f"{n_groups:,} clusters"
        notes.append(
            f"{int(counts[counts > 1].sum()):,} samples have the same question and the same answers as another one: "
            f"these copies are {groups}, which count as one sample each. If they are different questions, name each "
            "in a column `cluster` (--map cluster=COLUMN)."
        )
        clustered = np.ones(len(copies), bool)
    return codes if clustered.any() else None, tuple(notes)


def _connected(sides: Sequence[tuple[npt.NDArray[np.uint64], Mask]]) -> npt.NDArray[np.int64]:
    """Which samples are connected through clusters, where each side has a name for those in its mask."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # A graph with a node for each sample and for each cluster of either side
    n = n_nodes = len(sides[0][1])
    rows = []
    nodes = []
    for cluster, has_cluster in sides:
        names, code = np.unique(cluster[has_cluster], return_inverse=True)
        rows.append(np.flatnonzero(has_cluster))
        nodes.append(n_nodes + code)
        n_nodes += len(names)
    edges = np.concatenate(rows), np.concatenate(nodes)
    graph = coo_array((np.ones(len(edges[0]), bool), edges), shape=(n_nodes, n_nodes))
    codes: npt.NDArray[np.int64] = connected_components(graph, directed=False)[1][:n].astype(np.int64)
    return codes


def unit_sums(values: Floats, codes: Codes | None) -> Floats:
    """Sums over each independent unit: the clusters, or the rows themselves. The first axis is summed.

    >>> unit_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]))
    array([3., 4.])
    """
    if codes is None:
        return values
    # One unit is all rows of a cluster
    units, inverse = np.unique(codes, return_inverse=True)
    sums = np.zeros((len(units), *values.shape[1:]))
    np.add.at(sums, inverse, values)
    return sums


def mean(values: Floats) -> float:
    """The mean, bit-identical in any order of the rows.

    >>> mean(np.array([0.1] * 10))
    0.1
    """
    return math.fsum(values.tolist()) / len(values)


def standard_deviation(values: Floats) -> float | None:
    """The sample standard deviation (n - 1); None for fewer than two rows, 0 if they differ only by rounding.

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
) -> Interval | None:
    """t interval of a statistic that is, to first order, a sum of independent row effects (the delta method).

    The squared error is n / (n - 1) times the sum over the clusters (rows, where there are none) of the square of
    their summed effects: for a mean that is Student's t, and with clusters Miller's (2024) clustered error.

    If hardly any unit differs from the rest, the spread is poorly estimated and t intervals are far too narrow: 2
    changed rows of 200 are not 40 times surer than none. So if fewer than z^2 units (and less than a quarter of them)
    carry the error, the interval is at least as wide as that of `unseen`. The number of units that carry the error is
    the participation ratio, (sum of squares)^2 / sum of fourth powers, which is k if k of many rows differ equally. On
    a `scale` this is not necessary, as long as there is any error at all.

    Args:
        effects: (rows,): the effect of each row on the value; they sum to 0. For a mean: (row - mean) / rows.
        span: the most that one row can move the value, times the number of rows; for `unseen`.
        method: the name of the interval; "cluster-" is put before it where there are clusters.
        scale: the scale on which the interval is value +- margin; by default that of the statistic.
        n: the independent observations behind the spread, by default all clusters (rows). If they form groups with an
            error each, those of the smallest relevant group.

    >>> scores = np.array([0.2, 0.4, 0.9, 0.7, 0.3, 0.5])
    >>> effects = (scores - mean(scores)) / len(scores)
    >>> [round(end, 3) for end in sum_interval(mean(scores), effects, None, span=1.0, method="t")[:2]]
    [0.226, 0.774]
    """
    sums = unit_sums(effects, codes)
    n = len(sums) if n is None else n
    if n < 2:
        return None
    name = method if codes is None else f"cluster-{method}"
    # Summed exactly, so that the order of the rows does not matter
    squares = math.fsum((sums * sums).tolist())
    margin = t_quantile(LEVEL, n - 1) * math.sqrt(n / (n - 1) * squares)
    carriers = _carriers(sums, squares, span / len(effects))
    if scale is not None and carriers:
        centre = scale.forward(value)
        reach = margin * scale.slope(value)
        return Interval(scale.back(centre - reach), scale.back(centre + reach), name)
    plain = Interval(value - margin, value + margin, name)
    if carriers >= _fewest(n):
        return plain
    return max(plain, unseen(value, span, n) or plain, key=lambda interval: interval.high)


def are_few(residuals: Floats, span: float) -> bool:
    """Whether so few units differ from the mean that they say little of its error (see `sum_interval`).

    Args:
        residuals: (units,): the sum of each minus the mean of as many rows; `span`: the largest that there could be.

    >>> are_few(np.array([0.9] + [-0.1] * 9), 1.0), are_few(np.array([0.5, -0.5] * 5), 1.0)
    (True, False)
    """
    carriers = _carriers(residuals, math.fsum((residuals * residuals).tolist()), span)
    return carriers < _fewest(len(residuals))


def _fewest(units: int) -> float:
    """The fewest units that must carry the error for a formula with their spread."""
    return min(normal_quantile(LEVEL) ** 2, units / 4)


def _carriers(sums: Floats, squares: float, largest: float) -> float:
    """The number of effects that carry the error; 0 if they are rounding errors beside the `largest` possible one."""
    if squares <= (1e-10 * largest) ** 2:
        return 0.0
    # Scaled first: fourth powers of small effects may underflow.
    return 1 / float(np.sum((sums * sums / squares) ** 2))


def mean_interval(
    values: Floats, codes: Codes | None, *, low: float = 0.0, high: float = 1.0, level: float = LEVEL
) -> Interval | None:
    """Interval for the mean of `values`, which lie in `low` to `high`: `bounded_mean` of the rows, or of the clusters.

    Both ends keep their level for few rows, few clusters and rare large losses, unless the range is infinite.

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
    """Interval for the mean of zeros and ones: Clopper and Pearson's, or `mean_interval` if there are clusters.

    >>> [round(end, 3) for end in proportion_interval(np.array([1.0, 1.0, 0.0, 1.0]), None)[:2]]
    [0.194, 0.994]
    """
    if codes is None:
        return clopper_pearson(float(values.sum()), len(values), level)
    return mean_interval(values, codes, level=level)


def design_effect(values: Floats, codes: Codes | None) -> float:
    """The factor by which clusters increase the variance of the mean (Kish 1965; here as in Miller 2024).

    1 if the rows are independent or do not vary. n rows are worth n / design effect independent ones.

    >>> design_effect(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    3.0
    """
    spread = standard_deviation(values)
    if codes is None or not spread:
        return 1.0
    # Against rows that are spread as widely but independent
    sums = unit_sums(values - mean(values), codes)
    n_clusters = len(sums)
    if n_clusters < 2:
        return 1.0
    return float(sums @ sums) * n_clusters / (n_clusters - 1) / (len(values) * spread * spread)
