"""The queue before a judge, on an event loop whose clock jumps instead of waiting."""

from __future__ import annotations

import asyncio
import random

import pytest

from answerkey.metrics_core.llm.rate_limit import AdaptiveLimit, Queue, Signal
from tests.metrics_core.llm.virtual_time import now, run


class Visitors:
    """Calls that note when they were admitted, and stay until they are given an outcome."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.came: list[tuple[str, float]] = []
        self.ends: dict[str, asyncio.Future[tuple[Signal, float | None]]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, *names: str, again: bool = False) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._call(name, again))
        await settle()

    async def end(self, name: str, signal: Signal = "ok", wait: float | None = None) -> None:
        self.ends[name].set_result((signal, wait))
        await settle()

    async def _call(self, name: str, again: bool) -> None:
        self.ends[name] = asyncio.get_running_loop().create_future()
        ticket = await self.queue.enter(again=again)
        self.came.append((name, now()))
        try:
            signal, wait = await self.ends[name]
        except asyncio.CancelledError:
            self.queue.leave(ticket, "neutral")
            raise
        self.queue.leave(ticket, signal, wait)

    @property
    def order(self) -> str:
        return "".join(name for name, _ in self.came)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_first_come_first_served() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(2)))
        await visitors.send(*"abcdef")
        assert visitors.order == "ab"
        for name in "abcdef":
            await visitors.end(name)
        assert visitors.order == "abcdef"

    run(work())


def test_a_caller_that_returns_goes_before_those_that_never_had_a_turn() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(1)))
        await visitors.send(*"abc")
        await visitors.send(*"xy", again=True)
        await visitors.send("d")
        for name in "axybcd":
            await visitors.end(name)
        assert visitors.order == "axybcd"

    run(work())


def test_a_pause_holds_all_callers_for_exactly_as_long_as_asked() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(4, start=2)))
        await visitors.send(*"abcd")
        await visitors.end("a", "limited", 7.5)
        await visitors.end("b")
        assert visitors.order == "ab"
        await asyncio.sleep(7.4)
        assert visitors.order == "ab"
        await asyncio.sleep(0.2)
        assert visitors.came[2:] == [("c", 7.5)]

    run(work())


def test_a_pause_that_grows_while_they_wait_is_honoured() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(4, start=2)))
        await visitors.send(*"abc")
        await visitors.end("a", "limited", 1.0)
        await asyncio.sleep(0.5)
        await visitors.end("b", "limited", 10.0)
        await asyncio.sleep(20.0)
        assert visitors.came[2:] == [("c", 10.5)]

    run(work())


def test_starts_keep_their_distance() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(8, gap=0.25)))
        await visitors.send(*"abcd")
        await asyncio.sleep(2.0)
        assert visitors.came == [("a", 0.0), ("b", 0.25), ("c", 0.5), ("d", 0.75)]

    run(work())


def test_a_caller_that_leaves_the_queue_is_not_waited_for() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(1)))
        await visitors.send(*"abcd")
        for name in "bc":
            visitors.tasks[name].cancel()
        await settle()
        await visitors.end("a")
        assert visitors.order == "ad"
        await visitors.end("d")
        assert visitors.queue.limit.in_flight == 0

    run(work())


def test_a_turn_that_comes_together_with_a_cancellation_goes_to_the_next() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(1)))
        await visitors.send(*"abc")
        # In two steps of the loop: a leaves, then b gets its turn, and is cancelled before it resumes.
        visitors.ends["a"].set_result(("ok", None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert visitors.queue.limit.in_flight == 1
        visitors.tasks["b"].cancel()
        await settle()
        assert (visitors.tasks["b"].cancelled(), visitors.order) == (True, "ac")
        await visitors.end("c")
        assert visitors.queue.limit.in_flight == 0

    run(work())


def test_a_time_limit_on_waiting_leaves_nothing_behind() -> None:
    async def work() -> None:
        visitors = Visitors(Queue(AdaptiveLimit(1)))
        await visitors.send("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await visitors.queue.enter()
        assert now() == 3.0
        await visitors.send("b")
        await visitors.end("a")
        await visitors.end("b")
        assert (visitors.order, visitors.queue.limit.in_flight) == ("ab", 0)

    run(work())


@pytest.mark.parametrize("seed", range(8))
def test_under_any_order_no_caller_is_lost_and_the_limit_holds(seed: int) -> None:
    dice = random.Random(seed)
    queue = Queue(AdaptiveLimit(6, start=3, gap=0.01))
    signals: list[Signal] = ["ok", "ok", "ok", "limited", "trouble", "neutral"]
    served: list[int] = []

    async def call(number: int) -> None:
        for attempt in range(dice.randint(1, 3)):
            ticket = await queue.enter(again=attempt > 0)
            assert queue.limit.in_flight <= 6
            signal: Signal = "neutral"
            try:
                await asyncio.sleep(dice.uniform(0.0, 0.5))
                signal = dice.choice(signals)
            finally:
                queue.leave(ticket, signal, dice.choice([None, 0.0, 0.3]) if signal == "limited" else None)
        served.append(number)

    async def work() -> None:
        tasks = []
        for number in range(120):
            tasks.append(asyncio.create_task(call(number)))
            if not dice.randrange(3):
                await asyncio.sleep(dice.uniform(0.0, 0.2))
            if not dice.randrange(4):
                dice.choice(tasks).cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(one) for one in ended} <= {type(None), asyncio.CancelledError}
        assert len(served) == sum(one is None for one in ended) > 60
        assert queue.limit.in_flight == 0
        # And it is still open.
        queue.leave(await queue.enter(), "ok")

    run(work())
