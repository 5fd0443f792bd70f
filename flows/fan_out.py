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
from answerkey.tasks.server import is_away

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
    spawn = spawns(shards) if stop_sign is None else False
    closed = stop_sign or threading.Event()
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
        earlier_model = model if shard.workload == "semantic" and stop_sign is None else []
        future = work.submit(shard, spawn=spawn, stopped=closed.is_set, wait_for=[*wait_for, *earlier_model])
        model = [allow_failure(future)] if shard.workload == "semantic" else model
        submitted[future] = shard, partial(work.fn, shard, spawn=spawn, stopped=closed.is_set)
    try:
        for future in as_completed(submitted):
            shard, in_this_process = submitted[future]
            yield shard, outcome(future, in_this_process)
    except BaseException as error:
        closed.set()
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
    # Each time, Prefect makes a connection of its own: no more than one in a second.
    progress, began_at = notify_api("its progress", _begin_progress), time.monotonic()
    shown_at = logged_at = began_at
    parts: dict[str, str] = {}
    todo: Counter[str] = Counter()
    for shard in shards:
        todo[shard.name] += shard.n_rows
    scored = Counter(dict.fromkeys(todo, 0))
    for name in todo:
        tell(Advance(name, 0, todo[name]))
    outcomes = _outcomes(score, shards, wait_for, stop_sign)
    try:
        for n_done, (shard, part) in enumerate(outcomes, start=1):
            scored[shard.name] += shard.n_rows
            tell(Advance(shard.name, scored[shard.name], todo[shard.name]))
            parts[shard.part] = part if isinstance(part, str) else _failed(shard, part, remedy)
            now, ended = time.monotonic(), n_done == len(shards)
            if ended or now >= logged_at + _LINE_EVERY_S:
                speed = "" if ended else _speed(scored.total(), todo.total(), now - began_at)
                log.info(f"scored {scored.total():,} of {todo.total():,} rows{speed}", extra=HOW_FAR)
                logged_at = now
            if progress and (ended or now >= shown_at + 1):
                notify_api("its progress", partial(_show_progress, progress, 100 * n_done / len(shards)))
                shown_at = time.monotonic()
    except Exception:
        # Shards that are still worked on read the files that the run removes next.
        outcomes.close()
        raise
    return parts


def _speed(n_done: int, n_rows: int, seconds: float) -> str:
    """Rows per second so far, and how long the others take at that rate.

    >>> _speed(3_000, 12_000, 20.0)
    ', 150 rows/s, about 0:01:00 left'
    """
    return (
        f", {n_done / seconds:,.0f} rows/s, about {timedelta(seconds=round(seconds * (n_rows - n_done) / n_done))} left"
    )


def _begin_progress() -> uuid.UUID:
    from prefect.artifacts import create_progress_artifact

    # The type allows for a coroutine, which only asynchronous flows get.
    return cast(uuid.UUID, create_progress_artifact(0.0, "scoring", "Shards scored"))


def _show_progress(progress: uuid.UUID, percent: float) -> None:
    from prefect.artifacts import update_progress_artifact

    update_progress_artifact(progress, percent)


def _tags(shard: Shard) -> list[str]:
    """`judge-openai` for a shard that asks such a judge: a concurrency limit of that name holds it back.

    Others have none. The server is asked about every tag, and takes a lock on its database for the answer.
    """
    metric = shard.metric
    if not isinstance(metric, JudgeMetric) or metric.workload != "judge":
        return []
    return sorted({"judge-" + judge.model.partition("/")[0] for judge in metric.judge.models()})


def _failed(shard: Shard, error: Exception, remedy: str) -> str:
    if isinstance(error, UserError):
        raise error
    problem = f"{type(error).__name__}: {error}"
    log.warning(f"{shard.metric.name}: {shard.n_rows:,} rows failed: {problem}; {remedy}")
    return fail_shard(shard, problem)


def outcome(future: Future[R] | PrefectFuture[R], otherwise: Callable[[], R] | None = None) -> R | Exception:
    """Wait for what a submitted task returned, or for the error of its last attempt.

    Args:
        otherwise: does the task's work where the server that was to admit the task, by a concurrency limit, is gone.
    """
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:
        if otherwise is None or not _is_not_admitted(error):
            return error
    try:
        return otherwise()
    except Exception as error:
        return error


def _is_not_admitted(error: Exception) -> bool:
    """Whether the server could not be asked for a place under a concurrency limit."""
    from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError

    return isinstance(error, ConcurrencySlotAcquisitionError) or is_away(error)
