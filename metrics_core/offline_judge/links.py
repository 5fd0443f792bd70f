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


def relation(expected: Claim, stated: Claim, question: Asked) -> FactRelation:
    """The relation of two facts by rules.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("How high is it?")
    >>> expected, stated = Claim.of(Fact("41 m"), question), Claim.of(Fact("It is 42 m high."), question)
    >>> relation(expected, stated, question)
    'against'
    """
    differs = expected.part is not None and stated.part is not None and expected.part != stated.part
    limits = expected.limits ^ stated.limits
    if differs or (limits and limits not in MILD_BOUNDS):
        return "other"
    if question.closed and not (expected.core and stated.core):
        # Plain yes and no; anything beyond is another fact.
        return "other" if expected.core or stated.core else "same" if expected.denies == stated.denies else "against"
    bare = expected.bare or stated.bare
    slot = _same_slot(expected, stated, question)
    if formulas_differ(stated.fact.text, expected.fact.text):
        return "against" if slot else "other"
    if expected.denies != stated.denies or (not bare and expected.negated != stated.negated):
        return "against" if (expected.nouns == stated.nouns if bare else expected.core == stated.core) else "other"
    if len(expected.dates) == len(stated.dates) == 1:
        [expected_date], [stated_date] = expected.dates, stated.dates
        differs, is_contradiction = not stated_date.covers(expected_date), not stated_date.agrees(expected_date)
    else:
        differs = expected.numbers != stated.numbers
        is_contradiction = bool(expected.numbers and stated.numbers)
    in_two_ways = _written_in_two_ways(read(expected.fact.text), read(stated.fact.text))
    if differs and not in_two_ways:
        return "against" if slot and is_contradiction else "other"
    return "unsure" if in_two_ways else _by_words(expected, stated, bare=bare)


def _written_in_two_ways(expected: Text, stated: Text) -> bool:
    """Whether equal amounts are written in two ways: in other units, or with zeros that count in a version."""
    numbers = ([text.tokens[number.start : number.stop] for number in text.numbers] for text in (expected, stated))
    return equal(expected.quantities, stated.quantities) and len({*map(tuple, numbers)}) > 1


def _by_words(expected: Claim, stated: Claim, *, bare: bool) -> FactRelation:
    """Two facts with the same numbers, or none."""
    is_same = expected.nouns == stated.nouns if bare else expected.core == stated.core
    if is_same and expected.core:
        return "same"
    return "other" if _narrower(expected, stated) or _narrower(stated, expected) else "unsure"


def conflicting(expected: Claim, stated: Claim, question: Asked) -> bool:
    """Whether two different facts fill the same slot with values of the same kind and without common words.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> conflicting(Claim.of(Fact("the Aire"), question), Claim.of(Fact("the Don"), question), question)
    True
    """
    alike_written = expected.fact.text[:1].isupper() == stated.fact.text[:1].isupper()
    return _same_slot(expected, stated, question) and alike_written and not _shared(expected, stated)


def nearness(expected: Claim, stated: Claim) -> float:
    """The overlap of two cores, 0..1: the closest pairs go to the matcher.

    >>> from answerkey.metrics_core.offline_judge.facts import Fact
    >>> question = Asked.of("Which river?")
    >>> nearness(Claim.of(Fact("Mill Beck"), question), Claim.of(Fact("the Mill"), question))
    0.6666666666666666
    """
    return 2 * _shared(expected, stated) / max(1, len(expected.nouns) + len(stated.nouns))


def _shared(expected: Claim, stated: Claim) -> int:
    return len(same_words(expected.nouns, stated.nouns))


def _same_slot(expected: Claim, stated: Claim, question: Asked) -> bool:
    if expected.fact.item or stated.fact.item:
        return False
    if len(question.parts) > 1:
        return expected.part is not None and expected.part == stated.part
    return all(claim.bare or claim.part is not None for claim in (expected, stated))


def _narrower(expected: Claim, stated: Claim) -> bool:
    """Whether a fact is a restriction of the other, like "red apples" and "apples". Names do not count."""
    words, shorter = expected.fact.text.split(), stated.fact.text.split()
    extra = words[: -len(shorter)]
    return (
        0 < len(extra) < _LONGEST_PHRASE
        and words[len(extra) :] == shorter
        and all(word.isalpha() and word.islower() for word in words)
        and not PREPOSITIONS.intersection(words)
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
    >>> expected, stated = Claim.of(Fact("41 m"), question), Claim.of(Fact("It is 41 m."), question)
    >>> Links.of(question, [expected], [stated]).comparison(0).shares["similarity"]
    1.0
    """

    question: Asked
    expected: Sequence[Claim]
    stated: Sequence[Claim]
    same: list[set[int]] = field(default_factory=list)
    against: list[set[int]] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, question: Asked, expected: Sequence[Claim], stated: Sequence[Claim]) -> Links:
        """The links by rules, before the matcher."""
        links = cls(question, expected, stated, [set() for _ in expected], [set() for _ in expected])
        unsure: dict[int, list[int]] = {}
        for i, j in product(range(len(expected)), range(len(stated))):
            link = relation(expected[i], stated[j], question)
            if link == "same":
                links.same[i].add(j)
            elif link == "against":
                links.against[i].add(j)
            elif link == "unsure":
                unsure.setdefault(i, []).append(j)
        matched = {j for chosen in links.same for j in chosen}
        for i, candidates in unsure.items():
            if not links.same[i]:
                unmatched = [j for j in candidates if j not in matched]
                nearest = sorted(unmatched, key=lambda j: (-nearness(expected[i], stated[j]), j))
                links.open += [(i, j) for j in nearest[:_MOST_ASKED]]
        return links

    def pairs(self) -> list[Pair]:
        """The pairs for the matcher: every open pair, in both directions."""
        return [pair for i, j in self.open for pair in self._both_ways(i, j)]

    def _both_ways(self, i: int, j: int) -> tuple[Pair, Pair]:
        expected, stated, question = self.expected[i].fact.text, self.stated[j].fact.text, self.question.text
        return Pair(question, stated, (expected,)), Pair(question, expected, (stated,))

    def settle(self, judged: Iterable[Match]) -> None:
        """Apply the verdicts on `pairs`: two facts are the same if each matches the other."""
        verdicts = iter(judged)
        for i, j in self.open:
            forward, backward = next(verdicts), next(verdicts)
            if forward.match and backward.match:
                self.same[i].add(j)
            elif not (forward.match or backward.match) and conflicting(self.expected[i], self.stated[j], self.question):
                self.against[i].add(j)

    def comparison(self, reference: int) -> FactMatching:
        """The one-to-one matching with the reference of this index. A matched fact contradicts nothing."""
        matched = {j for chosen in self.same for j in chosen}
        contradicted = [
            set() if same else contradicted - matched
            for same, contradicted in zip(self.same, self.against, strict=True)
        ]
        return compared(reference, self.same, contradicted, len(self.stated))
