"""Remove what runs that were killed left behind. Reports, the ledger and registered answers are never touched."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from answerkey.tasks.releases.register import FOLDER
from answerkey.tasks.warehouse.home import Home


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many folders and files went, and how much room that made."""

    folders: int
    files: int
    size: int


def prune(home: Home, days: float) -> Pruned:
    """Remove work folders and finished parts that nothing has touched for `days` days.

    A part is what a killed run had finished scoring; the same evaluation, started again in time, takes it up.
    """
    before = time.time() - days * 86_400
    running = _running(home)
    folders = [
        folder
        for place in ("runs", FOLDER)
        for folder in _children(home.folder / place)
        if folder.is_dir() and folder.name not in running and _newest(folder) < before
    ]
    old = [file for file in (home.folder / "parts").rglob("*.parquet*") if file.stat().st_mtime < before]
    old += [
        file for file in _children(home.folder / FOLDER) if file.suffix == ".part" and file.stat().st_mtime < before
    ]
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
    size += sum(file.stat().st_size for file in old)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    for file in old:
        file.unlink(missing_ok=True)
        with suppress(OSError):
            file.parent.rmdir()
    return Pruned(len(folders), len(old), size)


def _running(home: Home) -> set[str]:
    if not home.warehouse.exists():
        return set()
    with home.warehouse.writing() as warehouse:
        return {
            run_id for (run_id,) in warehouse.execute("SELECT run_id FROM runs WHERE status = 'running'").fetchall()
        }


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _newest(folder: Path) -> float:
    return max(file.stat().st_mtime for file in [folder, *folder.rglob("*")])
