"""Estimated calls and cost of a metric's judges, before any of them is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from answerkey.metrics_core.judges.check import asked_before, questions_for
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.known_answer import KnownAnswer
from answerkey.metrics_core.llm.cost import Cost, CostCounter
from answerkey.metrics_core.llm.ledger import existing_ledger
from answerkey.metrics_core.sample import Sample


def estimate_cost(
    metric: JudgeMetric, samples: Iterable[Sample], questions: Sequence[KnownAnswer] | None = None
) -> Cost:
    """What the check of its judges and `metric.measure(samples)` will ask and cost. No call is made, and no ledger is
    created.

    The calls of a cascade are those that it makes if its trial fails.

    Args:
        samples: none for the check alone.
        questions: of the check; None: those for a run with these samples.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.

    >>> from answerkey import Sample
    >>> from answerkey.metrics_core.judges.options import JudgeOptions
    >>> from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
    >>> metric = MeaningMatch(JudgeOptions(judges=["openai/gpt-4o-mini"]))
    >>> estimate_cost(metric, [Sample("1", "Paris", ["Paris"], "Capital?")]).calls  # the answer is the reference
    0
    """
    if questions is None:
        samples = list(samples)
        questions = questions_for(metric, samples, len(samples))
        metric = metric.with_trial(samples)
    n_samples = 0
    with existing_ledger(metric.access.ledger) as ledger:
        counter = CostCounter(ledger.reply)
        for calls in metric.expected(samples, ledger.reply):
            n_samples += 1
            for call in calls:
                counter.add(call, in_batch=metric.judge.batch)
        # Judges that need not be asked about rows are not checked
        row_calls = counter.calls
        if row_calls or not n_samples:
            for _, asking in metric.alone():
                check_calls = asking.expected([question.sample for question in questions], ledger.reply)
                for call in chain.from_iterable(check_calls):
                    counter.add(call)
                # Those that are made again; a judge that has changed is asked more
                repeated_samples = [question.sample for question in asked_before(asking, questions)]
                for call in chain.from_iterable(asking.expected(repeated_samples, ledger.reply)):
                    counter.add(replace(call, request=replace(call.request, again="again")))
    trial = metric.trial
    offline = trial.candidates - len(trial.drawn) if trial and trial.drawn else 0
    return counter.cost(metric.name, n_samples, offline, checks=counter.calls - row_calls)
