"""The ledger in a PostgreSQL database, for processes on several machines.

Every verb is one statement, since the way to the server is most of its time. All of them can be repeated: where the
connection is lost, they are, on a new one. `synchronous_commit` is off, as `synchronous = NORMAL` is for the file: a
crash of the server can take the last moments, that of a client nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import (
    COLUMNS,
    Budget,
    CallStatus,
    LedgerError,
    Permit,
    Spent,
    StoredLedger,
    checksum,
    with_checksum,
)

if TYPE_CHECKING:
    import psycopg

VERSION = 2
"""Of the tables. It counts with that of the file."""

_SCHEMA = """
-- The tables are those of the file, see sqlite_ledger, but for what is said here.
CREATE TABLE answerkey_ledger (version integer NOT NULL);
INSERT INTO answerkey_ledger VALUES (2);
CREATE SEQUENCE answerkey_owners AS integer CYCLE;
CREATE TABLE answerkey_calls (
    number bigint GENERATED ALWAYS AS IDENTITY,     -- in the order in which they were sent
    call_id text PRIMARY KEY,
    request_key text NOT NULL,
    judge text NOT NULL, prompt text NOT NULL, run text NOT NULL,
    kind text NOT NULL, attempt bigint NOT NULL, format text NOT NULL, status text NOT NULL,
    code text, message text,
    reserved double precision,
    started_at double precision NOT NULL, seconds double precision,
    tokens_in bigint, tokens_out bigint, cost_usd double precision,
    model text, fingerprint text, finish_reason text, reply text, checksum text
);
CREATE INDEX answerkey_calls_by_request ON answerkey_calls (request_key, status);
-- The owner holds an advisory lock of this number. `gone_since`: when somebody first saw that it does not.
CREATE TABLE answerkey_claims (request_key text PRIMARY KEY, owner integer NOT NULL, gone_since timestamptz);
CREATE TABLE answerkey_budgets (
    run text PRIMARY KEY, calls bigint NOT NULL DEFAULT 0, cost_usd double precision NOT NULL DEFAULT 0,
    unpriced bigint NOT NULL DEFAULT 0, in_flight bigint NOT NULL DEFAULT 0,
    reserved double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
"""
_LOCKS = 0x616B6C67
"""The first number of the ledger's advisory locks; the second is an owner's, or 0 while the tables are made."""

_WAIT_SECONDS = 60.0
"""For a server that is gone, and for a row that somebody else has locked."""
_GRACE_SECONDS = 5.0
"""From the moment when an owner's lock was first seen to be free until its claims are. An owner whose connection was
cut has its lock again within a second or two, and its requests in flight must not be asked by others meanwhile."""
_OPENING_SECONDS = 10

_ALIVE = f"""EXISTS (
    SELECT FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.classid = {_LOCKS} AND held.objid = c.owner::oid AND held.objsubid = 2
      AND held.granted AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""
_SEEN_GONE = (
    f"UPDATE answerkey_claims AS c SET gone_since = clock_timestamp() WHERE gone_since IS NULL AND NOT {_ALIVE}"
)
_SEEN_BACK = "UPDATE answerkey_claims SET gone_since = NULL WHERE owner = %s AND gone_since IS NOT NULL"

_CLAIM = f"""
WITH claimed AS (
    INSERT INTO answerkey_claims AS c (request_key, owner) VALUES (%(key)s, %(me)s)
    ON CONFLICT (request_key) DO UPDATE SET
        owner = CASE WHEN c.gone_since <= clock_timestamp() - %(grace)s THEN excluded.owner ELSE c.owner END,
        gone_since = CASE WHEN c.owner = excluded.owner OR c.gone_since <= clock_timestamp() - %(grace)s THEN NULL
                          ELSE coalesce(c.gone_since, clock_timestamp()) END
    WHERE c.owner = excluded.owner OR NOT {_ALIVE}
    RETURNING owner = %(me)s AS mine, xmax <> 0 AS was_there
),
lost AS (
    SELECT call_id, run, reserved FROM answerkey_calls
    WHERE request_key = %(key)s AND status = 'sent' AND reserved IS NOT NULL
      AND EXISTS (SELECT FROM claimed WHERE mine AND was_there)
    FOR UPDATE
),
forgotten AS (UPDATE answerkey_calls AS c SET reserved = NULL FROM lost WHERE c.call_id = lost.call_id),
settled AS (
    UPDATE answerkey_budgets AS b
    SET in_flight = b.in_flight - sums.calls, reserved = greatest(0, b.reserved - sums.most),
        cost_usd = b.cost_usd + sums.most
    FROM (SELECT run, count(*) AS calls, sum(reserved) AS most FROM lost GROUP BY run) AS sums
    WHERE b.run = sums.run
)
SELECT coalesce((SELECT mine FROM claimed), false)
"""
_START = """
WITH permitted AS (
    INSERT INTO answerkey_budgets AS b (run, calls, in_flight, reserved)
    SELECT %(run)s, 1, 1, %(most)s
    WHERE (%(max_calls)s::bigint IS NULL OR %(max_calls)s > 0)
      AND (%(max_cost)s::double precision IS NULL OR %(most)s <= %(max_cost)s)
      AND NOT EXISTS (SELECT FROM answerkey_calls WHERE call_id = %(call_id)s)
    ON CONFLICT (run) DO UPDATE SET
        calls = b.calls + 1, in_flight = b.in_flight + 1, reserved = b.reserved + %(most)s
    WHERE (%(max_calls)s::bigint IS NULL OR b.calls < %(max_calls)s)
      AND (%(max_cost)s::double precision IS NULL OR b.cost_usd + b.reserved + %(most)s <= %(max_cost)s)
    RETURNING run
),
sent AS (
    INSERT INTO answerkey_calls
        (call_id, run, status, reserved, started_at, request_key, judge, prompt, kind, attempt, format)
    SELECT %(call_id)s, run, 'sent', %(most)s, %(now)s,
           %(request_key)s, %(judge)s, %(prompt)s, %(kind)s, %(attempt)s, %(format)s
    FROM permitted
    RETURNING call_id
)
SELECT EXISTS (SELECT FROM sent) OR EXISTS (SELECT FROM answerkey_calls WHERE call_id = %(call_id)s),
       b.calls, b.in_flight
FROM (SELECT) AS always LEFT JOIN answerkey_budgets AS b ON b.run = %(run)s
"""
# Only what the budget still holds for this call is given back: a repeated statement, or a call that was given up for
# dead and settled, changes it no more.
_FINISH = """
WITH was AS (SELECT call_id, reserved FROM answerkey_calls WHERE call_id = %(call_id)s FOR UPDATE),
ended AS (
    UPDATE answerkey_calls AS c SET status = %(status)s, reserved = NULL, {columns}
    FROM was WHERE c.call_id = was.call_id
    RETURNING c.run, was.reserved
)
UPDATE answerkey_budgets AS b
SET in_flight = b.in_flight - 1, reserved = greatest(0, b.reserved - ended.reserved),
    cost_usd = b.cost_usd + %(paid)s, unpriced = b.unpriced + %(unpriced)s
FROM ended WHERE b.run = ended.run AND ended.reserved IS NOT NULL
"""
_USABLE = """
SELECT reply, checksum, model, fingerprint, finish_reason, tokens_in, tokens_out, cost_usd
FROM answerkey_calls WHERE request_key = %s AND status = 'usable' ORDER BY number DESC
"""
_CALLS = f"SELECT {', '.join(COLUMNS)}, checksum FROM answerkey_calls WHERE request_key = ANY(%s) ORDER BY number"
_EVERY_CALL = (
    f"SELECT {', '.join(COLUMNS)}, checksum, number FROM answerkey_calls WHERE number > %s ORDER BY number LIMIT %s"
)
_PAGE = 500


class PostgresLedger(StoredLedger):
    """The ledger in the database that `place` names; see `ledger.Ledger` for what it does.

    Its claims hold as long as its session does: a process that is killed, or stands still for longer than the server's
    keepalives, loses them 5 seconds after the next one has looked.

    Args:
        place: `postgresql:` and what libpq takes, without a password.

    Raises:
        LedgerError: here and from every method, if the server cannot be reached or used.
        UserError: the place cannot be used, or a package is missing.
    """

    quick = False

    def __init__(self, place: str) -> None:
        self._settings = _settings(place)
        super().__init__(shown(self._settings))
        self._held: set[str] = set()
        self._me: int | None = None
        self._name = ""
        self._lost = False
        with self._translated():
            self._db = self._connect()
            try:
                _make(self._db)
                [(version,)] = self._db.execute("SELECT version FROM answerkey_ledger").fetchall()
                if version != VERSION:
                    raise LedgerError(
                        f"the ledger {self._where} was made by another answerkey: its version is {version}, and this "
                        f"one needs {VERSION}"
                    )
            except BaseException:
                self._db.close()
                raise

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        found = psycopg.connect(**self._settings, autocommit=True)
        try:
            [(process,)] = found.execute("SELECT pg_backend_pid()").fetchall()
            if process != found.info.backend_pid:
                raise LedgerError(
                    f"the ledger {self._where} is behind a connection pooler (pgbouncer), which may hand its locks to "
                    "another session: name the server itself"
                )
            found.execute(f"SET synchronous_commit = off; SET statement_timeout = '{_WAIT_SECONDS:.0f}s'")
        except BaseException:
            found.close()
            raise
        return found

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            why = " ".join(str(error).split())
            raise LedgerError(
                f"the ledger {self._where} cannot be used ({why}); what was paid for so far is kept in it: bring the "
                "server back, then run again"
            ) from error

    def _rows(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        """What a statement finds. It can be repeated, and is, on a new connection, where one is lost."""
        import psycopg

        with self._translated():
            while True:
                try:
                    if self._db.closed:
                        self._reconnect()
                    found = self._db.execute(statement, values)
                    return found.fetchall() if found.description else []
                except psycopg.OperationalError:
                    if not self._db.closed or self._lost:
                        raise

    def _reconnect(self) -> None:
        import psycopg

        deadline, pause = time.monotonic() + (0.0 if self._lost else _WAIT_SECONDS), 0.05
        while True:
            try:
                self._db = self._connect()
                if self._me is not None:
                    self._hold(self._me)
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    # The calls that are still in flight need not each wait as long.
                    self._lost = True
                    raise
                time.sleep(pause)
                pause = min(1.0, pause * 2)

    def _hold(self, me: int) -> None:
        # Shared, since the server may not have noticed yet that an earlier session of this owner is gone.
        self._db.execute(f"SELECT pg_advisory_lock_shared({_LOCKS}, %s)", (me,))
        self._db.execute(_SEEN_BACK, (me,))

    def _owner(self) -> int:
        """This process as one that writes, whose number is locked."""
        if self._me is None:
            [(self._me,)] = self._rows("SELECT nextval('answerkey_owners')::integer")
            self._name = f"{self._me}-{time.time_ns():x}"
            with self._translated():
                self._hold(self._me)
            self._rows(_SEEN_GONE)
        return self._me

    def patient(self, on: bool) -> None:
        """See `Ledger`. There is always the server to wait for."""

    def _usable(self, key: str) -> list[tuple[Any, ...]]:
        return self._rows(_USABLE, (key,))

    def claim(self, key: str) -> bool:
        """See `Ledger`."""
        if key in self._held:
            return False
        values = {"key": key, "me": self._owner(), "grace": timedelta(seconds=_GRACE_SECONDS)}
        [(mine,)] = self._rows(_CLAIM, values)
        if mine:
            self._held.add(key)
        return bool(mine)

    def release(self, key: str) -> None:
        """See `Ledger`."""
        self._rows("DELETE FROM answerkey_claims WHERE request_key = %s AND owner = %s", (key, self._owner()))
        self._held.discard(key)

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""
        self._owner()
        call_id, most = f"{self._name}-{next(self._numbers)}", most_usd or 0.0
        values = {
            **call, "call_id": call_id, "run": budget.run, "most": most, "max_calls": budget.max_calls,
            "max_cost": budget.max_cost_usd, "now": time.time(),
        }  # fmt: skip
        [(go, calls, flying)] = self._rows(_START, values)
        if go:
            self._asked[call_id] = call["request_key"]
            return "go", call_id
        if budget.max_calls is not None and (calls or 0) >= budget.max_calls:
            return "max_calls", ""
        # What the server says of the budget is from before the statement: another process may have had the last of it.
        return ("wait" if flying or budget.max_cost_usd is None else "max_cost"), ""

    def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """See `Ledger`."""
        columns = {name: _text(value) for name, value in result.items()}
        columns["checksum"] = checksum(self._asked[call_id], columns.get("reply"))
        sets = ", ".join(f"{name} = %({name})s" for name in columns)
        values = {
            **columns, "call_id": call_id, "status": status, "paid": result.get("cost_usd") or 0.0,
            "unpriced": int("cost_usd" in result and result["cost_usd"] is None),
        }  # fmt: skip
        self._rows(_FINISH.format(columns=sets), values)
        del self._asked[call_id]

    def spent(self, run: str) -> Spent:
        """See `Ledger`."""
        rows = self._rows("SELECT calls, cost_usd, unpriced FROM answerkey_budgets WHERE run = %s", (run,))
        return Spent(*rows[0]) if rows else Spent()

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """See `Ledger`."""
        if keys is None:
            yield from self._every_call()
            return
        for start in range(0, len(keys), _PAGE):
            some = list(keys[start : start + _PAGE])
            for row in self._rows(_CALLS, (some,)):
                yield self._intact.row(row[:-1], row[-1])

    def _every_call(self) -> Iterator[tuple[Any, ...]]:
        last = 0
        while page := self._rows(_EVERY_CALL, (last, _PAGE)):
            for *row, expected, _ in page:
                yield self._intact.row(row, expected)
            last = page[-1][-1]

    def budgets(self) -> Iterator[tuple[str, Spent]]:
        """See `Ledger`."""
        # In the order of bytes, as in the file.
        query = 'SELECT run, calls, cost_usd + reserved, unpriced FROM answerkey_budgets ORDER BY run COLLATE "C"'
        for run, *spent in self._rows(query):
            yield run, Spent(*spent)

    def take_in(self, calls: Iterable[tuple[Any, ...]], budgets: Iterable[tuple[str, Spent]]) -> None:
        """See `Ledger`."""
        rows = (with_checksum([_text(value) for value in row]) for row in calls)
        names = (*COLUMNS, "checksum")
        with self._translated(), self._db.transaction(), self._db.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.executemany(
                f"INSERT INTO answerkey_calls ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))}) "
                "ON CONFLICT (call_id) DO NOTHING",
                rows,
            )
            cursor.executemany(
                "INSERT INTO answerkey_budgets (run, calls, cost_usd, unpriced) VALUES (%s, %s, %s, %s) ON CONFLICT "
                "(run) DO UPDATE SET calls = excluded.calls, cost_usd = excluded.cost_usd, "
                "unpriced = excluded.unpriced, in_flight = 0, reserved = 0",
                ((run, spent.calls, spent.cost_usd, spent.unpriced) for run, spent in budgets),
            )

    def keep_alive(self) -> None:
        """See `Ledger`. A connection that was cut is made again before anybody takes over what it claimed."""
        if self._me is not None:
            self._rows("SELECT")

    def close(self) -> None:
        """See `Ledger`."""
        import psycopg

        # Where the server is gone, its claims are free without this.
        with suppress(psycopg.Error):
            if self._me is not None and not self._db.closed:
                self._db.execute("DELETE FROM answerkey_claims WHERE owner = %s", (self._me,))
        self._db.close()


def exists(place: str) -> bool:
    """Whether there is a ledger in the database that `place` names.

    Raises:
        LedgerError: the server cannot be reached.
        UserError: as `PostgresLedger`.
    """
    import psycopg

    settings = _settings(place)
    try:
        with psycopg.connect(**settings, autocommit=True) as db:
            return db.execute("SELECT to_regclass('answerkey_ledger') IS NOT NULL").fetchall() == [(True,)]
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


def _make(db: psycopg.Connection[Any]) -> None:
    """Make the tables unless they are there; of several processes that begin at once, one does."""
    if _made(db):
        return
    # Not a lock of the transaction: what others have made meanwhile is seen for certain only by the next one.
    db.execute(f"SELECT pg_advisory_lock({_LOCKS}, 0)")
    try:
        if not _made(db):
            with db.transaction():
                db.execute(_SCHEMA)
    finally:
        db.execute(f"SELECT pg_advisory_unlock({_LOCKS}, 0)")


def _made(db: psycopg.Connection[Any]) -> bool:
    return db.execute("SELECT to_regclass('answerkey_ledger') IS NOT NULL").fetchall() == [(True,)]


def _text(value: Any) -> Any:
    # The one character that PostgreSQL does not take in a text.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
