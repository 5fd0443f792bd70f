"""Score shards side by side: as many at once as this machine and the judges can take, or on a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, cast

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed

from answerkey.flows.cluster import Cluster, cluster_at
from answerkey.flows.runs import log
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.metric import Metric
from answerkey.tasks import steps
from answerkey.tasks.score.plan import MAX_SHARDS
from answerkey.tasks.score.score import in_good_order, worth_spawning
from answerkey.tasks.score.shard import Shard
from answerkey.tasks.warehouse.home import Home

_LINES = 100
"""How far a run is, is said as often as this."""

Outcomes = Iterator[tuple[Shard, str | Exception]]
"""Each shard as it ends, with the name of its part or with the reason why there is none."""


class Runner(Protocol):
    """What scores shards."""

    most_shards: int
    """Shards that a run may be cut into."""

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """Check what can be checked before anything slow starts; each metric comes with the place of its judges' key.

        Raises:
            UserError: these metrics cannot be scored here.
        """

    def run(self, shards: Sequence[Shard], key_from: Callable[[Shard], str]) -> Outcomes:
        """Score shards. `key_from` says where the key of a shard's judges is kept.

        Raises:
            Unreachable: nothing can be scored any more.
        """


class OnThisMachine:
    """Each shard in a Prefect task of its own, with retries, on threads and processes of this machine."""

    most_shards = MAX_SHARDS

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """The other steps of a run need the same of this machine."""

    def run(self, shards: Sequence[Shard], key_from: Callable[[Shard], str]) -> Outcomes:
        """See the class."""
        spawn = worth_spawning(shards)
        futures: dict[PrefectFuture[str], Shard] = {
            steps.score.with_options(tags=_tags(shard)).submit(shard, spawn=spawn, key_from=key_from(shard)): shard
            for shard in in_good_order(shards)
        }
        for future in as_completed(list(futures)):
            # An error comes back as the result, which the declared type does not say.
            yield futures[future], cast("str | Exception", future.result(raise_on_failure=False))


class OnCluster:
    """All shards on the workers of a Dask cluster, in one Prefect task: one for each would cost more than scoring."""

    most_shards = 20_000

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """As `Cluster.check`."""
        self._cluster.check(home, needs)

    def run(self, shards: Sequence[Shard], key_from: Callable[[Shard], str]) -> Outcomes:
        """As `Cluster.run`."""
        # Prefect would look into every shard.
        return cast("Outcomes", _on_cluster(partial(self._cluster.run, shards, key_from), self._cluster.address))


@task(name="score on a cluster", task_run_name="score on {address}", cache_policy=NO_CACHE)
def _on_cluster(run: Callable[[], Outcomes], address: str) -> Any:
    yield from run()


def runner_at(address: str) -> Runner:
    """The runner that a form names.

    Raises:
        UserError: as `cluster_at`.
    """
    cluster = cluster_at(address)
    return OnCluster(cluster) if cluster else OnThisMachine()


def fan_out(
    runner: Runner, shards: Sequence[Shard], key_from: Callable[[Shard], str], *, remedy: str
) -> dict[str, str]:
    """Score shards; returns where each part is, by where it was planned to be.

    A shard that fails for good is written down as failed, and the run goes on; `remedy` says what to do about it.
    `key_from` says where the key of a shard's judges is kept.

    Raises:
        UserError: a judge cannot be asked.
        Unreachable: nothing can be scored any more.
    """
    if not shards:
        return {}
    # The type allows for a coroutine, which only asynchronous flows get.
    progress = cast(uuid.UUID, create_progress_artifact(0.0, key="scoring", description="Shards scored"))
    parts: dict[str, str] = {}
    every = -(-len(shards) // _LINES)
    for done, (shard, outcome) in enumerate(runner.run(shards, key_from), start=1):
        parts[shard.part] = outcome if isinstance(outcome, str) else _failed(shard, outcome, remedy)
        if done % every == 0 or done == len(shards):
            update_progress_artifact(progress, 100 * done / len(shards))
            log.info(f"scored {done}/{len(shards)} shards")
    return parts


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
