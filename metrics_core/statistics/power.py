"""Planning by simulation: the smallest difference that a comparison shows, and the rows that a decision takes.

Rows (or clusters) like the measured ones are shifted by an effect, resampled in any number, and put to the decision
itself. Power is the share of samples with the wanted decision; the effect, or the number of rows, with a power of 80 %
is a root of its normal quantile, which is nearly linear. The seed is fixed.

Effects are positive and stand for a change in either direction; tests are two-sided at 1 - `level`. A comparison shows
a difference if the interval excludes 0 and the p-value, times the fields of the family, is below 1 - `level`: the first
step of Holm (1979), which is the only one if a single field differs. benchmarks/studies/error_rates.py measures the
accuracy of these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from answerkey.metrics_core.statistics.bounded_mean import Floats, rejects
from answerkey.metrics_core.statistics.clustered import Codes, Mask, unit_sums
from answerkey.metrics_core.statistics.intervals import (
    LEVEL,
    Interval,
    normal_quantile,
    proportions_above,
    t_quantile,
)
from answerkey.metrics_core.statistics.paired import PairedDifference, mcnemar

POWER = 0.8
"""The power that planning aims at."""

_DRAWS, _KINDS = 500, 16
"""The number of simulated samples, and of kinds of units that represent the measured ones."""
_TRIED = 12
"""Up to this number of units, all sign flips are tried; for more units they are as powerful as Student's t."""
_SMALLEST_EFFECT = 1e-4
"""The smallest effect, as a share of the range of the scores. A smaller one would take a thousand million rows."""
_MOST_ROWS, _MOST_TIMES = 10_000_000, 100.0
"""The largest number of rows that is reported, and how many times the measured ones it may be."""

_Power = Callable[[float, int], float]
"""From a true mean and a number of rows to the share of samples with the wanted decision."""


class _Units(NamedTuple):
    """Independent units like the measured ones.

    An effect shifts all units, by the same amount per row. If only few units have a difference at all, it shifts these
    only; an effect that is larger than if all of them had improved needs more such units.

    Attributes:
        quantiles: of the units' sums (if `share` is below 1, of the units that changed) around their mean. `gains`:
            those of the absolute sums.
        size, largest: rows in a unit, on average and at most.
    """

    quantiles: Floats
    gains: Floats
    typical: float
    share: float
    size: float
    largest: float
    n: int

    @classmethod
    def of(cls, sums: Floats, sizes: Floats, *, sparse: bool = True) -> _Units:
        """From the sum and the number of rows of each unit; `sparse`: sums of 0 may mean units without a change."""
        changed = sums[sums != 0]
        if not sparse or not 0 < len(changed) < len(sums) / 2:
            changed = sums
        gains = np.abs(changed)
        return cls(
            _quantiles(changed), _quantiles(gains), float(gains.mean()), len(changed) / len(sums),
            float(sizes.mean()), float(sizes.max()), len(sums),
        )  # fmt: skip

    def draw(self, mean: float, n: int, sign: int, spread: float) -> tuple[Floats, Floats]:
        """The sums of kinds of units, shape (kinds,), and the number of each in each sample, shape (samples, kinds)."""
        quantiles, share = sign * self.quantiles, self.share
        if share < 1 and abs(mean) * self.size > share * self.typical:
            quantiles, share = self.gains, min(1.0, abs(mean) * self.size / self.typical)
        kinds = np.append(spread * quantiles + mean * self.size / share, 0.0)
        return kinds, _drawn(n, share)


@lru_cache(maxsize=16)
def _drawn(n: int, share: float) -> Floats:
    """The number of units of each kind among `n`, in each sample; the last kind is unchanged units."""
    chances = np.append(np.full(_KINDS, share / _KINDS), 1 - share)
    return np.random.default_rng(0).multinomial(n, chances, _DRAWS).astype(np.float64)


def _quantiles(values: Floats) -> Floats:
    """Equally likely values with a mean of 0 and the sample standard deviation of `values`."""
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return np.zeros(_KINDS)
    kinds = np.quantile(values, (np.arange(_KINDS) + 0.5) / _KINDS)
    kinds -= kinds.mean()
    spread = float(kinds.std())
    # If nearly all values are equal, all quantiles may be equal.
    shape = kinds / spread if spread > 0 else np.repeat([-1.0, 1.0], _KINDS // 2)
    result: Floats = float(np.std(values, ddof=1)) * shape
    return result


def _graded(
    units: _Units,
    rows: int,
    bounds: tuple[float, float],
    limit: float,
    level: float,
    *,
    sign: int = 1,
    family: int = 0,
    spread: Callable[[float], float] = lambda _: 1.0,
) -> _Power:
    """The power of the bounded mean to lie above `limit`, combined with sign flips if there is a `family` of fields."""

    def power(mean: float, n_rows: int) -> float:
        n = max(2, round(units.n * n_rows / rows))
        kinds, counts = units.draw(mean, n, sign, spread(mean))
        sums, counts = np.append(kinds, 0.0), np.append(counts, np.zeros((_DRAWS, 1)), axis=1)
        sizes = np.append(np.full(len(kinds), units.size), units.largest)
        samples = np.broadcast_to(sums, counts.shape)
        low, high = bounds
        shown = rejects(samples, limit, sizes, counts, low=low, high=high, alpha=(1 - level) / 2)
        if family:
            shown[shown] = _flips(kinds, counts[shown, :-1].astype(np.intp), n, (1 - level) / family)
        return float(shown.mean())

    return power


def _flips(kinds: Floats, counts: Codes, n: int, alpha: float) -> Mask:
    """Whether sign flips have a p-value below `alpha`, by sample."""
    means = counts @ kinds / n
    if n > _TRIED:
        errors = np.sqrt(np.maximum(counts @ (kinds * kinds) / n - means * means, 0.0) / (n - 1))
        changed = counts[:, kinds != 0].sum(axis=1)
        shown: Mask = (means > t_quantile(1 - alpha, n - 1) * errors) & (2.0 ** (1.0 - changed) < alpha)
        return shown
    units = np.repeat(np.tile(kinds, len(counts)), counts.ravel()).reshape(len(counts), n)
    signs = 1.0 - 2.0 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)
    extreme = np.abs(units @ signs.T) >= (n * np.abs(means) - 1e-9)[:, None]
    shown = (means > 0) & (extreme.mean(axis=1) < alpha * (1 - 1e-9))
    return shown


def _shares(changed: float, limit: float, level: float, family: int = 0) -> _Power:
    """The power of a comparison, or of a gate, of independent 0/1 rows, of which a share of `changed` changes."""

    def power(mean: float, rows: int) -> float:
        share = max(changed, abs(mean))
        chances = [(share + mean) / 2, (share - mean) / 2, 1 - share]
        fixed, broken, _ = np.random.default_rng(0).multinomial(rows, chances, 2 * _DRAWS).T
        shown = proportions_above(fixed, broken, rows, limit, level)
        if family:
            shown &= family * mcnemar(fixed, broken) < round(1 - level, 12)
        return float(shown.mean())

    return power


def _proportion(limit: float, level: float) -> _Power:
    """The power of the mean of independent 0/1 rows to have an interval above `limit`."""
    from scipy.special import betaincinv

    def power(mean: float, rows: int) -> float:
        ones = np.random.default_rng(0).binomial(rows, mean, 2 * _DRAWS)
        lowest = betaincinv(np.maximum(ones, 0.5), rows - ones + 1, (1 - level) / 2)
        return float(((ones > 0) & (lowest > limit)).mean())

    return power


def _crossing(power: Callable[[float], float], guess: float, low: float, high: float) -> float | None:
    """The value between `low` and `high` (both above 0) at which `power` reaches `POWER`; None if it never does."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    # The search asks for the same ends several times.
    @cache
    def missing(log: float) -> float:
        return float(ndtri(np.clip(power(math.exp(log)), 1e-4, 1 - 1e-4)) - ndtri(POWER))

    first = last = math.log(min(max(guess, low), high))
    while (lacking := missing(last)) < 0:
        if last >= math.log(high):
            return None
        first, last = last, min(last + 1.0, math.log(high))
    while first == last or (first > math.log(low) and lacking >= 0 and missing(first) >= 0):
        if first <= math.log(low):
            return low
        first = max(first - 1.0, math.log(low))
    return math.exp(brentq(missing, first, last, xtol=0.01)) if missing(first) < 0 else low


def _of_comparison(measured: PairedDifference, family: int, level: float) -> _Power:
    """The power of a comparison like this one, in the direction with the lower power."""
    if measured.test == "mcnemar":
        return _shares(_changed(measured), 0.0, level, family)
    assert measured.changes is not None
    units, rows = _Units.of(*measured.changes[:2]), measured.n
    spread = _spread(measured) if measured.fixed is not None and units.share == 1 else lambda _: 1.0
    bounds = (-measured.span, measured.span)
    both = [_graded(units, rows, bounds, 0.0, level, sign=sign, family=family, spread=spread) for sign in (1, -1)]
    # The harder direction depends on the shape only, so one effect is enough to find it.
    effect = 2.8 * (measured.sd or 0.0) * math.sqrt(measured.design_effect / rows)
    return min(both, key=lambda power: power(effect, rows))


def _changed(measured: PairedDifference) -> float:
    return ((measured.fixed or 0) + (measured.broken or 0)) / measured.n


def _spread(measured: PairedDifference) -> Callable[[float], float]:
    """From an effect to the standard deviation of clusters of 0/1 rows, relative to the observed one.

    The more of the changed rows go one way, the less they vary. The number of changed rows varies independently.
    """
    changed, effect = _changed(measured), measured.design_effect
    observed = (changed - measured.difference**2) * effect

    def spread(mean: float) -> float:
        rows = max(changed, abs(mean))
        share = mean / rows if rows else 0.0
        variance = rows * (1 - share * share) * effect + share * share * rows * (1 - rows)
        return math.sqrt(variance / observed) if observed > 0 else 1.0

    return spread


def minimum_detectable(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> float | None:
    """The minimum detectable effect of a comparison: the smallest true difference that it shows with a power of 80 %.

    Args:
        family: fields (slices) whose p-values are corrected together.

    Returns:
        In the units of the scores; None if there is none, or it is not known: `undetectable` says why.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> result = paired_difference([0] * 10 + [1] * 90, [1] * 5 + [0] * 5 + [1] * 90, binary=True)
    >>> round(minimum_detectable(result), 2), round(minimum_detectable(result, family=14), 2)
    (0.08, 0.12)
    """
    if undetectable(measured, family=family, level=level) or measured.n < fewest_units(family, level=level):
        return None
    power = _of_comparison(measured, family, level)
    error = math.sqrt(_changed(measured) / measured.n) if measured.test == "mcnemar" else (measured.sd or 0.0)
    if measured.test != "mcnemar":
        error *= math.sqrt(measured.design_effect / measured.n)
    lowest = _SMALLEST_EFFECT * measured.span
    return _crossing(lambda effect: power(effect, measured.n), 2.8 * error, lowest, measured.span)


def undetectable(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> str | None:
    """The reason why a comparison has no minimum detectable effect, without a full stop; None if it has one.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> five = paired_difference([0.1] * 10, [0.9] * 10, clusters=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    >>> undetectable(five)
    'no difference can be shown with 5 clusters; it takes at least 6'
    """
    what = "clusters" if "cluster" in measured.test else "rows"
    if measured.test == "exchange":
        return "not known for a statistic that is not a mean"
    least = fewest_units(family, level=level)
    if measured.units < least:
        fields = f" among {family} fields" if family > 1 else ""
        many = f"{measured.units} {what if measured.units > 1 else what[:-1]}"
        return f"no difference can be shown with {many}{fields}; it takes at least {least}"
    if measured.test != "mcnemar" and (measured.changes is None or not np.any(measured.changes.sums)):
        return "no score changed, so it is not known by how much scores change"
    return None


def fewest_units(family: int = 1, *, level: float = LEVEL) -> int:
    """The fewest rows (or clusters) that can show a difference at all, which they do if all of them improve.

    The smallest p of u units is 2 / 2^u, both for McNemar's test and for sign flips, and the lower bound of u
    differences of 1 is above 0 if (1 - level) / 2 > 1 / 2^u.

    >>> fewest_units(), fewest_units(8), fewest_units(14)
    (6, 9, 10)
    """
    return max(2, math.floor(math.log2(2 * family / (1 - level)) + 1e-9) + 1)


def needed_to_show(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> int | None:
    """About how many rows like these would show the observed difference with a power of 80 %, if it were true.

    Returns:
        None if it would take more than a hundred times as many rows, or it is not known.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> result = paired_difference([0] * 10 + [1] * 90, [1] * 6 + [0] * 4 + [0] * 2 + [1] * 88, binary=True)
    >>> round(result.difference, 3), round(needed_to_show(result), -2)
    (0.04, 400)
    """
    effect = abs(measured.difference)
    if not effect >= _SMALLEST_EFFECT or measured.test == "exchange" or measured.units < 2:
        return None
    power = _of_comparison(measured, family, level)
    spread = (measured.sd or 0.0) ** 2 * measured.design_effect
    guess = max(10.0, 7.85 * spread / effect**2)
    result = _crossing(lambda rows: power(effect, round(rows)), guess, 2.0, _MOST_TIMES * measured.n)
    return None if result is None else math.ceil(result)


def needed_by_width(
    interval: Interval | None, margin: float, n: int, *, power: float = POWER, level: float = LEVEL
) -> int | None:
    """Approximately how many rows like these lift an interval above a floor that lies `margin` below the true value.

    n * (half width / margin)^2 * ((z + z_power) / z)^2: the width of an interval shrinks with the root of the rows
    (Julious 2004). For intervals that cannot be simulated: of corrected labels and of kappa.

    Args:
        interval: at `level`, from `n` rows.

    Returns:
        None for a margin of 0, or without an interval.

    >>> needed_by_width(Interval(-0.04, 0.04, "t"), margin=0.02, n=500)
    4087
    """
    if interval is None or margin <= 0:
        return None
    z = normal_quantile(level)
    reach = (interval.high - interval.low) / 2 / margin * (1 + normal_quantile(2 * power - 1) / z)
    return math.ceil(n * reach * reach)


def needed_to_pass(
    changes: Floats,
    codes: Codes | None,
    floor: float,
    mean: float,
    *,
    binary: bool,
    bounds: tuple[float, float],
    level: float = LEVEL,
) -> int | None:
    """About how many rows like these have an interval above `floor` with a power of 80 %, if `mean` is the true mean.

    For equally good releases the mean is 0. For differences of independent 0/1 rows, the share of changes is taken as
    (changed + 1/2) / (rows + 1): if none of 20 rows changed, others still may.

    Args:
        changes: (rows,): scores, or differences; `codes`: their clusters.
        binary: scores are 0 or 1, so that differences are -1, 0 or 1.
        bounds: the range of `changes`; for differences, minus and plus the range of the scores.

    Returns:
        None if the mean is not above the floor, or it takes more than ten million rows.

    >>> rows = np.repeat([1.0, -1.0, 0.0], [54, 54, 492])
    >>> round(needed_to_pass(rows, None, -0.03, 0.0, binary=True, bounds=(-1, 1)), -2)
    1600
    """
    if not mean > floor or len(changes) < 2:
        return None
    power = _of_gate(changes, codes, floor, binary=binary, bounds=bounds, level=level)
    variance = float(np.var(changes)) + 1 / len(changes)
    guess = max(10.0, 7.85 * variance / (mean - floor) ** 2, 4 * (bounds[1] - bounds[0]) / (mean - floor))
    result = _crossing(lambda rows: power(mean, round(rows)), guess, 2.0, _MOST_ROWS)
    return None if result is None else math.ceil(result)


def _of_gate(
    changes: Floats, codes: Codes | None, floor: float, *, binary: bool, bounds: tuple[float, float], level: float
) -> _Power:
    """The power of the interval of rows like these to lie above `floor`."""
    difference = bounds[0] < 0
    if binary and codes is None:
        share = (float(np.abs(changes).sum()) + 0.5) / (len(changes) + 1)
        return _shares(share, floor, level) if difference else _proportion(floor, level)
    units = _Units.of(unit_sums(changes, codes), unit_sums(np.ones(len(changes)), codes), sparse=difference)
    return _graded(units, len(changes), bounds, floor, level)
