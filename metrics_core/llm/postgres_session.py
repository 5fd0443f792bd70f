"""A session on a PostgreSQL server: one connection, which is made again where it is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import LedgerError

if TYPE_CHECKING:
    import psycopg

Rows = list[tuple[Any, ...]]
Statement = tuple[str, Any]
"""SQL with its values, None where it has none."""

_WAIT_SECONDS = 60.0
"""For a server that is gone, and for a row that somebody else has locked."""
_OPENING_SECONDS = 10


class Session:
    """A session on the database that `place` names, for statements that can be repeated.

    Args:
        place: `postgresql:` and what libpq takes, without a password.
        again: called with every connection but the first, before anything else is done with it.

    Raises:
        LedgerError: here and from every method, if the server cannot be reached or used.
        UserError: the place cannot be used, or a package is missing.
    """

    def __init__(self, place: str, again: Callable[[psycopg.Connection[Any]], None]) -> None:
        self._settings = _settings(place)
        self.where = shown(self._settings)
        self._again = again
        self._lost = False
        with self.translated():
            self.connection = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        found = psycopg.connect(**self._settings, autocommit=True)
        try:
            [(process,)] = found.execute("SELECT pg_backend_pid()").fetchall()
            if process != found.info.backend_pid:
                raise LedgerError(
                    f"the ledger {self.where} is behind a connection pooler (pgbouncer), which may hand its locks to "
                    "another session: name the server itself"
                )
            found.execute(f"SET synchronous_commit = off; SET statement_timeout = '{_WAIT_SECONDS:.0f}s'")
        except BaseException:
            found.close()
            raise
        return found

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Around what uses `connection`: its errors are `LedgerError`."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            why = " ".join(str(error).split())
            raise LedgerError(
                f"the ledger {self.where} cannot be used ({why}); what was paid for so far is kept in it: bring the "
                "server back, then run again"
            ) from error

    def rows(self, statement: str, values: Any = None) -> Rows:
        """What a statement finds."""
        with self.translated():
            [found] = self._repeated([(statement, values)])
        return found

    def one_way(self, statements: Sequence[Statement]) -> list[Rows | LedgerError]:
        """What statements find, each a transaction of its own, in one way to the server and back."""
        import psycopg

        if len(statements) > 1:
            with suppress(psycopg.Error):
                return list(self._repeated(statements))
        # Which of them cannot be done shows when each is done alone.
        return [self._tried(*statement) for statement in statements]

    def _tried(self, statement: str, values: Any) -> Rows | LedgerError:
        try:
            return self.rows(statement, values)
        except LedgerError as error:
            return error

    def _repeated(self, statements: Sequence[Statement]) -> list[Rows]:
        import psycopg

        while True:
            try:
                if self.connection.closed:
                    self._reconnect()
                return self._done(statements)
            except psycopg.OperationalError:
                if not self.connection.closed or self._lost:
                    raise

    def _done(self, statements: Sequence[Statement]) -> list[Rows]:
        if len(statements) == 1:
            cursors = [self.connection.execute(*statements[0])]
        else:
            cursors = []
            with self.connection.pipeline() as pipeline:
                for statement in statements:
                    cursors.append(self.connection.execute(*statement))
                    # The end of a transaction: one that fails undoes none before it. `sync` would wait for its rows.
                    pipeline._enqueue_sync()
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _reconnect(self) -> None:
        import psycopg

        deadline, pause = time.monotonic() + (0.0 if self._lost else _WAIT_SECONDS), 0.05
        while True:
            try:
                self.connection = self._connect()
                self._again(self.connection)
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    # The calls that are still in flight need not each wait as long.
                    self._lost = True
                    raise
                time.sleep(pause)
                pause = min(1.0, pause * 2)


def connected(place: str) -> psycopg.Connection[Any]:
    """A connection for one look, to be closed.

    Raises:
        LedgerError: the server cannot be reached.
        UserError: as `Session`.
    """
    import psycopg

    settings = _settings(place)
    try:
        return psycopg.connect(**settings, autocommit=True)
    except psycopg.Error as error:
        raise LedgerError(f"the ledger {shown(settings)} cannot be used ({' '.join(str(error).split())})") from error


def shown(settings: Mapping[str, Any]) -> str:
    """The place as messages name it.

    >>> shown({"host": "db", "port": "5433", "dbname": "answerkey", "user": "me", "sslmode": "require"})
    'postgresql://me@db:5433/answerkey'
    """
    user = f"{settings['user']}@" if settings.get("user") else ""
    port = f":{settings['port']}" if settings.get("port") else ""
    return f"postgresql://{user}{settings.get('host', '')}{port}/{settings.get('dbname', '')}"


def _settings(place: str) -> dict[str, Any]:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise UserError(
            "a ledger in PostgreSQL needs psycopg: install answerkey with its extra, answerkey[cluster]"
        ) from error
    text = place if place.startswith("postgresql://") else place.removeprefix("postgresql:")
    try:
        given = conninfo_to_dict(text)
    except psycopg.Error:
        # What libpq says repeats the text, and there may be a password in it.
        raise UserError(
            "the place of the ledger is not what libpq takes: write postgresql://USER@HOST/DATABASE"
        ) from None
    if "password" in given or "sslpassword" in given:
        raise UserError(
            "the place of the ledger must not contain a password: put it into the file that PGPASSFILE names, or into "
            "PGPASSWORD"
        )
    # A host that is lost without a word is noticed within half a minute.
    ours = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "connect_timeout": _OPENING_SECONDS}
    return {**ours, "application_name": "answerkey ledger", **given}
