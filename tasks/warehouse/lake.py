"""The tables on a lake: DuckLake, with its catalog in PostgreSQL and its files in a bucket.

All writers wait for one lock in the catalog, because DuckLake lets two of them insert the same keys at once: a DELETE
that finds no row conflicts with nothing. Readers see the last commit and never wait.

The order of a writer matters: open, lock, begin, work, look whether the lock is still there, commit, remove the parts,
unlock. A snapshot from before the lock would show an old state; to open takes too long for others to wait.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.bucket import BucketStore, s3_settings
from answerkey.tasks.warehouse.schema import check_version, create_tables, version_of
from answerkey.tasks.warehouse.store import PROCESS, Unreachable, locked
from answerkey.tasks.warehouse.warehouse import (
    WAIT_FOR_OTHERS_S,
    Maintained,
    extension,
    limited,
    nothing_here,
    quoted,
    session,
)

if TYPE_CHECKING:
    import duckdb
    import psycopg

CATALOG = "ANSWERKEY_CATALOG"
"""The variable with the catalog: `postgres:host=db dbname=answerkey`."""

DATA = "data"
"""The folder in the bucket for DuckLake's own files. Nothing else is kept there: it removes what it does not know."""

STATES_DAYS = 30
"""Days for which an earlier state of the tables can be read. Expiring younger states has made DuckLake lose rows."""

_NEEDS = "a home in a bucket needs the extra cluster: pip install 'answerkey[cluster]'"
_LOCK = "answerkey warehouse"
_FIRST_WAIT_S = 5.0
"""Seconds to wait for a catalog that has never answered this process: its address may be wrong."""

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of a home in a bucket. `folder`, on this machine, takes what does not fit into memory."""

    address: str
    folder: Path

    def exists(self) -> bool:
        """Whether anything has been written yet."""
        opened = self._opened()
        if opened is None:
            return False
        with self._cursor(opened) as connection:
            return version_of(connection) > 0

    @contextmanager
    def writing(
        self, wait_s: float = WAIT_FOR_OTHERS_S, *, taken_in: Sequence[str] = (), removing: bool = False
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction behind the lock: committed at the end, rolled back on any error.

        The files `taken_in`, by their names in the store, are removed once it is committed and before the next writer
        gets the lock.

        Raises:
            UserError: another version of answerkey made the tables; or the catalog or the bucket is not this home's.
            Unreachable: PostgreSQL or the bucket does not answer for longer than `wait_s` seconds, or was lost.
        """
        import duckdb

        self._opened(wait_s)
        with self._locked(wait_s) as lock:
            # Whoever comes first to an empty catalog makes its tables, which two at once cannot.
            with self._cursor(self._opened(wait_s) or self._open(make=True)) as connection:
                connection.execute("BEGIN")
                try:
                    version = version_of(connection)
                    check_version(self.address, version)
                    if not version:
                        create_tables(connection)
                    yield connection
                    self._still_there(lock)
                except BaseException:
                    with suppress(Exception):
                        connection.execute("ROLLBACK")
                    raise
                try:
                    connection.execute("COMMIT")
                except duckdb.Error as error:
                    # Its class depends on what DuckLake was doing when it lost a server.
                    reason = f"nothing was committed, or it is not known: {_brief(error)}"
                    raise Unreachable(f"{self.address}: {reason}") from error
            store = BucketStore(self.address, self.folder)
            for name in taken_in:
                store.remove(name)

    @contextmanager
    def reading(self, wait_s: float = WAIT_FOR_OTHERS_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only session on the last commit; others may write meanwhile.

        Raises:
            UserError: there is no warehouse yet, or another version of answerkey made it.
            Unreachable: as `writing`.
        """
        if (opened := self._opened(wait_s)) is None:
            raise nothing_here(self.address)
        with self._cursor(opened) as connection:
            connection.execute("BEGIN TRANSACTION READ ONLY")
            try:
                version = version_of(connection)
                check_version(self.address, version)
                if not version:
                    raise nothing_here(self.address)
                yield connection
            finally:
                with suppress(Exception):
                    connection.execute("ROLLBACK")

    @contextmanager
    def claimed(self, name: str, *, wait: bool = False) -> Iterator[bool]:
        """Claim `name` for this process: yields whether it has it now. The claim ends with the process.

        Args:
            wait: block until the claim is free, so that True is always yielded.
        """
        connection = self._catalog()
        try:
            function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
            [(is_free,)] = connection.execute(f"SELECT {function}({_KEY})", [f"answerkey {name}"]).fetchall()
            yield wait or bool(is_free)
        finally:
            connection.close()

    def size(self) -> tuple[str, int]:
        """Where the tables are, and how many bytes the newest state takes; the files of earlier ones come on top."""
        with self.reading() as connection:
            [(size,)] = connection.execute(
                "SELECT coalesce(sum(file_size_bytes + delete_file_size_bytes), 0) FROM ducklake_table_info('lake')"
            ).fetchall()
        return self.address, int(size)

    def rewrite(self) -> None:
        """Remove deleted rows: earlier states keep their rows until `maintain` gives them up, after 30 days."""

    def finish_removal(self) -> bool:
        """Do a `rewrite` that is due, and return whether one was: nothing is ever due at once."""
        return False

    def publish(self) -> None:
        """Nothing is to be done: on a lake readers see every commit, and wait for nobody."""

    def maintain(self) -> Maintained:
        """Keep the tables small and fast to read; what can be read now stays as it is. Writers wait meanwhile.

        Files are removed a day after they were last needed: until then a reader may have them open, or a writer may be
        about to commit what looks like an orphan.
        """
        if (opened := self._opened()) is None:
            raise nothing_here(self.address)
        with self._locked() as lock, self._cursor(opened) as connection:
            steps = {
                "states": f"ducklake_expire_snapshots('lake', older_than => now() - INTERVAL {STATES_DAYS} DAY)",
                "merged": "ducklake_merge_adjacent_files('lake')",
                "old": "ducklake_cleanup_old_files('lake', older_than => now() - INTERVAL 1 DAY)",
                "orphans": "ducklake_delete_orphaned_files('lake', older_than => now() - INTERVAL 1 DAY)",
            }
            maintained = {}
            for step, call in steps.items():
                self._still_there(lock)
                maintained[step] = connection.execute(f"CALL {call}").fetchall()
        merged = sum(int(processed) for _, _, processed, _ in maintained["merged"])
        return Maintained(merged, len(maintained["states"]), len(maintained["old"]) + len(maintained["orphans"]))

    @contextmanager
    def _locked(self, wait_s: float = WAIT_FOR_OTHERS_S) -> Iterator[psycopg.Connection]:
        connection = self._catalog(wait_s)
        try:
            # Another process is at work for as long as it takes; if its host is lost, the server's keepalives end it.
            with self._reached():
                connection.execute(f"SELECT pg_advisory_lock({_KEY})", [_LOCK])
            yield connection
        finally:
            connection.close()

    def _still_there(self, lock: psycopg.Connection) -> None:
        """Without the lock, another writer may have begun: nothing may be committed then."""
        with self._reached():
            lock.execute("SELECT 1")

    def _catalog(self, wait_s: float = WAIT_FOR_OTHERS_S) -> psycopg.Connection:
        """A connection of its own to the catalog's database."""
        import psycopg

        conninfo = catalog(self.address)
        answered = (os.getpid(), conninfo) in _answered

        deadline = time.monotonic() + (wait_s if answered else min(wait_s, _FIRST_WAIT_S))
        while True:
            try:
                with self._reached():
                    connection = psycopg.connect(
                        conninfo, autocommit=True, connect_timeout=10, application_name="answerkey"
                    )
            except Unreachable as error:
                # Some of it passes: a server that starts again.
                if time.monotonic() > deadline or not any(words in str(error.__cause__) for words in _PASSING):
                    raise
                time.sleep(0.2)
            else:
                _answered.add((os.getpid(), conninfo))
                return connection

    def _opened(self, wait_s: float = WAIT_FOR_OTHERS_S) -> duckdb.DuckDBPyConnection | None:
        """The connection of this process, which stays open; None where nothing was ever written to the catalog."""
        key = (os.getpid(), catalog(self.address), self.address)
        with _opening:
            if key in _open:
                return _open[key]
            # Its messages say what is wrong with the catalog; DuckDB's hold the whole connection text. DuckLake knows
            # by their English texts which of the server's errors it may try again.
            with self._catalog(wait_s) as server:
                [(language,)] = server.execute("SHOW lc_messages").fetchall()
                if not str(language).lower().startswith(("c", "posix", "en")):
                    raise UserError(
                        f"{self.address}: the catalog's server answers in {language}; an administrator must run "
                        f"ALTER DATABASE {server.info.dbname} SET lc_messages = 'C'"
                    )
            with suppress(_NoLake):
                return self._open(make=False)
        return None

    def _open(self, *, make: bool) -> duckdb.DuckDBPyConnection:
        import duckdb
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        conninfo = catalog(self.address)
        # What is committed here is dropped elsewhere, so the server must not answer before it has kept it.
        options = f"{conninfo_to_dict(conninfo).get('options') or ''} -c synchronous_commit=on".strip()
        # DuckDB takes what lies there for its own, so each process has a folder.
        spilled = self.folder / "runs" / f"lake-{os.getpid()}"
        spilled.mkdir(parents=True, exist_ok=True)
        # Until this process ends.
        if spilled not in _working:
            _working.add(spilled)
            _held.enter_context(locked(spilled / PROCESS))
        connection = limited(session(), spilled)
        for name in ("httpfs", "postgres_scanner", "ducklake"):
            connection.execute(f"LOAD {quoted(extension(name, _NEEDS))}")
        with_bucket(connection)
        connection.execute("SET GLOBAL ducklake_max_retry_count = 100")
        try:
            connection.execute(
                f"ATTACH {quoted(f'ducklake:postgres:{make_conninfo(conninfo, options=options)}')} AS lake "
                f"(DATA_PATH {quoted(f'{self.address}/{DATA}/')}, CREATE_IF_NOT_EXISTS {make})"
            )
        except duckdb.Error as error:
            connection.close()
            # DuckLake says by its text alone what is wrong
            message = str(error)
            if "creating a new DuckLake is explicitly disabled" in message:
                raise _NoLake from error
            if "does not match existing data path" in message:
                other_home = message.partition("data path in the catalog ")[2].partition(f"/{DATA}/")[0].strip('"')
                raise UserError(
                    f"{self.address}: {CATALOG} names the catalog of {other_home}; each home has a database of its own"
                ) from error
            raise Unreachable(f"{self.address}: the catalog cannot be attached: {_brief(message)}") from error
        _open[os.getpid(), conninfo, self.address] = connection
        return connection

    @contextmanager
    def _cursor(self, opened: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        """A session of its own on the open connection. After an error of a server the next session opens anew."""
        import duckdb

        try:
            with opened.cursor() as connection:
                connection.execute("USE lake; SET enable_progress_bar = false")
                yield connection
        except duckdb.Error as error:
            _open.pop((os.getpid(), catalog(self.address), self.address), None)
            # DuckLake's own errors, of the catalog's server among them, have no class of their own.
            lost = duckdb.IOException | duckdb.HTTPException | duckdb.ConnectionException
            if isinstance(error, lost) or type(error) is duckdb.Error:
                raise Unreachable(f"{self.address}: {_brief(error)}") from error
            raise

    @contextmanager
    def _reached(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            raise Unreachable(f"{self.address}: the catalog does not answer: {_brief(error)}") from error


class _NoLake(Exception):
    """The database of the catalog has no lake yet."""


_KEY = "hashtextextended(%s, 0)"
_working: set[Path] = set()
_held = ExitStack()
_open: dict[tuple[int, str, str], duckdb.DuckDBPyConnection] = {}
"""By process, since a connection is of no use after a fork, and its parent still needs it: it is left alone there."""
_answered: set[tuple[int, str]] = set()
_opening = threading.RLock()


def _after_fork() -> None:
    global _opening  # noqa: PLW0603 - a thread that is not in this process may hold it
    _opening = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def catalog(address: str) -> str:
    """The text for libpq that names the database of the catalog, from the environment.

    Raises:
        UserError: it is missing or of another kind, has a password in it, or the extra `cluster` is not installed.
    """
    setting = os.environ.get(CATALOG, "")
    if not setting:
        raise UserError(
            f'{address}: a home in a bucket needs a catalog; set {CATALOG}="postgres:host=HOST dbname=NAME"'
        )
    is_address = setting.startswith(("postgres://", "postgresql://"))
    if not is_address and not setting.startswith("postgres:"):
        raise UserError(f'{CATALOG}: write it as "postgres:host=HOST dbname=NAME"')
    conninfo = setting if is_address else setting.removeprefix("postgres:")
    if importlib.util.find_spec("psycopg") is None:
        raise UserError(_NEEDS)
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        settings = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # libpq's own words repeat parts of it, which may be a password.
        raise UserError(f'{CATALOG}: write it as "postgres:host=HOST dbname=NAME"') from None
    if settings.get("password"):
        raise UserError(f"{CATALOG} holds a password, and would show it: keep it in PGPASSWORD or PGPASSFILE")
    return conninfo


def with_bucket(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a session with the extension httpfs read and write s3:// with the keys of the environment."""
    settings = s3_settings()

    # The names that all clients of S3 read mean nothing to DuckDB.
    endpoint = urlsplit(settings["endpoint"])
    clauses = "TYPE s3, KEY_ID $key, SECRET $secret, REGION $region"
    values = {"key": settings["key_id"], "secret": settings["secret"], "region": settings["region"]}
    if settings["endpoint"]:
        clauses += ", ENDPOINT $endpoint, URL_STYLE 'path', USE_SSL $ssl"
        values |= {"endpoint": endpoint.netloc, "ssl": str(endpoint.scheme != "http").lower()}
    if settings["session_token"]:
        clauses += ", SESSION_TOKEN $token"
        values["token"] = settings["session_token"]
    connection.execute(f"CREATE OR REPLACE SECRET answerkey ({clauses})", values)
    connection.execute(
        "SET GLOBAL http_retries = 9; SET GLOBAL http_retry_wait_ms = 100; SET GLOBAL http_retry_backoff = 2"
    )


_PASSING = (
    "Connection refused",
    "Connection reset",
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting connections",
    "closed the connection unexpectedly",
    "connection timeout",
    "too many clients",
)


def _brief(error: object) -> str:
    return " ".join(str(error).split())[:300]
