"""What calls cost: the most that one may cost, whether what a server says of it can be true, and the sums."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger import Permit
from answerkey.metrics_core.llm.request import Reply

REFUSAL = "refusal"
"""In the ledger, the reason for the end of a reply in which the model declines in a field of its own."""
_LETTERS = re.compile(rb"[a-z]{2,}")
"""Two letters in a row are a token at most, where they are no word. Any other byte may be one, as a digit is."""
_TEMPLATE = 1_000
"""Tokens that a server may add to what it is sent."""
_BYTES_PER_TOKEN = 10
"""Of a text as it is sent to models; seldom more than 5. With more, the server's count is too small to be true."""


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

    @classmethod
    def total(cls, bills: Sequence[Bill]) -> Bill:
        """The sum; its cost is unknown if one is."""
        total = cls()
        for bill in bills:
            total.add(bill)
        return total

    def add(self, other: Bill) -> None:
        """Add what another sample, or a call, has cost."""
        self.calls += other.calls
        self.tokens_in += other.tokens_in
        self.tokens_out += other.tokens_out
        self.requests += other.requests
        if self.cost_usd is None or other.cost_usd is None:
            self.cost_usd = None
        else:
            self.cost_usd += other.cost_usd


@lru_cache(maxsize=256)
def most_tokens(text: str) -> int:
    """Tokens that a text may be at most, by any tokenizer.

    >>> most_tokens("word"), most_tokens("1 2"), most_tokens("ሰላም")
    (2, 3, 9)
    """
    data = text.encode()
    return len(data) - sum(len(letters) // 2 for letters in _LETTERS.findall(data))


def credible(reply: Reply, size: int) -> bool:
    """Whether the server's count of tokens can be true, for messages of so many characters.

    >>> credible(Reply("Yes.", "stop", 10, 2, "m", ""), 40), credible(Reply("Yes.", "stop", 1, 0, "m", ""), 40)
    (True, False)
    """
    if not reply.tokens_in or reply.tokens_out is None:
        return False
    # Hardly a token is less than a byte; a template for chats adds some.
    least_in = size // _BYTES_PER_TOKEN
    least_out = max(len(reply.text) // _BYTES_PER_TOKEN, bool(reply.text))
    return least_in <= reply.tokens_in <= 4 * size + _TEMPLATE and reply.tokens_out >= least_out


def used_up(limits: CallLimits, permit: Permit) -> str:
    """Which limit forbids a call, for people.

    >>> used_up(CallLimits(max_calls=1_000), "max_calls")
    'budget used up: 1,000 calls (max_calls)'
    """
    texts = {
        "max_calls": limits.max_calls is not None and f"{limits.max_calls:,} calls (max_calls)",
        "max_cost": limits.max_cost_usd is not None and f"${limits.max_cost_usd:g} (max_cost)",
        "max_cost_total": limits.max_cost_total_usd is not None
        and f"${limits.max_cost_total_usd:g} a month for all runs together (max_cost_total)",
    }
    # The ledger does not say which of them a call has waited for in vain.
    reasons = [texts[permit]] if permit in texts else filter(None, texts.values())
    return f"budget used up: {' or '.join(map(str, reasons))}"
