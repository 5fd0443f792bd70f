"""The rules that decide before the model. Each has an id, and compares one answer with one reference."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.alignment import HIT, LONGEST_REFERENCE, alike
from answerkey.metrics_core.offline_judge.numbers_dates import LONGEST_NUMBER, Date, Quantity, clock, quantities
from answerkey.metrics_core.offline_judge.reading import Text, asks_how_many, asks_several, lemma, read, sentences
from answerkey.metrics_core.offline_judge.stance import (
    SHELL_WORDS,
    declines,
    hedges,
    is_refusal,
    polarity,
    says,
    shelled,
)
from answerkey.metrics_core.offline_judge.vocabulary import (
    ALTERNATIVE_WORDS,
    AUXILIARIES,
    FUNCTION_WORDS,
    NEGATIONS,
    UNIT_WORDS,
    word_list,
)

RuleId = Literal[
    "same_text", "same_answer", "same_number", "same_date",
    "refusal", "hedged", "negated", "opposite", "other_list", "other_number", "other_date",
]  # fmt: skip
"""The rules, those for a match first."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of a rule, with its reason.

    >>> decide(Case.of(read("Which city?"), read("It is not Paris."), read("Paris")))
    Ruling(rule='negated', verdict='mismatch', reason='the answer denies what the reference says')
    """

    rule: RuleId
    verdict: MatchVerdict
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """An answer and a reference.

    `head` is the first sentence of the answer without its introduction, `residue` its content stems that the question
    does not have, `accepted` the stems of all references, `dates` their dates.

    >>> case = Case.of(read("Who painted it?"), read("It was Leonardo. He was old."), read("Leonardo"))
    >>> case.head.raw, case.residue
    ('Leonardo.', ('leonardo',))
    """

    question: Text
    answer: Text
    reference: Text
    head: Text
    residue: tuple[str, ...]
    accepted: frozenset[str] = frozenset()
    dates: frozenset[Date] = frozenset()

    @staticmethod
    def of(
        question: Text,
        answer: Text,
        reference: Text,
        accepted: frozenset[str] = frozenset(),
        dates: frozenset[Date] = frozenset(),
    ) -> Case:
        """Find the head of the answer, and its residue."""
        head = read(shelled(sentences(answer.raw)[0]))
        return Case(question, answer, reference, head, _residue(head, question, reference), accepted, dates)


def _residue(head: Text, question: Text, reference: Text) -> tuple[str, ...]:
    """The content stems of the head that are neither in the question nor introductory."""
    given = question.stem_set - reference.stem_set
    return tuple([stem for stem in head.said if stem not in given and stem not in SHELL_WORDS])


def clear(case: Case) -> bool:
    """Whether the answer is plain: without choices or doubts, and with a head that is negated only if the reference is.

    >>> clear(Case.of(read("Which city?"), read("Paris or London"), read("Paris")))
    False
    """
    choices = ALTERNATIVE_WORDS.intersection(case.head.tokens)
    choice = bool(choices and choices.difference(case.reference.tokens, case.question.tokens))
    return case.head.negated == case.reference.negated and not choice and not hedges(case.answer.normal)


def same_text(case: Case) -> Ruling | None:
    """The texts are equal apart from form and articles."""
    if case.answer.content_stems and _plain(case.answer) == _plain(case.reference):
        return Ruling("same_text", "match", "the answer equals the reference but for its form")
    return None


def _plain(text: Text) -> tuple[str, ...]:
    return tuple([token for token in text.tokens if token not in ("the", "a", "an")])


def same_answer(case: Case) -> Ruling | None:
    """The texts are equal without what the question says: "The capital of France is Paris" and "Paris"."""
    if not case.reference.content_stems or not _same_words(case) or not clear(case):
        return None
    if says(case.reference) == 0 or polarity(case.reference, case.answer, case.question) > 0:
        return Ruling("same_answer", "match", "without what the question says, the answer is the reference")
    return None


_LIST = re.compile(r"[,;/&]|\b(?:and|und|et|y|и)\b")


def _same_words(case: Case) -> bool:
    """In the same order, except in lists: "Ada beat Eve" is not "Eve beat Ada"."""
    stated, wanted = case.residue, case.reference.content_stems
    if len(stated) != len(wanted):
        return False
    return stated == wanted or (sorted(stated) == sorted(wanted) and _LIST.search(case.reference.normal) is not None)


def same_number(case: Case) -> Ruling | None:
    """Both are a single number with its unit: "100" and "one hundred", "5 km" and "5,000 metres"."""
    wanted = only_quantity(case.reference, frozenset())
    stated = only_quantity(case.head, case.question.stem_set) if wanted else None
    if wanted is None or stated is None or not clear(case) or not stated.equals(wanted):
        return None
    return Ruling("same_number", "match", "the answer names the same number")


def same_date(case: Case) -> Ruling | None:
    """The answer's date states all that the reference's states: "18 May 2018" and "May 2018"."""
    wanted, stated = case.reference.dates, case.head.dates
    if len(wanted) != 1 or len(stated) != 1 or not clear(case):
        return None
    inside = range(wanted[0].start, wanted[0].stop)
    if any(i not in inside for i in case.reference.content) or not stated[0].covers(wanted[0]):
        return None
    # "2004" beside "June 11, 2004" does not let "August 27, 2004" pass: the finer reference knows better.
    finer = [date for date in case.dates if date.covers(wanted[0]) and date.parts > wanted[0].parts]
    if finer and stated[0].parts > wanted[0].parts and not any(stated[0].agrees(date) for date in finer):
        return Ruling("other_date", "mismatch", "the answer names another date")
    return Ruling("same_date", "match", "the answer names the same date")


def only_quantity(text: Text, given: frozenset[str]) -> Quantity | None:
    """The single quantity of a text that says nothing else, apart from the `given` stems; otherwise None.

    >>> only_quantity(read("the answer is 5 km"), frozenset())
    Quantity(value=5.0, unit='kilometre')
    """
    named = quantities(text.tokens, text.numbers) if text.numbers else ()
    if len(named) != 1:
        return None
    spelled = {i for number in text.numbers for i in range(number.start, number.stop)}
    for i in text.content:
        token, stem = text.tokens[i], text.stems[i]
        if i not in spelled and token not in UNIT_WORDS and stem not in given and stem not in SHELL_WORDS:
            return None
    loose = [UNIT_WORDS[token] for token in text.tokens if token in UNIT_WORDS]
    return named[0] if named[0].unit or len(set(loose)) != 1 else Quantity(named[0].value, loose[0])


def _has_reference(case: Case, text: Text) -> bool:
    return all(any(alike(s, t) >= HIT for t in text.stem_set) for s in case.reference.content_stems)


def refusal(case: Case) -> Ruling | None:
    """The answer declines and says nothing else."""
    if declines(case.answer, case.question) and not _says_more(case) and not _has_reference(case, case.answer):
        return Ruling("refusal", "refusal", "the answer declines to answer")
    return None


_BUT = re.compile(r",?\s(?:but|however|although|yet|но|однако)\b,?\s*", re.IGNORECASE)


def _says_more(case: Case) -> bool:
    """Whether a sentence neither declines nor only repeats the question: "As an AI ... However, it is 5"."""
    known = case.question.stem_set
    for sentence in sentences(case.answer.raw):
        for clause in _BUT.split(sentence):
            part = read(clause) if clause.strip() else case.question
            new = [i for i in part.content if part.stems[i] not in known]
            if not is_refusal(part.normal) and (len(new) >= 3 or part.names.intersection(part.stems[i] for i in new)):
                return True
    return False


def hedged(case: Case) -> Ruling | None:
    """A short answer expresses doubt; in a long one, the doubt may be about something else."""
    if len(case.answer.tokens) <= 30 and hedges(case.head.normal) and not hedges(case.question.normal):
        return Ruling("hedged", "hedged", "the answer says itself that it is not sure")
    return None


_CLAUSE = re.compile(
    r"[,;:()—]|\.\s|\s-\s"
    r"|\b(?:but|although|though|while|because|until|before|except|than|since|и|но|а|пока|до|кроме)\b"
)
_MILD = word_list("mild")
_DENYING = word_list("denying")
_FARTHEST = 4
"""Tokens between a negation and what it denies."""


def negated(case: Case) -> Ruling | None:
    """ "It is not Paris": a negation shortly before the only mention of the reference, in the same clause."""
    if case.reference.negated or not _may_deny(case.answer.normal):
        return None
    if _right_before(case) or (not case.question.negated and (_in_clause(case) or _right_after(case))):
        return Ruling("negated", "mismatch", "the answer denies what the reference says")
    return None


@lru_cache(maxsize=16_384)
def _may_deny(normal: str) -> bool:
    """Whether a text contains the letters of a denying word: most answers do not, and need no closer look."""
    bare = normal if normal.isascii() else unicodedata.normalize("NFD", normal)
    letters = bare if bare.isascii() else "".join(c for c in bare if not unicodedata.combining(c))
    return any(word in letters for word in _DENYING)


def _right_before(case: Case) -> bool:
    """Whether only function words stand between the negation and the whole reference."""
    stems, wanted = [case.answer.stems[i] for i in case.answer.content], case.reference.content_stems
    tokens = [case.answer.tokens[i] for i in case.answer.content]
    spots = [i for i in range(len(stems) - len(wanted) + 1) if tuple(stems[i : i + len(wanted)]) == wanted]
    mild = _MILD & set(case.answer.tokens)
    return len(spots) == 1 and spots[0] > 0 and tokens[spots[0] - 1] in _DENYING and not mild


def _right_after(case: Case) -> bool:
    """ "Ada Brown did not write it": the reference, an auxiliary, a negation, and no more than what was asked."""
    if not case.reference.stems:
        return False
    asked_for = {lemma(token) for token in case.question.tokens}
    for part in _CLAUSE.split(case.answer.normal):
        clause = read(part)
        wanted = tuple(clause.stems[i] for i in range(len(clause.stems)) if clause.stems[i] in case.reference.stems)
        rest = clause.tokens[len(wanted) :]
        if wanted != case.reference.stems or clause.stems[: len(wanted)] != wanted or _MILD & set(rest):
            continue
        denied = len(rest) > 1 and rest[0] in AUXILIARIES and rest[1] in _DENYING
        if denied and {lemma(token) for token in rest[2:] if token not in FUNCTION_WORDS} <= asked_for:
            return case.answer.stems.count(wanted[0]) == 1
    return False


def _in_clause(case: Case) -> bool:
    wanted = set(case.reference.content_stems)
    if not wanted:
        return False
    clauses = [read(part) for part in _CLAUSE.split(case.answer.normal) if part.strip()]
    holding = [clause for clause in clauses if wanted <= set(clause.stems)]
    mentions = case.answer.stems.count(case.reference.content_stems[0])
    if len(holding) != 1 or mentions != 1 or _MILD & set(holding[0].tokens):
        return False
    at = min(i for i, stem in enumerate(holding[0].stems) if stem in wanted)
    return bool(_DENYING & set(holding[0].tokens[max(0, at - 1 - _FARTHEST) : at]))


def opposite(case: Case) -> Ruling | None:
    """One says yes, the other no; or the reference denies what the answer says in the same words."""
    if polarity(case.reference, case.answer, case.question) < 0:
        return Ruling("opposite", "mismatch", "one says yes, the other no")
    reference = case.reference
    if not reference.negated or case.answer.negated:
        return None
    denied = {reference.stems[i] for i in reference.content if reference.tokens[i] not in NEGATIONS}
    if len(denied) > 1 and denied.issubset(case.answer.stems):
        return Ruling("opposite", "mismatch", "the answer says what the reference denies")
    return None


_LIST_MARK = re.compile(r"\s*[,;]\s+|,?\s(?:and|и|und|et|y)\s")
_AND_BEHIND_COMMA = re.compile(r",.*\s(?:and|и|und|et|y)\s")


def other_list(case: Case) -> Ruling | None:
    """The reference is a list ("red, yellow and blue"); the answer has only a part of it, or other numbers."""
    items = _items(case.reference.normal)
    if len(items) < 2 or len(case.reference.stems) > LONGEST_REFERENCE:
        return None
    wanted_numbers, numbers = ({n.value for n in text.numbers} for text in (case.reference, case.head))
    only_numbers = len(wanted_numbers) == len(items) and len(numbers) >= len(case.residue)
    several = _AND_BEHIND_COMMA.search(case.reference.normal) or asks_several(case.question.raw)
    if not (several or only_numbers) or case.reference.dates or not case.residue or not clear(case):
        return None
    stated, wanted = case.answer.stems, case.reference.stems
    present = [any(alike(one, other) >= HIT for one in item for other in stated) for item in items]
    others = [one for one in case.residue if not any(alike(one, stem) >= HIT for stem in wanted)]
    if len(stated) > len(wanted) + len(case.question.stems) or not (any(present) or numbers & wanted_numbers):
        return None
    if (not others and not all(present)) or (only_numbers and numbers != wanted_numbers):
        return Ruling("other_list", "partial", "the answer does not list what the reference lists")
    return None


# References come again with every answer.
@lru_cache(maxsize=16_384)
def _items(normal: str) -> tuple[tuple[str, ...], ...]:
    """The content stems of each item of what may be a list."""
    return tuple(read(item).content_stems for item in _LIST_MARK.split(normal) if item.strip(" ."))


_OTHER_NUMBER = Ruling("other_number", "mismatch", "the answer names another number")


def other_number(case: Case) -> Ruling | None:
    """Both name a number of the same kind, a time of day, an identifier or a numbered thing, and these differ."""
    times = clock(case.reference.normal), clock(case.answer.normal)
    if (None not in times and times[0] != times[1]) or _other_identifier(case):
        return _OTHER_NUMBER
    if case.reference.dates or not case.reference.numbers:
        return None
    if _other_label(case):
        return _OTHER_NUMBER
    wanted, stated = (
        quantities(case.reference.tokens, case.reference.numbers),
        quantities(case.head.tokens, case.head.numbers),
    )
    given = {number.value for number in case.question.numbers}
    stated = [quantity for quantity in stated if quantity.value not in given]
    everywhere = quantities(case.answer.tokens, case.answer.numbers)
    if len(wanted) != 1 or len(stated) != 1 or any(q.near(wanted[0]) for q in everywhere):
        return None
    asks = frozenset(UNIT_WORDS[token] for token in case.question.tokens if token in UNIT_WORDS)
    return _OTHER_NUMBER if stated[0].comparable(wanted[0], asks) and _about_the_same(case) else None


def _other_identifier(case: Case) -> bool:
    """Whether long tokens with digits differ, such as identifiers, in which every digit counts."""
    wanted = _identifiers(case.reference)
    stated = _identifiers(case.answer) if wanted else wanted
    return bool(stated) and wanted.isdisjoint(stated)


def _identifiers(text: Text) -> frozenset[str]:
    return frozenset(token for token in text.tokens if len(token) > LONGEST_NUMBER and any(map(str.isdigit, token)))


def _about_the_same(case: Case) -> bool:
    """Whether answer or question have the other words of the reference: "3000 BC" and "page 1" do not compete."""
    spans = [(one.start, one.stop) for one in case.reference.numbers] + [
        (d.start, d.stop) for d in case.reference.dates
    ]
    spelled = {i for start, stop in spans for i in range(start, stop)}
    beside = [i for i in case.reference.content if i not in spelled and case.reference.tokens[i] not in UNIT_WORDS]
    known = {*case.answer.stems, *case.question.stems}
    return known.issuperset(case.reference.stems[i] for i in beside)


def _other_label(case: Case) -> bool:
    """ "Python 3.12" for "Python 3.11": the reference is one word and a number, the answer has the word and another."""
    if len(case.reference.content) != 2 or len(case.reference.numbers) != 1 or case.reference.tokens[0] in UNIT_WORDS:
        return False
    word, number = case.reference.tokens[case.reference.content[0]], case.reference.numbers[0]
    if not word.isalpha() or number.start != case.reference.content[1]:
        return False
    labels = {one.value for one in case.answer.numbers if one.start and case.answer.tokens[one.start - 1] == word}
    return bool(labels) and number.value not in {one.value for one in case.answer.numbers}


def other_date(case: Case) -> Ruling | None:
    """Both name a date, and no date of the answer agrees with that of the reference."""
    wanted, stated = case.reference.dates, case.head.dates
    # "1,000" is not a year where the question is how many.
    if len(wanted) != 1 or len(stated) != 1 or asks_how_many(case.question):
        return None
    if any(date.agrees(wanted[0]) for date in case.answer.dates) or not _about_the_same(case):
        return None
    return Ruling("other_date", "mismatch", "the answer names another date")


RULES_VERSION = 3
"""Increase it whenever the decision of a rule changes: it is part of the signature."""

FOR_A_MATCH = frozenset(("same_text", "same_answer", "same_number", "same_date"))
AGAINST_ANSWER = frozenset(("refusal", "hedged"))
"""Rules against an answer as a whole; other rules against a match concern a single reference."""

RULES: tuple[Callable[[Case], Ruling | None], ...] = (
    same_text, refusal, hedged, negated, opposite, same_answer, same_number, same_date,
    other_list, other_number, other_date,
)  # fmt: skip


def decide(case: Case) -> Ruling | None:
    """The ruling of the first rule that decides, or None if the model has to.

    >>> decide(Case.of(read("How many?"), read("one hundred"), read("100"))).rule
    'same_number'
    >>> decide(Case.of(read("What do bees make?"), read("a sweet food"), read("honey"))) is None
    True
    """
    for rule in RULES:
        ruling = rule(case)
        if ruling is not None:
            return ruling
    return None
