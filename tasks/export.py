"""Tables and views of the warehouse as files for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import quoted

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
Format = Literal["parquet", "csv"]
FORMULA = r"(\s*[=+@＝＋－＠-]|[\t\r\n])"
"""How a text begins that a spreadsheet runs, as a regular expression of DuckDB and of Python."""
_NESTED = ("[", "MAP", "STRUCT")


def export(home: Home, folder: Path, names: Sequence[str] = (), *, format: Format = "parquet") -> dict[str, int]:
    """Write tables and views, each into a file of its own in a new folder, all from one state of the warehouse.

    Args:
        folder: made here; outside of the home, in which nothing may be left of what is forgotten.
        names: tables and views; none: all tables.
        format: `csv` for spreadsheets: lists and maps are JSON, and a text that a spreadsheet would take for a formula
            gets an apostrophe before it.

    Returns:
        By name, the number of rows.

    Raises:
        UserError: there is no such table or view, or the folder cannot be used.
    """
    wanted = list(names) or [name for name, relation in relations().items() if not relation.is_view]
    for name in wanted:
        if name not in relations():
            raise UserError(f"{name}: no such table or view{did_you_mean(name, list(relations()))}")
    with new_folder(home, folder) as unfinished, home.warehouse.reading() as warehouse:
        return {name: _write(warehouse, name, unfinished / f"{name}.{format}", format) for name in wanted}


@contextmanager
def new_folder(home: Home, folder: Path) -> Iterator[Path]:
    """A folder to fill with what is copied out of a home, which becomes `folder` when it is whole, or is removed.

    Raises:
        UserError: `folder` is there already, or would be within the home.
    """
    if folder.exists():
        raise UserError(f"{folder}: this is there already; name a folder that is not")
    if isinstance(home.place, Path) and home.place.resolve() in folder.resolve().parents:
        raise UserError(f"{folder}: name a folder outside of the home {home}: forgetting does not look for copies")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A folder of this run alone: one of a fixed name beside `folder` may be the user's.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as own:
        unfinished = Path(own, folder.name)
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(folder)


def _write(warehouse: duckdb.DuckDBPyConnection, name: str, file: Path, format: Format) -> int:
    options = "FORMAT parquet, COMPRESSION zstd"
    columns = "*"
    if format == "csv":
        options = "FORMAT csv, HEADER"
        described = warehouse.execute(f"DESCRIBE {name}").fetchall()
        columns = ", ".join(_harmless(column, kind) for column, kind, *_ in described)
    [(count,)] = warehouse.execute(f"COPY (SELECT {columns} FROM {name}) TO {quoted(file)} ({options})").fetchall()
    return int(count)


def _harmless(column: str, kind: str) -> str:
    if any(mark in kind for mark in _NESTED):
        return f'to_json("{column}")::VARCHAR AS "{column}"'
    if kind in ("VARCHAR", "JSON"):
        return _SQL["harmless"].replace("FORMULA", FORMULA).replace("TEXT_COLUMN", f'"{column}"')
    return f'"{column}"'
