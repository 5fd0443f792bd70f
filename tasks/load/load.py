"""Load answers, and their references, into one staged Parquet file with the same columns for every source."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import ColumnMap, Key, complete
from answerkey.tasks.load.sources import Raw, read, without_secrets
from answerkey.tasks.load.stage import Reference, Stager, refused
from answerkey.tasks.load.staging import quarantine_schema, staged_schema

if TYPE_CHECKING:
    import pandas as pd

LOOK_AHEAD = 100
"""Rows from which columns are recognised: the first row alone may lack some."""

_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Source:
    """What to load. `release` names the release where no column does."""

    answers: str
    references: str | None = None
    dataset: str = ""
    release: str = ""
    paths: Mapping[Key, str] = field(default_factory=dict)
    reference_paths: Mapping[Key, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Staged files, and what people should know about how they came to be."""

    dataset: str
    staged: str
    rejects: str
    references: str | None
    n_rows: int
    notes: tuple[str, ...]


def dataset_name(source: Source) -> str:
    """The given name, or the stem of the file that holds the references.

    Raises:
        UserError: the name has characters that report ids cannot hold.
    """
    name = source.dataset or _stem(source.references or source.answers)
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(f"--dataset {name!r}: use letters, digits, dots, dashes and underscores")
    return name


def load(source: Source, out: Path) -> Loaded:
    """Read a source into `out`/staged.parquet; rows that cannot be read go to `out`/rejects.parquet.

    Raises:
        UserError: a source is missing or not readable, or a needed column is in none of the rows.
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset = dataset_name(source)
    notes: list[str] = []
    known, references = _load_references(source, out, notes)
    rows = read(source.answers, out)
    head = first_rows(rows, source.answers)
    columns = complete(source.paths, source.slices, records_of(head), source.answers, _sliced(known))
    _require(columns, source, known is not None)
    if columns.guessed:
        notes.append(f"{_name(source.answers)}: columns recognised by name: {columns.description}")
    release = source.release or _default_release(source, columns, notes)
    if "id" not in columns.paths:
        notes.append(f"{_name(source.answers)}: no id column; a hash of question and references serves as the id")
    stager = Stager(columns, release, known)
    staged, rejects = out / "staged.parquet", out / "rejects.parquet"
    n_rows = _write(itertools.chain(head, rows), stager, staged, rejects)
    return Loaded(dataset, str(staged), str(rejects), references, n_rows, tuple(notes))


def frame_source(frame: pd.DataFrame, folder: Path, name: str = "answers") -> str:
    """Write a pandas DataFrame where a `Source` can name it, and return the path. The index is left out.

    As JSON Lines: a column of a frame may hold lists in some rows and texts in others. NaN, None, NaT and NA
    become null.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    columns = [str(column) for column in frame.columns]
    with file.open("w", encoding="utf-8") as out:
        for start in range(0, len(frame), _BATCH):
            batch = frame.iloc[start : start + _BATCH].astype(object)
            for row in batch.where(batch.notna(), None).itertuples(index=False, name=None):
                out.write(json.dumps(dict(zip(columns, row, strict=True)), default=_plain) + "\n")
    return str(file)


def _plain(cell: Any) -> Any:
    """A cell that JSON does not know: an array as a list, anything else as Python prints it."""
    return cell.tolist() if hasattr(cell, "tolist") else str(cell)


def first_rows(rows: Iterator[Raw], source: str) -> list[Raw]:
    """The rows from which the columns of a source are recognised.

    Raises:
        UserError: there is no row, or none that can be read.
    """
    head = list(itertools.islice(rows, LOOK_AHEAD))
    if not head:
        raise UserError(f"{without_secrets(source)}: no rows; it needs at least one")
    if not records_of(head):
        shown = without_secrets(source)
        raise UserError(f"{shown}: none of the first {len(head)} rows can be read: {head[0].error}")
    return head


def _sliced(known: Mapping[str, Reference] | None) -> set[str]:
    """Slice columns that the references file has."""
    references = itertools.islice((known or {}).values(), LOOK_AHEAD)
    return {path for reference in references for path, text in reference.slices if text is not None}


def records_of(rows: Iterable[Raw]) -> list[Mapping[str, Any]]:
    """The records of the rows that can be read."""
    return [raw.record for raw in rows if raw.record is not None]


def _stem(source: str) -> str:
    """The name of a file, URL or table's file without its ending."""
    return Path(source.split("::", maxsplit=1)[0].split("?", maxsplit=1)[0]).stem


def _name(source: str) -> str:
    return source.rsplit("/", 1)[-1]


def _require(columns: ColumnMap, source: Source, joined: bool) -> None:
    for key in ("answer",) if joined else ("answer", "references"):
        if key not in columns.paths:
            raise UserError(
                f"{source.answers}: no column for {key} was recognised; name it with --map {key}=COLUMN"
                + (" or give --references FILE" if key == "references" else "")
            )
    if joined and "id" not in columns.paths:
        raise UserError(f"{source.answers}: --references are joined by id; name the column with --map id=COLUMN")


def _default_release(source: Source, columns: ColumnMap, notes: list[str]) -> str:
    if "release" in columns.paths:
        return ""
    name = _stem(source.answers)
    notes.append(f"no release column and no --release: the release is called {name!r} after the file")
    return name


def _load_references(source: Source, out: Path, notes: list[str]) -> tuple[dict[str, Reference] | None, str | None]:
    if source.references is None:
        return None, None
    rows = read(source.references, out)
    head = first_rows(rows, source.references)
    columns = complete(source.reference_paths, (), records_of(head), source.references)
    columns = replace(columns, slices=source.slices)
    for key in ("id", "references"):
        if key not in columns.paths:
            raise UserError(f"{source.references}: no column for {key}; name it with --map-references {key}=COLUMN")
    notes.append(f"{_name(source.references)}: columns recognised by name: {columns.description}")
    known: dict[str, Reference] = {}
    for raw in itertools.chain(head, rows):
        reference = Reference.of(raw, columns, source.references)
        if known.setdefault(reference.sample_id, reference) != reference:
            raise UserError(
                f"{source.references}: id {reference.sample_id!r} comes again in row {raw.row} with other content; "
                "keep one row an id"
            )
    return known, _write_references(known.values(), out / "references.parquet")


def _write(rows: Iterator[Raw], stager: Stager, staged: Path, rejects: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows = 0
    rejected: list[dict[str, Any]] = []
    with pq.ParquetWriter(_part(staged), staged_schema()) as writer:
        while batch := list(itertools.islice(rows, _BATCH)):
            n_rows += len(batch)
            good = []
            for raw in batch:
                try:
                    good.append(stager.stage(raw))
                except ValueError as error:
                    rejected.append(refused(raw, str(error)))
            writer.write_table(pa.Table.from_pylist(good, schema=staged_schema()))
    pq.write_table(pa.Table.from_pylist(rejected, schema=quarantine_schema()), _part(rejects))
    for file in (staged, rejects):
        os.replace(_part(file), file)
    return n_rows


def _write_references(references: Iterable[Reference], file: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("sample_id", "question", "references", "facts", "cluster", "sample_hash")
    schema = pa.schema([staged_schema().field(name) for name in names])
    rows = [{**{name: getattr(r, name) for name in names[:-1]}, "sample_hash": r.hash} for r in references]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), _part(file))
    os.replace(_part(file), file)
    return str(file)


def _part(file: Path) -> Path:
    return file.with_name(file.name + ".part")
