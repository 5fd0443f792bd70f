"""Score samples with metrics, in this process or in several."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.processes import spawned_pool
from answerkey.metrics_core.registry import METRICS, Options, create
from answerkey.metrics_core.sample import Sample


def evaluate(
    samples: Iterable[Sample],
    metrics: Sequence[str] | None = None,
    *,
    options: Options | None = None,
    workers: int = 1,
    **changes: object,
) -> list[Measurement]:
    """Score every sample with every metric.

    Args:
        samples: what to score; ids need not be unique here.
        metrics: names from `METRICS`. When not given: all; unless `judge` names a model, nobody is asked.
        options: how the metrics are made; single fields can be given by keyword instead, for instance
            `profile="continuous_eval_v0_3"`.
        workers: processes for the lexical metrics. More than one needs the usual `if __name__ ==
            "__main__":` guard in scripts, since processes are spawned.

    Returns:
        One measurement a metric and sample, metric by metric, in the order of `metrics` and `samples`.

    Raises:
        UserError: a metric or an option is not known.

    >>> [m] = evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])
    >>> m.values["match"]
    1.0
    """
    samples = list(samples)
    known = [field.name for field in fields(Options)]
    for name in changes:
        if name not in known:
            raise UserError(f"option {name!r} is not known: choose from {', '.join(known)}")
    chosen = replace(options or Options(), **changes)  # type: ignore[arg-type]
    if not chosen.access.run:
        # One budget for all metrics of this call.
        chosen = replace(chosen, access=replace(chosen.access, run=uuid.uuid4().hex))
    names = list(METRICS if metrics is None else dict.fromkeys(metrics))
    scorers = create(names, chosen)
    if workers > 1 and len(samples) > 1:
        return _in_processes(samples, names, scorers, chosen, workers)
    return [measurement for metric in scorers for measurement in metric.measure(samples)]


def _in_processes(
    samples: list[Sample], names: list[str], scorers: list[Metric], options: Options, workers: int
) -> list[Measurement]:
    size = -(-len(samples) // (workers * 4))
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    measured: list[Measurement] = []
    with spawned_pool(workers) as pool:
        for name, metric in zip(names, scorers, strict=True):
            if METRICS[name].kind == "lexical":
                parts = pool.map(_measure, [name] * len(chunks), [options] * len(chunks), chunks)
                measured.extend(measurement for part in parts for measurement in part)
            else:
                measured.extend(metric.measure(samples))
    return measured


def _measure(name: str, options: Options, samples: list[Sample]) -> list[Measurement]:
    [metric] = create([name], options)
    return metric.measure(samples)
