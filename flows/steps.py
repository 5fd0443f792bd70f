"""The steps of all flows: one line each. What they do is in the module each comes from.

Nothing is cached by Prefect: finished parts and the warehouse are the cache, and they outlive the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from answerkey.flows.orchestration import Step
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
from answerkey.tasks.reports import commit_shard as commit_shards
from answerkey.tasks.reports import scores as score_rows
from answerkey.tasks.score import estimate as estimating
from answerkey.tasks.score import plan as planning
from answerkey.tasks.score import score as scoring
from answerkey.tasks.score import shard as shards
from answerkey.tasks.traces import score as traces
from answerkey.tasks.traces import summary as traces_summary
from answerkey.tasks.validate import data_docs, measures
from answerkey.tasks.validate import validate as validating

T = TypeVar("T")

load = Step("load", loading.load)
cut = Step("cut a source", source_shards.cut)
cut_references = Step("cut references", source_shards.cut_references)


def _stage(shard: measures.MeasuredShard | source_shards.SourceShard, *, spawn: bool) -> str:
    """Of answers or, which are not measured, of references."""
    if isinstance(shard, source_shards.SourceShard):
        return _done(spawn, source_shards.stage_shard, shard)
    return _done(spawn, measures.measure_shard, shard)


def _done(spawn: bool, do: Callable[[T], str], shard: T) -> str:
    return scoring.in_another_process(do, shard) if spawn else do(shard)


stage = Step("load a shard", _stage, "load {shard.part}", retried=True)
gather = Step("gather", source_shards.gather)
gather_measures = Step("gather measures", measures.gather_measures)
export = Step("take from the warehouse", exporting.stored_source)
validate = Step("validate", validating.validate)
build_data_docs = Step("data docs", data_docs.build_data_docs)
record_validation = Step("record validation", committing.record_validation)
plan = Step("plan", planning.plan)
estimate_costs = Step("estimate costs", estimating.estimate_costs)
score = Step("score", scoring.score, "score {shard.metric.name}, {shard.n_rows} rows", retried=True)
fail_shard = Step("write down a failed shard", shards.fail_shard)
cut_commit = Step("cut a commit", committing.cut_commit)


def _write(shard: commit_shards.CommitShard | score_rows.ScoresShard, *, spawn: bool) -> str:
    if isinstance(shard, commit_shards.CommitShard):
        return _done(spawn, commit_shards.write_commit, shard)
    return _done(spawn, score_rows.write_scores, shard)


write = Step("write rows", _write, "write {shard.part}", retried=True)
commit = Step("commit", committing.commit)
cut_scores = Step("cut scores", score_rows.cut_scores)

aggregate = Step("aggregate", aggregating.aggregate)
publish_scores = Step("publish", artifacts.publish_scores)
compare = Step("compare", comparing.compare)
compare_all = Step("compare", comparing.compare_all)
publish_comparison = Step("publish comparison", artifacts.publish_comparison)
gate = Step("gate", gating.gate)
publish_run = Step("publish page", artifacts.publish_run)
publish_pair = Step("publish page", artifacts.publish_pair)
announce = Step("announce", events.announce)

estimate_answers = Step("estimate costs", generating.estimate_answers)
generate = Step("generate", generating.generate, "generate {release}", retried=True)
register = Step("register", generating.register_generated)

calibrate = Step("calibrate", calibrating.calibrate, "calibrate {name}")
store_calibration = Step("keep calibration", calibrating.store_calibration)
estimate_learning = Step("estimate costs", learning.estimate_learning)
learn = Step("learn examples", learning.learn, "learn {asked.most} examples for {asked.rubric}", retried=True)

prepare_traces = Step("prepare", traces.prepare, "prepare {rule.name}")
preview_traces = Step("preview", traces.preview, "preview {prepared.rule.name}")
commit_traces = Step("commit", traces.commit, "commit {prepared.rule.name}")
publish_traces = Step("publish", traces_summary.publish)
