"""One question to one judge while it is asked: whose turn it is, what it costs, what was heard, and how it can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from answerkey.metrics_core.llm.litellm import CallError, Reply
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.reply import Unreadable
from answerkey.metrics_core.llm.request import Message, Request
from answerkey.metrics_core.llm.terms import Offer

T = TypeVar("T")


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

    def add(self, reply: Reply | None) -> None:
        """A reply, where one came back."""
        if reply is None:
            return
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
    """One request while it is being asked; `kind`, `offer`, `max_tokens` and `messages` change from turn to turn."""

    judge: ModelRef
    request: Request
    bill: Bill
    messages: tuple[Message, ...]
    max_tokens: int
    kind: str = "ask"
    offer: Offer = field(default_factory=lambda: Offer("text"))
    attempt: int = 0
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Heard(Generic[T]):
    """A reply, and what it says or why it cannot be read."""

    reply: Reply
    value: T | None
    problem: Unreadable | None


def heard(reply: Reply, read: Callable[[str], T], *, plain: bool = False) -> Heard[T]:
    """What `read` makes of a reply; `plain`: of one that is any text, which may end wherever its room did.

    Raises:
        CallError: there is nothing to read.
    """
    if reply.finish_reason == "content_filter":
        raise CallError("permanent", "content_filter", "the provider's filter stopped the reply")
    if not reply.text.strip() and reply.finish_reason != "length":
        raise CallError("trouble", "empty_reply", "the reply is empty")
    try:
        value = read(reply.text)
        if not plain and reply.finish_reason == "length" and reply.text.rpartition("}")[2].strip("` \n"):
            # What was cut off may have been the verdict, and what was read a quotation.
            raise Unreadable("truncated", "the reply went on after its JSON object and was cut off")
    except Unreadable as problem:
        return Heard(reply, None, problem)
    return Heard(reply, value, None)


def paid(reply: Reply | None) -> dict[str, Any]:
    """The columns of the ledger for what came back, which is written down and counted whatever becomes of it."""
    if reply is None:
        return {}
    return {
        "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "cost_usd": reply.cost_usd,
        "model": reply.model, "fingerprint": reply.fingerprint, "finish_reason": reply.finish_reason,
        "reply": reply.text,
    }  # fmt: skip
