"""p-values that stay honest when many differences are looked at at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import numbers


def holm(p: npt.ArrayLike) -> list[float]:
    """Holm's (1979) adjusted p: reject those <= alpha, and the chance of any false rejection is at most alpha.

    For the family that a decision rests on. Holds however the tests depend on each other.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    Raises:
        ValueError: something outside 0..1, or NaN.
    """
    raw = _checked(p)
    order = np.argsort(raw, kind="stable")
    # The smallest p counts as often as there are tests, the next once less, and none may fall below one before it.
    climbed = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(climbed, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p: npt.ArrayLike) -> list[float]:
    """Benjamini and Hochberg's (1995) adjusted p: of those <= q, a share of at most q is false on average.

    For slices and other looking around. Holds for independent and for positively dependent tests.

    Args:
        p: (tests,): p-values in 0..1. The adjusted ones come back in the same order.

    Raises:
        ValueError: something outside 0..1, or NaN.
    """
    from scipy.stats import false_discovery_control

    raw = _checked(p)
    return [float(value) for value in false_discovery_control(raw)] if raw.size else []


def _checked(p: npt.ArrayLike) -> npt.NDArray[np.float64]:
    raw = numbers(p, "p")
    if raw.size and not 0 <= raw.min() <= raw.max() <= 1:
        raise ValueError(f"p: values from 0 to 1 are needed, not {raw.min():g} to {raw.max():g}")
    return raw
