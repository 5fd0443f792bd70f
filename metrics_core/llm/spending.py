"""What a run spends on models: the most that a call may cost, leave to make it, and what it did cost at its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.ledger import Budget, CallStatus
from answerkey.metrics_core.llm.litellm import abilities
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import Reply

_POLL_S = 0.1

_BYTES_PER_TOKEN = 2.0
"""Low, so that the upper bound of what a call may cost is too high rather than too low. Bytes, since one character of
Chinese can be more than one token."""


class BudgetUsedUp(Exception):
    """The model was not asked, because the run has spent what it may spend, or was cancelled."""


@dataclass(slots=True)
class Bill:
    """What one sample has cost, and the requests that its result rests on.

    >>> Bill.total([Bill(calls=1, cost_usd=0.5), Bill(calls=2, cost_usd=None)])
    Bill(calls=3, tokens_in=0, tokens_out=0, cost_usd=None, requests=[])
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    requests: list[str] = field(default_factory=list)

    def add(self, reply: Reply, cost: float | None) -> None:
        """A reply and what it cost in dollars."""
        self.tokens_in += reply.tokens_in or 0
        self.tokens_out += reply.tokens_out or 0
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost

    @classmethod
    def total(cls, bills: Sequence[Bill]) -> Bill:
        """The sum; its cost is unknown if one is."""
        costs = [bill.cost_usd for bill in bills]
        return cls(
            sum(bill.calls for bill in bills),
            sum(bill.tokens_in for bill in bills),
            sum(bill.tokens_out for bill in bills),
            None if None in costs else sum(cost for cost in costs if cost is not None),
            [key for bill in bills for key in bill.requests],
        )


def most_usd(model: ModelRef, messages: Sequence[Message], max_tokens: int) -> float | None:
    """What a call may cost at most, in dollars; None if the price is unknown."""
    price = abilities(model.model).price
    if price is None:
        return None
    size = sum(len(message["content"].encode()) for message in messages)
    return size / _BYTES_PER_TOKEN * price[0] + max_tokens * price[1]


def cost_usd(model: ModelRef, reply: Reply) -> float | None:
    """What a reply cost in dollars, at the price of the model that was asked; None if that or its length is unknown."""
    price = abilities(model.model).price
    if price is None or reply.tokens_in is None or reply.tokens_out is None:
        return None
    return reply.tokens_in * price[0] + reply.tokens_out * price[1]


class Spending:
    """The calls and the dollars of one run, within its limits."""

    def __init__(self, ledger: AsyncLedger, access: Access, limits: CallLimits) -> None:
        self._ledger, self._stopped = ledger, access.stopped
        self._budget = Budget(access.run, limits.max_calls, limits.max_cost_usd)
        # Calls that may cost this much or more were refused for good.
        self._too_dear, self._used_up = math.inf, ""
        self.total = Bill()

    def check(self, most: float | None) -> None:
        """Whether a call that may cost `most` dollars can still be made.

        Raises:
            BudgetUsedUp: one that may cost as much or less was refused for good, or the run was cancelled.
        """
        if self._stopped is not None and self._stopped():
            raise BudgetUsedUp("not asked, since the run was cancelled")
        if (most or 0.0) >= self._too_dear:
            raise BudgetUsedUp(self._used_up)

    async def permit(
        self, call: Mapping[str, Any], most: float | None, bill: Bill, seconds_left: Callable[[], float]
    ) -> str:
        """Write a call down and count it, as soon as the budget allows it; return its id.

        Args:
            call: see `Ledger.start`.
            most: the dollars that it may cost at most; None: unknown.
            bill: that of its question.
            seconds_left: how long it may wait for calls that come in cheaper than they might.

        Raises:
            BudgetUsedUp: the budget does not allow it.
            LedgerError: the ledger cannot be used.
        """
        while True:
            permit, call_id = await self._ledger.start(self._budget, call, most)
            if permit == "go":
                for one in (bill, self.total):
                    one.calls += 1
                return call_id
            if permit == "wait" and seconds_left() > 0:
                await asyncio.sleep(_POLL_S)
                continue
            self._used_up = _used_up(self._budget, permit)
            if permit != "wait":
                self._too_dear = min(self._too_dear, (most or 0.0) if permit == "max_cost" else 0.0)
            raise BudgetUsedUp(self._used_up)

    async def end(
        self, call_id: str, status: CallStatus, most: float | None, bill: Bill, model: ModelRef, reply: Reply | None,
        result: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Write down how a call ended and what it cost.

        Args:
            most: as `permit` had it.
            bill: that of its question.
            model: the one that was asked.
            reply: what came back, which is recorded and counted whatever becomes of it.
            result: further columns of `calls`.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        paid = {}
        if reply is not None:
            cost = cost_usd(model, reply)
            for one in (bill, self.total):
                one.add(reply, cost)
            paid = _paid(reply, cost)
        await self._ledger.finish(self._budget, call_id, status, most, {**paid, **result})


def _paid(reply: Reply, cost: float | None) -> dict[str, Any]:
    """The columns of the ledger for what came back."""
    return {
        "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "cost_usd": cost,
        "model": reply.model, "fingerprint": reply.fingerprint, "finish_reason": reply.finish_reason,
        "reply": reply.text,
    }  # fmt: skip


def _used_up(budget: Budget, permit: str) -> str:
    if permit == "max_calls":
        return f"budget used up: {budget.max_calls:,} calls (max_calls)"
    return f"budget used up: ${budget.max_cost_usd:g} (max_cost)"
