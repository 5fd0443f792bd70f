"""The tasks of all flows: one line each. What they do is in the module each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.flows.prefect_or_local import task
from answerkey.tasks.compare import compare as comparing
from answerkey.tasks.gate import calibrate as calibrating
from answerkey.tasks.gate import gate as gating
from answerkey.tasks.gate import learn as learning
from answerkey.tasks.load import load as loading
from answerkey.tasks.publish import artifacts, events
from answerkey.tasks.releases import export as exporting
from answerkey.tasks.releases import generate as generating
from answerkey.tasks.releases import register as registering
from answerkey.tasks.reports import aggregate as aggregating
from answerkey.tasks.reports import commit as committing
from answerkey.tasks.score import check as checking
from answerkey.tasks.score import estimate as estimating
from answerkey.tasks.score import plan as planning
from answerkey.tasks.score import score as scoring
from answerkey.tasks.score import shard as shards
from answerkey.tasks.traces import funnel as traces
from answerkey.tasks.validate import data_docs
from answerkey.tasks.validate import validate as validating

_RETRIED: Mapping[str, Any] = {"retries": 2, "retry_delay_seconds": [1, 10]}

load = task(loading.load, name="load")
export = task(exporting.stored_answers, name="export")
validate = task(validating.validate, name="validate")
build_data_docs = task(data_docs.build_data_docs, name="data docs")
record_validation = task(committing.record_validation, name="record validation")
plan = task(planning.plan, name="plan")
estimate_costs = task(estimating.estimate_costs, name="estimate costs")
check_judges = task(checking.check_judges, name="check judges", **_RETRIED)
score = task(scoring.score, name="score", **_RETRIED)
fail_shard = task(shards.fail_shard, name="record a failed shard")
commit = task(committing.commit, name="commit")
aggregate = task(aggregating.aggregate, name="aggregate")
publish_scores = task(artifacts.publish_scores, name="publish")
compare = task(comparing.compare, name="compare")
compare_all = task(comparing.compare_all, name="compare")
publish_comparison = task(artifacts.publish_comparison, name="publish comparison")
gate = task(gating.gate, name="gate")
publish_run = task(artifacts.publish_run, name="publish page")
publish_pair = task(artifacts.publish_pair, name="publish page")
publish_verdict = task(artifacts.publish_verdict, name="publish page")
announce = task(events.announce, name="announce")

estimate_answers = task(generating.estimate_answers, name="estimate costs")
generate = task(generating.generate, name="generate", task_run_name="generate {release}", **_RETRIED)
register = task(generating.register_generated, name="register")
register_answers = task(registering.register, name="register")

calibrate = task(calibrating.calibrate, name="calibrate", task_run_name="calibrate {name}")
store_calibration = task(calibrating.store_calibration, name="keep calibration")
estimate_learning = task(learning.estimate_learning, name="estimate costs")
learn = task(
    learning.learn,
    name="learn examples",
    task_run_name="learn {asked.most} examples for {asked.rubric}",
    **_RETRIED,
)

prepare_traces = task(traces.prepare, name="prepare", task_run_name="prepare {rule.name}")
preview_traces = task(traces.preview, name="preview", task_run_name="preview {prepared.rule.name}")
commit_traces = task(traces.commit, name="commit", task_run_name="commit {prepared.rule.name}")
publish_traces = task(traces.publish, name="publish")
