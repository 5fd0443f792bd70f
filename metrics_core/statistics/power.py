"""Non-inferiority by an interval, minimum detectable effects, and the sample sizes that either needs.

Effects are positive and stand for a change in either direction; tests are two-sided at 1 - `level`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from answerkey.metrics_core.statistics.intervals import LEVEL, Interval, normal_quantile, t_quantile
from answerkey.metrics_core.statistics.paired import PairedDifference

POWER = 0.8
"""The chance of detecting an effect that planning asks for by default."""

SMALLEST_EFFECT = 1e-4
"""A smaller difference would take a thousand million rows."""


def minimum_detectable(measured: PairedDifference, *, power: float = POWER, level: float = LEVEL) -> float | None:
    """The minimum detectable effect of a comparison: the smallest true difference that its test shows with `power`.

    None where it is unknown: a single row, scores that did not change at all, a statistic that is not a mean.

    >>> from answerkey.metrics_core.statistics.paired import paired_difference
    >>> found = paired_difference([0] * 10 + [1] * 90, [1] * 5 + [0] * 5 + [1] * 90, binary=True)
    >>> round(minimum_detectable(found), 3)
    0.078
    """
    if measured.test == "mcnemar" and measured.fixed is not None and measured.broken is not None:
        return detectable_share(measured.n, (measured.fixed + measured.broken) / measured.n, power=power, level=level)
    if not measured.sd:
        return None
    return detectable_mean(
        measured.n,
        measured.sd,
        design_effect=measured.design_effect,
        cluster_size=measured.n / measured.units,
        power=power,
        level=level,
    )


def detectable_mean(
    n: int,
    sd: float,
    *,
    design_effect: float = 1.0,
    cluster_size: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> float | None:
    """Minimum detectable mean difference: (t + t_power) * sd * sqrt(design effect / n).

    The textbook form (Miller 2024) with quantiles of Student's t with n / cluster size - 1
    degrees of freedom instead of the normal ones, so that it also holds for few rows.

    Args:
        sd: of the rows' differences; `design_effect`: the factor by which clusters increase the variance of the mean.
        cluster_size: mean number of rows per cluster.

    Returns:
        None for fewer than two clusters (rows, where there are none).

    Raises:
        ValueError: an argument outside its range.

    >>> round(detectable_mean(n=400, sd=0.3), 4)
    0.0421
    """
    _check(n, power, level)
    if not (0 <= sd < math.inf and 0 <= design_effect < math.inf and 1 <= cluster_size < math.inf):
        raise ValueError(
            "finite sd and design_effect of at least 0 and cluster_size of at least 1 are needed, "
            f"not {sd:g}, {design_effect:g}, {cluster_size:g}"
        )
    df = n / cluster_size - 1
    if df < 1:
        return None
    quantiles = t_quantile(level, df) + t_quantile(2 * power - 1, df)
    return quantiles * sd * math.sqrt(design_effect / n)


def needed_for_mean(
    effect: float,
    sd: float,
    *,
    design_effect: float = 1.0,
    cluster_size: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> int:
    """The smallest number of rows for which `detectable_mean` is at most `effect`.

    Raises:
        ValueError: an effect below 0.0001, or an argument outside its range.

    >>> needed_for_mean(0.02, sd=0.3)
    1768
    """

    def enough(n: int) -> bool:
        least = detectable_mean(n, sd, design_effect=design_effect, cluster_size=cluster_size, power=power, level=level)
        return least is not None and least <= effect

    return _fewest(effect, enough)


def mcnemar_power(n: int, changed: float, effect: float, *, level: float = LEVEL) -> float:
    """The power of McNemar's exact test, computed exactly (Duffy 1984).

    The sum over the number k of changed rows, binomial (n, changed), of the chance that a binomial
    (k, (changed + effect) / (2 changed)) falls where the test rejects.

    Args:
        changed: share of rows that change, fixed and broken together, 0..1.
        effect: share of fixed rows minus share of broken rows, at most `changed`.

    Raises:
        ValueError: an argument outside its range.

    >>> round(mcnemar_power(n=500, changed=0.1, effect=0.05), 3)
    0.941
    """
    from scipy.stats import binom

    _check(n, 0.5, level)
    if not 0 <= abs(effect) <= changed <= 1:
        raise ValueError(f"|effect| <= changed <= 1 is needed, not {effect:g} and {changed:g}")
    if changed == 0:
        return 0.0
    import numpy as np

    # Anything beyond has a probability of 1e-12.
    likely = np.arange(binom.ppf(5e-13, n, changed), binom.isf(5e-13, n, changed) + 1)
    tail = (1 - level) / 2
    most = binom.ppf(tail, likely, 0.5)
    # The most broken (or fixed) rows with which the test still rejects; -1 where it never does.
    most -= binom.cdf(most, likely, 0.5) > tail
    share = (changed + abs(effect)) / (2 * changed)
    rejects = binom.cdf(most, likely, share) + binom.cdf(most, likely, 1 - share)
    return float(min(1.0, binom.pmf(likely, n, changed) @ rejects))


def detectable_share(n: int, changed: float, *, power: float = POWER, level: float = LEVEL) -> float | None:
    """Minimum detectable difference of two paired proportions, for McNemar's exact test.

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

    _check(n, power, level)
    if not 0 <= changed <= 1:
        raise ValueError(f"changed: a share is needed, not {changed:g}")

    def missing(effect: float) -> float:
        return mcnemar_power(n, max(changed, effect), effect, level=level) - power

    return float(brentq(missing, 0.0, 1.0, xtol=1e-7)) if missing(1.0) >= 0 else None


def needed_for_share(effect: float, changed: float, *, power: float = POWER, level: float = LEVEL) -> int:
    """The smallest number of rows for which McNemar's exact test detects a difference of `effect` with `power`.

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
    _check(1, power, level)
    return _fewest(effect, lambda n: mcnemar_power(n, max(changed, effect), effect, level=level) >= power)


def _check(n: int, power: float, level: float) -> None:
    if n < 1:
        raise ValueError(f"n: at least one row is needed, not {n}")
    if not (0 < level < 1 and 1 - level < power < 1):
        raise ValueError(f"level and power: 0 < 1 - level < power < 1 is needed, not {level:g} and {power:g}")


def _fewest(effect: float, enough: Callable[[int], bool]) -> int:
    """The smallest n that is enough, for a condition that holds from some n on."""
    if not effect >= SMALLEST_EFFECT:
        raise ValueError(f"effect: at least {SMALLEST_EFFECT:g} is needed, not {effect:g}")
    high = 2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


Decision = Literal["PASS", "FAIL", "INCONCLUSIVE"]


def decide(interval: Interval | None, margin: float) -> Decision:
    """Non-inferiority: is the new release at most `margin` worse than the old one?

    PASS: the whole interval lies above -margin. FAIL: the whole interval lies below it. INCONCLUSIVE: it contains
    -margin, or there is no interval. With a two-sided interval at 95 %, PASS and FAIL are each wrong with a chance of
    at most 2.5 % (Schuirmann 1987; Walker and Nowacki 2011).

    Args:
        interval: for new - old, where more is better.
        margin: the non-inferiority margin in the units of the metric, at least 0. At 0 the new release must be
            better to pass.

    Raises:
        ValueError: a margin below 0, or NaN.

    >>> decide(Interval(-0.01, 0.03, "tango"), margin=0.02)
    'PASS'
    >>> decide(Interval(-0.05, 0.01, "tango"), margin=0.02)
    'INCONCLUSIVE'
    """
    _check_margin(margin)
    if interval is None:
        return "INCONCLUSIVE"
    if interval.low > -margin:
        return "PASS"
    return "FAIL" if interval.high < -margin else "INCONCLUSIVE"


def needed_to_decide(
    interval: Interval | None, margin: float, n: int, *, power: float = POWER, level: float = LEVEL
) -> int | None:
    """Approximately how many rows like these let a release that is as good as the old one PASS with `power`.

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


def _check_margin(margin: float) -> None:
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin: a finite number of at least 0 is needed, not {margin:g}")
