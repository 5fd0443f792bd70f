"""How many calls may be in flight to one endpoint, and the queue of those that wait.

The limit is a state machine without a clock, a loop or a thread of its own:

additive increase, multiplicative decrease (Chiu and Jain 1989) after a slow start, as in TCP, with one addition.
A refusal costs a pause as long as many calls, so a limit that climbs into the same wall every few rounds would mostly
wait. The limit that was refused is therefore remembered as the wall. Growth is free up to just below it; the wall
itself is tried again, one step high, once the last episode is paid for: REPAY successes for each refusal (at most
about 4 % refusals) and REST times the length of the pause (at most about 11 % pauses).

Two kinds of servers need more. One that never refuses and lets calls wait (llama.cpp, Ollama, vLLM) shows by time-outs
alone that there are too many: they cut the limit too, and where `patience` is given it grows only as far as replies
come well before it. And where lone calls are refused now and then, refusals do not depend on how many there are: so
many as lone calls had are no reason for a cut.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

# ok: 2xx. limited: 429 or overloaded. late: no reply within the time-out. trouble: 5xx, a broken connection.
# neutral: says nothing about load (a permanent 4xx, a cancelled call).
Signal = Literal["ok", "limited", "late", "trouble", "neutral"]

REPAY, REST = 25, 8.0
LONGEST_PAUSE, LONGEST_ADVICE = 60.0, 300.0  # seconds
PROBES = 2  # calls at once to a server that nobody knows, before its first reply
LONE, MEMORY = 20, 40  # lone calls that show what is refused to them; calls that the share of refusals is taken over


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the limit, for the log; `at` in the caller's seconds. A cut at the floor is noted as well."""

    at: float
    limit: int
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One call in flight. No two tickets are equal.

    `epoch` is the number of cuts before it started, at `at`. `alone`: while no other may be in flight.
    """

    epoch: int
    at: float
    alone: bool


class AdaptiveLimit:
    """The limit of calls in flight, from `floor` to `ceiling`, as the endpoint's answers move it.

    `now` is in seconds of any clock that does not run backwards. `start` is clipped into [floor, ceiling]. `gap` is
    the least number of seconds between two starts, `first_pause` the pause after a refusal that names none; it doubles
    with every refusal that follows without a success. Raises ValueError for impossible bounds.

    A round is as many successes as the limit was when it began; calls from before the last cut do not count. It was
    used if at some moment of it 80 % of that limit was in flight, and only then does the limit grow: before the first
    cut by 1 a success, later by 5 % (at least 1) at the end of a round. A "limited" cuts to 70 %, one "late" for ten
    calls of the limit to a half. "late" and "trouble" start the round anew and hold growth until it is through.

    `patience`, in seconds, is the time-out of calls to a server of unknown size. Then PROBES calls are the first; the
    limit jumps to `start` if the first reply is so quick that even a server that takes one call after the other would
    answer so many within half of the patience; and it grows only while replies take less than a quarter of it, or
    less than a half for a quarter a round.

    >>> limit = AdaptiveLimit(ceiling=64, start=2)
    >>> calls = [limit.start(now=0.0), limit.start(now=0.0)]
    >>> limit.ready_in(now=0.0) is None  # full
    True
    >>> limit.end(calls[0], now=1.0, signal="ok"), limit.limit
    (None, 3)
    >>> limit.end(calls[1], now=1.0, signal="limited", retry_after=5.0), limit.limit, limit.ready_in(now=1.0)
    (None, 2, 5.0)
    """

    def __init__(
        self, ceiling: int, start: int = 16, floor: int = 1, gap: float = 0.0, first_pause: float = 1.0,
        patience: float = math.inf,
    ) -> None:  # fmt: skip
        if not (1 <= floor <= ceiling and 0.0 <= gap < math.inf and 0.0 < first_pause < math.inf and patience > 0.0):
            given = f"{floor=}, {ceiling=}, {gap=}, {first_pause=}, {patience=}"
            raise ValueError(f"needed: 1 <= floor <= ceiling, gap >= 0, first_pause > 0, patience > 0; not {given}")
        self._ceiling, self._floor, self._gap, self._first_pause = ceiling, floor, gap, first_pause
        self._patience, self._jump = patience, min(start, ceiling)  # where the first reply leads to; 0: it was there
        self._limit = max(floor, min(start if patience == math.inf else min(start, PROBES), ceiling))
        self._open: set[Ticket] = set()
        self._changes: deque[Change] = deque(maxlen=200)
        self._next_start = self._cut_at = self._paused_until = -math.inf
        self._epoch = self._row = 0  # cuts since the beginning; cuts without a success in between
        self._wall = ceiling + 1  # the limit that was refused; above the ceiling: none is known
        self._owed = 0  # successes before the wall is tried again
        self._late = 0  # time-outs since a round without any
        self._share = 0.0  # of refusals among the last calls
        self._lone = self._lone_refused = 0
        self._usual: float | None = None  # share of refusals that does not depend on load, if there is one
        self._peak = 0  # most calls in flight at a moment of the round
        self._slowest = self._seconds = 0.0  # of the successes of the round
        self._mean_before = 0.0  # seconds, at a lower limit; 0: not known
        self._begin_round(peak=0)

    @property
    def limit(self) -> int:
        """The most calls that may be in flight. After a cut more can still be there: they run out."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """Calls started and not yet ended."""
        return len(self._open)

    @property
    def tolerant(self) -> bool:
        """Whether refusals come whatever the load, so that they cause no pause."""
        return self._usual is not None and self._share <= 2.0 * self._usual + 0.05

    @property
    def history(self) -> list[Change]:
        """The last 200 changes of the limit, oldest first."""
        return list(self._changes)

    def ready_in(self, now: float) -> float | None:
        """0.0: start one call now. More: ask again in so many seconds. None: full, ask again when a call has ended."""
        if len(self._open) >= self._limit:
            return None
        return max(0.0, self._paused_until - now, self._next_start - now)

    def start(self, now: float) -> Ticket:
        """Count one call as started. Raises RuntimeError unless `ready_in(now)` is 0.0."""
        if self.ready_in(now) != 0.0:
            raise RuntimeError("no call may start now: ask ready_in first")
        ticket = Ticket(self._epoch, now, alone=self._limit == 1 and not self._open)
        self._open.add(ticket)
        self._next_start = now + self._gap
        self._peak = max(self._peak, len(self._open))
        return ticket

    def end(self, ticket: Ticket, now: float, signal: Signal, retry_after: float | None = None) -> None:
        """Count the call as ended. `retry_after`: the seconds that a "limited" answer asked for.

        Raises ValueError for a ticket that has ended before or is not from here.
        """
        if ticket not in self._open:
            raise ValueError("this call has ended before, or was not started here")
        self._open.remove(ticket)
        if signal in ("ok", "limited"):
            self._learn_usual(ticket, refused=signal == "limited")
        if signal == "limited" and not self.tolerant:
            self._refused(ticket, now, retry_after)
        elif signal == "late":
            self._timed_out(ticket, now)
        elif signal == "trouble":
            self._begin_round(peak=len(self._open), held=True)
        elif signal == "ok":
            self._succeeded(ticket, now)

    def _learn_usual(self, ticket: Ticket, *, refused: bool) -> None:
        self._share += (refused - self._share) / MEMORY
        if ticket.alone:
            self._lone += 1
            self._lone_refused += refused
        # Where lone calls are refused often, it is their rate that is too high.
        if self._lone == LONE:
            share, self._usual = self._lone_refused / LONE, None
            if 0.0 < share <= 0.2:
                self._usual = self._share = share
                self._wall, self._owed = self._ceiling + 1, 0
            self._lone = self._lone_refused = 0

    def _timed_out(self, ticket: Ticket, now: float) -> None:
        if ticket.epoch == self._epoch:
            self._late += 1
            # One in a hundred may hang for reasons of its own.
            if 10 * self._late > self._limit:
                self._epoch += 1
                self._wall, self._owed, self._late = self._limit, REPAY, 0
                self._set(max(self._floor, self._limit // 2), now, "late")
        self._begin_round(peak=len(self._open), held=True)

    def _refused(self, ticket: Ticket, now: float, retry_after: float | None) -> None:
        # Written so that NaN is no advice.
        advice = min(retry_after, LONGEST_ADVICE) if retry_after is not None and retry_after >= 0.0 else None
        if ticket.epoch == self._epoch:
            self._cut(now, advice)
        elif advice is not None:
            self._paused_until = max(self._paused_until, now + advice)
        self._owed += REPAY

    def _cut(self, now: float, advice: float | None) -> None:
        self._epoch += 1
        self._row += 1
        pause = min(LONGEST_PAUSE, self._first_pause * 2.0 ** min(self._row - 1, 10))
        if advice is not None:
            # Advice that was followed and refused again is no reason to come back sooner than without it.
            pause = advice if self._row == 1 else max(advice, pause)
        self._cut_at, self._paused_until = now, max(self._paused_until, now + pause)
        if self._row == 1:  # an endpoint that refuses everything does not show where its capacity ends
            self._wall = self._limit
        self._owed = 0
        self._set(max(self._floor, self._limit * 7 // 10), now, f"limited, pause {pause:g} s")
        self._begin_round(peak=0)

    def _succeeded(self, ticket: Ticket, now: float) -> None:
        # Any call that started after the first cut of the row shows that the endpoint answers again, even if the
        # answer comes after the next cut: refusals are quicker than answers.
        if ticket.epoch > self._epoch - self._row:
            self._row = 0
        if ticket.epoch != self._epoch:
            return
        seconds = now - ticket.at
        self._slowest, self._seconds = max(self._slowest, seconds), self._seconds + seconds
        self._owed -= 1
        self._left -= 1
        used = 5 * self._peak >= 4 * self._size
        if used and self._epoch == 0 and not self._held:
            self._start_slowly(seconds, now)
        if self._left == 0:
            if used and self._bears_more():
                if self._epoch > 0:
                    self._grow(now)
                elif self._slowest > self._patience / 4:
                    self._grow_slowly(now)
            self._late = 0
            self._begin_round(peak=len(self._open))

    def _start_slowly(self, seconds: float, now: float) -> None:
        quick = seconds <= self._patience / 4
        target = self._limit + 1 if quick else self._limit
        if self._patience < math.inf and self._jump:
            target = max(target, min(self._jump, int(self._patience / 2 / max(seconds, 1e-9))))
            self._jump = 0
        if self._limit < min(target, self._ceiling):
            self._set(min(target, self._ceiling), now, "slow start")

    def _bears_more(self) -> bool:
        return self._slowest <= self._patience / 2 or (self._scales() and self._mean() <= self._patience / 2)

    def _mean(self) -> float:
        return self._seconds / self._size

    def _scales(self) -> bool:
        """Whether replies take no longer than at the limit before: those of a queue would, in proportion."""
        return self._mean() <= 1.2 * self._mean_before

    def _grow_slowly(self, now: float) -> None:
        step = self._limit if self._scales() else max(1, self._limit // 4)
        self._mean_before = self._mean()
        self._set(min(self._limit + step, self._ceiling), now, "slow replies")

    def _grow(self, now: float) -> None:
        if self._limit >= self._wall and self._owed <= 0:
            self._wall = self._ceiling + 1  # it is gone
        target = min(self._limit + max(1, self._limit // 20), self._wall - 1)
        rest = REST * (self._paused_until - self._cut_at)
        if target > self._limit:
            self._set(target, now, "clean round")
        elif self._wall <= self._ceiling and self._owed <= 0 and now >= self._paused_until + rest:
            self._set(self._wall, now, "refused before, tried again")
            self._owed = 2 * self._wall  # the first round ends calls that started below the wall: they prove nothing

    def _begin_round(self, peak: int, held: bool = False) -> None:
        self._size = self._left = self._limit
        self._peak, self._held = peak, held
        self._slowest = self._seconds = 0.0

    def _set(self, limit: int, now: float, why: str) -> None:
        self._limit = limit
        self._changes.append(Change(now, limit, why))


class Queue:
    """Calls wait here, first come, first served, as long as `limit` says. Lives on one event loop.

    In each round of the loop one call starts. Calls that start all at once would take turns at every step of their work
    in this process, so that the first request leaves when the last one does.
    """

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self._waiting: deque[asyncio.Future[Ticket]] = deque()
        self._again: deque[asyncio.Future[Ticket]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._soon = False

    async def enter(self, *, again: bool = False) -> Ticket:
        """Wait for a slot. A caller that gets one must `leave`.

        A caller that comes `again` goes before all that were never admitted: its clock is running, theirs are not.
        """
        slot: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        (self._again if again else self._waiting).append(slot)
        self._admit_soon()
        try:
            return await slot
        except asyncio.CancelledError:
            # Cancelled between being granted a slot and resuming: the slot goes back.
            if slot.done() and not slot.cancelled():
                self.leave(slot.result(), "neutral")
            raise

    def leave(self, ticket: Ticket, signal: Signal, retry_after: float | None = None) -> None:
        """Report how a call went, and admit others."""
        self.limit.end(ticket, asyncio.get_running_loop().time(), signal, retry_after)
        self._admit_soon()

    def _admit_soon(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        loop = asyncio.get_running_loop()
        self._soon = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while queue := self._again or self._waiting:
            if queue[0].done():
                queue.popleft()
                continue
            now = loop.time()
            wait = self.limit.ready_in(now)
            if wait is None:
                return
            if wait > 0:
                self._alarm = loop.call_later(wait, self._admit)
                return
            queue.popleft().set_result(self.limit.start(now))
            self._admit_soon()
            return
