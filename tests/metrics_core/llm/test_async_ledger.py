"""A ledger on an event loop: the loop never waits, and who is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.ledger import Budget, LedgerError, Spent
from answerkey.metrics_core.llm.ledger_place import open_ledger
from answerkey.metrics_core.llm.sqlite_ledger import FILE

RUN = Budget("run", max_cost_usd=1.0)
CALL = {"request_key": "k", "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}


@contextmanager
def sqlite_locked(place: str) -> Iterator[None]:
    """Somebody else has an open transaction meanwhile."""
    other = sqlite3.connect(Path(place) / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("COMMIT")
        other.close()


@contextmanager
def postgres_locked(place: str) -> Iterator[None]:
    """Somebody else has locked the tables meanwhile."""
    import psycopg

    with psycopg.connect(place.removeprefix("postgresql:")) as other:
        other.execute("LOCK TABLE answerkey_claims, answerkey_calls, answerkey_budgets")
        yield


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else str(tmp_path)


def locked(place: str) -> AbstractContextManager[None]:
    """Nobody else can write to the ledger meanwhile."""
    return postgres_locked(place) if place.startswith("postgresql:") else sqlite_locked(place)


def test_the_loop_goes_on_while_the_ledger_waits_for_others(place: str) -> None:
    async def work() -> tuple[bool, bool]:
        ledger = await AsyncLedger.open(place)
        assert await ledger.claim("first")
        with locked(place):
            waiting = asyncio.create_task(ledger.claim("k"))
            # The loop turns: a ledger that kept it would keep it here for as long as the lock is held, for ever.
            for _ in range(20):
                await asyncio.sleep(0.01)
            waited = not waiting.done()
        claimed = await waiting
        await ledger.close()
        return waited, claimed

    assert asyncio.run(work()) == (True, True)


def test_verbs_are_done_in_the_order_in_which_they_are_called(place: str) -> None:
    async def work() -> tuple[list[object], Spent]:
        ledger = await AsyncLedger.open(place)
        assert await ledger.claim("k")
        _, call_id = await ledger.start(RUN, CALL, 0.5)
        with locked(place):
            finished = ledger.finish(RUN, call_id, "usable", 0.5, {"reply": "yes", "cost_usd": 0.25})
            tasks = [asyncio.create_task(one) for one in (finished, ledger.reply("k"), ledger.start(RUN, CALL, 0.75))]
            await asyncio.sleep(0.05)
        _, reply, (permit, _) = await asyncio.gather(*tasks)
        await ledger.close()
        after = open_ledger(place)
        spent = after.spent("run")
        after.close()
        return [reply, permit], spent

    assert asyncio.run(work()) == (["yes", "go"], Spent(2, 0.25))


def test_what_a_cancelled_caller_claimed_or_started_is_given_back(place: str) -> None:
    async def work() -> None:
        ledger = await AsyncLedger.open(place)
        with locked(place):
            tasks = [asyncio.create_task(ledger.claim("other")), asyncio.create_task(ledger.start(RUN, CALL, 1.0))]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.05)
        assert [str(type(one)) for one in await asyncio.gather(*tasks, return_exceptions=True)] == [
            "<class 'asyncio.exceptions.CancelledError'>"
        ] * 2
        other = open_ledger(place)
        # Nothing of the dollar is reserved any more.
        assert other.claim("other")
        assert other.start(RUN, CALL, 1.0)[0] == "go"
        other.close()
        await ledger.close()

    asyncio.run(work())


def test_a_ledger_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    before = set(threading.enumerate())
    with pytest.raises(LedgerError, match="is empty"):
        asyncio.run(AsyncLedger.open(str(tmp_path)))
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_the_log_is_moved_to_the_file_beside_the_loop(tmp_path: Path) -> None:
    """What waits for the disk is not done by the thread of the loop."""

    async def work() -> None:
        ledger = await AsyncLedger.open(str(tmp_path))
        size = (tmp_path / FILE).stat().st_size
        _, call_id = await ledger.start(Budget("run"), CALL, None)
        await ledger.finish(Budget("run"), call_id, "usable", None, {"reply": "x" * 8_000_000})
        # Over a thousand pages, with which SQLite would have moved them in the commit.
        assert (tmp_path / FILE).stat().st_size == size
        while (tmp_path / FILE).stat().st_size == size:
            await asyncio.sleep(0.05)
        await ledger.close()

    asyncio.run(work())


def test_a_call_that_was_never_made_costs_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        ledger = await AsyncLedger.open(str(tmp_path))
        with sqlite_locked(str(tmp_path)):
            starting = asyncio.create_task(ledger.start(RUN, CALL, 0.25))
            await asyncio.sleep(0.01)
            starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await ledger.close()

    asyncio.run(work())
    ledger = open_ledger(str(tmp_path))
    [spent] = ledger.spent_by_judge("run")
    ledger.close()
    assert (spent.calls, spent.cost_usd, spent.reserved_usd) == (1, 0.0, 0.0)


def test_a_ledger_that_was_closed_keeps_nothing_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's would connect again, and hold the claims that were just given up."""
    monkeypatch.setattr("answerkey.metrics_core.llm.async_ledger._KEEP_ALIVE_S", 0.0)
    before = set(threading.enumerate())

    async def work() -> list[str]:
        ledger = await AsyncLedger.open(str(tmp_path))
        assert await ledger.claim("k")
        opened, done = ledger._ledger, list[str]()
        assert opened is not None
        close = opened.close

        def closed() -> None:
            close()
            done.append("closed")

        monkeypatch.setattr(opened, "close", closed)
        monkeypatch.setattr(opened, "keep_alive", lambda: done.append("kept alive"))
        await ledger.close()
        with pytest.raises(LedgerError, match="the ledger was closed"):
            await ledger.claim("another")
        [thread] = [one for one in set(threading.enumerate()) - before if one.name == "ledger"]
        await asyncio.to_thread(thread.join)
        return done

    assert asyncio.run(work())[-1] == "closed"
