"""From one cosine a model to one number a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal

Aggregation = Literal["mean", "median", "min", "max", "vote", "consensus"]

DECIMALS = 6
"""Cosines are kept to six decimals.

The last bits of an embedding depend on which texts shared its batch (measured: up to 3e-7 in the cosine), so
further digits would say something about the batch and not about the texts.
"""

VOTE_AT = 0.5
"""A model votes for a text from this cosine on, unless a threshold is set."""


def aggregate(cosines: Sequence[float], how: Aggregation, *, threshold: float | None, tolerance: float) -> float | None:
    """One number from the cosines of several models, in -1..1, with `DECIMALS` decimals.

    `vote` is 1 where strictly more than half of the models reach the threshold (`VOTE_AT` without one), else
    0. `consensus` is the mean where the largest and the smallest cosine differ by at most `tolerance`.

    Returns:
        None where `consensus` was asked for and there is none.

    Raises:
        ValueError: there is no cosine.
    """
    if not cosines:
        raise ValueError("nothing to aggregate")
    if how == "vote":
        votes = sum(cosine >= (VOTE_AT if threshold is None else threshold) for cosine in cosines)
        return float(2 * votes > len(cosines))
    if how == "consensus" and spread(cosines) > tolerance:
        return None
    return round(_AVERAGES[how](cosines), DECIMALS)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, the same in whatever order the values come."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The largest minus the smallest value, without the noise of binary fractions (.8 - .7 is .1)."""
    return round(max(values) - min(values), DECIMALS)


def passes(similarity: float, threshold: float) -> float:
    """1 where `similarity` reaches `threshold`, else 0. It comes after the aggregation, so it is never .5."""
    return float(similarity >= threshold)


_AVERAGES: Mapping[Aggregation, Callable[[Sequence[float]], float]] = {
    "mean": mean,
    "consensus": mean,
    "median": median,
    "min": min,
    "max": max,
}
