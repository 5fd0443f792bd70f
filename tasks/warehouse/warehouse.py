"""The one way to the DuckDB file: short sessions behind a lock, shared by threads and processes.

DuckDB admits one writing process and then no readers. So no process keeps the file open: a session takes an
advisory lock on a file beside it, opens, does its work and closes. Unlike retrying after DuckDB's own
refusal, the lock is fair.
"""

from __future__ import annotations

import fcntl
import glob
import importlib.util
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.schema import check_version, create_tables, relations, version_of
from answerkey.tasks.warehouse.store import UNFINISHED, FolderStore, atomic_write, check_host, duplicate, locked, mark

if TYPE_CHECKING:
    import duckdb

FILE = "answerkey.duckdb"
SNAPSHOT = "snapshot.duckdb"
"""A copy as of the end of the last run, for programs that read, however long they keep it open."""

MEMORY_LIMIT = "400MB"
"""DuckDB spills to disk above this, so that a million rows fit into a small machine."""

WAIT_FOR_OTHERS_S = 60.0
"""Seconds that a session waits for another program that has the file open, or for a server that restarts."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance has done."""

    merged: int = 0
    """Files that were merged into larger ones."""
    states: int = 0
    """States older than `STATES_DAYS` that can no longer be read."""
    removed: int = 0
    """Files that no state needs, and files of killed writers."""


@dataclass(frozen=True, slots=True)
class WarehouseFile:
    """The tables of a home in one DuckDB file in its folder: one writer, whose changes become visible at its commit."""

    folder: Path
    published: bool = False
    """Whether to read the snapshot, if there is one of this version."""

    @property
    def file(self) -> Path:
        """The DuckDB file."""
        return self.folder / FILE

    @property
    def _due(self) -> Path:
        """Exists while the file or the snapshot still holds rows that were to be removed for good."""
        return self.folder / f"{FILE}.rewrite-due"

    def exists(self) -> bool:
        """Whether anything has been written yet."""
        return self.file.exists()

    @contextmanager
    def writing(
        self, wait_s: float = WAIT_FOR_OTHERS_S, *, taken_in: Sequence[str] = (), removing: bool = False
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction: committed at the end, rolled back on any error.

        The files `taken_in`, by their names in the store, are removed once it is committed and before the next session
        gets the lock: a run that shares them either finds each of them whole, or finds its rows in the warehouse.
        `removing`: deleted rows must not stay in any file, so `rewrite` is due from the commit on.

        Raises:
            UserError: another version of answerkey made the tables, or another program has kept the file open for
                longer than `wait_s` seconds.
        """
        ensure_folder(self.folder)
        with self._locked(fcntl.LOCK_EX), self._connected(wait_s) as connection:
            # An error closes the connection, which rolls back
            connection.execute("BEGIN")
            if not version_of(connection):
                create_tables(connection)
            yield connection
            if removing:
                mark(self._due)
            connection.execute("COMMIT")
            for name in taken_in:
                FolderStore(self.folder).remove(name)

    @contextmanager
    def reading(self, wait_s: float = WAIT_FOR_OTHERS_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only session; several may read at once. One within another shares the file that this has open.

        Raises:
            UserError: there is no warehouse yet, another version of answerkey made it, or another program has it open
                for writing.
        """
        if opened := _reading.get({}).get((os.getpid(), self)):
            with self._cursor(opened) as connection:
                yield connection
            return
        if not self.exists():
            raise nothing_here(self.folder)
        # Nobody writes to the snapshot: a newer one takes its name, and who has this one open keeps it. It serves who
        # may not take the lock, which a home that is there to be read does not admit
        snapshot = self.folder / SNAPSHOT
        lock = self.folder / f"{FILE}.lock"
        is_lockable = os.access(lock if lock.exists() else self.folder, os.W_OK)
        if snapshot.exists() and (self.published or not is_lockable):
            with self._connected(wait_s, snapshot) as connection:
                yield connection
            return
        with self._locked(fcntl.LOCK_SH), self._connected(wait_s, self.file) as connection:
            yield connection

    @contextmanager
    def _locked(self, mode: int) -> Iterator[None]:
        file = self.folder / f"{FILE}.lock"
        with locked(file, mode) as lock:
            check_host(lock, file)
            yield

    @contextmanager
    def claimed(self, name: str, *, wait: bool = False) -> Iterator[bool]:
        """Claim `name` for this process: yields whether it has it now. The claim ends with the process.

        Args:
            wait: block until the claim is free, so that True is always yielded.
        """
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(folder / f"{name}.lock", fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)))
            except BlockingIOError:
                yield False
                return
            yield True

    def size(self) -> tuple[str, int]:
        """Where the tables are, and how many bytes they take."""
        return str(self.file), self.file.stat().st_size

    def rewrite(self) -> None:
        """Remove the content of deleted rows from the files, and publish.

        DuckDB leaves deleted rows in free blocks, so all others move to a new file.

        Unfinished files of killed processes are removed too. If the disk is full, `finish_removal` tries again.
        """
        with self._locked(fcntl.LOCK_EX):
            for pattern in (f"{FILE}.*{UNFINISHED}*", f"{SNAPSHOT}.*{UNFINISHED}*", "spill/duckdb_temp_*"):
                for leftover in self.folder.glob(pattern):
                    leftover.unlink(missing_ok=True)

            # All rows in a new file, which takes the name of the old one
            self._settle()
            with atomic_write(self.file) as fresh, session(str(fresh)) as connection:
                create_tables(limited(connection, self.folder))
                connection.execute(f"ATTACH {quoted(self.file)} AS old (READ_ONLY)")
                for name, relation in relations().items():
                    if not relation.is_view and name != "schema_version":
                        connection.execute(f"INSERT INTO {name} BY NAME FROM old.{name}")
                connection.execute("DETACH old")
            self._publish()
            self._due.unlink(missing_ok=True)

    def finish_removal(self) -> bool:
        """Do a `rewrite` that is due because the process that had to do it was killed; return whether one was due."""
        if due := self._due.exists():
            self.rewrite()
        return due

    def publish(self) -> None:
        """Publish the last commit for programs that keep the tables open; writers never wait for such programs.

        A copy of the file is put in place in one step; who has the old one open keeps it.

        Raises:
            OSError: the disk is full; the old snapshot stays.
        """
        with self._locked(fcntl.LOCK_EX):
            self._settle()
            self._publish()

    def _publish(self) -> None:
        # Under the lock to the end: a copy from before a removal must not replace one from after it.
        with atomic_write(self.folder / SNAPSHOT) as copy:
            duplicate(self.file, copy)
            # Read-only, for the readers of the file.
            copy.chmod(self.file.stat().st_mode & 0o444)

    def copy_to(self, target: Path) -> None:
        """Copy the file between two writers.

        Raises:
            OSError: the disk has no room for it.
        """
        with self._locked(fcntl.LOCK_EX):
            self._settle()
            # To read the file while DuckDB has it open would end DuckDB's own lock on it.
            duplicate(self.file, target)

    def _settle(self) -> None:
        """Checkpoint what a killed process committed to the write-ahead log only. Call under the lock."""
        if Path(f"{self.file}.wal").exists():
            with self._connected() as connection:
                connection.execute("CHECKPOINT")

    def maintain(self) -> Maintained:
        """Keep the tables small and fast to read: what was deleted is given free within the file."""
        self.finish_removal()
        with self._locked(fcntl.LOCK_EX), self._connected() as connection:
            connection.execute("CHECKPOINT")
        return Maintained()

    @contextmanager
    def _connected(
        self, wait_s: float = WAIT_FOR_OTHERS_S, to_read: Path | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A session on the file, to write to it, or on one that is only read."""
        instance = _spare.pop(os.getpid(), None) or session()
        try:
            limited(instance, self.folder)
            _attach(instance, to_read or self.file, wait_s, "(READ_ONLY)" if to_read else "")
            with self._cursor(instance) as connection:
                version = version_of(connection)
                check_version(self.folder, version)
                if to_read and not version:
                    raise nothing_here(self.folder)
                token = _reading.set({**_reading.get({}), (os.getpid(), self): instance} if to_read else {})
                try:
                    yield connection
                finally:
                    _reading.reset(token)
            instance.execute("DETACH warehouse")
        except BaseException:
            instance.close()
            raise
        # What was spilled is removed by the end of the instance
        if not (self.folder / "spill").exists():
            _spare[os.getpid()] = instance

    @contextmanager
    def _cursor(self, instance: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        with instance.cursor() as connection:
            connection.execute("USE warehouse; SET enable_progress_bar = false")
            yield connection


_reading: ContextVar[Mapping[tuple[int, WarehouseFile], duckdb.DuckDBPyConnection]] = ContextVar("_reading")
"""By process and warehouse, the instance of DuckDB that a session has open to read."""

_spare: dict[int, duckdb.DuckDBPyConnection] = {}
"""By process, an instance of DuckDB with no file open: to start one takes longer than all else in a short session."""


def _attach(instance: duckdb.DuckDBPyConnection, file: Path, wait_s: float, option: str) -> None:
    """Open a file as `warehouse`, and wait for another program that has it open."""
    import duckdb

    deadline = time.monotonic() + wait_s
    while True:
        try:
            instance.execute(f"ATTACH {quoted(file)} AS warehouse {option}")
            return
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            if "No space left" in reason:
                raise
            # The lock keeps our own processes apart; this is another program, such as a DuckDB shell
            if "Could not set lock" not in reason:
                raise UserError(f"{file}: {reason}; `answerkey warehouse backup` copies can take its place") from error
            if time.monotonic() > deadline:
                raise UserError(
                    f"{file}: another program has it open; close that program and run again; what only reads can keep "
                    f"{SNAPSHOT} open beside it"
                ) from error
            time.sleep(0.1)


def session(database: str = ":memory:", *, config: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB session that prints nothing: in notebooks DuckDB draws a progress bar, on standard output."""
    import duckdb

    # DuckDB would load an extension from the network to open the file of another database.
    settings = {"autoinstall_known_extensions": False, **(config or {})}
    connection = duckdb.connect(database, config=settings)
    connection.execute("SET enable_progress_bar = false")
    return connection


@contextmanager
def time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection does after so long.

    Raises:
        duckdb.InterruptException: it was, or it took longer.
    """
    import duckdb

    passed = Event()

    def interrupt() -> None:
        passed.set()
        connection.interrupt()

    timer = Timer(max(0.0, seconds), interrupt)
    timer.daemon = True
    timer.start()
    late = f"Interrupted after {seconds:.0f} s"
    try:
        yield
    except duckdb.Error as error:
        # Between two steps of a query DuckDB says something else of an interruption.
        if passed.is_set():
            raise duckdb.InterruptException(late) from error
        raise
    finally:
        timer.cancel()
    if passed.is_set():
        raise duckdb.InterruptException(late)


def scratch(folder: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB session in memory that spills into `folder`: for work on Parquet files."""
    return limited(session(), folder)


def limited(connection: duckdb.DuckDBPyConnection, folder: Path) -> duckdb.DuckDBPyConnection:
    """A session with this product's limits, which spills into `folder`; returns it. They hold for its cursors too."""
    # Reports and hashes are stored in UTC wherever they are made; the extension loader stays off the network.
    connection.execute(
        f"SET memory_limit = '{MEMORY_LIMIT}'; SET temp_directory = {quoted(folder / 'spill')}; "
        "SET GLOBAL TimeZone = 'UTC'; SET autoinstall_known_extensions = false"
    )
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
    with atomic_write(file) as unfinished:
        connection.execute(
            f"COPY ({query}) TO {quoted(unfinished)} (FORMAT parquet, ROW_GROUP_SIZE {group_rows})", parameters or {}
        )


def one_file(path: str | Path) -> str:
    """A path as DuckDB's readers take it, escaped: they read brackets and stars as a pattern."""
    return glob.escape(str(path))


def quoted(path: str | Path) -> str:
    """A path as a literal, for SQL statements that take no parameters."""
    return "'" + str(path).replace("'", "''") + "'"


def extension(name: str, needs: str) -> Path:
    """DuckDB's extension from its Python package; nothing is downloaded.

    Args:
        needs: what a message says where the package is missing.

    Raises:
        UserError: the package is not installed, or is for another DuckDB.
    """
    import duckdb

    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(needs)
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension"))
    fitting = [file for file in files if file.parent.name == f"v{duckdb.__version__}"]
    if not fitting:
        versions = ", ".join(file.parent.name.removeprefix("v") for file in files)
        raise UserError(
            f"{package.replace('_', '-')} is for DuckDB {versions or 'of another kind'}, and {duckdb.__version__} is "
            f"installed; pip install '{package.replace('_', '-')}=={duckdb.__version__}'"
        )
    return fitting[0]


def nothing_here(home: object) -> UserError:
    """Return the error for reading a home in which nothing was written yet."""
    return UserError(f"{home}: no warehouse here yet; run `answerkey evaluate` first, or give --home")


def ensure_folder(folder: Path) -> Path:
    """Make a folder to write to, if it is not there, and return it.

    Raises:
        UserError: it cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: the folder cannot be made: {error.strerror}; name another one with --home"
        ) from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"{folder}: you may not write to this folder; name another one with --home")
    return folder
