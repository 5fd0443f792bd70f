"""Many rows as few groups, for what resamples or exchanges rows again and again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.intp]
"""The group of each row, counted from 0: shape (rows,)."""


def groups(rows: int, clusters: npt.NDArray[np.int64] | None, most: int, seed: int) -> Codes:
    """What may be resampled or exchanged as one: rows, or whole clusters; past `most` of them, random groups of them.

    The variance of a sum over independent groups is the same, so the answer is; and a million rows take no longer
    than `most`. The groups depend on the order of the rows and on the seed.
    """
    codes = np.arange(rows) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(codes.max()) + 1
    return codes if count <= most else (np.random.default_rng(seed).permutation(count) % most)[codes]
