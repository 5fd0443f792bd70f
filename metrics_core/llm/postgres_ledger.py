"""The ledger in a PostgreSQL database, for processes on several machines.

Every verb is one statement, and verbs that are called at the same moment share one way to the server, which is most of
their time. All of them can be repeated: where the connection is lost, they are, on a new one. `synchronous_commit` is
off, as `synchronous = NORMAL` is for the file: a crash of the server can take the last moments, that of a client
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from answerkey.metrics_core.llm.ledger import (
    COLUMNS,
    Budget,
    CallStatus,
    LedgerError,
    Origin,
    Permit,
    Spent,
    StoredLedger,
    Verb,
    checksum,
    with_checksum,
)
from answerkey.metrics_core.llm.postgres_session import Rows, Session, Statement, connected

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

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

_GRACE_SECONDS = 5.0
"""From the moment when an owner's lock was first seen to be free until its claims are. An owner whose connection was
cut has its lock again within a second or two, and its requests in flight must not be asked by others meanwhile."""

Steps = Generator[Statement, Rows, T]
"""A verb in two steps: the statement that it needs, and what it makes of the rows."""

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
        self._session = Session(place, self._hold)
        super().__init__(self._session.where)
        self._held: set[str] = set()
        self._me: int | None = None
        self._name = ""
        try:
            with self._session.translated():
                _make(self._session.connection)
            [(version,)] = self._session.rows("SELECT version FROM answerkey_ledger")
            if version != VERSION:
                raise LedgerError(
                    f"the ledger {self._where} was made by another answerkey: its version is {version}, and this "
                    f"one needs {VERSION}"
                )
        except BaseException:
            self._session.connection.close()
            raise

    def _hold(self, connection: psycopg.Connection[Any]) -> None:
        if self._me is not None:
            # Shared, since the server may not have noticed yet that an earlier session of this owner is gone.
            connection.execute(f"SELECT pg_advisory_lock_shared({_LOCKS}, %s)", (self._me,))
            connection.execute(_SEEN_BACK, (self._me,))

    def _owner(self) -> int:
        """This process as one that writes, whose number is locked."""
        if self._me is None:
            [(self._me,)] = self._session.rows("SELECT nextval('answerkey_owners')::integer")
            self._name = f"{self._me}-{time.time_ns():x}"
            with self._session.translated():
                self._hold(self._session.connection)
            self._session.rows(_SEEN_GONE)
        return self._me

    def patient(self, on: bool) -> None:
        """See `Ledger`. There is always the server to wait for."""

    def together(self, verbs: Sequence[Verb]) -> list[Any]:
        """See `Ledger`. They share one way to the server and back."""
        if any(verb.name not in ("reply", "origin") for verb in verbs):
            self._owner()
        begun = [_Begun(getattr(self, f"_{verb.name}_steps")(*verb.given)) for verb in verbs]
        waiting = [one for one in begun if one.statement is not None]
        found = self._session.one_way([one.statement for one in waiting if one.statement is not None])
        for one, rows in zip(waiting, found, strict=True):
            one.go_on(rows)
        return [one.result for one in begun]

    def _alone(self, verb: Verb) -> Any:
        [result] = self.together([verb])
        if isinstance(result, Exception):
            raise result
        return result

    def _usable(self, key: str) -> list[tuple[Any, ...]]:
        return self._session.rows(_USABLE, (key,))

    def _reply_steps(self, key: str) -> Steps[str | None]:
        return self._reply(key, (yield _USABLE, (key,)))

    def _origin_steps(self, key: str) -> Steps[Origin]:
        return self._origin(key, (yield _USABLE, (key,)))

    def claim(self, key: str) -> bool:
        """See `Ledger`."""
        return bool(self._alone(Verb("claim", (key,))))

    def _claim_steps(self, key: str) -> Steps[bool]:
        if key in self._held:
            return False
        self._held.add(key)
        mine = False
        try:
            [(mine,)] = yield _CLAIM, {"key": key, "me": self._me, "grace": timedelta(seconds=_GRACE_SECONDS)}
        finally:
            if not mine:
                self._held.discard(key)
        return bool(mine)

    def release(self, key: str) -> None:
        """See `Ledger`."""
        self._alone(Verb("release", (key,)))

    def _release_steps(self, key: str) -> Steps[None]:
        self._held.discard(key)
        yield "DELETE FROM answerkey_claims WHERE request_key = %s AND owner = %s", (key, self._me)

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""
        permit, call_id = self._alone(Verb("start", (budget, call, most_usd)))
        return permit, call_id

    def _start_steps(
        self, budget: Budget, call: Mapping[str, Any], most_usd: float | None
    ) -> Steps[tuple[Permit, str]]:
        call_id, most = f"{self._name}-{next(self._numbers)}", most_usd or 0.0
        values = {
            **call, "call_id": call_id, "run": budget.run, "most": most, "max_calls": budget.max_calls,
            "max_cost": budget.max_cost_usd, "now": time.time(),
        }  # fmt: skip
        [(go, calls, flying)] = yield _START, values
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
        self._alone(Verb("finish", (budget, call_id, status, most_usd, result)))

    def _finish_steps(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> Steps[None]:
        columns = {name: _text(value) for name, value in result.items()}
        columns["checksum"] = checksum(self._asked[call_id], columns.get("reply"))
        sets = ", ".join(f"{name} = %({name})s" for name in columns)
        values = {
            **columns, "call_id": call_id, "status": status, "paid": result.get("cost_usd") or 0.0,
            "unpriced": int("cost_usd" in result and result["cost_usd"] is None),
        }  # fmt: skip
        yield _FINISH.format(columns=sets), values
        del self._asked[call_id]

    def spent(self, run: str) -> Spent:
        """See `Ledger`."""
        rows = self._session.rows("SELECT calls, cost_usd, unpriced FROM answerkey_budgets WHERE run = %s", (run,))
        return Spent(*rows[0]) if rows else Spent()

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """See `Ledger`."""
        if keys is None:
            yield from self._every_call()
            return
        for start in range(0, len(keys), _PAGE):
            some = list(keys[start : start + _PAGE])
            for row in self._session.rows(_CALLS, (some,)):
                yield self._intact.row(row[:-1], row[-1])

    def _every_call(self) -> Iterator[tuple[Any, ...]]:
        last = 0
        while page := self._session.rows(_EVERY_CALL, (last, _PAGE)):
            for *row, expected, _ in page:
                yield self._intact.row(row, expected)
            last = page[-1][-1]

    def budgets(self) -> Iterator[tuple[str, Spent]]:
        """See `Ledger`."""
        # In the order of bytes, as in the file.
        query = 'SELECT run, calls, cost_usd + reserved, unpriced FROM answerkey_budgets ORDER BY run COLLATE "C"'
        for run, *spent in self._session.rows(query):
            yield run, Spent(*spent)

    def take_in(self, calls: Iterable[tuple[Any, ...]], budgets: Iterable[tuple[str, Spent]]) -> None:
        """See `Ledger`."""
        rows = (with_checksum([_text(value) for value in row]) for row in calls)
        names = (*COLUMNS, "checksum")
        with (
            self._session.translated(),
            self._session.connection.transaction(),
            self._session.connection.cursor() as cursor,
        ):
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
            self._session.rows("SELECT")

    def close(self) -> None:
        """See `Ledger`."""
        import psycopg

        # Where the server is gone, its claims are free without this.
        with suppress(psycopg.Error):
            if self._me is not None and not self._session.connection.closed:
                self._session.connection.execute("DELETE FROM answerkey_claims WHERE owner = %s", (self._me,))
        self._session.connection.close()


def exists(place: str) -> bool:
    """Whether there is a ledger in the database that `place` names.

    Raises:
        LedgerError: the server cannot be reached.
        UserError: as `PostgresLedger`.
    """
    with connected(place) as db:
        return _made(db)


class _Begun:
    """A verb that was begun: the statement that it waits for; once that is done, what the verb returns or raises."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.statement: Statement | None = None
        self.result: Any = None
        self.statement = self._run(lambda: next(steps))

    def go_on(self, rows: Rows | LedgerError) -> None:
        """Hand over what the statement found, or why it could not be done."""
        self._run(lambda: self._steps.throw(rows) if isinstance(rows, LedgerError) else self._steps.send(rows))

    def _run(self, on: Callable[[], Statement]) -> Statement | None:
        try:
            return on()
        except StopIteration as end:
            self.result = end.value
        except Exception as error:
            self.result = error
        return None


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
