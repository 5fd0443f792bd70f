"""What a run would ask and cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey.metrics_core.judges.details import DECIDED_BY
from answerkey.metrics_core.llm.ledger import FILE, Ledger
from answerkey.metrics_core.llm.litellm import abilities, count_tokens
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.request import Request
from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.sample import Sample

if TYPE_CHECKING:
    from answerkey.metrics_core.judges.judge_metric import JudgeMetric

_BATCH = 512
"""Samples looked at together: an embedding model likes company."""

Replies = Callable[[str], str | None]
"""The usable reply to a request, by its key, where the ledger has one."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A call that will be made unless the ledger has the reply. `tokens_out` is a guess.

    `exact` is False where the request depends on a reply that is not there yet; then it stands for one that is
    about as long.
    """

    judge: ModelRef
    request: Request
    tokens_out: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one metric would cost, or the answers of a model under test. `cost_usd` is None where a price is not known.

    `calls` is exact where no call fails and every reply can be read at once. Tokens are those of the tokenizer that
    litellm has for the model; of the replies they are guessed. `offline`: samples that the offline matcher decides.
    """

    metric: str
    samples: int
    calls: int
    in_ledger: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    offline: int = 0


def estimate(metric: JudgeMetric, samples: Iterable[Sample]) -> Estimate:
    """Foresee what `metric.measure(samples)` would ask. Nothing is asked, and no ledger is made.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    with known_replies(metric.access.ledger) as replies:
        return _estimate(metric, samples, replies)


@contextmanager
def known_replies(ledger: str | None) -> Iterator[Replies]:
    """The replies that the ledger in this folder has. Where there is none, none is made.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    folder = Path(ledger) if ledger else None
    opened = Ledger(folder) if folder and (folder / FILE).exists() else None
    try:
        yield opened.reply if opened else lambda _key: None
    finally:
        if opened:
            opened.close()


class ToCome:
    """Calls that will be made, each counted once, and what they come to."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._seen: set[str] = set()
        self._known = self._tokens_in = self._tokens_out = 0
        self._cost: float | None = 0.0

    def add(self, call: Foreseen) -> None:
        """One more call, unless it is one of those before."""
        key, request = call.request.key, call.request
        if key in self._seen:
            return
        self._seen.add(key)
        if call.exact and self._replies(key) is not None:
            self._known += 1
            return
        asked = _prompt_tokens(call.judge, request.system) + count_tokens(call.judge, request.user)
        self._tokens_in, self._tokens_out = self._tokens_in + asked, self._tokens_out + call.tokens_out
        self._cost = _plus(self._cost, call.judge, asked, call.tokens_out)

    def estimate(self, name: str, samples: int, offline: int = 0) -> Estimate:
        """All of them together, for this metric and so many samples."""
        spent = self._tokens_in, self._tokens_out, self._cost
        return Estimate(name, samples, len(self._seen) - self._known, self._known, *spent, offline)


def _estimate(metric: JudgeMetric, samples: Iterable[Sample], replies: Replies) -> Estimate:
    calls = ToCome(replies)
    n_samples = offline = 0
    seats = metric.judge.seats()
    for sample, decided in _with_known(metric, samples):
        n_samples += 1
        if decided is not None:
            offline += isinstance(decided, Scored) and DECIDED_BY in decided.details
            continue
        for judge, repeat in seats:
            for call in metric.foresee(sample, judge, repeat, replies):
                calls.add(call)
    return calls.estimate(metric.name, n_samples, offline)


def _with_known(metric: JudgeMetric, samples: Iterable[Sample]) -> Iterator[tuple[Sample, Outcome | None]]:
    """Every sample, and its outcome where nobody need be asked."""
    rest = iter(samples)
    while batch := list(islice(rest, _BATCH)):
        yield from zip(batch, metric.known(batch), strict=True)


# Prompts are long and few.
_prompt_tokens = lru_cache(maxsize=64)(count_tokens)


def _plus(cost: float | None, judge: ModelRef, tokens_in: int, tokens_out: int) -> float | None:
    price = abilities(judge.model).price
    if cost is None or price is None:
        return None
    return cost + tokens_in * price[0] + tokens_out * price[1]


def total(estimates: Sequence[Estimate]) -> float | None:
    """The dollars of all together; None where one is not known."""
    costs = [one.cost_usd for one in estimates]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
