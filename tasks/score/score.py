"""Score shards: in this process, or in spawned ones where there is enough work to pay for them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import ParamSpec, TypeVar

from answerkey.metrics_core.metric import Metric, Workload
from answerkey.processes import spawned_pool
from answerkey.tasks.score.keys import key
from answerkey.tasks.score.shard import Cancelled, Shard, score_shard

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("answerkey")

_one_model_at_a_time = threading.Lock()
_LEXICAL_ROWS: Mapping[Workload, int] = {"lexical": 1, "offline": 5}
"""How many lexical rows a row of each workload counts as. Both workloads are Python code, which two threads cannot run
at once. A row of the offline judge takes longer than five lexical ones, but each process has to read the texts again:
2,400 rows of two such metrics took 29 % more processor time in two processes than in one."""
_SPAWN_ROWS = 40_000
"""Up to this many lexical rows, a run stays in one process. On an idle machine, a second process saves a quarter of the
time for 70,000 rows and costs no processor time, since both start while the answers are validated; for 30,000 rows it
saves a tenth of the time, and costs a tenth more processor time."""


def worth_spawning(n_rows: int) -> bool:
    """Whether so many lexical rows are enough for more than one process."""
    return n_rows > _SPAWN_ROWS and (os.cpu_count() or 1) > 1


def start_processes(metrics: Iterable[Metric], n_rows: int) -> None:
    """Start the processes that will score `n_rows` by each metric, if that is worth several, and do not wait for them.

    They import what they need while the rows are validated.
    """
    lexical = n_rows * sum(_LEXICAL_ROWS.get(metric.workload, 0) for metric in metrics)
    if worth_spawning(lexical):
        # A pool that could not start is found by `spawns`
        with suppress(BrokenProcessPool):
            for _ in range(min(os.cpu_count() or 1, 2 * lexical // _SPAWN_ROWS)):
                _pool().submit(_import)


def spawns(shards: Sequence[Shard]) -> bool:
    """Whether there is enough to do for more than one process, and processes can be started."""
    # In lexical rows, since that is what the processes are for
    rows = [shard.n_rows * _LEXICAL_ROWS.get(shard.workload, 0) for shard in shards]
    if not worth_spawning(sum(rows)):
        return False
    try:
        in_another_process(_import)
    except BrokenProcessPool:
        log.warning("no other process could be started, so this one does everything")
        return False
    return True


def _import() -> None:
    """What scoring imports late."""
    import_module("pyarrow.parquet")


def score(shard: Shard, *, spawn: bool, stopped: Callable[[], bool] | None = None) -> str:
    """Score a shard and return its part.

    Words are counted and the offline judge decides in Python, which two threads cannot do at once, so they go to
    processes. Embedding models stay here, where they are loaded once; two shards of them at a time would only take
    turns at every batch.
    Judges are waited for here as well, so that all shards share their pacing; their key is looked up only now.
    What is not spawned asks now and then whether it is `stopped`; see `score_shard`.

    Raises:
        UserError: there is no key where the shard says, or a judge cannot be asked.
        Cancelled: the run was cancelled meanwhile.
    """
    if stopped is not None and stopped():
        raise Cancelled(f"{shard.metric.name}: the run has ended")
    kind = shard.workload
    if kind == "judge":
        return score_shard(shard, key(shard.key_from), stopped)
    if kind == "semantic":
        with _one_model_at_a_time:
            return score_shard(shard, stopped=stopped)
    return in_another_process(score_shard, shard) if spawn else score_shard(shard, stopped=stopped)


def in_another_process(do: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run Python code that keeps a core busy in a pool of as many processes as there are cores.

    Raises:
        BrokenProcessPool: a process was killed, or none could be started.
    """
    try:
        return _pool().submit(do, *args, **kwargs).result()
    except BrokenProcessPool:
        # A worker process was killed. The next attempt, which the caller's retries make, gets a new pool.
        _pool.cache_clear()
        raise


def schedule_order(shards: Sequence[Shard]) -> list[Shard]:
    """The order in which models, processes and the network are busy side by side.

    One shard of an embedding model and one of a judge come first: each keeps one thread busy for a long time,
    and leaves the rest to the processes, which begin with what takes longest. The other shards of both kinds take turns
    afterwards, since embedding hardly waits, and judging does hardly anything else.
    """
    # What keeps the same thing busy stands together
    by_kind: dict[Workload, list[Shard]] = {"semantic": [], "judge": [], "offline": [], "lexical": []}
    for shard in shards:
        by_kind[shard.workload].append(shard)
    semantic = by_kind["semantic"]
    judge = by_kind["judge"]
    # Each of the two groups is spread evenly
    in_turns = []
    for group in (judge[1:], semantic[1:]):
        in_turns += [(position / len(group), shard) for position, shard in enumerate(group)]
    in_turns.sort(key=lambda pair: pair[0])
    afterwards = [shard for _, shard in in_turns]
    return [*semantic[:1], *judge[:1], *by_kind["offline"], *by_kind["lexical"], *afterwards]


@cache
def _pool() -> Executor:
    """As many processes as there are cores."""
    return spawned_pool(os.cpu_count() or 1)
