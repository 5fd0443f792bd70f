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

_LARGEST_ALPHA = 0.25
"""A sum of weighted exponentials is at or above its mean more often (at least 1 / e; Gruenbaum 1960)."""

_STEP, _NODES, _ITERATIONS = 0.5, 11, 2
"""Of the integral, which is then exact to about five digits."""

_CLOSE = 1.1
"""The saddle point approximation is within 5 % of the integral: only where it is this close is the integral needed."""

_VALUES = 1024
"""More distinct values than this are rounded, to both sides, so that the interval never becomes narrower."""

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
    units = _rounded(units)
    below = _lower(units, alpha)
    above = 1 - _lower(units._replace(sums=units.sizes - units.sums), alpha)
    width = high - low
    return Interval(max(low, low + width * below), min(high, low + width * above), "bounded-mean")


def rejects(
    samples: npt.ArrayLike,
    mean: float,
    sizes: npt.ArrayLike = 1.0,
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
    ones = np.ones(losses.shape[1])
    found = np.zeros(len(values), np.bool_)
    batch = max(1, _CELLS // losses.shape[1])
    for start in range(0, len(values), batch):
        found[start : start + batch] = _not_negative(losses[start : start + batch], ones, near=alpha) < alpha
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
    """The units with values on the scale 0 to 1; a range without any length counts as one of 1."""
    totals, rows, many = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in (sums, sizes, counts)))
    some = many > 0
    return Units(((totals - low * rows) / ((high - low) or 1.0))[some], rows[some], many[some])


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


def _lower(units: Units, alpha: float) -> float:
    """The lower bound of the mean of values in 0 to 1."""
    from scipy.optimize import brentq

    centre = units.mean
    if centre <= 1e-12:
        return 0.0
    worst, counts = float(units.sizes.max()), np.append(units.counts, 1.0)

    def chance(mean: float, near: float | None) -> float:
        losses = np.append(mean * units.sizes - units.sums, mean * worst)
        return max(1e-300, float(_not_negative(losses[None], counts, near=near)[0]))

    # The approximation finds the bound, twice corrected by how far off it is there.
    bound, target = 0.0, alpha
    for _ in range(3):
        bound = brentq(lambda mean: math.log(chance(mean, 0.0) / target), 1e-15, min(1.0, centre), rtol=1e-11)  # noqa: B023
        target = alpha * chance(bound, 0.0) / chance(bound, None)
    return float(bound)


def _not_negative(losses: Floats, counts: Floats, near: float | None = None) -> Floats:
    """The probability that sum of E_i loss_i is at least 0, E_i independent, gamma distributed of shape counts_i.

    1 where its mean is 0 or more, which stands for more than `_LARGEST_ALPHA`.

    Args:
        losses: (samples, units), of which at least one is above 0; `counts`: (units,).
        near: what it will be compared with: an approximation is enough where it is far from that.

    Returns:
        (samples,)
    """
    from scipy.special import ndtr

    found = np.where(losses @ counts < 0, 0.0, 1.0)
    top = losses.max(axis=1)
    open_ = np.flatnonzero((found == 0) & (top > 0))
    # On the scale of the largest loss the saddle point lies between 0 and 1.
    scaled = losses[open_] / top[open_, None]
    saddle = _saddle(scaled, counts)
    tilted = scaled / (1 - saddle[:, None] * scaled)
    logs = np.log1p(-saddle[:, None] * scaled) @ counts
    reach = 1 / np.sqrt((tilted * tilted) @ counts)
    # Lugannani and Rice (1980): near the mean, where the integral has a pole close by, and far from what matters.
    root = np.sqrt(2 * np.maximum(logs, 5e-5))
    rough = ndtr(-root) + np.exp(-logs) / math.sqrt(2 * math.pi) * (reach / saddle - 1 / root)
    found[open_] = np.where(root > 0.01, rough, 0.5)
    exact = root > 0.5
    if near is not None:
        exact &= (rough < near * _CLOSE) & (rough > near / _CLOSE)
    open_, saddle, tilted, logs, reach = (part[exact] for part in (open_, saddle, tilted, logs, reach))
    found[open_] = np.exp(-logs) * _descent(saddle, tilted, counts, reach)
    return found


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
    at = np.full(len(losses), 0.5)
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
