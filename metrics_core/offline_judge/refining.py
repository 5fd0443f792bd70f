"""Facts of an answer, cut as finely as the facts of the references on the same matter are.

"It was held in Russia in June" is one fact to a grammar, and two where a reference says "Russia": what was asked, and
more. Only phrases are cut off, at verbs, commas and prepositions: "red apples" stays more than "apples".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from answerkey.metrics_core.offline_judge.alignment import HIT, alike
from answerkey.metrics_core.offline_judge.claims import Asked, Claim
from answerkey.metrics_core.offline_judge.enumerations import Fact
from answerkey.metrics_core.offline_judge.grammar import SUBORDINATE
from answerkey.metrics_core.offline_judge.verbs import PREPOSITIONS, tagged

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
    """`claims` of an answer, those that say more than a reference fact taken apart: the fact, and the rest."""
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
    """The fewest phrases side by side that say all of `wanted`, the first such."""
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
    found = Claim.of(Fact(said), question)
    before, after = ("… " if start else ""), (" …" if stop < len(claim.fact.text) else "")
    shown = replace(
        found,
        fact=Fact(f"{before}{said}{after}", claim.fact.item),
        part=claim.part,
        bare=True,
        negated=claim.negated,
        denies=claim.denies,
        limits=found.limits | (claim.limits & {"unsure"}),
    )
    return _Phrase(start, stop, shown)


def _rest(claim: Claim, taken: Sequence[_Phrase]) -> list[Claim]:
    """What is left of a claim, where it says anything."""
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
