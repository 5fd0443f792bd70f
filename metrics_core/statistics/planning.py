"""What planning assumes: units like those that were measured, moved by an effect, and made more or fewer."""

from __future__ import annotations

import math
from copy import copy
from functools import lru_cache

import numpy as np

from answerkey.metrics_core.statistics.bounded_mean import Floats, Units, critical_means
from answerkey.metrics_core.statistics.intervals import LEVEL, t_quantile
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
    >>> round(plan.chance(0.1, growth=1.0), 3), round(plan.error(0.1, growth=1.0), 4)
    (1.0, 0.0101)
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

    def _moved(self, effect: float) -> tuple[Units, Floats]:
        """Units whose mean differs by `effect`, less what moves them; and what a mean of 1 adds to each, (units,)."""
        base, share = self._changed, self._share
        if self._few and effect * self._size > share * self._typical:
            base = base._replace(sums=np.abs(base.sums))
            share = min(1.0, effect * self._size / self._typical)
        rows, total = float(base.counts @ base.sizes), float(base.counts @ base.sums)
        deviations = (base.sums - total / rows * base.sizes) * self._spread(effect)
        # An unchanged unit, and one that only tells how large units may be.
        units = Units(
            np.append(deviations, [0.0, 0.0]),
            np.append(base.sizes, [self._size, self._largest]),
            np.append(base.counts * share, [1 - share, 0.0]) * self.total,
        )
        return units, np.append(self._size / share / rows * base.sizes, [0.0, 0.0])

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
        units, moves = self._moved(effect)
        deviations = units.sums + effect * (moves - units.sizes)
        variance = float(units.counts @ (deviations * deviations)) / max(1.0, self.total - 1)
        return math.sqrt(variance / (self.total * growth)) / self._size

    def chance(
        self, effect: float, growth: float, *, limit: float = 0.0, level: float = LEVEL, family: int | None = None
    ) -> float:
        """The chance that `growth` times as many units show a mean above `limit`, if the true mean is `effect`.

        It is shown where the lower bound lies above `limit` and, in a `family` of fields, the corrected p-value of sign
        flips is below 1 - `level` too. Either asks for a larger mean the more the units of a sample vary, and for its
        own one. So the chance is that of the larger one of both, over samples of normal units: of these the mean does
        not depend on the standard deviation. Its distribution is Student's t, as how much units vary is only known from
        those that were measured.
        """
        from scipy.special import stdtr

        units, moves = self._moved(effect)
        changed, error = float(units.counts[:-2].sum()), self.error(effect, growth)
        spreads = _spreads(max(1.0, changed * growth - 1))
        knots = spreads[_KNOTS]
        above = critical_means(
            knots[:, None] * units.sums + limit * (moves - units.sizes), moves, units.counts * growth,
            worst=(self.low - limit) * self._largest, alpha=(1 - level) / 2,
        )  # fmt: skip
        least = limit + np.interp(spreads, knots, above)
        if family is not None:
            ratio = critical_ratio(round(changed * growth), (1 - level) / family)
            least = np.maximum(least, ratio * error * spreads)
        if error == 0:
            return float(effect > least.max())
        return float(stdtr(max(1.0, changed - 1), (effect - least) / error).mean())


_PLACES = 40
"""The number of sampled spreads that stand for all possible ones."""
_KNOTS = [1, _PLACES // 2, _PLACES - 2]
"""Of these samples the bound is asked; of those between, it is close to a straight line."""


@lru_cache(maxsize=256)
def _spreads(df: float) -> Floats:
    """Sample standard deviations of normal units, in units of the true one: equally likely ones, in order."""
    from scipy.special import gammaincinv

    found: Floats = np.sqrt(gammaincinv(df / 2, (np.arange(_PLACES) + 0.5) / _PLACES) / (df / 2))
    return found


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


_TRIED, _DRAWS, _OFTEN = 12, 800, 0.8
"""Sign flips of so many units are all tried, on so many draws; with more units they are as powerful as Student's t."""


@lru_cache(maxsize=256)
def critical_ratio(units: int, alpha: float) -> float:
    """How many observed standard errors a mean of normal units needs for a sign-flip p-value below `alpha`.

    Infinite where no p is so small. From 13 units on it is Student's t. Of fewer it depends on the sample, and this is
    the ratio that is exceeded equally often where that happens in four samples of five. All flips of few units: one of
    the units A is at least as extreme as none where the mean of A is at most 0, so a sample is shown from a shift on
    that is an order statistic of these means. Drawn with a fixed seed.

    >>> [round(critical_ratio(units, alpha=0.05), 2) for units in (5, 6, 12, 100)]
    [inf, 3.31, 2.19, 1.98]
    """
    from scipy.special import nctdtrit

    if units > _TRIED:
        return t_quantile(1 - alpha, units - 1)
    fewer = math.ceil(alpha * 2.0 ** (units - 1) * (1 - 1e-9)) - 1
    if fewer < 1:
        return math.inf
    members = ((np.arange(1, 2**units)[:, None] >> np.arange(units)) & 1).astype(np.float64)
    draws = np.random.default_rng(units).standard_normal((_DRAWS, units))
    shifts = -(draws @ members.T) / members.sum(axis=1)
    least = np.partition(shifts, -fewer, axis=1)[:, -fewer]
    return float(nctdtrit(units - 1, float(np.quantile(least, _OFTEN)) * math.sqrt(units), 1 - _OFTEN))
