"""Calls to judges until there is a reply: the only layer of retries.

- A rate limit (429, or a 503 that names a time) slows all calls to the judge, and the call is made again.
- Trouble (5xx, a time-out, a broken connection, an empty reply) is tried again after a growing, jittered wait,
  `ATTEMPTS` times at most.
- A server that refuses the format or a parameter is asked without it, now and later.
- Everything else fails at once; where it concerns the judge and not the row (a wrong key), for all rows.

Nothing is tried after the row's deadline.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from metrics_core.judge.gate import Gate
from metrics_core.judge.ledger import Budget, Ledger
from metrics_core.judge.options import JudgeOptions
from metrics_core.judge.pacing import Signal, Ticket
from metrics_core.judge.request import Judge, Message, Request
from metrics_core.judge.terms import Offer, Terms
from metrics_core.judge.transport import CallError, Reply, abilities, send
from metrics_core.judge.verdict import Unreadable

T = TypeVar("T")

ATTEMPTS = 6

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_POLL_S = 0.1
_CHARACTERS_A_TOKEN = 2.0
"""Few, so that what a call may cost at most is estimated rather too high."""

_SIGNALS: Mapping[str, Signal] = {"limited": "limited", "trouble": "trouble"}


class NoVerdict(Exception):
    """A judge was asked and gave nothing that can be used."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class BudgetUsedUp(Exception):
    """The judge was not asked, because the run has spent what it may spend."""


@dataclass(slots=True)
class Bill:
    """What one sample has cost, and the requests that its verdict rests on."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    requests: list[str] = field(default_factory=list)

    def add(self, reply: Reply) -> None:
        """A reply that came back."""
        self.tokens_in += reply.tokens_in
        self.tokens_out += reply.tokens_out
        known = self.cost_usd is not None and reply.cost_usd is not None
        self.cost_usd = self.cost_usd + reply.cost_usd if known else None  # type: ignore[operator]

    @classmethod
    def total(cls, bills: Sequence[Bill]) -> Bill:
        """The sum; its cost is unknown where one is."""
        costs = [bill.cost_usd for bill in bills]
        return cls(
            sum(bill.calls for bill in bills),
            sum(bill.tokens_in for bill in bills),
            sum(bill.tokens_out for bill in bills),
            None if None in costs else sum(cost for cost in costs if cost is not None),
            [key for bill in bills for key in bill.requests],
        )


@dataclass(slots=True)
class Turn:
    """One request while it is being asked; `kind`, `max_tokens` and `messages` change from turn to turn."""

    judge: Judge
    request: Request
    bill: Bill
    messages: tuple[Message, ...]
    max_tokens: int
    kind: str = "ask"
    attempt: int = 0
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Heard(Generic[T]):
    """A reply, and what it says or why it cannot be read."""

    reply: Reply
    value: T | None
    problem: Unreadable | None


class Caller:
    """Calls judges on behalf of one run. Lives on one event loop.

    Args:
        gates: the queue before each judge.
        terms: what each judge takes, as found out so far.
    """

    def __init__(
        self, options: JudgeOptions, ledger: Ledger, gates: Callable[[Judge], Gate], terms: Callable[[Judge], Terms]
    ) -> None:
        self._options, self._ledger = options, ledger
        self._gates, self._terms = gates, terms
        self._budget = Budget(options.run, options.max_calls, options.max_cost_usd)
        self._hopeless: dict[Judge, CallError] = {}
        self._used: dict[Judge, Gate] = {}
        self._total = Bill()

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
        terms, troubles = self._terms(turn.judge), 0
        offer = terms.first()
        while True:
            try:
                heard = await self._once(turn, offer, read)
            except CallError as error:
                if error.kind == "refused":
                    offer = self._other_offer(terms, offer, error)
                elif error.kind == "trouble":
                    troubles += 1
                    await self._back_off(turn, troubles, error)
                elif error.kind != "limited":
                    if error.kind == "fatal":
                        self._hopeless[turn.judge] = error
                    raise NoVerdict(error.code, error.message) from error
            else:
                terms.accepted(offer)
                return heard

    def _other_offer(self, terms: Terms, offer: Offer, error: CallError) -> Offer:
        other = terms.after_refusal(offer, error)
        if other is None:
            raise NoVerdict(error.code, error.message) from error
        return other

    async def _back_off(self, turn: Turn, troubles: int, error: CallError) -> None:
        wait = min(_FIRST_WAIT_S * 2 ** (troubles - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.5)
        if troubles == ATTEMPTS or wait >= self._seconds_left(turn):
            raise NoVerdict(error.code, f"{error.message} (the last of {turn.attempt} calls)") from error
        await asyncio.sleep(wait)

    async def _once(self, turn: Turn, offer: Offer, read: Callable[[str], T]) -> Heard[T]:
        """One call: a turn at the gate, a permit of the budget, and both ends of the call written down."""
        gate = self._used[turn.judge] = self._gates(turn.judge)
        ticket = await self._enter(gate, turn)
        signal: Signal = "neutral"
        wait: float | None = None
        try:
            most = self._most_usd(turn)
            call_id = await self._permit(turn, offer, most)
            turn.attempt += 1
            for bill in (turn.bill, self._total):
                bill.calls += 1
            started = time.monotonic()
            try:
                heard = await self._send(turn, offer, read)
            except BaseException as error:
                self._ledger.finish(self._budget, call_id, "error", most, _failure(error, started))
                if isinstance(error, CallError):
                    signal, wait = _SIGNALS.get(error.kind, "neutral"), error.retry_after
                raise
            signal = "ok"
            # No waiting between the reply and this: a process that is killed now loses no more than one in flight.
            status, result = _success(heard, started)
            self._ledger.finish(self._budget, call_id, status, most, result)
            for bill in (turn.bill, self._total):
                bill.add(heard.reply)
            return heard
        finally:
            gate.leave(ticket, signal, wait)

    async def _enter(self, gate: Gate, turn: Turn) -> Ticket:
        try:
            # The first call may wait as long as it takes; the clock of the row starts with it.
            async with asyncio.timeout(None if turn.started is None else self._seconds_left(turn)):
                ticket = await gate.enter()
        except TimeoutError as error:
            text = f"no turn within {self._options.deadline_s:g} s and {turn.attempt} calls: the judge limits the rate"
            raise NoVerdict("deadline", text) from error
        if turn.started is None:
            turn.started = time.monotonic()
        return ticket

    async def _permit(self, turn: Turn, offer: Offer, most: float | None) -> str:
        if turn.judge in self._hopeless:
            error = self._hopeless[turn.judge]
            raise NoVerdict(error.code, f"not asked, since the judge refuses every call: {error.message}")
        call = {
            "request_key": turn.request.key, "judge": turn.request.judge, "prompt": turn.request.prompt,
            "kind": turn.kind, "attempt": turn.attempt + 1, "format": offer.format,
        }  # fmt: skip
        while True:
            permit, call_id = self._ledger.start(self._budget, call, most)
            if permit == "go":
                return call_id
            if permit == "wait" and self._seconds_left(turn) > 0:
                await asyncio.sleep(_POLL_S)
                continue
            raise BudgetUsedUp(_used_up(self._budget, permit))

    async def _send(self, turn: Turn, offer: Offer, read: Callable[[str], T]) -> Heard[T]:
        timeout = max(0.001, min(self._options.timeout_s, self._seconds_left(turn)))
        reply = await send(turn.judge, turn.messages, offer.settings(turn.request, turn.max_tokens), timeout)
        if reply.finish_reason == "content_filter":
            raise CallError("permanent", "content_filter", "the provider's filter stopped the reply")
        if not reply.text.strip() and reply.finish_reason != "length":
            raise CallError("trouble", "empty_reply", "the reply is empty")
        try:
            return Heard(reply, read(reply.text), None)
        except Unreadable as problem:
            return Heard(reply, None, problem)

    def _seconds_left(self, turn: Turn) -> float:
        gone = 0.0 if turn.started is None else time.monotonic() - turn.started
        return self._options.deadline_s - gone

    def _most_usd(self, turn: Turn) -> float | None:
        price = abilities(turn.judge.model).price
        if price is None:
            return None
        characters = sum(len(message["content"]) for message in turn.messages)
        return characters / _CHARACTERS_A_TOKEN * price[0] + turn.max_tokens * price[1]


def _failure(error: BaseException, started: float) -> dict[str, Any]:
    code, message = ("cancelled", "the run was stopped")
    if isinstance(error, CallError):
        code, message = error.code, error.message
    elif not isinstance(error, asyncio.CancelledError):
        code, message = "defect", f"{type(error).__name__}: {error}"
    return {"seconds": time.monotonic() - started, "code": code, "message": message}


def _success(heard: Heard[Any], started: float) -> tuple[Any, dict[str, Any]]:
    reply, problem = heard.reply, heard.problem
    result = {
        "seconds": time.monotonic() - started, "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out,
        "cost_usd": reply.cost_usd, "model": reply.model, "fingerprint": reply.fingerprint,
        "finish_reason": reply.finish_reason, "reply": reply.text,
    }  # fmt: skip
    if problem is None:
        return "usable", result
    return "unreadable", {**result, "code": problem.code, "message": problem.message}


def _used_up(budget: Budget, permit: str) -> str:
    if permit == "max_calls":
        return f"budget used up: {budget.max_calls:,} calls (max_calls)"
    return f"budget used up: ${budget.max_cost_usd:g} (max_cost)"
