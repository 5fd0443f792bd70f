"""Move a home: tables, files and the ledger, from a folder to a bucket or back, checked by their content."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import LedgerError, copy_ledger, ledger_exists
from answerkey.tasks.publish.artifacts import FOLDER as PAGES
from answerkey.tasks.releases.provenance import FOLDER as ANSWERS
from answerkey.tasks.warehouse.home import Home, Store
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import UNFINISHED

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger("answerkey")

_SQL = statements(__name__)

FOLDERS = (PAGES, "parts", ANSWERS)
"""The files of a home that are moved. The others are of one machine, or are made anew: working files, embeddings."""

_MARK = "moving.json"
"""Says in the target where it is moved from, until it is whole."""

_BATCH_ROWS = 50_000
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Moved:
    """What the target has now, as the source: tables with the number of their rows, files, calls of the ledger."""

    tables: dict[str, int]
    files: int
    size: int
    calls: int


def move(source: Home, target: Home) -> Moved:
    """Copy everything that `source` keeps into the empty home `target`, and compare the two.

    The source stays as it is. A move that was killed goes on when it is called again: what is there and equal is not
    copied again. A process that writes into the source meanwhile waits (a folder) or makes the comparison fail (files
    and ledger).

    Raises:
        UserError: there is nothing to move, or something else is in the target already; or the two are not equal at
            the end, because one of them has changed meanwhile.
    """
    if source.address == target.address:
        raise UserError(f"{source}: this is the home itself; name another one to move it to")
    with source.warehouse.reading() as rows, _moving(source, target):
        tables = {table: _move_table(table, rows, target) for (table,) in rows.execute(_SQL["tables"]).fetchall()}
        names = _move_files(source.store, target.store)
        calls = _move_ledger(source, target)
        target.store.remove(_MARK)
    return Moved(tables, len(names), sum(names.values()), calls)


@contextmanager
def _moving(source: Home, target: Home) -> Iterator[None]:
    """Claim the target for this move, and mark it as unfinished."""
    with target.warehouse.claimed("move") as mine:
        if not mine:
            raise UserError(f"{target}: another process is moving a home to it")
        if not target.store.exists(_MARK):
            _refuse_unless_empty(target)
            with target.store.atomic_write(_MARK) as file:
                file.write_text(json.dumps({"from": source.address}), encoding="utf-8")
        with target.store.read(_MARK) as mark:
            begun = json.load(mark)["from"]
        if begun != source.address:
            raise UserError(f"{target}: a move from {begun} was begun and not finished; finish that one, or empty it")
        yield


def _refuse_unless_empty(target: Home) -> None:
    found = next((file.name for folder in FOLDERS for file in target.store.files(folder)), "")
    if found or target.warehouse.exists() or ledger_exists(target.ledger):
        what = f"the file {found}" if found else "tables" if target.warehouse.exists() else "a ledger"
        raise UserError(f"{target}: there is {what} already; move to a home with nothing in it")


def _move_table(table: str, rows: duckdb.DuckDBPyConnection, target: Home) -> int:
    """Copy a table, unless its content is there already; return the number of its rows.

    Raises:
        UserError: the content of the target is another one afterwards.
    """
    wanted = _content(table, rows)
    with target.warehouse.writing() as there:
        if _content(table, there) == wanted:
            return wanted[0]
        there.execute(f"DELETE FROM {table}")
        there.register("moved_rows", rows.execute(f"SELECT * FROM {table}").to_arrow_reader(_BATCH_ROWS))
        there.execute(f"INSERT INTO {table} BY NAME SELECT * FROM moved_rows")
        there.unregister("moved_rows")
        if _content(table, there) != wanted:
            raise UserError(f"{target}: the table {table} is not equal to that of the source; nothing of it was kept")
    log.info("%s: %s rows", table, f"{wanted[0]:,}")
    return wanted[0]


def _content(table: str, connection: duckdb.DuckDBPyConnection) -> tuple[int, int, int]:
    """The number of rows, and two sums over their hashes, which do not depend on the order of the rows.

    Columns are named, since those of a table that was migrated come in another order.
    """
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    columns = ", ".join(f'"{name}" := "{name}"' for name in sorted(row[0] for row in described))
    query = _SQL["content"].replace("COLUMNS_BY_NAME", columns).replace("MOVED_TABLE", table)
    [(count, mixed, added)] = connection.execute(query).fetchall()
    return int(count), int(mixed), int(added)


def _move_files(source: Store, target: Store) -> dict[str, int]:
    """Copy the files that the target has not; return the sizes of all.

    Raises:
        UserError: the target has other files afterwards.
    """
    wanted = _names(source)
    there = _names(target)
    for name in wanted:
        if name not in there or _digest(source, name) != _digest(target, name):
            _copy_file(source, target, name)
    changed = set(_names(source)) ^ set(_names(target))
    if changed:
        raise UserError(f"{min(changed)}: this file appeared or disappeared during the move; run the move again")
    return wanted


def _copy_file(source: Store, target: Store, name: str) -> None:
    with source.read(name) as content, target.atomic_write(name) as unfinished, unfinished.open("wb") as copy:
        shutil.copyfileobj(content, copy, _BLOCK)
    if _digest(source, name) != _digest(target, name):
        raise UserError(f"{name}: this file is not equal to that of the source; run the move again")
    log.info("%s", name)


def _names(store: Store) -> dict[str, int]:
    """The files to move, with their sizes; no locks, and none that is being written."""
    found = [file for folder in FOLDERS for file in store.files(folder)]
    return {file.name: file.size for file in found if not file.name.endswith((UNFINISHED, ".lock"))}


def _digest(store: Store, name: str) -> str:
    with store.read(name) as content:
        digest = hashlib.sha256()
        while block := content.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _move_ledger(source: Home, target: Home) -> int:
    """Copy the ledger, if there is one; return the number of its calls.

    Raises:
        UserError: the ledger of the target is another one afterwards.
    """
    if not ledger_exists(source.ledger):
        return 0
    try:
        return copy_ledger(source.ledger, target.ledger)
    except LedgerError as error:
        raise UserError(f"{target}: {error}") from error
