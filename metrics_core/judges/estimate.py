"""Estimated calls and cost of a metric's judges, before any of them is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from answerkey.metrics_core.judges.check import questions_for
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.known_answer import KnownAnswer
from answerkey.metrics_core.llm.cost import Cost, CostCounter, ExpectedCall, Replies, known_replies
from answerkey.metrics_core.measurement import Outcome
from answerkey.metrics_core.sample import Sample

_BATCH = 512
"""Samples handled together: an embedding model is faster in batches."""


def estimate_cost(
    metric: JudgeMetric, samples: Iterable[Sample], questions: Sequence[KnownAnswer] | None = None
) -> Cost:
    """What the check of its judges and `metric.measure(samples)` will ask and cost. No call is made, and no ledger is
    created.

    The calls of a cascade are those that it makes if its trial fails.

    Args:
        questions: of the check; None: those for a run with these samples.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.

    >>> from answerkey.metrics_core import Sample
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
    jurors = [(judge, repeat) for judge in metric.judge.models() for repeat in range(metric.judge.repeats)]
    with known_replies(metric.access.ledger) as replies:
        counter = CostCounter(replies)
        for sample, decided in _with_known(metric, samples):
            n_samples += 1
            if decided is not None:
                continue
            for judge, repeat in jurors:
                for call in metric.expected_calls(sample, judge, repeat, replies):
                    counter.add(call, in_batch=metric.judge.batch)
        # Judges that need not be asked about rows are not checked
        of_rows = counter.calls
        if of_rows:
            for call in _calls_of_check(metric, questions, replies):
                counter.add(call)
    trial = metric.trial
    offline = trial.candidates - len(trial.drawn) if trial and trial.drawn else 0
    return counter.cost(metric.name, n_samples, offline, checks=counter.calls - of_rows)


def _calls_of_check(metric: JudgeMetric, questions: Sequence[KnownAnswer], replies: Replies) -> Iterator[ExpectedCall]:
    names = [*metric.judge.judges, *metric.judge.fallbacks]
    models = [*metric.judge.models(), *metric.judge.fallback_models()]
    for name, model in zip(names, models, strict=True):
        alone = metric.for_check(name)
        for question in questions:
            yield from alone.expected_calls(question.sample, model, 0, replies)


def _with_known(metric: JudgeMetric, samples: Iterable[Sample]) -> Iterator[tuple[Sample, Outcome | None]]:
    """Every sample, and its outcome if no judge need be asked."""
    rest = iter(samples)
    while batch := list(islice(rest, _BATCH)):
        yield from zip(batch, metric.known(batch), strict=True)
