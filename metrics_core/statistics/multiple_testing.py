"""Multiple and sequential testing: adjusted p-values, and the levels of intervals that share an error.

Holm is for a family of tests that a decision rests on, Benjamini and Hochberg for exploration, `shared_level` for any
number of interim analyses and for several candidates, `planned_level` for a planned number of interim analyses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.intervals import LEVEL, normal_quantile

_LEAST_SPENT = 1e-6
"""The least error to spend, times the fraction, so that no level is rounded to 1."""

_REACH = 8.0
"""The lower end of the followed paths, in standard deviations."""


def holm(p: npt.ArrayLike) -> list[float]:
    """Holm's (1979) adjusted p-values: rejecting those <= alpha keeps the chance of any false rejection <= alpha.

    For a family of tests that a decision rests on. Valid under any dependence between the tests.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    # The smallest p is multiplied by the number of tests, the next by one less; none may fall below its predecessor.
    return _adjusted(p, lambda up: np.minimum(np.maximum.accumulate(up * np.arange(len(up), 0, -1)), 1.0))


def benjamini_hochberg(p: npt.ArrayLike) -> list[float]:
    """Benjamini and Hochberg's (1995) adjusted p-values: of those <= q, on average a share of at most q is false.

    For slices and other exploration. Valid for independent and for positively dependent tests.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    # The largest p stays, the next is multiplied by n / (n - 1), and so on; none may lie above its successor.
    return _adjusted(p, lambda up: np.minimum.accumulate((up * (len(up) / np.arange(1, len(up) + 1)))[::-1])[::-1])


def _adjusted(p: npt.ArrayLike, of_sorted: Callable[[Floats], Floats]) -> list[float]:
    """The p-values that `of_sorted` makes of increasing ones, in the order of `p`."""
    raw = np.asarray(p, np.float64)
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = of_sorted(raw[order])
    return [float(value) for value in adjusted]


def shared_level(*, look: int | None = None, candidates: int = 1, level: float = LEVEL) -> float:
    """The level of one of several intervals, so that all together contain their true values with `level`.

    The intervals of several candidates share 1 - `level` in equal parts (Bonferroni). Interim analysis k gets the part
    1 / (k (k + 1)) of it. These parts add up to 1 over infinitely many analyses, so the intervals form a confidence
    sequence (Darling and Robbins 1967) by the union bound: it holds for any dependence between analyses and between
    candidates, and the analyses may stop or go on for any reason. For a planned number of analyses, `planned_level`
    needs fewer rows.

    Args:
        look: the number of this interim analysis, from 1; None for a single analysis that was declared in advance.
        candidates: the number of candidates, at least 1.
        level: 0 to 1.

    Raises:
        ValueError: `look` or `candidates` is below 1, as in a warehouse that was edited by hand.

    >>> shared_level()
    0.95
    >>> [round(shared_level(look=look), 4) for look in (1, 2, 3, 30)]
    [0.975, 0.9917, 0.9958, 0.9999]
    >>> shared_level(candidates=5)
    0.99
    """
    if candidates < 1 or (look is not None and look < 1):
        raise ValueError(f"look and candidates of at least 1 are needed, not {look} and {candidates}")
    if look is None and candidates == 1:
        return level
    return 1 - (1 - level) / (candidates * (1 if look is None else look * (look + 1)))


def planned_level(
    fractions: Sequence[float],
    *,
    spent: Sequence[float] | None = None,
    candidates: int = 1,
    level: float = LEVEL,
) -> float:
    """The level of the interval at the latest of several planned analyses of growing data (group-sequential design).

    The chance that the lower end is wrong in any of the analyses is (1 - level) / 2, and so is that of the upper end.
    At the fraction t of the planned rows, 2 - 2 Phi(z / sqrt(t)) of it has been spent, with z its two-sided normal
    quantile (Lan and DeMets 1983, O'Brien-Fleming type): next to nothing early, so that the last interval is nearly as
    narrow as that of a fixed number of rows. The bounds follow from the joint normal distribution of estimates that
    share their rows (Armitage, McPherson and Rowe 1969).

    `shared_level(look=k)` needs no plan and holds for any dependence and any number of analyses, but takes 1.8 to 2.7
    times the rows. This function needs the number of rows in advance, and each analysis must include the rows of the
    earlier ones: it takes 1.02 times the rows for 5 analyses, 1.03 for 10, 1.06 for 30.

    Args:
        fractions: (analyses,): rows at each analysis up to now / rows planned, increasing; k / K where K equal steps
            are planned. The last may exceed 1, if there are more rows than planned: the rest is spent on it.
        spent: (analyses,): the share of the error that may be spent by each analysis, increasing, at most 1; by default
            that of O'Brien and Fleming. Equal steps suit data that may decide early.
        candidates: the number of candidates that share the error equally.
        level: 0 to 1.

    Raises:
        ValueError: no fractions, not increasing, or an analysis after the plan was complete.

    >>> [round(planned_level([k / 5 for k in range(1, last + 1)]), 5) for last in (2, 3, 4, 5)]
    [0.99921, 0.99264, 0.97797, 0.95775]
    >>> planned_level([1.0])
    0.95
    >>> [round(planned_level([0.25, 0.5, 1.0][:last], spent=[1 / 3, 2 / 3, 1.0][:last]), 4) for last in (1, 2, 3)]
    [0.9833, 0.9782, 0.9761]
    """
    times = [float(fraction) for fraction in fractions]
    if not times or times[0] <= 0 or any(b <= a for a, b in pairwise(times)):
        raise ValueError(f"fractions: above 0 and increasing, not {times}")
    if len(times) > 1 and times[-2] >= 1:
        raise ValueError("fractions: the analysis before already had all planned rows, so no error is left to spend")
    alpha = (1 - shared_level(candidates=candidates, level=level)) / 2
    if times[-1] >= 1 and len(times) == 1 and spent is None:
        return 1 - 2 * alpha
    until = [_spent(time, alpha) for time in times] if spent is None else [alpha * share for share in spent]
    return 1 - 2 * _crossing(times, until)


def _spent(time: float, alpha: float) -> float:
    from scipy.special import ndtr

    if time >= 1:
        return alpha
    early = 2 * float(ndtr(-normal_quantile(1 - alpha) / math.sqrt(time)))
    return max(early, _LEAST_SPENT * alpha * time)


def _crossing(times: Sequence[float], spent: Sequence[float]) -> float:
    """The one-sided tail beyond the last bound of a Brownian motion that is analysed at `times`.

    Args:
        spent: the chance that it has crossed a bound by then, for each of the `times`.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    # The paths that have crossed no bound: at the nodes of a quadrature, their density times the weight.
    nodes, masses, before, total = np.zeros(1), np.ones(1), 0.0, 0.0
    tail = spent[0]
    for step, (time, until) in enumerate(zip(times, spent, strict=True)):
        spread, due = math.sqrt(time - before), until - total

        crossed = partial(_beyond, nodes=nodes, masses=masses, spread=spread, less=due)
        highest = -float(ndtri(due)) * math.sqrt(time) + _REACH * spread
        bound = float(brentq(crossed, -_REACH * math.sqrt(time), highest, xtol=1e-10))
        tail = float(ndtr(-bound / math.sqrt(time)))
        if step + 1 < len(times):
            following = math.sqrt(times[step + 1] - time)
            low = -_REACH * math.sqrt(time)
            # Simpson's rule, on nodes that are closer than the steps before and after it are wide.
            intervals = 2 * min(1000, max(50, math.ceil(3 * (bound - low) / min(spread, following))))
            inside, weights = np.linspace(low, bound, intervals + 1), np.ones(intervals + 1)
            weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
            apart = (inside[:, None] - nodes) / spread
            density = np.exp(-apart * apart / 2) @ masses / (spread * math.sqrt(2 * math.pi))
            nodes, masses = inside, density * weights * (bound - low) / (3 * intervals)
        before, total = time, until
    return tail


def _beyond(bound: float, nodes: Floats, masses: Floats, spread: float, less: float) -> float:
    """The chance to lie beyond the bound after a normal step from each node, minus `less`."""
    from scipy.special import ndtr

    return float(masses @ ndtr((nodes - bound) / spread)) - less
