"""Score chunks: in this process, or in spawned ones where there is enough work to pay for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from answerkey.metrics_core.evaluate import spawned_pool
from answerkey.metrics_core.metric import Kind
from answerkey.tasks.score.keys import key
from answerkey.tasks.score.shard import Chunk, score_chunk

_one_model_at_a_time = threading.Lock()
_SPAWN_ROWS = 20_000
"""Below this many lexical rows a run stays in one process: starting others takes longer than the work."""


def worth_spawning(chunks: Iterable[Chunk]) -> bool:
    """Whether there is enough to score for more than one process."""
    return sum(chunk.n_rows for chunk in chunks if chunk.metric.workload == "lexical") > _SPAWN_ROWS


def score(chunk: Chunk, *, spawn: bool, key_from: str = "") -> str:
    """Score a chunk and return its part.

    Words are counted in Python, which two threads cannot do at once, so they go to processes. Embedding models
    stay here, where they are loaded once; two chunks of them at a time would only take turns at every batch. The
    offline judge is such a model.
    Judges are waited for here as well, so that all chunks share their pacing; `key_from` says where their key
    is kept (see `judges.key`), which is looked up no earlier than now.

    Raises:
        UserError: there is no key where `key_from` says, or a judge cannot be asked.
    """
    kind = chunk.metric.workload
    if kind == "judge":
        return score_chunk(chunk, key(key_from))
    if kind == "semantic":
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
    """The order in which models, processes and the network are busy side by side.

    One chunk of an embedding model and one of a judge come first: each keeps one thread for long, and leaves the
    rest to the lexical chunks. The others of both take turns afterwards, since embedding hardly waits, and judging
    hardly does anything else.
    """
    by_kind: dict[Kind, list[Chunk]] = {"semantic": [], "judge": [], "lexical": []}
    for chunk in chunks:
        by_kind[chunk.metric.workload].append(chunk)
    semantic, judge = by_kind["semantic"], by_kind["judge"]
    return [*semantic[:1], *judge[:1], *by_kind["lexical"], *_in_turns(judge[1:], semantic[1:])]


def _in_turns(*groups: Sequence[Chunk]) -> list[Chunk]:
    """All groups merged so that each is spread evenly."""
    placed = [(place / len(group), chunk) for group in groups for place, chunk in enumerate(group)]
    return [chunk for _, chunk in sorted(placed, key=lambda pair: pair[0])]


@cache
def _pool() -> ProcessPoolExecutor:
    return spawned_pool(os.cpu_count() or 1)
