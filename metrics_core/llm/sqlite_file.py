"""The file of the ledger in a folder: how it is made, whole or not at all, and opened."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from answerkey.metrics_core.llm.ledger import LedgerError
from answerkey.metrics_core.llm.sqlite_statements import SCHEMA, VERSION

WAIT_SECONDS = 60.0
"""For another process that writes."""
APPLICATION = 0x616B6C67
"""How the file says what it is."""


def connected(address: str) -> sqlite3.Connection:
    """A connection to the database at an address of SQLite."""
    found = sqlite3.connect(
        address, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=address != ":memory:"
    )
    # Bytes that are no text are noticed where they are read, and do not end the reading of all others.
    found.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    return found


def make(db: sqlite3.Connection) -> None:
    """Make the tables."""
    db.executescript(f"{SCHEMA}PRAGMA user_version = {VERSION}; PRAGMA application_id = {APPLICATION};")


def made(file: Path) -> None:
    """Make the file unless it is there: whole and under another name first, so that nobody sees half of it."""
    if file.exists():
        if file.stat().st_size == 0:
            raise LedgerError(f"the ledger {file} is empty: restore it from a backup, or remove it to begin a new one")
        return
    with _locked(file.parent):
        if file.exists():
            return
        log = Path(f"{file}-wal")
        if log.exists() and log.stat().st_size:
            raise LedgerError(f"the ledger {file} is gone, but {log.name} beside it is not: restore it from a backup")
        unnamed = file.parent / f".{uuid.uuid4().hex}"
        try:
            db = connected(f"file:{quote(str(unnamed))}")
            try:
                db.execute("PRAGMA journal_mode = WAL")
                make(db)
            finally:
                db.close()
            unnamed.rename(file)
        finally:
            for name in (unnamed, Path(f"{unnamed}-wal"), Path(f"{unnamed}-shm")):
                name.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def writable(file: Path) -> bool:
    """Whether this process may write it."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in (file, file.parent))


def for_reading(file: Path) -> sqlite3.Connection:
    """A connection that writes nothing. Without the files of the WAL beside it, there is nothing to wait for."""
    log = Path(f"{file}-wal")
    still = not (log.exists() and log.stat().st_size)
    return connected(f"file:{quote(str(file))}?{'immutable=1' if still else 'mode=ro'}")
