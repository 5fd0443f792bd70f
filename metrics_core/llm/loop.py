"""The event loop that all calls to models run on: one thread per process, so that all its runs share the rate limits.

Metrics are called from scripts, notebooks and worker threads, with or without a loop of their own; none of those
loops is ever touched.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.ledger import AsyncLedger
from answerkey.metrics_core.progress import HOW_FAR, Advance, tell

T = TypeVar("T")
X = TypeVar("X")

_GRACE_S = 2.0
"""For the calls in flight when their caller is stopped: most judges reply meanwhile, and a reply is paid for."""

_CLEAN_UP_S = 5.0

_AT_ONCE = 4
"""Questions worked on at once, for each call that may be in flight: enough for those that wait before they try again.
More would only use memory, and keep other processes from requests that are not due yet."""

_log = logging.getLogger("answerkey")

_loops: list[asyncio.AbstractEventLoop] = []
"""The one loop, once it is running."""
# Re-entrant, because a signal handler may acquire it.
_starting = threading.RLock()


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


def run(
    work: Coroutine[Any, Any, T], tick: Callable[[], None], own_work: _Work | None = None, every_s: float = 5.0
) -> T:
    """Do `work` on the loop of the models and wait for it; call `tick` now and then while waiting.

    A caller that is interrupted stops the work as `stop` does.

    Args:
        own_work: by which `stop` finds the work; None: it belongs to no run.

    Raises:
        Stopped: the run was stopped, by `stop`.
    """
    own_work = own_work or _Work("")
    own_work.stopped = _is_stopped(own_work.run)

    async def watched() -> T:
        try:
            return await work
        finally:
            own_work.ended.set()

    own_work.future = future = asyncio.run_coroutine_threadsafe(watched(), _loop())
    _works.add(own_work)
    try:
        while not wait([future], every_s).done:
            tick()
        if own_work.stopped:
            raise Stopped("the run was stopped")
        return future.result()
    except (KeyboardInterrupt, SystemExit):
        _end([own_work])
        raise
    finally:
        # The work is unaware of other errors raised here.
        if future.cancel():
            own_work.ended.wait(_CLEAN_UP_S)
        _works.discard(own_work)


@dataclass(slots=True)
class Progress:
    """How far a list of questions is.

    Args:
        name: of the metric, or of what else comes of them.
        unit: the word for what is counted, in the plural.
        total: how many there are.
    """

    name: str
    unit: str
    total: int
    n_done: int = 0
    n_failed: int = 0

    def add(self, *, failed: bool, cost_usd: float | None) -> None:
        """Count a question that has ended, and the dollars that it cost."""
        self.n_done += 1
        self.n_failed += failed
        tell(Advance(self.name, more=1, cost_usd=cost_usd or 0.0))


def ask(
    work: Callable[[Client], Awaitable[T]], access: Access, limits: CallLimits, noun: str, check: Callable[[], None],
    progress: Progress,
) -> T:  # fmt: skip
    """Do `work` with a client of its own and wait for it; say now and then how far it is.

    Args:
        work: gets the client. The ledger is open as long as it lasts.
        noun: what messages call the model.
        check: raises before the first call if the models cannot be called. It imports litellm, which takes seconds,
            so it is not called if the ledger has all replies.

    Raises:
        Stopped: the run was stopped, by `stop`.
        LedgerError: the ledger cannot be opened.
    """
    own_work = _Work(access.run or uuid.uuid4().hex)
    clients: list[Client] = []

    async def connected() -> T:
        async with AsyncExitStack() as stack:
            ledger = await AsyncLedger.open(access.ledger)
            stack.push_async_callback(ledger.close)
            run_access = replace(access, run=own_work.run, stopped=lambda: own_work.stopped or access.is_stopped)
            client = Client(ledger, run_access, limits, noun=noun, check=check)
            stack.push_async_callback(client.close)
            clients.append(client)
            return await work(client)

    def say_how_far() -> None:
        for client in clients:
            # Work that waits for its turn has nothing to say.
            if progress.n_done or client.total.calls:
                _log.info(
                    f"{progress.name}: {progress.n_done:,}/{progress.total:,} {progress.unit}, {client.tally()}, "
                    f"{progress.n_failed:,} failed",
                    extra=HOW_FAR,
                )

    # What a batch says of itself is enough
    return run(connected(), say_how_far, own_work, every_s=600.0 if limits.batch else 5.0)


def stop(run_id: str) -> None:
    """Ask nothing more for a run and its parts, RUN/PART, in whatever threads, and end what is asked within seconds."""
    _stopped_runs.add(run_id)
    _end([work for work in list(_works) if _is_stopped(work.run)])


def _is_stopped(run_id: str) -> bool:
    return not _stopped_runs.isdisjoint((run_id, run_id.partition("/")[0]))


def _end(works: Sequence[_Work]) -> None:
    """Let calls in flight end, for a moment; cancel what is left then, and wait until that is recorded."""
    for work in works:
        work.stopped = True
    try:
        wait([work.future for work in works], _GRACE_S)
    finally:
        for cancelled in [work for work in works if work.future.cancel()]:
            cancelled.ended.wait(_CLEAN_UP_S)


async def each(questions: Sequence[X], work: Callable[[X], Awaitable[T]], concurrency: int) -> list[T]:
    """The results of `work` for all questions, in their order, as many at a time as keep `concurrency` calls in flight.

    Raises:
        Exception: the first that `work` raises; one broken ledger, or one defect, stands for all.
    """
    results: list[Any] = [None] * len(questions)
    pending = iter(enumerate(questions))

    async def worker() -> None:
        for index, question in pending:
            results[index] = await work(question)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(questions), _AT_ONCE * concurrency)):
                group.create_task(worker())
    except BaseExceptionGroup as error:
        # Without the groups, which would print a traceback for each of the others
        raise error.exceptions[0] from None
    return results


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, name="models", daemon=True).start()
        return _loops[0]
