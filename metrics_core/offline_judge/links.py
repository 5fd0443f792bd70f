"""Links between the facts of a reference and of an answer: equal or contradictory, given the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from answerkey.metrics_core.judges.facts import FactMatching, compared
from answerkey.metrics_core.offline_judge.alignment import same_words
from answerkey.metrics_core.offline_judge.claims import Asked, Claim
from answerkey.metrics_core.offline_judge.formulas import formulas_differ
from answerkey.metrics_core.offline_judge.matcher import Match, Pair
from answerkey.metrics_core.offline_judge.numbers_dates import equal
from answerkey.metrics_core.offline_judge.reading import Text, read
from answerkey.metrics_core.offline_judge.stance import MILD_BOUNDS
from answerkey.metrics_core.offline_judge.vocabulary import (
    FUNCTION_WORDS,
    PLACE_OR_KIND,
    PREPOSITIONS,
    TITLES,
    UNIT_WORDS,
)

_LONGEST_PHRASE = 4
_NO_MODIFIERS = FUNCTION_WORDS | TITLES | PLACE_OR_KIND | frozenset(UNIT_WORDS)

FactRelation = Literal["same", "against", "other", "unsure"]
"""`against`: another value in the same slot. `unsure`: left to the matcher, in both directions."""


def relation(ours: Claim, theirs: Claim, question: Asked) -> FactRelation:
    """The relation of two facts by rules.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("How high is it?")
    >>> ours, theirs = Claim.of(Fact("41 m"), question), Claim.of(Fact("It is 42 m high."), question)
    >>> relation(ours, theirs, question)
    'against'
    """
    apart = ours.part is not None and theirs.part is not None and ours.part != theirs.part
    limits = ours.limits ^ theirs.limits
    if apart or (limits and limits not in MILD_BOUNDS):
        return "other"
    if question.closed and not (ours.core and theirs.core):
        # Plain yes and no; anything beyond is another fact.
        return "other" if ours.core or theirs.core else "same" if ours.denies == theirs.denies else "against"
    bare = ours.bare or theirs.bare
    slot = _same_slot(ours, theirs, question)
    if formulas_differ(theirs.fact.text, ours.fact.text):
        return "against" if slot else "other"
    if ours.denies != theirs.denies or (not bare and ours.negated != theirs.negated):
        return "against" if (ours.nouns == theirs.nouns if bare else ours.core == theirs.core) else "other"
    if len(ours.dates) == len(theirs.dates) == 1:
        [wanted], [named] = ours.dates, theirs.dates
        apart, against = not named.covers(wanted), not named.agrees(wanted)
    else:
        apart = ours.numbers != theirs.numbers
        against = bool(ours.numbers and theirs.numbers)
    in_two_ways = _written_in_two_ways(read(ours.fact.text), read(theirs.fact.text))
    if apart and not in_two_ways:
        return "against" if slot and against else "other"
    return "unsure" if in_two_ways else _by_words(ours, theirs, bare=bare)


def _written_in_two_ways(ours: Text, theirs: Text) -> bool:
    """Whether equal amounts are written in two ways: in other units, or with zeros that count in a version."""
    numbers = ([text.tokens[number.start : number.stop] for number in text.numbers] for text in (ours, theirs))
    return equal(ours.quantities, theirs.quantities) and len({*map(tuple, numbers)}) > 1


def _by_words(ours: Claim, theirs: Claim, *, bare: bool) -> FactRelation:
    """Two facts with the same numbers, or none."""
    same = ours.nouns == theirs.nouns if bare else ours.core == theirs.core
    if same and ours.core:
        return "same"
    return "other" if _narrower(ours, theirs) or _narrower(theirs, ours) else "unsure"


def conflicting(ours: Claim, theirs: Claim, question: Asked) -> bool:
    """Whether two different facts fill the same slot with values of the same kind and without common words.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> conflicting(Claim.of(Fact("the Aire"), question), Claim.of(Fact("the Don"), question), question)
    True
    """
    alike_written = ours.fact.text[:1].isupper() == theirs.fact.text[:1].isupper()
    return _same_slot(ours, theirs, question) and alike_written and not _shared(ours, theirs)


def nearness(ours: Claim, theirs: Claim) -> float:
    """The overlap of two cores, 0..1: the closest pairs go to the matcher.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> nearness(Claim.of(Fact("Mill Beck"), question), Claim.of(Fact("the Mill"), question))
    0.6666666666666666
    """
    return 2 * _shared(ours, theirs) / max(1, len(ours.nouns) + len(theirs.nouns))


def _shared(ours: Claim, theirs: Claim) -> int:
    return len(same_words(ours.nouns, theirs.nouns))


def _same_slot(ours: Claim, theirs: Claim, question: Asked) -> bool:
    if ours.fact.item or theirs.fact.item:
        return False
    if len(question.parts) > 1:
        return ours.part is not None and ours.part == theirs.part
    return all(claim.bare or claim.part is not None for claim in (ours, theirs))


def _narrower(ours: Claim, theirs: Claim) -> bool:
    """Whether a fact is a restriction of the other, like "red apples" and "apples". Names do not count."""
    mine, yours = ours.fact.text.split(), theirs.fact.text.split()
    extra = mine[: -len(yours)]
    return (
        0 < len(extra) < _LONGEST_PHRASE
        and mine[len(extra) :] == yours
        and all(word.isalpha() and word.islower() for word in mine)
        and not PREPOSITIONS.intersection(mine)
        and any(word not in _NO_MODIFIERS for word in extra)
    )


_MOST_ASKED = 3
"""The most facts of the answer that the matcher compares with one fact of a reference."""


@dataclass(slots=True)
class Links:
    """The links between the facts of a reference and those of the answer, by index.

    `same` and `against` are, for each fact of the reference, facts of the answer; `open` are pairs for the matcher.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("How high is it?")
    >>> ours, theirs = Claim.of(Fact("41 m"), question), Claim.of(Fact("It is 41 m."), question)
    >>> Links.of(question, [ours], [theirs]).comparison(0).similarity
    1.0
    """

    question: Asked
    ours: Sequence[Claim]
    theirs: Sequence[Claim]
    same: list[set[int]] = field(default_factory=list)
    against: list[set[int]] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, question: Asked, ours: Sequence[Claim], theirs: Sequence[Claim]) -> Links:
        """The links by rules, before the matcher."""
        links = cls(question, ours, theirs, [set() for _ in ours], [set() for _ in ours])
        unsure: dict[int, list[int]] = {}
        for i, j in product(range(len(ours)), range(len(theirs))):
            how = relation(ours[i], theirs[j], question)
            if how == "same":
                links.same[i].add(j)
            elif how == "against":
                links.against[i].add(j)
            elif how == "unsure":
                unsure.setdefault(i, []).append(j)
        taken = {j for chosen in links.same for j in chosen}
        for i, candidates in unsure.items():
            if not links.same[i]:
                free = [j for j in candidates if j not in taken]
                near = sorted(free, key=lambda j: (-nearness(ours[i], theirs[j]), j))
                links.open += [(i, j) for j in near[:_MOST_ASKED]]
        return links

    def pairs(self) -> list[Pair]:
        """The pairs for the matcher: every open pair, in both directions."""
        return [pair for i, j in self.open for pair in self._both_ways(i, j)]

    def _both_ways(self, i: int, j: int) -> tuple[Pair, Pair]:
        ours, theirs, question = self.ours[i].fact.text, self.theirs[j].fact.text, self.question.text
        return Pair(question, theirs, (ours,)), Pair(question, ours, (theirs,))

    def settle(self, judged: Iterable[Match]) -> None:
        """Apply the verdicts on `pairs`: two facts are the same if each matches the other."""
        rest = iter(judged)
        for i, j in self.open:
            there, back = next(rest), next(rest)
            if there.match and back.match:
                self.same[i].add(j)
            elif not (there.match or back.match) and conflicting(self.ours[i], self.theirs[j], self.question):
                self.against[i].add(j)

    def comparison(self, reference: int) -> FactMatching:
        """The one-to-one matching with the reference of this index. A matched fact contradicts nothing."""
        taken = {j for chosen in self.same for j in chosen}
        against = [set() if same else against - taken for same, against in zip(self.same, self.against, strict=True)]
        return compared(reference, self.same, against, len(self.theirs))
