"""The last step of the fact grammar: "Amy likes apples, berries and plums" states three facts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.offline_judge import grammar
from answerkey.metrics_core.offline_judge.questions import asks_several
from answerkey.metrics_core.offline_judge.verbs import PREPOSITIONS, boundary, first_verb
from answerkey.metrics_core.offline_judge.vocabulary import FUNCTION_WORDS
from answerkey.metrics_core.text import words


@dataclass(frozen=True, slots=True)
class Fact:
    """One claim.

    Attributes:
        text: the claim, with what an enumeration says of all its items.
        item: the item alone, where this is one of an enumeration: another one beside it is no contradiction.
    """

    text: str
    item: str = ""


_EMPTY = FUNCTION_WORDS | {"etc", "too"}


def items(clause: str, question: str | None) -> list[Fact]:
    """The facts of a clause: its items where it enumerates, else the one that it is."""
    pieces = [piece.strip() for piece in grammar.SEPARATOR.split(clause) if set(words(piece)) - _EMPTY]
    joined = grammar.COORDINATOR.search(clause) is not None
    # "A, B or C" is one claim; "A, B or C, and D" has two items.
    if len(pieces) < 2 or (grammar.ALTERNATIVES.search(clause) and not joined):
        return [Fact(clause)]
    if any(piece.split()[0].casefold() in grammar.SUBORDINATE for piece in pieces[1:]):
        return [Fact(clause)]
    verbs = [first_verb(piece) for piece in pieces]
    if all(verb is not None and not verb.start() for verb in verbs):
        # "born in 1815, died in 1852"
        return [Fact(piece) for piece in pieces]
    if not any(verbs):
        return _bare_list(clause, pieces, question, joined=joined)
    if verbs[-1] is not None and not any(verbs[:-1]) and joined and verbs[-1].start():
        cut = verbs[-1].start()
        tail = pieces[-1][cut:].strip()
        return [Fact(f"{piece.strip()} {tail}", piece) for piece in [*pieces[:-1], pieces[-1][:cut]]]
    return _afterfirst_verb(clause, pieces, verbs, joined=joined)


def _bare_list(clause: str, pieces: Sequence[str], question: str | None, *, joined: bool) -> list[Fact]:
    """No verb: "red, green and blue". Two pieces with a comma alone may be "Paris, France"."""
    several = joined or len(pieces) > 2 or ";" in clause or asks_several(question)
    numeric = {any(map(str.isdigit, piece)) for piece in pieces}
    if not several and numeric == {False}:
        return [Fact(clause)]
    head = pieces[0]
    start = 0
    if ": " in head:
        start = head.index(": ") + 2
    first = pieces[1].split()[0].casefold()
    if not start and first in PREPOSITIONS and not head.casefold().startswith(first):
        start = boundary(head, first)
    lead = head[:start].strip()
    return [Fact(f"{lead} {piece}".strip(), piece) for piece in [head[start:], *pieces[1:]]]


def _afterfirst_verb(
    clause: str, pieces: Sequence[str], verbs: Sequence[re.Match[str] | None], *, joined: bool
) -> list[Fact]:
    """The items after the last piece with a verb share what stands before the first of them."""
    place = max(n for n, verb in enumerate(verbs) if verb is not None)
    rest = pieces[place + 1 :]
    if not rest or not (joined or len(rest) > 1):
        return [Fact(clause)]
    before = ", ".join(pieces[:place])
    head = pieces[place]
    colon = head.rfind(": ")
    start = colon + 2 if colon >= 0 else boundary(head, rest[-1].split()[0].casefold())
    frame = f"{before}, {head[:start]}".strip(" ,") if before else head[:start].strip()
    if not head[start:].strip():
        return [Fact(clause)]
    return [Fact(f"{frame} {piece.strip()}".strip(), piece) for piece in [head[start:], *rest]]
