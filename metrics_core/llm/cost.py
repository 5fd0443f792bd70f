"""What calls cost: the sums, the most that one may cost, whether what a server says can be true, and estimates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger import Permit
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import count_tokens, prices_of
from answerkey.metrics_core.llm.request import Reply, Request

REFUSAL = "refusal"
"""In the ledger, the reason for the end of a reply in which the model declines in a field of its own."""
_LETTERS = re.compile(rb"[a-z]{2,}")
"""Two letters in a row are a token at most, where they are no word. Any other byte may be one, as a digit is."""
_TEMPLATE = 1_000
"""Tokens that a server may add to what it is sent."""
_BYTES_PER_TOKEN = 10
"""Of a text as it is sent to models; seldom more than 5. With more, the server's count is too small to be true."""

Replies = Callable[[str], str | None]
"""The usable reply to a request, by its key, if the ledger has one."""


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


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that will be made unless the ledger has the reply. `tokens_out` is a guess.

    `exact` is False if the request depends on a reply that does not exist yet; then it stands for one of about the
    same length.
    """

    model: ModelRef
    request: Request
    tokens_out: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Cost:
    """What one metric, or the answers of a model, will cost. `cost_usd` is None if a price is unknown.

    `calls` is exact if no call fails and every reply can be read at once. Tokens are counted by the tokenizer that
    litellm has for the model; those of the replies are guessed. `offline`: samples that need no call if the trial of a
    cascade holds. `checks`: those of the calls that are not about samples, but check the judges.
    """

    metric: str
    samples: int
    calls: int
    in_ledger: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    offline: int = 0
    checks: int = 0


class CostCounter:
    """Adds up expected calls, each distinct request once.

    >>> counter = CostCounter(lambda key: "a reply that the ledger has")
    >>> counter.add(ExpectedCall(ModelRef("openai/m"), Request("openai/m", "p@1", "", "Hi", ""), tokens_out=5))
    >>> counter.cost("meaning_match", samples=1)  # doctest: +ELLIPSIS
    Cost(metric='meaning_match', samples=1, calls=0, in_ledger=1, tokens_in=0, tokens_out=0, cost_usd=0.0, ...)
    """

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._keys: set[str] = set()
        self._in_ledger = 0
        self._expected = Bill()

    @property
    def calls(self) -> int:
        """Calls that will be made."""
        return len(self._keys) - self._in_ledger

    def add(self, call: ExpectedCall, *, in_batch: bool = False) -> None:
        """Add a call, unless its request was added before."""
        request = call.request
        if request.key in self._keys:
            return
        self._keys.add(request.key)
        if call.exact and self._replies(request.key) is not None:
            self._in_ledger += 1
            return
        tokens_in = _prompt_tokens(call.model, request.system) + count_tokens(call.model, request.user)
        prices = prices_of(call.model, in_batch=in_batch)
        cost = None if prices is None else tokens_in * prices[0] + call.tokens_out * prices[2]
        self._expected.add(Bill(tokens_in=tokens_in, tokens_out=call.tokens_out, cost_usd=cost))

    def cost(self, name: str, samples: int, offline: int = 0, checks: int = 0) -> Cost:
        """The sum of all calls, for this metric and this many samples."""
        return Cost(
            metric=name,
            samples=samples,
            calls=self.calls,
            in_ledger=self._in_ledger,
            tokens_in=self._expected.tokens_in,
            tokens_out=self._expected.tokens_out,
            cost_usd=self._expected.cost_usd,
            offline=offline,
            checks=checks,
        )


# Prompts are long and few.
_prompt_tokens = lru_cache(maxsize=64)(count_tokens)


def total_usd(costs: Sequence[Cost]) -> float | None:
    """The dollars of all together; None if one is unknown.

    >>> total_usd([Cost("a", 1, 1, 0, 10, 5, 0.25), Cost("b", 1, 1, 0, 10, 5, 0.5)])
    0.75
    """
    return Bill.total([Bill(cost_usd=cost.cost_usd) for cost in costs]).cost_usd
