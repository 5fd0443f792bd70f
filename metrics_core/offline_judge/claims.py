"""Facts read against the question, and facts of an answer cut as finely as those of the references.

To "How old is Ada?" the facts "She is 96" and "96 years old" are the same. What a fact says beyond the question is
its core; the part of the question that it answers is its slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from answerkey.metrics_core.offline_judge.alignment import HIT, alike
from answerkey.metrics_core.offline_judge.facts import Fact
from answerkey.metrics_core.offline_judge.numbers_dates import Date
from answerkey.metrics_core.offline_judge.reading import Text, lemma, parts_of, question_kind, read
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
    """A question, read once: its stems, those that distinguish its parts, whether yes or no answers it, or a year.

    >>> question = Asked.of("Is Ada old?")
    >>> question.closed, question.year
    (True, False)
    """

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
        """Read a question; a missing one has no parts. `closed`: its references say yes or no."""
        read_ = read(question or "")
        parts = [frozenset(_stems(read(part))) for part in parts_of(question)]
        common = frozenset.intersection(*parts) if len(parts) > 1 else frozenset()
        return Asked(
            question or "",
            frozenset(map(lemma, read_.tokens)),
            tuple(part - common for part in parts),
            closed or question_kind(read_) == "closed",
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

    >>> question = Asked.of("How old is Ada?")
    >>> Claim.of(Fact("She is 96"), question).value
    '96'
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
        """Read a fact. `said`: the cores of the facts before it, which its subject may repeat."""
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
        """Equal for facts of one text that say the same thing."""
        return (self.core or self.value, self.numbers, self.limits, self.denies)


def says_yes_or_no(text: str) -> bool:
    """Whether a reference replies with yes or no.

    >>> says_yes_or_no("No, whales are mammals.")
    True
    """
    first = read(text).tokens[:1]
    return bool(first) and first[0] in _YES | _NO


def claims_of(facts: Sequence[Fact], question: Asked, *, given: bool = False) -> tuple[Claim, ...]:
    """The facts of one text as claims.

    Sentences that only repeat the question are dropped, and repeated facts kept once; facts that are `given` are all
    kept.

    >>> question = Asked.of("How old is Ada?")
    >>> [claim.value for claim in claims_of([Fact("Ada is old"), Fact("She is 96")], question)]
    ['96']
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


def _stems(text: Text) -> list[str]:
    # "die" is an article in German and a verb in this grammar.
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
    values = set()
    for number in text.numbers:
        first = text.tokens[number.start]
        # "the odd one out" names no number.
        if number.value != 1.0 or first[0].isdigit():
            below = number.start > 0 and text.tokens[number.start - 1] in ("minus", "минус")
            values.add(-number.value if below else number.value)
    return frozenset(values)


def _spelled(text: Text) -> frozenset[str]:
    """Stems of the words that name numbers, in digits or letters."""
    named = {lemma(text.tokens[i]) for number in text.numbers for i in range(number.start, number.stop)}
    return frozenset(named | {"minus", lemma("минус")})


def _part(stems: frozenset[str], question: Asked) -> int | None:
    shares = [len(stems & part) / len(part) if part else 0.0 for part in question.parts]
    best = max(shares, default=0.0)
    return shares.index(best) if best >= 0.5 and shares.count(best) == 1 else None


_TOGETHER = frozenset(("of", "than", "about", "о", "об", "чем"))
"""Prepositions that bind what stands before and after them."""
_LONGEST_GROUP = 3
"""Phrases that one fact of a reference may spread over."""


@dataclass(frozen=True, slots=True)
class _Phrase:
    start: int
    stop: int
    claim: Claim


def refined(claims: Sequence[Claim], references: Iterable[Claim], question: Asked) -> tuple[Claim, ...]:
    """The `claims` of an answer; one that says more than a fact of a reference is split into that fact and the rest.

    >>> question = Asked.of("Where was it held?")
    >>> [russia] = claims_of([Fact("Russia")], question)
    >>> whole = claims_of([Fact("It was held in Russia from June to July")], question)
    >>> [claim.fact.text for claim in refined(whole, [russia], question)]
    ['… in Russia …', 'It was held … from June to July']
    """
    wanted = sorted(
        {claim for claim in references if claim.core}, key=lambda one: (-len(one.nouns), one.value, one.fact.text)
    )
    return tuple(part for claim in claims for part in _refined(claim, wanted, question))


def _refined(claim: Claim, wanted: Sequence[Claim], question: Asked) -> list[Claim]:
    candidates = [one for one in wanted if len(one.nouns) < len(claim.nouns) and _covered(one, claim)]
    if not candidates or any(one.nouns == claim.nouns for one in wanted):
        return [claim]
    phrases = _phrases(claim, question)
    taken: list[_Phrase] = []
    for one in candidates:
        group = _group(one, [p for p in phrases if not any(p.start < t.stop and t.start < p.stop for t in taken)])
        if group is not None:
            taken.append(_joined(group, claim, question))
    if not taken:
        return [claim]
    taken.sort(key=lambda phrase: phrase.start)
    return [*(phrase.claim for phrase in taken), *_rest(claim, taken)]


def _phrases(claim: Claim, question: Asked) -> list[_Phrase]:
    text = claim.fact.text
    cuts = {0}
    for token, word, verb in tagged(text):
        if verb or word == ",":
            cuts |= {token.start(), token.end()}
        elif (word in PREPOSITIONS and word not in _TOGETHER) or word in SUBORDINATE:
            cuts.add(token.start())
    places = [*sorted(cuts), len(text)]
    spans = [(a, b) for a, b in pairwise(places) if text[a:b].strip(" ,")]
    return [_Phrase(a, b, Claim.of(Fact(text[a:b].strip(" ,")), question)) for a, b in spans]


def _group(wanted: Claim, phrases: Sequence[_Phrase]) -> list[_Phrase] | None:
    """The first of the shortest runs of phrases that together say all of `wanted`."""
    for size in range(1, _LONGEST_GROUP + 1):
        for place in range(len(phrases) - size + 1):
            group = list(phrases[place : place + size])
            together = all(a.stop == b.start for a, b in pairwise(group))
            if together and _covered(wanted, *(phrase.claim for phrase in group)):
                return group
    return None


def _covered(wanted: Claim, *claims: Claim) -> bool:
    stems = [stem for claim in claims for stem in claim.core]
    numbers = {number for claim in claims for number in claim.numbers}
    return wanted.numbers <= numbers and all(
        any(alike(stem, other) >= HIT for other in stems) for stem in wanted.nouns if not stem.lstrip("-").isdigit()
    )


def _joined(group: Sequence[_Phrase], claim: Claim, question: Asked) -> _Phrase:
    start, stop = group[0].start, group[-1].stop
    said = claim.fact.text[start:stop].strip(" ,")
    read_alone = Claim.of(Fact(said), question)
    before, after = ("… " if start else ""), (" …" if stop < len(claim.fact.text) else "")
    shown = replace(
        read_alone,
        fact=Fact(f"{before}{said}{after}", claim.fact.item),
        part=claim.part,
        bare=True,
        negated=claim.negated,
        denies=claim.denies,
        limits=read_alone.limits | (claim.limits & {"unsure"}),
    )
    return _Phrase(start, stop, shown)


def _rest(claim: Claim, taken: Sequence[_Phrase]) -> list[Claim]:
    """What is left of a claim, if it says anything."""
    core = claim.core.difference(*(phrase.claim.core for phrase in taken))
    numbers = claim.numbers.difference(*(phrase.claim.numbers for phrase in taken))
    if not core:
        return []
    text, pieces, end = claim.fact.text, [], 0
    for phrase in taken:
        pieces.append(text[end : phrase.start].strip(" ,"))
        end = phrase.stop
    pieces.append(text[end:].strip(" ,"))
    shown = " … ".join(pieces).strip()
    nouns = claim.nouns & core or core
    rest = replace(claim, fact=Fact(shown, claim.fact.item), value=shown, dates=(), part=None, bare=False)
    return [replace(rest, core=core, nouns=nouns, plain=claim.plain & nouns, numbers=numbers)]
