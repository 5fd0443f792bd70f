"""The files that loading leaves: the columns of staged rows, and of rows that were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def staged_schema() -> pa.Schema:
    """Columns of `staged.parquet`, and of `accepted.parquet` after validation.

    `missing_because` says why a question that was asked got no answer; NULL where it got one, or nothing is known.
    `finish_reason` says why the model stopped, where the source does: `stop`, `length`.
    `context` has the passages that the answer was to rest on; empty where none were given.
    `columns` has those that rubrics ask for, as texts; NULL where none does.
    `given` has the scores that came with the answer, by METRIC.FIELD; NULL where there are none.
    `repeat` tells the answers of a release to one question apart: a whole number without a sign, or any text; '1' where
    there is none.
    `release_order` is what the tool that wrote the file says of the order of its releases: the time of the answer, or
    the number of the prompt; NULL where it says nothing.
    `row` is 1-based in the source (the line of a JSONL file, the data row of a table), and goes on through all its
    files; where there are several, `file_row` is 1-based in `file`. `label` is the text
    that the source gave, unparsed; `correct` is the label as validation understood it. `sample_key` hashes
    what a score depends on, `sample_hash` the answer-independent part that the data set version is made of.
    """
    import pyarrow as pa

    text = pa.string()
    texts = pa.list_(pa.string())
    return pa.schema(
        {
            "row": pa.int64(),
            "file": text,
            "file_row": pa.int64(),
            "sample_id": text,
            "release": text,
            "release_order": pa.float64(),
            "question": text,
            "answer": text,
            "missing_because": text,
            "finish_reason": text,
            "repeat": text,
            "references": texts,
            "facts": texts,
            "context": texts,
            "incorrect_references": texts,
            "columns": pa.map_(text, text),
            "given": pa.map_(text, pa.float64()),
            "cluster": text,
            "label": text,
            "correct": pa.bool_(),
            "slices": pa.map_(text, text),
            "sample_key": text,
            "sample_hash": text,
        }
    )


def quarantine_schema() -> pa.Schema:
    """Columns of a quarantine file: where the row came from, the rule it broke, why, and the row itself.

    `file` is NULL where the source is one file; `row` is 1-based in the file.
    """
    import pyarrow as pa

    names = ("file", "row", "sample_id", "release", "rule", "reason", "raw")
    return pa.schema({**dict.fromkeys(names, pa.string()), "row": pa.int64()})
