"""Calls to judges until there is a reply: the only layer of retries.

- A rate limit (429, or a 503 that names a time) slows all calls to the judge, and the call is made again.
- Trouble (5xx, a time-out, a broken connection, an empty reply) is tried again after a growing, jittered wait,
  `ATTEMPTS` times at most.
- A server that refuses the format or a parameter is asked without it, now and later.
- Everything else fails at once; where it concerns the judge and not the row (a wrong key), for all rows.
- A judge that has answered nobody while ten questions used up their attempts is asked no more.

Nothing is tried after the row's deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from answerkey.metrics_core.llm.access import Limits
from answerkey.metrics_core.llm.ledger import Budget, Ledger, Status
from answerkey.metrics_core.llm.litellm import CallError, Reply, abilities, send
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.pacing import Signal, Ticket
from answerkey.metrics_core.llm.queue import Gate
from answerkey.metrics_core.llm.terms import Offer, Terms
from answerkey.metrics_core.llm.turn import Bill, BudgetUsedUp, Heard, NoVerdict, Turn, heard, paid

T = TypeVar("T")

ATTEMPTS = 6

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_POLL_S = 0.1
_BYTES_A_TOKEN = 2.0
"""Few, so that what a call may cost at most is estimated rather too high. Bytes, since a character of Chinese can be
more than one token."""

_ENOUGH_LOST = 10
"""Questions without an answer after all attempts, before the first answer of a run: the judge is not there."""

_MAYBE_A_FILTER = ("http_403", "http_404")
_SIGNALS: Mapping[str, Signal] = {"limited": "limited", "trouble": "trouble"}


class Caller:
    """Calls judges on behalf of one run. Lives on one event loop.

    Args:
        gates: the queue before each judge.
        terms: what each judge takes, as found out so far.
    """

    def __init__(
        self, run: str, limits: Limits, noun: str, ledger: Ledger, gates: Callable[[ModelRef], Gate],
        terms: Callable[[ModelRef, bool], Terms],
    ) -> None:  # fmt: skip
        self._limits, self._noun, self._ledger = limits, noun, ledger
        self._gates, self._terms = gates, terms
        self._budget = Budget(run, limits.max_calls, limits.max_cost_usd)
        self._hopeless: dict[ModelRef, tuple[str, str]] = {}
        self._answered: set[ModelRef] = set()
        self._lost: Counter[ModelRef] = Counter()
        # What cost so much at most, or more, was refused for good.
        self._too_dear, self._used_up = math.inf, ""
        self._used: dict[ModelRef, Gate] = {}
        self._total = Bill()

    @property
    def calls(self) -> int:
        """How many were made so far."""
        return self._total.calls

    def tally(self) -> str:
        """What was spent so far and how fast it goes, for people."""
        flying = sum(gate.pacing.in_flight for gate in self._used.values())
        limit = sum(gate.pacing.limit for gate in self._used.values())
        cost = "price unknown" if self._total.cost_usd is None else f"${self._total.cost_usd:.4f}"
        return f"{self._total.calls:,} calls, {cost}, {flying} at once of {limit}"

    async def call(self, turn: Turn, read: Callable[[str], T]) -> Heard[T]:
        """Call until there is a reply.

        Raises:
            NoVerdict: there is none.
            BudgetUsedUp: the budget forbids the call.
            LedgerError: the ledger cannot be used.
        """
        terms, troubles = self._terms_of(turn), 0
        other: Offer | None = None
        while True:
            try:
                said = await self._once(turn, other, read)
            except CallError as error:
                if error.kind == "refused":
                    other = self._other_offer(terms, turn.offer, error)
                elif error.kind == "trouble":
                    troubles += 1
                    await self._back_off(turn, troubles, error)
                elif error.kind != "limited":
                    self._give_up(turn.judge, error)
                    raise NoVerdict(error.code, error.message) from error
            else:
                terms.accepted(turn.offer)
                self._answered.add(turn.judge)
                return said

    def _terms_of(self, turn: Turn) -> Terms:
        return self._terms(turn.judge, bool(turn.request.schema))

    def _give_up(self, judge: ModelRef, error: CallError) -> None:
        # A judge that answers has the right address and name: then it was a filter, and about this text.
        if error.kind == "fatal" and not (error.code in _MAYBE_A_FILTER and judge in self._answered):
            why = f"not asked, since the {self._noun} refuses every call: {error.message}"
            self._hopeless[judge] = error.code, why

    def _other_offer(self, terms: Terms, offer: Offer, error: CallError) -> Offer:
        other = terms.after_refusal(offer, error)
        if other is None:
            raise NoVerdict(error.code, error.message) from error
        return other

    async def _back_off(self, turn: Turn, troubles: int, error: CallError) -> None:
        wait = min(_FIRST_WAIT_S * 2 ** (troubles - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.5)
        if troubles == ATTEMPTS and turn.judge not in self._answered:
            self._lost[turn.judge] += 1
            if self._lost[turn.judge] >= _ENOUGH_LOST:
                why = f"not asked, since the {self._noun} answers nobody: {error.message}"
                self._hopeless[turn.judge] = error.code, why
        if troubles == ATTEMPTS or wait >= self._seconds_left(turn):
            raise NoVerdict(error.code, f"{error.message} (the last of {turn.attempt} calls)") from error
        await asyncio.sleep(wait)

    async def _once(self, turn: Turn, other: Offer | None, read: Callable[[str], T]) -> Heard[T]:
        """One call: a turn at the gate, a permit of the budget, and both ends of the call written down."""
        gate = self._used[turn.judge] = self._gates(turn.judge)
        most = self._most_usd(turn)
        # Looked at before and after the waiting: thousands that will not be asked need not queue for it.
        self._check(turn, most)
        ticket = await self._enter(gate, turn)
        signal: Signal = "neutral"
        wait: float | None = None
        try:
            self._check(turn, most)
            # Not before: others may have found out in the meantime what the judge takes.
            turn.offer = other or self._terms_of(turn).first()
            call_id = await self._permit(turn, most)
            turn.attempt += 1
            for bill in (turn.bill, self._total):
                bill.calls += 1
            started, reply = time.monotonic(), None
            try:
                reply = await self._send(turn)
                said, signal = heard(reply, read, plain=not turn.request.schema), "ok"
                status, told = _success(said)
                return said
            except BaseException as error:
                status, told = "error", _failure(error)
                if isinstance(error, CallError):
                    signal, wait = _SIGNALS.get(error.kind, "neutral"), error.retry_after
                raise
            finally:
                # No waiting between the reply and this: a process that is killed now loses no more than one in flight.
                result = {"seconds": time.monotonic() - started, **paid(reply), **told}
                self._ledger.finish(self._budget, call_id, status, most, result)
                for bill in (turn.bill, self._total):
                    bill.add(reply)
        finally:
            gate.leave(ticket, signal, wait)

    def _check(self, turn: Turn, most: float | None) -> None:
        if turn.judge in self._hopeless:
            raise NoVerdict(*self._hopeless[turn.judge])
        if (most or 0.0) >= self._too_dear:
            raise BudgetUsedUp(self._used_up)
        if self._seconds_left(turn) <= 0:
            text = f"the {self._limits.deadline_s:g} s of one question were over after {turn.attempt} calls"
            raise NoVerdict("deadline", text)

    async def _enter(self, gate: Gate, turn: Turn) -> Ticket:
        try:
            # The first call may wait as long as it takes; the clock of the row starts with it.
            async with asyncio.timeout(None if turn.started is None else self._seconds_left(turn)):
                ticket = await gate.enter(again=turn.started is not None)
        except TimeoutError as error:
            limit = f"{self._limits.deadline_s:g} s and {turn.attempt} calls"
            raise NoVerdict("deadline", f"no turn within {limit}: the {self._noun} limits the rate") from error
        if turn.started is None:
            turn.started = time.monotonic()
        return ticket

    async def _permit(self, turn: Turn, most: float | None) -> str:
        call = {
            "request_key": turn.request.key, "judge": turn.request.judge, "prompt": turn.request.prompt,
            "kind": turn.kind, "attempt": turn.attempt + 1, "format": turn.offer.format,
        }  # fmt: skip
        while True:
            permit, call_id = self._ledger.start(self._budget, call, most)
            if permit == "go":
                return call_id
            if permit == "wait" and self._seconds_left(turn) > 0:
                await asyncio.sleep(_POLL_S)
                continue
            self._used_up = _used_up(self._budget, permit)
            if permit != "wait":
                self._too_dear = min(self._too_dear, (most or 0.0) if permit == "max_cost" else 0.0)
            raise BudgetUsedUp(self._used_up)

    async def _send(self, turn: Turn) -> Reply:
        timeout = max(0.001, min(self._limits.timeout_s, self._seconds_left(turn)))
        return await send(turn.judge, turn.messages, turn.offer.settings(turn.request, turn.max_tokens), timeout)

    def _seconds_left(self, turn: Turn) -> float:
        gone = 0.0 if turn.started is None else time.monotonic() - turn.started
        return self._limits.deadline_s - gone

    def _most_usd(self, turn: Turn) -> float | None:
        price = abilities(turn.judge.model).price
        if price is None:
            return None
        size = sum(len(message["content"].encode()) for message in turn.messages)
        return size / _BYTES_A_TOKEN * price[0] + turn.max_tokens * price[1]


def _failure(error: BaseException) -> dict[str, Any]:
    code, message = ("cancelled", "the run was stopped")
    if isinstance(error, CallError):
        code, message = error.code, error.message
    elif not isinstance(error, asyncio.CancelledError):
        code, message = "defect", f"{type(error).__name__}: {error}"
    return {"code": code, "message": message}


def _success(said: Heard[Any]) -> tuple[Status, dict[str, Any]]:
    problem = said.problem
    return ("usable", {}) if problem is None else ("unreadable", {"code": problem.code, "message": problem.message})


def _used_up(budget: Budget, permit: str) -> str:
    if permit == "max_calls":
        return f"budget used up: {budget.max_calls:,} calls (max_calls)"
    return f"budget used up: ${budget.max_cost_usd:g} (max_cost)"
