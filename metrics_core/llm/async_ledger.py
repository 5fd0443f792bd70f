"""A ledger for an event loop, which it never keeps waiting: not for a lock, not for a disk, not for a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from answerkey.metrics_core.llm.ledger import (
    BatchedCall,
    Budget,
    CallStatus,
    Ledger,
    LedgerBusy,
    LedgerError,
    Origin,
    Permit,
    Verb,
)
from answerkey.metrics_core.llm.ledger_place import open_ledger

R = TypeVar("R")

_KEEP_ALIVE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Job:
    """Something to do on the thread, and where its result goes, or the exception that it raised."""

    do: Verb | Callable[[], Any]
    deliver: Callable[[Any], None]


class AsyncLedger:
    """The verbs of `Ledger`, to be awaited on one event loop. They are done in the order in which they are called.

    A ledger that is quick does them at once: the way to a thread and back takes longer than they do, many times longer
    where the loop is busy. What would have to wait goes to a thread of the ledger's own, and so does everything where
    the ledger is a server; what has come together meanwhile is done together.

    A verb that was called is done, also if its caller is cancelled meanwhile; a claim or a call that nobody waits for
    any more is then given back.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        # Written by the loop alone, and by the thread alone.
        self._n_given = self._n_done = 0
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
        for jobs in self._batches():
            ledger = self._ledger
            verbs = [job.do for job in jobs if isinstance(job.do, Verb)]
            done = iter(_patiently(ledger, verbs) if verbs else [])
            results = [next(done) if isinstance(job.do, Verb) else _result(job.do) for job in jobs]
            # Not when the loop has heard of it: by then it would have given the next one, and so on for ever.
            self._n_done += len(jobs)
            for job, result in zip(jobs, results, strict=True):
                job.deliver(result)
            if time.monotonic() - kept_alive >= _KEEP_ALIVE_S and self._ledger is not None:
                # What is wrong with the ledger, the next verb says.
                with suppress(LedgerError):
                    self._ledger.keep_alive()
                kept_alive = time.monotonic()

    def _batches(self) -> Iterator[list[_Job]]:
        """What has been asked for meanwhile, in order: verbs, which are done together, or something else, alone."""
        batch: list[_Job] = []
        while True:
            try:
                job = self._jobs.get(timeout=None if batch else _KEEP_ALIVE_S, block=not batch)
            except Empty:
                yield batch
                batch = []
                continue
            if batch and not (job is not None and isinstance(job.do, Verb)):
                yield batch
                batch = []
            if job is None:
                return
            batch.append(job)
            if not isinstance(job.do, Verb):
                yield batch
                batch = []

    async def _do(self, verb: Verb, undo: Callable[[Any], Awaitable[None]] | None = None) -> Any:
        """The result of a verb. One that nobody waits for any more is undone."""
        ledger = self._ledger
        if ledger is None:
            raise _closed()
        if ledger.quick and self._n_done == self._n_given:
            with suppress(LedgerBusy):
                return getattr(ledger, verb.name)(*verb.given)
        return await self._wait_for(verb, undo)

    async def _wait_for(
        self, do: Verb | Callable[[], Any], undo: Callable[[Any], Awaitable[None]] | None = None
    ) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def deliver(result: Any) -> None:
            settle = done.set_exception if isinstance(result, BaseException) else done.set_result
            loop.call_soon_threadsafe(settle, result)

        self._n_given += 1
        self._jobs.put(_Job(do, deliver))
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

    async def reply(self, key: str) -> str | None:
        """See `Ledger`."""
        reply: str | None = await self._do(Verb("reply", (key,)))
        return reply

    async def origin(self, key: str) -> Origin:
        """See `Ledger`."""
        origin: Origin = await self._do(Verb("origin", (key,)))
        return origin

    async def claim(self, key: str) -> bool:
        """See `Ledger`."""

        async def undo(mine: bool) -> None:
            if mine:
                await self.release(key)

        return bool(await self._do(Verb("claim", (key,)), undo))

    async def release(self, key: str) -> None:
        """See `Ledger`."""
        await self._do(Verb("release", (key,)))

    async def start(self, budget: Budget, call: Mapping[str, Any], most_usd: float | None) -> tuple[Permit, str]:
        """See `Ledger`."""

        async def undo(found: tuple[Permit, str]) -> None:
            permit, call_id = found
            if permit == "go":
                why = "the run was stopped before the call was made"
                result = {"code": "cancelled", "message": why, "cost_usd": 0.0}
                await self.finish(budget, call_id, "error", most_usd, result)

        permit, call_id = await self._do(Verb("start", (budget, call, most_usd)), undo)
        return permit, call_id

    async def finish(
        self, budget: Budget, call_id: str, status: CallStatus, most_usd: float | None, result: Mapping[str, Any]
    ) -> None:
        """See `Ledger`."""
        await self._do(Verb("finish", (budget, call_id, status, most_usd, result)))

    async def adopt(self, key: str, run: str) -> BatchedCall | None:
        """See `Ledger`."""
        adopted: BatchedCall | None = await self._do(Verb("adopt", (key, run)))
        return adopted

    async def send_batch(self, batch: str, judge: str) -> None:
        """See `Ledger`."""
        await self._do(Verb("send_batch", (batch, judge)))

    async def name_batch(self, batch: str, provider_id: str) -> None:
        """See `Ledger`."""
        await self._do(Verb("name_batch", (batch, provider_id)))

    async def lengths(self, judge: str, prompt: str) -> list[tuple[int, int, int]]:
        """See `Ledger`."""
        return await self._alone(lambda ledger: ledger.lengths(judge, prompt))

    async def rest(self) -> None:
        """See `Ledger`."""
        await self._alone(lambda ledger: ledger.rest())

    async def wake(self) -> set[str]:
        """See `Ledger`."""
        return await self._alone(lambda ledger: ledger.wake())

    async def _alone(self, do: Callable[[Ledger], R]) -> R:
        """What `do` makes of the ledger, on its thread."""

        def done() -> R:
            ledger = self._ledger
            if ledger is None:
                raise _closed()
            ledger.patient(True)
            try:
                return do(ledger)
            finally:
                ledger.patient(False)

        result: R = await self._wait_for(done)
        return result

    async def close(self) -> None:
        """Close the ledger, after everything that was called before, and end the thread."""
        ledger = self._ledger
        assert ledger is not None

        def close() -> None:
            # Nothing keeps it alive from here on: a server's would connect again, and hold its claims.
            self._ledger = None
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


def _patiently(ledger: Ledger | None, verbs: Sequence[Verb]) -> list[Any]:
    try:
        if ledger is None:
            raise _closed()
        ledger.patient(True)
        try:
            return ledger.together(verbs)
        finally:
            ledger.patient(False)
    except Exception as error:
        return [error] * len(verbs)


def _closed() -> LedgerError:
    return LedgerError("the ledger was closed")


def _result(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except BaseException as error:
        return error
