"""Score shards side by side: as many as this machine and the judges can take."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from answerkey.flows.on_dask import StopSign, on_workers
from answerkey.flows.prefect_or_local import Future, Task, allow_failure, as_completed
from answerkey.flows.runs import log
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.progress import HOW_FAR, Advance, tell
from answerkey.tasks.publish.artifacts import notify_api
from answerkey.tasks.score.score import schedule_order, spawns
from answerkey.tasks.score.shard import Shard, fail_shard
from answerkey.tasks.server import is_away, within_run

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture

R = TypeVar("R")

_LINE_EVERY_S = 10.0
"""Seconds between two lines of progress in the log."""


def _outcomes(
    score: Task[..., str], shards: Sequence[Shard], wait_for: Sequence[object], stop_sign: StopSign | None
) -> Generator[tuple[Shard, str | Exception]]:
    """Score each shard in a task of its own, with retries.

    Yields each as it ends, with the name of its part or the reason why there is none. Closed before its end, it waits
    for what it has begun.
    """
    # Workers of a scheduler start no processes of their own, and each has its models
    is_here = stop_sign is None
    spawn = is_here and spawns(shards)
    stopped = stop_sign or threading.Event()
    submitted: dict[Any, tuple[Shard, Callable[[], str]]] = {}
    model: list[object] = []
    of_metric = Counter(shard.name for shard in shards)
    begun: Counter[str] = Counter()
    for shard in schedule_order(shards):
        begun[shard.name] += 1
        # The UI shows the name while a task waits, and makes its run name only then.
        name = f"score {shard.name} {begun[shard.name]}/{of_metric[shard.name]}"
        work = score.with_options(tags=_tags(shard), name=name, task_run_name=f"{name}, {{shard.n_rows:,}} rows")
        # Embedding shards run one at a time; the UI shows the others as pending. One that fails stops no other.
        earlier_model = model if is_here and shard.workload == "semantic" else []
        future = work.submit(shard, spawn=spawn, stopped=stopped.is_set, wait_for=[*wait_for, *earlier_model])
        model = [allow_failure(future)] if shard.workload == "semantic" else model
        submitted[future] = shard, partial(work.fn, shard, spawn=spawn, stopped=stopped.is_set)
    try:
        for future in as_completed(submitted):
            shard, in_this_process = submitted[future]
            yield shard, outcome(future, in_this_process)
    except BaseException as error:
        stopped.set()
        if isinstance(error, Exception | GeneratorExit):
            for future, (_, in_this_process) in submitted.items():
                outcome(future, in_this_process)
        raise


def fan_out(
    score: Task[..., str],
    shards: Sequence[Shard],
    *,
    remedy: str,
    runner: str = "",
    wait_for: Sequence[object] = (),
    stop_sign: StopSign | None = None,
) -> dict[str, str]:
    """Submit the task `score` for each shard; returns where each part is, by where it was planned to be.

    A shard that fails for good is written down as failed, and the run goes on; `remedy` says what to do about it.
    `wait_for` holds the plan that they come from. With the address of a Dask scheduler as the `runner`, its workers do
    the tasks, which look at a `stop_sign`.

    Raises:
        UserError: a judge cannot be asked. No shard is worked on any more by then.
    """
    if not shards:
        return {}
    if runner:
        return on_workers(runner, lambda sign: fan_out(score, shards, remedy=remedy, stop_sign=sign))
    progress = None
    if within_run():
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        # The type allows for a coroutine, which only asynchronous flows get
        begin = partial(create_progress_artifact, 0.0, "scoring", "Shards scored")
        progress = notify_api("its progress", cast("Callable[[], uuid.UUID]", begin))

    # How many rows each metric has to score, and has scored
    started_at = time.monotonic()
    logged_at = notified_at = started_at
    parts: dict[str, str] = {}
    todo: Counter[str] = Counter()
    for shard in shards:
        todo[shard.name] += shard.n_rows
    scored = Counter(dict.fromkeys(todo, 0))
    for name in todo:
        tell(Advance(name, 0, todo[name]))

    # Each shard as it ends, with what says how far the run is
    outcomes = _outcomes(score, shards, wait_for, stop_sign)
    try:
        for n_done, (shard, part) in enumerate(outcomes, start=1):
            scored[shard.name] += shard.n_rows
            tell(Advance(shard.name, scored[shard.name], todo[shard.name]))
            if isinstance(part, UserError):
                raise part
            if isinstance(part, str):
                parts[shard.part] = part
            else:
                problem = f"{type(part).__name__}: {part}"
                log.warning(f"{shard.metric.name}: {shard.n_rows:,} rows failed: {problem}; {remedy}")
                parts[shard.part] = fail_shard(shard, problem)
            moment = time.monotonic()
            is_finished = n_done == len(shards)
            if is_finished or moment >= logged_at + _LINE_EVERY_S:
                speed = "" if is_finished else _speed(scored.total(), todo.total(), moment - started_at)
                log.info(f"{scored.total():,} of {todo.total():,} scores{speed}", extra=HOW_FAR)
                logged_at = moment
            # Each time, Prefect makes a connection of its own: no more than one in a second
            if progress and (is_finished or moment >= notified_at + 1):
                notify_api("its progress", partial(update_progress_artifact, progress, 100 * n_done / len(shards)))
                notified_at = time.monotonic()
    except Exception:
        # Shards that are still worked on read the files that the run removes next.
        outcomes.close()
        raise
    return parts


def _speed(n_done: int, n_rows: int, seconds: float) -> str:
    """Scores per second so far, and how long the others take at that rate.

    >>> _speed(3_000, 12_000, 20.0)
    ', 150 a second, about 0:01:00 left'
    """
    left = timedelta(seconds=round(seconds * (n_rows - n_done) / n_done))
    return f", {n_done / seconds:,.0f} a second, about {left} left"


def _tags(shard: Shard) -> list[str]:
    """`judge-openai` for a shard that asks such a judge: a concurrency limit of that name holds it back.

    Others have none. The server is asked about every tag, and takes a lock on its database for the answer.
    """
    metric = shard.metric
    if not isinstance(metric, JudgeMetric) or metric.workload != "judge":
        return []
    return sorted({"judge-" + judge.model.partition("/")[0] for judge in metric.judge.models()})


def outcome(future: Future[R] | PrefectFuture[R], otherwise: Callable[[], R] | None = None) -> R | Exception:
    """Wait for what a submitted task returned, or for the error of its last attempt.

    Args:
        otherwise: does the task's work where the server that was to admit the task, by a concurrency limit, is gone.
    """
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:
        if otherwise is None:
            return error
        from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError

        # Whether the server could not be asked for a place under a concurrency limit
        if not isinstance(error, ConcurrencySlotAcquisitionError) and not is_away(error):
            return error
    try:
        return otherwise()
    except Exception as error:
        return error
