"""What the simulations share: the share of intervals that hold the truth, and draws with known truth."""

from collections.abc import Callable, Iterable

import numpy as np

from answerkey.metrics_core.statistics.intervals import Interval


def held(intervals: Iterable[Interval | None], truth: float) -> float:
    """The share of `intervals` that hold `truth`; every one must exist."""
    found = list(intervals)
    assert found
    assert None not in found
    return sum(interval is not None and interval.low <= truth <= interval.high for interval in found) / len(found)


def share(outcomes: Iterable[bool]) -> float:
    """The share that is true."""
    found = list(outcomes)
    assert found
    return sum(found) / len(found)


def remembered(function: Callable[..., float]) -> Callable[..., float]:
    """`function` of whole numbers, which simulations ask the same again and again."""
    known: dict[tuple[int, ...], float] = {}

    def look_up(*arguments: int) -> float:
        key = tuple(int(argument) for argument in arguments)
        if key not in known:
            known[key] = function(*key)
        return known[key]

    return look_up


def cells(rng: np.random.Generator, shape: tuple[int, ...], shares: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts and labels of rows drawn with the shares of (1, 1), (1, 0), (0, 1), (0, 0)."""
    kind = rng.choice(4, shape, p=shares)
    return (kind < 2).astype(float), (kind % 2 == 0).astype(float)
