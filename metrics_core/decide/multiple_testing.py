"""Multiple and sequential testing: adjusted p-values, and the levels of intervals that share an error.

Holm is for a family of tests that a decision rests on, Benjamini and Hochberg for exploration, `planned_level` for a
planned number of interim analyses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats
from .intervals import LEVEL

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


def planned_level(fractions: Sequence[float], *, spent: Sequence[float], level: float = LEVEL) -> float:
    """The level of the interval at the latest of several planned analyses of growing data (group-sequential design).

    The chance that the lower end is wrong in any of the analyses is (1 - level) / 2, and so is that of the upper end.
    Each analysis spends a part of it (Lan and DeMets 1983). The bounds follow from the joint normal distribution of
    estimates that share their rows (Armitage, McPherson and Rowe 1969).

    The number of rows must be known in advance, and each analysis must include the rows of the earlier ones. Five
    analyses that spend equal parts take 1.2 times the rows of a single one.

    Args:
        fractions: (analyses,): rows at each analysis up to now / rows planned, increasing; k / K where K equal steps
            are planned. The last may exceed 1, if there are more rows than planned: the rest is spent on it.
        spent: (analyses,): the share of the error that may be spent by each analysis, increasing, at most 1. Equal
            steps suit data that may decide early.
        level: 0 to 1.

    Raises:
        ValueError: no fractions, not increasing, or an analysis after the plan was complete.

    >>> round(planned_level([1.0], spent=[1.0]), 6)
    0.95
    >>> [round(planned_level([0.25, 0.5, 1.0][:last], spent=[1 / 3, 2 / 3, 1.0][:last]), 4) for last in (1, 2, 3)]
    [0.9833, 0.9782, 0.9761]
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    times = [float(fraction) for fraction in fractions]
    if not times or times[0] <= 0 or any(later <= time for time, later in pairwise(times)):
        raise ValueError(f"fractions: above 0 and increasing, not {times}")
    if len(times) > 1 and times[-2] >= 1:
        raise ValueError("fractions: the analysis before already had all planned rows, so no error is left to spend")
    alpha = (1 - level) / 2

    # Follow the paths of a Brownian motion that have crossed no bound: at the nodes of a quadrature, their density
    # times the weight.
    nodes = np.zeros(1)
    masses = np.ones(1)
    previous_time = previous_spent = 0.0
    for step, (time, share) in enumerate(zip(times, spent, strict=True)):
        spread = math.sqrt(time - previous_time)
        due = alpha * share - previous_spent
        low = -_REACH * math.sqrt(time)
        high = -float(ndtri(due)) * math.sqrt(time) + _REACH * spread
        # The bound that as many of the paths cross in this step as may
        crossed = partial(_crossing, nodes=nodes, masses=masses, spread=spread, due=due)
        bound = float(brentq(crossed, low, high, xtol=1e-10))
        tail = float(ndtr(-bound / math.sqrt(time)))
        if step + 1 < len(times):
            following = math.sqrt(times[step + 1] - time)
            # Simpson's rule, on nodes that are closer than the steps before and after it are wide.
            intervals = 2 * min(1000, max(50, math.ceil(3 * (bound - low) / min(spread, following))))
            weights = np.ones(intervals + 1)
            weights[1:-1:2] = 4.0
            weights[2:-1:2] = 2.0
            inside = np.linspace(low, bound, intervals + 1)
            distances = (inside[:, None] - nodes) / spread
            density = np.exp(-distances * distances / 2) @ masses / (spread * math.sqrt(2 * math.pi))
            masses = density * weights * (bound - low) / (3 * intervals)
            nodes = inside
        previous_time = time
        previous_spent = alpha * share
    return 1 - 2 * tail


def _crossing(bound: float, nodes: Floats, masses: Floats, spread: float, due: float) -> float:
    """The chance to lie beyond the bound after a normal step from each node, minus the one that is `due`."""
    from scipy.special import ndtr

    return float(masses @ ndtr((nodes - bound) / spread)) - due
