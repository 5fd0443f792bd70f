"""What the tests of the statistics share: two pooled statistics, and what intervals hold."""

from collections.abc import Iterable

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
