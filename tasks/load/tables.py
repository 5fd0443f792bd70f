"""Rows as DuckDB reads them: of Parquet, CSV, and the tables of its own files."""

from __future__ import annotations

import csv
import itertools
import re
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError, listed
from answerkey.tasks.load.columns import header_at
from answerkey.tasks.load.plain import check_kind
from answerkey.tasks.load.remote import first_line
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import MEMORY_LIMIT, one_file, scratch, session, time_limit

_SQL = statements(__name__)
_ALONE = "hive_partitioning = false"
"""DuckDB would put what a folder COLUMN=VALUE says in the place of what the rows say; see `columns_of_path`."""
_BATCH = 2_000
_MOST_TITLES, _LONGEST_HEAD = 10, 10_000
"""Lines in which the names of the columns of a CSV are looked for, and characters of each."""
_LONGEST_S = 600.0
"""To read a view, which may compute without end, and have rows without end."""


def read_parquet(file: Path, work: Path) -> Iterator[Raw]:
    """The rows of a Parquet file.

    Raises:
        UserError: it is not a Parquet file.
    """
    import duckdb

    with scratch(work) as connection:
        try:
            yield from _rows(connection, f"SELECT * FROM read_parquet(?, {_ALONE})", [one_file(file)])
        except duckdb.Error as error:
            raise UserError(f"{file}: {first_line(error)}") from error


def read_csv(file: Path, work: Path) -> Iterator[Raw]:
    """The rows of a CSV, and after all others those that are none.

    Raises:
        UserError: as `parsed_csv`.
    """
    with parsed_csv(file, work) as (connection, rejected):
        yield from _rows(connection, "SELECT * FROM parsed", [], skipping={raw.row for raw in rejected})
        yield from rejected


@contextmanager
def parsed_csv(file: Path, work: Path) -> Iterator[tuple[Any, list[Raw]]]:
    """A session with the rows of a CSV as the table `parsed`; and those that are none, which come after all others.

    All of them are read first: only then are the rejected ones known, which the others are numbered around.

    Raises:
        UserError: it is no CSV, or columns share a name.
    """
    import duckdb

    options = f"all_varchar = true, header = true, store_rejects = true, max_line_size = {16 << 20}"
    if above := title_lines(file):
        options += f", skip = {len(above)}"
    query = f"read_csv(?, {options}, {_ALONE})"
    with scratch(work) as connection:
        try:
            connection.execute(f"CREATE TEMP TABLE parsed AS SELECT * FROM {query}", [one_file(file)])
            _check_names(connection, file)
            yield connection, _rejected(connection)
        except duckdb.Error as error:
            raise UserError(f"{file}: {_why_no_csv(error)}") from error


def title_lines(file: Path) -> list[str]:
    """The lines of a CSV above the names of its columns, such as a title."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        lines = list(itertools.islice(iter(lambda: text.readline(_LONGEST_HEAD), ""), _MOST_TITLES))
    found = (header_at([next(csv.reader([line], delimiter=mark), []) for line in lines]) for mark in ",;\t|")
    return lines[: max(found)]


def _why_no_csv(error: Exception) -> str:
    """Why DuckDB cannot read a CSV, with a remedy where one is known."""
    said = first_line(error)
    remedy = "write it as JSON Lines or Parquet"
    if "Maximum line size of" in str(error):
        return f"a row is longer than 16 MiB; shorten it, or {remedy}"
    if "when sniffing file" in said:
        return (
            "this CSV cannot be parsed; use one kind of line ending, close every quote and keep each row under 16 MiB, "
            f"or {remedy}"
        )
    if "Out of Memory" in said:
        return f"reading it takes more than {MEMORY_LIMIT} of memory; drop columns that are not needed, or {remedy}"
    return said


def _check_names(connection: Any, file: Path) -> None:
    """Find out whether columns of a CSV share a name, for DuckDB gives all but the first another one: answer_1.

    Raises:
        UserError: they do.
    """
    names = [name for (name, *_) in connection.execute("DESCRIBE parsed").fetchall()]
    # DuckDB does not tell names apart by case.
    known = {name.casefold() for name in names}
    renamed = [name for name in names if re.search(r"_\d+$", name) and re.sub(r"_\d+$", "", name).casefold() in known]
    if not renamed:
        return
    [(delimiter, quote, n_skipped)] = connection.execute(_SQL["dialect"], [one_file(file)]).fetchall()
    with file.open(encoding="utf-8-sig", newline="") as text:
        head = itertools.islice(text, n_skipped, None)
        given = next(csv.reader(head, delimiter=delimiter, quotechar=quote if len(quote) == 1 else '"'))
    given = [name.strip() for name in given]
    twice = [name for name in renamed if name not in given]
    # promptfoo has columns of the same names after each of its outputs, which are called [PROVIDER] PROMPT.
    outputs = sum(bool(re.match(r"\[[^\]]+\]", name)) for name in given)
    if twice and not (outputs and all(given.count(re.sub(r"_\d+$", "", name)) == outputs for name in twice)):
        called = listed(list(dict.fromkeys(re.sub(r"_\d+$", "", name) for name in twice)))
        raise UserError(f"{file}: several columns are called {called}; rename all but one")


def table_name(*parts: str) -> str:
    """The name of a table in SQL, each of whose parts may be SCHEMA.TABLE."""
    return ".".join('"' + one.replace('"', '""') + '"' for part in parts for one in part.split("."))


def read_table(file: Path, table: str) -> Iterator[Raw]:
    """The rows of a table, or of a view of tables, in a DuckDB file; `table` may be SCHEMA.TABLE.

    Raises:
        UserError: there is no such file or table, or it cannot be read.
    """
    import duckdb

    if not file.is_file():
        raise UserError(f"{file}: there is no such DuckDB file")
    check_kind(file)
    name = table_name(table)
    try:
        # A view in a file from elsewhere must not read other files of this machine or fetch anything, and its use of
        # memory, disk and time is limited.
        limits = {"enable_external_access": False, "memory_limit": MEMORY_LIMIT, "temp_directory": ""}
        with session(str(file), read_only=True, config=limits) as connection:
            [(is_view,)] = connection.execute(_SQL["is_view"], [table.rpartition(".")[2]]).fetchall()
            try:
                yield from _rows(connection, f"SELECT * FROM {name}", [], longest_s=_LONGEST_S if is_view else None)
            except duckdb.CatalogException as error:
                there = [name for (name,) in connection.execute(_SQL["tables"]).fetchall()]
                has = f"it has {listed(there)}" if there else "it has no tables"
                raise UserError(f"{file}::{table}: there is no such table; {has}") from error
    except duckdb.Error as error:
        raise UserError(_why_no_rows(file, table, error)) from error


def _why_no_rows(file: Path, table: str, error: Exception) -> str:
    """What keeps the rows of a table from being read, as people know it; else in DuckDB's words."""
    said = first_line(error)
    if "Could not set lock" in said:
        return f"{file}: another program has it open for writing; close it there, or export the table as Parquet"
    if "Interrupted" in said or "Out of Memory" in said:
        return (
            f"{file}::{table}: takes more than {_LONGEST_S:.0f} s or {MEMORY_LIMIT} of memory to read; if that "
            "is right for this view, write its rows to a Parquet file, and name that"
        )
    if "disabled by configuration" in said:
        return f"{file}::{table}: it is a view of other files, which none of a loaded file may read; name them instead"
    return f"{file}::{table}: {said}"


def _rows(
    connection: Any,
    query: str,
    options: list[str],
    skipping: Collection[int] = (),
    longest_s: float | None = None,
) -> Iterator[Raw]:
    """The rows of a query, numbered from 1; the numbers `skipping` belong to rows not among them.

    Raises:
        duckdb.InterruptException: it takes longer than `longest_s` seconds until all rows are read.
    """
    end = None if longest_s is None else time.monotonic() + longest_s
    with _until(connection, end):
        result = connection.execute(query, options)
    names = [column[0] for column in result.description]
    numbers = (number for number in itertools.count(1) if number not in skipping)
    while True:
        with _until(connection, end):
            batch = result.fetchmany(_BATCH)
        if not batch:
            return
        for values in batch:
            yield Raw(next(numbers), dict(zip(names, values, strict=True)))


def _until(connection: Any, end: float | None) -> AbstractContextManager[None]:
    return nullcontext() if end is None else time_limit(connection, end - time.monotonic())


def _rejected(connection: Any) -> list[Raw]:
    """Rows of a CSV that have too many or too few columns, or broken quotes."""
    return [
        Raw(int(row), None, f"row {row}: {first_line(message)}", text)
        for row, text, message in connection.execute(_SQL["rejected"]).fetchall()
    ]
