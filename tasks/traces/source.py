"""Sources of traces: a relation with one row per trace, whatever the source is."""

from __future__ import annotations

import glob
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import clean, steps
from answerkey.tasks.load.plain import JSON_LINES, PARQUET
from answerkey.tasks.load.remote import URL, load_httpfs, without_secrets
from answerkey.tasks.load.rows import parse_line
from answerkey.tasks.load.sources import TABLE
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, quoted

if TYPE_CHECKING:
    import duckdb

SUPPORTED = "JSONL or Parquet files, a folder or pattern of them, FILE.duckdb::TABLE, or a URL"


def absolute(source: str, folder: Path) -> str:
    """The source with its path as seen from `folder`; a URL as it is."""
    return source if URL.match(source) else os.path.normpath(folder / Path(source).expanduser())


def files_of(source: str) -> list[str]:
    """The files of a source, in the order of their names: none for a folder without any, itself for a URL.

    Raises:
        UserError: there is no such file or folder, nothing fits the pattern, or a file is of no known kind.
    """
    if URL.match(source):
        found = [source]
    elif os.path.isdir(source):
        found = [str(file) for file in sorted(Path(source).rglob("*")) if _kind(file.name) and file.is_file()]
    elif os.path.isfile(source):
        found = [source]
    else:
        found = sorted(filter(os.path.isfile, glob.glob(source, recursive=True)))
        if not found:
            raise UserError(f"{source}: there is no such file or folder, and no file fits it as a pattern")
    for file in found:
        if not _kind(file):
            raise UserError(f"{without_secrets(file)}: is of no known kind; give {SUPPORTED}")
    return found


def _kind(file: str) -> str:
    name = file.split("?", 1)[0].lower() if URL.match(file) else file.lower()
    return "json" if name.endswith(JSON_LINES) else "parquet" if name.endswith(PARQUET) else ""


def check_source(source: str) -> None:
    """Check a source before anything is read.

    Raises:
        UserError: as `files_of`; or there is no such DuckDB file.
    """
    if table := TABLE.match(source):
        if not Path(table["file"]).is_file():
            raise UserError(f"{table['file']}: there is no such DuckDB file")
    else:
        files_of(source)


@dataclass(frozen=True, slots=True)
class Relation:
    """A query with the columns file, row (counts from 1 through all files) and trace (JSON), and its parameters.

    `unread` is a Parquet file (file, row, why, text) in which the rows that are no trace have a reason; None: there
    are none.
    """

    query: str
    bound: dict[str, Any]
    unread: str | None = None


_BLANK = " \t\n\v\f\r"
"""What is a blank to DuckDB."""

_SQL = statements(__name__)
_SHOWN = "regexp_replace(regexp_replace(filename, '://[^/@]*@', '://…@'), '[?].*', '?…')"
"""`without_secrets` of the name of a file that is a URL: the name is kept in the warehouse."""


def traces_in(connection: duckdb.DuckDBPyConnection, source: str, out: Path) -> Relation:
    """The traces of a source, and the lines that are not traces; rows that are read again go to the folder `out`.

    The text of a line that Python reads as JSON and DuckDB does not is repaired: a byte order mark is removed, and
    invalid characters become U+FFFD, for validation to find.

    Raises:
        UserError: the source is not there.
        duckdb.Error: it cannot be read.
    """
    relation = _relation(connection, source)
    if "json_files" not in relation.bound:
        return relation
    query = f'SELECT file, "row" FROM ({relation.query}) WHERE trace IS NULL'
    places = connection.execute(query, relation.bound).fetchall()
    if not places:
        return relation
    firsts = connection.execute(
        f'SELECT file, min("row") FROM ({relation.query}) WHERE file IN (SELECT unnest($named)) GROUP BY file',
        {**relation.bound, "named": list({file for file, _ in places})},
    ).fetchall()
    file = out / "reread.parquet"
    _write(file, list(_reread(places, dict(firsts))))
    mended = 'SELECT file, "row", text::JSON AS trace FROM read_parquet($reread) WHERE why IS NULL'
    query = f"SELECT * FROM ({relation.query}) WHERE trace IS NOT NULL UNION ALL {mended}"
    return Relation(query, {**relation.bound, "reread": one_file(file)}, str(file))


def _relation(connection: duckdb.DuckDBPyConnection, source: str) -> Relation:
    if table := TABLE.match(source):
        connection.execute(f"ATTACH {quoted(Path(table['file']).absolute())} AS logged (READ_ONLY)")
        name = ".".join('"' + part.replace('"', '""') + '"' for part in ("logged", *table["table"].split(".")))
        return Relation(_SQL["table"].format(name=name), {"file": source})
    files = files_of(source)
    remote = URL.match(source) is not None
    if remote:
        load_httpfs(connection)
    # A URL may be a pattern of its own; names of files are taken as they are.
    bound: dict[str, Any] = {}
    for file in files:
        bound.setdefault(f"{_kind(file)}_files", []).append(file if remote else one_file(file))
    nothing = 'SELECT NULL::VARCHAR AS file, NULL::BIGINT AS "row", NULL::JSON AS trace WHERE false'
    kinds = [kind for kind in ("json", "parquet") if f"{kind}_files" in bound]
    queries = [_SQL[kind].format(name=_SHOWN if remote else "filename") for kind in kinds]
    return Relation(" UNION ALL ".join(queries) or nothing, bound)


def _write(file: Path, lines: Sequence[tuple[str, int, str | None, str]]) -> None:
    """Lines that were read again, as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("file", pa.string()), ("row", pa.int64()), ("why", pa.string()), ("text", pa.string())])
    columns = dict(zip(schema.names, zip(*lines, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=schema), file)


def _reread(places: Sequence[tuple[str, int]], firsts: dict[str, int]) -> Iterator[tuple[str, int, str | None, str]]:
    """The rows at `places` as Python reads them: file, row, why it is no JSON or None, and the text.

    `firsts` has the number of the first row of each file.
    """
    rows: dict[str, set[int]] = defaultdict(set)
    for file, row in places:
        rows[file].add(row)
    for file, wanted in rows.items():
        if URL.match(file):
            yield from ((file, row, f"row {row} is not JSON", f"row {row} of {file}") for row in sorted(wanted))
            continue
        with open(file, encoding="utf-8", errors="replace", newline="\n") as lines:
            # DuckDB does not count blank lines, and to it a byte order mark is no blank.
            full = ((number, text) for number, line in enumerate(lines, start=1) if (text := line.strip(_BLANK)))
            counted = enumerate(full, start=firsts[file])
            for row, (number, line) in islice(counted, max(wanted) - firsts[file] + 1):
                if row in wanted:
                    raw = parse_line(number, line.removeprefix("\ufeff"))
                    text = line if raw.record is None else json.dumps(raw.record, ensure_ascii=False)
                    yield file, row, raw.error, clean(text) or ""


def path_problem(path: object) -> str | None:
    """What is wrong with a path as a user wrote it, with what to write instead; None where nothing is."""
    if not isinstance(path, str) or not path.strip():
        return "a path is a text like metadata.user.id or messages[0].text"
    if ".." in path or "*" in path:
        return f"{path!r} names several values; write the way to one, like messages[0].text"
    # What follows the names and numbers is left of a bracket that is not closed, or holds no number.
    if not re.fullmatch(r"\$?\.?[^\[\]]+(\[\d+\][^\[\]]*)*", path.strip()) or not steps(path) or path.endswith("."):
        return f"{path!r} is no path; write names with dots and numbers in brackets, like messages[0].text"
    return None
