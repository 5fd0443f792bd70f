"""Minimum detectable effects, and the sample sizes that these and non-inferiority need.

Effects are positive and stand for a change in either direction; tests are two-sided at 1 - `level`. A difference counts
as shown where the interval excludes 0 and the p-value, times the fields of the family, is below 1 - `level`: the first
step of Holm (1979), which is the only one for a field that differs alone. Planning is about that decision, so

- for independent 0/1 rows the power is exact: a sum over all outcomes;
- otherwise rows (or clusters) like these are moved by the effect, and the power is the chance that the bound itself
  (`bounded_mean`) excludes 0 and the sign flips of as many units have a small p-value, both in one sample
  (`PlannedUnits.chance`). benchmarks/error_rates.py measures how true that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from answerkey.metrics_core.statistics.binomial import at_most, most_below
from answerkey.metrics_core.statistics.bounded_mean import Floats, Units, bounded_mean
from answerkey.metrics_core.statistics.clustered import Codes, unit_sums
from answerkey.metrics_core.statistics.intervals import LEVEL, Interval, normal_quantile, paired_proportions
from answerkey.metrics_core.statistics.paired import PairedDifference, difference_interval
from answerkey.metrics_core.statistics.planning import PlannedUnits

POWER = 0.8
"""The chance of detecting an effect that planning asks for by default."""

SMALLEST_EFFECT = 1e-4
"""A smaller difference would take a thousand million rows."""


def minimum_detectable(
    measured: PairedDifference, *, family: int = 1, power: float = POWER, level: float = LEVEL
) -> float | None:
    """The minimum detectable effect of a comparison: the smallest true difference that it would show with `power`.

    None where there is none, or none is known; `undetectable` says why.

    Args:
        family: fields (slices) whose p-values are corrected together.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> found = paired_difference([0] * 10 + [1] * 90, [1] * 5 + [0] * 5 + [1] * 90, binary=True)
    >>> round(minimum_detectable(found), 3), round(minimum_detectable(found, family=14), 3)
    (0.078, 0.123)
    """
    from scipy.special import ndtri

    _check(measured.n, power, level, family)
    if measured.test == "mcnemar" and measured.fixed is not None and measured.broken is not None:
        changed = (measured.fixed + measured.broken) / measured.n
        return detectable_share(measured.n, changed, family=family, power=power, level=level)
    if undetectable(measured, family=family, level=level) or measured.changes is None:
        return None
    plan = PlannedUnits.of(measured)
    mirrored = plan.mirrored()

    def chance(effect: float) -> float:
        return min(one.chance(effect, 1.0, level=level, family=family) for one in (plan, mirrored))

    low, high = measured.span * SMALLEST_EFFECT, measured.span
    if chance(high) < power:
        return None
    effect, steps = 3 * plan.error(0.0, 1.0), 0
    while high > low * 1.002:
        if steps >= _STEPS or not low < effect < high:
            effect = math.sqrt(low * high)
        missing = float(ndtri(power) - ndtri(np.clip(chance(effect), 1e-9, 1 - 1e-9)))
        if abs(missing) < _CLOSE:
            return effect
        low, high = (effect, high) if missing > 0 else (low, effect)
        # If the observed mean is normal, this is how far it is.
        effect, steps = effect + missing * plan.error(effect, 1.0), steps + 1
    # Where few rows changed, the power jumps over the one that is wanted.
    return high


_STEPS, _CLOSE = 8, 0.01
"""After so many steps the range is halved; a power is reached within so many quantiles of the normal distribution."""


def undetectable(measured: PairedDifference, *, family: int = 1, level: float = LEVEL) -> str | None:
    """Why a comparison has no minimum detectable effect, as a sentence without its full stop; None where it has one.

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
    """The fewest rows, or clusters, with which any difference can be shown: all have to change for the better.

    The smallest p of u units is 2 / 2^u, for McNemar's test as for sign flips, and the lower bound of u differences of
    1 is above 0 from (1 - level) / 2 > 1 / 2^u on.

    >>> fewest_units(), fewest_units(8), fewest_units(14)
    (6, 9, 10)
    """
    units = 2
    while 2.0 ** (1 - units) >= (1 - level) / family * (1 - 1e-9):
        units += 1
    return units


def needed_to_show(
    measured: PairedDifference, *, family: int = 1, power: float = POWER, level: float = LEVEL, most: float = 100.0
) -> int | None:
    """About how many rows like these would show the observed difference with `power`, were it the true one.

    None where it would take more than `most` times as many, or it is not known.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> found = paired_difference([0] * 10 + [1] * 90, [1] * 6 + [0] * 4 + [0] * 2 + [1] * 88, binary=True)
    >>> round(found.difference, 3), needed_to_show(found)
    (0.04, 421)
    """
    effect = abs(measured.difference)
    if not effect >= SMALLEST_EFFECT or measured.test == "exchange" or measured.units < 2:
        return None
    if measured.test == "mcnemar" and measured.fixed is not None and measured.broken is not None:
        changed = (measured.fixed + measured.broken) / measured.n
        # Rows grow with the square of what the effect is too small by, so this much is too little.
        if mcnemar_power(round(most * measured.n), changed, effect, family=family, level=level) < power:
            return None
        return needed_for_share(effect, changed, family=family, power=power, level=level)
    if measured.changes is None:
        return None
    plan = PlannedUnits.of(measured)

    mirrored = plan.mirrored()

    def enough(rows: int) -> bool:
        growth = rows / measured.n
        return all(one.chance(effect, growth, level=level, family=family) >= power for one in (plan, mirrored))

    return _fewest(enough, first=measured.n, most=math.floor(most * measured.n), tolerance=_ROUGHLY)


def mcnemar_power(n: int, changed: float, effect: float, *, family: int = 1, level: float = LEVEL) -> float:
    """The power of a comparison of independent 0/1 rows, computed exactly (Duffy 1984).

    The sum over the number k of changed rows, binomial (n, changed), of the chance that a binomial
    (k, (changed + effect) / (2 changed)) falls where McNemar's exact test rejects and the interval excludes 0.

    Args:
        changed: share of rows that change, fixed and broken together, 0..1.
        effect: share of fixed rows minus share of broken rows, at most `changed`.

    Raises:
        ValueError: an argument outside its range.

    >>> round(mcnemar_power(n=500, changed=0.1, effect=0.05), 3)
    0.941
    >>> round(mcnemar_power(n=500, changed=0.1, effect=0.05, family=14), 3)
    0.716
    """
    _check(n, 0.5, level, family)
    if not 0 <= abs(effect) <= changed <= 1:
        raise ValueError(f"|effect| <= changed <= 1 is needed, not {effect:g} and {changed:g}")
    if changed == 0:
        return 0.0
    # Anything beyond has a probability of 1e-12.
    likely = np.arange(float(most_below(5e-13, n, changed)) + 1, n - float(most_below(5e-13, n, 1 - changed)))
    most = _most_against(n, likely, family, level)
    share = (changed + abs(effect)) / (2 * changed)
    rejects = at_most(most, likely, share) + at_most(most, likely, 1 - share)
    chances = np.diff(at_most(np.append(likely[0] - 1, likely), n, changed))
    return float(min(1.0, np.dot(chances, rejects)))


def _most_against(n: int, changed: Floats, family: int, level: float) -> Floats:
    """The most broken (or fixed) rows of `changed` with which a difference is still shown; -1 where it never is."""
    most = most_below((1 - level) / 2 / family * (1 - 1e-9), changed, 0.5)
    # Is the interval stricter than the test? Only of few rows, so a few numbers of changed rows tell.
    asked = np.unique(np.linspace(0, len(changed) - 1, _ASKED).astype(np.intp))
    allowed = [_allowed(n, int(changed[place]), int(most[place]), level) for place in asked]
    stricter = np.interp(np.arange(len(changed)), asked, most[asked] - np.array(allowed))
    return np.asarray(most - np.ceil(np.maximum(0.0, stricter) - 1e-9), np.float64)


_ASKED = 25


@lru_cache(maxsize=20_000)
def _allowed(n: int, changed: int, most: int, level: float) -> int:
    """At most `most` rows against, so that the interval excludes 0."""
    while most >= 0:
        found = difference_interval(
            np.repeat([1.0, -1.0, 0.0], [changed - most, most, n - changed]), None, binary=True, level=level
        )
        if found is not None and found.low > 0:
            break
        most -= 1
    return most


def detectable_share(
    n: int, changed: float, *, family: int = 1, power: float = POWER, level: float = LEVEL
) -> float | None:
    """Minimum detectable difference of two paired proportions, for `mcnemar_power`.

    Args:
        changed: share of rows that change, 0..1. A larger difference needs as many changes, so these are assumed.

    Returns:
        None where there are too few rows for any difference: fewer than 6 at 95 %.

    Raises:
        ValueError: an argument outside its range.

    >>> round(detectable_share(n=500, changed=0.1), 4)
    0.0407
    """
    from scipy.optimize import brentq

    _check(n, power, level, family)
    if not 0 <= changed <= 1:
        raise ValueError(f"changed: a share is needed, not {changed:g}")

    def missing(effect: float) -> float:
        return mcnemar_power(n, max(changed, effect), effect, family=family, level=level) - power

    return float(brentq(missing, 0.0, 1.0, xtol=1e-5)) if missing(1.0) >= 0 else None


def needed_for_share(
    effect: float, changed: float, *, family: int = 1, power: float = POWER, level: float = LEVEL
) -> int:
    """The smallest number of rows for which `mcnemar_power` reaches `power` for a difference of `effect`.

    Power is a saw-tooth in the number of rows; the result lies where it first holds near the smooth curve.

    Args:
        changed: share of rows that change, 0..1; `effect` where that is larger.

    Raises:
        ValueError: an effect that is not in 0.0001..1, or an argument outside its range.

    >>> needed_for_share(0.05, changed=0.1)
    337
    """
    if effect > 1:
        raise ValueError(f"effect: at most 1 is needed, not {effect:g}")
    _check(1, power, level, family)
    if not effect >= SMALLEST_EFFECT:
        raise ValueError(f"effect: at least {SMALLEST_EFFECT:g} is needed, not {effect:g}")

    def enough(rows: int) -> bool:
        return mcnemar_power(rows, max(changed, effect), effect, family=family, level=level) >= power

    found = _fewest(enough)
    assert found is not None
    return found


def _check(n: int, power: float, level: float, family: int = 1) -> None:
    if n < 1:
        raise ValueError(f"n: at least one row is needed, not {n}")
    if family < 1:
        raise ValueError(f"family: at least one field is needed, not {family}")
    if not (0 < level < 1 and 1 - level < power < 1):
        raise ValueError(f"level and power: 0 < 1 - level < power < 1 is needed, not {level:g} and {power:g}")


def _fewest(
    enough: Callable[[int], bool], *, first: int = 2, most: float = math.inf, tolerance: float = 0.0
) -> int | None:
    """The fewest rows that are enough, for a condition that holds from some number on; None where `most` are not.

    Args:
        first: how many to try first.
        tolerance: by which share the result may be too large.
    """
    low, high = 1, first
    while not enough(high):
        if high >= most:
            return None
        low, high = high, int(min(2 * high, most))
    while high - low > max(1.0, tolerance * low):
        middle = (low + high) // 2 if high < 4 * low else math.isqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def needed_to_decide(
    interval: Interval | None, margin: float, n: int, *, power: float = POWER, level: float = LEVEL
) -> int | None:
    """Approximately how many rows like these let a release that is as good as the old one PASS with `power`.

    PASS: the whole interval lies above minus the margin (non-inferiority; Schuirmann 1987; Walker and Nowacki 2011).

    n * (half width / margin)^2 * ((z + z_power) / z)^2: the width of an interval shrinks with the root of the rows
    (Julious 2004). The releases are assumed equal rather than as different as they seem, because the observed
    difference is what is in doubt.

    Args:
        interval: at `level`, from `n` rows (or clusters; then the result counts clusters).

    Returns:
        None at a margin of 0, which equal releases cannot pass on any number of rows, and where there is no interval.

    Raises:
        ValueError: a margin below 0, or NaN; fewer than one row.

    >>> needed_to_decide(Interval(-0.04, 0.04, "t"), margin=0.02, n=500)
    4087
    """
    _check_margin(margin)
    if n < 1:
        raise ValueError(f"n: at least one row is needed, not {n}")
    if interval is None or margin == 0:
        return None
    z = normal_quantile(level)
    reach = (interval.high - interval.low) / 2 / margin * (1 + normal_quantile(2 * power - 1) / z)
    return math.ceil(n * reach * reach)


_ROUGHLY = 0.005
"""Numbers of rows that depend on how much scores vary may be too large by this share."""
_MOST_ROWS = 10_000_000
"""Beyond so many rows nothing is said of how many it takes."""
_COUNTED = 100_000
"""Up to so many rows the interval itself is asked; beyond, its width goes with the root of the rows."""


def needed_to_pass(
    changes: Floats,
    codes: Codes | None,
    floor: float,
    mean: float,
    *,
    binary: bool,
    bounds: tuple[float, float],
    power: float = POWER,
    level: float = LEVEL,
) -> int | None:
    """About how many rows like these would have an interval above `floor` with `power`, if `mean` were the true mean.

    Of releases that are equally good the mean is 0. For independent 0/1 rows and their differences, the share of rows
    that change is taken as (changed + 1/2) / (rows + 1): that none of 20 changed does not mean that none ever will.

    Args:
        changes: (rows,): scores, or differences; `codes`: their clusters.
        binary: scores are 0 or 1, so that differences are -1, 0 or 1.
        bounds: the range of `changes`: of differences, minus and plus that of the scores.

    Returns:
        None where the mean is not above the floor, or it takes more than ten million rows.

    >>> needed_to_pass(np.repeat([1.0, -1.0, 0.0], [54, 54, 492]), None, -0.03, 0.0, binary=True, bounds=(-1, 1))
    1575
    """
    if not mean > floor or len(changes) < 2:
        return None
    low, high = bounds
    if binary and codes is None:
        enough = _binary_pass(changes, floor, mean, difference=low < 0, power=power, level=level)
    else:
        units = Units(unit_sums(changes, codes), unit_sums(np.ones(len(changes)), codes), np.ones(1))
        plan = PlannedUnits(units, low, high, sparse=low < 0)

        def enough(rows: int) -> bool:
            return plan.chance(mean, rows / len(changes), limit=floor, level=level) >= power

    return _fewest(enough, first=len(changes), most=_MOST_ROWS, tolerance=_ROUGHLY)


def detectable_loss(
    changes: Floats,
    codes: Codes | None,
    floor: float,
    most: float,
    *,
    binary: bool,
    bounds: tuple[float, float],
    power: float = POWER,
    level: float = LEVEL,
) -> float | None:
    """The smallest true loss for which the interval of rows like these lies below `floor` with `power`.

    Args:
        changes: (rows,): differences, new - old; `codes`, `binary` and `bounds` as for `needed_to_pass`.
        floor: minus the margin, at most 0.
        most: the largest loss to think of, in the units of the scores.

    Returns:
        None where not even a loss of `most` would be seen.

    >>> rows = np.repeat([1.0, -1.0, 0.0], [54, 54, 492])
    >>> round(detectable_loss(rows, None, -0.03, 0.18, binary=True, bounds=(-1, 1)), 3)
    0.079
    """
    from scipy.optimize import bisect

    if binary and codes is None:

        def seen(loss: float) -> bool:
            return _binary_pass(-changes, -floor, loss, difference=True, power=power, level=level)(len(changes))

    else:
        low, high = bounds
        units = Units(-unit_sums(changes, codes), unit_sums(np.ones(len(changes)), codes), np.ones(1))
        plan = PlannedUnits(units, -high, -low)

        def seen(loss: float) -> bool:
            return plan.chance(loss, 1.0, limit=-floor, level=level) >= power

    if most <= -floor or not seen(most):
        return None
    return float(bisect(lambda loss: 0.5 - seen(loss), -floor, most, xtol=1e-5))


def _binary_pass(
    changes: Floats, floor: float, mean: float, *, difference: bool, power: float, level: float
) -> Callable[[int], bool]:
    """From a number of rows to whether they pass with a chance of `power`."""
    from scipy.special import bdtrik

    share = (float(np.abs(changes).sum()) + 0.5) / (len(changes) + 1) if difference else mean
    share = max(share, abs(mean))
    spread, z_power = math.sqrt(max(0.0, share - mean * mean)), normal_quantile(2 * power - 1)

    def sure(rows: int) -> bool:
        if rows > _COUNTED:
            return mean - (normal_quantile(level) + z_power) * spread / math.sqrt(rows) > floor
        if not difference:
            ones = max(0.0, math.floor(float(bdtrik(1 - power, rows, mean))))
            found = bounded_mean([1.0, 0.0], counts=[ones, rows - ones], level=level)
        elif rows * share <= _FEW_CHANGES:
            return _chance_to_pass(rows, share, mean, floor, level) >= power
        else:
            changed = rows * share
            net = rows * mean - z_power * spread * math.sqrt(rows)
            up, down = max(0.0, (changed + net) / 2), max(0.0, (changed - net) / 2)
            fixed, broken = round(up), round(down)
            row = np.repeat([1.0, -1.0, 0.0], [fixed, broken, max(0, rows - fixed - broken)])
            found = difference_interval(row, None, binary=True, level=level)
        return found is not None and found.low > floor

    return sure


_FEW_CHANGES = 60
"""Up to so many changed rows are expected, the chance to pass is a sum over all outcomes: it goes up in large steps."""


def _chance_to_pass(rows: int, share: float, mean: float, floor: float, level: float) -> float:
    """The chance that the interval of `rows` independent 0/1 rows, of which `share` change, lies above `floor`; exact.

    Args:
        mean: the true difference, minus `share` to `share`.
    """
    up, down = (share + mean) / 2, (share - mean) / 2
    fixed = np.arange(float(most_below(1e-9, rows, up)) + 1, rows - float(most_below(1e-9, rows, 1 - up)))
    may_break, most = np.empty(len(fixed)), -1
    for place, better in enumerate(fixed.astype(int).tolist()):
        # The more rows are fixed, the more may be broken.
        while most < rows - better:
            found = paired_proportions(better, most + 1, rows, level)
            if found is None or found.low <= floor:
                break
            most += 1
        may_break[place] = most
    chances = np.diff(at_most(np.append(fixed[0] - 1, fixed), rows, up))
    return float(chances @ at_most(may_break, rows - fixed, min(1.0, down / (1 - up)) if up < 1 else 0.0))


def _check_margin(margin: float) -> None:
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin: a finite number of at least 0 is needed, not {margin:g}")
