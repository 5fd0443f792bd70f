"""The arithmetic on embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""One embedding: shape (dimension,)."""

Matrix = npt.NDArray[np.float32]
"""Embeddings row by row: shape (texts, dimension)."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The embedding of one text, and of how many chunks it was made."""

    vector: Vector
    chunks: int = 1


def cosine(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Cosine of the angle between two vectors, -1..1, computed in float64.

    Only what rounding puts outside -1..1 is cut off: by Cauchy and Schwarz nothing else can be there.

    Raises:
        ValueError: the vectors have different dimensions, or one has no direction (norm 0, NaN, infinity).
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.shape != y.shape:
        raise ValueError(f"vectors of {x.size} and {y.size} numbers cannot be compared")
    length = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    if not np.isfinite(length) or length == 0.0:
        raise ValueError("a vector without a direction has no cosine")
    return min(1.0, max(-1.0, float(x @ y) / length))


def combine(vectors: Matrix, weights: Sequence[int]) -> Vector:
    """One embedding from those of the chunks: the mean of their directions, weighted.

    Directions and not the vectors themselves, so that a chunk counts by its length in pieces and not by the
    length of its vector. A single chunk's vector is returned as it is.
    """
    if len(weights) == 1:
        only: Vector = vectors[0]
        return only
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    directions = np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)
    mean: npt.NDArray[np.float64] = np.average(directions, axis=0, weights=weights)
    return mean.astype(np.float32)


def packed(vector: Vector) -> bytes:
    """Little-endian float32, four bytes a number."""
    return vector.astype("<f4").tobytes()


def unpacked(data: bytes) -> Vector:
    """The vector that `packed` made `data` of, bit for bit."""
    return np.frombuffer(data, "<f4").astype(np.float32)
