"""The one way to the DuckDB file: short sessions behind a lock, shared by threads and processes.

DuckDB admits one writing process and then no readers. So no process keeps the file open: a session takes an
advisory lock on a file beside it, opens, does its work and closes. Unlike retrying after DuckDB's own
refusal, the lock is fair.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.migrate import VERSION, migrate, version_of
from answerkey.tasks.warehouse.store import whole

if TYPE_CHECKING:
    import duckdb

FILE = "answerkey.duckdb"
MEMORY_LIMIT = "400MB"
"""DuckDB spills to disk above this, so that a million rows fit into a small machine."""

_WAIT_FOR_OTHERS_S = 60.0


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The tables of a home, in one DuckDB file in its folder."""

    folder: Path

    @property
    def file(self) -> Path:
        """The DuckDB file."""
        return self.folder / FILE

    def exists(self) -> bool:
        """Whether anything has been written yet."""
        return self.file.exists()

    @contextmanager
    def writing(
        self, wait_s: float = _WAIT_FOR_OTHERS_S, *, taken_in: Sequence[str] = ()
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction: committed at the end, rolled back on any error.

        Tables of an older version are migrated first; a copy of the file stays beside it.

        The files `taken_in`, by their names in the store, are removed once it is committed and before the next session
        gets the lock: a run that shares them either finds each of them whole, or finds its rows in the warehouse.

        Raises:
            UserError: a newer answerkey made the tables, or another program has kept the file open for longer than
                `wait_s` seconds.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX), self._writable(wait_s) as connection:
            connection.execute("BEGIN")
            try:
                migrate(connection)
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            for name in taken_in:
                file = self.folder / name
                file.unlink(missing_ok=True)
                with suppress(OSError):
                    file.parent.rmdir()

    @contextmanager
    def reading(self, wait_s: float = _WAIT_FOR_OTHERS_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only session; several may read at once. Tables of an older version are migrated first.

        Raises:
            UserError: there is no warehouse yet, a newer answerkey made it, or another program has it open for
                writing.
        """
        if not self.exists():
            raise UserError(f"{self.folder}: no warehouse here yet; run `answerkey evaluate` first, or give --home")
        with self._locked(fcntl.LOCK_SH), self._connected(wait_s, read_only=True) as connection:
            if version_of(connection) == VERSION:
                yield connection
                return
        with self.writing(wait_s):
            pass  # The tables have this version now.
        with self.reading(wait_s) as connection:
            yield connection

    @contextmanager
    def _locked(self, mode: int) -> Iterator[None]:
        lock = os.open(self.folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, mode)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _writable(self, wait_s: float) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._connected(wait_s, read_only=False) as connection:
            version = version_of(connection)
            if version in (0, VERSION):
                yield connection
                return
            connection.execute("CHECKPOINT")
        # To read the file while DuckDB has it open would end DuckDB's own lock on it.
        with whole(self.folder / f"answerkey.version-{version}.duckdb") as copy:
            shutil.copyfile(self.file, copy)
        with self._connected(wait_s, read_only=False) as connection:
            yield connection

    @contextmanager
    def _connected(self, wait_s: float, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = _connect(self.file, wait_s, read_only=read_only)
        try:
            _limit(connection, self.folder)
            if (version := version_of(connection)) > VERSION:
                raise UserError(
                    f"{self.folder}: written by a newer answerkey (its tables have version {version}, this one "
                    f"supports {VERSION}); install the newer one, or give another --home"
                )
            yield connection
        finally:
            connection.close()


def session(
    database: str = ":memory:", *, read_only: bool = False, config: Mapping[str, Any] | None = None
) -> duckdb.DuckDBPyConnection:
    """A DuckDB session that prints nothing: in notebooks DuckDB draws a progress bar, on standard output."""
    import duckdb

    connection = duckdb.connect(database, read_only=read_only, config=dict(config or {}))
    connection.execute("SET enable_progress_bar = false")
    return connection


def scratch(folder: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB session in memory that spills into `folder`: for work on Parquet files."""
    connection = session()
    _limit(connection, folder)
    return connection


def write_parquet(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    file: Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    group_rows: int = 122_880,
) -> None:
    """Write the rows of a query to a Parquet file, whole or not at all."""
    with whole(file) as unfinished:
        connection.execute(
            f"COPY ({query}) TO {quoted(unfinished)} (FORMAT parquet, ROW_GROUP_SIZE {group_rows})", parameters or {}
        )


def one_file(path: str | Path) -> str:
    """A path as DuckDB's readers take it, escaped: they read brackets and stars as a pattern."""
    return glob.escape(str(path))


def quoted(path: str | Path) -> str:
    """A path as a literal, for SQL statements that take no parameters."""
    return "'" + str(path).replace("'", "''") + "'"


def _limit(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'; SET temp_directory = {quoted(folder / 'spill')}")
    # Reports and hashes are stored in UTC wherever they are made; the extension loader stays off the network.
    connection.execute("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")


def _connect(file: Path, wait_s: float, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    import duckdb

    deadline = time.monotonic() + wait_s
    while True:
        try:
            return session(str(file), read_only=read_only)
        except duckdb.IOException as error:
            # The lock keeps our own processes apart; this is another program, such as a DuckDB shell.
            if "lock" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise UserError(f"{file}: another program has it open; close that program and run again") from error
            time.sleep(0.1)
