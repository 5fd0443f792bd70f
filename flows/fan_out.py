"""Score shards side by side, as many at once as the machine and the judges can take."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.futures import PrefectFuture, as_completed

from answerkey.flows.runs import log
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.tasks import steps
from answerkey.tasks.score.score import in_good_order, worth_spawning
from answerkey.tasks.score.shard import Shard

Runner = Callable[[Sequence[Shard], Callable[[Shard], str]], Iterator[tuple[Shard, str | Exception]]]
"""What scores shards: it yields each as it ends, with its part or with the reason why there is none.

It also gets the function that says where the key of a shard's judges is kept.
"""


def fan_out(shards: Sequence[Shard], key_from: Callable[[Shard], str], *, remedy: str) -> dict[str, str]:
    """Score shards; returns where each part is, by where it was planned to be.

    A shard that fails for good is written down as failed, and the run goes on; `remedy` says what to do about it.
    `key_from` says where the key of a shard's judges is kept.

    Raises:
        UserError: a judge cannot be asked.
    """
    if not shards:
        return {}
    # The type allows for a coroutine, which only asynchronous flows get.
    progress = cast(uuid.UUID, create_progress_artifact(0.0, key="scoring", description="Shards scored"))
    run: Runner = in_tasks
    parts = {}
    for done, (shard, outcome) in enumerate(run(shards, key_from), start=1):
        parts[shard.part] = outcome if isinstance(outcome, str) else _failed(shard, outcome, remedy)
        update_progress_artifact(progress, 100 * done / len(shards))
        log.info(f"scored {done}/{len(shards)} shards")
    return parts


def in_tasks(shards: Sequence[Shard], key_from: Callable[[Shard], str]) -> Iterator[tuple[Shard, str | Exception]]:
    """Each shard in a Prefect task of its own, with retries, on threads and processes of this machine."""
    spawn = worth_spawning(shards)
    futures: dict[PrefectFuture[str], Shard] = {
        steps.score.with_options(tags=_tags(shard)).submit(shard, spawn=spawn, key_from=key_from(shard)): shard
        for shard in in_good_order(shards)
    }
    for future in as_completed(list(futures)):
        # An error comes back as the result, which the declared type does not say.
        yield futures[future], cast("str | Exception", future.result(raise_on_failure=False))


def _tags(shard: Shard) -> list[str]:
    """`judge-openai` for a shard that asks such a judge: a concurrency limit of that name holds it back."""
    metric = shard.metric
    if not isinstance(metric, JudgeMetric) or metric.workload != "judge":
        return []
    return sorted({"judge-" + judge.model.partition("/")[0] for judge, _ in metric.judge.seats()})


def _failed(shard: Shard, error: Exception, remedy: str) -> str:
    if isinstance(error, UserError):
        raise error
    problem = f"{type(error).__name__}: {error}"
    log.warning(f"{shard.metric.name}: {shard.n_rows:,} rows failed: {problem}; {remedy}")
    return steps.fail_shard(shard, problem)
