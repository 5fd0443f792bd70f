"""The rules that find a match."""

from __future__ import annotations

import re

from answerkey.metrics_core.offline_judge.alignment import acronym_inside, alias_inside
from answerkey.metrics_core.offline_judge.case import Case, Finding, clear
from answerkey.metrics_core.offline_judge.quantities import only_quantity
from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.stance import hedges, polarity, says
from answerkey.metrics_core.offline_judge.vocabulary import TITLES


def same_text(case: Case) -> Finding | None:
    """Equal but for form and articles."""
    if case.answer.content_stems and _plain(case.answer) == _plain(case.reference):
        return Finding("same_text", "match", "the answer equals the reference but for its form")
    return None


def _plain(text: Text) -> tuple[str, ...]:
    return tuple(token for token in text.tokens if token not in ("the", "a", "an"))


def same_answer(case: Case) -> Finding | None:
    """Equal without what the question says: "The capital of France is Paris" and "Paris"."""
    wanted = case.reference.content_stems
    contradicts = says(case.reference) != 0 and polarity(case.reference, case.answer, case.question) <= 0
    if clear(case) and wanted and not contradicts and _same_words(case):
        return Finding("same_answer", "match", "without what the question says, the answer is the reference")
    return None


_LIST = re.compile(r"[,;/&]|\b(?:and|und|et|y|и)\b")


def _same_words(case: Case) -> bool:
    """In the same order, but for lists: "Ada beat Eve" is not "Eve beat Ada"."""
    said, wanted = case.residue, case.reference.content_stems
    return said == wanted or (sorted(said) == sorted(wanted) and _LIST.search(case.reference.normal) is not None)


def same_polarity(case: Case) -> Finding | None:
    """The reference is a bare yes or no, and the answer says the same: "No" and "The shop is not open"."""
    bare = len(case.reference.tokens) == 1 and says(case.reference) != 0
    if bare and polarity(case.reference, case.answer, case.question) > 0 and not hedges(case.answer.normal):
        return Finding("same_polarity", "match", "both say yes, or both no")
    return None


def same_number(case: Case) -> Finding | None:
    """Both are one number with its unit and no more: "100" and "one hundred", "5 km" and "5,000 metres"."""
    wanted = only_quantity(case.reference, frozenset())
    said = only_quantity(case.head, frozenset(case.question.stems))
    if wanted is None or said is None or not clear(case) or not said.equals(wanted):
        return None
    return Finding("same_number", "match", "the answer names the same number")


def same_date(case: Case) -> Finding | None:
    """The answer's date says all that the reference's says: "18 May 2018" and "May 2018"."""
    wanted, said = case.reference.dates, case.head.dates
    if len(wanted) != 1 or len(said) != 1 or not clear(case):
        return None
    inside = range(wanted[0].start, wanted[0].stop)
    if any(i not in inside for i in case.reference.content) or not said[0].covers(wanted[0]):
        return None
    return Finding("same_date", "match", "the answer names the same date")


def alias(case: Case) -> Finding | None:
    """Another name, from the list."""
    short = len(case.residue) <= len(case.head.content) and len(case.residue) <= 6
    if short and clear(case) and alias_inside(case.reference.normal, case.head.normal):
        return Finding("alias", "match", "the answer uses another name of the reference")
    return None


def acronym(case: Case) -> Finding | None:
    """ "WHO" and "World Health Organization"."""
    if len(case.residue) <= 3 and clear(case) and acronym_inside(case.reference, case.head):
        return Finding("acronym", "match", "one is the acronym of the other")
    return None


def part_of_name(case: Case) -> Finding | None:
    """ "Da Vinci" for "Leonardo da Vinci": the last words of a person's name."""
    wanted, said = case.reference, case.residue
    if not said or not _asks_who(case.question) or wanted.numbers or not clear(case):
        return None
    stems = wanted.content_stems
    name = [s for s, t in zip(stems, (wanted.tokens[i] for i in wanted.content), strict=False) if t not in TITLES]
    capital = all(word[:1].isupper() for word in wanted.raw.split() if len(word) > 3)
    if (
        capital
        and 2 <= len(name) <= 5
        and len(said[-1]) > 2
        and len(said) < len(name)
        and name[-len(said) :] == list(said)
    ):
        return Finding("part_of_name", "match", "the answer is the family name of the reference")
    return None


def _asks_who(question: Text) -> bool:
    return bool({"who", "whose", "whom", "кто", "кем", "кого", "чей", "кому"} & set(question.tokens))
