"""The binomial distribution by `scipy.special` alone: `scipy.stats`, which has it too, takes .6 s to import."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def at_most(k: npt.ArrayLike, n: npt.ArrayLike, p: npt.ArrayLike) -> Floats:
    """The chance of at most `k` successes in `n` independent trials that each succeed with `p`; arrays of one shape.

    Args:
        k: below 0 the chance is 0, from `n` on it is 1.
        n: counts, from 0.
        p: 0 to 1.

    >>> at_most([-1, 0, 1, 2], 2, 0.5).tolist()
    [0.0, 0.25, 0.75, 1.0]
    """
    from scipy.special import betainc

    k, n, p = (np.asarray(one, np.float64) for one in (k, n, p))
    inside = (k >= 0) & (k < n)
    # The incomplete beta function is not defined outside.
    found: Any = betainc(np.where(inside, n - k, 1.0), np.where(inside, k + 1, 1.0), 1 - p)
    return np.where(inside, found, np.where(k < 0, 0.0, 1.0))


def most_below(tail: float, n: npt.ArrayLike, p: npt.ArrayLike) -> Floats:
    """The largest k with `at_most(k, n, p)` < `tail`, as whole floats; -1 where there is none.

    Args:
        tail: above 0, below 1.
        n, p: as in `at_most`.

    >>> most_below(0.025, [5, 6, 20], 0.5).tolist()
    [-1.0, 0.0, 5.0]
    """
    from scipy.special import bdtrik

    n, p = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(p, np.float64))
    # The inverse is not defined where the outcome is certain: no trials, or a chance of 0 or 1.
    certain = (n < 1) | (p <= 0) | (p >= 1)
    inverse: Any = bdtrik(tail, np.where(certain, 1.0, n), np.where(certain, 0.5, p))
    found: Floats = np.where(certain, np.where(p >= 1, n, 0.0) - 1, np.clip(np.floor(inverse), -1, n - 1))
    # It is a real number, and rounded.
    while (too_many := (found >= 0) & (at_most(found, n, p) >= tail)).any():
        found = found - too_many
    while (too_few := at_most(found + 1, n, p) < tail).any():
        found = found + too_few
    return found
