"""Estimated calls and cost of the judges of a run, before any of them is asked."""

from __future__ import annotations

from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.metric import Metric
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.shard import Shard, samples_of


def estimate_costs(plan: Plan) -> tuple[Cost, ...]:
    """One estimate per judge metric of the plan, even if it has nothing left to ask or its judge is the offline one.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    judged = [metric for metric in plan.metrics if metric.kind == "judge"]
    return tuple(
        _estimate(plan, metric, [shard for shard in plan.shards if shard.metric.signature == metric.signature])
        for metric in judged
    )


def _estimate(plan: Plan, metric: Metric, shards: list[Shard]) -> Cost:
    if not isinstance(metric, JudgeMetric) or metric.workload != "judge" or not shards:
        return Cost(metric.name, sum(shard.n_rows for shard in shards), 0, 0, 0, 0, 0.0)
    rows = (sample for shard in shards for samples in samples_of(shard) for sample in samples)
    return estimate_cost(metric, rows, plan.known_answers.get(metric.name, ()))
