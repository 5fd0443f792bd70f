"""A ledger for an event loop, which it never keeps waiting: not for a lock, not for a disk, not for a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from answerkey.metrics_core.llm.ledger import Budget, CallStatus, Ledger, LedgerBusy, LedgerError, Origin, Permit
from answerkey.metrics_core.llm.ledger_place import open_ledger

T = TypeVar("T")

_KEEP_ALIVE_S = 1.0


class AsyncLedger:
    """The verbs of `Ledger`, to be awaited on one event loop. They are done in the order in which they are called.

    A ledger that is quick does them at once: the way to a thread and back takes longer than they do, many times longer
    where the loop is busy. What would have to wait goes to a thread of the ledger's own, and so does everything where
    the ledger is a server.

    A verb that was called is done, also if its caller is cancelled meanwhile; a claim or a call that nobody waits for
    any more is then given back.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._n_jobs = 0
        self._ledger: Ledger | None = None
        # A daemon, as the loop is: a process that is told to end does not wait for a server.
        threading.Thread(target=self._work, name="ledger", daemon=True).start()

    @classmethod
    async def open(cls, place: str | None) -> AsyncLedger:
        """The ledger at `place`, as `open_ledger` opens it.

        Raises:
            LedgerError, UserError: as `open_ledger`.
        """
        found = cls()
        try:
            found._ledger = await found._wait_for(lambda: _opened(place))
        except BaseException:
            found._jobs.put(None)
            raise
        return found

    def _work(self) -> None:
        kept_alive = time.monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=_KEEP_ALIVE_S)
            except Empty:
                job = _nothing
            if job is None:
                return
            job()
            if time.monotonic() - kept_alive >= _KEEP_ALIVE_S and self._ledger is not None:
                # What is wrong with the ledger, the next verb says.
                with suppress(LedgerError):
                    self._ledger.keep_alive()
                kept_alive = time.monotonic()

    async def _do(self, verb: Callable[[Ledger], T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
        """The result of a verb. One that nobody waits for any more is undone."""
        ledger = self._ledger
        assert ledger is not None
        if ledger.quick and not self._n_jobs:
            with suppress(LedgerBusy):
                return verb(ledger)
        return await self._wait_for(lambda: _patiently(ledger, verb), undo)

    async def _wait_for(self, verb: Callable[[], T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = verb()
            except BaseException as error:
                loop.call_soon_threadsafe(done.set_exception, error)
            else:
                loop.call_soon_threadsafe(done.set_result, result)

        self._n_jobs += 1
        done.add_done_callback(self._one_less)
        self._jobs.put(job)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([done])
            if done.exception() is None and undo is not None:
                with suppress(LedgerError):
                    await undo(done.result())
            raise

    def _one_less(self, _done: asyncio.Future[Any]) -> None:
        self._n_jobs -= 1

    async def reply(self, key: str) -> str | None:
        """See `Ledger`."""
        # Thousands of known replies in a row must not keep the loop from calls in flight.
        await asyncio.sleep(0)
        return await self._do(lambda ledger: ledger.reply(key))

    async def origin(self, key: str) -> Origin:
        """See `Ledger`."""
        return await self._do(lambda ledger: ledger.origin(key))

    async def claim(self, key: str) -> bool:
        """See `Ledger`."""

        async def undo(mine: bool) -> None:
            if mine:
                await self.release(key)

        return await self._do(lambda ledger: ledger.claim(key), undo)

    async def release(self, key: str) -> None:
        """See `Ledger`."""
        await self._do(lambda ledger: ledger.release(key))

    async def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""

        async def undo(found: tuple[Permit, str]) -> None:
            permit, call_id = found
            if permit == "go":
                result = {"code": "cancelled", "message": "the run was stopped before the call was made"}
                await self.finish(budget, call_id, "error", most_usd, result)

        return await self._do(lambda ledger: ledger.start(budget, call, most_usd), undo)

    async def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """See `Ledger`."""
        await self._do(lambda ledger: ledger.finish(budget, call_id, status, most_usd, result))

    async def close(self) -> None:
        """Close the ledger, after everything that was called before, and end the thread."""
        ledger = self._ledger
        assert ledger is not None

        def close() -> None:
            ledger.patient(True)
            ledger.close()

        try:
            await self._wait_for(close)
        finally:
            self._jobs.put(None)


def _opened(place: str | None) -> Ledger:
    found = open_ledger(place)
    try:
        found.patient(False)
    except BaseException:
        found.close()
        raise
    with suppress(LedgerError):
        found.keep_alive()
    return found


def _patiently(ledger: Ledger, verb: Callable[[Ledger], T]) -> T:
    ledger.patient(True)
    try:
        return verb(ledger)
    finally:
        ledger.patient(False)


def _nothing() -> None:
    pass
