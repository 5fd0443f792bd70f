"""What a run would ask and cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from metrics_core.judge.ledger import FILE, Ledger
from metrics_core.judge.request import Judge, Request
from metrics_core.judge.transport import abilities, count_tokens
from metrics_core.sample import Sample

if TYPE_CHECKING:
    from metrics_core.judge.panel import JudgeMetric

Replies = Callable[[str], str | None]
"""The usable reply to a request, by its key, where the ledger has one."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A call that will be made unless the ledger has the reply. `tokens_out` is a guess.

    `exact` is False where the request depends on a reply that is not there yet; then it stands for one that is
    about as long.
    """

    judge: Judge
    request: Request
    tokens_out: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one metric would cost. `cost_usd` is None where a price is not known.

    `calls` is exact where no call fails and every reply can be read at once. Tokens are those of the tokenizer that
    litellm has for the model; of the replies they are guessed.
    """

    metric: str
    samples: int
    calls: int
    in_ledger: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


def estimate(metric: JudgeMetric, samples: Iterable[Sample]) -> Estimate:
    """Foresee what `metric.measure(samples)` would ask. Nothing is asked, and no ledger is made.

    Raises:
        BadInput: no judge is named, or litellm does not know its provider.
        LedgerError: the ledger cannot be read.
    """
    folder = Path(metric.options.ledger) if metric.options.ledger else None
    ledger = Ledger(folder) if folder and (folder / FILE).exists() else None
    try:
        return _estimate(metric, samples, ledger.reply if ledger else lambda _key: None)
    finally:
        if ledger:
            ledger.close()


def _estimate(metric: JudgeMetric, samples: Iterable[Sample], replies: Replies) -> Estimate:
    seen: set[str] = set()
    n_samples = known = tokens_in = tokens_out = 0
    cost: float | None = 0.0
    seats = metric.options.seats()
    for sample in samples:
        n_samples += 1
        if metric.without_judge(sample) is not None:
            continue
        for judge, repeat in seats:
            for call in metric.foresee(sample, judge, repeat, replies):
                key = call.request.key
                if key in seen:
                    continue
                seen.add(key)
                if call.exact and replies(key) is not None:
                    known += 1
                    continue
                asked = _prompt_tokens(judge, call.request.system) + count_tokens(judge, call.request.user)
                tokens_in, tokens_out = tokens_in + asked, tokens_out + call.tokens_out
                cost = _plus(cost, judge, asked, call.tokens_out)
    return Estimate(metric.name, n_samples, len(seen) - known, known, tokens_in, tokens_out, cost)


# Prompts are long and few.
_prompt_tokens = lru_cache(maxsize=64)(count_tokens)


def _plus(cost: float | None, judge: Judge, tokens_in: int, tokens_out: int) -> float | None:
    price = abilities(judge.model).price
    if cost is None or price is None:
        return None
    return cost + tokens_in * price[0] + tokens_out * price[1]


def total(estimates: Sequence[Estimate]) -> float | None:
    """The dollars of all together; None where one is not known."""
    costs = [one.cost_usd for one in estimates]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
