"""The mean of values in a known range: an interval and a test that keep their level for few rows and rare large losses.

A t interval knows only what it saw: scores that differ by noise, but for one answer in a hundred that loses
everything, have a standard deviation of the noise until such an answer comes up. The bound used here (Gaffke 2005;
Learned-Miller and Thomas 2020) adds to the n independent units one more, which has the worst value of the range, and
gives all of them random weights that are uniform on the simplex, as in the Bayesian bootstrap (Rubin 1981). The lower
bound is the 2.5 % quantile of the weighted mean, the upper one likewise with a unit of the best value. So

- of 0 and 1 it is Clopper and Pearson's exact interval (1934);
- of many rows it becomes Student's t: the added unit moves it by about 3.7 / n of the range at most;
- it is monotone: no bound rises where a score falls, and nothing in it is drawn at random;
- that it never fails more often than stated is proved for values of 0 and 1, and conjectured for all others: no
  distribution that breaks it is known. tests/metrics_core/statistics/test_bounded_mean.py searches for one.

Units may be clusters of rows: of each, the sum S and the size N count. The null hypothesis "the mean is m" is that
S - m N has a mean of 0 (the mean of all rows is a ratio of sums), and the added unit is the worst one of the largest
size. The largest size is taken from the data.

With independent exponential E the weighted mean is at most m where sum of E_i (m N_i - S_i) is at least 0, so no
weights need to be drawn: the probability of that is an integral of the moment generating function, along the line of
steepest descent from its saddle point (Daniels 1954).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.intervals import LEVEL, Interval

Floats = npt.NDArray[np.float64]
"""One number per row, shape (rows,), or several, shape (rows, numbers)."""

_LARGEST_ALPHA = 0.25
"""A sum of weighted exponentials is at or above its mean more often (at least 1 / e; Gruenbaum 1960)."""

_STEP, _NODES, _ITERATIONS = 0.5, 11, 2
"""Of the integral, which is then exact to about five digits."""

_CLOSE = 1.1
"""The saddle point approximation is within 5 % of the integral: only where it is this close is the integral needed."""

_VALUES = 1024
"""More distinct values than this are rounded, to both sides, so that the interval never becomes narrower."""

_SMALLEST = 1e-9
"""A lower bound below this share of the range counts as 0."""

_CELLS = 50_000
"""Numbers at a time, which then fit into the cache of a processor."""


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

    Two-sided; each of its ends is wrong with a chance of at most (1 - level) / 2. It lies inside the range, and has no
    width only where the range has none.

    Args:
        sums: (units,): the values of single rows, or the sum of each cluster's values.
        sizes: (units,): rows of each cluster, if not 1.
        counts: (units,): how many units are like this one, if not 1: a histogram is enough.

    Returns:
        None for fewer than two units.

    Raises:
        ValueError: a mean outside the range, a level below 50 %.

    >>> [round(end, 3) for end in bounded_mean([0.2, 0.4, 0.9, 0.7, 0.3, 0.5])[:2]]
    [0.24, 0.772]
    >>> [round(end, 3) for end in bounded_mean([1, 0], counts=[8, 2])[:2]]
    [0.444, 0.975]
    >>> [round(end, 3) for end in bounded_mean([4.0, 4.0, 3.0, 4.0], sizes=4)[:2]]
    [0.37, 0.998]
    """
    alpha = _checked((1 - level) / 2)
    units = _units(sums, sizes, counts, low, high)
    if float(units.counts.sum()) < 2:
        return None
    centre = units.mean
    if not -1e-9 <= centre <= 1 + 1e-9:
        raise ValueError(f"values: a mean of {low + (high - low) * centre:g} is outside {low:g} to {high:g}")
    below, above = _bounds(_rounded(units), alpha)
    width = high - low
    return Interval(float(max(low, low + width * below)), float(min(high, high - width * above)), "bounded-mean")


def rejects(
    samples: npt.ArrayLike,
    mean: float,
    sizes: npt.ArrayLike = 1.0,
    counts: npt.ArrayLike = 1.0,
    *,
    low: float = 0.0,
    high: float = 1.0,
    alpha: float = (1 - LEVEL) / 2,
) -> npt.NDArray[np.bool_]:
    """Which of many samples show a mean above `mean`: those whose lower bound, at 1 - 2 alpha, lies above it.

    The one-sided test for simulations of power. For the other side, change all signs, those of the range as well.

    Args:
        samples: (samples, units): values, or sums of clusters.
        sizes: (units,) or (samples, units): rows of each cluster, if not 1.
        counts: (units,): how many units are like this one, if not 1. May be fractions.

    Returns:
        (samples,)

    Raises:
        ValueError: an alpha above 0.25.

    >>> rejects([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1]], mean=0.5)
    array([ True, False])
    """
    _checked(alpha)
    values = np.asarray(samples, np.float64)
    rows = np.broadcast_to(np.asarray(sizes, np.float64), values.shape)
    if mean < low:
        return np.ones(len(values), np.bool_)
    threshold = (mean - low) / (high - low)
    losses = np.empty((len(values), values.shape[1] + 1))
    losses[:, :-1] = threshold * rows - (values - low * rows) / (high - low)
    losses[:, -1] = threshold * rows.max(axis=1, initial=0.0)
    ones = np.append(np.broadcast_to(np.asarray(counts, np.float64), values.shape[1:]), 1.0)
    found = np.zeros(len(values), np.bool_)
    batch = max(1, _CELLS // losses.shape[1])
    for start in range(0, len(values), batch):
        found[start : start + batch] = _not_negative(losses[start : start + batch], ones, near=alpha)[0] < alpha
    return found


def minimum_clusters(margin: float, alpha: float = (1 - LEVEL) / 2, *, span: float = 1.0) -> int | None:
    """The fewest independent units (rows, clusters) that can rule out a loss of `margin`, whatever their scores.

    log(alpha) / log(1 - margin / span), rounded up: the lower bound of as many units without any change is
    span * (alpha^(1 / units) - 1). None at a margin of 0, which unchanged units cannot rule out.

    Args:
        span: length of the range of the values whose difference it is: differences lie in -span to span.

    >>> minimum_clusters(0.02), minimum_clusters(0.05), minimum_clusters(0.2)
    (183, 72, 17)
    """
    _checked(alpha)
    if margin <= 0:
        return None
    return 1 if margin >= span else max(2, math.ceil(math.log(alpha) / math.log1p(-margin / span)))


def _checked(alpha: float) -> float:
    if not 0 < alpha <= _LARGEST_ALPHA:
        raise ValueError(f"alpha: more than 0 and at most {_LARGEST_ALPHA:g} on each side is needed, not {alpha:g}")
    return alpha


def _units(sums: npt.ArrayLike, sizes: npt.ArrayLike, counts: npt.ArrayLike, low: float, high: float) -> Units:
    """The different units in order, with values on the scale 0 to 1; a range without any length counts as one of 1."""
    totals, rows, many = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in (sums, sizes, counts)))
    order = np.lexsort((totals, rows))
    order = order[many[order] > 0]
    totals, rows, many = totals[order], rows[order], many[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(totals) != 0) | (np.diff(rows) != 0)
    merged = np.add.reduceat(many, np.flatnonzero(first)) if len(order) else many
    return Units(((totals - low * rows) / ((high - low) or 1.0))[first], rows[first], merged)


def _rounded(units: Units) -> Units:
    """The same mean, on about `_VALUES` values: each unit is shared out to the two that it lies between.

    That spreads the values, so an interval from them is no narrower.
    """
    if len(units.sums) <= _VALUES:
        return units
    sizes, of_size = np.unique(units.sizes, return_inverse=True)
    knots = max(16, _VALUES // len(sizes)) // 2
    parts = []
    for place, size in enumerate(sizes):
        sums, counts = (part[of_size == place] for part in (units.sums, units.counts))
        if len(sums) > 2 * knots:
            grid = np.unique([np.linspace(sums.min(), sums.max(), knots), np.quantile(sums, np.linspace(0, 1, knots))])
            cell = np.clip(np.searchsorted(grid, sums, side="right") - 1, 0, len(grid) - 2)
            share = (sums - grid[cell]) / (grid[cell + 1] - grid[cell])
            shared = np.zeros(len(grid))
            np.add.at(shared, cell, counts * (1 - share))
            np.add.at(shared, cell + 1, counts * share)
            sums, counts = grid[shared > 0], shared[shared > 0]
        parts.append(Units(sums, np.full(len(sums), size), counts))
    return Units(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def critical_means(
    deviations: npt.ArrayLike,
    moves: npt.ArrayLike,
    counts: npt.ArrayLike,
    worst: float,
    *,
    alpha: float = (1 - LEVEL) / 2,
) -> Floats:
    """The smallest mean from which the lower bound lies above 0, of units with the sums deviations + mean * moves.

    For planning, which asks this of units that vary more, or less, than those that were seen.

    Args:
        deviations: (samples, units): weighted by `counts`, they add up to 0.
        moves: (units,): by how much a unit's sum grows with the mean, at least 0.
        counts: (units,): how many units are like this one; may be fractions.
        worst: sum of the worst possible unit, below 0.

    Returns:
        (samples,), with a relative error of about 0.001.

    Raises:
        ValueError: an alpha above 0.25.

    >>> [round(float(least), 3) for least in critical_means([[-0.1, 0.1], [-0.3, 0.3]], [1, 1], [15, 15], worst=-1.0)]
    [0.135, 0.17]
    """
    _checked(alpha)
    spread, growth = np.asarray(deviations, np.float64), np.append(np.asarray(moves, np.float64), 0.0) / -worst
    many = np.append(np.asarray(counts, np.float64), 1.0)
    sums = np.hstack([spread / -worst, np.full((len(spread), 1), -1.0)])
    total = float(many @ growth)
    # At the first mean the losses add up to nothing. Of units that are all alike, the worst one's weight decides; of
    # very many units, how much they vary.
    least = np.full(len(sums), 1.0) / total
    start = np.hypot(-math.log(alpha), 2.0 * np.sqrt((sums * sums) @ many)) / total
    return -_quantiles(sums, growth, many, alpha, (-1e3 * (least + start), -least), -(least + start), last=0.02)


def _bounds(units: Units, alpha: float) -> Floats:
    """The lower bound of the mean of values in 0 to 1, and that of 1 - the values, shape (2,)."""
    from scipy.special import betaincinv

    sums = np.stack([units.sums, units.sizes - units.sums])
    sizes, counts = np.append(units.sizes, units.sizes.max()), np.append(units.counts, 1.0)
    many = float(units.counts.sum())
    centre = np.clip(sums @ units.counts / (units.sizes @ units.counts), 0.0, 1.0)
    bounds = np.zeros(2)
    side = np.flatnonzero(centre > _SMALLEST)
    # Between 0, where the chance is 0, and the mean, below which the added unit draws the bound. The bound of as many
    # zeros and ones with this mean is a start from below, and where all units are zeros and ones it is the bound.
    high = centre[side]
    found = np.clip(betaincinv(many * high, many * (1 - high) + 1, alpha), _SMALLEST, high)
    if (sizes != sizes[0]).any() or (sums.min(axis=0) > 0).any():
        with_worst = np.hstack([sums[side], np.zeros((len(side), 1))])
        found = _quantiles(with_worst, sizes, counts, alpha, (np.zeros(len(side)), high), found, last=1e-8)
    bounds[side] = np.where(found > _SMALLEST, found, 0.0)
    return bounds


def _quantiles(
    sums: Floats, sizes: Floats, counts: Floats, alpha: float, within: tuple[Floats, Floats], at: Floats, last: float
) -> Floats:
    """Where the probability that sum of E_i (at sizes_i - sums_i) is at least 0 is `alpha`: it grows with `at`.

    Args:
        sums: (samples, units); `sizes` and `counts`: (units,).
        within: (samples,) each: where it is less than `alpha`, and where it is more; `at`: (samples,), a start.
        last: stop after a step by at most this share; the error is about the square of that.

    Returns:
        (samples,)
    """
    low, high = within
    before: tuple[Floats, Floats] | None = None
    for _ in range(60):
        chance, tilt = _not_negative(at[:, None] * sizes - sums, counts, near=alpha)
        excess = np.log(np.maximum(chance, 1e-300) / alpha)
        low, high = np.where(excess < 0, at, low), np.where(excess < 0, high, at)
        growth = tilt @ (counts * sizes)
        if before is not None:
            # The secant is closer than the first order of the growth, except where it is of rounding errors.
            secant = (excess - before[1]) / np.where(at == before[0], np.inf, at - before[0])
            growth = np.where((secant > growth / 3) & (secant < growth * 3), secant, growth)
        before = at, excess
        following = at - excess / np.maximum(growth, 1e-300)
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        moved, at = np.abs(following - at), following
        if ((moved <= last * np.abs(at)) | (np.abs(high) <= _SMALLEST)).all():
            break
    return at


def _not_negative(losses: Floats, counts: Floats, near: float) -> tuple[Floats, Floats]:
    """The probability that sum of E_i loss_i is at least 0, E_i independent, gamma distributed of shape counts_i.

    1 where its mean is 0 or more, which stands for more than `_LARGEST_ALPHA`.

    Args:
        losses: (samples, units), of which at least one is above 0; `counts`: (units,).
        near: what it will be compared with: it is exact within 10 % of that, and within 5 % elsewhere.

    Returns:
        (samples,), and about by how much its logarithm grows with each loss, for each count: (samples, units).
    """
    from scipy.special import ndtr

    found, growth = np.where(losses @ counts < 0, 0.0, 1.0), np.zeros(losses.shape)
    top = losses.max(axis=1)
    open_ = np.flatnonzero((found == 0) & (top > 0))
    # On the scale of the largest loss the saddle point lies between 0 and 1.
    scaled = losses[open_] / top[open_, None]
    saddle = _saddle(scaled, counts)
    factors = 1 - saddle[:, None] * scaled
    tilted = scaled / factors
    growth[open_] = (saddle / top[open_])[:, None] / factors
    logs = np.log(factors) @ counts
    reach = 1 / np.sqrt((tilted * tilted) @ counts)
    # Lugannani and Rice (1980).
    root = np.sqrt(2 * np.maximum(logs, 5e-5))
    rough = ndtr(-root) + np.exp(-logs) / math.sqrt(2 * math.pi) * (reach / saddle - 1 / root)
    found[open_] = np.where(root > 0.01, rough, 0.5)
    exact = (root > 0.5) & (rough < near * _CLOSE) & (rough > near / _CLOSE)
    open_, saddle, tilted, logs, reach = (part[exact] for part in (open_, saddle, tilted, logs, reach))
    if open_.size:
        found[open_] = np.exp(-logs) * _descent(saddle, tilted, counts, reach)
    return found, growth


def _descent(saddle: Floats, tilted: Floats, counts: Floats, reach: Floats) -> Floats:
    """The integral of exp(K) / s along the line of steepest descent from the saddle point, on which exp(K) is real.

    There K(s) = K(saddle) - v^2 / 2, which Newton's method solves for s, from one v to the next. All zeros of K' are
    real, so nothing is in the way. The trapezoidal rule in v converges exponentially.
    """
    integral = np.zeros(len(saddle))
    offset, speed = np.zeros(len(saddle), np.complex128), 1j * reach
    before = 0.0
    for v in (np.arange(_NODES) + 0.5) * _STEP:
        offset = offset + speed * (v - before)
        for _ in range(_ITERATIONS):
            factors = 1 - offset[:, None] * tilted
            slope = (tilted / factors) @ counts
            offset = offset - (v * v / 2 - np.log(factors) @ counts) / slope
        speed = -v / ((tilted / (1 - offset[:, None] * tilted)) @ counts)
        integral += math.exp(-v * v / 2) * (speed / (saddle + offset)).imag
        before = v
    return integral * _STEP / np.pi


def _saddle(losses: Floats, counts: Floats) -> Floats:
    """Where sum of counts_i loss_i / (1 - s loss_i) is 0, for each sample: Newton's method, kept in its bracket."""
    low, high = np.zeros(len(losses)), np.ones(len(losses))
    # Newton's first step from 0, if it does not go too far.
    at = np.minimum(0.5, -(losses @ counts) / ((losses * losses) @ counts))
    for _ in range(100):
        tilted = losses / (1 - at[:, None] * losses)
        slope, curve = tilted @ counts, (tilted * tilted) @ counts
        low, high = np.where(slope < 0, at, low), np.where(slope < 0, high, at)
        step = at - slope / curve
        following = np.where((step > low) & (step < high), step, (low + high) / 2)
        moved, at = np.abs(following - at), following
        if (moved <= 1e-9 * at).all():
            break
    return at
