"""Check the judges of a plan and estimate what they cost, before any of them is asked about a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from answerkey.metrics_core.judges.check import asks_anything, estimate_cost, without_calls
from answerkey.metrics_core.judges.check import check_judges as check_judges_of
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.score.keys import key
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.shard import Shard, equipped, samples_of
from answerkey.tasks.warehouse.home import Home


def check_judges(plan: Plan) -> Plan:
    """Ask each judge of a plan its questions with known answers; whoever fails is asked nothing more.

    Judges that the plan has nothing to ask, because the ledger has all replies, are not checked.

    Returns:
        The plan with the checks that were made, and with shards that make no call to a judge that failed.

    Raises:
        UserError: there is no key, or a judge cannot be asked.
        LedgerError: the ledger cannot be used.
    """
    checks = []
    shards = list(plan.shards)
    for metric in plan.metrics:
        questions = plan.known_answers.get(metric.name, ())
        numbers = [number for number, shard in enumerate(shards) if shard.metric.signature == metric.signature]
        if not questions or not numbers or not isinstance(metric, JudgeMetric):
            continue

        # The shards may lack what holds on this machine only
        shard = shards[numbers[0]]
        home = Home.parse(shard.home)
        access = {"ledger": home.ledger, "api_key": key(shard.key_from)}
        asking = equipped(metric, home.embeddings, access)
        assert isinstance(asking, JudgeMetric)
        if not asks_anything(asking, _samples(shards[number] for number in numbers)):
            continue

        check = check_judges_of(asking, questions)
        checks.append(check)
        for number in numbers:
            shard_metric = shards[number].metric
            assert isinstance(shard_metric, JudgeMetric)
            shards[number] = replace(shards[number], metric=without_calls(shard_metric, check.why_stopped))
    return replace(plan, shards=tuple(shards), checks=tuple(checks))


def estimate_costs(plan: Plan) -> tuple[Cost, ...]:
    """One estimate per judge metric of the plan, even if it has nothing left to ask or its judge is the offline one.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    costs = []
    for metric in plan.metrics:
        if metric.kind != "judge":
            continue
        shards = [shard for shard in plan.shards if shard.metric.signature == metric.signature]
        if isinstance(metric, JudgeMetric) and metric.workload == "judge" and shards:
            costs.append(estimate_cost(metric, _samples(shards), plan.known_answers.get(metric.name, ())))
        else:
            n_rows = sum(shard.n_rows for shard in shards)
            costs.append(Cost(metric.name, n_rows, calls=0, in_ledger=0, tokens_in=0, tokens_out=0, cost_usd=0.0))
    return tuple(costs)


def _samples(shards: Iterable[Shard]) -> Iterator[Sample]:
    """The rows of several shards."""
    for shard in shards:
        for samples in samples_of(shard):
            yield from samples
