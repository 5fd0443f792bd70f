"""Score chunks: in this process, or in spawned ones where there is enough work to pay for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from metrics_core.processes import spawned_pool
from metrics_core.registry import METRICS
from tasks.parts import Chunk, score_chunk

_one_model_at_a_time = threading.Lock()
_SPAWN_ROWS = 20_000
"""Below this many lexical rows a run stays in one process: starting others takes longer than the work."""


def worth_spawning(todo: Iterable[tuple[str, int]]) -> bool:
    """Whether there is enough to score, as pairs of metric and rows, for more than one process."""
    return sum(rows for metric, rows in todo if METRICS[metric].kind == "lexical") > _SPAWN_ROWS


def score(chunk: Chunk, *, spawn: bool) -> str:
    """Score a chunk and return its part.

    Words are counted in Python, which two threads cannot do at once, so they go to processes. Embedding models
    stay here, where they are loaded once; two chunks of them at a time would only take turns at every batch.
    """
    if METRICS[chunk.metric].kind == "semantic":
        with _one_model_at_a_time:
            return score_chunk(chunk)
    if not spawn:
        return score_chunk(chunk)
    try:
        return _pool().submit(score_chunk, chunk).result()
    except BrokenProcessPool:
        # Somebody ended a worker. The next attempt, which the caller's retries make, gets a new pool.
        _pool.cache_clear()
        raise


def in_good_order(chunks: Sequence[Chunk]) -> list[Chunk]:
    """One chunk of an embedding model first, the others last: models and processes work side by side."""
    slow = [chunk for chunk in chunks if METRICS[chunk.metric].kind == "semantic"]
    quick = [chunk for chunk in chunks if METRICS[chunk.metric].kind != "semantic"]
    return [*slow[:1], *quick, *slow[1:]]


@cache
def _pool() -> ProcessPoolExecutor:
    return spawned_pool(os.cpu_count() or 1)
