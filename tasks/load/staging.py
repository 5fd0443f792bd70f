"""The staged form of a data set: one Parquet row per answer, the same columns whatever the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def staged_schema() -> pa.Schema:
    """Columns of `staged.parquet`, and of `accepted.parquet` after validation.

    `missing_because` says why a question that was asked got no answer; NULL where it got one, or nothing is known.
    `row` is 1-based in the source (the line of a JSONL file, the data row of a table). `label` is the text
    that the source gave, unparsed; `correct` is the label as validation understood it. `sample_key` hashes
    what a score depends on, `sample_hash` the answer-independent part that the data set version is made of.
    """
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    return pa.schema(
        [
            ("row", pa.int64()),
            ("sample_id", text),
            ("release", text),
            ("question", text),
            ("answer", text),
            ("missing_because", text),
            ("references", texts),
            ("facts", texts),
            ("cluster", text),
            ("label", text),
            ("correct", pa.bool_()),
            ("slices", pa.map_(text, text)),
            ("sample_key", text),
            ("sample_hash", text),
        ]
    )


def quarantine_schema() -> pa.Schema:
    """Columns of a quarantine file: where the row came from, the rule it broke, why, and the row itself."""
    import pyarrow as pa

    text = pa.string()
    return pa.schema(
        [
            ("row", pa.int64()),
            ("sample_id", text),
            ("release", text),
            ("rule", text),
            ("reason", text),
            ("raw", text),
        ]
    )
