"""Every call to a model, recorded on disk as it happens: what was paid for is never asked again.

A SQLite file in WAL mode, because DuckDB admits one writing process and several runs share this. A call is
written down before it is sent and again when its reply is there, each in a transaction of its own, so a
killed process loses nothing but the calls in flight. (A power cut can also take the last moments before it.)
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

FILE = "judge.sqlite"

_SCHEMA = """
-- One row per request that was sent. status: sent (no reply yet, or the process was killed), usable, unreadable, error.
-- Only usable rows are ever served.
CREATE TABLE IF NOT EXISTS calls (
    call_id TEXT PRIMARY KEY,
    request_key TEXT NOT NULL,
    judge TEXT NOT NULL, prompt TEXT NOT NULL, run TEXT NOT NULL,
    kind TEXT NOT NULL,             -- ask, longer (more room for the reply), repair (shown what was wrong)
    attempt INTEGER NOT NULL,       -- counts the calls for one request in one run, from 1
    format TEXT NOT NULL,           -- json_schema, json_object, text: how the reply's format was asked for
    status TEXT NOT NULL,
    code TEXT, message TEXT,        -- what went wrong
    reserved REAL,                  -- dollars that it may cost at most, as long as the budget counts it as in flight
    started_at REAL NOT NULL,       -- Unix time
    seconds REAL,
    tokens_in INTEGER, tokens_out INTEGER,
    cost_usd REAL,                  -- NULL: price not known, or no reply
    model TEXT, fingerprint TEXT,   -- as the provider names what answered
    finish_reason TEXT, reply TEXT
);
CREATE INDEX IF NOT EXISTS calls_by_request ON calls (request_key, status);
-- Which process is asking a request right now.
CREATE TABLE IF NOT EXISTS claims (request_key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
-- What each run has spent. `reserved`: what its calls in flight may cost at most.
CREATE TABLE IF NOT EXISTS budgets (
    run TEXT PRIMARY KEY, calls INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0, in_flight INTEGER NOT NULL DEFAULT 0, reserved REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""
_WAIT_SECONDS = 60.0
_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
COLUMNS = (
    "call_id", "request_key", "judge", "prompt", "run", "kind", "attempt", "format", "status", "code", "message",
    "started_at", "seconds", "tokens_in", "tokens_out", "cost_usd", "model", "fingerprint", "finish_reason", "reply",
)  # fmt: skip

CallStatus = Literal["usable", "unreadable", "error"]
Permit = Literal["go", "wait", "max_calls", "max_cost"]


class LedgerError(OSError):
    """The ledger cannot be read or written. No call is made then, since its reply could be lost."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend; None: no limit."""

    run: str
    max_calls: int | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far. `unpriced` calls have no known price and are not in `cost_usd`."""

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """What the ledger knows of a reply: columns of `calls`."""

    model: str
    fingerprint: str
    finish_reason: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


class Owners:
    """Which of the processes that share `folder` are alive; None: this process is alone.

    Each holds a lock on a file of its own, which the system drops when the process dies, however it dies. A process id
    would not do: it is used again, and another container has ids of its own. A lock library would not do either: to
    probe a lock it creates the file, and so would bring back the file of a dead process.

    >>> alone = Owners(None)
    >>> alone.alive(alone.me), alone.alive("another")
    (True, False)
    """

    def __init__(self, folder: Path | None) -> None:
        self.me = uuid.uuid4().hex
        self._folder = folder
        self._lock: int | None = None
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            # Locked before it has its name: a file without a lock belongs to the dead.
            unnamed = folder / f".{self.me}"
            self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unnamed.rename(folder / self.me)

    def alive(self, owner: str) -> bool:
        """Whether the process that `owner` names still holds its lock. The file of a dead one is removed."""
        if owner == self.me or self._folder is None:
            return owner == self.me
        file = self._folder / owner
        try:
            probe = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(probe)
        file.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Let go."""
        if self._lock is not None and self._folder is not None:
            (self._folder / self.me).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


class Ledger:
    """The ledger in `folder`, or one in memory. Not for several threads at once.

    Raises:
        LedgerError: here and from every method, if the file cannot be read or written.

    >>> ledger = Ledger(None)
    >>> ledger.claim("a key"), ledger.reply("a key"), ledger.spent("a run")
    (True, None, Spent(calls=0, cost_usd=0.0, unpriced=0))
    >>> ledger.close()
    """

    def __init__(self, folder: Path | None) -> None:
        self._where = str(folder / FILE) if folder else ":memory:"
        with self._translated():
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self._where, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._switch_to_wal()
            self._db.executescript(_SCHEMA)
            self._owners = Owners(folder / "judge-owners" if folder else None)
            self._numbers = count(1)

    def _switch_to_wal(self) -> None:
        # Two processes that make the file at once: the switch fails at once instead of waiting for the other.
        for attempt in range(50):
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _IN_USE or attempt == 49:
                    raise
                time.sleep(0.1)
        self._db.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"the ledger {self._where} cannot be used ({error}); what was paid for so far is kept in it: "
                "free space or repair the file, then run again"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                # A full disk rolls back by itself; to do it again would hide the reason.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def reply(self, key: str) -> str | None:
        """The newest usable reply to a request."""
        with self._translated():
            row = self._db.execute(
                "SELECT reply FROM calls WHERE request_key = ? AND status = 'usable' ORDER BY started_at DESC LIMIT 1",
                (key,),
            ).fetchone()
        return None if row is None else str(row[0])

    def origin(self, key: str) -> Origin:
        """Where the reply to a request came from; it must be there."""
        with self._translated():
            row = self._db.execute(
                "SELECT model, fingerprint, finish_reason, tokens_in, tokens_out, cost_usd FROM calls "
                "WHERE request_key = ? AND status = 'usable' ORDER BY started_at DESC LIMIT 1",
                (key,),
            ).fetchone()
        return Origin(*row)

    def claim(self, key: str) -> bool:
        """Whether the caller may ask this request now: no other living process is asking it."""
        with self._translated():
            # A process that waits for another one looks often, and must not keep it from writing.
            if self._claimed(self._db, key):
                return False
        with self._transaction() as db:
            if self._claimed(db, key):
                return False
            me = self._owners.me
            if not db.execute("INSERT OR IGNORE INTO claims VALUES (?, ?)", (key, me)).rowcount:
                db.execute("UPDATE claims SET owner = ? WHERE request_key = ?", (me, key))
                self._settle(db, key)
            return True

    def _claimed(self, db: sqlite3.Connection, key: str) -> bool:
        row = db.execute("SELECT owner FROM claims WHERE request_key = ?", (key,)).fetchone()
        return row is not None and self._owners.alive(row[0])

    def _settle(self, db: sqlite3.Connection, key: str) -> None:
        """What a killed process had in flight never comes back, and may have to be paid: it counts as spent."""
        lost = "request_key = ? AND status = 'sent' AND reserved IS NOT NULL"
        sums = f"SELECT run, count(*), total(reserved) FROM calls WHERE {lost} GROUP BY run"
        for run, calls, most in db.execute(sums, (key,)).fetchall():
            db.execute(
                "UPDATE budgets SET in_flight = in_flight - ?, reserved = max(0, reserved - ?), "
                "cost_usd = cost_usd + ? WHERE run = ?",
                (calls, most, most, run),
            )
        db.execute(f"UPDATE calls SET reserved = NULL WHERE {lost}", (key,))

    def release(self, key: str) -> None:
        """Release a claim."""
        with self._translated():
            self._db.execute("DELETE FROM claims WHERE request_key = ? AND owner = ?", (key, self._owners.me))

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """Write a call down as sent, if the budget allows it; return the permit and the call's id.

        `call` gives request_key, judge, prompt, kind, attempt and format. `most_usd` is what it may cost at
        most; None: unknown. `wait`: the money left may still do when calls in flight have come in cheaper.
        """
        permit, call_id = "go", f"{self._owners.me}-{next(self._numbers)}"
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO budgets (run) VALUES (?)", (budget.run,))
            calls, cost, flying, reserved = db.execute(
                "SELECT calls, cost_usd, in_flight, reserved FROM budgets WHERE run = ?", (budget.run,)
            ).fetchone()
            if budget.max_calls is not None and calls >= budget.max_calls:
                return "max_calls", ""
            most = most_usd or 0.0
            if budget.max_cost_usd is not None and cost + reserved + most > budget.max_cost_usd:
                return ("wait" if flying else "max_cost"), ""
            db.execute(
                "UPDATE budgets SET calls = calls + 1, in_flight = in_flight + 1, reserved = reserved + ? "
                "WHERE run = ?",
                (most, budget.run),
            )
            names = ", ".join(call)
            db.execute(
                f"INSERT INTO calls (call_id, run, status, reserved, started_at, {names}) "
                f"VALUES (?, ?, 'sent', ?, ?{', ?' * len(call)})",
                (call_id, budget.run, most, time.time(), *call.values()),
            )
        return permit, call_id  # type: ignore[return-value]

    def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """Write down how a call ended. `result` gives further columns of `calls`."""
        cost = result.get("cost_usd")
        unpriced = "cost_usd" in result and cost is None
        with self._transaction() as db:
            sets = "".join(f", {name} = ?" for name in result)
            db.execute(
                f"UPDATE calls SET status = ?, reserved = NULL{sets} WHERE call_id = ?",
                (status, *result.values(), call_id),
            )
            db.execute(
                "UPDATE budgets SET in_flight = in_flight - 1, reserved = max(0, reserved - ?), "
                "cost_usd = cost_usd + ?, unpriced = unpriced + ? WHERE run = ?",
                (most_usd or 0.0, cost or 0.0, int(unpriced), budget.run),
            )

    def spent(self, run: str) -> Spent:
        """What a run has spent."""
        with self._translated():
            row = self._db.execute("SELECT calls, cost_usd, unpriced FROM budgets WHERE run = ?", (run,)).fetchone()
        return Spent(*row) if row else Spent()

    def calls(self, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Every call for these requests, as rows of `COLUMNS`, oldest first."""
        with self._translated():
            for start in range(0, len(keys), 500):
                some = keys[start : start + 500]
                yield from self._db.execute(
                    f"SELECT {', '.join(COLUMNS)} FROM calls WHERE request_key IN ({', '.join('?' * len(some))}) "
                    "ORDER BY started_at",
                    some,
                )

    def close(self) -> None:
        """Close the file and give up all claims."""
        with self._translated():
            try:
                self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owners.me,))
            finally:
                # On a full disk the claims stay; without their owner they block nothing.
                self._owners.close()
                self._db.close()
