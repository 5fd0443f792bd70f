"""p-values adjusted for several tests: Holm for a family that decides, Benjamini and Hochberg for exploration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import numbers


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
    from scipy.stats import false_discovery_control

    raw = _checked(p)
    return [float(value) for value in false_discovery_control(raw)] if raw.size else []


def _checked(p: npt.ArrayLike) -> npt.NDArray[np.float64]:
    raw = numbers(p, "p")
    if raw.size and not 0 <= raw.min() <= raw.max() <= 1:
        raise ValueError(f"p: values from 0 to 1 are needed, not {raw.min():g} to {raw.max():g}")
    return raw
