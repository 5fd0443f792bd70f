"""Tests that exchange the two releases within a row, or within a cluster.

Where the releases do not differ, it is chance which of the two answers of a row belongs to which release. So the
difference is compared with the differences that come out when both are exchanged in some of the units (rows, or
whole clusters). All exchanges are tried where there are at most `permutations` of them, else a seeded sample of
them: p is then (1 + as extreme) / (1 + sample), which is never 0 and never too small (Phipson and Smyth 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from answerkey.metrics_core.statistics.clustered import Floats

PERMUTATIONS = 9999

_CELLS = 2_000_000
"""Exchanges are drawn in batches of so many cells, 16 MB, so that memory does not grow with the rows."""

_ROUNDING = 1e-12
"""Two ways of adding the same numbers differ by less than this share of their sum."""


def sign_flip(sums: Floats, *, seed: int = 0, permutations: int = PERMUTATIONS) -> float:
    """Two-sided p of a mean difference of 0: the sign of each unit's difference is flipped (Fisher 1935).

    The order of the units changes nothing, and units without a difference do not count.

    Args:
        sums: (units,): new - old, summed over the rows of each unit.
    """
    sizes = np.sort(np.abs(sums[sums != 0]))
    total = float(sizes.sum())
    least = abs(float(sums.sum())) - _ROUNDING * total
    return _share(lambda flipped: np.abs(total - 2 * (flipped @ sizes)) >= least, len(sizes), seed, permutations)


def exchange(
    old: Floats,
    new: Floats,
    statistic: Callable[[Floats], float],
    *,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> float:
    """Two-sided p of a difference of 0 in a statistic of summed rows (Noreen 1989, approximate randomisation).

    Args:
        old: (units, numbers): sufficient statistics; `new`: likewise, of the same units.
        statistic: from the sum over units, shape (numbers,), to the statistic.
    """
    moves = (new - old)[(new != old).any(axis=1)]
    before, after = old.sum(axis=0), new.sum(axis=0)
    least = abs(statistic(after) - statistic(before)) - _ROUNDING

    def extreme(exchanged: Floats) -> np.ndarray:
        moved = exchanged @ moves
        found = [abs(statistic(after - m) - statistic(before + m)) for m in moved]
        return np.array(found) >= least

    return _share(extreme, len(moves), seed, permutations)


def _share(extreme: Callable[[Floats], np.ndarray], units: int, seed: int, permutations: int) -> float:
    """The share of exchanges that are `extreme`: of all, or of a sample with the observed one added."""
    if permutations < 1:
        raise ValueError(f"permutations: at least 1 is needed, not {permutations}")
    everything = units < 63 and 2**units <= permutations
    batches = _all(units) if everything else _some(units, seed, permutations)
    count = sum(int(extreme(batch).sum()) for batch in batches)
    return count / 2**units if everything else (1 + count) / (1 + permutations)


def _all(units: int) -> Iterator[Floats]:
    """Every subset of the units, as rows of zeros and ones."""
    numbers = np.arange(2**units)
    for part in np.array_split(numbers, 1 + len(numbers) * units // _CELLS):
        yield ((part[:, None] >> np.arange(units)) & 1).astype(np.float64)


def _some(units: int, seed: int, permutations: int) -> Iterator[Floats]:
    """`permutations` random subsets of the units, each as likely."""
    rng = np.random.default_rng(seed)
    width = (units + 7) // 8
    batch = max(1, _CELLS // units)
    for start in range(0, permutations, batch):
        rows = min(batch, permutations - start)
        # One random bit a unit: eight times fewer random bytes than integers of 0 and 1.
        packed = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
        yield np.unpackbits(packed, axis=1, count=units).astype(np.float64)
