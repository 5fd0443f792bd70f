"""Tables as samples: data frames (pandas, and all that offer Arrow data: polars, PyArrow, DuckDB), lists of dicts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from answerkey.metrics_core.errors import UserError, did_you_mean, listed
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.sample import Sample, truth
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.columns import ColumnMap, complete, release_name, repeat_of, text_at
from answerkey.tasks.load.references import references_of

_BATCH = 5_000


def samples_of(
    frame: Any, metric_columns: Sequence[str], column_of_key: Mapping[Key, str]
) -> dict[str, list[Sample]] | None:
    """The rows of a table as samples, by release in the order of their first rows; None for an object that is no table.

    Columns are recognised, and their cells read, as those of a file. A row without an id has its number, from 0.
    Without releases, the only key is "".

    Args:
        metric_columns: those that become `Sample.columns`.
        column_of_key: where the names do not say it, and for the human labels.

    Raises:
        UserError: there is no column for the answer or the references, a cell is no text, an id occurs twice in a
            release, or a row has no release although others have one.

    >>> import pyarrow as pa
    >>> table = pa.table({"response": ["It is Rome."], "reference": ["['Rome', 'Roma']"]})
    >>> [sample] = samples_of(table, (), {})[""]
    >>> sample.references
    ('Rome', 'Roma')
    """
    rows = records(frame)
    if rows is None:
        return None
    table = list(rows)
    names = list(dict.fromkeys(map(str, chain.from_iterable(table))))
    for name in metric_columns:
        if table and name not in names:
            raise UserError(
                f"the data frame has no column {name!r}; it has {', '.join(names)}{did_you_mean(name, names)}"
            )
    # Columns are recognised as those of files
    columns = complete(column_of_key, (), table, "the data frame")
    for key in ("answer", "references"):
        if table and key not in columns.paths:
            raise UserError(f"the data frame has no column for {key} among {', '.join(names)}; name it: {key}=COLUMN")

    by_release = samples_by_release(enumerate(table), columns, metric_columns, "the data frame")
    blank = [str(number) for number, row in enumerate(table) if is_blank(text_at(row, columns.paths, "answer"))]
    if blank:
        warnings.warn(
            f"{len(blank):,} of {len(table):,} rows of the data frame have no answer, and count as blank: "
            f"{listed(blank)}",
            stacklevel=4,
        )
    return by_release


def samples_by_release(
    rows: Iterable[tuple[int, Mapping[str, Any]]], columns: ColumnMap, metric_columns: Sequence[str], source: str
) -> dict[str, list[Sample]]:
    """Return the rows of a table as samples, by release in the order of their first rows.

    Args:
        rows: each with the number that messages have. A row without an id gets it as its id.
        metric_columns: those that become `Sample.columns`.
        source: the name of the table in messages.

    Raises:
        UserError: a cell is no text, an id occurs twice in a release, or only some rows have a release.
    """
    by_release = dict[str, list[Sample]]()
    row_of_key = dict[tuple[str, str, str], int]()
    for number, row in rows:
        try:
            sample = _sample(number, row, columns, metric_columns)
            release = release_name(text_at(row, columns.paths, "release") or "")
            key = (release, sample.sample_id, repeat_of(text_at(row, columns.paths, "repeat")))
            if (earlier := row_of_key.setdefault(key, number)) != number:
                raise ValueError(
                    f"the id {sample.sample_id!r} is that of row {earlier}; drop one of them, or number several "
                    "answers to a question in a column `repeat`"
                )
        except ValueError as error:
            raise UserError(f"{source}, row {number}: {error}") from error
        by_release.setdefault(release, []).append(sample)
    if len(by_release) > 1 and "" in by_release:
        number = min(row for (release, *_), row in row_of_key.items() if not release)
        column = columns.paths["release"]
        raise UserError(f"{source}, row {number}: no release in {column}; fill it in, or drop the row")
    return by_release


def _sample(number: int, row: Mapping[str, Any], columns: ColumnMap, metric_columns: Sequence[str]) -> Sample:
    """One row as a sample.

    Raises:
        ValueError: a cell is no text, or no label.
    """
    [reference] = references_of([row], columns)
    # The text of the label, which must be one of the words for yes and no
    label = text_at(row, columns.paths, "label")
    try:
        correct = None if label is None else truth(label)
    except ValueError as error:
        raise ValueError(f"the label {error}") from error
    return Sample(
        sample_id=reference.sample_id or str(number),
        answer=text_at(row, columns.paths, "answer"),
        references=reference.references,
        question=reference.question,
        facts=reference.facts,
        context=reference.context,
        incorrect_references=reference.incorrect_references,
        cluster=reference.cluster,
        columns={name: row.get(name) for name in metric_columns},
        label=correct,
    )


def records(frame: Any) -> Iterator[Mapping[str, Any]] | None:
    """The rows of a data frame, with None for missing values, or of a list of dicts; None for any other object.

    Raises:
        UserError: two columns have one name.
    """
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return _of_pandas(frame, _distinct(frame.columns))
    if hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "columns"):
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_stream(frame)
        _distinct(reader.schema.names)
        return chain.from_iterable(batch.to_pylist() for batch in reader)
    if isinstance(frame, list) and all(isinstance(row, Mapping) for row in frame):
        return iter(frame)
    return None


def _of_pandas(frame: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a frame of pandas."""
    for start in range(0, len(frame), _BATCH):
        # A batch at a time, so that the whole frame is not copied
        batch = frame.iloc[start : start + _BATCH].astype(object)
        for cells in batch.where(batch.notna(), None).itertuples(index=False, name=None):
            row = dict(zip(columns, cells, strict=True))
            # Cells may be lists and numbers of numpy.
            for name, cell in row.items():
                if hasattr(cell, "tolist"):
                    row[name] = cell.tolist()
            yield row


def _distinct(columns: Any) -> list[str]:
    """The names of columns as texts.

    Raises:
        UserError: two have one name.
    """
    names = [str(column) for column in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"the data frame has several columns called {', '.join(twice)}; rename all but one")
    return names
