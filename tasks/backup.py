"""A copy of a home in a folder, made while runs go on, which is a home itself."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import FILE as LEDGER
from answerkey.tasks.export import new_folder
from answerkey.tasks.publish.artifacts import FOLDER as PAGES
from answerkey.tasks.releases.provenance import FOLDER as ANSWERS
from answerkey.tasks.validate.library import FOLDER as EXPECTATIONS
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import UNFINISHED
from answerkey.tasks.warehouse.warehouse import FILE, WarehouseFile

FOLDERS = (PAGES, "parts", ANSWERS)
"""The files of a home that a copy has. The others are of one machine, or are made anew: working files, embeddings."""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What the copy has."""

    reports: int
    calls: int
    """Of the ledger."""
    files: int
    size: int
    """Bytes of all."""


def backup(home: Home, folder: Path) -> BackedUp:
    """Copy tables, ledger and files of a home into a new folder, which can be used as a home, or put in its place.

    Each is one moment of it: first the tables, then the ledger and the files, which only get more, so that all that the
    tables name is there. Runs wait for the copy of the tables, and for nothing else.

    Raises:
        UserError: the home is on a lake, there is nothing in it, or the folder cannot be used.
    """
    if not isinstance(home.place, Path):
        raise UserError(
            f"{home}: back up the database of the catalog and the bucket; `answerkey warehouse export` writes tables"
        )
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet, so there is nothing to back up")
    home.warehouse.finish_removal()
    with new_folder(home, folder) as unfinished:
        WarehouseFile(home.place).copy_to(unfinished / FILE)
        calls = _copy_ledger(home.place / LEDGER, unfinished / LEDGER)
        found = [file.name for folder in (*FOLDERS, EXPECTATIONS) for file in home.store.files(folder)]
        files = [name for name in found if not name.endswith((UNFINISHED, ".lock"))]
        for name in files:
            (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
            # A part that a run has taken in meanwhile is not needed: the next run makes it again.
            with suppress(FileNotFoundError):
                shutil.copy2(home.place / name, unfinished / name)
        [(reports,)] = Home(unfinished).rows("SELECT count(*) FROM reports")
        for lock in unfinished.glob("*.lock"):
            lock.unlink()
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return BackedUp(int(reports), calls, len(files), size)


def _copy_ledger(source: Path, target: Path) -> int:
    """Copy the state of a ledger at one moment, also while others write to it; return the number of its calls."""
    if not source.exists():
        return 0
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
        [(calls,)] = new.execute("SELECT count(*) FROM answerkey_calls").fetchall()
    return int(calls)
