"""Read any supported source row by row, as records with their row number. Nothing is lost silently.

A row that cannot be parsed comes out as a `Raw` with an error and its text, for the quarantine.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, quoted, scratch, session

_SQL = statements(__name__)
URL = re.compile(r"^(https?|s3|gs|gcs|r2|hf|az|abfss)://")
TABLE = re.compile(r"^(?P<file>.+\.(?:duckdb|db|ddb))::(?P<table>.+)$")
JSON_LINES = (".jsonl", ".ndjson")
_CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
SUPPORTED = "CSV, TSV, JSONL, JSON, Parquet, FILE.duckdb::TABLE, or a URL of one of these"
_BATCH = 2_000


def without_secrets(text: str) -> str:
    """A text whose URLs lack the parts that may hold passwords and tokens."""
    text = re.sub(r"://[^/@\s]*@", "://…@", text)
    # The quote and the colon that may follow belong to the sentence around the URL.
    return re.sub(r"(://[^\s?]*)\?[^\s'\"]*?(?=[:;,]?([\s'\"]|$))", r"\1?…", text)


@dataclass(frozen=True, slots=True)
class Raw:
    """One row as read: its 1-based number in the source, and the record, or why it could not be read."""

    row: int
    record: Mapping[str, Any] | None
    error: str | None = None
    text: str | None = None


def read(source: str, work: Path) -> Iterator[Raw]:
    """Rows of a file, a URL or a DuckDB table (`FILE.duckdb::TABLE`).

    Args:
        source: see `SUPPORTED`.
        work: a folder for temporary files (downloads, repaired encodings, spilling).

    Raises:
        UserError: the source is missing, of no known kind, or not what its ending says.
    """
    table = TABLE.match(source)
    if table:
        yield from _read_table(Path(table["file"]), table["table"], work)
        return
    file = _download(source, work) if URL.match(source) else Path(source)
    if not file.is_file():
        raise UserError(f"{without_secrets(source)}: there is no such file; give {SUPPORTED}")
    kind = file.suffix.lower()
    if file.stat().st_size == 0:
        raise UserError(f"{without_secrets(source)}: the file is empty; it needs at least one row")
    if kind in JSON_LINES:
        yield from _read_json_lines(file)
    elif kind == ".json":
        yield from _read_json(file)
    elif kind in PARQUET:
        yield from _read_parquet(file, work)
    elif kind in _CSV:
        yield from _read_csv(file, work)
    else:
        shown = without_secrets(source)
        raise UserError(f"{shown}: {kind or 'no file ending'!r} is not a known kind; give {SUPPORTED}")


def _read_json_lines(file: Path) -> Iterator[Raw]:
    # Undecodable bytes become U+FFFD, which validation finds and quarantines by row.
    with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield parse_line(number, line.strip())


def parse_line(number: int, line: str) -> Raw:
    """One line of a JSONL file, counted from 1."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Raw(number, None, f"line {number} is not JSON: {error}", line)
    if not isinstance(record, dict):
        return Raw(number, None, f"line {number} is a JSON {type(record).__name__}, not an object", line)
    return Raw(number, record)


def _read_json(file: Path) -> Iterator[Raw]:
    try:
        data = json.loads(file.read_text(encoding="utf-8-sig", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: not JSON ({error}); if it has one object per line, name it .jsonl") from error
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list)]
        data = lists[0] if len(lists) == 1 else data
    if not isinstance(data, list):
        raise UserError(f"{file}: expected a list of objects, or an object with one list of them")
    for number, record in enumerate(data, start=1):
        if isinstance(record, dict):
            yield Raw(number, record)
        else:
            kind = type(record).__name__
            yield Raw(number, None, f"item {number} is a JSON {kind}, not an object", json.dumps(record))


def _read_parquet(file: Path, work: Path) -> Iterator[Raw]:
    import duckdb

    with scratch(work) as connection:
        try:
            yield from _rows(connection, "SELECT * FROM read_parquet(?)", [one_file(file)])
        except duckdb.Error as error:
            raise UserError(f"{file}: {_first_line(error)}") from error


def _read_csv(file: Path, work: Path) -> Iterator[Raw]:
    import duckdb

    query = "read_csv(?, all_varchar = true, header = true, store_rejects = true, max_line_size = 16777216)"
    with scratch(work) as connection:
        try:
            # All of it first: only then are the rejected rows known, which the others are numbered around.
            source = one_file(_valid_utf8(file, work))
            connection.execute(f"CREATE TEMP TABLE parsed AS SELECT * FROM {query}", [source])
            rejected = _rejected(connection)
            yield from _rows(connection, "SELECT * FROM parsed", [], skipping={raw.row for raw in rejected})
            yield from rejected
        except duckdb.Error as error:
            raise UserError(f"{file}: {_first_line(error)}") from error


def _read_table(file: Path, table: str, work: Path) -> Iterator[Raw]:
    import duckdb

    if not file.is_file():
        raise UserError(f"{file}: there is no such DuckDB file")
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    try:
        with session(str(file), read_only=True) as connection:
            yield from _rows(connection, f"SELECT * FROM {name}", [])
    except duckdb.Error as error:
        raise UserError(f"{file}::{table}: {_first_line(error)}") from error


def _rows(connection: Any, query: str, options: list[str], skipping: Collection[int] = ()) -> Iterator[Raw]:
    """The rows of a query, numbered from 1; the numbers `skipping` belong to rows that are not among them."""
    result = connection.execute(query, options)
    names = [column[0] for column in result.description]
    numbers = (number for number in itertools.count(1) if number not in skipping)
    while batch := result.fetchmany(_BATCH):
        for values in batch:
            yield Raw(next(numbers), dict(zip(names, values, strict=True)))


def _rejected(connection: Any) -> list[Raw]:
    """Rows of a CSV that have too many or too few columns, or broken quotes."""
    return [
        Raw(int(row), None, f"row {row}: {_first_line(message)}", text)
        for row, text, message in connection.execute(_SQL["rejected"]).fetchall()
    ]


def _valid_utf8(file: Path, work: Path) -> Path:
    """The file, or a copy in which undecodable bytes are U+FFFD, which validation finds."""
    try:
        with file.open(encoding="utf-8") as text:
            while text.read(1 << 20):
                pass
    except UnicodeDecodeError:
        work.mkdir(parents=True, exist_ok=True)
        copy = work / f"repaired-{file.name}"
        with (
            file.open(encoding="utf-8", errors="replace", newline="") as text,
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            while piece := text.read(1 << 20):
                out.write(piece)
        return copy
    return file


def _download(url: str, work: Path) -> Path:
    import duckdb

    name = url.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    target = work / f"download-{name}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        with scratch(work) as connection:
            load_httpfs(connection)
            [(content,)] = connection.execute("SELECT content FROM read_blob(?)", [url]).fetchall()
    except (duckdb.Error, ValueError) as error:
        raise UserError(without_secrets(f"{url}: could not be read: {_first_line(error)}")) from error
    target.write_bytes(content)
    return target


def load_httpfs(connection: Any) -> None:
    """Load DuckDB's extension for URLs from its Python package; nothing is downloaded."""
    from importlib.util import find_spec

    spec = find_spec("duckdb_extension_httpfs")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("reading URLs needs the package duckdb-extension-httpfs: pip install it, or download the file")
    found = sorted(Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension*"))
    connection.execute(f"LOAD {quoted(found[0])}")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0]
