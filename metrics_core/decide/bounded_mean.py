"""The mean of values in a known range: an interval and a test that keep their level for few rows and rare large losses.

A t interval depends on the observed spread only: if scores differ by noise, except for one answer in a hundred that
loses everything, their standard deviation is that of the noise until such an answer is observed. The bound used here
(Gaffke 2005; Learned-Miller and Thomas 2020) adds a unit with the worst value of the range to the n independent units,
and gives all of them random weights that are uniform on the simplex, as in the Bayesian bootstrap (Rubin 1981). The
lower bound is the 2.5 % quantile of the weighted mean; the upper one is found with a unit of the best value. So

- for values of 0 and 1 it is Clopper and Pearson's exact interval (1934);
- for many rows it approaches Student's t: the added unit moves it by about 3.7 / n of the range at most;
- it is monotone (no bound rises if a score falls), and deterministic;
- its coverage is proved for values of 0 and 1, and conjectured for all others: no counterexample is known.
  tests/metrics_core/decide/test_intervals.py searches for one.

Units may be clusters of rows, each with a sum S and a size N. The null hypothesis "the mean is m" states that S - m N
has a mean of 0 (the mean of all rows is a ratio of sums), and the added unit is the worst one of the largest observed
size.

No weights need to be drawn: with independent exponential E, the weighted mean is at most m if the sum of
E_i (m N_i - S_i) is at least 0. The probability of that is an integral of the moment generating function along the line
of steepest descent from its saddle point (Daniels 1954).

Seconds, tokens and prices have no highest value, and no interval for their mean holds for every distribution (Bahadur
and Savage 1956). Where a range has an open end, the added unit is farther from the mean than any observed one
(`assumed_range`). This is measured for skewed and heavy-tailed values (docs/error_rates.md), and not proved: what
happens to 1 of n units, and was not observed, may move the mean by any amount.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .intervals import LEVEL, Interval

Floats = npt.NDArray[np.float64]
"""One number per row, shape (rows,), or several, shape (rows, numbers)."""

_STEP = 0.5
_NODES = 11
_ITERATIONS = 2
"""The parameters of the integral, with which it is exact to about five digits."""

_CLOSE = 1.1
"""The saddle point approximation is within 5 % of the integral, which is computed where that could matter."""

_VALUES = 1024
"""The most distinct values; more are rounded to both sides, so that the interval never becomes narrower."""

_SMALLEST = 1e-9
"""A lower bound below this share of the range counts as 0."""

_RANGE_FACTOR = 2.0
"""The distance of the added unit from the mean, as a multiple of the largest observed distance."""

ENOUGH = 50
"""Fewer units than this show little of the tails, so the added unit is farther away."""

_CELLS = 50_000
"""The number of values in a batch, which fits into the cache of a processor."""


class Units(NamedTuple):
    """Independent units: the sum of each one's values, its number of rows, and how many units are like that.

    Each of shape (units,). `counts` may be fractions.

    >>> Units(np.array([1.0, 0.0]), np.array([1.0, 1.0]), np.array([8.0, 2.0])).mean
    0.8
    """

    sums: Floats
    sizes: Floats
    counts: Floats

    @property
    def mean(self) -> float:
        """The mean of all rows."""
        return float(self.counts @ self.sums / (self.counts @ self.sizes))


def bounded_mean(
    sums: npt.ArrayLike,
    sizes: npt.ArrayLike = 1.0,
    counts: npt.ArrayLike = 1.0,
    *,
    low: float = 0.0,
    high: float = 1.0,
    level: float = LEVEL,
) -> Interval | None:
    """Interval for the mean of rows in `low` to `high`, from independent units (Gaffke 2005).

    Two-sided; each end is wrong with a chance of at most (1 - level) / 2. It lies inside the range, and has a width
    unless the range has none. A range with an infinite end is replaced by `assumed_range`.

    Args:
        sums: (units,): the values of single rows, or the sum of each cluster's values.
        sizes: (units,): rows of each cluster, if not 1.
        counts: (units,): the number of equal units, if not 1, so that a histogram is enough.

    Returns:
        None for fewer than two units.

    >>> [round(end, 3) for end in bounded_mean([0.2, 0.4, 0.9, 0.7, 0.3, 0.5])[:2]]
    [0.24, 0.772]
    >>> [round(end, 3) for end in bounded_mean([1, 0], counts=[8, 2])[:2]]
    [0.444, 0.975]
    >>> [round(end, 3) for end in bounded_mean([4.0, 4.0, 3.0, 4.0], sizes=4)[:2]]
    [0.37, 0.998]
    """
    alpha = (1 - level) / 2
    if math.isinf(high - low):
        low, high = assumed_range(sums, sizes, counts, low=low, high=high)
    # The distinct units in order, with values scaled to 0..1; a range of length 0 counts as one of length 1
    totals, rows, repeats = np.broadcast_arrays(*(np.asarray(column, np.float64) for column in (sums, sizes, counts)))
    order = np.lexsort((totals, rows))
    order = order[repeats[order] > 0]
    totals = totals[order]
    rows = rows[order]
    repeats = repeats[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(totals) != 0) | (np.diff(rows) != 0)
    if len(order):
        repeats = np.add.reduceat(repeats, np.flatnonzero(is_new))
    scaled = (totals - low * rows) / ((high - low) or 1.0)
    units = Units(scaled[is_new], rows[is_new], repeats)
    if float(units.counts.sum()) < 2:
        return None
    below, above = _bounds(_rounded(units), alpha)
    width = high - low
    return Interval(float(max(low, low + width * below)), float(min(high, high - width * above)), "bounded-mean")


def assumed_range(
    sums: npt.ArrayLike,
    sizes: npt.ArrayLike = 1.0,
    counts: npt.ArrayLike = 1.0,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    factor: float = _RANGE_FACTOR,
) -> tuple[float, float]:
    """The range to assume for values with an open end: the mean plus and minus a distance, within `low` to `high`.

    The distance is `factor` times that of the farthest unit from the mean, with fewer than 50 units sqrt(50 / units)
    times as much. It is at least the size of the mean, since equal values do not exclude others.

    Args:
        sums, sizes, counts: independent units, as for `bounded_mean`.

    >>> assumed_range([1.0, 2.0, 3.0] * 20, low=0.0)
    (0.0, 4.0)
    """
    totals, rows, repeats = np.broadcast_arrays(*(np.asarray(column, np.float64) for column in (sums, sizes, counts)))
    units = Units(totals[repeats > 0], rows[repeats > 0], repeats[repeats > 0])
    if not len(units.sums):
        return max(low, -1.0), min(high, 1.0)
    mean = units.mean
    farthest = float(np.abs(units.sums / units.sizes - mean).max())
    distance = max(factor * math.sqrt(max(1.0, ENOUGH / float(units.counts.sum()))) * farthest, abs(mean))
    return max(low, mean - distance), min(high, mean + distance)


def rejects(
    samples: npt.ArrayLike,
    mean: float,
    sizes: npt.ArrayLike = 1.0,
    *,
    low: float = 0.0,
    high: float = 1.0,
    alpha: float = (1 - LEVEL) / 2,
) -> npt.NDArray[np.bool_]:
    """Whether each of many samples shows a mean above `mean`: its lower bound, at 1 - 2 alpha, lies above it.

    A one-sided test for simulations of power. For the other side, change all signs, including those of the range. The
    range is finite.

    Args:
        samples: (samples, units): values, or sums of clusters.
        sizes: (units,) or (samples, units): rows of each cluster, if not 1.

    Returns:
        (samples,)

    >>> rejects([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1]], mean=0.5)
    array([ True, False])
    """
    values = np.asarray(samples, np.float64)
    rows = np.broadcast_to(np.asarray(sizes, np.float64), values.shape)
    if mean < low:
        return np.ones(len(values), np.bool_)
    threshold = (mean - low) / (high - low)
    losses = np.empty((len(values), values.shape[1] + 1))
    losses[:, :-1] = threshold * rows - (values - low * rows) / (high - low)
    losses[:, -1] = threshold * rows.max(axis=1, initial=0.0)
    counts = np.ones(losses.shape[1])
    rejected = np.zeros(len(values), np.bool_)
    batch = max(1, _CELLS // losses.shape[1])
    for start in range(0, len(values), batch):
        part = slice(start, start + batch)
        rejected[part] = _not_negative(losses[part], counts, alpha)[0] < alpha
    return rejected


def minimum_clusters(margin: float, alpha: float = (1 - LEVEL) / 2, *, span: float = 1.0) -> int | None:
    """The fewest independent units (rows, clusters) that can rule out a loss of `margin`, whatever their scores.

    log(alpha) / log(1 - margin / span), rounded up: the lower bound of as many units without any change is
    span * (alpha^(1 / units) - 1). None at a margin of 0, which unchanged units cannot rule out.

    Args:
        span: length of the range of the values whose difference it is: differences lie in -span to span.

    >>> minimum_clusters(0.02), minimum_clusters(0.05), minimum_clusters(0.2)
    (183, 72, 17)
    """
    if margin <= 0:
        return None
    return 1 if margin >= span else max(2, math.ceil(math.log(alpha) / math.log1p(-margin / span)))


def _rounded(units: Units) -> Units:
    """Round units to about `_VALUES` values: each is split between its two neighbours, which keeps the mean.

    That spreads the values, so the interval does not become narrower.
    """
    if len(units.sums) <= _VALUES:
        return units
    sizes, of_size = np.unique(units.sizes, return_inverse=True)
    knots = max(16, _VALUES // len(sizes)) // 2
    parts = []
    for index, size in enumerate(sizes):
        sums = units.sums[of_size == index]
        counts = units.counts[of_size == index]
        if len(sums) > 2 * knots:
            # Half of the grid at equal distances, half where the values are
            grid = np.unique([np.linspace(sums.min(), sums.max(), knots), np.quantile(sums, np.linspace(0, 1, knots))])
            cell = np.clip(np.searchsorted(grid, sums, side="right") - 1, 0, len(grid) - 2)
            share = (sums - grid[cell]) / (grid[cell + 1] - grid[cell])
            counts_on_grid = np.zeros(len(grid))
            np.add.at(counts_on_grid, cell, counts * (1 - share))
            np.add.at(counts_on_grid, cell + 1, counts * share)
            sums = grid[counts_on_grid > 0]
            counts = counts_on_grid[counts_on_grid > 0]
        parts.append(Units(sums, np.full(len(sums), size), counts))
    return Units(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _bounds(units: Units, alpha: float) -> Floats:
    """The lower bound of the mean of values in 0 to 1, and that of 1 - the values, shape (2,)."""
    from scipy.special import betaincinv

    sums = np.stack([units.sums, units.sizes - units.sums])
    sizes = np.append(units.sizes, units.sizes.max())
    counts = np.append(units.counts, 1.0)
    n = float(units.counts.sum())
    centre = np.clip(sums @ units.counts / (units.sizes @ units.counts), 0.0, 1.0)
    bounds = np.zeros(2)
    side = np.flatnonzero(centre > _SMALLEST)
    # The bound lies between 0 and the mean. The bound for as many zeros and ones with this mean is a start from below;
    # if all units are zeros and ones, it is the bound itself.
    high = centre[side]
    bound = np.clip(betaincinv(n * high, n * (1 - high) + 1, alpha), _SMALLEST, high)
    if (sizes != sizes[0]).any() or (sums.min(axis=0) > 0).any():
        with_worst = np.hstack([sums[side], np.zeros((len(side), 1))])
        bound = _quantiles(with_worst, sizes, counts, alpha, start=bound, high=high)
    bounds[side] = np.where(bound > _SMALLEST, bound, 0.0)
    return bounds


def _quantiles(sums: Floats, sizes: Floats, counts: Floats, alpha: float, *, start: Floats, high: Floats) -> Floats:
    """The value m for which the sum of E_i (m sizes_i - sums_i) is at least 0 with probability `alpha`.

    Args:
        sums: (samples, units); `sizes` and `counts`: (units,).
        start: (samples,): where to look first; `high`: values with a higher probability. At 0 it is lower.

    Returns:
        (samples,)
    """
    bound = start
    low = np.zeros(len(start))
    previous: tuple[Floats, Floats] | None = None
    for _ in range(60):
        chance, tilt = _not_negative(bound[:, None] * sizes - sums, counts, alpha)
        excess = np.log(np.maximum(chance, 1e-300) / alpha)
        low = np.where(excess < 0, bound, low)
        high = np.where(excess < 0, high, bound)
        growth = tilt @ (counts * sizes)
        if previous is not None:
            # The secant is closer than the first order of the growth, unless it consists of rounding errors.
            secant = (excess - previous[1]) / np.where(bound == previous[0], np.inf, bound - previous[0])
            growth = np.where((secant > growth / 3) & (secant < growth * 3), secant, growth)
        previous = bound, excess
        following = bound - excess / np.maximum(growth, 1e-300)
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        step = np.abs(following - bound)
        bound = following
        # The error is about the square of the last step
        if ((step <= 1e-8 * np.abs(bound)) | (np.abs(high) <= _SMALLEST)).all():
            break
    return bound


def _not_negative(losses: Floats, counts: Floats, alpha: float) -> tuple[Floats, Floats]:
    """The probability that sum of E_i loss_i is at least 0, E_i independent, gamma distributed of shape counts_i.

    Returned as 1 if the mean is 0 or more: it is then at least 1 / e (Gruenbaum 1960), more than any alpha.

    Args:
        losses: (samples, units), of which at least one is above 0; `counts`: (units,).
        alpha: the value to compare with: the result is exact within 10 % of it, and within 5 % elsewhere.

    Returns:
        (samples,), and approximately the growth of its logarithm with each loss, per count: (samples, units).
    """
    from scipy.special import ndtr

    chances = np.where(losses @ counts < 0, 0.0, 1.0)
    growth = np.zeros(losses.shape)
    top = losses.max(axis=1)
    samples = np.flatnonzero((chances == 0) & (top > 0))
    # On the scale of the largest loss the saddle point lies between 0 and 1.
    scaled = losses[samples] / top[samples, None]
    saddle = _saddle(scaled, counts)
    factors = 1 - saddle[:, None] * scaled
    tilted = scaled / factors
    growth[samples] = (saddle / top[samples])[:, None] / factors
    logs = np.log(factors) @ counts
    reach = 1 / np.sqrt((tilted * tilted) @ counts)
    # Lugannani and Rice (1980).
    root = np.sqrt(2 * np.maximum(logs, 5e-5))
    rough = ndtr(-root) + np.exp(-logs) / math.sqrt(2 * math.pi) * (reach / saddle - 1 / root)
    chances[samples] = np.where(root > 0.01, rough, 0.5)
    # The integral only where it could change the answer
    exact = (root > 0.5) & (rough < alpha * _CLOSE) & (rough > alpha / _CLOSE)
    if exact.any():
        integral = _descent(saddle[exact], tilted[exact], counts, reach[exact])
        chances[samples[exact]] = np.exp(-logs[exact]) * integral
    return chances, growth


def _descent(saddle: Floats, tilted: Floats, counts: Floats, reach: Floats) -> Floats:
    """The integral of exp(K) / s along the line of steepest descent from the saddle point, on which exp(K) is real.

    There K(s) = K(saddle) - v^2 / 2, which Newton's method solves for s, from one v to the next. All zeros of K' are
    real, so nothing is in the way. The trapezoidal rule in v converges exponentially.
    """
    integral = np.zeros(len(saddle))
    offset = np.zeros(len(saddle), np.complex128)
    speed = 1j * reach
    previous = 0.0
    for node in (np.arange(_NODES) + 0.5) * _STEP:
        offset = offset + speed * (node - previous)
        for _ in range(_ITERATIONS):
            factors = 1 - offset[:, None] * tilted
            slope = (tilted / factors) @ counts
            offset = offset - (node * node / 2 - np.log(factors) @ counts) / slope
        speed = -node / ((tilted / (1 - offset[:, None] * tilted)) @ counts)
        integral += math.exp(-node * node / 2) * (speed / (saddle + offset)).imag
        previous = node
    return integral * _STEP / np.pi


def _saddle(losses: Floats, counts: Floats) -> Floats:
    """The root s of the sum of counts_i loss_i / (1 - s loss_i) for each sample, by a bracketed Newton method."""
    low = np.zeros(len(losses))
    high = np.ones(len(losses))
    # The first Newton step from 0, unless it is too long.
    root: Floats = np.minimum(0.5, -(losses @ counts) / ((losses * losses) @ counts))
    for _ in range(100):
        tilted = losses / (1 - root[:, None] * losses)
        slope = tilted @ counts
        low = np.where(slope < 0, root, low)
        high = np.where(slope < 0, high, root)
        following = root - slope / ((tilted * tilted) @ counts)
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        step = np.abs(following - root)
        root = following
        if (step <= 1e-9 * root).all():
            break
    return root
