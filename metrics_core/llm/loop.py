"""The event loop that all calls to models run on: one thread per process, so that all its runs share the rate limits.

Metrics are called from scripts, notebooks and worker threads, with or without a loop of their own; none of those
loops is ever touched.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.batch import Batches, BatchService
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.ledger import LedgerError
from answerkey.metrics_core.llm.litellm import abilities
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.rate_limit import AdaptiveLimit, Queue
from answerkey.metrics_core.llm.response_format import FormatNegotiation
from answerkey.metrics_core.sample import content_hash

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.chat_completions import ChatCompletions

S = TypeVar("S")
T = TypeVar("T")

_FIRST_PAUSE_S = 0.25
"""A lone 429 among successes should not hold up every call for long; a provider that means it doubles this."""

_GRACE_S = 2.0
"""For the calls in flight when their caller is stopped: most judges reply meanwhile, and a reply is paid for."""

_CLEAN_UP_S = 5.0

_AT_ONCE = 4
"""Questions worked on at once, for each call that may be in flight: enough for those that wait before they try again.
More would only use memory, and keep other processes from requests that are not due yet."""

_REST_S = 3.0
"""For the ledger to learn that this process will stand still."""

_STANDSTILL_S = 0.5
"""Longer than the loop is ever busy, or late: then the process stood still."""

_MOST_STANDSTILLS, _WITHIN_S = 20, 20.0
"""A process that stands still more often, by the clock that leaves this out, gets too little of a processor, and its
calls are to time out all the same."""

_FIRST_CALLS = 16
_FIRST_SHARE = 4
"""The calls at once that a run begins with: sixteen, or this part of the most that the user allows."""

# Held again by a handler of a signal that arrives while it is held.
_starting = threading.RLock()
_queues: dict[tuple[ModelRef, str, int, float], Queue] = {}
_formats: dict[tuple[ModelRef, bool], FormatNegotiation] = {}
_clients: list[Client] = []


class Stopped(Exception):
    """The run that wanted the replies was stopped, so there are none. Those that came are in the ledger."""


@dataclass(eq=False, slots=True)
class _Work:
    """Something that is done on the loop for a caller in another thread."""

    run: str
    stopped: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    future: Future[Any] = field(default_factory=Future)


_works: set[_Work] = set()
_stopped_runs: set[str] = set()
_work: ContextVar[_Work] = ContextVar("work")


def run(work: Coroutine[Any, Any, T], tick: Callable[[], None], run_id: str = "", every_s: float = 5.0) -> T:
    """Do `work` on the loop of the models and wait for it; call `tick` now and then while waiting.

    A caller that is interrupted stops the work as `stop` does.

    Raises:
        Stopped: the run was stopped, by `stop`.
    """
    this = _Work(run_id, stopped=_is_stopped(run_id))

    async def watched() -> T:
        _work.set(this)
        try:
            return await work
        finally:
            this.ended.set()

    this.future = future = asyncio.run_coroutine_threadsafe(watched(), _loop())
    _works.add(this)
    try:
        while not wait([future], every_s).done:
            tick()
        if this.stopped:
            raise Stopped("the run was stopped")
        return future.result()
    except (KeyboardInterrupt, SystemExit):
        _end([this])
        raise
    finally:
        # Of whatever else went wrong here, the work knows nothing.
        if future.cancel():
            this.ended.wait(_CLEAN_UP_S)
        _works.discard(this)


def stop(run_id: str) -> None:
    """Ask nothing more for a run and its parts, RUN/PART, in whatever threads, and end what is asked within seconds."""
    _stopped_runs.add(run_id)
    _end([one for one in list(_works) if _is_stopped(one.run)])


def _is_stopped(run_id: str) -> bool:
    return not _stopped_runs.isdisjoint((run_id, run_id.partition("/")[0]))


def _end(works: Sequence[_Work]) -> None:
    """Let calls in flight end, for a moment; cancel what is left then, and wait until that is recorded."""
    for one in works:
        one.stopped = True
    try:
        wait([one.future for one in works], _GRACE_S)
    finally:
        for cancelled in [one for one in works if one.future.cancel()]:
            cancelled.ended.wait(_CLEAN_UP_S)


def pause(stand_still: Callable[[], None]) -> None:
    """Call `stand_still`, in which this process does nothing for as long as somebody likes.

    Meanwhile other processes may ask what this one has claimed. What it has in flight stays so: a reply that has come
    in the end counts, and so does what another process has made of the same request.
    """
    resting, going_on = threading.Event(), threading.Event()

    async def rest() -> None:
        clients = list(_clients)
        with suppress(LedgerError):
            for client in clients:
                await client.claims.rest()
        resting.set()
        # Nothing else may go on here until its clock has been set.
        going_on.wait()
        with suppress(LedgerError):
            for client in clients:
                await client.claims.wake()

    if not _clients:
        stand_still()
        return
    loop = _loop()
    asyncio.run_coroutine_threadsafe(rest(), loop)
    rests = resting.wait(_REST_S)
    try:
        stand_still()
    finally:
        if rests:
            loop.stillness.end()
        going_on.set()


@asynccontextmanager
async def connect(access: Access, limits: CallLimits, noun: str, check: Callable[[], None]) -> AsyncIterator[Client]:
    """A client for one run, with the ledger open as long as it is used.

    `check` raises before the first call if the models cannot be called. It imports litellm, which takes seconds, so
    it is not called if the ledger has all replies. `noun` is what messages call the model.
    """
    waiting: dict[ModelRef, asyncio.Task[ChatCompletions]] = {}
    work = _work.get(None)

    def stopped() -> bool:
        return (work is not None and work.stopped) or (access.stopped is not None and access.stopped())

    async def prepared(model: ModelRef) -> ChatCompletions:
        # In a thread, so that calls to other models go on meanwhile.
        transport, session = await asyncio.to_thread(_transport, check)
        await stack.enter_async_context(session)
        await transport.prepare(model)
        return transport

    async def transports(model: ModelRef) -> ChatCompletions:
        if model not in waiting:
            waiting[model] = asyncio.create_task(prepared(model))
        # One that is cancelled leaves it to the others.
        return await asyncio.shield(waiting[model])

    async def services(model: ModelRef) -> BatchService:
        from answerkey.metrics_core.llm.batch_service import service_of

        return await service_of(model, await transports(model))

    def queues(model: ModelRef) -> Queue:
        return queue_of(model, limits)

    async with AsyncExitStack() as stack:
        ledger = await AsyncLedger.open(access.ledger)
        stack.push_async_callback(ledger.close)
        batches = Batches(ledger, services, wait=limits.batch, poll_s=limits.poll_s, stopped=stopped)
        stack.push_async_callback(batches.close)
        client = Client(ledger, replace(access, stopped=stopped), limits, noun, transports, queues, formats_of, batches)
        _clients.append(client)
        try:
            yield client
        finally:
            _clients.remove(client)
            for task in waiting.values():
                task.cancel()


def _transport(check: Callable[[], None]) -> tuple[ChatCompletions, AbstractAsyncContextManager[object]]:
    """What carries calls, and the session that it uses."""
    from answerkey.metrics_core.llm.chat_completions import ChatCompletions
    from answerkey.metrics_core.llm.http import opened

    check()
    return ChatCompletions(), opened()


def queue_of(model: ModelRef, limits: CallLimits) -> Queue:
    """The queue of a model; all runs of this process with the same key and limits wait in the same one."""
    # The key is part of what a provider limits, and is itself kept nowhere.
    place = model, content_hash(model.api_key), limits.concurrency, limits.timeout_s
    if place not in _queues:
        patience = math.inf if model.hosted else limits.timeout_s
        first = max(_FIRST_CALLS, limits.concurrency // _FIRST_SHARE)
        limit = AdaptiveLimit(limits.concurrency, first, first_pause=_FIRST_PAUSE_S, patience=patience)
        _queues[place] = Queue(limit)
    return _queues[place]


async def each(items: Sequence[S], work: Callable[[S], Awaitable[T]], concurrency: int) -> list[T]:
    """The results of `work` for all items, in their order, as many at a time as keep `concurrency` calls in flight.

    Raises:
        Exception: the first that `work` raises; one broken ledger, or one defect, stands for all.
    """
    results: dict[int, T] = {}
    rest = iter(enumerate(items))

    async def worker() -> None:
        for place, item in rest:
            results[place] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(items), _AT_ONCE * concurrency)):
                group.create_task(worker())
    except BaseExceptionGroup as error:
        raise _first(error) from error
    return [results[place] for place in range(len(items))]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def formats_of(model: ModelRef, structured: bool) -> FormatNegotiation:
    """What a model accepts, as this process has learned. `structured`: whether a format is asked for at all."""
    place = model, structured
    if place not in _formats:
        _formats[place] = FormatNegotiation(takes_format=structured and abilities(model.model).takes_format)
    return _formats[place]


class _Selector(selectors.DefaultSelector):
    """Notices that the process stood still, and for how long: nothing else keeps its loop from work for so long."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._returned = time.monotonic()
        self._left_out: deque[float] = deque(maxlen=_MOST_STANDSTILLS)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        called = time.monotonic()
        if called - self._returned > _STANDSTILL_S:
            self._leave_out(called - self._returned, called)
        found = super().select(timeout)
        self._returned = time.monotonic()
        waited = self._returned - called
        # Without a time to wait for, nothing is due. With one, all of the wait is left out, so that nothing is due now:
        # what has come meanwhile may not even be among what was found.
        if timeout is not None and waited > timeout + _STANDSTILL_S:
            self._leave_out(waited, self._returned)
        return found

    def _leave_out(self, seconds: float, now: float) -> None:
        """Leave out the time that ends now, unless that happens too often."""
        since = now - self.seconds - seconds
        if len(self._left_out) < _MOST_STANDSTILLS or since - self._left_out[0] >= _WITHIN_S:
            self._left_out.append(since)
            self.seconds += seconds

    def end(self) -> None:
        """The process has stood still since the loop last began to work, and goes on now."""
        now = time.monotonic()
        self.seconds += now - self._returned
        self._returned = now


class _Loop(asyncio.SelectorEventLoop):
    """One whose clock does not go on while the process stands still, by a signal or otherwise: no call has timed out by
    that. What came meanwhile is read before anything is due.
    """

    def __init__(self) -> None:
        self.stillness = _Selector()
        super().__init__(self.stillness)

    def time(self) -> float:
        return super().time() - self.stillness.seconds


def _loop() -> _Loop:
    # `cache` alone would let two threads that come first make a loop each.
    with _starting:
        return _the_loop()


@cache
def _the_loop() -> _Loop:
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name="models", daemon=True).start()
    return loop
