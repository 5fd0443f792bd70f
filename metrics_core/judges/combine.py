"""Judges over judges: models that vote together, repeats of a judge, and a model that stands in for others.

None of them knows what is asked: `Ask` puts the question to a model and reads its reply.
`judges.cascade` has one more, which decides about many samples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.votes import FALLBACK_VOTED, Vote
from answerkey.metrics_core.llm.budget import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Failed, Scored, Skipped

Ask = Callable[[ModelRef, int], Awaitable[Vote]]
"""Asks a model about a sample, in one of its repeats."""


@dataclass(frozen=True, slots=True)
class Jury:
    """Language models that vote at the same time, each by itself."""

    models: Sequence[ModelRef]

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """A vote of each model."""
        return await every(*(ask(model, repeat) for model in self.models))


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
    """A language model that stands in for the first of several judges that failed.

    It has one vote, since the ledger keeps one reply of a model to a question: the others that
    failed stay `lost`, so that the fallback of this judge may vote for one of them.
    """

    first: Judge
    then: ModelRef

    async def votes(self, ask: Ask, repeat: int = 0) -> list[Vote]:
        """The votes of the first judges, one of them replaced where some were lost."""
        votes = await self.first.votes(ask, repeat)
        lost = [index for index, vote in enumerate(votes) if vote.lost]
        if not lost:
            return votes
        stand_in = await ask(self.then, repeat)
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


Judge = Jury | Repeats | Fallback
"""Whoever votes on a sample: in an order that is always the same; `lost` are the votes of judges that failed."""


def composed(options: JudgeOptions, api_key: str | None) -> Judge:
    """The judge that options describe: repeats of a jury with its fallbacks.

    Raises:
        UserError: a judge is named twice; a model name, an address or the key is malformed.

    >>> judge = composed(JudgeOptions(judges=["openai/m"], fallbacks=["openai/n"]), None)
    >>> judge.first.models[0].label, judge.then.label
    ('openai/m', 'openai/n')
    """
    judge: Judge = Jury(options.models(api_key))
    for model in options.fallback_models(api_key):
        judge = Fallback(judge, model)
    return judge if options.repeats == 1 else Repeats(judge, options.repeats)
