"""What planning assumes: units like those that were measured, moved by an effect, and made more or fewer."""

from __future__ import annotations

import math
from copy import copy
from functools import lru_cache

import numpy as np

from answerkey.metrics_core.statistics.bounded_mean import Units, rejects
from answerkey.metrics_core.statistics.intervals import normal_quantile, t_quantile
from answerkey.metrics_core.statistics.paired import PairedDifference

_MOSTLY = 0.5
"""From this share of changed units on, it is those that move."""

_PARTS, _EXTREMES = 96, 16
"""Units are planned with in so many groups of equal size; the extreme ones on either side each for itself."""


class PlannedUnits:
    """Units like those that were measured, moved by an effect, and made more or fewer.

    All are moved, by the same amount a row. Where few have a difference at all, only these are; and an effect that is
    larger than if all of these had changed for the better takes more such units. Of 0/1 rows no more than all can
    change, so the more of the changes go one way, the less they vary.

    >>> plan = PlannedUnits(Units(np.array([0.1, -0.1] * 50), np.ones(1), np.ones(1)), low=-1.0, high=1.0)
    >>> plan.excludes(0.1, 0.0, growth=1.0, power=0.8, level=0.95), round(plan.error(0.1, growth=1.0), 4)
    (True, 0.0101)
    """

    def __init__(self, units: Units, low: float, high: float, *, sparse: bool = True) -> None:
        """`units` with a mean of rows in `low` to `high`; `sparse`: sums of 0 may be units without a change."""
        sums, sizes, counts = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in units))
        self.total, self.low, self.high = float(counts.sum()), low, high
        self._size, self._largest = float(counts @ sizes) / self.total, float(sizes.max())
        used = sums != 0
        self._few = sparse and 0 < counts[used].sum() < _MOSTLY * self.total
        if not self._few:
            used[:] = True
        changed = _grouped(Units(sums[used], sizes[used], counts[used]))
        self._share = float(changed.counts.sum()) / self.total
        self._changed = changed._replace(counts=changed.counts / float(changed.counts.sum()))
        self._typical = float(self._changed.counts @ np.abs(changed.sums))
        self._changed_rows = self._mean = 0.0
        self._design_effect = 1.0

    @classmethod
    def of(cls, measured: PairedDifference) -> PlannedUnits:
        """Of a comparison that has `changes`."""
        assert measured.changes is not None
        plan = cls(measured.changes, -measured.span, measured.span)
        if measured.fixed is not None and measured.broken is not None and not plan._few:
            plan._changed_rows = (measured.fixed + measured.broken) / measured.n
            plan._design_effect = measured.design_effect or 1.0
            plan._mean = measured.difference
        return plan

    def mirrored(self) -> PlannedUnits:
        """The same with all differences the other way."""
        other = copy(self)
        other.low, other.high = -self.high, -self.low
        other._changed = self._changed._replace(sums=-self._changed.sums)
        return other

    def moved(self, effect: float, mean: float | None = None) -> Units:
        """Units that differ by `effect` on average, in a sample in which that comes out as `mean`."""
        base, share = self._changed, self._share
        if self._few and effect * self._size > share * self._typical:
            base = base._replace(sums=np.abs(base.sums))
            share = min(1.0, effect * self._size / self._typical)
        rows, total = float(base.counts @ base.sizes), float(base.counts @ base.sums)
        target = (effect if mean is None else mean) * self._size / share
        sums = (base.sums - total / rows * base.sizes) * self._spread(effect) + target / rows * base.sizes
        # An unchanged unit, and one that only tells how large units may be.
        return Units(
            np.append(sums, [0.0, 0.0]),
            np.append(base.sizes, [self._size, self._largest]),
            np.append(base.counts * share, [1 - share, 0.0]) * self.total,
        )

    def _spread(self, effect: float) -> float:
        """The standard deviation of the units' differences, in units of that observed.

        Of 0/1 rows two things vary, which of them change and for the better or not, and only the second is what
        the rows of a cluster have in common.
        """
        if not self._changed_rows:
            return 1.0
        changed = max(self._changed_rows, effect)
        share = effect / changed
        variance = changed * (1 - share * share) * self._design_effect + share * share * changed * (1 - changed)
        observed = (self._changed_rows - self._mean * self._mean) * self._design_effect
        return math.sqrt(variance / observed) if observed > 0 else 1.0

    def error(self, effect: float, growth: float) -> float:
        """The standard error of the observed mean, of `growth` times as many units."""
        units = self.moved(effect)
        deviations = units.sums - effect * units.sizes
        variance = float(units.counts @ (deviations * deviations)) / max(1.0, self.total - 1)
        return math.sqrt(variance / (self.total * growth)) / self._size

    def n_changed(self, effect: float, growth: float) -> int:
        """How many units change."""
        return round(float(self.moved(effect).counts[:-2].sum()) * growth)

    def excludes(self, effect: float, limit: float, growth: float, *, power: float, level: float) -> bool:
        """Whether the lower bound lies above `limit`, with a chance of `power`, if the true mean is `effect`."""
        quantile = t_quantile(2 * power - 1, max(1.0, self.total * growth - 1))
        seen = effect - quantile * self.error(effect, growth)
        if seen <= limit:
            return False
        units = self.moved(effect, seen)
        [shown] = rejects(
            units.sums[None], limit, units.sizes, counts=units.counts * growth, low=self.low, high=self.high,
            alpha=(1 - level) / 2,
        )  # fmt: skip
        return bool(shown)


def _grouped(units: Units) -> Units:
    """At most 128 units with the same totals: those with similar sums become one."""
    if len(units.sums) <= _PARTS + 2 * _EXTREMES:
        return units
    order = np.argsort(units.sums / units.sizes, kind="stable")
    ends = np.concatenate(
        [
            np.arange(_EXTREMES),
            np.linspace(_EXTREMES, len(order) - _EXTREMES, _PARTS + 1)[:-1].astype(np.intp),
            np.arange(len(order) - _EXTREMES, len(order)),
        ]
    )
    counts = np.add.reduceat(units.counts[order], ends)
    sums, sizes = (np.add.reduceat((part * units.counts)[order], ends) / counts for part in (units.sums, units.sizes))
    return Units(sums, sizes, counts)


_TRIED, _DRAWS = 12, 800
"""Sign flips of so many units are all tried, on so many draws; with more units they are as powerful as Student's t."""


@lru_cache(maxsize=256)
def sign_flip_shift(units: int, alpha: float, power: float) -> float | None:
    """The true mean, in standard errors, at which sign flips of normal units have a p below `alpha` with `power`.

    None where no p is so small. All flips of few units: one of the units A is at least as extreme as none where
    the mean of A is at most 0, so a sample is shown from a shift on that is an order statistic of these means. Drawn
    with a fixed seed. From 13 units on: the power of Student's t (the non-central distribution of t).

    >>> sign_flip_shift(5, alpha=0.05, power=0.8) is None, round(sign_flip_shift(100, alpha=0.05, power=0.8), 2)
    (True, 2.83)
    """
    if units > _TRIED:
        return _t_shift(units - 1, alpha, power)
    fewer = math.ceil(alpha * 2.0 ** (units - 1) * (1 - 1e-9)) - 1
    if fewer < 1:
        return None
    members = ((np.arange(1, 2**units)[:, None] >> np.arange(units)) & 1).astype(np.float64)
    draws = np.random.default_rng(units).standard_normal((_DRAWS, units))
    shifts = -(draws @ members.T) / members.sum(axis=1)
    least = np.partition(shifts, -fewer, axis=1)[:, -fewer]
    return float(np.quantile(least, power)) * math.sqrt(units)


def _t_shift(df: int, alpha: float, power: float) -> float:
    from scipy.optimize import brentq
    from scipy.special import nctdtr

    limit = t_quantile(1 - alpha, df)
    if df > 200:
        return limit + normal_quantile(2 * power - 1)
    return float(brentq(lambda shift: 1 - nctdtr(df, shift, limit) - power, 0.0, 2 * limit + 4, xtol=1e-6))
