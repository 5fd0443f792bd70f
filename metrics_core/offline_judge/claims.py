"""Facts relative to the question, and facts of an answer split as finely as those of the references.

As answers to "How old is Ada?", "She is 96" and "96 years old" are the same fact. The core of a fact is its content
beyond the question; its slot is the part of the question that it answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from answerkey.metrics_core.offline_judge.alignment import occurs
from answerkey.metrics_core.offline_judge.facts import Fact
from answerkey.metrics_core.offline_judge.numbers_dates import Date
from answerkey.metrics_core.offline_judge.reading import Text, asks_yes_or_no, lemma, parts_of, read
from answerkey.metrics_core.offline_judge.stance import bounds
from answerkey.metrics_core.offline_judge.vocabulary import (
    AUXILIARIES,
    LEMMAS,
    LIGHT,
    NEGATIONS,
    PREPOSITIONS,
    SUBJECTS,
    SUBORDINATE,
    is_verb,
    tagged,
)

_BE = frozenset(("is", "are", "was", "were", "был", "была", "было", "были"))
_YES = frozenset(("yes", "да"))
_NO = frozenset(("no", "нет"))
_NO_DENIAL = re.compile(
    r"\b(?:no (?:less|more|fewer|later|earlier) than|not only|not least|не менее|не более|не только)\b"
)
_MOST_FACTS = 200
"""The most facts of a text, since each fact of a reference is compared with each fact of the answer."""
_ELLIPTIC = 6
"""The most content words of a fact without a verb that is a bare reply to the question."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: its stems, those that distinguish its parts, and whether it is answered by yes or no.

    >>> question = Asked.of("Is Ada old?")
    >>> question.closed
    True
    """

    text: str
    stems: frozenset[str]
    parts: tuple[frozenset[str], ...]
    closed: bool
    tokens: frozenset[str]
    numbers: frozenset[float]

    @staticmethod
    @lru_cache(maxsize=4_096)
    def of(question: str | None, *, closed: bool = False) -> Asked:
        """Analyse a question; a missing one has no parts. `closed`: its references say yes or no."""
        read_ = read(question or "")
        parts = [frozenset(_stems(read(part))) for part in parts_of(question)]
        common = frozenset.intersection(*parts) if len(parts) > 1 else frozenset()
        return Asked(
            question or "",
            frozenset(map(lemma, read_.tokens)),
            tuple(part - common for part in parts),
            closed or asks_yes_or_no(read_),
            frozenset(read_.tokens),
            _numbers(read_),
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact relative to the question.

    Attributes:
        core: the content stems that the question does not have; `nouns`: those that are not verbs.
        numbers, dates: in the fact; numbers without those of the question, unless it has no others.
        part: the part of the question that it answers, if that is clear.
        bare: whether it is a reply without a verb, or about "it".
        negated: whether it contains a negation; `denies`: one that the question does not have.
        limits: bounds, quantifiers and hedges.

    >>> question = Asked.of("How old is Ada?")
    >>> sorted(Claim.of(Fact("She is 96"), question).core)
    ['96']
    """

    fact: Fact
    core: frozenset[str]
    nouns: frozenset[str]
    numbers: frozenset[float]
    dates: tuple[Date, ...]
    part: int | None
    bare: bool
    negated: bool
    denies: bool
    limits: frozenset[str]

    @staticmethod
    def of(fact: Fact, question: Asked) -> Claim:
        """Read a fact."""
        text = read(fact.text)
        stems, verbs, numbers = frozenset(_stems(text)), _verbs(text), _numbers(text)
        core = stems - question.stems
        first = text.tokens[0] if text.tokens else ""
        said_no = frozenset(_NO_DENIAL.sub(" ", text.normal).replace("'", " ").split()) if text.negated else frozenset()
        return Claim(
            fact=fact,
            core=core,
            nouns=core - verbs or core,
            numbers=numbers - question.numbers if core else numbers,
            dates=text.dates,
            part=_part(stems, question),
            bare=_bare(text, verbs),
            negated=first not in _YES and not said_no.isdisjoint(NEGATIONS),
            denies=first not in _YES and not (said_no - question.tokens).isdisjoint(NEGATIONS),
            limits=bounds(text, read(question.text)),
        )

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for facts of a text that say the same thing."""
        return (self.core or self.fact.text, self.numbers, self.limits, self.denies)


def says_yes_or_no(text: str) -> bool:
    """Whether a reference replies with yes or no.

    >>> says_yes_or_no("No, whales are mammals.")
    True
    """
    first = read(text).tokens[:1]
    return bool(first) and first[0] in _YES | _NO


def claims_of(facts: Sequence[Fact], question: Asked) -> tuple[Claim, ...]:
    """The facts of one text, relative to the question.

    Only the first 200 facts count. Facts that only repeat the question are dropped, repeated facts are kept once.

    >>> question = Asked.of("How old is Ada?")
    >>> [claim.fact.text for claim in claims_of([Fact("Ada is old"), Fact("She is 96")], question)]
    ['She is 96']
    """
    claims = [Claim.of(fact, question) for fact in facts[:_MOST_FACTS]]
    telling = [claim for claim in claims if claim.core or claim.bare or question.closed] or claims
    kept: list[Claim] = []
    for claim in telling:
        if not any(_twice(claim, one, question) for one in kept):
            kept.append(claim)
    return tuple(kept)


def _twice(claim: Claim, before: Claim, question: Asked) -> bool:
    if question.closed and not (claim.core or before.core):
        return claim.denies == before.denies
    return claim.key == before.key and (claim.part == before.part or None in (claim.part, before.part))


# Negations are compared separately.
_EMPTY = LIGHT | _NO | {"not", "не"}


def _stems(text: Text) -> list[str]:
    # "die" is an article in German and a verb in English.
    told = (t for i, t in enumerate(text.tokens) if (i in text.content or t in LEMMAS) and t not in _EMPTY)
    return [lemma(token) for token in told]


def _verbs(text: Text) -> frozenset[str]:
    around = ("", *text.tokens, "")
    triples = zip(around, text.tokens, around[2:], strict=False)
    return frozenset(lemma(word) for before, word, after in triples if is_verb(word, before, after))


def _bare(text: Text, verbs: frozenset[str]) -> bool:
    if text.tokens[:1] and text.tokens[0] in SUBJECTS:
        return text.tokens[1:2] != () and text.tokens[1] in _BE
    return len(text.content) <= _ELLIPTIC and not verbs and AUXILIARIES.isdisjoint(text.tokens)


def _numbers(text: Text) -> frozenset[float]:
    values = set()
    for number in text.numbers:
        first = text.tokens[number.start]
        # "the odd one out" names no number.
        if number.value != 1.0 or first[0].isdigit():
            below = number.start > 0 and text.tokens[number.start - 1] in ("minus", "минус")
            values.add(-number.value if below else number.value)
    return frozenset(values)


def _part(stems: frozenset[str], question: Asked) -> int | None:
    shares = [len(stems & part) / len(part) if part else 0.0 for part in question.parts]
    best = max(shares, default=0.0)
    return shares.index(best) if best >= 0.5 and shares.count(best) == 1 else None


_TOGETHER = frozenset(("of", "than", "about", "о", "об", "чем"))
"""Prepositions that connect the text before and after them."""


@dataclass(frozen=True, slots=True)
class _Phrase:
    start: int
    stop: int
    claim: Claim


def refined(claims: Sequence[Claim], references: Iterable[Claim], question: Asked) -> tuple[Claim, ...]:
    """The `claims` of an answer; one that contains a fact of a reference and more is split into that fact and the rest.

    >>> question = Asked.of("Where was it held?")
    >>> [russia] = claims_of([Fact("Russia")], question)
    >>> whole = claims_of([Fact("It was held in Russia from June to July")], question)
    >>> [claim.fact.text for claim in refined(whole, [russia], question)]
    ['… in Russia …', 'It was held … from June to July']
    """
    wanted = sorted({claim for claim in references if claim.core}, key=lambda one: (-len(one.nouns), one.fact.text))
    return tuple(part for claim in claims for part in _refined(claim, wanted, question))


def _refined(claim: Claim, expected: Sequence[Claim], question: Asked) -> list[Claim]:
    candidates = [
        reference_claim
        for reference_claim in expected
        if len(reference_claim.nouns) < len(claim.nouns) and _covered(reference_claim, claim)
    ]
    if not candidates or any(reference_claim.nouns == claim.nouns for reference_claim in expected):
        return [claim]
    phrases = _phrases(claim, question)
    used: list[_Phrase] = []
    for reference_claim in candidates:
        holding = (phrase for phrase in phrases if phrase not in used and _covered(reference_claim, phrase.claim))
        if phrase := next(holding, None):
            used.append(phrase)
    if not used:
        return [claim]
    used.sort(key=lambda phrase: phrase.start)
    return [*(_phrase_claim(phrase, claim) for phrase in used), *_remaining_claims(claim, used)]


def _phrases(claim: Claim, question: Asked) -> list[_Phrase]:
    text = claim.fact.text
    cuts = {0}
    for token, word, verb in tagged(text):
        if verb or word == ",":
            cuts |= {token.start(), token.end()}
        elif (word in PREPOSITIONS and word not in _TOGETHER) or word in SUBORDINATE:
            cuts.add(token.start())
    ends = [*sorted(cuts), len(text)]
    spans = [(a, b) for a, b in pairwise(ends) if text[a:b].strip(" ,")]
    return [_Phrase(a, b, Claim.of(Fact(text[a:b].strip(" ,")), question)) for a, b in spans]


def _covered(expected: Claim, claim: Claim) -> bool:
    return expected.numbers <= claim.numbers and all(
        occurs(stem, claim.core) for stem in expected.nouns if not stem.lstrip("-").isdigit()
    )


def _phrase_claim(phrase: _Phrase, claim: Claim) -> Claim:
    """The claim that consists of a phrase of a claim."""
    prefix, suffix = ("… " if phrase.start else ""), (" …" if phrase.stop < len(claim.fact.text) else "")
    return replace(
        phrase.claim,
        fact=Fact(f"{prefix}{phrase.claim.fact.text}{suffix}", claim.fact.item),
        part=claim.part,
        bare=True,
        negated=claim.negated,
        denies=claim.denies,
        limits=phrase.claim.limits | (claim.limits & {"unsure"}),
    )


def _remaining_claims(claim: Claim, used: Sequence[_Phrase]) -> list[Claim]:
    """The rest of a claim, if it has content."""
    core = claim.core.difference(*(phrase.claim.core for phrase in used))
    numbers = claim.numbers.difference(*(phrase.claim.numbers for phrase in used))
    if not core:
        return []
    text, pieces, end = claim.fact.text, [], 0
    for phrase in used:
        pieces.append(text[end : phrase.start].strip(" ,"))
        end = phrase.stop
    pieces.append(text[end:].strip(" ,"))
    remaining_text = " … ".join(pieces).strip()
    nouns = claim.nouns & core or core
    remaining = replace(claim, fact=Fact(remaining_text, claim.fact.item), dates=(), part=None, bare=False)
    return [replace(remaining, core=core, nouns=nouns, numbers=numbers)]
