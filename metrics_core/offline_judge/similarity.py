"""Ground truth similarity without a language model: facts, matched by rules and the offline judge.

This module provides:
- judge: the outcomes of the metric for samples
- Links: which facts of a reference and of an answer are equal or contradictory, given the question
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, product
from typing import Literal

from answerkey.metrics_core.judges.facts import FactMatching, Matches, compared, merged, outcome_of
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH
from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.offline_judge.alignment import same_words
from answerkey.metrics_core.offline_judge.claims import Asked, Claim, claims_of, refined, says_yes_or_no
from answerkey.metrics_core.offline_judge.depth import out_of_depth
from answerkey.metrics_core.offline_judge.facts import Fact, facts_of
from answerkey.metrics_core.offline_judge.formulas import formulas_differ
from answerkey.metrics_core.offline_judge.matcher import Match, Pair, match
from answerkey.metrics_core.offline_judge.model import load
from answerkey.metrics_core.offline_judge.numbers_dates import equal
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.stance import MILD_BOUNDS, is_refusal
from answerkey.metrics_core.offline_judge.vocabulary import (
    FUNCTION_WORDS,
    PLACE_OR_KIND,
    PREPOSITIONS,
    TITLES,
    UNIT_WORDS,
)
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import normalise


def judge(samples: Sequence[Sample]) -> list[Outcome]:
    """The outcome of `ground_truth_similarity` for samples that have an answer and a reference; same length and order.

    Texts are split into facts (see `facts`); two facts match if each follows from the other, given the question. The
    matching is one-to-one. Facts of the sample replace the references. All open pairs of all samples go to the matcher
    together.

    >>> sample = Sample("1", "Amy likes apples.", ["Amy likes apples and pears."], "What does Amy like?")
    >>> judge([sample])[0].values["similarity"]
    0.5
    """
    cases = [_Case.of(sample) for sample in samples]
    all_links = list(chain.from_iterable(case.links for case in cases))
    pairs: list[Pair] = []
    for links in all_links:
        pairs += links.pairs()
    verdicts = iter(match(pairs))
    for links in all_links:
        links.settle(verdicts)
    return [case.outcome() for case in cases]


@dataclass(frozen=True, slots=True)
class _Case:
    """The facts of the answer of a sample, and their links with those of each reference."""

    answer: tuple[Claim, ...]
    abstained: bool
    indices: tuple[int | None, ...]
    links: tuple[Links, ...]
    depth: str

    @classmethod
    def of(cls, sample: Sample) -> _Case:
        question_text = sample.question
        answer_text = sample.answer or ""
        facts = merged(sample.facts)
        texts = sample.usable_references
        is_closed = any(says_yes_or_no(text) for _, text in texts)
        question = Asked.of(question_text, closed=is_closed)
        # Facts that come with the sample replace those of its references
        indices: tuple[int | None, ...] = (None,)
        if facts:
            reference_texts = facts
            references = [tuple(Claim.of(Fact(fact), question) for fact in facts)]
        else:
            reference_texts = tuple(text for _, text in texts)
            references = [_claims(text, question_text, closed=is_closed) for text in reference_texts]
            indices = tuple(index for index, _ in texts)

        claims = claims_of(facts_of(answer_text, question_text), question)
        claims = refined(claims, chain.from_iterable(references), question)
        return cls(
            answer=claims,
            abstained=not claims and is_refusal(normalise(answer_text)),
            indices=indices,
            links=tuple(Links.of(question, reference, claims) for reference in references),
            depth=out_of_depth(read(question_text or ""), read(answer_text), map(read, reference_texts), load().limits),
        )

    def outcome(self) -> Outcome:
        """The outcome, with the counts, the matching and the status of each fact."""
        comparisons = tuple(links.comparison(index) for index, links in enumerate(self.links))
        facts = []
        for links in self.links:
            facts.append([claim.fact.text for claim in links.expected])
        answer = tuple(claim.fact.text for claim in self.answer)
        outcome = outcome_of(Matches(answer, self.abstained, comparisons), facts, self.indices)
        if not self.depth or not isinstance(outcome, Scored):
            return outcome
        return replace(outcome, details={**outcome.details, OUT_OF_DEPTH: self.depth})


# References are the same in every release.
@lru_cache(maxsize=16_384)
def _claims(text: str, question: str | None, *, closed: bool) -> tuple[Claim, ...]:
    return claims_of(facts_of(text, question), Asked.of(question, closed=closed))


_MAX_PHRASE_WORDS = 4
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
    other_slot = expected.part is not None and stated.part is not None and expected.part != stated.part
    limits = expected.limits ^ stated.limits
    if other_slot or (limits and limits not in MILD_BOUNDS):
        return "other"
    if question.closed and not (expected.core and stated.core):
        # Plain yes and no; anything beyond is another fact
        if expected.core or stated.core:
            return "other"
        return "same" if expected.denies == stated.denies else "against"

    # Beside a reply without a verb, only nouns are compared
    is_bare = expected.bare or stated.bare
    same_core = expected.nouns == stated.nouns if is_bare else expected.core == stated.core
    in_conflict: FactRelation = "against" if _same_slot(expected, stated, question) else "other"
    if formulas_differ(stated.fact.text, expected.fact.text):
        return in_conflict
    if expected.denies != stated.denies or (not is_bare and expected.negated != stated.negated):
        return "against" if same_core else "other"
    return _content_relation(expected, stated, same_core=same_core, in_conflict=in_conflict)


def _content_relation(expected: Claim, stated: Claim, *, same_core: bool, in_conflict: FactRelation) -> FactRelation:
    """The relation of two facts by their amounts, dates and words; `in_conflict`: if two values differ."""
    # Equal amounts may be written in two ways: in other units, or with zeros that count in a version
    texts = [read(claim.fact.text) for claim in (expected, stated)]
    numerals = []
    for text in texts:
        numerals.append([text.tokens[number.start : number.stop] for number in text.numbers])
    if numerals[0] != numerals[1] and equal(*(text.quantities for text in texts)):
        return "unsure"
    if len(expected.dates) == len(stated.dates) == 1:
        [expected_date] = expected.dates
        [stated_date] = stated.dates
        if not stated_date.covers(expected_date):
            return "other" if stated_date.agrees(expected_date) else in_conflict
    elif expected.numbers != stated.numbers:
        return in_conflict if expected.numbers and stated.numbers else "other"

    # The same numbers, or none
    if same_core and expected.core:
        return "same"
    return "other" if _narrower(expected, stated) or _narrower(stated, expected) else "unsure"


def _same_slot(expected: Claim, stated: Claim, question: Asked) -> bool:
    if expected.fact.item or stated.fact.item:
        return False
    if len(question.parts) > 1:
        return expected.part is not None and expected.part == stated.part
    return all(claim.bare or claim.part is not None for claim in (expected, stated))


def _narrower(expected: Claim, stated: Claim) -> bool:
    """Whether a fact is a restriction of the other, like "red apples" and "apples". Names do not count."""
    words = expected.fact.text.split()
    other_words = stated.fact.text.split()
    extra = words[: -len(other_words)]
    return (
        0 < len(extra) < _MAX_PHRASE_WORDS
        and words[len(extra) :] == other_words
        and all(word.isalpha() and word.islower() for word in words)
        and not PREPOSITIONS.intersection(words)
        and any(word not in _NO_MODIFIERS for word in extra)
    )


_MAX_COMPARED = 3
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
        same: list[set[int]] = [set() for _ in expected]
        against: list[set[int]] = [set() for _ in expected]
        links = cls(question, expected, stated, same=same, against=against)
        # What the rules say of each two facts
        unsure: dict[int, list[int]] = {}
        for i, j in product(range(len(expected)), range(len(stated))):
            link = relation(expected[i], stated[j], question)
            if link == "same":
                links.same[i].add(j)
            elif link == "against":
                links.against[i].add(j)
            elif link == "unsure":
                unsure.setdefault(i, []).append(j)
        matched = set[int]().union(*links.same)
        for i, candidates in unsure.items():
            if links.same[i]:
                continue
            # The closest pairs go to the matcher
            overlaps: dict[int, float] = {}
            for j in candidates:
                if j not in matched:
                    n_nouns = len(expected[i].nouns) + len(stated[j].nouns)
                    overlaps[j] = 2 * len(same_words(expected[i].nouns, stated[j].nouns)) / max(1, n_nouns)
            nearest = sorted(overlaps, key=lambda j: (-overlaps[j], j))
            links.open += [(i, j) for j in nearest[:_MAX_COMPARED]]
        return links

    def pairs(self) -> list[Pair]:
        """The pairs for the matcher: every open pair, in both directions."""
        pairs = []
        for i, j in self.open:
            expected = self.expected[i].fact.text
            stated = self.stated[j].fact.text
            pairs.append(Pair(self.question.text, stated, (expected,)))
            pairs.append(Pair(self.question.text, expected, (stated,)))
        return pairs

    def settle(self, judged: Iterable[Match]) -> None:
        """Apply the verdicts on `pairs`: two facts are the same if each matches the other."""
        verdicts = iter(judged)
        for i, j in self.open:
            forward = next(verdicts)
            backward = next(verdicts)
            if forward.match and backward.match:
                self.same[i].add(j)
            elif not forward.match and not backward.match:
                # Values of one kind in the same slot contradict each other if they have no word in common
                expected = self.expected[i]
                stated = self.stated[j]
                same_kind = expected.fact.text[:1].isupper() == stated.fact.text[:1].isupper()
                same_slot = _same_slot(expected, stated, self.question)
                if same_slot and same_kind and not same_words(expected.nouns, stated.nouns):
                    self.against[i].add(j)

    def comparison(self, reference: int) -> FactMatching:
        """The one-to-one matching with the reference of this index. A matched fact contradicts nothing."""
        matched = set[int]().union(*self.same)
        contradicted = []
        for same, against in zip(self.same, self.against, strict=True):
            contradicted.append(set() if same else against - matched)
        return compared(reference, self.same, contradicted, len(self.stated))
