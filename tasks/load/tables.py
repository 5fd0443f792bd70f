"""Rows as DuckDB reads them: of Parquet, CSV, and the tables of its own files."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError, listed
from answerkey.tasks.load.columns import column_name, is_row
from answerkey.tasks.load.dialect import BadRecord, RecordReader, find_dialect
from answerkey.tasks.load.plain import check_kind
from answerkey.tasks.load.remote import first_line
from answerkey.tasks.load.rows import Raw, check_names
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import MEMORY_LIMIT, one_file, quoted, scratch, session, time_limit

_SQL = statements(__name__)
_ALONE = "hive_partitioning = false"
"""DuckDB would put what a folder COLUMN=VALUE says in the place of what the rows say; see `columns_of_path`."""
_BATCH = 2_000
_LONGEST_S = 600.0
"""To read a view, which may compute without end, and have rows without end."""


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


def read_csv(file: Path, work: Path) -> Iterator[Raw]:
    """The rows of a CSV, and among them those that are none, with their line and the reason.

    Raises:
        UserError: columns share a name, or it is not certain what quotes mean in it.
    """
    dialect = find_dialect(file)
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
