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
    LATEST,
    OF_RUN,
    UNSENT,
    BatchedCall,
    Budget,
    CallStatus,
    LedgerError,
    Origin,
    Permit,
    RestOfCall,
    Spent,
    StoredLedger,
    Verb,
    beginning_of,
    checksum,
    month_of,
    sealed,
    with_checksum,
)
from answerkey.metrics_core.llm.postgres_session import Rows, Session, Statement, connected
from answerkey.metrics_core.llm.postgres_statements import (
    ADOPT,
    CALLS,
    CLAIM,
    EVERY_CALL,
    FINISH,
    FORGET,
    GIVE_UP,
    GONE,
    LENGTHS,
    LOCKS,
    MIGRATIONS,
    NEW_MONTH,
    RELEASE,
    REST,
    REST_OF_CALLS,
    SCHEMA,
    SEEN_BACK,
    SEEN_GONE,
    SEND_BATCH,
    START,
    START_IN_MONTH,
    USABLE,
)

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

VERSION = 5
"""Of the tables. It counts with that of the file."""

_GRACE_SECONDS = 5.0
"""From the moment when an owner's lock was first seen to be free until its claims are. An owner whose connection was
cut has its lock again within a second or two, and its requests in flight must not be asked by others meanwhile."""

Steps = Generator[Statement, Rows, T]
"""A verb in two steps: the statement that it needs, and what it makes of the rows."""

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
        self._begun: set[tuple[str, str]] = set()
        self._me: int | None = None
        self._settled_at = 0.0
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
            connection.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, %s)", (self._me,))
            connection.execute(SEEN_BACK, (self._me,))

    def _owner(self) -> int:
        """This process as one that writes, whose number is locked."""
        if self._me is None:
            [(self._me,)] = self._session.rows("SELECT nextval('answerkey_owners')::integer")
            self._name = f"{self._me}-{time.time_ns():x}"
            with self._session.translated():
                self._hold(self._session.connection)
            self._settle_gone()
        return self._me

    def _settle_gone(self) -> None:
        """Settle what owners that are gone for good had in flight, so that no budget waits for it."""
        self._settled_at = time.monotonic()
        self._session.rows(SEEN_GONE)
        for (key,) in self._session.rows(GONE, (timedelta(seconds=_GRACE_SECONDS),)):
            if self.claim(key):
                self.release(key)

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
        return self._session.rows(USABLE, (key,))

    def _reply_steps(self, key: str) -> Steps[str | None]:
        return self._reply(key, (yield USABLE, (key,)))

    def _origin_steps(self, key: str) -> Steps[Origin]:
        return self._origin(key, (yield USABLE, (key,)))

    def claim(self, key: str) -> bool:
        """See `Ledger`."""
        return bool(self._alone(Verb("claim", (key,))))

    def _claim_steps(self, key: str) -> Steps[bool]:
        if key in self._held:
            return False
        self._held.add(key)
        mine = False
        try:
            [(mine,)] = yield CLAIM, {"key": key, "me": self._me, "grace": timedelta(seconds=_GRACE_SECONDS)}
        finally:
            if not mine:
                self._held.discard(key)
        return bool(mine)

    def release(self, key: str) -> None:
        """See `Ledger`."""
        self._alone(Verb("release", (key,)))

    def _release_steps(self, key: str) -> Steps[None]:
        self._held.discard(key)
        yield RELEASE, (self._me, key)

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""
        permit, call_id = self._alone(Verb("start", (budget, call, most_usd)))
        return permit, call_id

    def _start_steps(
        self, budget: Budget, call: Mapping[str, Any], most_usd: float | None
    ) -> Steps[tuple[Permit, str]]:
        call_id, most = f"{self._name}-{next(self._numbers)}", most_usd or 0.0
        now, total = time.time(), budget.max_cost_total_usd
        month = month_of(now)
        values = {
            "batch": None, "size": None, **call, "call_id": call_id, "run": budget.run, "most": most, "now": now,
            "month": month, "max_calls": budget.max_calls, "max_cost": budget.max_cost_usd, "max_total": total,
        }  # fmt: skip
        spent, others = 0.0, 0
        if total is None:
            [(go, calls, flying)] = yield START, values
        else:
            self._begin_month(budget.run, month)
            [(go, calls, flying, spent, others)] = yield START_IN_MONTH, values
        if go:
            self._asked[call_id] = call["request_key"], month
            return "go", call_id
        if budget.max_calls is not None and (calls or 0) >= budget.max_calls:
            return "max_calls", ""
        if total is not None and (budget.max_cost_usd is None or spent + most <= budget.max_cost_usd):
            return ("wait" if others else "max_cost_total"), ""
        # What the server says of the budget is from before the statement: another process may have had the last of it.
        return ("wait" if flying or budget.max_cost_usd is None else "max_cost"), ""

    def _begin_month(self, run: str, month: str) -> None:
        """Have budgets for the run and the month, the latter with what was spent before in this month."""
        if (run, month) in self._begun:
            return
        session = self._session
        session.rows("INSERT INTO answerkey_budgets (run) VALUES (%s) ON CONFLICT DO NOTHING", (run,))
        with session.translated(), session.connection.transaction():
            # No call may begin or end between the sum and the budget.
            session.connection.execute("LOCK TABLE answerkey_budgets IN EXCLUSIVE MODE")
            query = "SELECT FROM answerkey_budgets WHERE run = %s"
            if not session.connection.execute(query, (month,)).fetchall():
                session.connection.execute(NEW_MONTH, {"month": month, "since": beginning_of(month)})
        self._begun.add((run, month))

    def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """See `Ledger`."""
        self._alone(Verb("finish", (budget, call_id, status, most_usd, result)))

    def _finish_steps(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> Steps[None]:
        columns = {name: _text(value) for name, value in result.items()}
        key, month = self._asked[call_id]
        columns["checksum"] = checksum(key, columns.get("reply"))
        if "weights" in columns:
            columns["weights"] = sealed(key, columns["weights"])
        sets = ", ".join(f"{name} = %({name})s" for name in columns)
        values = {
            **columns, "call_id": call_id, "status": status, "month": month, "paid": result.get("cost_usd") or 0.0,
            "unpriced": int("cost_usd" in result and result["cost_usd"] is None),
            "unsent": int(result.get("code") == UNSENT),
        }  # fmt: skip
        yield FINISH.format(columns=sets), values
        del self._asked[call_id]

    def adopt(self, key: str, run: str) -> BatchedCall | None:
        """See `Ledger`."""
        adopted: BatchedCall | None = self._alone(Verb("adopt", (key, run)))
        return adopted

    def _adopt_steps(self, key: str, run: str) -> Steps[BatchedCall | None]:
        found = yield ADOPT, {"key": key, "run": run}
        if not found:
            return None
        *call, started = found[0]
        adopted = BatchedCall(*call)
        self._asked[adopted.call_id] = key, month_of(started)
        return adopted

    def send_batch(self, batch: str, judge: str) -> None:
        """See `Ledger`."""
        self._alone(Verb("send_batch", (batch, judge)))

    def _send_batch_steps(self, batch: str, judge: str) -> Steps[None]:
        yield SEND_BATCH, (batch, judge, time.time())

    def name_batch(self, batch: str, provider_id: str) -> None:
        """See `Ledger`."""
        self._alone(Verb("name_batch", (batch, provider_id)))

    def _name_batch_steps(self, batch: str, provider_id: str) -> Steps[None]:
        yield "UPDATE answerkey_batches SET provider_id = %s WHERE batch = %s", (provider_id, batch)

    def in_batches(self) -> int:
        """See `Ledger`."""
        query = "SELECT count(*) FROM answerkey_calls WHERE status = 'sent' AND batch IS NOT NULL"
        [(found,)] = self._session.rows(query)
        return int(found)

    def spent(self, run: str) -> Spent:
        """See `Ledger`."""
        rows = self._session.rows("SELECT calls, cost_usd, unpriced FROM answerkey_budgets WHERE run = %s", (run,))
        return Spent(*rows[0]) if rows else Spent()

    def _of_run(self, run: str) -> Sequence[tuple[Any, ...]]:
        return self._session.rows(OF_RUN.format(calls="answerkey_calls", run="%s"), (run,))

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """See `Ledger`."""
        if keys is None:
            yield from self._every_call()
            return
        for start in range(0, len(keys), _PAGE):
            some = list(keys[start : start + _PAGE])
            for row in self._session.rows(CALLS, (some,)):
                yield self._intact.row(row[:-1], row[-1])

    def _every_call(self) -> Iterator[tuple[Any, ...]]:
        last = 0
        while page := self._session.rows(EVERY_CALL, (last, _PAGE)):
            for *row, expected, _ in page:
                yield self._intact.row(row, expected)
            last = page[-1][-1]

    def budgets(self) -> Iterator[tuple[str, Spent]]:
        """See `Ledger`."""
        # In the order of bytes, as in the file.
        query = 'SELECT run, calls, cost_usd + reserved, unpriced FROM answerkey_budgets ORDER BY run COLLATE "C"'
        for run, *spent in self._session.rows(query):
            yield run, Spent(*spent)

    def rest_of_calls(self) -> Iterator[RestOfCall]:
        """See `Ledger`."""
        last = 0
        while page := self._session.rows(REST_OF_CALLS, (last, _PAGE)):
            yield from ((size, weights, call_id) for size, weights, call_id, _ in page)
            last = page[-1][-1]

    def take_in(
        self, calls: Iterable[tuple[Any, ...]], budgets: Iterable[tuple[str, Spent]], rest: Iterable[RestOfCall]
    ) -> None:
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
            cursor.executemany(
                "UPDATE answerkey_calls SET size = %s, weights = %s WHERE call_id = %s AND size IS NULL", rest
            )

    def lengths(self, judge: str, prompt: str) -> list[tuple[int, int, int]]:
        """See `Ledger`."""
        return [(size, sent, said) for size, sent, said in self._session.rows(LENGTHS, (judge, prompt, LATEST))]

    def rest(self) -> None:
        """See `Ledger`."""
        if self._me is not None:
            self._session.rows(REST, {"me": self._me})

    def wake(self) -> set[str]:
        """See `Ledger`."""
        if self._me is None:
            return set()
        with self._session.translated():
            self._hold(self._session.connection)
        query = "SELECT request_key FROM answerkey_claims WHERE owner = %s"
        self._held &= (mine := {key for (key,) in self._session.rows(query, (self._me,))})
        return mine

    def forget(self, keys: Sequence[str]) -> int:
        """See `Ledger`. The server's own files have them until it uses the space again, and so do its backups."""
        gone = self._session.rows(FORGET, (list(keys),))
        self._session.connection.execute("VACUUM answerkey_calls")
        return len(gone)

    def keep_alive(self) -> None:
        """See `Ledger`. A connection that was cut is made again before anybody takes over what it claimed."""
        if self._me is None:
            return
        self._session.rows("SELECT")
        if time.monotonic() >= self._settled_at + _GRACE_SECONDS:
            self._settle_gone()

    def close(self) -> None:
        """See `Ledger`."""
        import psycopg

        # Where the server is gone, its claims are free without this.
        with suppress(psycopg.Error):
            if self._me is not None and not self._session.connection.closed:
                self._session.connection.execute(GIVE_UP, (self._me,))
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
    """Make the tables unless they are there, of this version; of several processes that begin at once, one does."""
    if _version(db) == VERSION:
        return
    # Not a lock of the transaction: what others have made meanwhile is seen for certain only by the next one.
    db.execute(f"SELECT pg_advisory_lock({LOCKS}, 0)")
    try:
        found = _version(db)
        with db.transaction():
            if not found:
                db.execute(SCHEMA)
            elif found < VERSION:
                db.execute("SET LOCAL statement_timeout = 0")
                for version in range(found, VERSION):
                    db.execute(MIGRATIONS[version])
    finally:
        db.execute(f"SELECT pg_advisory_unlock({LOCKS}, 0)")


def _made(db: psycopg.Connection[Any]) -> bool:
    return db.execute("SELECT to_regclass('answerkey_ledger') IS NOT NULL").fetchall() == [(True,)]


def _version(db: psycopg.Connection[Any]) -> int:
    """Of the tables; 0: there are none."""
    if not _made(db):
        return 0
    [(version,)] = db.execute("SELECT version FROM answerkey_ledger").fetchall()
    return int(version)


def _text(value: Any) -> Any:
    # The one character that PostgreSQL does not take in a text.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
