"""What the tests of the statistics share: two pooled statistics, the ends of intervals, and draws with known truth."""

from collections.abc import Iterable

import numpy as np

from answerkey.metrics_core.decide.intervals import Interval, SumStatistic
from answerkey.metrics_core.metrics.bleu import bleu_extremes, corpus_bleu

RATIO = SumStatistic(lambda s: s[..., 0] / s[..., 1], lambda mean: (mean * [0, 1], mean[[1, 1]]))
"""From (sum, count) to the mean, of values in 0 to 1."""
BLEU = SumStatistic(corpus_bleu, bleu_extremes)


def width(interval: Interval) -> float:
    return interval.high - interval.low


def held(intervals: Iterable[Interval | None], truth: float) -> float:
    """The share of `intervals` that hold `truth`; every one must exist."""
    inside = [interval.low <= truth <= interval.high for interval in intervals]
    return sum(inside) / len(inside)


def cells(rng: np.random.Generator, shape: tuple[int, ...], shares: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts and labels of rows drawn with the shares of (1, 1), (1, 0), (0, 1), (0, 0)."""
    kind = rng.choice(4, shape, p=shares)
    return (kind < 2).astype(float), (kind % 2 == 0).astype(float)
