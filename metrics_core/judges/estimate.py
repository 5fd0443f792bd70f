"""Estimated calls and cost of a metric's judges, before any of them is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.probes import Probe, draw_of
from answerkey.metrics_core.llm.cost import Cost, CostCounter, ExpectedCall, Replies, known_replies
from answerkey.metrics_core.measurement import Outcome
from answerkey.metrics_core.sample import Sample

_BATCH = 512
"""Samples handled together: an embedding model is faster in batches."""


def estimate_cost(metric: JudgeMetric, samples: Iterable[Sample]) -> Cost:
    """What `metric.measure(samples)` will ask and cost. No call is made, and no ledger is created.

    The calls of a cascade are those that it makes if its trial fails.

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
    if metric.run_probes is None:
        samples = list(samples)
        metric = metric.of_run(samples, len(samples)).with_trial(samples)
    n_samples = 0
    draws: list[int] = []
    jurors = [(judge, repeat) for judge in metric.judge.models() for repeat in range(metric.judge.repeats)]
    with known_replies(metric.access.ledger) as replies:
        counter = CostCounter(replies)
        for sample, decided in _with_known(metric, samples):
            n_samples += 1
            if decided is not None:
                continue
            new = 0
            for judge, repeat in jurors:
                for call in metric.expected_calls(sample, judge, repeat, replies):
                    new += counter.add(call, in_batch=metric.judge.batch)
            if new and (draw := draw_of(sample)):
                draws.append(draw)
        of_rows = counter.calls
        if of_rows:
            for call in _of_probes(metric, metric.run_probes or (), draws, replies):
                counter.add(call)
    trial = metric.trial
    offline = trial.candidates - len(trial.drawn) if trial and trial.drawn else 0
    return counter.cost(metric.name, n_samples, offline, probes=counter.calls - of_rows)


def _of_probes(
    metric: JudgeMetric, probes: Sequence[Probe], draws: Sequence[int], replies: Replies
) -> Iterator[ExpectedCall]:
    """The calls about probes: all of them before the rows, then one for each draw."""
    asked = [(probe, 0) for probe in probes]
    asked += [(probes[draw % len(probes)], draw) for draw in draws if probes]
    for judge in (*metric.judge.models(), *metric.judge.fallback_models()):
        for probe, repeat in asked:
            yield from metric.expected_calls(probe.sample, judge, repeat, replies)


def _with_known(metric: JudgeMetric, samples: Iterable[Sample]) -> Iterator[tuple[Sample, Outcome | None]]:
    """Every sample, and its outcome if no judge need be asked."""
    rest = iter(samples)
    while batch := list(islice(rest, _BATCH)):
        yield from zip(batch, metric.known(batch), strict=True)
