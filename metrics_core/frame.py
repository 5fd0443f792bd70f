"""Data frames as samples and rows (pandas, and all that offer Arrow data: polars, PyArrow, DuckDB), and the reverse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.sample import Sample, truth

_BATCH = 5_000
Key = Literal[
    "id", "question", "answer", "references", "facts", "context", "release", "label", "cluster", "missing_because",
    "repeat", "finish_reason", "incorrect_references", "messages", "references-as", "scores",
]  # fmt: skip

USUAL_NAMES: Mapping[Key, Sequence[str]] = json.loads(
    Path(__file__).with_name("columns.json").read_text(encoding="utf-8")
)
"""The names that tools, data sets and spreadsheets give their columns, the most telling first.

A label is never guessed: a column called "label" may mean anything. Nor is a number of rows an id: a second release
would have other numbers.
"""
_LISTS: tuple[Key, ...] = ("references", "facts", "context", "incorrect_references")
_FIELDS: tuple[Key, ...] = ("id", "answer", "question", "cluster", *_LISTS)


def samples(frame: Any, others: Sequence[str] = (), label: str = "") -> dict[str, list[Sample]] | None:
    """The rows of a data frame as samples, by release in the order of their first rows; None for any other object.

    Columns are recognised by the names in `USUAL_NAMES`; `others` names those that become `Sample.columns`, and `label`
    that of the human labels. A row without an id has its number, from 0. Without releases, the only key is "".

    Raises:
        UserError: there is no column for the answer or the references, a cell is of another type, an id occurs twice in
            a release, or a row has no release although others have one.

    >>> import pyarrow as pa
    >>> samples(pa.table({"response": ["It is Paris."], "reference": ["Paris"]}))[""][0].references
    ('Paris',)
    """
    rows = records(frame)
    if rows is None:
        return None
    there = [str(name) for name in (frame.schema.names if hasattr(frame, "to_batches") else frame.columns)]
    if absent := [name for name in (*others, *filter(None, [label])) if name not in there]:
        raise UserError(
            f"the data frame has no column {absent[0]!r}; it has {', '.join(there)}{did_you_mean(absent[0], there)}"
        )
    columns = {field: next((name for name in USUAL_NAMES[field] if name in there), "") for field in _FIELDS}
    for field in ("answer", "references"):
        if not columns[field]:
            names = ", ".join(USUAL_NAMES[field])
            raise UserError(f"the data frame has no column for {field} ({names}); it has {', '.join(there)}")
    release = next((name for name in USUAL_NAMES["release"] if name in there), "")
    by_release, first = dict[str, list[Sample]](), dict[tuple[str, str, str], int]()
    for number, row in enumerate(rows):
        sample = _sample(number, row, columns, others, label)
        named = "" if row.get(release) is None else str(row[release]).strip()
        by_release.setdefault(named, []).append(sample)
        before = first.setdefault((named, sample.sample_id, str(row.get("repeat"))), number)
        if before != number:
            raise UserError(
                f"row {number} of the data frame: the id {sample.sample_id!r} is that of row {before}; drop one of "
                "them, or number several answers to a question in a column `repeat`"
            )
    if len(by_release) > 1 and "" in by_release:
        number = min(row for (named, *_), row in first.items() if not named)
        raise UserError(f"row {number} of the data frame: no release in {release}; fill it in, or drop the row")
    return by_release


def _sample(
    number: int, row: Mapping[str, Any], columns: Mapping[Key, str], others: Sequence[str], label: str
) -> Sample:
    texts: dict[str, Any] = {"sample_id": str(number), "answer": None}
    if (given := row.get(label)) is not None:
        try:
            texts["label"] = truth(str(given))
        except ValueError as error:
            raise UserError(f"row {number} of the data frame: the label {error}") from error
    if others:
        texts["columns"] = {name: row.get(name) for name in others}
    for field, name in columns.items():
        value = row.get(name)
        if value is None:
            continue
        if field in _LISTS:
            # The keys of an object are not texts of it.
            if isinstance(value, Mapping) and field == "context":
                continue
            items = [value] if isinstance(value, str | bytes | int | float | Mapping) else list(value)
            texts[field] = [_text(item, name, number) for item in items if item is not None]
        else:
            texts["sample_id" if field == "id" else field] = _text(value, name, number)
    return Sample(**texts)


def _text(value: Any, column: str, number: int) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"row {number} of the data frame: {column} has a {type(value).__name__}, not a text")
    return value


def records(frame: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of a data frame, with None for missing values; None for any other object.

    Raises:
        UserError: two columns have one name.
    """
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return _of_pandas(frame, _distinct(frame.columns))
    if hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "columns"):
        return _of_arrow(frame)
    return None


def to_frame(columns: Mapping[str, Any], index: str = "") -> Any:
    """Columns of the same length as a pandas data frame. A lone surrogate, as in JSON that was cut off, becomes `?`.

    Args:
        index: the column whose values name the rows.
    """
    import pyarrow as pa

    def array(values: list[Any]) -> Any:
        try:
            return pa.array(values)
        except UnicodeEncodeError:
            return pa.array([_encodable(value) for value in values])

    frame = pa.table({name: array(list(values)) for name, values in columns.items()}).to_pandas()
    return frame.set_index(index) if index else frame


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _of_pandas(frame: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(frame), _BATCH):
        batch = frame.iloc[start : start + _BATCH].astype(object)
        for row in batch.where(batch.notna(), None).itertuples(index=False, name=None):
            yield dict(zip(columns, row, strict=True))


def _of_arrow(frame: Any) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(frame)
    _distinct(reader.schema.names)
    return (row for batch in reader for row in batch.to_pylist())


def _distinct(columns: Any) -> list[str]:
    names = [str(column) for column in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"the data frame has several columns called {', '.join(twice)}; rename all but one")
    return names
