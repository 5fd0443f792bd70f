"""The queue before one judge: calls wait their turn here, in order, for as long as its pacing says."""

from __future__ import annotations

import asyncio
from collections import deque

from answerkey.metrics_core.llm.pacing import Pacing, Signal, Ticket


class Gate:
    """Lets calls through as `pacing` allows. Lives on one event loop."""

    def __init__(self, pacing: Pacing) -> None:
        self.pacing = pacing
        self._waiting: deque[asyncio.Future[Ticket]] = deque()
        self._again: deque[asyncio.Future[Ticket]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    async def enter(self, *, again: bool = False) -> Ticket:
        """Wait for a turn. Whoever got one must `leave`.

        Who comes `again` goes before all who were never let in: their clocks run, and the others' do not yet.
        """
        turn: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        (self._again if again else self._waiting).append(turn)
        self._let_in()
        try:
            return await turn
        except asyncio.CancelledError:
            # Cancelled in the moment between the turn and the waking up: the turn goes back.
            if turn.done() and not turn.cancelled():
                self.leave(turn.result(), "neutral")
            raise

    def leave(self, ticket: Ticket, signal: Signal, retry_after: float | None = None) -> None:
        """Say how a call went, and let others in."""
        self.pacing.end(ticket, asyncio.get_running_loop().time(), signal, retry_after)
        self._let_in()

    def _let_in(self) -> None:
        loop = asyncio.get_running_loop()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while queue := self._again or self._waiting:
            if queue[0].done():
                queue.popleft()
                continue
            now = loop.time()
            wait = self.pacing.ready_in(now)
            if wait is None:
                return
            if wait > 0:
                self._alarm = loop.call_later(wait, self._let_in)
                return
            queue.popleft().set_result(self.pacing.start(now))
