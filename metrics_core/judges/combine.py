"""Judges over judges: several that vote together, repeats of one judge, and one that stands in for others.

None of them knows what is asked: `Ask` puts the question to a model and reads its reply.
`judges.cascade` has one more, which decides about many samples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.votes import FALLBACK_VOTED, Vote
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Failed, Scored, Skipped

Ask = Callable[[ModelRef, int], Awaitable[Vote]]
"""Asks a model about a sample, in one of its repeats."""


class Judge(Protocol):
    """Whoever votes on a sample."""

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """The votes, in an order that is always the same; `lost` are those of judges that failed."""


@dataclass(frozen=True, slots=True)
class Single:
    """A language model, which has one vote."""

    model: ModelRef

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """Its vote."""
        return [await ask(self.model, repeat)]


@dataclass(frozen=True, slots=True)
class Jury:
    """Judges that vote at the same time, each by itself."""

    judges: Sequence[Judge]

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """The votes of the first judge, then those of the next."""
        by_judge = await every(*(judge.votes(ask, repeat) for judge in self.judges))
        return [vote for votes in by_judge for vote in votes]


@dataclass(frozen=True, slots=True)
class Repeats:
    """A judge that is asked several times; its repeats are numbered, so each is another question."""

    judge: Judge
    n: int

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """All votes of one judge, then those of the next."""
        by_repeat = await every(*(self.judge.votes(ask, number) for number in range(self.n)))
        return [vote for of_judge in zip(*by_repeat, strict=True) for vote in of_judge]


@dataclass(frozen=True, slots=True)
class Fallback:
    """A judge with one vote that stands in for the first of several judges that failed.

    It has one vote only, since the ledger keeps one reply of a model to a question: the others that
    failed stay `lost`, so that the fallback of this judge may vote for one of them.
    """

    first: Judge
    then: Judge

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """The votes of the first judges, one of them replaced where some were lost."""
        votes = await self.first.votes(ask, repeat)
        lost = [index for index, vote in enumerate(votes) if vote.lost]
        if not lost:
            return votes
        [stand_in] = await self.then.votes(ask, repeat)
        absent = votes[lost[0]]
        bill = Bill.total([absent.bill, stand_in.bill])

        # Where both failed, the reason names both
        if stand_in.lost:
            why = f"; {stand_in.judge}: {stand_in.outcome.reason}"
            outcome: Failed | Skipped = Skipped(f"{absent.outcome.reason}{why}")
            if isinstance(absent.outcome, Failed):
                outcome = Failed(absent.outcome.code, f"{absent.outcome.message}{why}", bill.calls)
            votes[lost[0]] = replace(absent, outcome=outcome, bill=bill)
            return votes

        votes[lost[0]] = replace(stand_in, stands_in=True, bill=bill)
        of_others = FALLBACK_VOTED if isinstance(stand_in.outcome, Scored) else stand_in.outcome
        for index in lost[1:]:
            votes[index] = replace(votes[index], judge=stand_in.judge, outcome=of_others)
        return votes


def composed(options: JudgeOptions, api_key: str | None) -> Judge:
    """The judge that options describe: repeats of a jury with its fallbacks.

    Raises:
        UserError: a judge is named twice; a model name, an address or the key is malformed.

    >>> judge = composed(JudgeOptions(judges=["openai/m"], fallbacks=["openai/n"]), None)
    >>> judge.first.model.label, judge.then.model.label
    ('openai/m', 'openai/n')
    """
    named = [Single(model) for model in options.models(api_key)]
    judge: Judge = named[0] if len(named) == 1 else Jury(named)
    for model in options.fallback_models(api_key):
        judge = Fallback(judge, Single(model))
    return judge if options.repeats == 1 else Repeats(judge, options.repeats)
