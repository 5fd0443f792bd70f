"""May the new release ship: non-inferiority by an interval."""

from __future__ import annotations

import math
from typing import Literal

from answerkey.metrics_core.statistics.intervals import LEVEL, Interval, normal_quantile
from answerkey.metrics_core.statistics.power import POWER

Decision = Literal["PASS", "FAIL", "INCONCLUSIVE"]


def decide(interval: Interval | None, margin: float) -> Decision:
    """Is the new release at most `margin` worse than the old one?

    PASS: the whole interval lies above -margin. FAIL: the whole interval lies below it. INCONCLUSIVE: it holds
    -margin, or there is none: too few rows to tell. With a two-sided interval at 95 % either answer is wrong with a
    chance of at most 2.5 % (Schuirmann 1987; Walker and Nowacki 2011).

    Args:
        interval: for new - old, where more is better.
        margin: the loss that does not matter, in the units of the metric, at least 0. At 0 the new release must be
            better to pass.

    Raises:
        ValueError: a margin below 0, or NaN.
    """
    _check(margin)
    if interval is None:
        return "INCONCLUSIVE"
    if interval.low > -margin:
        return "PASS"
    return "FAIL" if interval.high < -margin else "INCONCLUSIVE"


def needed_to_decide(
    interval: Interval | None, margin: float, n: int, *, power: float = POWER, level: float = LEVEL
) -> int | None:
    """About how many rows like these let a release that is just as good as the old one PASS with the chance `power`.

    n * (half width / margin)^2 * ((z + z_power) / z)^2: the width of an interval shrinks with the root of the rows
    (Julious 2004). It takes the releases as equal and not as different as they seem, because the observed
    difference is what is in doubt.

    Args:
        interval: at `level`, from `n` rows (or clusters: then clusters are counted).

    Returns:
        None at a margin of 0, which no number of rows shows of equal releases, and where there is no interval.

    Raises:
        ValueError: a margin below 0, or NaN; fewer than one row.
    """
    _check(margin)
    if n < 1:
        raise ValueError(f"n: at least one row is needed, not {n}")
    if interval is None or margin == 0:
        return None
    z = normal_quantile(level)
    reach = (interval.high - interval.low) / 2 / margin * (1 + normal_quantile(2 * power - 1) / z)
    return math.ceil(n * reach * reach)


def _check(margin: float) -> None:
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin: a finite number of at least 0 is needed, not {margin:g}")
