"""The steps as Prefect tasks: one line each. What they do is in the module each comes from.

Nothing is cached by Prefect: finished parts and the warehouse are the cache, and they outlive the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.loop import Stopped
from answerkey.tasks.compare import compare as comparing
from answerkey.tasks.gate import calibrate as calibrating
from answerkey.tasks.gate import gate as gating
from answerkey.tasks.gate import learn as learning
from answerkey.tasks.load import load as loading
from answerkey.tasks.load import shard as source_shards
from answerkey.tasks.publish import artifacts, events
from answerkey.tasks.releases import export as exporting
from answerkey.tasks.releases import generate as generating
from answerkey.tasks.reports import aggregate as aggregating
from answerkey.tasks.reports import commit as committing
from answerkey.tasks.reports import scores as score_rows
from answerkey.tasks.score import estimate as estimating
from answerkey.tasks.score import plan as planning
from answerkey.tasks.score import score as scoring
from answerkey.tasks.score import shard as shards
from answerkey.tasks.traces import score as traces
from answerkey.tasks.traces import summary as traces_summary
from answerkey.tasks.validate import data_docs
from answerkey.tasks.validate import validate as validating

P = ParamSpec("P")
R = TypeVar("R")


def _step(name: str, function: Callable[P, R], run_name: str = "", **options: Any) -> Task[P, R]:
    return task(name=name, task_run_name=run_name or name, cache_policy=NO_CACHE, **options)(function)


def _worth_retrying(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """A wrong input stays wrong, and a run that was stopped stays so; everything else may have been the machine."""
    return not isinstance(state.result(raise_on_failure=False), UserError | Stopped)


RETRIED: dict[str, Any] = {
    "retries": 2, "retry_delay_seconds": [1, 10], "retry_condition_fn": _worth_retrying,
}  # fmt: skip

load = _step("load", loading.load)
cut = _step("cut a source", source_shards.cut)


def _stage(shard: source_shards.SourceShard) -> str:
    return scoring.in_another_process(source_shards.stage_shard, shard)


stage = _step("load a shard", _stage, "load {shard.rows.name}", **RETRIED)
gather = _step("gather", source_shards.gather)
export = _step("take from the warehouse", exporting.stored_source)
validate = _step("validate", validating.validate)
build_data_docs = _step("data docs", data_docs.build_data_docs)
record_validation = _step("record validation", committing.record_validation)
plan = _step("plan", planning.plan)
estimate_costs = _step("estimate costs", estimating.estimate_costs)
score = _step("score", scoring.score, "score {shard.metric.name}, {shard.n_rows} rows", **RETRIED)
fail_shard = _step("write down a failed shard", shards.fail_shard)
commit = _step("commit", committing.commit)
cut_scores = _step("cut scores", score_rows.cut_scores)


def _write_scores(shard: score_rows.ScoresShard) -> str:
    return scoring.in_another_process(score_rows.write_scores, shard)


write_scores = _step("write scores", _write_scores, **RETRIED)
aggregate = _step("aggregate", aggregating.aggregate)
publish_scores = _step("publish", artifacts.publish_scores)
compare = _step("compare", comparing.compare)
compare_all = _step("compare", comparing.compare_all)
publish_comparison = _step("publish comparison", artifacts.publish_comparison)
gate = _step("gate", gating.gate)
publish_run = _step("publish page", artifacts.publish_run)
publish_pair = _step("publish page", artifacts.publish_pair)
announce = _step("announce", events.announce)

estimate_answers = _step("estimate costs", generating.estimate_answers)
generate = _step("generate", generating.generate, "generate {release}", **RETRIED)
register = _step("register", generating.register_generated)

calibrate = _step("calibrate", calibrating.calibrate, "calibrate {name}")
store_calibration = _step("keep calibration", calibrating.store_calibration)
estimate_learning = _step("estimate costs", learning.estimate_learning)
learn = _step("learn examples", learning.learn, "learn {asked.most} examples for {asked.rubric}", **RETRIED)

prepare_traces = _step("prepare", traces.prepare, "prepare {rule.name}")
preview_traces = _step("preview", traces.preview, "preview {prepared.rule.name}")
commit_traces = _step("commit", traces.commit, "commit {prepared.rule.name}")
publish_traces = _step("publish", traces_summary.publish)
