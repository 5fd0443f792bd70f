"""The rules that find no match: refusals, doubts, alternatives, denials, other numbers and dates."""

from __future__ import annotations

import re

from answerkey.metrics_core.offline_judge.alignment import HIT, alike
from answerkey.metrics_core.offline_judge.case import Case, Finding, clear
from answerkey.metrics_core.offline_judge.claims import lemma
from answerkey.metrics_core.offline_judge.kinds import asked
from answerkey.metrics_core.offline_judge.numbers_dates import LONGEST_NUMBER
from answerkey.metrics_core.offline_judge.quantities import clock, quantities
from answerkey.metrics_core.offline_judge.questions import asks_several
from answerkey.metrics_core.offline_judge.reading import Text, read, sentences
from answerkey.metrics_core.offline_judge.stance import SHELL_WORDS, declines, hedges, is_refusal, polarity
from answerkey.metrics_core.offline_judge.verbs import AUXILIARIES
from answerkey.metrics_core.offline_judge.vocabulary import (
    ALTERNATIVE_WORDS,
    FUNCTION_WORDS,
    NEGATIONS,
    UNIT_WORDS,
    word_set,
)


def _has_reference(case: Case, text: Text) -> bool:
    return all(any(alike(s, t) >= HIT for t in text.stems) for s in case.reference.content_stems)


def refusal(case: Case) -> Finding | None:
    """It declines and says nothing else."""
    if declines(case.answer, case.question) and not _says_more(case) and not _has_reference(case, case.answer):
        return Finding("refusal", "refusal", "the answer declines to answer")
    return None


def _says_more(case: Case) -> bool:
    """A sentence that declines nothing and is not about the question alone: "As an AI ... However, it is 5"."""
    known = frozenset(case.question.stems)
    for sentence in sentences(case.answer.raw):
        part = read(sentence)
        if not is_refusal(part.normal) and len([i for i in part.content if part.stems[i] not in known]) >= 3:
            return True
    return False


def hedged(case: Case) -> Finding | None:
    """Only a short answer: in a long one, a doubt may be about something beside the point."""
    if len(case.answer.tokens) <= 30 and hedges(case.head.normal) and not hedges(case.question.normal):
        return Finding("hedged", "hedged", "the answer says itself that it is not sure")
    return None


_EITHER = word_set("either либо entweder")
_CALLED = word_set("called known referred termed называют называется называются")


def alternatives(case: Case) -> Finding | None:
    """ "Paris or London", where the reference is one of them; "called A or B" gives two names of one thing."""
    tokens = case.head.tokens
    longest = 20 if _EITHER & set(tokens) else 12
    if len(tokens) > longest or not ALTERNATIVE_WORDS & set(tokens) or ALTERNATIVE_WORDS & set(case.reference.tokens):
        return None
    if _CALLED & {*tokens, *case.question.tokens}:
        return None
    at = max(i for i, token in enumerate(tokens) if token in ALTERNATIVE_WORDS)
    sides = [frozenset(case.head.stems[:at]), frozenset(case.head.stems[at + 1 :])]
    wanted = frozenset(case.reference.content_stems)
    given = frozenset(case.question.stems) | FUNCTION_WORDS | ALTERNATIVE_WORDS | SHELL_WORDS
    holds = [wanted <= side for side in sides]
    other = sides[1] if holds[0] else sides[0]
    if holds[0] == holds[1] or not other - wanted - given - case.accepted:
        return None
    return Finding("alternatives", "multiple_alternatives", "the answer offers another answer beside the reference")


_CLAUSE = re.compile(
    r"[,;:()—]|\.\s|\s-\s"
    r"|\b(?:but|although|though|while|because|until|before|except|than|since|и|но|а|пока|до|кроме)\b"
)
_MILD = word_set(
    "only just merely simply until before necessarily sure certain always longer far known clear exact "
    "только лишь просто"
)
_DENYING = word_set("not never не nicht pas jamais nunca 不 isn't wasn't aren't weren't")
_FARTHEST = 4
"""Tokens between a negation and what it denies."""


def negated(case: Case) -> Finding | None:
    """ "It is not Paris": a negation shortly before the only mention of the reference, in the same clause."""
    if case.reference.negated:
        return None
    if _right_before(case) or (not case.question.negated and (_in_clause(case) or _right_after(case))):
        return Finding("negated", "mismatch", "the answer denies what the reference says")
    return None


def _right_before(case: Case) -> bool:
    """Nothing but grammar stands between the negation and the whole reference."""
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


def opposite(case: Case) -> Finding | None:
    """One says yes, the other no; or the reference denies what the answer says in the same words."""
    if polarity(case.reference, case.answer, case.question) < 0:
        return Finding("opposite", "mismatch", "one says yes, the other no")
    reference = case.reference
    denied = {reference.stems[i] for i in reference.content if reference.tokens[i] not in NEGATIONS}
    if reference.negated and not case.answer.negated and len(denied) > 1 and denied <= {*case.answer.stems}:
        return Finding("opposite", "mismatch", "the answer says what the reference denies")
    return None


_LIST_MARK = re.compile(r"\s*[,;]\s+|,?\s(?:and|и|und|et|y)\s")
_AND_BEHIND_COMMA = re.compile(r",.*\s(?:and|и|und|et|y)\s")


def other_list(case: Case) -> Finding | None:
    """The reference is a list ("red, yellow and blue"); the answer has some of it and no more, or other numbers."""
    items = [read(item).content_stems for item in _LIST_MARK.split(case.reference.normal) if item.strip(" .")]
    wanted_numbers, numbers = ({n.value for n in text.numbers} for text in (case.reference, case.head))
    only_numbers = len(wanted_numbers) == len(items) and len(numbers) >= len(case.residue)
    several = _AND_BEHIND_COMMA.search(case.reference.normal) or asks_several(case.question.raw)
    if len(items) < 2 or not (several or only_numbers) or case.reference.dates or not case.residue or not clear(case):
        return None
    said, wanted = case.answer.stems, case.reference.stems
    found = [any(alike(one, other) >= HIT for one in item for other in said) for item in items]
    others = [one for one in case.residue if not any(alike(one, stem) >= HIT for stem in wanted)]
    if len(said) > len(wanted) + len(case.question.stems) or not (any(found) or numbers & wanted_numbers):
        return None
    if (not others and not all(found)) or (only_numbers and numbers != wanted_numbers):
        return Finding("other_list", "partial", "the answer does not list what the reference lists")
    return None


def other_number(case: Case) -> Finding | None:
    """Both name a number of the same kind of thing, a time of day, an identifier, or what a number tells apart, and
    another one.
    """
    found = Finding("other_number", "mismatch", "the answer names another number")
    times = clock(case.reference), clock(case.answer)
    if (None not in times and times[0] != times[1]) or _other_identifier(case):
        return found
    if case.reference.dates:
        return None
    if _other_label(case):
        return found
    wanted, said = quantities(case.reference), quantities(case.head)
    given = {number.value for number in case.question.numbers}
    said = [quantity for quantity in said if quantity.value not in given]
    everywhere = quantities(case.answer)
    if len(wanted) != 1 or len(said) != 1 or any(q.near(wanted[0]) for q in everywhere):
        return None
    asks = frozenset(UNIT_WORDS[token] for token in case.question.tokens if token in UNIT_WORDS)
    return found if said[0].rivals(wanted[0], asks) and _about_the_same(case) else None


def _other_identifier(case: Case) -> bool:
    """Tokens with digits that are too long for a number: one wrong digit names something else."""
    wanted, said = (
        {token for token in text.tokens if len(token) > LONGEST_NUMBER and any(map(str.isdigit, token))}
        for text in (case.reference, case.answer)
    )
    return bool(wanted and said) and wanted.isdisjoint(said)


def _about_the_same(case: Case) -> bool:
    """What the reference says beside its number, answer or question say as well: "3000 BC" is no rival of "page 1"."""
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


def other_date(case: Case) -> Finding | None:
    """Both name a date, and none of the answer's agrees with the reference's."""
    wanted, said = case.reference.dates, case.head.dates
    # "1,000" is no year where the question is how many.
    if len(wanted) != 1 or len(said) != 1 or asked(case.question) == "how_many":
        return None
    if any(date.agrees(wanted[0]) for date in case.answer.dates) or not _about_the_same(case):
        return None
    return Finding("other_date", "mismatch", "the answer names another date")
