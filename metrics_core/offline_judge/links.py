"""Which facts of a reference and of an answer are the same, and which contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from answerkey.metrics_core.judges.fact_comparison import Comparison, compared
from answerkey.metrics_core.offline_judge.claims import Asked, Claim
from answerkey.metrics_core.offline_judge.matcher import Match, Pair
from answerkey.metrics_core.offline_judge.relations import nearness, relation, rivals

_MOST_ASKED = 3
"""Facts of the answer that the matcher is asked about for one of a reference: those with the most in common."""


@dataclass(slots=True)
class Links:
    """The facts of one reference against those of the answer, by position.

    `same` and `against` hold, for each fact of the reference, facts of the answer; `open` what the matcher must say.
    """

    question: Asked
    ours: Sequence[Claim]
    theirs: Sequence[Claim]
    same: list[set[int]] = field(default_factory=list)
    against: list[set[int]] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, question: Asked, ours: Sequence[Claim], theirs: Sequence[Claim]) -> Links:
        """What rules can say without the matcher."""
        links = cls(question, ours, theirs, [set() for _ in ours], [set() for _ in ours])
        unsure: dict[int, list[int]] = {}
        for i, j in product(range(len(ours)), range(len(theirs))):
            found = relation(ours[i], theirs[j], question)
            if found == "same":
                links.same[i].add(j)
            elif found == "against":
                links.against[i].add(j)
            elif found == "unsure":
                unsure.setdefault(i, []).append(j)
        taken = {j for chosen in links.same for j in chosen}
        for i, candidates in unsure.items():
            if not links.same[i]:
                free = [j for j in candidates if j not in taken]
                near = sorted(free, key=lambda j: (-nearness(ours[i], theirs[j]), j))
                links.open += [(i, j) for j in near[:_MOST_ASKED]]
        return links

    def pairs(self) -> list[Pair]:
        """What the matcher is asked: every open pair, both ways."""
        return [pair for i, j in self.open for pair in self._both_ways(i, j)]

    def _both_ways(self, i: int, j: int) -> tuple[Pair, Pair]:
        ours, theirs, question = self.ours[i].value, self.theirs[j].value, self.question.text
        return Pair(question, theirs, (ours,)), Pair(question, ours, (theirs,))

    def settle(self, found: Iterable[Match]) -> None:
        """Take the matches of `pairs`: facts are the same if each follows from the other."""
        rest = iter(found)
        for i, j in self.open:
            there, back = next(rest), next(rest)
            if there.match and back.match:
                self.same[i].add(j)
            elif not (there.match or back.match) and rivals(self.ours[i], self.theirs[j], self.question):
                self.against[i].add(j)

    def comparison(self, reference: int) -> Comparison:
        """The one-to-one matching with the reference of this index. What is the same elsewhere contradicts nothing."""
        taken = {j for chosen in self.same for j in chosen}
        against = [set() if same else against - taken for same, against in zip(self.same, self.against, strict=True)]
        return compared(reference, self.same, against, len(self.theirs))
