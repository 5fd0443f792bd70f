"""Planning by formula, to one digit: the smallest difference that is shown, and the rows that a decision takes.

An interval of u independent units with standard deviation s reaches about hypot(a s / sqrt(u), b / u) from a true mean
that it is to tell from a limit with a power of 80 %. The first part is the usual one, with a = z + z_power. The second
part is what few units, or units that hardly differ, cost. `_FAR` and `_WIDER` have both for the two kinds of intervals.
benchmarks/studies/error_rates.py measures how far the stated numbers are from those that the decisions themselves need.

Effects are positive and stand for a change in either direction; tests are two-sided at 1 - `level`. A comparison shows
a difference if the interval excludes 0 and the p-value, times the fields of the family, is below 1 - `level`: the first
step of Holm (1979), which is the only one if a single field differs.
"""

from __future__ import annotations

import math

import numpy as np

from .bounded_mean import Floats
from .clustered import Codes, unit_sums
from .intervals import LEVEL, Interval, normal_quantile
from .paired import PairedDifference

POWER = 0.8
"""The power that planning aims at."""

_Z_POWER = normal_quantile(2 * POWER - 1)
_FAR_SHARES = 4.9
"""`b` for intervals of independent 0/1 rows."""
_WIDER = 1.08
"""How much wider than the normal one the interval of a bounded mean is, whose `b` is log 40 times the range."""
_SMALLEST_EFFECT = 1e-4
"""The smallest effect, as a share of the range of the scores. A smaller one would take a thousand million rows."""
_MAX_ROWS = 10_000_000
"""The largest number of rows that is reported."""
_MAX_TIMES = 100.0
"""How many times the measured rows it may be."""


def minimum_detectable(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> float | None:
    """The minimum detectable effect of a comparison: the smallest true difference that it shows with a power of 80 %.

    Args:
        family: fields (slices) whose p-values are corrected together.

    Returns:
        In the units of the scores; None if there is none, or it is not known: `undetectable` says why.

    >>> from .paired import paired_difference
    >>> result = paired_difference([0] * 10 + [1] * 90, [1] * 5 + [0] * 5 + [1] * 90, binary=True)
    >>> round(minimum_detectable(result), 2), round(minimum_detectable(result, family=14), 2)
    (0.08, 0.13)
    """
    if undetectable(measured, family=family, level=level):
        return None
    units = measured.units
    by_test = _test_quantile(family, level) * _deviation(measured) / math.sqrt(units)
    if measured.test == "mcnemar":
        effect = by_test
        changed = _changed(measured)
        if by_test >= changed:
            # More rows must change than do: all of them change for the better, and they must be enough.
            effect = max(changed, _fewest_changed(family, level) / units)
    else:
        by_interval = _quantile(level) * _deviation(measured) / math.sqrt(units)
        far = measured.span * math.expm1(-math.log((1 - level) / 2) / units)
        effect = max(by_test, _WIDER * math.hypot(by_interval, far))
    return min(max(effect, _SMALLEST_EFFECT * measured.span), measured.span)


def undetectable(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> str | None:
    """The reason why a comparison has no minimum detectable effect, without a full stop; None if it has one.

    >>> from .paired import paired_difference
    >>> five = paired_difference([0.1] * 10, [0.9] * 10, clusters=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    >>> undetectable(five)
    'no difference can be shown with 5 clusters; it takes at least 6'
    """
    if measured.test == "exchange":
        return "not known for a statistic that is not a mean"
    min_units = fewest_units(family, level=level)
    if measured.units < min_units:
        unit = "cluster" if "cluster" in measured.test else "row"
        plural = "s" if measured.units > 1 else ""
        fields = f" among {family} fields" if family > 1 else ""
        return f"no difference can be shown with {measured.units} {unit}{plural}{fields}; it takes at least {min_units}"
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

    >>> from .paired import paired_difference
    >>> result = paired_difference([0] * 10 + [1] * 90, [1] * 6 + [0] * 4 + [0] * 2 + [1] * 88, binary=True)
    >>> round(result.difference, 3), round(needed_to_show(result), -2)
    (0.04, 400)
    """
    effect = abs(measured.difference)
    if not effect >= _SMALLEST_EFFECT or measured.test == "exchange" or measured.units < 2:
        return None
    # Both the test and the interval must show it
    deviation = _deviation(measured)
    by_test = (_test_quantile(family, level) * deviation / effect) ** 2
    if measured.test == "mcnemar":
        units = max(by_test, _fewest_changed(family, level) / effect)
    else:
        by_interval = _WIDER * _quantile(level) * deviation
        far = _WIDER * measured.span * -math.log((1 - level) / 2)
        units = max(by_test, _units_within(effect, by_interval, far))
    rows = math.ceil(units * measured.n / measured.units)
    return rows if rows <= _MAX_TIMES * measured.n else None


def needed_by_width(interval: Interval | None, margin: float, n: int) -> int | None:
    """Approximately how many rows like these lift an interval above a floor that lies `margin` below the true value.

    n * (half width / margin)^2 * ((z + z_power) / z)^2: the width of an interval shrinks with the root of the rows
    (Julious 2004). For intervals of corrected labels and of kappa.

    Args:
        interval: at 95 %, from `n` rows.

    Returns:
        None for a margin of 0, or without an interval.

    >>> needed_by_width(Interval(-0.04, 0.04, "t"), margin=0.02, n=500)
    4087
    """
    if interval is None or margin <= 0:
        return None
    # How many margins half the interval is wide, with what the power adds
    reach = (interval.high - interval.low) / 2 / margin * (1 + _Z_POWER / normal_quantile(LEVEL))
    return math.ceil(n * reach * reach)


def needed_to_pass(
    changes: Floats, codes: Codes | None, floor: float, mean: float, *, binary: bool, bounds: tuple[float, float]
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
    # The spread of a unit's mean, and how far off a value may be that was not observed
    low, high = bounds
    is_difference = low < 0
    if binary and codes is None:
        share = (float(np.abs(changes).sum()) + 0.5) / (len(changes) + 1)
        variance = share - mean * mean if is_difference else mean * (1 - mean)
        n_units = len(changes)
        wider = 1.0
        far = _FAR_SHARES
    else:
        sums = unit_sums(changes, codes)
        n_units = len(sums)
        variance = float(np.var(sums, ddof=1)) * (n_units / len(changes)) ** 2 if n_units > 1 else 0.0
        # The distance from the mean to the worst value.
        span = -low if is_difference else high - low
        wider = _WIDER
        far = _WIDER * span * -math.log((1 - LEVEL) / 2)
    units = _units_within(mean - floor, wider * _quantile(LEVEL) * math.sqrt(max(variance, 0.0)), far)
    rows = math.ceil(units * len(changes) / n_units)
    return rows if rows <= _MAX_ROWS else None


def _units_within(margin: float, spread: float, far: float) -> float:
    """The number of units u for which hypot(spread / sqrt(u), far / u) is the margin."""
    return (spread * spread + math.sqrt(spread**4 + (2 * far * margin) ** 2)) / (2 * margin * margin)


def _quantile(level: float) -> float:
    return normal_quantile(level) + _Z_POWER


def _test_quantile(family: int, level: float) -> float:
    """As `_quantile`, for a p-value that is corrected for the fields of a family."""
    return _quantile(1 - (1 - level) / family)


def _fewest_changed(family: int, level: float) -> float:
    """How many changed rows to expect, so that at least `fewest_units` change with a power of 80 %."""
    fewest = fewest_units(family, level=level)
    return fewest + _Z_POWER * math.sqrt(fewest)


def _changed(measured: PairedDifference) -> float:
    """The share of the rows that changed."""
    return ((measured.fixed or 0) + (measured.broken or 0)) / measured.n


def _deviation(measured: PairedDifference) -> float:
    """The standard deviation of a unit's mean difference, so that its variance over the units is that of the mean."""
    if measured.test == "mcnemar":
        return math.sqrt(_changed(measured))
    return (measured.sd or 0.0) * math.sqrt(measured.design_effect * measured.units / measured.n)
