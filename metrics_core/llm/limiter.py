"""How many calls may be in flight to one model, and when a run stops asking it.

`Limiter` is additive increase, multiplicative decrease (Chiu and Jain 1989): it begins with two calls, goes to its
ceiling at the first reply, is cut by a refusal (429) or a time-out, and then grows by one call a round. A refusal also
pauses all calls, for as long as its server asks. `Breaker` is a circuit breaker: while all calls fail, they are
made one at a time until one succeeds.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from answerkey.metrics_core.llm.request import GARBLED, CallError, CallFailed, CallSkipped

Load = Literal["ok", "limited", "late", "neutral"]
"""What a call says about the load: it was answered, refused, not answered in time, or says nothing about it."""

_FIRST_CALLS = 2
_CUT, _CUT_LATE = 0.7, 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_ADVICE_S = 0.25, 60.0, 300.0

_FAILURES_IN_A_ROW = 5
_LONGEST_TRIAL_S = 5.0
"""Between two calls while all calls fail."""
_NEVER_REPLIED_S = 20.0
"""A model that has not replied at all for so long is not there."""
_ENOUGH_REFUSED = 10
"""Questions that failed alike, without a success in between."""
_ENOUGH_HOPELESS = 3
"""Calls in a row that are refused for longer than a question may wait."""
_LONGEST_REFUSED_S, _LONGEST_SILENCE_S = 300.0, 600.0
_OF_ONE_QUESTION = ("http_403", "http_404")
"""Codes that concern one question where others have had their replies."""


class Limiter:
    """The calls in flight to one model, first come, first served. Lives on one event loop.

    Args:
        ceiling: the most calls in flight.
        patience: seconds after which a call times out, for a server that lets calls wait in place of refusing them. The
            limit then grows only while replies come within a quarter of it. Infinite for a provider.

    Attributes:
        limit: the most calls that may be in flight now, 1 to `ceiling`.
        in_flight: calls that have not ended.
    """

    def __init__(self, ceiling: int, patience: float) -> None:
        self._ceiling, self._patience = ceiling, patience
        self.limit: float = min(_FIRST_CALLS, ceiling)
        self.in_flight = 0
        self._answered = False
        self._was_cut = False
        self._last_cut_s = -math.inf
        self._paused_until = -math.inf
        self._refusals = 0
        self._waiting: deque[asyncio.Future[float]] = deque()
        self._started: deque[asyncio.Future[float]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    async def acquire(self, *, started: bool = False) -> float:
        """Wait for a slot, which has to be released. Returns when its call began, by the clock of the loop.

        Args:
            started: whether the question was asked before, so that its clock is running: it goes before the others.
        """
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        (self._started if started else self._waiting).append(future)
        self._admit()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(future.result(), "neutral")
            raise

    def release(self, began: float, load: Load, retry_after: float | None = None) -> None:
        """Give a slot back, and learn from its call; `retry_after` in seconds, as the server asks."""
        now = asyncio.get_running_loop().time()
        self.in_flight -= 1
        # Calls from before the last cut say nothing about the limit after it
        is_news = began > self._last_cut_s
        if load == "ok":
            self._refusals = 0
            seconds = max(now - began, 1e-9)
            if not self._answered:
                self._answered = True
                # Even a server that takes one call after the other answers this many within half of its time.
                self.limit = max(self.limit, min(self._ceiling, self._patience / 2 / seconds))
            elif is_news and seconds <= self._patience / 4:
                step = 1.0 / self.limit if self._was_cut else 1.0
                self.limit = min(self._ceiling, self.limit + step)
        elif load == "limited" and (is_news or retry_after is not None):
            pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._refusals, 10))
            if retry_after is not None:
                pause = min(retry_after, _LONGEST_ADVICE_S)
            self._paused_until = max(self._paused_until, now + pause)
            if is_news:
                self._refusals += 1
        if is_news and load in ("limited", "late"):
            share = _CUT if load == "limited" else _CUT_LATE
            self.limit = max(1.0, self.limit * share)
            self._was_cut = True
            self._last_cut_s = now
        self._admit()

    def _admit(self) -> None:
        loop = asyncio.get_running_loop()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self.in_flight < int(self.limit) and (queue := self._started or self._waiting):
            now = loop.time()
            if now < self._paused_until:
                self._alarm = loop.call_later(self._paused_until - now, self._admit)
                return
            future = queue.popleft()
            if not future.done():
                self.in_flight += 1
                future.set_result(now)


@dataclass(slots=True)
class Breaker:
    """Whether a model answers at all, and when a run stops asking it.

    Args:
        noun: the word for a model in messages.
        deadline_s: seconds that one question may take.

    Attributes:
        stopped: what each further question ends with: `CallFailed` if it would fail alike, `CallSkipped` if it can be
            asked later; None: calls are made.
        turn: held by the call that is made while all calls fail.
    """

    noun: str
    deadline_s: float
    stopped: CallFailed | CallSkipped | None = None
    replied: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _failing_since: float | None = None
    _failures: int = 0
    _hopeless: int = 0
    _failed_at: float = -math.inf
    _questions: defaultdict[str, set[str]] = field(default_factory=partial(defaultdict, set))

    @property
    def open(self) -> bool:
        """Whether all calls fail, so that they are made one at a time."""
        # One question alone may have trouble of its own.
        return self._failures >= _FAILURES_IN_A_ROW and (self.replied or len(self._questions["trouble"]) > 2)

    async def wait(self) -> bool:
        """Wait for the turn of a call while all calls fail; returns whether `turn` has to be released then."""
        if not self.open:
            return False
        await self.turn.acquire()
        keeps_turn = False
        try:
            # Another call may have succeeded, or the model been left, meanwhile
            if self.open and not self.stopped:
                pause_s = min(0.5 * 1.5 ** min(self._failures - _FAILURES_IN_A_ROW, 20), _LONGEST_TRIAL_S)
                await asyncio.sleep(max(0.0, self._failed_at + pause_s - asyncio.get_running_loop().time()))
                keeps_turn = True
        finally:
            if not keeps_turn:
                self.turn.release()
        return keeps_turn

    def success(self) -> None:
        """A reply came."""
        self.replied = True
        self._failing_since = None
        self._failures = 0
        self._hopeless = 0
        self._questions.clear()

    def failure(self, error: CallError, question: str, now: float) -> None:
        """A call ended without a reply; `now` in seconds of the loop's clock."""
        if now - self._failed_at > 2 * self.deadline_s:
            # Nobody asked meanwhile: that is no silence of the server.
            self._failing_since = None
        self._failed_at = now
        if error.code == "quota":
            self._leave(f"the {self.noun}'s quota is used up, and its server does not say until when", error)
        elif error.kind == "fatal" and not (error.code in _OF_ONE_QUESTION and self.replied):
            # A model that replies has the right address and name: then it was a filter, and about this text.
            self.stopped = CallFailed(
                error.code, f"not asked, since the {self.noun} refuses every call: {error.message}"
            )
        elif error.kind in ("trouble", "limited"):
            self._questions[error.kind].add(question)
            if self._failing_since is None:
                self._failing_since = now
            seconds = now - self._failing_since
            if error.kind == "trouble":
                self._failures += 1
                if not self.replied and self.open and seconds >= min(_NEVER_REPLIED_S, self.deadline_s):
                    never = f"not asked, since the {self.noun} never replies: {error.message}"
                    self.stopped = CallFailed(error.code, never)
                elif seconds >= min(2 * self.deadline_s, _LONGEST_SILENCE_S):
                    self._leave(f"the {self.noun} has not replied for {seconds:.0f} s", error)
            else:
                # Not at the first: a call made before it may yet be answered.
                self._hopeless += self.hopeless(error)
                if self._hopeless >= _ENOUGH_HOPELESS:
                    self._leave(f"the {self.noun}'s quota is used up{_until(error)}", error)
                self.refused_for(error, now, min(self.deadline_s, _LONGEST_REFUSED_S))
        elif error.code == GARBLED or (error.kind == "permanent" and error.code.startswith("http_4")):
            # A refused parameter is not counted here: it is counted once nothing else is left to try.
            self.useless(error.code, error.message, question)

    def useless(self, code: str, message: str, question: str) -> None:
        """A question got an answer that is of no use."""
        self._questions[code].add(question)
        if len(self._questions[code]) >= _ENOUGH_REFUSED:
            problem = "answers with no completion" if code == GARBLED else "refuses every question"
            self.stopped = CallFailed(code, f"not asked, since the {self.noun} {problem}: {message}")

    def refused_for(self, error: CallError, now: float, seconds: float) -> None:
        """Leave the model if every call was refused for so many seconds."""
        # One question alone may be refused for what it is.
        if self._failing_since is None or len(self._questions["limited"]) < 2:
            return
        refused_s = now - self._failing_since
        if refused_s >= seconds:
            self._leave(f"the {self.noun} has refused every call for {refused_s:.0f} s{_until(error)}", error)

    def hopeless(self, error: CallError) -> bool:
        """Whether a refusal lasts longer than any question waits."""
        return error.retry_after is not None and error.retry_after > self.deadline_s

    def _leave(self, reason: str, error: CallError) -> None:
        if self.stopped is None:
            message = f"{reason}; the next run continues there: {error.message}"
            self.stopped = CallSkipped(message, unavailable=True)


def _until(error: CallError) -> str:
    if error.retry_after is None:
        return ""
    return f", until {datetime.now(UTC) + timedelta(seconds=error.retry_after):%Y-%m-%d %H:%M} UTC by its server"
