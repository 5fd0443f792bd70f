"""What a run spends on models: the most that a call may cost, leave to make it, and what it did cost at its end."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.async_ledger import AsyncLedger
from answerkey.metrics_core.llm.ledger import MAY_BE_PAID, UNSENT, BatchedCall, Budget, CallStatus
from answerkey.metrics_core.llm.litellm import abilities
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Message
from answerkey.metrics_core.llm.transport import Reply

_POLL_S = 0.1

_BYTES_PER_TOKEN = 2.0
"""Low, so that the upper bound of what a call may cost is too high rather than too low. Bytes, since one character of
Chinese can be more than one token."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
"""Two of them are a token at most, where they are no words. Any other byte may be one, as a digit between blanks is."""

_TEMPLATE = 1_000
"""Tokens that a server may add to what it is sent."""

_log = logging.getLogger("answerkey")


class BudgetUsedUp(Exception):
    """The model was not asked, because the run has spent what it may spend or was cancelled, or the question waits in a
    batch already."""


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

    def add(self, reply: Reply | None, cost: float | None) -> None:
        """What came back, if anything did, and what it cost in dollars."""
        if reply is not None:
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


@dataclass(frozen=True, slots=True)
class Purchase:
    """A call before it is made.

    Args:
        model: the one that is asked.
        prompt: its name; replies to one prompt are about equally long.
        size: bytes of its messages.
        max_tokens: that the reply may have.
        longer: whether it is made because the reply before was cut off.
        in_batch: whether it goes in a batch, which has prices of its own.
        varied: those of the bytes that are not instructions, and so differ from call to call.
        most_varied: tokens that these may be at most.

    >>> Purchase.of(ModelRef("openai/m"), "p@1", [{"role": "user", "content": "Hi"}], max_tokens=5).size
    2
    """

    model: ModelRef
    prompt: str
    size: int
    max_tokens: int
    longer: bool = False
    in_batch: bool = False
    varied: int = 0
    most_varied: float = 0.0

    @classmethod
    def of(
        cls, model: ModelRef, prompt: str, messages: Sequence[Message], max_tokens: int, *, longer: bool = False
    ) -> Purchase:
        """That of these messages."""
        size = varied = 0
        most_varied = 0.0
        for message in messages:
            content = message["content"]
            if message["role"] == "system":
                size += _bytes(content)
                continue
            bytes_ = content.encode()
            size, varied = size + len(bytes_), varied + len(bytes_)
            most_varied += (len(bytes_) + len(bytes_.translate(None, _LETTERS))) / 2
        return cls(model, prompt, size, max_tokens, longer, varied=varied, most_varied=most_varied)

    def most_usd(self) -> float | None:
        """What it may cost at most, in dollars, by the replies so far; None if the price is unknown."""
        price = abilities(self.model.model).prices(in_batch=self.in_batch)
        if price is None:
            return None
        seen = _lengths.get((self.model.label, self.prompt), _Lengths())
        tokens_in, tokens_out = seen.most(self)
        return tokens_in * price[0] + tokens_out * price[2]

    def cost_usd(self, reply: Reply) -> float | None:
        """What a reply cost, in dollars, at the price of the model that was asked.

        None if that is unknown, or the number of tokens: a server may leave it out, or say what cannot be.
        """
        price = abilities(self.model.model).prices(in_batch=self.in_batch)
        if price is None or not self._believable(reply):
            return None
        tokens_in, tokens_out = reply.tokens_in or 0, reply.tokens_out or 0
        cached = min(reply.cached_tokens or 0, tokens_in)
        return (tokens_in - cached) * price[0] + cached * price[1] + tokens_out * price[2]

    def learn(self, reply: Reply) -> None:
        """How long a reply was, for later calls."""
        if self._believable(reply):
            _lengths.setdefault((self.model.label, self.prompt), _Lengths()).add(
                self.size, reply.tokens_in or 0, reply.tokens_out or 0
            )

    def _believable(self, reply: Reply) -> bool:
        if not reply.tokens_in or reply.tokens_out is None:
            return False
        # Hardly a token is less than a byte; a template for chats adds some.
        return reply.tokens_in <= 2 * self.size + _TEMPLATE and bool(reply.tokens_out or not reply.text)


@lru_cache(maxsize=32)
def _bytes(text: str) -> int:
    """Of instructions, which are long, and the same in most calls of a run."""
    return len(text.encode())


@dataclass(slots=True)
class _Lengths:
    """How many tokens calls with one prompt had, at most: for each byte that was sent, and in the replies."""

    n: int = 0
    in_per_byte: float = 0.0
    out: int = 0

    def add(self, size: int, tokens_in: int, tokens_out: int) -> None:
        self.n += 1
        self.in_per_byte, self.out = max(self.in_per_byte, tokens_in / max(size, 1)), max(self.out, tokens_out)

    def most(self, call: Purchase) -> tuple[float, float]:
        """For one more call, with a margin that shrinks as more replies are known."""
        if not self.n:
            return (call.size - call.varied) / _BYTES_PER_TOKEN + call.most_varied, call.max_tokens
        margin = 1.0 + 1.0 / math.sqrt(self.n)
        per_byte = self.in_per_byte * margin
        # Texts in English say nothing of how many tokens there are in one of digits, or in Amharic.
        tokens_in = max(call.size * per_byte, (call.size - call.varied) * per_byte + call.most_varied)
        # A server that does not keep to `max_tokens` goes on like that.
        expected = call.max_tokens if call.longer else min(self.out * margin, max(call.max_tokens, self.out))
        return tokens_in, expected


_lengths: dict[tuple[str, str], _Lengths] = {}
"""Of each model and prompt, as this process has learned, and the ledgers before it."""


class Spending:
    """The calls and the dollars of one run, within its limits."""

    def __init__(self, ledger: AsyncLedger, access: Access, limits: CallLimits) -> None:
        self._ledger, self._stopped = ledger, access.stopped
        self._budget = Budget(access.run, limits.max_calls, limits.max_cost_usd, limits.max_cost_total_usd)
        # Calls that may cost this much or more were refused for good.
        self._too_dear, self._used_up = math.inf, ""
        self._silent: set[ModelRef] = set()
        self._recalled: set[tuple[str, str]] = set()
        self._recalling = asyncio.Lock()
        # Calls that were left in a batch, and count until it is known that they were not worked on.
        self._adopted: set[str] = set()
        # Calls on their own: how many are in flight, and how many were given back, as their server was not reached.
        self._in_flight = self._n_given_back = 0
        self.total = Bill()

    def check(self, purchase: Purchase | None = None) -> None:
        """Whether anything can still be bought, or this.

        Raises:
            BudgetUsedUp: one that may cost as much or less was refused for good, or the run was cancelled.
        """
        if self._stopped is not None and self._stopped():
            raise BudgetUsedUp("not asked, since the run was cancelled")
        most = purchase.most_usd() if purchase and self._too_dear < math.inf else 0.0
        if (most or 0.0) >= self._too_dear:
            raise BudgetUsedUp(self._used_up)

    async def permit(
        self, call: Mapping[str, Any], purchase: Purchase, bill: Bill, seconds_left: Callable[[], float]
    ) -> tuple[str, float | None]:
        """Write a call down and count it, as soon as the budget allows it.

        Returns its id, and the dollars that are reserved for it; None: its price is unknown.

        Args:
            call: see `Ledger.start`.
            purchase: what is bought with it.
            bill: that of its question.
            seconds_left: how long it may wait for calls that come in cheaper than they might.

        Raises:
            BudgetUsedUp: the budget does not allow it, or the run was cancelled meanwhile.
            LedgerError: the ledger cannot be used.
        """
        await self._recall(purchase)
        while True:
            # Anew each time: those that came in meanwhile say more about how long replies are.
            self.check(purchase)
            most, given_back = purchase.most_usd(), self._n_given_back
            permit, call_id = await self._ledger.start(self._budget, call, most)
            if permit == "go":
                for one in (bill, self.total):
                    one.calls += 1
                self._in_flight += not purchase.in_batch
                return call_id, most
            if permit == "max_calls" and await self._is_given_back(given_back, seconds_left):
                continue
            waits = permit == "wait" or (permit == "max_calls" and bool(self._adopted))
            if waits and seconds_left() > 0:
                await asyncio.sleep(_POLL_S)
                continue
            self._used_up = _used_up(self._budget, permit)
            if not waits:
                self._too_dear = min(self._too_dear, 0.0 if permit == "max_calls" else most or 0.0)
            raise BudgetUsedUp(self._used_up)

    async def _is_given_back(self, before: int, seconds_left: Callable[[], float]) -> bool:
        """Whether one of the calls that used up `max_calls` is given back, once it is known whether they were sent."""
        while self._n_given_back == before and self._in_flight and seconds_left() > 0:
            await asyncio.sleep(_POLL_S)
        return self._n_given_back > before

    async def _recall(self, purchase: Purchase) -> None:
        """Learn from the ledger how long such calls are, where this process has made none yet."""
        place = purchase.model.label, purchase.prompt
        if place in self._recalled:
            return
        async with self._recalling:
            if place not in self._recalled and place not in _lengths:
                for size, tokens_in, tokens_out in await self._ledger.lengths(*place):
                    replace(purchase, size=size).learn(Reply("?", "stop", tokens_in, tokens_out, "", ""))
            self._recalled.add(place)

    async def adopt(self, key: str, bill: Bill) -> BatchedCall | None:
        """The call for a claimed request that was left in a batch, counted as one of this run; None: there is none.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        found = await self._ledger.adopt(key, self._budget.run)
        if found is not None:
            self._adopted.add(found.call_id)
            for one in (bill, self.total):
                one.calls += 1
        return found

    def leave(self, call_id: str) -> None:
        """A call that was left in a batch stays there: nobody need wait for what becomes of it."""
        self._adopted.discard(call_id)

    async def end(
        self, call_id: str, status: CallStatus, most: float | None, bill: Bill, purchase: Purchase, reply: Reply | None,
        result: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Write down how a call ended and what it cost: what was reserved for it, where the server does not say.

        Args:
            most: as `permit` gave it.
            bill: that of its question.
            purchase: as `permit` had it.
            reply: what came back, which is recorded and counted whatever becomes of it.
            result: further columns of `calls`.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        paid: dict[str, Any] = {}
        if reply is not None or result.get("code") in MAY_BE_PAID:
            cost = self._cost(purchase, reply, most)
            for one in (bill, self.total):
                one.add(reply, cost)
            paid = {**_columns(reply), "cost_usd": cost}
        unsent = result.get("code") == UNSENT
        if unsent:
            for one in (bill, self.total):
                one.calls -= 1
        try:
            await self._ledger.finish(self._budget, call_id, status, most, {**paid, **result})
        finally:
            self._in_flight -= not purchase.in_batch
        self._n_given_back += unsent
        self._adopted.discard(call_id)

    def _cost(self, purchase: Purchase, reply: Reply | None, most: float | None) -> float | None:
        if reply is None:
            return most
        cost = purchase.cost_usd(reply)
        if cost is not None:
            purchase.learn(reply)
            return cost
        if most is not None and purchase.model not in self._silent:
            self._silent.add(purchase.model)
            _log.warning(
                f"{purchase.model.label} does not say how many tokens a call had, or not believably: it is counted at "
                "the most that it may cost"
            )
        return most


def _columns(reply: Reply | None) -> dict[str, Any]:
    """The columns of the ledger for what came back."""
    if reply is None:
        return {}
    return {
        "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "model": reply.model,
        "fingerprint": reply.fingerprint, "finish_reason": reply.finish_reason, "reply": reply.text,
    }  # fmt: skip


def _used_up(budget: Budget, permit: str) -> str:
    if permit == "max_calls":
        return f"budget used up: {budget.max_calls:,} calls (max_calls)"
    of_run = f"${budget.max_cost_usd:g} (max_cost)" if budget.max_cost_usd is not None else ""
    of_month = ""
    if budget.max_cost_total_usd is not None:
        of_month = f"${budget.max_cost_total_usd:g} a month for all runs together (max_cost_total)"
    # Which of the two a call has waited for in vain, its ledger does not say.
    told = {"max_cost": [of_run], "max_cost_total": [of_month]}.get(permit, [of_run, of_month])
    return f"budget used up: {' or '.join(filter(None, told))}"
