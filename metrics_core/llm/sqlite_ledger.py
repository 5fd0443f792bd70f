"""The ledger in a folder: a SQLite file in WAL mode, because DuckDB admits one writing process and runs share this.

A killed process loses nothing that was written; a power cut can also take the last moments before it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from answerkey.metrics_core.llm.ledger import (
    COLUMNS,
    LATEST,
    OF_RUN,
    UNSENT,
    BatchedCall,
    Budget,
    CallStatus,
    LedgerBusy,
    LedgerError,
    Permit,
    RestOfCall,
    Spent,
    StoredLedger,
    beginning_of,
    checksum,
    month_of,
    sealed,
    with_checksum,
)
from answerkey.metrics_core.llm.sqlite_file import (
    APPLICATION,
    WAIT_SECONDS,
    connected,
    for_reading,
    made,
    make,
    writable,
)
from answerkey.metrics_core.llm.sqlite_owners import Owners
from answerkey.metrics_core.llm.sqlite_statements import (
    ABANDONED,
    BATCHED,
    GIVE_UP,
    LENGTHS,
    LOST,
    MIGRATIONS,
    NEW_MONTH,
    RELEASE,
    VERSION,
)

FILE = "judge.sqlite"
OWNERS = "judge-owners"
_LONG_LOG = 4 << 20
"""Bytes: a thousand pages, as where SQLite moves the log by itself."""
_NOTHING_ABANDONED = 4
"""The version from which on no call is left in flight that nobody settles."""
_LEAST_FREE = 16 << 20
"""Bytes on the disk: with less, the replies to a few hundred calls in flight might not find room."""
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked: end that one, then run again",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked: end that one, then run again",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore it from a backup, or move it away to begin a new one",
    sqlite3.SQLITE_NOTADB: "the file is damaged: restore it from a backup, or move it away to begin a new one",
}


class SQLiteLedger(StoredLedger):
    """The ledger in `folder`, or one in memory; see `ledger.Ledger` for what it does.

    Where the folder or the file may only be read, replies are served, and no request can be claimed.

    Raises:
        LedgerError: here and from every method, if the file cannot be read or written. A file that is damaged, or not
            a ledger, is never replaced by a new one.

    >>> ledger = SQLiteLedger(None)
    >>> ledger.claim("a key"), ledger.reply("a key"), ledger.spent("a run")
    (True, None, Spent(calls=0, cost_usd=0.0, unpriced=0))
    >>> ledger.close()
    """

    quick = True

    def __init__(self, folder: Path | None) -> None:
        super().__init__(str(folder / FILE) if folder else ":memory:")
        self._folder = folder
        self._checksum, self._weights = "checksum", "weights"
        self._read_only = False
        self._patient = True
        self._mover: sqlite3.Connection | None = None
        # Only who writes is an owner: reading leaves no file.
        self._owners: Owners | None = None
        with self._translated():
            if folder is None:
                self._db = connected(":memory:")
                make(self._db)
                return
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / FILE
            made(file)
            self._read_only = not writable(file)
            self._address = f"file:{quote(str(file))}?mode=rw"
            self._db = for_reading(file) if self._read_only else connected(self._address)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        found = self._version()
        if self._read_only:
            self._checksum = "checksum" if found > 1 else "NULL"
            self._weights = "weights" if found > 4 else "NULL"
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        # A commit adds to the log without waiting for the disk, as long as it need not move the log to the file.
        self._db.execute("PRAGMA wal_autocheckpoint = 0")
        if found < VERSION:
            with self._transaction():
                # Another process may have done it meanwhile.
                steps = range(self._version(), VERSION)
                for version in steps:
                    for statement in MIGRATIONS[version]:
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {version + 1}")
                if _NOTHING_ABANDONED - 1 in steps:
                    for (key,) in self._db.execute(ABANDONED).fetchall():
                        self._settle(self._db, key)

    def _version(self) -> int:
        [(version,)] = self._db.execute("PRAGMA user_version").fetchall()
        if version > VERSION:
            raise LedgerError(f"the ledger {self._where} was made by a newer answerkey (its version is {version})")
        columns = {name for _, name, *_ in self._db.execute("PRAGMA table_info(calls)")}
        if missing := [name for name in (*COLUMNS, "reserved") if name not in columns]:
            what = f"its calls have no {missing[0]}" if columns else "it has no table of calls"
            raise LedgerError(f"{self._where} is not a ledger that this answerkey can use: {what}")
        return int(version) or 1

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except LedgerError:
            raise
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            # A damaged name of a table has no text that sqlite3 could put into its message.
            damaged = isinstance(error, UnicodeDecodeError)
            code = sqlite3.SQLITE_CORRUPT if damaged else getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and not self._patient:
                raise LedgerBusy(f"the ledger {self._where} is being written by another process") from error
            remedy = _REMEDIES.get(code, "free space or repair the file, then run again")
            raise LedgerError(
                f"the ledger {self._where} cannot be used ({error}); what was paid for so far is kept in it: {remedy}"
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

    def _writing(self) -> Owners:
        """This process as one that writes.

        Raises:
            LedgerError: a reply could not be kept, so nothing may be asked.
        """
        if self._read_only:
            raise LedgerError(
                f"the ledger {self._where} may only be read, so no question can be asked whose reply is not in it: "
                "make the file and its folder writable, then run again"
            )
        if self._owners is None:
            with self._translated():
                owners = Owners(self._folder / OWNERS if self._folder else None)
            try:
                self._settle_dead(owners)
            except BaseException:
                owners.close()
                raise
            self._owners = owners
        return self._owners

    def _settle_dead(self, owners: Owners) -> None:
        """Settle what killed processes had in flight, so that no budget waits for it."""
        owners.forget_dead()
        found = self._rows("SELECT request_key, owner FROM claims")
        if not (dead := [claim for claim in found if not owners.alive(claim[1])]):
            return
        with self._transaction() as db:
            for claim in dead:
                # Unless another process has taken it over meanwhile, or this one stood still and goes on.
                gone = not owners.alive(claim[1])
                if gone and db.execute("DELETE FROM claims WHERE request_key = ? AND owner = ?", claim).rowcount:
                    self._settle(db, claim[0])

    def _usable(self, key: str) -> list[tuple[Any, ...]]:
        # By rowid: the clock of a machine can run backwards.
        return self._rows(
            f"SELECT reply, {self._checksum}, model, fingerprint, finish_reason, tokens_in, tokens_out, "
            f"cost_usd, {self._weights} FROM calls WHERE request_key = ? AND status = 'usable' ORDER BY rowid DESC",
            key,
        )

    def claim(self, key: str) -> bool:
        """See `Ledger`."""
        owners = self._writing()
        # A process that waits for another one looks often, and must not keep it from writing.
        if self._claimed(owners, key):
            return False
        with self._transaction() as db:
            if self._claimed(owners, key):
                return False
            if not db.execute("INSERT OR IGNORE INTO claims VALUES (?, ?)", (key, owners.me)).rowcount:
                db.execute("UPDATE claims SET owner = ? WHERE request_key = ?", (owners.me, key))
                self._settle(db, key)
            return True

    def _claimed(self, owners: Owners, key: str) -> bool:
        found = self._rows("SELECT owner FROM claims WHERE request_key = ?", key)
        return any(owners.alive(owner) for (owner,) in found)

    def _settle(self, db: sqlite3.Connection, key: str) -> None:
        """What a killed process had in flight never comes back, and may have to be paid: it counts as spent."""
        for call_id, run, most, started, usual in db.execute(LOST, (key,)).fetchall():
            cost = min(most, usual)
            self._settle_one((run, month_of(started)), most, cost)
            query = "UPDATE calls SET cost_usd = nullif(?, 0), reserved = NULL WHERE call_id = ?"
            db.execute(query, (cost, call_id))

    def _settle_one(
        self, places: tuple[str, str], most: float, cost: float, *, unpriced: bool = False, unsent: bool = False
    ) -> None:
        self._db.execute(
            "UPDATE budgets SET in_flight = in_flight - 1, reserved = max(0, reserved - ?), "
            "cost_usd = cost_usd + ?, unpriced = unpriced + ?, calls = calls - ? WHERE run IN (?, ?)",
            (most, cost, unpriced, unsent, *places),
        )

    def release(self, key: str) -> None:
        """See `Ledger`."""
        self._rows(RELEASE, self._writing().me, key)

    def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""
        call_id = f"{self._writing().me}-{next(self._numbers)}"
        self._room()
        month, total = month_of(now := time.time()), budget.max_cost_total_usd
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO budgets (run) VALUES (?)", (budget.run,))
            query = "SELECT calls, cost_usd, in_flight, reserved FROM budgets WHERE run = ?"
            calls, cost, flying, reserved = db.execute(query, (budget.run,)).fetchone()
            if budget.max_calls is not None and calls >= budget.max_calls:
                return "max_calls", ""
            most = most_usd or 0.0
            if budget.max_cost_usd is not None and cost + reserved + most > budget.max_cost_usd:
                return ("wait" if flying else "max_cost"), ""
            if total is not None:
                spent, flying = self._of_month(db, month)
                if spent + most > total:
                    return ("wait" if flying else "max_cost_total"), ""
            db.execute(
                "UPDATE budgets SET calls = calls + 1, in_flight = in_flight + 1, reserved = reserved + ? "
                "WHERE run IN (?, ?)",
                (most, budget.run, month),
            )
            names = ", ".join(call)
            db.execute(
                f"INSERT INTO calls (call_id, run, status, reserved, started_at, {names}) "
                f"VALUES (?, ?, 'sent', ?, ?{', ?' * len(call)})",
                (call_id, budget.run, most, now, *call.values()),
            )
        self._asked[call_id] = call["request_key"], month
        return "go", call_id

    def _of_month(self, db: sqlite3.Connection, month: str) -> tuple[float, int]:
        """What all runs have spent and reserved in a month, and how many of its calls are in flight."""
        if not db.execute("SELECT 1 FROM budgets WHERE run = ?", (month,)).fetchone():
            db.execute(NEW_MONTH, (month, beginning_of(month)))
        found = db.execute("SELECT cost_usd + reserved, in_flight FROM budgets WHERE run = ?", (month,)).fetchone()
        return found[0], found[1]

    def _room(self) -> None:
        if self._folder is None:
            return
        with self._translated():
            disk = os.statvfs(self._folder)
        if (free := disk.f_bavail * disk.f_frsize) < _LEAST_FREE:
            raise LedgerError(
                f"the disk of the ledger {self._where} has only {free / (1 << 20):.1f} MiB left, so that replies might "
                "not be kept, and nothing more is asked: free space, then run again"
            )

    def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """See `Ledger`."""
        cost = result.get("cost_usd")
        with self._transaction() as db:
            key, month = self._asked[call_id]
            columns = {**result, "checksum": checksum(key, result.get("reply"))}
            if "weights" in columns:
                columns["weights"] = sealed(key, columns["weights"])
            sets = "".join(f", {name} = ?" for name in columns)
            # One that was given up for dead is settled, and counts as it did then.
            in_flight = db.execute("SELECT reserved FROM calls WHERE call_id = ?", (call_id,)).fetchone() != (None,)
            db.execute(
                f"UPDATE calls SET status = ?, reserved = NULL{sets} WHERE call_id = ?",
                (status, *columns.values(), call_id),
            )
            if in_flight:
                unpriced, unsent = "cost_usd" in result and cost is None, result.get("code") == UNSENT
                self._settle_one((budget.run, month), most_usd or 0.0, cost or 0.0, unpriced=unpriced, unsent=unsent)
        del self._asked[call_id]

    def adopt(self, key: str, run: str) -> BatchedCall | None:
        """See `Ledger`."""
        if not (found := self._rows(BATCHED, key)):
            return None
        *call, before, started = found[0]
        adopted = BatchedCall(*call)
        if before != run:
            one = "calls = calls {0} 1, in_flight = in_flight {0} 1, reserved = max(0, reserved {0} ?)"
            with self._transaction() as db:
                db.execute("INSERT OR IGNORE INTO budgets (run) VALUES (?)", (run,))
                for sign, place in (("-", before), ("+", run)):
                    db.execute(f"UPDATE budgets SET {one.format(sign)} WHERE run = ?", (adopted.most_usd, place))
                db.execute("UPDATE calls SET run = ? WHERE call_id = ?", (run, adopted.call_id))
        self._asked[adopted.call_id] = key, month_of(started)
        return adopted

    def send_batch(self, batch: str, judge: str) -> None:
        """See `Ledger`."""
        with self._transaction() as db:
            db.execute("INSERT INTO batches (batch, judge, sent_at) VALUES (?, ?, ?)", (batch, judge, time.time()))

    def name_batch(self, batch: str, provider_id: str) -> None:
        """See `Ledger`."""
        with self._transaction() as db:
            db.execute("UPDATE batches SET provider_id = ? WHERE batch = ?", (provider_id, batch))

    def in_batches(self) -> int:
        """See `Ledger`."""
        # One of an earlier version that may only be read.
        if self._version() < 3:
            return 0
        [(found,)] = self._rows("SELECT count(*) FROM calls WHERE status = 'sent' AND batch IS NOT NULL")
        return int(found)

    def spent(self, run: str) -> Spent:
        """See `Ledger`."""
        rows = self._rows("SELECT calls, cost_usd, unpriced FROM budgets WHERE run = ?", run)
        return Spent(*rows[0]) if rows else Spent()

    def _of_run(self, run: str) -> Sequence[tuple[Any, ...]]:
        return self._rows(OF_RUN.format(calls="calls", run="?"), run)

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._db.execute(query, values).fetchall()

    def calls(self, keys: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """See `Ledger`."""
        some = [()] if keys is None else [keys[start : start + 500] for start in range(0, len(keys), 500)]
        with self._translated():
            for wanted in some:
                where = f"WHERE request_key IN ({', '.join('?' * len(wanted))})" if wanted else ""
                query = f"SELECT {', '.join(COLUMNS)}, {self._checksum} FROM calls {where} ORDER BY rowid"
                for row in self._db.execute(query, wanted):
                    yield self._intact.row(row[:-1], row[-1])

    def lengths(self, judge: str, prompt: str) -> list[tuple[int, int, int]]:
        """See `Ledger`."""
        return self._rows(LENGTHS, judge, prompt, LATEST)

    def rest(self) -> None:
        """See `Ledger`."""
        if self._owners is not None:
            with self._translated():
                self._owners.close()

    def wake(self) -> set[str]:
        """See `Ledger`."""
        if self._owners is None:
            return set()
        with self._transaction() as db:
            # Whoever has the lock of the file may just be taking over; after that nobody does any more.
            self._owners.appear()
            return {key for (key,) in db.execute("SELECT request_key FROM claims WHERE owner = ?", (self._owners.me,))}

    def forget(self, keys: Sequence[str]) -> int:
        """See `Ledger`. Nothing of them is left in the file, or in the log beside it."""
        with self._translated():
            self._db.execute("PRAGMA secure_delete = ON")
            with self._transaction() as db:
                gone = [db.execute("DELETE FROM calls WHERE request_key = ?", (key,)).rowcount for key in keys]
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(gone)

    def patient(self, on: bool) -> None:
        """See `Ledger`."""
        with self._translated():
            self._db.execute(f"PRAGMA busy_timeout = {WAIT_SECONDS * 1e3 if on else 0:.0f}")
        self._patient = on

    def budgets(self) -> Iterator[tuple[str, Spent]]:
        """See `Ledger`."""
        for run, *spent in self._rows("SELECT run, calls, cost_usd + reserved, unpriced FROM budgets ORDER BY run"):
            yield run, Spent(*spent)

    def rest_of_calls(self) -> Iterator[RestOfCall]:
        """See `Ledger`."""
        with self._translated():
            # One of an earlier version that may only be read knows none.
            if self._version() > 3:
                yield from self._db.execute(
                    f"SELECT size, {self._weights}, call_id FROM calls WHERE size IS NOT NULL ORDER BY rowid"
                )

    def take_in(
        self, calls: Iterable[tuple[Any, ...]], budgets: Iterable[tuple[str, Spent]], rest: Iterable[RestOfCall]
    ) -> None:
        """See `Ledger`."""
        self._writing()
        names = (*COLUMNS, "checksum")
        with self._transaction() as db:
            db.executemany(
                f"INSERT OR IGNORE INTO calls ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
                map(with_checksum, calls),
            )
            db.executemany(
                "INSERT OR REPLACE INTO budgets (run, calls, cost_usd, unpriced) VALUES (?, ?, ?, ?)",
                ((run, spent.calls, spent.cost_usd, spent.unpriced) for run, spent in budgets),
            )
            db.executemany("UPDATE calls SET size = ?, weights = ? WHERE call_id = ? AND size IS NULL", rest)

    def keep_alive(self) -> None:
        """See `Ledger`. A living process keeps its claims; what is done here is to move a long log to the file."""
        if self._folder is None or self._read_only:
            return
        with self._translated():
            log = Path(f"{self._where}-wal")
            size = log.stat().st_size if log.exists() else 0
            if 0 < size < _LONG_LOG:
                return
            if self._mover is None:
                self._mover = connected(self._address)
                self._mover.execute("PRAGMA busy_timeout = 0")
            self._mover.execute("PRAGMA wal_checkpoint(PASSIVE)")
            # Restarting the log waits for the disk as well. This writes, and changes nothing.
            self._mover.execute(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        """See `Ledger`."""
        with self._translated():
            try:
                if self._owners is not None:
                    self._db.execute(GIVE_UP, (self._owners.me,))
            finally:
                # On a full disk the claims stay; without their owner they block nothing.
                for one in (self._owners, self._mover, self._db):
                    if one is not None:
                        one.close()
