"""Score samples with metrics, in this process or in several."""

from __future__ import annotations

import pickle
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, overload

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.judges.check import checked
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Metric, measured
from answerkey.metrics_core.metrics.label import Label
from answerkey.metrics_core.registry import DEFAULT_METRICS, MetricLike, create
from answerkey.metrics_core.sample import Sample
from answerkey.processes import spawned_pool
from answerkey.tasks.load.columns import KEYS
from answerkey.tasks.notebook.frames import samples_of
from answerkey.tasks.notebook.result import Result, Results


@overload
def evaluate(
    samples: Iterable[Sample],
    metrics: Iterable[MetricLike] | None = ...,
    *,
    workers: int = ...,
    **options: object,
) -> Result: ...


@overload
def evaluate(
    samples: Any, metrics: Iterable[MetricLike] | None = ..., *, workers: int = ..., **options: object
) -> Any: ...


def evaluate(
    samples: Any,
    metrics: Iterable[MetricLike] | None = None,
    *,
    workers: int = 1,
    **options: object,
) -> Result | Results:
    """Score every sample with every metric.

    A metric that has a score for no sample at all causes a warning, with the reason.

    Args:
        samples: the answers of one release: an iterable of `Sample`. Or a data frame (pandas, polars, Arrow) or a list
            of dicts, of one release or several, whose columns are recognised by their names. Samples of a release with
            the same id are answers to the same question.
        metrics: names from `METRICS`, specs (`x=my_package.metrics:Politeness(threshold=.9)`), metrics such as
            `RougeL()`, metric classes, functions of an answer and its references. By default `DEFAULT_METRICS`; the
            judge is the offline one unless `judge` names a model.
        workers: processes for the lexical metrics and the offline judge.
        options: options of the metrics that are not given as objects, for instance
            `profile="continuous_eval_v0_3"` or `judge=JudgeOptions(judges=["openai/gpt-4o-mini"])`. And columns of a
            data frame whose names do not say what they are, by the keys of `--map`: `answer="a", references="truth"`.
            The column of human labels (true or false, 1 or 0, yes or no) is always named: `label="right"`. They become
            the field `label.correct`, as the labels of samples do.

    Returns:
        A `Result`: a list with one measurement per metric and sample, in the order of `metrics`, then of `samples`.
        For a data frame with a column of releases (`release`, `model` or the like), `Results`: the `Result` of each
        release by its name.

    Raises:
        UserError: a data frame lacks a column, repeats an id, or has rows without a release; a metric is not known; an
            option is out of its range, or none of the metrics has it.

    >>> [m] = evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])
    >>> m.values["match"]
    1.0
    """
    if isinstance(metrics, str):
        raise UserError(f"metrics is the text {metrics!r}; give a list: metrics=[{metrics!r}]")
    column_of_key: dict[Key, str] = {key: str(options.pop(key)) for key in KEYS if key in options}
    run_metrics = create(DEFAULT_METRICS if metrics is None else metrics, **options)
    metric_columns = list(chain.from_iterable(metric.columns for metric in run_metrics))
    releases = _releases(samples, metric_columns, column_of_key)
    rows = list(chain.from_iterable(releases.values()))
    # Judges have one budget for this call, and are checked before anything is paid for the rows
    run = uuid.uuid4().hex
    for index, metric in enumerate(run_metrics):
        if isinstance(metric, JudgeMetric):
            with_run = metric if metric.access.run else replace(metric, access=replace(metric.access, run=run))
            run_metrics[index] = checked(with_run, rows)
    if any(sample.label is not None for sample in rows):
        run_metrics = [Label(), *run_metrics]
    measurements: list[Measurement] = []
    if workers > 1 and len(rows) > 1:
        measurements = _in_processes(rows, run_metrics, workers)
    else:
        for metric in run_metrics:
            measurements += measured(metric, rows)

    # Measurements are metric by metric, and results release by release
    results = Results()
    start = 0
    for name, release_samples in releases.items():
        release_measurements: list[Measurement] = []
        for index in range(len(run_metrics)):
            offset = index * len(rows) + start
            release_measurements += measurements[offset : offset + len(release_samples)]
        results[name] = Result(release_measurements, release_samples, run_metrics, name)
        start += len(release_samples)
    for name, result in results.items():
        for problem in result.unscored:
            warnings.warn(f"{name}: {problem}" if name else problem, stacklevel=2)
    return results[""] if list(results) == [""] else results


def _releases(source: Any, metric_columns: Sequence[str], column_of_key: Mapping[Key, str]) -> dict[str, list[Sample]]:
    """The samples by release; a source without releases has the release ""."""
    if isinstance(source, Sample):
        raise UserError("a single sample; give a list of samples, or a data frame")
    if (by_release := samples_of(source, metric_columns, column_of_key)) is not None:
        return by_release or {"": []}
    for key, column in column_of_key.items():
        raise UserError(f"{key}={column!r} names a column of a data frame; a sample has its own {key}")
    # What is no table must be samples, each of them
    samples = list(source) if isinstance(source, Iterable) else [source]
    for sample in samples:
        if not isinstance(sample, Sample):
            raise UserError(f"evaluate() takes a list of answerkey.Sample or a data frame, not {type(sample).__name__}")
    return {"": samples}


def _in_processes(samples: list[Sample], metrics: list[Metric], workers: int) -> list[Measurement]:
    """Score samples in several processes, but for the metrics that wait for a model.

    Raises:
        UserError: a metric cannot be sent to another process, for instance because it is defined inside a function.
    """
    # Four pieces a process, since some take longer than others
    size = -(-len(samples) // (workers * 4))
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    measurements: list[Measurement] = []
    with spawned_pool(workers) as pool:
        for metric in metrics:
            if metric.workload not in ("lexical", "offline"):
                measurements += measured(metric, samples)
                continue
            try:
                pickle.loads(pickle.dumps(metric))
            except Exception as error:
                raise UserError(
                    f"metric {metric.name} cannot be sent to another process ({error}): define it at the top level of "
                    "a module"
                ) from error
            measurements += chain.from_iterable(pool.map(partial(measured, metric), chunks))
    return measurements
