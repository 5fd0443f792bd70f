"""Estimated cost of calls, before any is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import count_tokens, prices_of
from answerkey.metrics_core.llm.request import Request

Replies = Callable[[str], str | None]
"""The usable reply to a request, by its key, if the ledger has one."""


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
