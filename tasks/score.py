"""Score chunks: in this process, or in spawned ones where there is enough work to pay for them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from metrics_core.registry import METRICS
from tasks.parts import Chunk, score_chunk

_SPAWN_ROWS = 100_000
"""Below this many lexical rows a run stays in one process: starting others takes longer than the work."""


def worth_spawning(todo: Iterable[tuple[str, int]]) -> bool:
    """Whether there is enough to score, as pairs of metric and rows, for more than one process."""
    return sum(rows for metric, rows in todo if METRICS[metric].kind == "lexical") > _SPAWN_ROWS


def score(chunk: Chunk, *, spawn: bool) -> str:
    """Score a chunk and return its part.

    Words are counted in Python, which two threads cannot do at once; embedding models free the interpreter
    by themselves and stay here, where they are loaded once.
    """
    if not spawn or METRICS[chunk.metric].kind != "lexical":
        return score_chunk(chunk)
    try:
        return _pool().submit(score_chunk, chunk).result()
    except BrokenProcessPool:
        # Somebody ended a worker. The next attempt, which the caller's retries make, gets a new pool.
        _pool.cache_clear()
        raise


@cache
def _pool() -> ProcessPoolExecutor:
    # Spawned, not forked: a fork of a process with threads can hang.
    return ProcessPoolExecutor(os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn"))
