"""Several tests at once, or one after the other: adjusted p-values, and the level of intervals that share an error.

Holm is for a family that decides, Benjamini and Hochberg for exploration, `shared_level` for intervals that are looked
at again as data arrive, or that are about several candidates.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import numbers
from answerkey.metrics_core.statistics.intervals import LEVEL


def holm(p: npt.ArrayLike) -> list[float]:
    """Holm's (1979) adjusted p-values: rejecting those <= alpha keeps the chance of any false rejection <= alpha.

    For a family of tests that a decision rests on. Valid under any dependence between the tests.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    Raises:
        ValueError: something outside 0..1, or NaN.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    raw = _checked(p)
    order = np.argsort(raw, kind="stable")
    # The smallest p is multiplied by the number of tests, the next by one less; none may fall below its predecessor.
    climbed = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(climbed, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p: npt.ArrayLike) -> list[float]:
    """Benjamini and Hochberg's (1995) adjusted p-values: of those <= q, on average a share of at most q is false.

    For slices and other exploration. Valid for independent and for positively dependent tests.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    Raises:
        ValueError: something outside 0..1, or NaN.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    raw = _checked(p)
    order = np.argsort(raw, kind="stable")
    # The largest p stays, the next is multiplied by n / (n - 1), and so on; none may lie above its successor.
    scaled = raw[order] * (len(raw) / np.arange(1, len(raw) + 1))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return [float(value) for value in adjusted]


def shared_level(*, look: int | None = None, candidates: int = 1, level: float = LEVEL) -> float:
    """The level of one interval of many, so that all of them together contain their true values with `level`.

    The intervals of several candidates share 1 - `level` in equal parts (Bonferroni). Look k gets the part
    1 / (k (k + 1)) of it, and these parts add up to 1 over endlessly many looks: with these levels, the intervals form
    a confidence sequence (Darling and Robbins 1967), by the union bound. So it holds for any dependence between looks
    and between candidates, and looking may stop or go on for any reason.

    Args:
        look: the number of this look, from 1; None where there is just one, declared before it.
        candidates: how many there are, at least 1.
        level: 0 to 1.

    Raises:
        ValueError: an argument outside its range.

    >>> shared_level()
    0.95
    >>> [round(shared_level(look=look), 4) for look in (1, 2, 3, 30)]
    [0.975, 0.9917, 0.9958, 0.9999]
    >>> shared_level(candidates=5)
    0.99
    """
    if candidates < 1 or (look is not None and look < 1) or not 0 < level < 1:
        raise ValueError(
            f"look and candidates of at least 1 and 0 < level < 1 are needed, not {look}, {candidates}, {level:g}"
        )
    if look is None and candidates == 1:
        return level
    return 1 - (1 - level) / (candidates * (1 if look is None else look * (look + 1)))


def _checked(p: npt.ArrayLike) -> npt.NDArray[np.float64]:
    raw = numbers(p, "p")
    if raw.size and not 0 <= raw.min() <= raw.max() <= 1:
        raise ValueError(f"p: values from 0 to 1 are needed, not {raw.min():g} to {raw.max():g}")
    return raw
