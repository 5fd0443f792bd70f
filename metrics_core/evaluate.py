"""Score samples with metrics, in this process or in several."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from answerkey.metrics_core import frame
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Metric, measured
from answerkey.metrics_core.registry import DEFAULT_METRICS, MetricLike, create
from answerkey.metrics_core.result import Result
from answerkey.metrics_core.sample import Sample
from answerkey.processes import spawned_pool


def evaluate(
    samples: Any,
    metrics: Iterable[MetricLike] | None = None,
    *,
    workers: int = 1,
    **options: object,
) -> Result:
    """Score every sample with every metric.

    Args:
        samples: the answers of one release: an iterable of `Sample`, or a data frame (pandas, polars, Arrow) whose
            columns are recognised by their names. Samples with the same id are answers to the same question.
        metrics: names from `METRICS`, specs (`x=my_package.metrics:Politeness(threshold=.9)`), metrics such as
            `RougeL()`, metric classes, functions of an answer and its references. By default `DEFAULT_METRICS`; the
            judge is the offline one unless `judge` names a model.
        workers: processes for the lexical metrics and the offline judge.
        options: options of the metrics that are not given as objects, for instance
            `profile="continuous_eval_v0_3"` or `judge=JudgeOptions(judges=["openai/gpt-4o-mini"])`.

    Returns:
        A list with one measurement per metric and sample, in the order of `metrics`, then of `samples`. It also has
        `summary()`, `to_pandas()`, `worst()` and `compare(baseline)`.

    Raises:
        UserError: a data frame lacks a column, repeats an id, or has the answers of several releases; a metric is not
            known; an option is out of its range, or none of the metrics has it.

    >>> [m] = evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])
    >>> m.values["match"]
    1.0
    """
    if isinstance(metrics, str):
        raise UserError(f"metrics is the text {metrics!r}; give a list: metrics=[{metrics!r}]")
    # One budget for all metrics of this call.
    run = uuid.uuid4().hex
    chosen = [_of_run(metric, run) for metric in create(DEFAULT_METRICS if metrics is None else metrics, **options)]
    samples = _samples(samples, [name for metric in chosen for name in metric.columns])
    if workers > 1 and len(samples) > 1:
        return Result(_in_processes(samples, chosen, workers), samples, chosen)
    return Result((measurement for metric in chosen for measurement in measured(metric, samples)), samples, chosen)


def _samples(source: Any, others: Sequence[str]) -> list[Sample]:
    if isinstance(source, Sample):
        raise UserError("a single sample; give a list of samples, or a data frame")
    if (rows := frame.samples(source, others)) is not None:
        return rows
    samples = list(source) if isinstance(source, Iterable) else [source]
    for item in samples:
        if not isinstance(item, Sample):
            raise UserError(f"evaluate() takes samples (answerkey.Sample) or a data frame, not {type(item).__name__}")
    return samples


def _of_run(metric: Metric, run: str) -> Metric:
    if not isinstance(metric, JudgeMetric) or metric.access.run:
        return metric
    return replace(metric, access=replace(metric.access, run=run))


def _in_processes(samples: list[Sample], metrics: list[Metric], workers: int) -> list[Measurement]:
    size = -(-len(samples) // (workers * 4))
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    measurements: list[Measurement] = []
    with spawned_pool(workers) as pool:
        for metric in metrics:
            if metric.workload in ("lexical", "offline"):
                check_portable(metric)
                parts = pool.map(partial(measured, metric), chunks)
                measurements.extend(measurement for part in parts for measurement in part)
            else:
                measurements.extend(measured(metric, samples))
    return measurements


def check_portable(metric: Metric) -> None:
    """Check that a metric can be sent to another process.

    Raises:
        UserError: it cannot, for instance because it is defined inside a function.
    """
    try:
        pickle.loads(pickle.dumps(metric))
    except Exception as error:
        raise UserError(
            f"metric {metric.name} cannot be sent to another process ({error}): define it at the top level of a module"
        ) from error
