"""The steps as Prefect tasks: one line each. What they do is in the module each comes from.

Nothing is cached by Prefect: finished parts and the warehouse are the cache, and they outlive the server.
"""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare import compare
from answerkey.tasks.gate import gate
from answerkey.tasks.load import load
from answerkey.tasks.publish import artifacts, events
from answerkey.tasks.releases import export as stored
from answerkey.tasks.releases import generate
from answerkey.tasks.reports import aggregate, commit
from answerkey.tasks.score import estimate, plan, score
from answerkey.tasks.score import shard as parts
from answerkey.tasks.traces import score as trace_score
from answerkey.tasks.traces import summary as trace_summary
from answerkey.tasks.validate import validate


def _worth_retrying(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """A wrong input stays wrong; everything else may have been the machine."""
    result = state.result(raise_on_failure=False)
    return not isinstance(result, UserError)


load_step = task(name="load", task_run_name="load", cache_policy=NO_CACHE)(load.load)
validate_step = task(name="validate", task_run_name="validate", cache_policy=NO_CACHE)(validate.validate)
stored_step = task(name="take from the warehouse", task_run_name="take from the warehouse", cache_policy=NO_CACHE)(
    stored.stored_source
)
record_step = task(name="record validation", task_run_name="record validation", cache_policy=NO_CACHE)(
    commit.record_validation
)
foresee_answers_step = task(name="foresee answers", task_run_name="foresee answers", cache_policy=NO_CACHE)(
    generate.estimate_answers
)
generate_step = task(
    name="generate",
    task_run_name="generate {release}",
    retries=2,
    retry_delay_seconds=[1, 10],
    retry_condition_fn=_worth_retrying,
    cache_policy=NO_CACHE,
)(generate.generate)
register_step = task(name="register", task_run_name="register", cache_policy=NO_CACHE)(generate.register_generated)
plan_step = task(name="plan", task_run_name="plan", cache_policy=NO_CACHE)(plan.plan)
foresee_step = task(name="foresee", task_run_name="foresee", cache_policy=NO_CACHE)(estimate.estimate_costs)
score_step = task(
    name="score",
    task_run_name="score {chunk.metric}, {chunk.n_rows} rows",
    retries=2,
    retry_delay_seconds=[1, 10],
    retry_condition_fn=_worth_retrying,
    cache_policy=NO_CACHE,
)(score.score)
fail_step = task(name="write down a failed chunk", task_run_name="write down a failed chunk", cache_policy=NO_CACHE)(
    parts.fail_chunk
)
commit_step = task(name="commit", task_run_name="commit", cache_policy=NO_CACHE)(commit.commit)
aggregate_step = task(name="aggregate", task_run_name="aggregate", cache_policy=NO_CACHE)(aggregate.aggregate)
compare_step = task(name="compare", task_run_name="compare", cache_policy=NO_CACHE)(compare.compare)
publish_comparison_step = task(name="publish comparison", task_run_name="publish comparison", cache_policy=NO_CACHE)(
    artifacts.publish_comparison
)
gate_step = task(name="gate", task_run_name="gate", cache_policy=NO_CACHE)(gate.gate)
publish_step = task(name="publish", task_run_name="publish", cache_policy=NO_CACHE)(artifacts.publish_scores)
publish_run_step = task(name="publish page", task_run_name="publish page", cache_policy=NO_CACHE)(artifacts.publish_run)
publish_pair_step = task(name="publish page", task_run_name="publish page", cache_policy=NO_CACHE)(
    artifacts.publish_pair
)
prepare_traces_step = task(name="prepare", task_run_name="prepare {rule.name}", cache_policy=NO_CACHE)(
    trace_score.prepare
)
preview_traces_step = task(name="foresee", task_run_name="foresee {prepared.rule.name}", cache_policy=NO_CACHE)(
    trace_score.preview
)
commit_traces_step = task(name="commit", task_run_name="commit {prepared.rule.name}", cache_policy=NO_CACHE)(
    trace_score.commit
)
publish_traces_step = task(name="publish", task_run_name="publish", cache_policy=NO_CACHE)(trace_summary.publish)
announce_step = task(name="announce", task_run_name="announce", cache_policy=NO_CACHE)(events.announce)
