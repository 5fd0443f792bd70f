"""An event loop whose clock jumps instead of waiting, and servers of models that live on it."""

from __future__ import annotations

import asyncio
import itertools
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import NO_LIMITS, Access, CallLimits
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.client import Client
from answerkey.metrics_core.llm.ledger import AsyncLedger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import CallError, CallFailed, CallSkipped, Message, Reply, Request

T = TypeVar("T")

_fresh = itertools.count()


class Jumping(selectors.DefaultSelector):
    """Says that as much time went by as was to be waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Without a time-out, only a thread (that of the ledger) can go on.
        ready = super().select(0 if timeout is not None else 60)
        if not ready:
            assert timeout is not None, "everybody waits, and nobody will come"
            self.now += max(timeout, 0.0)
        return ready


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = Jumping()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that may take days of the clock."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Server:
    """Answers each call after `seconds`, as many at a time as it has `slots`, in the order in which they came.

    Args:
        works_on: also on calls that were given up.
        refuses: whether it refuses a call at once, with what Retry-After: gives the seconds or None; False: it does
            not. It is asked with the server and the number of the call, from 0.
    """

    seconds: Callable[[], float]
    slots: int = 1_000_000
    works_on: bool = False
    refuses: Callable[[Server, int], float | bool | None] = lambda _server, _number: False
    refusal_s: float = 0.05
    calls: int = 0
    refused: int = 0
    accepted: int = 0
    busy: int = 0
    most_busy: int = 0
    answered: int = 0
    asked: list[str] = field(default_factory=list)

    async def send(
        self, model: ModelRef, messages: Sequence[Message], settings: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """As `provider.complete`."""
        number = self.calls
        self.calls += 1
        self.asked.append(messages[-1]["content"])
        advice = self.refuses(self, number)
        if advice is not False:
            self.refused += 1
            await asyncio.sleep(self.refusal_s)
            raise CallError("limited", "http_429", "slow down", None if advice is True else advice)
        # Counted now: the work begins in a later round of the loop, and the next call may come before.
        self.accepted += 1
        work = asyncio.ensure_future(self._work())
        try:
            async with asyncio.timeout(timeout_s):
                await (asyncio.shield(work) if self.works_on else work)
        except TimeoutError as error:
            raise CallError("trouble", "timeout", f"no reply within {timeout_s:g} s") from error
        return Reply("yes", "stop", 10, 1, model.model, "")

    async def _work(self) -> None:
        if not hasattr(self, "_free"):
            self._free = asyncio.Semaphore(self.slots)
        try:
            async with self._free:
                self.busy += 1
                self.most_busy = max(self.most_busy, self.busy)
                try:
                    await asyncio.sleep(self.seconds())
                    self.answered += 1
                finally:
                    self.busy -= 1
        finally:
            self.accepted -= 1


@dataclass(frozen=True)
class Outcome:
    """What came of all questions: how many seconds of the clock it took, and for each the reply or the error."""

    seconds: float
    found: list[str | Exception]

    def count(self, kind: type) -> int:
        return sum(isinstance(one, kind) for one in self.found)


def ask(
    server: Server, questions: int, limits: CallLimits = NO_LIMITS, *, hosted: bool = False, ledger: str | None = None,
    name: str = "",
) -> Outcome:  # fmt: skip
    """Ask a server as many questions, by the client and the queue that a run has."""
    model = ModelRef(name or f"openai/virtual-{next(_fresh)}", "" if hosted else "http://127.0.0.1:1/v1", "a key")

    async def one(client: Client, number: int) -> str | Exception:
        request = Request(model.label, "p@1", "", f"question {number}", "")
        try:
            return await client.ask(model, request, str, Bill())
        except (CallFailed, CallSkipped) as error:
            return error

    async def prepared(_model: ModelRef) -> None:
        """Nothing to prepare."""

    async def work() -> Outcome:
        opened = await AsyncLedger.open(ledger)
        try:
            client = Client(opened, Access(run="run"), limits, "judge", prepared)
            client.complete = server.send
            began = now()
            found = await runtime.each(range(questions), lambda number: one(client, number), limits.concurrency)
            return Outcome(now() - began, found)
        finally:
            await opened.close()

    return run(work())


def about(seconds: float, seed: int = 0) -> Callable[[], float]:
    """Times of service around so many seconds."""
    rng = random.Random(seed)
    return lambda: seconds * rng.uniform(0.7, 1.3)
