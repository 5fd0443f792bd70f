"""The two files that staged rows are parted into: the accepted rows, and the quarantine."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.tasks.validate.contract import Rule
from answerkey.tasks.warehouse.warehouse import one_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH_BYTES = 32 * 2**20
_MAX_BATCH_ROWS = 50_000
_REFUSED_ROWS = 5_000  # at once as Python objects, which weigh many times more
_WHY_CHARS = 200


@dataclass(slots=True)
class Group:
    """Rows in quarantine under one rule: how many, the first row numbers, and what is wrong (one line)."""

    rule: str
    count: int
    rows: list[int]
    why: str


@contextmanager
def writing(path: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer whose file appears under `path` only when it is whole."""
    import pyarrow.parquet as pq

    partly = f"{path}.{os.getpid()}.part"
    try:
        with pq.ParquetWriter(partly, schema) as writer:
            yield writer
        os.replace(partly, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partly)


def row_bytes(path: str) -> int:
    """Bytes of a row, at least 1: the mean of that row group of a Parquet file where the mean is largest."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(path)
    groups = (meta.row_group(i) for i in range(meta.num_row_groups))
    return max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0) + 1


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of a bounded number of bytes."""
    import pyarrow.parquet as pq

    rows = min(max(_BATCH_BYTES // row_bytes(path), 64), _MAX_BATCH_ROWS)
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        yield from file.iter_batches(batch_size=rows, use_threads=False)


def copy_rejects(rejects: str, out: pq.ParquetWriter) -> dict[str, Group]:
    """Rows that the reader gave up, by the rule that it named."""
    groups: dict[str, Group] = {}
    for batch in _batches(rejects):
        out.write_batch(batch.select(out.schema.names))
        columns = (batch[name].to_pylist() for name in ("rule", "row", "reason"))
        for rule, row, reason in zip(*columns, strict=True):
            if rule not in groups:
                groups[rule] = Group(rule, 0, [], textwrap.shorten(reason, _WHY_CHARS, placeholder="..."))
            group = groups[rule]
            group.count += 1
            if len(group.rows) < 3 and row is not None:
                group.rows.append(row)
    return groups


def part(
    staged: str,
    frame: pd.DataFrame,
    bits: npt.NDArray[np.int32],
    rules: Sequence[Rule],
    good: pq.ParquetWriter,
    out: pq.ParquetWriter,
) -> None:
    """Write each staged row to `good` or, with its first rule and all its reasons, to `out`.

    `frame` and `bits` have one entry a staged row, in the order of the file: what was measured, and the rules
    that the row breaks, bit i for `rules[i]`. `correct` is filled from what the label was understood as.
    """
    import numpy as np
    import pyarrow as pa

    labels = frame["label_value"].to_numpy()
    start = 0
    for batch in _batches(staged):
        here = slice(start, start + batch.num_rows)
        start += batch.num_rows
        kept = bits[here] == 0
        correct = pa.array(labels[here] == 1, mask=labels[here] < 0)
        rows = batch.select(good.schema.names)
        rows = rows.set_column(rows.schema.get_field_index("correct"), "correct", correct)
        if kept.any():
            good.write_batch(rows.filter(pa.array(kept)))
        refused = np.flatnonzero(~kept)
        for some in (refused[i : i + _REFUSED_ROWS] for i in range(0, len(refused), _REFUSED_ROWS)):
            fields = batch.take(pa.array(some)).to_pylist()
            marks = frame.iloc[here].iloc[some].to_dict("records")
            broken = bits[here][some].tolist()
            lines = [_line(*line, rules) for line in zip(fields, marks, broken, strict=True)]
            out.write_batch(pa.RecordBatch.from_pylist(lines, schema=out.schema))


def _line(row: dict[str, Any], marks: dict[Any, Any], bits: int, rules: Sequence[Rule]) -> dict[str, Any]:
    """A row of the quarantine file."""
    broken = [rule for bit, rule in enumerate(rules) if bits >> bit & 1]
    reasons = [rule.reason(row, marks) for rule in broken if rule.reason]
    also = [f"also {rule.name}: {reason}" for rule, reason in zip(broken[1:], reasons[1:], strict=True)]
    row["slices"] = None if row["slices"] is None else dict(row["slices"])
    return {
        "row": row["row"],
        "sample_id": row["sample_id"],
        "release": row["release"],
        "rule": broken[0].name,
        "reason": "; ".join([reasons[0], *also]),
        "raw": json.dumps(row, ensure_ascii=False),
    }


def releases_without_rows(accepted: str, quarantine: str) -> list[tuple[str, int]]:
    """Releases of which every row is in quarantine, with the number of rows: they will have no report."""
    import duckdb

    with duckdb.connect() as db:
        lost = db.execute(
            """
            SELECT release, count(*) FROM read_parquet(?) WHERE release IS NOT NULL
            AND release NOT IN (SELECT DISTINCT release FROM read_parquet(?)) GROUP BY release ORDER BY release
            """,
            [one_file(quarantine), one_file(accepted)],
        ).fetchall()
    return [(str(release), int(count)) for release, count in lost]
