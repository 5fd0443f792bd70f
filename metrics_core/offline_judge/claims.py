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
_MAX_FACTS = 200
"""The most facts of a text, since each fact of a reference is compared with each fact of the answer."""
_MAX_ELLIPTIC_WORDS = 6
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
        text = read(question or "")
        parts = [frozenset(_stems(read(part))) for part in parts_of(question)]
        common = frozenset.intersection(*parts) if len(parts) > 1 else frozenset()
        return Asked(
            text=question or "",
            stems=frozenset(map(lemma, text.tokens)),
            parts=tuple(part - common for part in parts),
            closed=closed or asks_yes_or_no(text),
            tokens=frozenset(text.tokens),
            numbers=_numbers(text),
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
        tokens = text.tokens
        stems = frozenset(_stems(text))
        numbers = _numbers(text)
        core = stems - question.stems

        # Verbs are told by the words around them
        around = ("", *tokens, "")
        triples = zip(around, tokens, around[2:], strict=False)
        verbs = frozenset(lemma(token) for previous, token, following in triples if is_verb(token, previous, following))
        is_bare = len(text.content) <= _MAX_ELLIPTIC_WORDS and not verbs and AUXILIARIES.isdisjoint(tokens)
        if tokens and tokens[0] in SUBJECTS:
            is_bare = len(tokens) > 1 and tokens[1] in _BE

        # The part of the question that it has most words of
        shares = [len(stems & part) / max(1, len(part)) for part in question.parts]
        best = max(shares, default=0.0)
        is_clear = best >= 0.5 and shares.count(best) == 1

        negations: frozenset[str] = frozenset()
        if text.negated and tokens[0] not in _YES:
            negations = NEGATIONS.intersection(_NO_DENIAL.sub(" ", text.normal).replace("'", " ").split())
        return Claim(
            fact=fact,
            core=core,
            nouns=core - verbs or core,
            numbers=numbers - question.numbers if core else numbers,
            dates=text.dates,
            part=shares.index(best) if is_clear else None,
            bare=is_bare,
            negated=bool(negations),
            denies=not negations <= question.tokens,
            limits=bounds(text, read(question.text)),
        )


def says_yes_or_no(text: str) -> bool:
    """Whether a reference replies with yes or no.

    >>> says_yes_or_no("No, whales are mammals.")
    True
    """
    first_tokens = read(text).tokens[:1]
    return bool(first_tokens) and first_tokens[0] in _YES | _NO


def claims_of(facts: Sequence[Fact], question: Asked) -> tuple[Claim, ...]:
    """The facts of one text, relative to the question.

    Only the first 200 facts count. Facts that only repeat the question are dropped, repeated facts are kept once.

    >>> question = Asked.of("How old is Ada?")
    >>> [claim.fact.text for claim in claims_of([Fact("Ada is old"), Fact("She is 96")], question)]
    ['She is 96']
    """
    claims = [Claim.of(fact, question) for fact in facts[:_MAX_FACTS]]
    telling = [claim for claim in claims if claim.core or claim.bare or question.closed] or claims
    distinct: list[Claim] = []
    for claim in telling:
        if not any(_repeats(claim, earlier, question) for earlier in distinct):
            distinct.append(claim)
    return tuple(distinct)


def _repeats(claim: Claim, earlier: Claim, question: Asked) -> bool:
    """Whether two facts of a text say the same thing."""
    if claim.denies != earlier.denies:
        return False
    if question.closed and not (claim.core or earlier.core):
        return True
    fits_part = claim.part == earlier.part or None in (claim.part, earlier.part)
    same_core = (claim.core or claim.fact.text) == (earlier.core or earlier.fact.text)
    return fits_part and same_core and claim.numbers == earlier.numbers and claim.limits == earlier.limits


# Negations are compared separately.
_EMPTY = LIGHT | _NO | {"not", "не"}


def _stems(text: Text) -> list[str]:
    # "die" is an article in German and a verb in English.
    words = [token for i, token in enumerate(text.tokens) if i in text.content or token in LEMMAS]
    return [lemma(word) for word in words if word not in _EMPTY]


def _numbers(text: Text) -> frozenset[float]:
    values = set()
    for number in text.numbers:
        # "the odd one out" names no number.
        if number.value != 1.0 or text.tokens[number.start][0].isdigit():
            is_below = number.start > 0 and text.tokens[number.start - 1] in ("minus", "минус")
            values.add(-number.value if is_below else number.value)
    return frozenset(values)


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
    >>> claims = claims_of([Fact("It was held in Russia from June to July")], question)
    >>> [claim.fact.text for claim in refined(claims, [russia], question)]
    ['… in Russia …', 'It was held … from June to July']
    """
    expected = sorted(
        {claim for claim in references if claim.core}, key=lambda claim: (-len(claim.nouns), claim.fact.text)
    )
    pieces: list[Claim] = []
    for claim in claims:
        shorter = [reference_claim for reference_claim in expected if len(reference_claim.nouns) < len(claim.nouns)]
        inside = [reference_claim for reference_claim in shorter if _covered(reference_claim, claim)]
        if not inside or any(reference_claim.nouns == claim.nouns for reference_claim in expected):
            pieces.append(claim)
            continue
        # Of each fact of a reference, the first phrase that contains it
        phrases = _phrases(claim, question)
        used: list[_Phrase] = []
        for reference_claim in inside:
            for phrase in phrases:
                if phrase not in used and _covered(reference_claim, phrase.claim):
                    used.append(phrase)
                    break
        used.sort(key=lambda phrase: phrase.start)
        pieces += _split(claim, used) if used else [claim]
    return tuple(pieces)


def _phrases(claim: Claim, question: Asked) -> list[_Phrase]:
    text = claim.fact.text
    cuts = {0, len(text)}
    for token, word, is_predicate in tagged(text):
        if is_predicate or word == ",":
            cuts |= {token.start(), token.end()}
        elif (word in PREPOSITIONS and word not in _TOGETHER) or word in SUBORDINATE:
            cuts.add(token.start())
    phrases = []
    for start, stop in pairwise(sorted(cuts)):
        phrase = text[start:stop].strip(" ,")
        if phrase:
            phrases.append(_Phrase(start, stop, Claim.of(Fact(phrase), question)))
    return phrases


def _covered(expected: Claim, claim: Claim) -> bool:
    words = [stem for stem in expected.nouns if not stem.lstrip("-").isdigit()]
    return expected.numbers <= claim.numbers and all(occurs(word, claim.core) for word in words)


def _split(claim: Claim, phrases: Sequence[_Phrase]) -> list[Claim]:
    """Return a claim for each of some phrases of a claim, and one for the rest of it, if that has content."""
    text = claim.fact.text
    claims = []
    core = claim.core
    numbers = claim.numbers
    between = []
    end = 0
    for phrase in phrases:
        prefix = "… " if phrase.start else ""
        suffix = " …" if phrase.stop < len(text) else ""
        phrase_claim = replace(
            phrase.claim,
            fact=Fact(f"{prefix}{phrase.claim.fact.text}{suffix}", claim.fact.item),
            part=claim.part,
            bare=True,
            negated=claim.negated,
            denies=claim.denies,
            limits=phrase.claim.limits | (claim.limits & {"unsure"}),
        )
        claims.append(phrase_claim)
        core -= phrase.claim.core
        numbers -= phrase.claim.numbers
        between.append(text[end : phrase.start].strip(" ,"))
        end = phrase.stop
    if core:
        between.append(text[end:].strip(" ,"))
        fact = Fact(" … ".join(between).strip(), claim.fact.item)
        nouns = claim.nouns & core or core
        remainder = replace(claim, fact=fact, core=core, nouns=nouns, numbers=numbers, dates=(), part=None, bare=False)
        claims.append(remainder)
    return claims
