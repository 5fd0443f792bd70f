"""Facts as they are compared: what they say beyond the question.

The question decides what counts: to "How old is Ada?" the facts "She is 96" and "96 years old" are one. What a fact
says beyond it is its core; the part of the question that it speaks of is its slot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from answerkey.metrics_core.offline_judge.bounds import bounds
from answerkey.metrics_core.offline_judge.dates import Date
from answerkey.metrics_core.offline_judge.enumerations import Fact
from answerkey.metrics_core.offline_judge.kinds import asked
from answerkey.metrics_core.offline_judge.questions import parts_of
from answerkey.metrics_core.offline_judge.reading import Text, read, stem
from answerkey.metrics_core.offline_judge.verbs import AUXILIARIES, LEMMAS, LIGHT, SUBJECTS, is_verb
from answerkey.metrics_core.offline_judge.vocabulary import NEGATIONS

_BE = frozenset(("is", "are", "was", "were", "был", "была", "было", "были"))
_YEAR = frozenset(("year", "год", "году", "года"))
_YES = frozenset(("yes", "да"))
_NO = frozenset(("no", "нет"))
_NO_DENIAL = re.compile(
    r"\b(?:no (?:less|more|fewer|later|earlier) than|not only|not least|не менее|не более|не только)\b"
)
_ELLIPTIC = 6
"""Content words of a fact without a verb, up to which it is a bare reply to the question."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as read: its stems, those that tell its parts apart, whether yes or no answers it, or a year."""

    text: str
    stems: frozenset[str]
    parts: tuple[frozenset[str], ...]
    closed: bool
    year: bool
    tokens: frozenset[str]
    numbers: frozenset[float]

    @staticmethod
    @lru_cache(maxsize=4_096)
    def of(question: str | None, *, closed: bool = False) -> Asked:
        """Read a question; a missing one asks nothing. `closed`: its references say yes or no."""
        read_ = read(question or "")
        parts = [frozenset(_stems(read(part))) for part in parts_of(question)]
        common = frozenset.intersection(*parts) if len(parts) > 1 else frozenset()
        return Asked(
            question or "",
            frozenset(map(lemma, read_.tokens)),
            tuple(part - common for part in parts),
            closed or asked(read_) == "closed",
            not _YEAR.isdisjoint(read_.tokens),
            frozenset(read_.tokens),
            _numbers(read_),
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact, read against the question.

    Attributes:
        core: stems of what it says beyond the question; `nouns`: of these, those that are no verbs;
            `plain`: of these, those that spell no number.
        value: its words from the first of the core to the last; the whole fact where the core is empty.
        numbers, dates: what it names; numbers without those of the question, unless it has no others.
        part: the part of the question that it speaks of; None where it does not say.
        bare: a reply without a verb, or about "it".
        negated: says "not"; `denies`: says it where the question does not.
        limits: bounds, quantifiers and hedges.
    """

    fact: Fact
    core: frozenset[str]
    nouns: frozenset[str]
    plain: frozenset[str]
    value: str
    numbers: frozenset[float]
    dates: tuple[Date, ...]
    part: int | None
    bare: bool
    negated: bool
    denies: bool
    limits: frozenset[str]

    @staticmethod
    def of(fact: Fact, question: Asked, said: frozenset[str] = frozenset()) -> Claim:
        """Read a fact; `said` are the cores of the facts before it, which its subject may take up again."""
        text = read(fact.text)
        stems = _stems(text)
        new = [stem for stem in stems if stem not in question.stems]
        verbs = _verbs(text)
        core = _own(fact, frozenset(new), verbs) if fact.item else frozenset(new)
        core = core - (said & _subject(text, verbs)) or core
        numbers = _numbers(read(fact.item) if fact.item else text)
        first = text.tokens[0] if text.tokens else ""
        said_no = frozenset(_NO_DENIAL.sub(" ", text.normal).replace("'", " ").split()) if text.negated else frozenset()
        return Claim(
            fact=fact,
            core=core,
            nouns=core - verbs or core,
            plain=(core - verbs or core) - _spelled(text),
            value=_value(fact.text, core - verbs or core),
            numbers=numbers - question.numbers if core else numbers,
            dates=text.dates,
            part=_part(frozenset(stems), question),
            bare=_bare(text, verbs),
            negated=first not in _YES and not said_no.isdisjoint(NEGATIONS),
            denies=first not in _YES and not (said_no - question.tokens).isdisjoint(NEGATIONS),
            limits=bounds(text, read(question.text)),
        )

    @property
    def key(self) -> tuple[object, ...]:
        """The same for facts of one text that say the same thing."""
        return (self.core or self.value, self.numbers, self.limits, self.denies)


def says_yes_or_no(text: str) -> bool:
    """Whether a reference replies with yes or no."""
    first = read(text).tokens[:1]
    return bool(first) and first[0] in _YES | _NO


def claims_of(facts: Sequence[Fact], question: Asked, *, given: bool = False) -> tuple[Claim, ...]:
    """The facts of one text as claims.

    A sentence that only repeats the question falls out, and what is said twice stays once; but facts that are `given`
    are all kept.
    """
    claims: list[Claim] = []
    said: frozenset[str] = frozenset()
    for fact in facts:
        claims.append(Claim.of(fact, question, said))
        said |= claims[-1].core
    if given:
        return tuple(claims)
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


# That a fact denies something is looked at apart.
_EMPTY = LIGHT | _NO | {"not", "не"}


def lemma(token: str) -> str:
    """The stem of a token, the same for all forms of an irregular word."""
    return stem(LEMMAS.get(token, token))


def _stems(text: Text) -> list[str]:
    # "die" is an article in German, and a verb of this grammar.
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


def _subject(text: Text, verbs: frozenset[str]) -> frozenset[str]:
    """Stems before the first verb; none where there is no verb."""
    stems = [lemma(token) for token in text.tokens]
    places = [place for place, stem in enumerate(stems) if stem in verbs]
    return frozenset(stems[: places[0]]) if places else frozenset()


def _own(fact: Fact, core: frozenset[str], verbs: frozenset[str]) -> frozenset[str]:
    """The core of an item: its own, and of its frame what is neither verb nor number."""
    item = frozenset(_stems(read(fact.item))) & core
    frame = {stem for stem in core - item if stem not in verbs and not _is_number(stem)}
    return item | frame if item else core


def _is_number(stem: str) -> bool:
    return bool(read(stem).numbers)


def _value(text: str, core: frozenset[str]) -> str:
    if not core:
        return text
    parts = text.split()
    telling = [place for place, part in enumerate(parts) if core.intersection(map(lemma, read(part).tokens))]
    return " ".join(parts[telling[0] : telling[-1] + 1]) if telling else text


def _numbers(text: Text) -> frozenset[float]:
    found = set()
    for number in text.numbers:
        first = text.tokens[number.start]
        # "the odd one out" names no number.
        if number.value != 1.0 or first[0].isdigit():
            below = number.start > 0 and text.tokens[number.start - 1] in ("minus", "минус")
            found.add(-number.value if below else number.value)
    return frozenset(found)


def _spelled(text: Text) -> frozenset[str]:
    """Stems of the words that name numbers, in digits or letters."""
    named = {lemma(text.tokens[i]) for number in text.numbers for i in range(number.start, number.stop)}
    return frozenset(named | {"minus", lemma("минус")})


def _part(stems: frozenset[str], question: Asked) -> int | None:
    shares = [len(stems & part) / len(part) if part else 0.0 for part in question.parts]
    best = max(shares, default=0.0)
    return shares.index(best) if best >= 0.5 and shares.count(best) == 1 else None
