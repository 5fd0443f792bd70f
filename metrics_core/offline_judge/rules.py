"""The rules that decide before the model. Each has an id, and compares one answer with one reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.alignment import HIT, LONGEST_REFERENCE, alike, occurs, turned_round
from answerkey.metrics_core.offline_judge.clock import times, without_times
from answerkey.metrics_core.offline_judge.formulas import formulas_differ
from answerkey.metrics_core.offline_judge.numbers_dates import (
    ADVERBS_OF_RATES,
    LONGEST_NUMBER,
    Date,
    Quantity,
    digits,
    equal,
)
from answerkey.metrics_core.offline_judge.reading import Text, asks_several, lemma, parted, read, sentences, stem
from answerkey.metrics_core.offline_judge.stance import (
    SHELL_WORDS,
    bounds,
    declines,
    hedges,
    is_refusal,
    polarity,
    shelled,
)
from answerkey.metrics_core.offline_judge.vocabulary import (
    ALTERNATIVE_WORDS,
    AUXILIARIES,
    FUNCTION_WORDS,
    NEGATIONS,
    PLACE_OR_KIND,
    TABLES,
    TITLES,
    UNIT_WORDS,
    word_list,
)
from answerkey.metrics_core.text import words_of_normalised

RuleId = Literal[
    "same_text", "same_reply", "same_number", "same_date", "stated",
    "refusal", "hedged", "negated", "opposite", "other_list", "other_number", "other_date", "other_order",
    "other_name", "other_formula",
]  # fmt: skip
"""The rules, those for a match first."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of a rule, with its reason.

    >>> decide(Case.of(read("Which city?"), read("It is not Paris."), read("Paris")))
    Ruling(rule='negated', reason='the answer denies what the reference says', verdict='mismatch')
    """

    rule: RuleId
    reason: str
    verdict: MatchVerdict = "mismatch"


@dataclass(frozen=True, slots=True)
class Case:
    """An answer and a reference.

    `head` is the first sentence of the answer without its introduction, `residue` its content stems that the question
    does not have, `dates` the dates of all references.

    >>> case = Case.of(read("Who painted it?"), read("It was Leonardo. He was old."), read("Leonardo"))
    >>> case.head.raw, case.residue
    ('Leonardo.', ('leonardo',))
    """

    question: Text
    answer: Text
    reference: Text
    head: Text
    residue: tuple[str, ...]
    dates: frozenset[Date] = frozenset()

    @staticmethod
    def of(question: Text, answer: Text, reference: Text, dates: frozenset[Date] = frozenset()) -> Case:
        """Find the head of the answer, and its residue."""
        head = read(shelled(sentences(answer.raw)[0]))
        return Case(question, answer, reference, head, _residue(head, question, reference), dates)


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


def same_text(case: Case) -> bool:
    """The texts are equal apart from form and articles."""
    alike_in_form = case.answer.raw.casefold() == case.reference.raw.casefold()
    return bool(case.answer.content_stems) and (alike_in_form or case.answer.plain == case.reference.plain)


def same_number(case: Case) -> bool:
    """Both are amounts with their units, and say the same beside them: "100" and "one hundred"."""
    return _same_amounts(case) and clear(case) and not other_bounds(case)


def same_date(case: Case) -> bool:
    """The answer's date states all that the reference's states: "18 May 2018" and "May 2018"."""
    if len(case.reference.dates) != 1 or len(case.head.dates) != 1 or not clear(case):
        return False
    [expected], [stated] = case.reference.dates, case.head.dates
    return set(case.reference.content) <= {*range(expected.start, expected.stop)} and stated.covers(expected)


def beside_date(case: Case) -> bool:
    """The answer names a time before or after the only date of the reference.

    >>> beside_date(Case.of(read("When did it open?"), read("the day after 3 May 2019"), read("3 May 2019")))
    True
    """
    dates = len(case.reference.dates) == len(case.head.dates) == 1
    is_beside, expected = (_BESIDE_A_DATE.search(text.normal) for text in (case.head, case.reference))
    return dates and bool(is_beside) and not expected


def other_date(case: Case) -> bool:
    """No date of the answer agrees with the reference, or with a finer reference for it, in year, month and day.

    "August 27, 2004" agrees with "2004", but not with the other reference "June 11, 2004". Years alone are left to the
    model, since a number of four digits may be something else.
    """
    if len(case.reference.dates) != 1 or len(case.head.dates) != 1:
        return False
    [expected], [stated] = case.reference.dates, case.head.dates
    finer = [date for date in case.dates if date.covers(expected) and stated.parts > expected.parts < date.parts]
    precise = [date for date in finer or [expected] if date.parts > 1 or date.month is not None]
    return bool(precise) and not any(
        date.agrees(reference_date) for date in case.answer.dates for reference_date in precise
    )


_BESIDE_A_DATE = re.compile(r"^(?:\w+ ){0,2}(?:before|after) (?=(?:\w+ )?\d)")


def same_time(case: Case) -> bool:
    """Both name one time of day.

    >>> same_time(Case.of(read("When?"), read("At 14:00."), read("2 pm")))
    True
    """
    expected, stated = times(case.reference.normal), times(case.head.normal)
    if len(expected) != 1 or len(stated) != 1 or not expected[0] & stated[0] or not clear(case):
        return False
    return SHELL_WORDS.issuperset(read(without_times(case.reference.normal)).said)


def other_time(case: Case) -> bool:
    """No time of day in the answer can be that of the reference.

    >>> other_time(Case.of(read("When?"), read("At 2 am."), read("2 pm")))
    True
    """
    expected, stated = times(case.reference.normal), times(case.answer.normal)
    return len(expected) == 1 and bool(stated) and not any(expected[0] & time for time in stated)


def only_quantity(text: Text, in_question: frozenset[str]) -> Quantity | None:
    """The single quantity of a text that says nothing else, apart from the stems `in_question`; otherwise None.

    >>> only_quantity(read("the answer is 5 km"), frozenset())
    Quantity(value=5.0, unit='kilometre')
    """
    if len(text.quantities) != 1 or _beside_amounts(text, in_question):
        return None
    [quantity] = text.quantities
    loose = {UNIT_WORDS[token] for token in text.tokens if token in UNIT_WORDS}
    return quantity if quantity.unit or len(loose) != 1 else Quantity(quantity.value, *loose)


def _same_amounts(case: Case) -> bool:
    return _same_beside(case) and equal(*(_answering(text, case.question) for text in (case.reference, case.head)))


def _answering(text: Text, question: Text) -> list[Quantity]:
    """The amounts of a text: to "How many miles an hour?", "20 miles an hour" is 20 miles."""
    units = "|".join(UNIT_WORDS.get(token, "-") for token in question.tokens)
    return [Quantity(quantity.value, re.sub(rf"/(?:{units})$", "", quantity.unit)) for quantity in text.quantities]


def _same_beside(case: Case) -> bool:
    """Whether reference and answer say the same beside their amounts, of which one, or each, has a unit."""
    expected, stated = case.reference.quantities, case.head.quantities
    if (
        not expected
        or len(expected) != len(stated)
        or (len(expected) > 1 and not all(quantity.unit for quantity in expected + stated))
    ):
        return False
    in_question = case.question.stem_set
    return _beside_amounts(case.reference, in_question) == _beside_amounts(case.head, in_question)


def _beside_amounts(text: Text, in_question: frozenset[str]) -> list[str]:
    """The stems of what a text says beside its amounts and the stems `in_question`."""
    counted, ignored = text.counted, in_question | SHELL_WORDS
    spelled = {i for number in counted.numbers for i in range(number.start, number.stop)}
    remaining = [counted.tokens[i] for i in counted.content if i not in spelled]
    return [
        stem(token)
        for token in remaining
        if token not in _BESIDE_AMOUNTS and ignored.isdisjoint((stem(token), lemma(token)))
    ]


_BESIDE_AMOUNTS = frozenset((*UNIT_WORDS, *ADVERBS_OF_RATES)) | word_list("beside_amounts")
"""What may stand beside an amount without making it another one."""


def refusal(case: Case) -> bool:
    """The answer declines and says nothing else."""
    if not declines(case.answer, case.question) or _says_more(case):
        return False
    return not all(occurs(stem, case.answer.stem_set) for stem in case.reference.content_stems)


def only_declines(question: str, answer: str) -> bool:
    """Whether an answer declines and says nothing else.

    >>> answers = "The text does not say.", "I don't know. Perhaps it was Homer"
    >>> [only_declines("Who wrote it?", answer) for answer in answers]
    [True, False]
    """
    if _SILENT.fullmatch(answer.strip()):
        return True
    case = Case.of(read(question), read(answer), read(""))
    return declines(case.answer, case.question) and not _says_more(case)


_SILENT = re.compile(
    r"(?:the|this)\s+(?:given\s+)?(?:passage|text|context|article|document|paragraph)\s+(?:does\s+not|doesn't)\s+"
    r"(?:say|mention|state|specify|tell|answer)[^.,;]*[.!]?",
    re.IGNORECASE,
)


_BUT = re.compile(r",?\s(?:but|however|although|yet|но|однако)\b,?\s*", re.IGNORECASE)


def _says_more(case: Case) -> bool:
    """Whether a sentence neither declines nor only repeats the question: "As an AI ... However, it is 5"."""
    question_stems = case.question.stem_set
    for sentence in sentences(case.answer.raw):
        for clause in _BUT.split(sentence):
            part = read(clause) if clause.strip() else case.question
            if not is_refusal(part.normal) and sum(stem not in question_stems for stem in part.said) > 1:
                return True
    return False


def hedged(case: Case) -> bool:
    """A short answer expresses doubt; in a long one, the doubt may be about something else."""
    return len(case.answer.tokens) <= 30 and hedges(case.head.normal) and not hedges(case.question.normal)


_CLAUSE = re.compile(
    r"[,;:()—]|\.\s|\s-\s"
    r"|\b(?:but|although|though|while|because|until|before|except|than|since|и|но|а|пока|до|кроме)\b"
)
_MILD = word_list("mild")
_DENYING = word_list("denying")
_SPANISH_DENIALS = frozenset(("no", verb) for verb in word_list("spanish_to_be"))
_FARTHEST = 4
"""Tokens between a negation and what it denies."""


def negated(case: Case) -> bool:
    """ "It is not Paris": a negation shortly before the only mention of the reference, in the same clause."""
    if case.reference.negated or case.question.negated:
        return False
    denies = case.answer.negated and (_in_clause(case) or _right_after(case))
    return denies or _excluded(case)


def _right_after(case: Case) -> bool:
    """ "Ada Brown did not write it": the reference, an auxiliary, a negation, and no more than what was asked."""
    if not case.reference.stems:
        return False
    asked_for = {lemma(token) for token in case.question.tokens}
    for part in _CLAUSE.split(case.answer.normal):
        clause = read(part)
        expected = tuple(clause.stems[i] for i in range(len(clause.stems)) if clause.stems[i] in case.reference.stems)
        following = clause.tokens[len(expected) :]
        if expected != case.reference.stems or clause.stems[: len(expected)] != expected or _MILD & set(following):
            continue
        denied = len(following) > 1 and following[0] in AUXILIARIES and following[1] in _DENYING
        if denied and {lemma(token) for token in following[2:] if token not in FUNCTION_WORDS} <= asked_for:
            return case.answer.stems.count(expected[0]) == 1
    return False


_EXCLUDING = re.compile(
    r"\b(?:rather than|instead of|unlike|other than|except(?: for)?|excluding|apart from|neither"
    r"|(?:any|every)(?:one|body|thing) but)(?: \w+){0,2}$|\bnon$"
)


def _excluded(case: Case) -> bool:
    """ "Anyone but Paris": the only mention of the reference is what the answer sets aside."""
    expected = [stem for stem in case.reference.content_stems if stem in case.answer.stem_set]
    if not expected or case.answer.stems.count(expected[0]) != 1:
        return False
    position = case.answer.stems.index(expected[0])
    return bool(_EXCLUDING.search(" ".join(case.answer.tokens[max(0, position - 1 - _FARTHEST) : position])))


def _in_clause(case: Case) -> bool:
    expected = set(case.reference.content_stems)
    if not expected:
        return False
    clauses = [read(part) for part in _CLAUSE.split(case.answer.normal) if part.strip()]
    holding = [clause for clause in clauses if expected <= set(clause.stems)]
    mentions = case.answer.stems.count(case.reference.content_stems[0])
    if len(holding) != 1 or mentions != 1 or _MILD & set(holding[0].tokens):
        return False
    position = min(i for i, stem in enumerate(holding[0].stems) if stem in expected)
    before = holding[0].tokens[max(0, position - 1 - _FARTHEST) : position]
    # In Spanish "no" denies what follows it; in English it is a reply
    return bool(_DENYING & set(before)) or any(pair in _SPANISH_DENIALS for pair in pairwise(before))


_OPPOSITES = frozenset(frozenset(map(lemma, pair.split())) for pair in TABLES["opposite_words"])


def turns_round(case: Case) -> bool:
    """Whether the answer has all words of the reference but one, in their order, and the opposite of that one.

    >>> turns_round(Case.of(read("Where is it?"), read("north of the river"), read("south of the river")))
    True
    """
    stated, expected = ([lemma(token) for token in text.plain] for text in (case.head, case.reference))
    missing = set(expected) - set(stated)
    if len(missing) != 1 or case.head.negated != case.reference.negated:
        return False
    in_order = [word for word in stated if word in expected] == [word for word in expected if word not in missing]
    [word], raw = missing, case.head.raw
    return in_order and any(
        # In "inSouth Asia" only a blank is missing
        {word, other} in _OPPOSITES or (turned_round(word, other) and (other in raw or other.capitalize() in raw))
        for other in {*stated}.difference(expected)
    )


def opposite(case: Case) -> bool:
    """One says yes, the other no."""
    return polarity(case.reference, case.answer, case.question) < 0


def undenied(case: Case) -> bool:
    """The answer says what the reference denies.

    >>> undenied(Case.of(read("Is there a fee?"), read("it costs money"), read("it costs no money")))
    True
    """
    reference = case.reference
    denied = {reference.stems[i] for i in reference.content if reference.tokens[i] not in NEGATIONS}
    return reference.negated and not case.answer.negated and len(denied) > 1 and denied <= case.answer.stem_set


def same_reply(case: Case) -> bool:
    """The reference only says yes or no, and the answer says the same in its own way.

    >>> same_reply(Case.of(read("Is it legal?"), read("It isn't."), read("No")))
    True
    """
    short = len(case.reference.tokens) == 1
    return short and not hedges(case.answer.normal) and polarity(case.reference, case.answer, case.question) > 0


_LIST_MARK = re.compile(r"\s*[,;]\s+|,?\s(?:and|и|und|et|y)\s")
_ONE_LETTER = re.compile(r"\W*[A-Z]\W*")
_SEVERAL_LETTERS = re.compile(r"\W*[A-Z](?:\s*(?:[,;/&+]|and|or)\s*[A-Z])+\W*")
_AND_BEHIND_COMMA = re.compile(r",.*\s(?:and|и|und|et|y)\s")


def several_letters(case: Case) -> bool:
    """The reference is one letter of a choice, and the answer names several.

    >>> several_letters(Case.of(read("Which answer is right?"), read("A or B"), read("B")))
    True
    """
    return bool(_ONE_LETTER.fullmatch(case.reference.raw) and _SEVERAL_LETTERS.fullmatch(case.head.raw))


def other_list(case: Case) -> bool:
    """The reference is a list ("red, yellow and blue"), and the answer has only a part of it, or other numbers."""
    items = _items(case.reference.normal)
    if len(items) < 2 or len(case.reference.stems) > LONGEST_REFERENCE:
        return False
    expected_numbers, numbers = ({n.value for n in text.numbers} for text in (case.reference, case.head))
    only_numbers = len(expected_numbers) == len(items) and len(numbers) >= len(case.residue)
    asks_list = _AND_BEHIND_COMMA.search(case.reference.normal) or asks_several(case.question.raw)
    if not (asks_list or only_numbers) or case.reference.dates or not case.residue or not clear(case):
        return False
    stated, expected = case.answer.stems, case.reference.stems
    present = [any(occurs(word_stem, stated) for word_stem in item) for item in items]
    extra_stems = [word_stem for word_stem in case.residue if not occurs(word_stem, expected)]
    if len(stated) > len(expected) + len(case.question.stems) or not (any(present) or numbers & expected_numbers):
        return False
    return (not extra_stems and not all(present)) or (only_numbers and numbers != expected_numbers)


# References come again with every answer.
@lru_cache(maxsize=16_384)
def _items(normal: str) -> tuple[tuple[str, ...], ...]:
    """The content stems of each item of what may be a list."""
    return tuple(read(item).content_stems for item in _LIST_MARK.split(normal) if item.strip(" ."))


def other_number(case: Case) -> bool:
    """Each names one amount, or an identifier, and these differ: "1250" is not "125", nor are "5 miles" "5 km"."""
    differ = _other_measure(case) or _other_amount(case)
    is_other = differ and _OF_AMOUNTS.isdisjoint(bounds(case.reference, case.question))
    return is_other or _beyond(case) or _other_identifier(case) or _one_of_a_pair(case)


_PAIR = re.compile(r"(?<![\w.:/-])(\d{1,3})\s?[:-]\s?(\d{1,3})(?![\w:/-]|[.,]\d)")
"""A ratio or a score: "3:1", "2-1"."""


def _one_of_a_pair(case: Case) -> bool:
    """Whether the reference is a ratio or a score, and the answer names a single number: "3" for "3:1"."""
    is_pair = _PAIR.fullmatch(case.reference.normal.strip(" ."))
    return bool(is_pair) and len(case.answer.numbers) == 1 and not case.reference.dates


def _other_measure(case: Case) -> bool:
    """Whether one of the amounts with units differs; of several, beside the same words."""
    expected, stated = case.reference.quantities, case.head.quantities
    if len(expected) != len(stated) or (len(expected) > 1 and not _same_beside(case)):
        return False
    pairs = zip(expected, stated, strict=True)
    return any(one.unit and other.comparable(one) and not other.near(one) for one, other in pairs)


_STRICT = frozenset(("above", "below"))
"""Bounds that leave out the amount itself: "over 50" is not 50, but "at least 50" may be."""
_OF_AMOUNTS, _ASKING_FOR_A_LIMIT = _STRICT | {"least", "most"}, word_list("asks_for_a_limit")


def other_bounds(case: Case) -> frozenset[str]:
    """The bounds that one text sets on its amount, and neither the other one nor the question.

    >>> sorted(other_bounds(Case.of(read("How many?"), read("over 50"), read("50"))))
    ['above']
    """
    if not _ASKING_FOR_A_LIMIT.isdisjoint(case.question.tokens):
        return frozenset()
    return _OF_AMOUNTS & (bounds(case.head, case.question) ^ bounds(case.reference, case.question))


def _beyond(case: Case) -> bool:
    """Whether the answer names the amount of the reference as a bound that it lies beyond, or the reverse."""
    return _same_amounts(case) and not _STRICT.isdisjoint(other_bounds(case))


def _other_amount(case: Case) -> bool:
    """Whether the reference is an amount, and no number that the answer adds to the question is that amount."""
    expected = only_quantity(case.reference, case.question.stem_set)
    if expected is None or not case.head.numbers or case.reference.negated != case.head.negated:
        return False
    given = {number.value for number in case.question.numbers} - {expected.value}
    named = [one for one in case.answer.quantities if one.value not in given]
    if len(named) != 1 or (case.reference.dates and case.answer.dates):
        # "6 feet (183 cm)" names one amount in two ways; years are left to the model
        return False
    [amount] = named
    if not (amount.unit and expected.unit) and any(_apart(amount, expected, scale) for scale in _SCALES):
        return False
    return (not amount.unit or not expected.unit or amount.comparable(expected)) and amount.differs(expected)


_SCALES, _LARGEST_IN_MILLIONS = (1e3, 1e6, 1e9), 1e5
"""The reference may be "137" where millions are meant, but not "5 million" where billions are."""


def _apart(one: Quantity, other: Quantity, scale: float) -> bool:
    small, large = sorted((one.value, other.value), key=abs)
    return abs(small) < _LARGEST_IN_MILLIONS and large == small * scale


def _other_identifier(case: Case) -> bool:
    """Whether long tokens with digits differ, such as identifiers, in which every digit counts; or "12a" and "12b"."""
    expected = _identifiers(case.reference)
    stated = _identifiers(case.answer) if expected else expected
    if stated and expected.isdisjoint(stated):
        return True
    letters, others = (dict(_LETTERED.findall(text.normal)) for text in (case.reference, case.answer))
    return any(number in others and others[number] != letter for number, letter in letters.items())


_LETTERED = re.compile(r"(?<![\w.,])(\d+)([a-f])(?!\w)")
"""A seat, a gate, a section: "12b"."""


def other_version(case: Case) -> bool:
    """In numbers of versions, sections and others that are no amounts, zeros at the end count: 1.10 is not 1.1.

    >>> other_version(Case.of(read("Which version?"), read("1.10"), read("1.1")))
    True
    """
    expected, stated = (
        {digits(token): token for token in text.tokens if (digits(token) or 0) % 1}
        for text in (case.reference, case.answer)
    )
    zeros_differ = any(stated.get(value, token) != token for value, token in expected.items())
    is_numbered = any(not _NUMBERED.isdisjoint(text.tokens) for text in (case.question, case.reference, case.answer))
    return zeros_differ and is_numbered and not any(one.unit for one in case.reference.quantities)


_NUMBERED = word_list("numbered")


def glued_number(case: Case) -> bool:
    """The answer has the number of the reference only inside a name: "5abc" is not 5, nor is "B12" 12.

    >>> glued_number(Case.of(read("Which vitamin?"), read("It is B12."), read("12")))
    True
    """
    [number, *rest] = case.reference.tokens or ("",)
    if rest or not number.isdecimal() or number not in case.answer.tokens:
        return False
    holding = [word for word in words_of_normalised(case.answer.normal) if number in parted(word)]
    return bool(holding) and all(_is_name_with_digits(word, case.question) for word in holding)


def _is_name_with_digits(word: str, question: Text) -> bool:
    """Whether letters that are no unit, and no word of the question, are glued to digits."""
    letters = [part for part in parted(word) if part.isalpha()]
    return any(part not in _BESIDE_DIGITS and part not in question.tokens for part in letters)


_BESIDE_DIGITS = frozenset(UNIT_WORDS) | frozenset(TABLES["scales"]) | word_list("beside_digits")


def _identifiers(text: Text) -> frozenset[str]:
    return frozenset(token for token in text.tokens if len(token) > LONGEST_NUMBER and any(map(str.isdigit, token)))


def stated(case: Case) -> bool:
    """The answer says the whole reference, word for word, and beside it little that the question does not say."""
    reference, answer = case.reference, case.answer
    if not 0 < len(reference.said) <= _LONGEST_VALUE or len(sentences(answer.raw)) > 1:
        return False
    if not set(reference.plain).issubset(case.head.plain):
        return False
    if not clear(case) or answer.negated or is_refusal(answer.normal):
        return False
    # What the question says too is no answer: "Ada beat Eve" for "Who beat Ada?"
    if case.question.stem_set & set(reference.said) or bounds(case.head, reference) - bounds(case.question, reference):
        return False
    known = {*reference.stems, *case.question.stems, *SHELL_WORDS}
    added = {one for one in case.head.said if one not in known and not occurs(one, case.question.stem_set)}
    return len(added) <= (0 if reference.numbers else _MOST_ADDED) and _stands_alone(case, added)


_LONGEST_VALUE, _MOST_ADDED = 4, 2


def _stands_alone(case: Case, added: set[str]) -> bool:
    """Whether the words of the reference stand in the answer, in order, and are no part of a longer name."""
    expected, stated = case.reference.plain, case.head.plain
    capitals = {token for word in case.head.raw.split() if word[:1].isupper() for token in read(word).tokens}
    for start in range(len(stated) - len(expected) + 1):
        if stated[start : start + len(expected)] != expected:
            continue
        is_owned = bool(added) and stated[max(0, start - 1) : start] in _OWNED
        if is_owned or _acted_upon(case, stated[:start]):
            continue
        beside = (*stated[max(0, start - 1) : start], *stated[start + len(expected) :][:1])
        if not any(stem(token) in added and (not capitals or token in capitals) for token in beside):
            return True
    return False


_OWNED = (("of",), ("de",))
"""Words that make "the brother of Ada" another person than Ada."""


def _acted_upon(case: Case, before: tuple[str, ...]) -> bool:
    """Whether the question asks who did something to somebody, and the answer turns it round: "Ada beat" for "Who beat
    Ada?"."""
    asked = [token for token in case.question.tokens if token not in FUNCTION_WORDS and token != "who"]
    if case.question.tokens[:1] != ("who",) or len(asked) < 2 or before[-1:] != (asked[0],):
        return False
    return case.question.tokens[1] == asked[0] and asked[-1] in before[:-1]


def turned_pair(case: Case) -> bool:
    """The answer exchanges the numbers of a ratio or a score: "1:3" for "3:1".

    >>> turned_pair(Case.of(read("How did the match end?"), read("1:3"), read("3:1")))
    True
    """
    expected, stated = (set(_PAIR.findall(text.normal)) for text in (case.reference, case.answer))
    return len(expected) == 1 and not expected & stated and any(pair[::-1] in stated for pair in expected)


def other_order(case: Case) -> bool:
    """The answer has the words of the reference, with its two ends exchanged: "Ada beat Eve" for "Eve beat Ada"."""
    expected, stated = case.reference.stems, case.head.stems
    if not 3 <= len(expected) <= _LONGEST_ORDER or len(expected) != len(stated) or expected == stated:
        return False
    tokens = case.reference.tokens
    for first_cut in range(1, len(expected) - 1):
        for second_cut in range(first_cut + 1, len(expected)):
            for third_cut in range(second_cut + 1, len(expected) + 1):
                start, middle, end, remaining = (
                    expected[:first_cut],
                    expected[first_cut:second_cut],
                    expected[second_cut:third_cut],
                    expected[third_cut:],
                )
                if stated != (*end, *middle, *start, *remaining) or not _directed(
                    tokens[first_cut:second_cut], case.reference
                ):
                    continue
                if _MARKS_OF_ROLES.isdisjoint((tokens[0], tokens[second_cut])) and _exchanged(
                    case, tokens[first_cut:second_cut]
                ):
                    return True
    return False


def _exchanged(case: Case, between: tuple[str, ...]) -> bool:
    """Whether another order is another meaning. In Russian it is if the endings change, or in a comparison."""
    if not any("а" <= letter <= "я" for letter in case.reference.normal):
        return True
    return "чем" in between or sorted(case.reference.tokens) != sorted(case.head.tokens)


_MARKS_OF_ROLES = word_list("marks_of_roles")
"""Words that tell the role of what follows, wherever it stands: "to Ada", "auf Ada"."""


_LONGEST_ORDER = 16


def _directed(words: tuple[str, ...], reference: Text) -> bool:
    """Whether words between two names tell them apart: a verb or a comparison, and no "and"."""
    content = [word for word in words if word not in FUNCTION_WORDS and word not in AUXILIARIES]
    listed = "," in reference.normal and "чем" not in words
    return bool(content) and not listed and _JOINING.isdisjoint(words)


_JOINING = word_list("joining")


_RELATIVES, _OWNING = word_list("relatives"), frozenset(("of", "s"))


def relative(case: Case) -> bool:
    """The answer is somebody who belongs to the one whom the reference names: "the wife of Ada Brown".

    >>> relative(Case.of(read("Who wrote it?"), read("Ada Brown's brother"), read("Ada Brown")))
    True
    """
    stated = [token for token in case.head.plain if token not in _OWNING]
    around = {token for token in stated if stem(token) not in case.reference.stem_set}
    owned = not _OWNING.isdisjoint(case.head.tokens) and len(stated) == len(case.reference.content_stems) + 1
    return owned and len(around) == 1 and around <= _RELATIVES.difference(case.question.tokens)


def other_variant(case: Case) -> bool:
    """A word makes another name of a name: "West Virginia", "Pro Plus".

    >>> other_variant(Case.of(read("Which state?"), read("West Virginia"), read("Virginia")))
    True
    """
    ignored = FUNCTION_WORDS.union(case.question.tokens)
    name_tokens = tuple([token for token in case.head.plain if token not in ignored and stem(token) not in SHELL_WORDS])
    return _is_changed(case.reference.plain, case.head, ignored) or _is_changed(name_tokens, case.reference, ignored)


_BEFORE_NAMES, _BEHIND_NAMES = word_list("before_names"), word_list("behind_names")


def _is_changed(name: tuple[str, ...], text: Text, ignored: frozenset[str]) -> bool:
    """Whether a name stands in a text, and everywhere beside a word that makes it another name."""
    # In "12 Euro pro Tag" it is a preposition
    words = [word for word in text.raw.split() if word[:1].isupper() or text.raw.islower()]
    names = frozenset(read(" ".join(words)).tokens) - ignored
    stated = ("", *text.plain, "")
    runs = [
        position for position in range(1, len(stated) - len(name)) if stated[position : position + len(name)] == name
    ]
    beside = [
        {stated[position - 1]} & _BEFORE_NAMES or {stated[position + len(name)]} & _BEHIND_NAMES for position in runs
    ]
    return bool(runs) and all(names & changing for changing in beside)


def other_name(case: Case) -> bool:
    """The reference is a name of two words, and the answer has one of them beside another one: "Eve Brown" for "Ada
    Brown"."""
    names = case.reference.raw.strip(" .").split()
    if len(names) != 2 or len(case.answer.tokens) > _LONGEST_ANSWER or not all(map(_is_name, names)):
        return False
    first_name, last_name = (read(name).tokens for name in names)
    # Not "Munich, Bavaria"
    if (
        not names[0].isalpha()
        or len(first_name) != 1
        or len(last_name) != 1
        or {*first_name, *last_name} & set(case.question.tokens)
    ):
        return False
    first_stem, last_stem = case.reference.stems
    has_first, has_last = (_resembles(name, case.answer.stem_set) for name in (first_stem, last_stem))
    if has_first == has_last:
        return False
    words = case.answer.raw.split()
    kept_name = last_name[0] if has_last else first_name[0]
    pairs = pairwise(words if has_last else words[::-1])
    return any(
        read(beside).tokens[:1] == (kept_name,) and _is_other_name(other_word, case) for other_word, beside in pairs
    )


_LONGEST_ANSWER = 30


def _resembles(stem: str, answer_stems: frozenset[str]) -> bool:
    """Whether a stem may be another form of one of the others: "Ben" of "Benjamin" too."""
    for answer_stem in answer_stems:
        similarity = alike(stem, answer_stem)
        # "Stephen" and "Steven", but not "Clara" and "Sara"
        begins_alike = stem[:2] == answer_stem[:2] or stem.isascii() != answer_stem.isascii()
        if similarity >= HIT or (similarity > 0 and begins_alike):
            return True
        if answer_stem.startswith(stem) or (stem.startswith(answer_stem) and len(answer_stem) > 1):
            return True
    return False


def _is_name(word: str) -> bool:
    bare = word.strip(".,;:!?\"'()")
    return bare[:1].isupper() and bare.isalpha() and len(bare) > 2 and not bare.isupper()


def _is_other_name(word: str, case: Case) -> bool:
    """Whether a word of the answer is a name, and none that the question has."""
    tokens = read(word).tokens
    if not _is_name(word) or word[-1] in ",;:!?" or len(tokens) != 1:
        return False
    known = FUNCTION_WORDS | TITLES | PLACE_OR_KIND | AUXILIARIES
    return tokens[0] not in known and tokens[0] not in case.question.tokens


def other_formula(case: Case) -> bool:
    """Both are formulas, code or addresses, and a sign differs.

    >>> other_formula(Case.of(read("What is its derivative?"), read("It is f(y)."), read("f(x)")))
    True
    """
    return formulas_differ(case.head.raw, case.reference.raw)


RULES_VERSION = 9
"""Increase it whenever the decision of a rule changes: it is part of the signature."""

AGAINST_ANSWER = frozenset(("refusal", "hedged"))
"""Rules against an answer as a whole; other rules against a match concern a single reference."""

RULES: Mapping[Callable[[Case], bool], Ruling] = {
    glued_number: Ruling("other_number", "the answer has the number only as a part of a name"),
    other_version: Ruling("other_number", "the answer names another version or section"),
    other_variant: Ruling("other_name", "the answer names another variant of that name"),
    other_formula: Ruling("other_formula", "the answer differs from the reference in a sign that counts"),
    same_text: Ruling("same_text", "the answer equals the reference apart from its form", "match"),
    refusal: Ruling("refusal", "the answer declines to answer", "refusal"),
    hedged: Ruling("hedged", "the answer says itself that it is not sure", "hedged"),
    negated: Ruling("negated", "the answer denies what the reference says"),
    opposite: Ruling("opposite", "one says yes, the other no"),
    turns_round: Ruling("opposite", "the answer turns a word of the reference round"),
    undenied: Ruling("opposite", "the answer says what the reference denies"),
    same_reply: Ruling("same_reply", "both say yes, or both say no", "match"),
    other_time: Ruling("other_number", "the answer names another time"),
    same_time: Ruling("same_number", "the answer names the same time", "match"),
    beside_date: Ruling("other_date", "the answer names a time before or after the date"),
    other_date: Ruling("other_date", "the answer names another date"),
    same_number: Ruling("same_number", "the answer names the same number", "match"),
    same_date: Ruling("same_date", "the answer names the same date", "match"),
    several_letters: Ruling("other_list", "the answer names several letters, and the reference one", "partial"),
    other_list: Ruling("other_list", "the answer does not list what the reference lists", "partial"),
    other_number: Ruling("other_number", "the answer names another number"),
    turned_pair: Ruling("other_order", "the answer exchanges two numbers of the reference"),
    other_order: Ruling("other_order", "the answer exchanges two things of the reference"),
    relative: Ruling("other_name", "the answer names a relative of the one whom the reference names"),
    stated: Ruling("stated", "the answer says what the reference says", "match"),
    other_name: Ruling("other_name", "the answer names another one of that name"),
}
"""The rules in the order in which they are tried, each with what it says where it holds."""


def decide(case: Case) -> Ruling | None:
    """The ruling of the first rule that decides, or None if the model has to.

    >>> decide(Case.of(read("How many?"), read("one hundred"), read("100"))).rule
    'same_number'
    >>> decide(Case.of(read("What do bees make?"), read("a sweet food"), read("honey"))) is None
    True
    """
    return next((ruling for holds, ruling in RULES.items() if holds(case)), None)
