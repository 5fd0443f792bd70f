"""Score one shard of rows and keep the result as a Parquet part. Runs in any process, without Prefect.

A part's name is a hash of what is in it, so a shard that was finished before a crash is found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Failed, Measurement, Skipped
from answerkey.metrics_core.metric import Metric, Workload, measured
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of the rows that a metric needs: `n_rows` from row `first` on, counted from 0, which become `part`.

    The texts are in the file `todo`, which all metrics of a run share. `places` is the file with the places of the rows
    in it that this metric needs, in ascending order; None: it needs all of them. All three files are named as in the
    store of the home at the address `home`.

    It is sent to other processes and machines: its metric is `portable`, and it has no key of judges, but `key_from`
    says where that is kept (see `keys.key`).
    """

    metric: Metric
    home: str
    todo: str
    first: int
    n_rows: int
    part: str
    places: str | None = None
    key_from: str = ""

    @property
    def workload(self) -> Workload:
        """What scoring it keeps busy, as `Metric.workload`."""
        return self.metric.workload

    @property
    def name(self) -> str:
        """The name of its metric."""
        return self.metric.name


class Cancelled(Exception):
    """The run was cancelled while a shard was scored, so there is no part. What judges replied is in the ledger."""


def portable(metric: Metric) -> Metric:
    """A copy of a metric without what is valid on one machine only, and without the key of its judges.

    Where it is scored, it gets the ledger and the embeddings that this machine has for the home.
    """
    return equipped(metric, None, dict(ledger=None, api_key=None, stopped=None))


def equipped(metric: Metric, embeddings: str | None, access: Mapping[str, Any]) -> Metric:
    """A metric with this cache of embeddings, and, if it asks judges, with these parts of its access to them."""
    # Metrics have what they need and nothing else, so each is asked what it has
    changes: dict[str, Any] = {}
    if isinstance(metric, JudgeMetric):
        changes["access"] = replace(metric.access, **access)
    if hasattr(metric, "embedding_cache"):
        changes["embedding_cache"] = embeddings
    return replace(metric, **changes) if changes else metric


def part_schema() -> pa.Schema:
    """Columns of a part: those of the table `measurements`, which can adopt it as it is, except for run and time."""
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
            ("details", pa.json_()),
            ("attempts", pa.int32()),
            ("seconds", pa.float64()),
            ("tokens_in", pa.int64()),
            ("tokens_out", pa.int64()),
            ("cost_usd", pa.float64()),
            ("requests", pa.list_(text)),
            ("from_ledger", pa.bool_()),
        ]
    )


def score_shard(shard: Shard, api_key: str | None = None, stopped: Callable[[], bool] | None = None) -> str:
    """Score a shard, a row group at a time, and return the name of its part; one that is there already is kept.

    Args:
        api_key: opens the judges, where the metric asks some; it is in nothing that is written.
        stopped: asked between row groups, and between the questions to judges, whether the run was cancelled. Once it
            has said yes, it must not say no again.

    Raises:
        Cancelled: it was. Nothing is published.
    """
    home = Home.parse(shard.home)
    if not home.store.exists(shard.part):
        access = dict(ledger=home.ledger, api_key=api_key, stopped=stopped)
        write_part(home, shard.part, _measured(shard, equipped(shard.metric, home.embeddings, access), stopped))
    return shard.part


def _measured(shard: Shard, metric: Metric, stopped: Callable[[], bool] | None) -> Iterator[list[Measurement]]:
    """Measure the rows of a shard, a row group at a time."""
    batches = samples_of(shard)
    for samples in [list(chain.from_iterable(batches))] if metric.all_at_once else batches:
        measurements = measured(metric, samples)
        # Of a run that was cancelled there are questions that were not asked.
        if stopped is not None and stopped():
            raise Cancelled(f"{shard.metric.name}: the run was cancelled")
        yield measurements


def fail_shard(shard: Shard, message: str) -> str:
    """Write down that every row of a shard failed, so that the run goes on and a rerun tries them again."""
    part = str(PurePosixPath(shard.part).with_suffix(".failed.parquet"))
    failure = Measurement("", shard.metric.name, shard.metric.signature, Failed("task_failed", message))
    batches = ([failure._replace(sample_id=sample.sample_id) for sample in samples] for samples in samples_of(shard))
    write_part(Home.parse(shard.home), part, batches)
    return part


def samples_of(shard: Shard) -> Iterator[list[Sample]]:
    """The rows of a shard, a row group of the file at a time."""
    import numpy as np

    # The rows of the metric among those of the run
    positions = np.arange(shard.first, shard.first + shard.n_rows)
    if shard.places is not None:
        positions = np.concatenate(
            [group.column("place").to_numpy() for group in _rows(shard, shard.places, positions)]
        )
    names = ("sample_key", "question", "answer", "references", "facts", "context", "incorrect_references", "columns")
    for rows in _rows(shard, shard.todo, positions):
        samples = []
        for row in rows.select(names).to_pylist():
            # The key stands in for the id: the same answer under two ids is scored once.
            key, columns = row.pop("sample_key"), dict(row.pop("columns") or ())
            samples.append(Sample(key, **row, columns=columns))
        yield samples


def _rows(shard: Shard, file: str, positions: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    """The rows of a file at these ascending positions, a row group at a time; groups without any are not read."""
    import numpy as np
    import pyarrow.parquet as pq

    with Home.parse(shard.home).store.read(file) as source, pq.ParquetFile(source) as parquet:
        # Which of the positions are in which row group
        sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        starts = np.cumsum([0, *sizes])
        bounds = np.searchsorted(positions, starts)
        for group in np.flatnonzero(np.diff(bounds)):
            inside = positions[bounds[group] : bounds[group + 1]] - starts[group]
            yield parquet.read_row_group(int(group)).take(inside)


def write_part(home: Home, part: str, batches: Iterable[list[Measurement]]) -> None:
    """Write measurements, whose `sample_id` is the key of a sample, as the part of this name in the store."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = part_schema()
    with home.store.atomic_write(part) as file, pq.ParquetWriter(file, schema) as writer:
        for measurements in batches:
            columns: dict[str, list[Any]] = {
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
            writer.write_table(pa.table(columns, schema=schema))


def _attempts(measurement: Measurement) -> int:
    """How often a measurement was tried."""
    if isinstance(measurement.outcome, Failed):
        return measurement.outcome.attempts
    return 0 if isinstance(measurement.outcome, Skipped) else 1
