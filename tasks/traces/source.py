"""Sources of traces: a relation with one row per trace, whatever the source is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import clean, steps
from answerkey.tasks.load.plain import JSON_LINES, PARQUET, kind_of
from answerkey.tasks.load.remote import URL, download, without_secrets
from answerkey.tasks.load.rows import parse_line
from answerkey.tasks.load.sources import TABLE, files_of
from answerkey.tasks.load.tables import table_name
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, quoted

if TYPE_CHECKING:
    import duckdb

SUPPORTED = "JSONL or Parquet files, a folder or pattern of them, FILE.duckdb::TABLE, or a URL"


def absolute(source: str, folder: Path) -> str:
    """The source with its path as seen from `folder`; a URL as it is."""
    return source if URL.match(source) else os.path.normpath(folder / Path(source).expanduser())


def files_in(source: str) -> list[str]:
    """The files of a source, in the order of their names: none for a folder that has none yet.

    Raises:
        UserError: there is no such file or folder, nothing fits the pattern, or a file is of no known kind.
    """
    if Path(source).is_dir():
        return [str(file) for file in sorted(Path(source).rglob("*")) if _kind(file.name) and file.is_file()]
    files = files_of(source, SUPPORTED) or [source]
    for file in files:
        if not URL.match(file) and not Path(file).is_file():
            raise UserError(f"{file}: there is no such file or folder")
        if not _kind(file):
            raise UserError(f"{without_secrets(file)}: is of an unknown kind; give {SUPPORTED}")
    return files


def _kind(file: str) -> str:
    ending = kind_of(file.split("?", 1)[0] if URL.match(file) else file)
    return "json" if ending in JSON_LINES else "parquet" if ending in PARQUET else ""


def check_source(source: str) -> None:
    """Check a source before anything is read.

    Raises:
        UserError: as `files_in`; or there is no such DuckDB file.
    """
    if table := TABLE.match(source):
        if not Path(table["file"]).is_file():
            raise UserError(f"{table['file']}: there is no such DuckDB file")
    else:
        files_in(source)


@dataclass(frozen=True, slots=True)
class Relation:
    """A query with the columns file, row (counts from 1 through all files) and trace (JSON), and its parameters.

    `unread` is a Parquet file (file, row, why, text) in which the rows that are no trace have a reason; None: there
    are none. `folders` are those that the query reads from.
    """

    query: str
    bound: dict[str, Any]
    folders: frozenset[str] = frozenset()
    unread: str | None = None


_BLANK = " \t\n\v\f\r"
"""What is a blank to DuckDB."""

_SQL = statements(__name__)


def traces_in(connection: duckdb.DuckDBPyConnection, source: str, out: Path) -> Relation:
    """The traces of a source, and the lines that are not traces.

    Downloads and rows that are read again go to the folder `out`. The text of a line that Python reads as JSON and
    DuckDB does not is repaired: a byte order mark is removed, and invalid characters become U+FFFD, for validation to
    find.

    Raises:
        UserError: the source is not there.
        duckdb.Error: it cannot be read.
    """
    if table := TABLE.match(source):
        connection.execute(f"ATTACH {quoted(Path(table['file']).absolute())} AS logged (READ_ONLY)")
        return Relation(_SQL["table"].format(name=table_name("logged", table["table"])), {"file": source})
    sources = files_in(source)
    files = [str(download(one, out / f"download-{n}") if URL.match(one) else one) for n, one in enumerate(sources)]
    bound: dict[str, Any] = {"files": files, "names": [without_secrets(one) for one in sources]}
    queries = []
    for kind in ("json", "parquet"):
        if of_kind := [one_file(file) for file in files if _kind(file) == kind]:
            bound[f"{kind}_files"] = of_kind
            queries.append(_SQL[kind])
    if not queries:
        return Relation(_SQL["nothing"], {})
    folders = frozenset(str(Path(file).absolute().parent) for file in files)
    return _with_repairs(connection, Relation(" UNION ALL ".join(queries), bound, folders), out)


def _with_repairs(connection: duckdb.DuckDBPyConnection, relation: Relation, out: Path) -> Relation:
    """The relation with the rows that DuckDB cannot read, as Python reads them."""
    places = connection.execute(_SQL["unread"].format(query=relation.query), relation.bound).fetchall()
    if not places:
        return relation
    files = dict(zip(relation.bound["names"], relation.bound["files"], strict=True))
    lines = [line for name, first, rows in places for line in _reread(files[name], name, first, set(rows))]
    file = out / "reread.parquet"
    _write(file, lines)
    mended = 'SELECT file, "row", text::JSON AS trace FROM read_parquet($reread) WHERE why IS NULL'
    query = f"SELECT * FROM ({relation.query}) WHERE trace IS NOT NULL UNION ALL {mended}"
    return replace(relation, query=query, bound={**relation.bound, "reread": one_file(file)}, unread=str(file))


def _reread(file: str, name: str, first: int, wanted: set[int]) -> Iterator[tuple[str, int, str | None, str]]:
    """The rows `wanted` of a file as Python reads them: its name, the row, why it is no JSON or None, and the text.

    `first` is the number of its first row.
    """
    with open(file, encoding="utf-8", errors="replace", newline="\n") as lines:
        # DuckDB does not count blank lines, and to it a byte order mark is no blank.
        full = ((number, text) for number, line in enumerate(lines, start=1) if (text := line.strip(_BLANK)))
        for row, (number, line) in islice(enumerate(full, start=first), max(wanted) - first + 1):
            if row in wanted:
                raw = parse_line(number, line.removeprefix("\ufeff"))
                text = line if raw.record is None else json.dumps(raw.record, ensure_ascii=False)
                yield name, row, raw.error, clean(text) or ""


def _write(file: Path, lines: Sequence[tuple[str, int, str | None, str]]) -> None:
    """Lines that were read again, as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("file", pa.string()), ("row", pa.int64()), ("why", pa.string()), ("text", pa.string())])
    columns = dict(zip(schema.names, zip(*lines, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=schema), file)


def path_problem(path: object) -> str | None:
    """What is wrong with a path as a user wrote it, with what to write instead; None where nothing is."""
    if not isinstance(path, str) or not path.strip():
        return "a path is a text like metadata.user.id or messages[0].text"
    if ".." in path or "*" in path:
        return f"{path!r} names several values; write the path of one, like messages[0].text"
    # What follows the names and numbers is left of a bracket that is not closed, or holds no number.
    if not re.fullmatch(r"\$?\.?[^\[\]]+(\[\d+\][^\[\]]*)*", path.strip()) or not steps(path) or path.endswith("."):
        return f"{path!r} is not a path; write names with dots and numbers in brackets, like messages[0].text"
    return None
