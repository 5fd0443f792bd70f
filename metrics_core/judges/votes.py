"""Votes of several judges, or repeats of one: asked for, with fallbacks that stand in, and made one outcome.

Ties and missing votes are never hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean
from typing import Any, Literal

from answerkey.metrics_core.judges.options import Jury
from answerkey.metrics_core.llm.cost import Bill
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.response import every
from answerkey.metrics_core.measurement import Failed, Outcome, Scored, Skipped, Undefined

SPREAD = "spread"
"""The field beside a jury's scores: its highest vote less its lowest."""
OUT_OF_DEPTH = "out_of_depth"
"""In the details: why the offline judge should not be trusted on this sample."""
DECIDED_BY = "decided_by"
"""In the details of a cascade: `offline`, `judge`, or, of an answer of its trial, `cascade.SAME` or `cascade.OTHER`."""

ANSWERED_BY = "answered_by"
"""In the details: the fallback judges that voted in the place of named ones which had failed, with ", " between."""

MatchVerdict = Literal["match", "mismatch", "partial", "hedged", "multiple_alternatives", "refusal"]
"""Of a language model or of the offline judge; only `match` scores 1."""

ORDER_DECIDED = "order_decided"
"""The code of a failure: the verdict on two answers changed with the order in which they were shown."""
SHOWN_FIRST = "the answer shown first was preferred in both orders"
SHOWN_SECOND = "the answer shown second was preferred in both orders"
"""What happened then. Otherwise it was a tie in one order only."""

FALLBACK_VOTED = Failed("fallback_voted", "the fallback has given its vote for another judge")
"""In the place of a judge for which no fallback was left: the ledger keeps one reply per model and repeat."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of one judge, in one of its repeats.

    Attributes:
        bill: what it cost, with that of a judge whose place it takes.
        lost: whether the judge failed for good, so that a fallback may vote in its place.
        stands_in: whether it is the vote of a fallback.

    >>> Vote("openai/m", 0, Skipped("budget used up")).as_row("match")
    {'judge': 'openai/m', 'repeat': 0, 'vote': None, 'reason': 'budget used up'}
    """

    judge: str
    repeat: int
    outcome: Outcome
    bill: Bill = field(default_factory=Bill)
    lost: bool = False
    stands_in: bool = False

    def as_row(self, main: str) -> dict[str, Any]:
        """For the details of the measurement."""
        vote = self.outcome.values[main] if isinstance(self.outcome, Scored) else None
        return {"judge": self.judge, "repeat": self.repeat, "vote": vote, "reason": self.outcome.reason}


Ask = Callable[[ModelRef, int], Awaitable[Vote]]
"""Asks a model about a sample, in one of its repeats."""


async def votes_of(ask: Ask, judges: Sequence[ModelRef], fallbacks: Sequence[ModelRef], repeats: int) -> list[Vote]:
    """All votes of the first judge, then those of the next; each repeat is a question of its own."""

    async def of_repeat(repeat: int) -> list[Vote]:
        # Each fallback in turn votes for a judge that failed for good
        votes = await every(*(ask(judge, repeat) for judge in judges))
        for fallback in fallbacks:
            lost = [index for index, vote in enumerate(votes) if vote.lost]
            if not lost:
                break
            stand_in = await ask(fallback, repeat)
            absent = votes[lost[0]]
            bill = Bill.total([absent.bill, stand_in.bill])

            # Where both failed, the reason names both
            if stand_in.lost:
                reason = f"; {stand_in.judge}: {stand_in.outcome.reason}"
                outcome: Failed | Skipped = Skipped(f"{absent.outcome.reason}{reason}")
                if isinstance(absent.outcome, Failed):
                    outcome = Failed(absent.outcome.code, f"{absent.outcome.message}{reason}", bill.calls)
                votes[lost[0]] = replace(absent, outcome=outcome, bill=bill)
                continue

            # It has one vote, since the ledger keeps one reply of a model to a question: the others
            # that failed stay lost, so that the next fallback may vote for one of them
            votes[lost[0]] = replace(stand_in, stands_in=True, bill=bill)
            outcome_of_others = FALLBACK_VOTED if isinstance(stand_in.outcome, Scored) else stand_in.outcome
            for index in lost[1:]:
                votes[index] = replace(votes[index], judge=stand_in.judge, outcome=outcome_of_others)
        return votes

    by_repeat = await every(*map(of_repeat, range(repeats)))
    return list(chain.from_iterable(zip(*by_repeat, strict=True)))


def combine(votes: Sequence[Vote], jury: Jury, main: str, *, binary: bool) -> Outcome:
    """The outcome of all votes, decided on the field `main` (of range 0 to 1).

    A single vote is the outcome. Otherwise the values are those of the vote that decided, or means where several
    did, beside `SPREAD`; the details are those of a vote that decided, and all votes. Missing votes matter only
    where they could change the outcome: then it is `Failed` with code `missing_votes`. An even split of yes and no
    is `Failed` with code `tie`.

    >>> yes, no = Scored({"match": 1.0}, "the same"), Scored({"match": 0.0}, "another city")
    >>> votes = [Vote("openai/m", repeat, outcome) for repeat, outcome in enumerate((yes, no, yes))]
    >>> combine(votes, "majority", "match", binary=True).values
    {'match': 1.0, 'spread': 1.0}
    """
    if len(votes) == 1:
        return votes[0].outcome
    outcomes = [vote.outcome for vote in votes]
    if skipped := [outcome for outcome in outcomes if isinstance(outcome, Skipped)]:
        return skipped[0]
    if all(isinstance(outcome, Undefined) for outcome in outcomes):
        return outcomes[0]
    scored = [outcome for outcome in outcomes if isinstance(outcome, Scored)]
    scored.sort(key=lambda outcome: outcome.values[main])
    attempts = sum(getattr(outcome, "attempts", 1) for outcome in outcomes)

    # Votes that are missing matter where they could change the outcome
    deciding = _deciding(scored, len(votes), jury, main)
    if deciding is None:
        absent = [vote for vote in votes if not isinstance(vote.outcome, Scored)]
        first_missing = f"{absent[0].judge}: {absent[0].outcome.reason}"
        return Failed("missing_votes", f"{len(absent)} of {len(votes)} votes are missing; {first_missing}", attempts)

    # The mean of those that decide
    values = {}
    for name in deciding[0].values:
        values[name] = fmean(outcome.values[name] for outcome in deciding)
    ballots = [outcome.values[main] for outcome in scored]
    if jury == "majority" and binary and 0.0 < values[main] < 1.0:
        return Failed("tie", f"{ballots.count(1.0)} of {len(votes)} votes are yes", attempts)
    values[SPREAD] = ballots[-1] - ballots[0]
    # The vote nearest to the outcome speaks for it.
    voice = min(deciding, key=lambda outcome: abs(outcome.values[main] - values[main]))
    details = {**voice.details, "jury": jury, "votes": [vote.as_row(main) for vote in votes]}
    return Scored(values, f"{jury} of {len(votes)} votes: {voice.reason}", details)


def _deciding(scored: Sequence[Scored], votes: int, jury: Jury, main: str) -> Sequence[Scored] | None:
    """The votes, sorted, that the outcome rests on; None if the missing ones could change it."""
    missing = votes - len(scored)
    if jury == "unanimous":
        is_lowest = scored and scored[0].values[main] == 0.0
        return scored[:1] if is_lowest or not missing else None
    if jury == "mean":
        return None if missing else scored
    low = (votes - 1) // 2
    high = votes // 2
    if not missing:
        return scored[low : high + 1]
    # Were all missing votes the highest, the middle would be here; were they the lowest, `missing` further down.
    if low < missing or high >= len(scored):
        return None
    middle_votes = [scored[low], scored[high], scored[low - missing], scored[high - missing]]
    return middle_votes[:1] if len({outcome.values[main] for outcome in middle_votes}) == 1 else None
