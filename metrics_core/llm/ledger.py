"""The ledger of calls to models: no reply is paid for twice, and no run spends more than its budget.

A call is written down before it is sent and again when its reply is there, each in one transaction. A process that is
killed loses only the calls in flight, and these stay counted at the most that they may cost. Several processes share a
ledger, as a SQLite file or in PostgreSQL, with the same SQL. A process claims a request before it asks; a claim is a
lease that it renews, so the claims of a killed process lapse.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache, wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar
from urllib.parse import quote

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import CallLimits

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")
R = TypeVar("R")
Rows = list[tuple[Any, ...]]

CallStatus = Literal["usable", "unreadable", "error"]
Format = Literal["json_schema", "json_object", "text"]
"""How the format of a reply is asked for, from the strictest: a schema that the server enforces; any JSON object; the
words of the prompt alone."""
Permit = Literal["go", "wait", "max_calls", "max_cost", "max_cost_total"]

COLUMNS = (
    "call_id", "request_key", "judge", "prompt", "run", "kind", "attempt", "format", "status", "code", "message",
    "started_at", "seconds", "tokens_in", "tokens_out", "cost_usd", "model", "fingerprint", "finish_reason", "reply",
)  # fmt: skip
MAY_BE_PAID = ("timeout", "cancelled", "disconnected", "too_large", "garbled", "batch_gone", "error_in_reply")
"""Codes of calls that the server may have answered, though the reply cannot be used: the client stopped waiting, the
connection broke after the request was sent, the reply was too long, it belongs to no line of its batch, the provider
does not know the batch any more, or the server reports trouble within an answer."""
UNSENT = "unsent"
"""Code of a call that the provider never received, or did not work on in its batch: it costs nothing and does not count
as a call."""
FILE = "judge.sqlite"
_MEMORY = ":memory:"
POSTGRES = "postgresql:"
LEASE_S = 30.0
"""How long a claim holds after it was last renewed."""

_VERSION = 6
_WAIT_S = 60.0
"""For a lock that another process holds, and for a server that is away."""
_PAGE = 500
_LOCKED = "another process keeps it locked: end that one, then run again"
_DAMAGED = "the file is damaged: restore it from a backup, or move it away to start a new one"
_UNWRITABLE = "make the file and its folder writable, then run again"
_REMEDIES = {
    0: _DAMAGED,  # not from SQLite: a text in it cannot be decoded
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNWRITABLE,
    sqlite3.SQLITE_FULL: "free space, then run again",
    sqlite3.SQLITE_IOERR: "free space or repair the disk, then run again",
}

_TABLES = """
CREATE TABLE answerkey_ledger (version bigint NOT NULL);
CREATE TABLE answerkey_calls (
    number NUMBERED,                    -- in the order in which calls were sent
    call_id text NOT NULL UNIQUE,       -- owner of its claim, and a number
    request_key text NOT NULL,
    judge text NOT NULL, prompt text NOT NULL, run text NOT NULL,
    month text NOT NULL,                -- in which it was sent (UTC)
    kind text NOT NULL,                 -- ask, longer (more room for the reply), repair (shown what was wrong)
    attempt bigint NOT NULL,            -- counts the calls for one request in one run, from 1
    format text NOT NULL,
    status text NOT NULL,               -- sent (no reply yet, or its process was killed), usable, unreadable, error
    code text, message text,            -- what went wrong
    most_usd double precision,          -- what it may cost at most; NULL: price unknown
    started_at double precision NOT NULL, seconds double precision,
    tokens_in bigint, tokens_out bigint,
    cost_usd double precision,          -- NULL: price unknown, or nothing paid; without tokens_out: most_usd
    model text, fingerprint text, finish_reason text, reply text,
    batch text,                         -- NULL: sent on its own
    size bigint                         -- not used
);
CREATE INDEX answerkey_calls_by_request ON answerkey_calls (request_key, status);
CREATE INDEX answerkey_calls_by_run ON answerkey_calls (run);
CREATE INDEX answerkey_calls_by_prompt ON answerkey_calls (judge, prompt);
CREATE TABLE answerkey_claims (
    request_key text PRIMARY KEY, owner text NOT NULL, expires_at double precision NOT NULL
);
CREATE TABLE answerkey_batches (
    batch text PRIMARY KEY, judge text NOT NULL, sent_at double precision NOT NULL, provider_id text
);
-- A row for each run and one for each month. A call counts from the moment it is written down, at the most it may cost.
CREATE TABLE answerkey_budgets (
    run text PRIMARY KEY, calls bigint NOT NULL, cost_usd double precision NOT NULL, unpriced bigint NOT NULL
)
"""
_CLAIM = """
INSERT INTO answerkey_claims AS c (request_key, owner, expires_at) VALUES (:key, :owner, :now + :lease)
ON CONFLICT (request_key) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE c.owner = excluded.owner OR c.expires_at <= :now
RETURNING 1
"""
_RENEW = "UPDATE answerkey_claims SET expires_at = :now + :lease WHERE owner = :owner"
_SEND = """
INSERT INTO answerkey_calls (
    call_id, request_key, judge, prompt, run, month, kind, attempt, format, status, most_usd, started_at, cost_usd,
    batch
)
SELECT :call_id, request_key, :judge, :prompt, :run, :month, :kind, :attempt, :format, 'sent', :most_usd, :now,
       :most_usd, :batch
FROM answerkey_claims WHERE request_key = :request_key AND owner = :owner
RETURNING 1
"""
_COUNT = """
INSERT INTO answerkey_budgets AS b (run, calls, cost_usd, unpriced)
SELECT :run, :calls, :cost_usd, :unpriced WHERE :calls <= :max_calls AND :cost_usd <= :max_cost_usd
ON CONFLICT (run) DO UPDATE SET
    calls = b.calls + excluded.calls, cost_usd = b.cost_usd + excluded.cost_usd,
    unpriced = b.unpriced + excluded.unpriced
WHERE b.calls + excluded.calls <= :max_calls AND b.cost_usd + excluded.cost_usd <= :max_cost_usd
RETURNING 1
"""
# Calls of killed processes never end, so only those whose claim is held count
_IN_FLIGHT = """
SELECT 1 FROM answerkey_claims AS l JOIN answerkey_calls AS c ON c.request_key = l.request_key AND c.status = 'sent'
WHERE l.expires_at > :now AND (c.run = :run OR c.month = :month)
  AND c.call_id <> :call_id AND (c.batch IS NOT NULL OR c.call_id LIKE l.owner || '-%')
LIMIT 1
"""
_END = """
UPDATE answerkey_calls SET
    status = :status, code = :code, message = :message, seconds = :seconds, tokens_in = :tokens_in,
    tokens_out = :tokens_out, cost_usd = :cost_usd, model = :model, fingerprint = :fingerprint,
    finish_reason = :finish_reason, reply = :reply
WHERE call_id = :call_id AND status = 'sent'
RETURNING run, month, most_usd
"""
_REPLY = """
SELECT reply, model, fingerprint, finish_reason, tokens_in, tokens_out, cost_usd FROM answerkey_calls
WHERE request_key = :key AND status = 'usable' ORDER BY number DESC LIMIT 1
"""
_BATCHED = """
SELECT call_id, format, most_usd, c.batch, sent_at, provider_id, run
FROM answerkey_calls AS c LEFT JOIN answerkey_batches AS b ON b.batch = c.batch
WHERE request_key = :key AND status = 'sent' AND c.batch IS NOT NULL
ORDER BY c.number DESC LIMIT 1
"""
_PUT_BATCH = """
INSERT INTO answerkey_batches (batch, judge, sent_at, provider_id) VALUES (:batch, :judge, :now, :provider_id)
ON CONFLICT (batch) DO UPDATE SET provider_id = coalesce(excluded.provider_id, answerkey_batches.provider_id)
"""
_SPENT = f"""
SELECT
    judge,
    count(CASE WHEN code = '{UNSENT}' THEN NULL ELSE 1 END) AS calls,
    CAST(coalesce(sum(tokens_in), 0) AS bigint) AS tokens_in,
    CAST(coalesce(sum(tokens_out), 0) AS bigint) AS tokens_out,
    -- NULL if the price of a call is unknown that was paid, or may have been
    CASE count(
        CASE WHEN cost_usd IS NULL AND (reply IS NOT NULL OR status = 'sent' OR code IN {MAY_BE_PAID}) THEN 1 END
    ) WHEN 0 THEN coalesce(sum(cost_usd), 0) END AS cost_usd,
    coalesce(sum(CASE WHEN tokens_out IS NULL THEN cost_usd END), 0) AS reserved_usd
FROM answerkey_calls WHERE WHICH GROUP BY judge ORDER BY judge
"""
_NO_RESULT: dict[str, Any] = dict.fromkeys(
    ("code", "message", "seconds", "tokens_in", "tokens_out", "cost_usd", "model", "fingerprint", "finish_reason",
     "reply")
)  # fmt: skip


class LedgerError(OSError):
    """The ledger cannot be read or written. No call is made then, since its reply could be lost."""


class ClaimLost(Exception):
    """This process does not hold the claim of a request (any more): another process may be asking it."""


class _Refused(Exception):
    def __init__(self, permit: Permit) -> None:
        self.permit: Permit = permit


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far, or a part of it, with its calls in flight at the most that they may cost.

    `unpriced` calls have no known price and are not in `cost_usd`.
    """

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class JudgeSpent:
    """What a run has spent on one judge.

    Attributes:
        tokens_in, tokens_out: of the replies whose server reports its tokens.
        cost_usd: dollars; None: the price of some of the calls is not known.
        reserved_usd: the part of it for calls whose cost is not known: the most that they may have cost.
    """

    judge: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    reserved_usd: float


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a reply came from: columns of `calls`."""

    model: str
    fingerprint: str
    finish_reason: str
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A call that waits in a batch at a provider, or did so when its process was killed.

    Attributes:
        format: how the format of its reply was asked for.
        most_usd: the most that it may cost; None: its price is unknown.
        batch: the name of the batch, as answerkey chose it.
        sent_at: Unix time when the batch began to be sent; None: it never did.
        provider_id: the provider's name of the batch; None: it is not known whether the provider has it.
    """

    call_id: str
    format: Format
    most_usd: float | None
    batch: str
    sent_at: float | None
    provider_id: str | None


def _verb(method: Callable[Concatenate[Ledger, P], R]) -> Callable[Concatenate[Ledger, P], R]:
    """A method that can be done again from the start where the connection to the server was lost."""

    @wraps(method)
    def repeated(self: Ledger, /, *arguments: P.args, **options: P.kwargs) -> R:
        while True:
            try:
                return method(self, *arguments, **options)
            except self._errors as error:
                self._recover(error)

    return repeated


class Ledger:
    """An open ledger, in a SQLite file or in memory, where no other process sees it. Not for several threads at once.

    Raises:
        LedgerError: from every method, if the database cannot be read or written.

    >>> ledger = open_ledger(None)
    >>> call = dict(request_key="k", judge="openai/j", prompt="p@1", kind="ask", attempt=1, format="text")
    >>> ledger.claim("k")
    True
    >>> permit, call_id = ledger.start(CallLimits(run="run", max_cost_usd=1.0), call, 0.5)
    >>> ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.25})
    >>> permit, ledger.reply("k"), ledger.spent("run")
    ('go', 'yes', Spent(calls=1, cost_usd=0.25, unpriced=0))
    >>> ledger.close()
    """

    _errors: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
    # What removes deleted texts from the disk
    _clean_up: tuple[str, ...] = ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")

    def __init__(self, where: str, *, make: bool = True) -> None:
        self.where = where
        self._owner = uuid.uuid4().hex
        self._numbers = count(1)
        errors: tuple[type[Exception], ...] = (*self._errors, OSError)
        try:
            self._connection = self._connect()
        except errors as error:
            raise self._failure(error) from error
        try:
            self._open(make)
        except BaseException:
            self._connection.close()
            raise

    def _connect(self) -> Any:
        # To be written, and made if it is missing; or to be read where it may only be read
        address = self.where
        if address != _MEMORY:
            file = Path(address)
            file.parent.mkdir(parents=True, exist_ok=True)
            effective = os.access in os.supports_effective_ids
            paths = [path for path in (file.parent, file) if path.exists()]
            if all(os.access(path, os.W_OK, effective_ids=effective) for path in paths):
                mode = "rwc"
            else:
                # SQLite makes a file beside one that may be written meanwhile, but here nobody can make any.
                mode = "ro" if Path(f"{file}-wal").exists() else "ro&immutable=1"
            address = f"file:{quote(str(file))}?mode={mode}"
        connection = sqlite3.connect(
            address,
            timeout=_WAIT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=address != _MEMORY,
        )
        # A commit does not wait for the disk; a power cut can take the last moments before it.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    @_verb
    def _open(self, make: bool) -> None:
        if self.version() is None:
            if not make:
                return
            self._make()
        version = self.version()
        if version != _VERSION:
            raise LedgerError(
                f"the ledger {self.where} was made by another version of answerkey: its format is {version}, "
                f"and this one needs {_VERSION}: use that version, or move the ledger away to start a new one"
            )

    def _rows(self, sql: str, **values: Any) -> Rows:
        rows: Rows = self._connection.execute(sql, values).fetchall()
        return rows

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """The statements within take effect together, or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            # A full disk rolls back by itself; to do it again would hide the reason.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def version(self) -> int | None:
        """The version of its tables; None: it has none yet."""
        has_tables, is_ledger = self._rows(
            "SELECT count(*), coalesce(max(name = 'answerkey_ledger'), 0) FROM sqlite_master"
        )[0]
        if not has_tables:
            return None
        if not is_ledger:
            raise LedgerError(
                f"{self.where} is not a ledger that this version of answerkey can use: move it away to start a new one"
            )
        return int(self._rows("SELECT version FROM answerkey_ledger")[0][0])

    def _make(self) -> None:
        # Let others read while one writes. SQLite waits for others everywhere but here, where several make a file.
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        with self._transaction():
            if self.version() is None:
                for statement in _TABLES.replace("NUMBERED", "integer PRIMARY KEY").split(";\n"):
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO answerkey_ledger VALUES (?)", (_VERSION,))

    def _recover(self, error: Exception) -> None:
        """Return if what failed can be done again, else raise a `LedgerError`."""
        raise self._failure(error) from error

    def _failure(self, error: Exception) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return LedgerError(
            f"the ledger {self.where} cannot be used ({error}); what was paid for so far is kept in it: "
            + _REMEDIES.get(code, "repair the file, then run again")
        )

    @_verb
    def reply(self, key: str) -> str | None:
        """The newest usable reply to a request; None: there is none."""
        rows = self._rows(_REPLY, key=key)
        return rows[0][0] if rows else None

    @_verb
    def origin(self, key: str) -> Origin:
        """Where the reply came from that `reply` returns.

        Raises:
            KeyError: there is no reply.
        """
        for _, *columns in self._rows(_REPLY, key=key):
            return Origin(*columns)
        raise KeyError(key)

    @_verb
    def claim(self, key: str) -> bool:
        """Whether this ledger may ask a request now: no other one holds its claim.

        A claim lapses `LEASE_S` seconds after the last `renew`.
        """
        return bool(self._rows(_CLAIM, key=key, owner=self._owner, now=time.time(), lease=LEASE_S))

    def reply_or_claim(
        self, key: str, unread: str | None = None, run: str | None = None
    ) -> tuple[str | None, bool, BatchedCall | None]:
        """The reply to a request; or else whether this ledger has claimed it, and the call for it that `adopt` returns.

        Args:
            unread: a reply that cannot be read, and counts as none.
            run: adopts a call that was left in a batch; None: such a call stays where it is.
        """
        if (reply := self.reply(key)) in (None, unread) and self.claim(key):
            # Another process may have had the reply just before its claim ended.
            if (reply := self.reply(key)) in (None, unread):
                return None, True, None if run is None else self.adopt(key, run)
            self.release(key)
        return None if reply == unread else reply, False, None

    @_verb
    def release(self, key: str) -> None:
        """Give up a claim."""
        sql = "DELETE FROM answerkey_claims WHERE request_key = :key AND owner = :owner"
        self._rows(sql, key=key, owner=self._owner)

    @_verb
    def renew(self) -> None:
        """Hold all claims that no other process has taken over for another `LEASE_S` seconds."""
        self._rows(_RENEW, owner=self._owner, now=time.time(), lease=LEASE_S)

    @_verb
    def start(self, limits: CallLimits, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """Write a call down as sent, if the budget allows it; return the permit and the call's id.

        Args:
            limits: those of the run and of the month.
            call: request_key, judge, prompt, kind, attempt and format; batch, if it goes in one.
            most_usd: what it may cost at most, in dollars; None: its price is unknown.

        Returns:
            `go`; or, with an empty id, the limit that forbids the call; or `wait`: calls in flight may still cost less
            than is reserved for them, or turn out not to have been sent.

        Raises:
            ClaimLost: this ledger does not hold the claim of the request.
        """
        # The call, and what it may cost
        now = time.time()
        month = f"{datetime.fromtimestamp(now, UTC):%Y-%m}"
        call_id = f"{self._owner}-{next(self._numbers)}"
        values = {
            "batch": None,
            **call,
            "call_id": call_id,
            "run": limits.run,
            "month": month,
            "now": now,
            "most_usd": most_usd,
            "owner": self._owner,
        }
        change = Spent(1, most_usd or 0.0, int(most_usd is None))

        # Always count it for the run before the month, or two writers deadlock
        try:
            with self._transaction():
                if not self._rows(_SEND, **values):
                    raise ClaimLost(call["request_key"])
                if not self._count(limits.run, change, limits.max_calls, limits.max_cost_usd):
                    if self._rows(_IN_FLIGHT, **{**values, "month": None}):
                        raise _Refused("wait")
                    rows = self._rows("SELECT calls FROM answerkey_budgets WHERE run = :run", run=limits.run)
                    has_no_calls = limits.max_calls is not None and sum(calls for (calls,) in rows) >= limits.max_calls
                    raise _Refused("max_calls" if has_no_calls else "max_cost")
                if not self._count(f"month {month}", change, None, limits.max_cost_total_usd):
                    in_flight = self._rows(_IN_FLIGHT, **{**values, "run": None})
                    raise _Refused("wait" if in_flight else "max_cost_total")
        except _Refused as refused:
            return refused.permit, ""
        return "go", call_id

    def _count(self, run: str, change: Spent, max_calls: int | None = None, max_cost_usd: float | None = None) -> bool:
        """Add what was spent to a budget, unless a limit forbids it."""
        limits = {
            "max_calls": 2**62 if max_calls is None else max_calls,
            # Sums of binary fractions have rounding errors.
            "max_cost_usd": float("inf") if max_cost_usd is None else max_cost_usd + 1e-9,
        }
        return bool(self._rows(_COUNT, run=run, **asdict(change), **limits))

    @_verb
    def finish(self, call_id: str, status: CallStatus, result: Mapping[str, Any]) -> None:
        """Write down how a call ended. One that has ended already stays as it is.

        Args:
            result: further columns of `calls`. `cost_usd` None: the price is unknown; left out:
                nothing was paid. With the code `UNSENT` the budget has the call back.

        Raises:
            KeyError: there never was such a call.
        """
        values = {**_NO_RESULT, **result}
        for name, value in values.items():
            if isinstance(value, str):
                # The one character that PostgreSQL does not take in a text.
                values[name] = value.replace("\0", "\ufffd")
        cost = result.get("cost_usd")
        with self._transaction():
            ended = self._rows(_END, **values, call_id=call_id, status=status)
            for run, month, most_usd in ended:
                change = Spent(
                    calls=-int(result.get("code") == UNSENT),
                    cost_usd=(cost or 0.0) - (most_usd or 0.0),
                    unpriced=int("cost_usd" in result and cost is None) - int(most_usd is None),
                )
                for counted in (run, f"month {month}"):
                    self._count(counted, change)
        if not ended and not self._rows("SELECT 1 FROM answerkey_calls WHERE call_id = :call_id", call_id=call_id):
            raise KeyError(call_id)

    @_verb
    def adopt(self, key: str, run: str) -> BatchedCall | None:
        """The call for a claimed request that was left waiting in a batch, charged to this run from now on.

        None: there is none. It is to be finished as a call that this ledger has started.
        """
        for *columns, earlier_run in self._rows(_BATCHED, key=key):
            call = BatchedCall(*columns)
            if earlier_run != run:
                reserved_usd = call.most_usd or 0.0
                unpriced = int(call.most_usd is None)
                move = "UPDATE answerkey_calls SET run = :run WHERE call_id = :call_id"
                with self._transaction():
                    self._rows(move, run=run, call_id=call.call_id)
                    self._count(earlier_run, Spent(-1, -reserved_usd, -unpriced))
                    self._count(run, Spent(1, reserved_usd, unpriced))
            return call
        return None

    @_verb
    def put_batch(self, batch: str, judge: str, provider_id: str | None) -> None:
        """Write down that a batch is about to be sent or, once it is known, how the provider names it."""
        self._rows(_PUT_BATCH, batch=batch, judge=judge, now=time.time(), provider_id=provider_id)

    @_verb
    def spent(self, run: str) -> Spent:
        """What a run has spent."""
        sql = "SELECT calls, cost_usd, unpriced FROM answerkey_budgets WHERE run = :run"
        for calls, cost_usd, unpriced in self._rows(sql, run=run):
            # Sums of what was reserved and given back have rounding errors, which would print as -0.0000.
            return Spent(calls, abs(round(cost_usd, 12)), unpriced)
        return Spent()

    @_verb
    def spent_by_judge(self, run: str | None, keys: Sequence[str] = ()) -> list[JudgeSpent]:
        """What a run has spent on each judge, by their names; None: what all runs have spent on these requests."""
        which, values = _among(keys) if run is None else ("run = :run", {"run": run})
        return [JudgeSpent(*row) for row in self._rows(_SPENT.replace("WHICH", which), **values)]

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """Every call for these requests, or every one, as rows of `COLUMNS`, oldest first."""
        if keys is None:
            number = -1
            while page := self._calls(f"number > :after ORDER BY number LIMIT {_PAGE}", {"after": number}):
                number = page[-1][-1]
                yield from (row[:-1] for row in page)
            return
        for start in range(0, len(keys), _PAGE):
            which, values = _among(keys[start : start + _PAGE])
            yield from (row[:-1] for row in self._calls(f"{which} ORDER BY number", values))

    @_verb
    def _calls(self, which: str, values: Mapping[str, Any]) -> Rows:
        """Calls with their `COLUMNS`, and the number of each behind them."""
        return self._rows(f"SELECT {', '.join(COLUMNS)}, number FROM answerkey_calls WHERE {which}", **values)

    @_verb
    def forget(self, keys: Sequence[str]) -> int:
        """Delete every call for these requests, with its reply; return how many. Budgets stay as they are."""
        sql = "DELETE FROM answerkey_calls WHERE request_key = :key RETURNING 1"
        with self._transaction():
            deleted = sum(len(self._rows(sql, key=key)) for key in keys)
        for statement in self._clean_up:
            self._connection.execute(statement)
        return deleted

    def close(self) -> None:
        """Give up all claims and close. A call that is still in flight stays counted at the most that it may cost."""
        # Where the database cannot be written any more, the claims lapse.
        with suppress(*self._errors):
            self._rows("DELETE FROM answerkey_claims WHERE owner = :owner", owner=self._owner)
        self._connection.close()


def _among(keys: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The condition that a call is for one of these requests, and its values."""
    values = {f"key{number}": key for number, key in enumerate(keys)}
    return f"request_key IN ({', '.join(f':{name}' for name in values)})", values


class _Postgres(Ledger):
    """A ledger in a PostgreSQL database, for processes on several machines."""

    _clean_up = ("VACUUM answerkey_calls",)

    def __init__(self, location: str, *, make: bool = True) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise UserError(
                "a ledger in PostgreSQL needs psycopg: install answerkey with its extra, answerkey[cluster]"
            ) from error
        self._psycopg = psycopg
        self._errors = (psycopg.Error,)
        self._away = False

        # Where it is, without a secret
        try:
            settings = conninfo_to_dict(
                location if location.startswith("postgresql://") else location.removeprefix(POSTGRES)
            )
        except psycopg.Error:
            # The message of libpq repeats the text, and there may be a password in it.
            raise UserError(
                "the address of the ledger is not a valid connection string: write postgresql://USER@HOST/DATABASE"
            ) from None
        if "password" in settings or "sslpassword" in settings:
            raise UserError(
                "the address of the ledger must not contain a password: put it into the file that PGPASSFILE names, or "
                "into PGPASSWORD"
            )
        # A host that is lost without a word is noticed within half a minute.
        keepalives = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "connect_timeout": 10}
        self._settings: dict[str, Any] = {**keepalives, "application_name": "answerkey ledger", **settings}

        # As messages name it
        user = f"{settings['user']}@" if settings.get("user") else ""
        port = f":{settings['port']}" if settings.get("port") else ""
        address = f"postgresql://{user}{settings.get('host', '')}{port}/{settings.get('dbname', '')}"
        super().__init__(address, make=make)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._psycopg.connect(**self._settings, autocommit=True)
        connection.execute(f"SET statement_timeout = '{_WAIT_S:.0f}s'")
        return connection

    def _rows(self, sql: str, **values: Any) -> Rows:
        cursor = self._connection.execute(_translated(sql), values)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            yield

    def version(self) -> int | None:
        if self._rows("SELECT to_regclass('answerkey_ledger')") == [(None,)]:
            return None
        return int(self._rows("SELECT version FROM answerkey_ledger")[0][0])

    def _make(self) -> None:
        tables = _TABLES.replace("NUMBERED", "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
        with self._connection.transaction():
            self._connection.execute(f"{tables}; INSERT INTO answerkey_ledger VALUES ({_VERSION})")

    def _recover(self, error: Exception) -> None:
        errors = self._psycopg.errors
        # The latter three: of several processes that begin at once, one has made the tables.
        if isinstance(
            error, errors.DeadlockDetected | errors.DuplicateTable | errors.DuplicateObject | errors.UniqueViolation
        ):
            return
        if errors.AdminShutdown in (type(error), type(error.__context__)):
            # The server goes away, and a connection that was cut within a transaction does not notice at once.
            self._connection.close()
        if not self._connection.closed:
            raise self._failure(error) from error
        # The calls that are in flight when the server goes away need not each wait as long.
        deadline = time.monotonic() + (0.0 if self._away else _WAIT_S)
        while True:
            try:
                self._connection = self._connect()
            except self._psycopg.Error as again:
                if time.monotonic() >= deadline:
                    self._away = True
                    raise self._failure(again) from again
                time.sleep(0.2)
            else:
                self._away = False
                return

    def _failure(self, error: Exception) -> LedgerError:
        return LedgerError(
            f"the ledger {self.where} cannot be used ({' '.join(str(error).split())}); what was paid for so far is "
            "kept in it: bring the server back, then run again"
        )


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    """SQL with the marks of psycopg for its values, and the clock of the server, which all machines share.

    >>> _translated("SELECT :now WHERE a LIKE 'b%' AND d = :key")
    "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision) WHERE a LIKE 'b%%' AND d = %(key)s"
    """
    marked = re.sub(r":(\w+)", r"%(\1)s", sql.replace("%", "%%"))
    return marked.replace("%(now)s", "CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


def open_ledger(location: str | None) -> Ledger:
    """The ledger at a location, which is made if it is not there.

    Args:
        location: a folder; or `postgresql:` and what libpq takes, like `postgresql://me@db/answerkey` or
            `postgresql:host=db dbname=answerkey`, without a password; None: in memory, for this one user.

    Raises:
        LedgerError: it cannot be opened, is damaged, or has another format.
        UserError: the text after `postgresql:` cannot be used, or a package is missing.

    >>> ledger = open_ledger(None)
    >>> ledger.claim("a key")
    True
    >>> ledger.close()
    """
    if location is not None and location.startswith(POSTGRES):
        return _Postgres(location)
    return Ledger(_MEMORY if location is None else str(Path(location) / FILE))


def ledger_exists(location: str | None) -> bool:
    """Whether there is a ledger at a location, as `open_ledger` takes it. None is made.

    Raises:
        LedgerError: the server cannot be reached.
        UserError: as `open_ledger`.

    >>> ledger_exists(None)
    False
    """
    if location is not None and location.startswith(POSTGRES):
        with closing(_Postgres(location, make=False)) as ledger:
            return ledger.version() is not None
    return location is not None and (Path(location) / FILE).exists()


@contextmanager
def existing_ledger(location: str | None) -> Iterator[Ledger]:
    """The ledger at a location, to be read; an empty one in memory if there is none. None is made.

    Raises:
        LedgerError: it cannot be read.
        UserError: as `open_ledger`.

    >>> with existing_ledger(None) as ledger:
    ...     ledger.reply("a key") is None
    True
    """
    with closing(open_ledger(location if ledger_exists(location) else None)) as ledger:
        yield ledger


class AsyncLedger:
    """A ledger for an event loop: its methods run in one thread of their own, in the order of the calls.

    A method that was called runs to its end, also if its caller is cancelled meanwhile. Claims are renewed until the
    ledger is closed.
    """

    def __init__(self, ledger: Ledger, thread: ThreadPoolExecutor) -> None:
        self._ledger, self._thread = ledger, thread
        self._renewing = asyncio.create_task(self._renew())

    @classmethod
    async def open(cls, location: str | None) -> AsyncLedger:
        """The ledger at `location`.

        Raises:
            LedgerError, UserError: as `open_ledger`.
        """
        thread = ThreadPoolExecutor(1, "ledger")
        try:
            return cls(await asyncio.get_running_loop().run_in_executor(thread, open_ledger, location), thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            # The next verb fails for the same reason, and its caller hears of it.
            with suppress(LedgerError):
                await self.do(Ledger.renew)

    async def do(self, verb: Callable[Concatenate[Ledger, P], R], *arguments: P.args, **_: P.kwargs) -> R:
        """Call a method of `Ledger` with these arguments."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, verb, self._ledger, *arguments))

    async def start(self, limits: CallLimits, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """Start a call, as `Ledger.start` does; if the caller is cancelled meanwhile, give it back as unsent."""
        starting = asyncio.ensure_future(self.do(Ledger.start, limits, call, most_usd))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            permit, call_id = await starting
            if permit == "go":
                result = {"code": UNSENT, "message": "the run was stopped before the call was made", "cost_usd": 0.0}
                await self.do(Ledger.finish, call_id, "error", result)
            raise

    async def close(self) -> None:
        """Close the ledger, after every verb that was called before."""
        self._renewing.cancel()
        try:
            await self.do(Ledger.close)
        finally:
            self._thread.shutdown(wait=False)
