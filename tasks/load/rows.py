"""Rows as they are read and as they are staged; what reads them from JSON, archives, Arrow, Parquet, CSV and DuckDB."""

from __future__ import annotations

import io
import itertools
import json
import re
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.metrics_core.errors import UserError, listed
from answerkey.tasks.load.columns import column_name, is_row
from answerkey.tasks.load.dialect import BadRecord, RecordReader, find_dialect
from answerkey.tasks.load.plain import JSON, KeyTwice, Record, check_kind
from answerkey.tasks.load.remote import first_line
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import MEMORY_LIMIT, one_file, quoted, scratch, session, time_limit

if TYPE_CHECKING:
    import pyarrow as pa

_SQL = statements(__name__)
_ALONE = "hive_partitioning = false"
"""DuckDB would put what a folder COLUMN=VALUE says in the place of what the rows say; see `columns_of_path`."""
_BATCH = 2_000
_LONGEST_S = 600.0
"""To read a view, which may compute without end, and have rows without end."""
_ZSTANDARD = 93
"""The number of this compression in zip archives."""


class Raw(NamedTuple):
    """One row as read: its 1-based number in the source, and the record, or why it could not be read.

    A `document` is the object that a whole JSON file consists of; the rows in it depend on its format. Of several
    files, `file` is the one that the row is in, and `file_row` its number there.
    """

    row: int
    record: Record | None
    error: str | None = None
    text: str | None = None
    document: bool = False
    file: str | None = None
    file_row: int | None = None

    def content(self) -> str | None:
        """Return the row as a text, for those who look at a row that cannot be read."""
        return self.text if self.record is None else json.dumps(self.record, ensure_ascii=False, default=str)


def check_names(names: Sequence[str], file: object) -> None:
    """Check that no two columns of a table have one name, whatever its case.

    Raises:
        UserError: two have.
    """
    counts = Counter(map(str.casefold, names))
    if twice := [name for name in dict.fromkeys(names) if counts[name.casefold()] > 1]:
        raise UserError(f"{file}: several columns are called {', '.join(twice)}; rename all but one")


def left_out(title: str) -> str:
    """The note on what stands above the names of the columns."""
    return f"left out above the names of the columns: {' '.join(title.split())!r}"


def read_lines(file: Path) -> Iterator[Raw]:
    """The rows of JSON Lines, numbered by their lines from 1; or those of a list that is named as JSON Lines.

    Each line may have a comma behind its object, as in a list.
    """
    # Undecodable bytes become U+FFFD, which validation finds and quarantines by row.
    with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        if lines.read(1 << 12).lstrip().startswith("["):
            with suppress(UserError):
                yield from list(read_json(file))
                return
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            text = line.strip().removesuffix(",")
            if not text:
                continue
            try:
                record = JSON.decode(text)
                if isinstance(record, dict):
                    yield Raw(number, record)
                    continue
                problem = f" is a JSON {type(record).__name__}, not an object"
            except KeyTwice as error:
                problem = f": {error}"
            except (ValueError, RecursionError) as error:
                problem = f" is not JSON: {error}"
            yield Raw(number, None, f"line {number}{problem}", text)


def item_row(number: int, item: Any) -> Raw:
    """One item of a list in a JSON file, counted from 1."""
    if isinstance(item, dict):
        return Raw(number, item)
    return Raw(number, None, f"item {number} is a JSON {type(item).__name__}, not an object", json.dumps(item))


def read_json(file: Path) -> Iterator[Raw]:
    """The objects of a list in a JSON file, or the one object that it consists of; or those of its lines.

    Raises:
        UserError: it is neither, or no JSON, or an object in it has a key twice.
    """
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    try:
        content = JSON.decode(text)
    except KeyTwice as error:
        raise UserError(f"{file}: {error}") from error
    except (ValueError, RecursionError) as error:
        with suppress(ValueError, RecursionError):
            if isinstance(JSON.decode(text.lstrip().split("\n", 1)[0]), dict):
                yield from read_lines(file)
                return
        raise UserError(f"{file}: not JSON ({error})") from error
    if isinstance(content, dict):
        yield Raw(1, content, document=True)
        return
    if not isinstance(content, list):
        raise UserError(f"{file}: expected a list of objects, or an object with one list of them")
    for number, item in enumerate(content, start=1):
        yield item_row(number, item)


def read_arrow(file: Path) -> Iterator[Raw]:
    """The rows of an Arrow file, or of a stream of Arrow data in a file, which `datasets` writes.

    Raises:
        UserError: it is neither, it is cut off, or two columns have one name.
    """
    import pyarrow as pa

    with file.open("rb") as content:
        framed = content.read(6) == b"ARROW1"
    numbers = itertools.count(1)
    try:
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_file(source) if framed else pa.ipc.open_stream(source)
            check_names(reader.schema.names, file)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if framed else reader:
                # Places in a damaged file may lead out of it, and out of the memory of this process.
                batch.validate(full=True)
                yield from (Raw(next(numbers), record) for record in batch.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file}: not an Arrow file, or cut off or damaged ({first_line(error)}); write it again"
        ) from error


def read_archive(file: Path) -> Iterator[Raw]:
    """The log of Inspect in a `.eval` file, a zip file of JSON files, as one document.

    Raises:
        UserError: it is no such archive, or damaged, or an object in it has a key twice.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".json"))
            headers = [name for name in ("header.json", "_journal/start.json") if name in names]
            if not headers:
                raise UserError(f"{file}: there is no Inspect log in it")
            samples = [_decoded(archive, name) for name in names if name.startswith("samples/")]
            log = {**_decoded(archive, headers[0]), "samples": samples}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise UserError(f"{file}: not an Inspect archive, or damaged ({error})") from error
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    yield Raw(1, log, document=True)


def _decoded(archive: zipfile.ZipFile, name: str) -> Any:
    entry = archive.getinfo(name)
    if entry.compress_type != _ZSTANDARD:
        content = archive.read(entry)
    else:
        import pyarrow as pa

        # The standard library learns this compression with Python 3.14 only. The header of an entry has 30 bytes and
        # names.
        file = archive.fp
        assert file is not None
        file.seek(entry.header_offset)
        head = file.read(30)
        file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), io.SEEK_CUR)
        with pa.input_stream(io.BytesIO(file.read(entry.compress_size)), compression="zstd") as stream:
            content = stream.read()
    try:
        return JSON.decode(content.decode("utf-8-sig"))
    except KeyTwice as error:
        raise ValueError(f"{name}: {error}") from error


def read_parquet(file: Path, work: Path) -> Iterator[Raw]:
    """The rows of a Parquet file.

    Raises:
        UserError: it is not a Parquet file, or columns share a name, as DuckDB sees names.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    # What is damaged is said where the rows are read
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError):
        check_names(pq.read_schema(file).names, file)
    with scratch(work) as connection:
        try:
            yield from _rows(connection, f"SELECT * FROM read_parquet({quoted(one_file(file))}, {_ALONE})")
        except duckdb.Error as error:
            raise UserError(
                f"{file}: cut off or damaged ({first_line(error)}); copy it again from its source"
            ) from error


def read_csv(file: Path, notes: list[str]) -> Iterator[Raw]:
    """The rows of a CSV, and among them those that are none, with their line and the reason.

    What stands above the names of the columns is added to the `notes`.

    Raises:
        UserError: columns share a name, or it is not certain what quotes mean in it.
    """
    dialect = find_dialect(file)
    if dialect.title:
        notes.append(left_out(dialect.title))
    with dialect.open(file) as text:
        reader = RecordReader(text, dialect)
        records = iter(reader)
        header = next(records, None)
        if header is None:
            return
        if isinstance(header, BadRecord):
            raise UserError(f"{file}: {header.error}")
        # Each name is there once: DuckDB, which keeps the columns, does not tell case apart. promptfoo has columns of
        # the same names after each of its outputs, which are called [PROVIDER] PROMPT
        header = [column_name(name) or f"column{index}" for index, name in enumerate(header)]
        n_outputs = sum(bool(re.match(r"\[[^\]]+\]", name)) for name in header)
        check_names([name for name in header if header.count(name) != n_outputs], file)
        names = []
        n_before = Counter[str]()
        for name in header:
            n_same = n_before[name.casefold()]
            n_before[name.casefold()] += 1
            names.append(f"{name}_{n_same}" if n_same else name)
        for row, record in enumerate(records, start=1):
            if isinstance(record, BadRecord):
                yield Raw(row, None, record.error, record.text)
            elif is_row(record, names, file):
                yield Raw(row, dict(zip(names, [cell or None for cell in record], strict=True)))
    # Before anything is scored: nobody could tell which rows are missing
    if doubt := reader.doubt():
        raise UserError(f"{file}: {doubt}")
    if reader.n_lines != reader.n_taken:
        lines = f"{reader.n_lines:,} of {reader.n_taken:,} lines"
        raise UserError(f"{file}: {lines} were read; write it as JSON Lines or Parquet")


def read_table(file: Path, table: str) -> Iterator[Raw]:
    """The rows of a table, or of a view of tables, in a DuckDB file; `table` may be SCHEMA.TABLE.

    Raises:
        UserError: there is no such file or table, or it cannot be read.
    """
    import duckdb

    check_kind(file)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    try:
        # A view in a file from elsewhere must not read other files of this machine or fetch anything, and its use of
        # memory, disk and time is limited.
        limits = {
            "access_mode": "READ_ONLY", "enable_external_access": False, "memory_limit": MEMORY_LIMIT,
            "temp_directory": "",
        }  # fmt: skip
        with session(str(file), config=limits) as connection:
            [(is_view,)] = connection.execute(_SQL["is_view"], [table.rpartition(".")[2]]).fetchall()
            try:
                yield from _rows(connection, f"SELECT * FROM {name}", longest_s=_LONGEST_S if is_view else None)
            except duckdb.CatalogException as error:
                tables = [name for (name,) in connection.execute(_SQL["tables"]).fetchall()]
                has = f"it has {listed(tables)}" if tables else "it has no tables"
                raise UserError(f"{file}::{table}: there is no such table; {has}") from error
    except duckdb.Error as error:
        message = first_line(error)
        reason = f"{file}::{table}: {message}"
        if "Could not set lock" in message:
            reason = f"{file}: another program has it open for writing; close it there, or export the table as Parquet"
        elif "Interrupted" in message or "Out of Memory" in message:
            reason = (
                f"{file}::{table}: takes more than {_LONGEST_S:.0f} s or {MEMORY_LIMIT} of memory to read; if that "
                "is right for this view, write its rows to a Parquet file, and name that"
            )
        elif "disabled by configuration" in message:
            reason = (
                f"{file}::{table}: it is a view of other files, which none of a loaded file may read; name them instead"
            )
        raise UserError(reason) from error


def _rows(connection: Any, query: str, longest_s: float | None = None) -> Iterator[Raw]:
    """The rows of a query, numbered from 1.

    Raises:
        duckdb.InterruptException: it takes longer than `longest_s` seconds until all rows are read.
    """
    end = time.monotonic() + (longest_s or 0)

    def limited() -> AbstractContextManager[None]:
        return time_limit(connection, end - time.monotonic()) if longest_s else nullcontext()

    with limited():
        result = connection.execute(query)
    names = [column[0] for column in result.description]
    numbers = itertools.count(1)
    while True:
        with limited():
            batch = result.fetchmany(_BATCH)
        if not batch:
            return
        for values in batch:
            yield Raw(next(numbers), dict(zip(names, values, strict=True)))


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
