"""The steps as Prefect tasks: one line each. What they do is in the module each comes from.

Nothing is cached by Prefect: finished parts and the warehouse are the cache, and they outlive the server.
"""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import TaskRun
from prefect.states import State

from metrics_core.errors import BadInput
from tasks import aggregate, commit, load, parts, plan, publish, score, validate


def _worth_retrying(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """A wrong input stays wrong; everything else may have been the machine."""
    result = state.result(raise_on_failure=False)
    return not isinstance(result, BadInput)


_settings: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}

load_step = task(load.load, name="load", **_settings)
validate_step = task(validate.validate, name="validate", **_settings)
record_step = task(commit.record_validation, name="record validation", **_settings)
plan_step = task(plan.plan, name="plan", **_settings)
score_step = task(
    score.score,
    name="score",
    task_run_name="score {chunk.metric}, {chunk.n_rows} rows",
    retries=2,
    retry_delay_seconds=[1, 10],
    retry_condition_fn=_worth_retrying,
    **_settings,
)
fail_step = task(parts.fail_chunk, name="write down a failed chunk", **_settings)
commit_step = task(commit.commit, name="commit", **_settings)
aggregate_step = task(aggregate.aggregate, name="aggregate", **_settings)
publish_step = task(publish.publish, name="publish", **_settings)
