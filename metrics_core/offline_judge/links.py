"""Which facts of a reference and of an answer are the same, and which contradict each other, given the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from answerkey.metrics_core.judges.facts import FactMatching, compared
from answerkey.metrics_core.offline_judge.alignment import HIT, alike
from answerkey.metrics_core.offline_judge.claims import Asked, Claim
from answerkey.metrics_core.offline_judge.matcher import Match, Pair
from answerkey.metrics_core.offline_judge.reading import lemma, read
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
"""`against`: another value in the same slot. `unsure`: the matcher has to say, both ways."""


def relation(ours: Claim, theirs: Claim, question: Asked) -> FactRelation:
    """How two facts relate, as far as rules can tell.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("How high is it?")
    >>> ours, theirs = Claim.of(Fact("41 m"), question), Claim.of(Fact("It is 42 m high."), question)
    >>> relation(ours, theirs, question)
    'against'
    """
    apart = ours.part is not None and theirs.part is not None and ours.part != theirs.part
    if apart or ours.limits != theirs.limits:
        return "other"
    if question.closed and not (ours.core and theirs.core):
        # Yes and no, in so many words; what one of them adds is another fact.
        return "other" if ours.core or theirs.core else "same" if ours.denies == theirs.denies else "against"
    bare = ours.bare or theirs.bare
    slot = _same_slot(ours, theirs, question)
    if ours.denies != theirs.denies or (not bare and ours.negated != theirs.negated):
        return "against" if (ours.nouns == theirs.nouns if bare else ours.core == theirs.core) else "other"
    if len(ours.dates) == len(theirs.dates) == 1:
        return _by_date(ours, theirs, question, slot=slot)
    if ours.numbers != theirs.numbers:
        return "against" if slot and ours.numbers and theirs.numbers else "other"
    return _by_words(ours, theirs, bare=bare)


def _by_words(ours: Claim, theirs: Claim, *, bare: bool) -> FactRelation:
    """Two facts with the same numbers, or none."""
    same = ours.nouns == theirs.nouns if bare else ours.core == theirs.core
    if bare and ours.numbers:
        same = same or ours.plain == theirs.plain
    if (same and ours.core) or _same_name(ours, theirs) or _same_name(theirs, ours):
        return "same"
    return "other" if _narrower(ours, theirs) or _narrower(theirs, ours) else "unsure"


def rivals(ours: Claim, theirs: Claim, question: Asked) -> bool:
    """Whether two different facts fill the same slot with values of one kind that have nothing in common.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> rivals(Claim.of(Fact("the Aire"), question), Claim.of(Fact("the Don"), question), question)
    True
    """
    alike_written = ours.value[:1].isupper() == theirs.value[:1].isupper()
    return _same_slot(ours, theirs, question) and alike_written and not _shared(ours, theirs)


def nearness(ours: Claim, theirs: Claim) -> float:
    """How much two cores have in common, 0..1: the closest pairs are put to the matcher.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> nearness(Claim.of(Fact("Mill Beck"), question), Claim.of(Fact("the Mill"), question))
    0.6666666666666666
    """
    return 2 * _shared(ours, theirs) / max(1, len(ours.nouns) + len(theirs.nouns))


def _shared(ours: Claim, theirs: Claim) -> int:
    return sum(any(alike(one, other) >= HIT for other in theirs.nouns) for one in ours.nouns)


def _same_slot(ours: Claim, theirs: Claim, question: Asked) -> bool:
    if ours.fact.item or theirs.fact.item:
        return False
    if len(question.parts) > 1:
        return ours.part is not None and ours.part == theirs.part
    return all(claim.bare or claim.part is not None for claim in (ours, theirs))


def _by_date(ours: Claim, theirs: Claim, question: Asked, *, slot: bool) -> FactRelation:
    [mine], [yours] = ours.dates, theirs.dates
    if question.year and mine.year is not None and yours.year is not None:
        same = mine.year == yours.year and mine.span == yours.span
    else:
        same = mine.covers(yours) and yours.covers(mine)
    if same:
        return "same" if _undated(ours) == _undated(theirs) else "unsure"
    return "other" if mine.agrees(yours) or not slot else "against"


def _undated(claim: Claim) -> frozenset[str]:
    """The core without the words of the date, which has been compared already."""
    text = read(claim.fact.text)
    dated = {lemma(token) for date in text.dates for token in text.tokens[date.start : date.stop]}
    return claim.nouns - dated


def _narrower(ours: Claim, theirs: Claim) -> bool:
    """ "red apples" and "apples": the same thing, but only some of it. Names are another matter."""
    mine, yours = ours.value.split(), theirs.value.split()
    extra = mine[: -len(yours)]
    return (
        0 < len(extra) < _LONGEST_PHRASE
        and mine[len(extra) :] == yours
        and all(word.isalpha() and word.islower() for word in mine)
        and not PREPOSITIONS.intersection(mine)
        and any(word not in _NO_MODIFIERS for word in extra)
    )


def _same_name(name: Claim, described: Claim) -> bool:
    """ "Sophocles" and "the Greek playwright Sophocles": a name, and before it words that describe its bearer."""
    words = name.value.split()
    if not name.bare or not words or not all(word[:1].isupper() for word in words) or name.numbers != described.numbers:
        return False
    before, inside, after = described.value.partition(name.value)
    lead = [word for word in before.split() if word[:1].islower()]
    others = [word for word in before.split() if word[:1].isupper()]
    return bool(inside) and not after.strip(" ,.") and bool(lead) and len(others) <= 1 and not set(lead) & PREPOSITIONS


_MOST_ASKED = 3
"""The largest number of the answer's facts that the matcher compares with one fact of a reference."""


@dataclass(slots=True)
class Links:
    """The facts of one reference against those of the answer, by position.

    `same` and `against` hold, for each fact of the reference, facts of the answer; `open`: pairs for the matcher.

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
        """The links that rules find without the matcher."""
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
        ours, theirs, question = self.ours[i].value, self.theirs[j].value, self.question.text
        return Pair(question, theirs, (ours,)), Pair(question, ours, (theirs,))

    def settle(self, judged: Iterable[Match]) -> None:
        """Use the verdicts on `pairs`: two facts are the same if each matches the other."""
        rest = iter(judged)
        for i, j in self.open:
            there, back = next(rest), next(rest)
            if there.match and back.match:
                self.same[i].add(j)
            elif not (there.match or back.match) and rivals(self.ours[i], self.theirs[j], self.question):
                self.against[i].add(j)

    def comparison(self, reference: int) -> FactMatching:
        """The one-to-one matching with the reference of this index. A fact that is matched contradicts nothing."""
        taken = {j for chosen in self.same for j in chosen}
        against = [set() if same else against - taken for same, against in zip(self.same, self.against, strict=True)]
        return compared(reference, self.same, against, len(self.theirs))
