"""The event loop that all calls to judges run on: one thread a process, so that all runs in it share the pacing.

Metrics are called from scripts, notebooks and worker threads, with or without a loop of their own; none of those
loops is ever touched.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import wait
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from answerkey.metrics_core.llm.access import Access, Limits
from answerkey.metrics_core.llm.caller import Caller
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.ledger import Ledger
from answerkey.metrics_core.llm.litellm import abilities
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.pacing import Pacing
from answerkey.metrics_core.llm.queue import Gate
from answerkey.metrics_core.llm.terms import Terms
from answerkey.metrics_core.sample import content_hash

S = TypeVar("S")
T = TypeVar("T")

_GAP_S = 0.002
"""Between two starts. Calls that start all at once would take turns at every step of their work in this process, so
that the last request leaves when the first could have been answered."""

_FIRST_PAUSE_S = 0.25
"""A lone 429 among successes should not hold up everybody for long; a provider that means it makes this double."""

_CLEAN_UP_S = 5.0

_AT_ONCE = 4
"""Questions worked on at once, for each call that may be in flight: enough for those that wait before they try again.
More would only hold memory, and keep other processes from requests that are nobody's turn yet."""

_starting = threading.Lock()
_gates: dict[tuple[ModelRef, str, int], Gate] = {}
_terms: dict[tuple[ModelRef, bool], Terms] = {}


def run(work: Coroutine[Any, Any, T], tick: Callable[[], None], every_s: float = 5.0) -> T:
    """Do `work` on the judges' loop and wait for it; call `tick` now and then while waiting.

    A caller that is interrupted cancels the work, and waits until it has written down what it leaves.
    """
    ended = threading.Event()

    async def watched() -> T:
        try:
            return await work
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(watched(), _loop())
    try:
        while not wait([future], every_s).done:
            tick()
        return future.result()
    except BaseException:
        if future.cancel():
            ended.wait(_CLEAN_UP_S)
        raise


@asynccontextmanager
async def client(
    access: Access, limits: Limits, noun: str, check: Callable[[], None]
) -> AsyncIterator[tuple[Client, Caller]]:
    """A client for one run, with the ledger open as long as it is used.

    `check` raises before the first call if the models cannot be called. It imports litellm, which takes seconds, so
    it is not called where the ledger has all replies. Messages call the models by `noun`.
    """
    checked = cache(check)

    def terms(model: ModelRef, structured: bool) -> Terms:
        checked()
        return terms_of(model, structured=structured)

    ledger = Ledger(Path(access.ledger) if access.ledger else None)
    try:
        gates = cache(lambda model: gate(model, limits.concurrency))
        caller = Caller(access.run, limits, noun, ledger, gates, terms)
        yield Client(ledger, caller), caller
    finally:
        ledger.close()


def gate(judge: ModelRef, concurrency: int) -> Gate:
    """The queue before a judge; all runs of this process with the same key stand in the same one."""
    # The key is part of what a provider limits, and is itself kept nowhere.
    place = judge, content_hash(judge.api_key), concurrency
    if place not in _gates:
        _gates[place] = Gate(Pacing(concurrency, gap=_GAP_S, first_pause=_FIRST_PAUSE_S))
    return _gates[place]


async def each(items: Sequence[S], work: Callable[[S], Awaitable[T]], concurrency: int) -> list[T]:
    """The results of `work` for all items, in their order, as many at a time as keep `concurrency` calls in flight.

    Raises:
        Exception: the first that `work` raises; one broken ledger, or one mistake of ours, says it all.
    """
    found: dict[int, T] = {}
    rest = iter(enumerate(items))

    async def worker() -> None:
        for place, item in rest:
            found[place] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(items), _AT_ONCE * concurrency)):
                group.create_task(worker())
    except BaseExceptionGroup as error:
        raise _first(error) from error
    return [found[place] for place in range(len(items))]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def terms_of(model: ModelRef, *, structured: bool) -> Terms:
    """What a model accepts, as this process has learned. `structured`: whether a format is asked for at all."""
    place = model, structured
    if place not in _terms:
        _terms[place] = Terms(takes_format=structured and abilities(model.model).takes_format)
    return _terms[place]


def _loop() -> asyncio.AbstractEventLoop:
    # `cache` alone would let two threads that come first make a loop each.
    with _starting:
        return _the_loop()


@cache
def _the_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="judges", daemon=True).start()
    return loop
