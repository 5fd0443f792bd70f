"""Score one shard of rows and keep the result as a Parquet part. Runs in any process, without Prefect.

A part's name is a hash of what is in it, so a shard that was finished before a crash is found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Failed, Measurement, Skipped
from answerkey.metrics_core.metric import Metric, measured
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.warehouse.store import parquet_writer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Shard:
    """`n_rows` of the rows that a metric needs, from row `first` (from 0) on, and the part that they become.

    The texts are in the file `todo`, which all metrics of a run share. `places` is the file with the places of the rows
    in it that this metric needs, in ascending order; None: it needs all of them.

    It is sent to other processes, so its metric holds no judge's key.
    """

    metric: Metric
    todo: str
    first: int
    n_rows: int
    part: str
    places: str | None = None


def part_schema() -> pa.Schema:
    """Columns of a part: those of the table `measurements` but for the run."""
    import pyarrow as pa

    text = pa.string()
    return pa.schema(
        [
            ("sample_key", text),
            ("signature", text),
            ("metric", text),
            ("status", text),
            ("values", pa.map_(text, pa.float64())),
            ("reason", text),
            ("details", text),
            ("attempts", pa.int32()),
            ("seconds", pa.float64()),
            ("tokens_in", pa.int64()),
            ("tokens_out", pa.int64()),
            ("cost_usd", pa.float64()),
            ("requests", pa.list_(text)),
            ("from_ledger", pa.bool_()),
        ]
    )


def score_shard(shard: Shard, api_key: str | None = None) -> str:
    """Score a shard, a row group at a time, and return its part; a part that is there already is kept.

    `api_key` opens the judges, where the metric asks some; it is in nothing that is written.
    """
    part = Path(shard.part)
    if not part.is_file():
        metric = shard.metric
        if isinstance(metric, JudgeMetric):
            metric = replace(metric, access=replace(metric.access, api_key=api_key))
        _write(part, (measured(metric, samples) for samples in samples_of(shard)))
    return shard.part


def fail_shard(shard: Shard, message: str) -> str:
    """Write down that every row of a shard failed, so that the run goes on and a rerun tries them again."""
    failed = Failed("task", message)
    part = Path(shard.part).with_suffix(".failed.parquet")
    _write(part, ([_failed(sample, shard.metric, failed) for sample in samples] for samples in samples_of(shard)))
    return str(part)


def _failed(sample: Sample, metric: Metric, outcome: Failed) -> Measurement:
    return Measurement(sample.sample_id, metric.name, metric.signature, outcome)


def samples_of(shard: Shard) -> Iterator[list[Sample]]:
    """The rows of a shard, a row group of the file at a time."""
    import pyarrow.parquet as pq

    places = _places(shard)
    with pq.ParquetFile(shard.todo) as file:
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            inside = places[(places >= start) & (places < end)] - start
            if len(inside):
                yield _samples(file.read_row_group(group).take(inside).to_pydict())


def _places(shard: Shard) -> npt.NDArray[np.int64]:
    import numpy as np
    import pyarrow.parquet as pq

    if shard.places is None:
        return np.arange(shard.first, shard.first + shard.n_rows)
    places: npt.NDArray[np.int64] = pq.read_table(shard.places).column("place").to_numpy()
    return places[shard.first : shard.first + shard.n_rows]


def _samples(columns: Mapping[str, list[Any]]) -> list[Sample]:
    names = ("sample_key", "question", "answer", "references", "facts")
    return [
        # The key stands in for the id: the same answer under two ids is scored once.
        Sample(key, answer, references or (), question, facts or ())
        for key, question, answer, references, facts in zip(*(columns[name] for name in names), strict=True)
    ]


def _write(part: Path, batches: Iterable[list[Measurement]]) -> None:
    import pyarrow as pa

    schema = part_schema()
    with parquet_writer(part, schema) as writer:
        for measurements in batches:
            writer.write_table(pa.table(_columns(measurements), schema=schema))


def _columns(measurements: list[Measurement]) -> Mapping[str, list[Any]]:
    return {
        "sample_key": [m.sample_id for m in measurements],
        "signature": [m.signature for m in measurements],
        "metric": [m.metric for m in measurements],
        "status": [m.status for m in measurements],
        "values": [list(m.values.items()) for m in measurements],
        "reason": [m.reason for m in measurements],
        "details": [json.dumps(m.details, ensure_ascii=False) if m.details else None for m in measurements],
        "attempts": [_attempts(m) for m in measurements],
        "seconds": [m.usage.seconds for m in measurements],
        "tokens_in": [m.usage.tokens_in for m in measurements],
        "tokens_out": [m.usage.tokens_out for m in measurements],
        "cost_usd": [m.usage.cost_usd for m in measurements],
        "requests": [m.requests for m in measurements],
        "from_ledger": [m.from_ledger for m in measurements],
    }


def _attempts(measurement: Measurement) -> int:
    if isinstance(measurement.outcome, Failed):
        return measurement.outcome.attempts
    return 0 if isinstance(measurement.outcome, Skipped) else 1
