"""Check the judges of a plan, before any of them is asked about a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from answerkey.metrics_core.judges.check import asks_anything, without_calls
from answerkey.metrics_core.judges.check import check_judges as check_judges_of
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.score.keys import key
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.shard import equipped, samples_of
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
        of_metric = [number for number, shard in enumerate(shards) if shard.metric.signature == metric.signature]
        if not questions or not of_metric or not isinstance(metric, JudgeMetric):
            continue

        # The shards may lack what holds on this machine only
        shard = shards[of_metric[0]]
        home = Home.parse(shard.home)
        access = {"ledger": home.ledger, "api_key": key(shard.key_from)}
        asking = equipped(metric, home.embeddings, access)
        assert isinstance(asking, JudgeMetric)
        if not asks_anything(asking, _samples(plan, of_metric)):
            continue

        check = check_judges_of(asking, questions)
        checks.append(check)
        for number in of_metric:
            shard_metric = shards[number].metric
            assert isinstance(shard_metric, JudgeMetric)
            shards[number] = replace(shards[number], metric=without_calls(shard_metric, check.why_stopped))
    return replace(plan, shards=tuple(shards), checks=tuple(checks))


def _samples(plan: Plan, numbers: list[int]) -> Iterator[Sample]:
    for number in numbers:
        for samples in samples_of(plan.shards[number]):
            yield from samples
