"""The rules that decide before the model. Each has an id, and compares one answer with one reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations, pairwise, permutations, product
from typing import Literal

from answerkey.metrics_core.judges.votes import MatchVerdict
from answerkey.metrics_core.offline_judge.alignment import HIT, LONGEST_REFERENCE, alike, occurs, turned_round
from answerkey.metrics_core.offline_judge.formulas import formulas_differ
from answerkey.metrics_core.offline_judge.numbers_dates import (
    ADVERBS_OF_RATES,
    DAY,
    LONGEST_NUMBER,
    Quantity,
    digits,
    equal,
    times,
    without_times,
)
from answerkey.metrics_core.offline_judge.reading import Text, asks_several, lemma, parted, read, sentences, stem
from answerkey.metrics_core.offline_judge.stance import (
    SHELL_WORDS,
    are_opposites,
    bounds,
    declines,
    hedges,
    is_refusal,
    polarity,
    shelled,
)
from answerkey.metrics_core.offline_judge.vocabulary import (
    ALIASES,
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
    does not have, `references` all that the answer is compared with.

    >>> case = Case.of(read("Who painted it?"), read("It was Leonardo. He was old."), read("Leonardo"))
    >>> case.head.raw, case.residue
    ('Leonardo.', ('leonardo',))
    """

    question: Text
    answer: Text
    reference: Text
    head: Text
    residue: tuple[str, ...]
    references: tuple[Text, ...] = ()

    @staticmethod
    def of(question: Text, answer: Text, reference: Text, references: Sequence[Text] = ()) -> Case:
        """Find the head of the answer, and its residue."""
        head = read(shelled(sentences(answer.raw)[0]))
        asked_stems = question.stem_set - reference.stem_set
        residue = tuple([stem for stem in head.said if stem not in asked_stems and stem not in SHELL_WORDS])
        return Case(question, answer, reference, head, residue, tuple(references))


_OR_MORE = frozenset(("least", "most"))
"""Bounds that may be said with "or": "5 or more"."""


def clear(case: Case) -> bool:
    """Whether the answer is plain: without choices or doubts, and with a head that is negated only if the reference is.

    >>> clear(Case.of(read("Which city?"), read("Paris or London"), read("Paris")))
    False
    """
    choices = ALTERNATIVE_WORDS.intersection(case.head.tokens)
    if choices and _OR_MORE & bounds(case.head, case.question):
        choices = frozenset()
    is_choice = bool(choices) and not choices <= {*case.reference.tokens, *case.question.tokens}
    return case.head.negated == case.reference.negated and not is_choice and not hedges(case.answer.normal)


_VERSION = re.compile(r"\bv (?=\d)")


def same_text(case: Case) -> bool:
    """The texts are equal apart from form and articles."""
    if not case.answer.content_stems:
        return False
    if case.answer.raw.casefold() == case.reference.raw.casefold():
        return True
    # "v1.2" and "1.2", "kg" and "kilograms"
    texts = []
    for text in (case.answer, case.reference):
        units = {} if case.reference.numbers else UNIT_WORDS
        texts.append(_VERSION.sub("", " ".join(units.get(token, token) for token in text.plain)))
    return texts[0] == texts[1]


def same_number(case: Case) -> bool:
    """Both are amounts with their units, and say the same beside them: "100" and "one hundred"."""
    return _same_amounts(case) and clear(case) and not other_bounds(case) and not _by_or_to(case)


def same_date(case: Case) -> bool:
    """The answer's date states all that the reference's states: "18 May 2018" and "May 2018"."""
    if len(case.reference.dates) != 1 or len(case.head.dates) != 1 or not clear(case):
        return False
    [expected] = case.reference.dates
    [stated] = case.head.dates
    return set(case.reference.content) <= {*range(expected.start, expected.stop)} and stated.covers(expected)


def other_date(case: Case) -> bool:
    """No date of the answer agrees with the reference, or with a finer reference for it, in year, month and day.

    "August 27, 2004" agrees with "2004", but not with the other reference "June 11, 2004". Years alone are left to the
    model, since a number of four digits may be something else.
    """
    if len(case.reference.dates) != 1 or len(case.head.dates) != 1:
        return False
    [expected] = case.reference.dates
    [stated] = case.head.dates
    dates = [date for reference in case.references for date in reference.dates]
    finer = [date for date in dates if date.covers(expected) and stated.parts > expected.parts < date.parts]
    precise = [date for date in finer or [expected] if date.parts > 1 or date.month is not None]
    if not precise:
        return False
    return not any(date.agrees(reference_date) for date, reference_date in product(case.answer.dates, precise))


_DAYS: dict[str, str] = {}
"""The days of the week by their short names."""
for _names in ALIASES:
    if _days := [name for name in _names if name.endswith("day")]:
        _DAYS |= dict.fromkeys(_names, _days[0])
_FROM_DAY_TO_DAY = re.compile(
    r"\b(?:mon|tue|wed|thu|fri|sat|sun)\w*\.? ?(?:-|–|to|through|until) ?(?:mon|tue|wed|thu|fri|sat|sun)"
)


def same_time(case: Case) -> bool:
    """Both name one time of day, or the same ones in the same order.

    >>> same_time(Case.of(read("When?"), read("9:00-17:00"), read("9 am to 5 pm")))
    True
    """
    expected = times(case.reference.normal)
    stated = times(case.head.normal)
    if not expected or len(stated) != len(expected) or not clear(case):
        return False
    if len(expected) > 1:
        # Of opening hours, the afternoon is clear
        expected, stated = (_in_a_day(one) for one in (expected, stated))
    if not all(expected_time & time for expected_time, time in zip(expected, stated, strict=True)):
        return False
    sides = []
    for text in (case.reference, case.head):
        beside = read(without_times(text.normal))
        names = {_DAYS.get(stem, stem) for stem in beside.said} - case.question.stem_set - SHELL_WORDS
        sides.append((names, bool(_FROM_DAY_TO_DAY.search(text.normal))))
    # The reference may have nothing else, or both have the same days and words
    return not sides[0][0] or sides[0] == sides[1]


def other_time(case: Case) -> bool:
    """A time of day of the reference can be none of the answer.

    >>> other_time(Case.of(read("When?"), read("At 2 am."), read("2 pm")))
    True
    """
    expected = _in_a_day(times(case.reference.normal))
    stated = _in_a_day(times(case.answer.normal))
    if len(stated) < len(expected):
        return False
    return any(all(expected_time.isdisjoint(time) for time in stated) for expected_time in expected)


def _in_a_day(readings: list[frozenset[int]]) -> list[frozenset[int]]:
    """Times of day without regard to whether they are counted in halves of a day."""
    return [frozenset([minutes % DAY for minutes in reading]) for reading in readings]


def _same_amounts(case: Case) -> bool:
    """Whether both name the same amounts beside the same words, in one of the readings of "2k" or "1.000 €"."""
    if _equal_amounts(case):
        return True
    references = dict.fromkeys((case.reference, case.reference.in_thousands))
    heads = dict.fromkeys((case.head, case.head.in_thousands))
    return len(references) + len(heads) > 2 and any(
        _equal_amounts(replace(case, reference=ref, head=head)) for ref, head in product(references, heads)
    )


def _equal_amounts(case: Case) -> bool:
    if not _same_beside(case):
        return False
    # To "How many miles an hour?", "20 miles an hour" is 20 miles
    units = "|".join(UNIT_WORDS.get(token, "-") for token in case.question.tokens)
    asked_rate = re.compile(rf"/(?:{units})$")
    amounts = []
    for text in (case.reference, case.head):
        amounts.append([Quantity(quantity.value, asked_rate.sub("", quantity.unit)) for quantity in text.quantities])
    return equal(case.reference.quantities, case.head.quantities) or equal(*amounts)


def _same_beside(case: Case) -> bool:
    """Whether reference and answer say the same beside their amounts, of which one, or each, has a unit."""
    expected = case.reference.quantities
    stated = case.head.quantities
    if not expected or len(expected) != len(stated):
        return False
    if len(expected) > 1 and not all(quantity.unit for quantity in expected + stated):
        return False
    in_question = case.question.stem_set
    return _beside_amounts(case.reference, in_question) == _beside_amounts(case.head, in_question)


def _beside_amounts(text: Text, in_question: frozenset[str]) -> list[str]:
    """The stems of what a text says beside its amounts and the stems `in_question`."""
    counted = text.counted
    ignored = in_question | SHELL_WORDS
    stems = []
    for i in counted.content:
        token = counted.tokens[i]
        if i in counted.number_positions or token in _BESIDE_AMOUNTS:
            continue
        # The question may have it in a compound: "Guthaben" in "Startguthaben"
        is_asked = any(len(stem(token)) > _SHORT and word.endswith(stem(token)) for word in in_question)
        if not is_asked and ignored.isdisjoint((stem(token), lemma(token))):
            stems.append(stem(token))
    return stems


_SHORT = 4
"""Letters of a stem up to which it may end another word by chance."""
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
    is_denied = case.answer.negated and (_denied_before(case) or _denied_behind(case) or _only_denied(case))
    return is_denied or _excluded(case)


def _only_denied(case: Case) -> bool:
    """ "The account is not locked" for "The account is locked": nothing is added but a negation."""
    head = case.head
    if not _MILD.isdisjoint(head.tokens) or len(sentences(case.answer.raw)) > 1:
        return False
    stated = {head.stems[i] for i in head.content if head.tokens[i] not in NEGATIONS}
    n_negations = sum(token in NEGATIONS for token in head.tokens)
    return n_negations == 1 and len(stated) > 1 and stated == set(case.reference.said)


def _denied_behind(case: Case) -> bool:
    """ "Ada Brown did not write it": the reference, an auxiliary, a negation, and no more than what was asked."""
    if not case.reference.stems:
        return False
    asked_words = {lemma(token) for token in case.question.tokens}
    for part in _CLAUSE.split(case.answer.normal):
        clause = read(part)
        # The clause begins with the whole reference, and goes on without "only" or "until"
        expected = tuple([stem for stem in clause.stems if stem in case.reference.stems])
        following = clause.tokens[len(expected) :]
        if expected != case.reference.stems or clause.stems[: len(expected)] != expected or _MILD & set(following):
            continue
        is_denied = len(following) > 1 and following[0] in AUXILIARIES and following[1] in _DENYING
        if is_denied and asked_words.issuperset(lemma(token) for token in following[2:] if token not in FUNCTION_WORDS):
            return case.answer.stems.count(expected[0]) == 1
    return False


_EXCLUDING = re.compile(
    r"\b(?:rather than|instead of|unlike|other than|except(?: for)?|excluding|apart from|neither"
    r"|(?:any|every)(?:one|body|thing) but)(?: \w+){0,2}$|\b(?:non|not)$"
)


def _excluded(case: Case) -> bool:
    """ "Anyone but Paris": the only mention of the reference is what the answer sets aside."""
    expected = [stem for stem in case.reference.content_stems if stem in case.answer.stem_set]
    if not expected or case.answer.stems.count(expected[0]) != 1:
        return False
    position = case.answer.stems.index(expected[0])
    preceding = case.answer.tokens[max(0, position - 1 - _FARTHEST) : position]
    return bool(_EXCLUDING.search(" ".join(preceding)))


def _denied_before(case: Case) -> bool:
    """ "It is not Paris": a negation before the only mention of the reference."""
    expected = set(case.reference.content_stems)
    if not expected:
        return False
    clauses = [read(part) for part in _CLAUSE.split(case.answer.normal) if part.strip()]
    holding = [clause for clause in clauses if expected <= clause.stem_set]
    n_mentions = case.answer.stems.count(case.reference.content_stems[0])
    if len(holding) != 1 or n_mentions != 1 or _MILD & set(holding[0].tokens):
        return False
    [clause] = holding
    position = min(i for i, stem in enumerate(clause.stems) if stem in expected)
    preceding = clause.tokens[max(0, position - 1 - _FARTHEST) : position]
    # In Spanish "no" denies what follows it; in English it is a reply
    return bool(_DENYING & set(preceding)) or any(pair in _SPANISH_DENIALS for pair in pairwise(preceding))


_FORMS = frozenset(map(lemma, FUNCTION_WORDS | AUXILIARIES | {"get", "become", "remain", "stay"}))


def turns_round(case: Case) -> bool:
    """Whether the answer has all words of the reference but one, in their order, and the opposite of that one.

    >>> turns_round(Case.of(read("Where is it?"), read("north of the river"), read("south of the river")))
    True
    """
    stated = [lemma(token) for token in case.head.plain]
    expected = [lemma(token) for token in case.reference.plain]
    if len(set(expected) - set(stated)) > 1:
        # "Is locked" and "gets unlocked"
        stated, expected = ([word for word in lemmas if word not in _FORMS] for lemmas in (stated, expected))
    missing = set(expected) - set(stated)
    if len(missing) != 1 or case.head.negated != case.reference.negated:
        return False
    if [word for word in stated if word in expected] != [word for word in expected if word not in missing]:
        return False
    [missing_word] = missing
    for word in set(stated).difference(expected):
        # In "inSouth Asia" only a blank is missing
        is_word = word in case.head.raw or word.capitalize() in case.head.raw
        if are_opposites(missing_word, word) and (is_word or not turned_round(missing_word, word)):
            return True
    return False


def opposite(case: Case) -> bool:
    """One says yes, the other no."""
    return polarity(case.reference, case.answer, case.question) < 0


def undenied(case: Case) -> bool:
    """The answer says what the reference denies.

    >>> undenied(Case.of(read("Is there a fee?"), read("it costs money"), read("it costs no money")))
    True
    >>> undenied(Case.of(read("What is its state?"), read("It was paid."), read("not yet paid")))
    True
    """
    # "No, it is closed" denies nothing that it says
    reference = read(_REPLY_NO.sub("", case.reference.raw))
    if not reference.negated or case.answer.negated or other_bounds(case):
        return False
    denied = {reference.stems[i] for i in reference.content if reference.tokens[i] not in NEGATIONS} - _YET
    # A single word is denied if the answer says nothing else
    return denied <= case.answer.stem_set if len(denied) > 1 else denied == set(case.head.said)


_REPLY_NO = re.compile(r"^\W*(?:no|nein|non|нет)\s*[,.:;!—–]\s*", re.IGNORECASE)
_YET = word_list("yet")


def same_reply(case: Case) -> bool:
    """The reference only says yes or no, and the answer says the same in its own way; or both deny the same word.

    >>> same_reply(Case.of(read("Is it legal?"), read("It isn't."), read("No")))
    True
    >>> same_reply(Case.of(read("What is its state?"), read("unpaid"), read("not paid")))
    True
    """
    for denial, word in permutations((case.reference, case.head)):
        is_denial = denial.negated and len(denial.tokens) == 2 and len(word.said) == 1
        if is_denial and any(turned_round(stem, word.said[0]) for stem in denial.stems):
            return True
    is_short = len(case.reference.tokens) == 1
    return is_short and not hedges(case.answer.normal) and polarity(case.reference, case.answer, case.question) > 0


_LIST_MARK = re.compile(r"\s*[,;]\s+|,?\s(?:and|и|und|et|y)\s")
_ONE_LETTER = re.compile(r"\W*[A-Z]\W*")
_SEVERAL_LETTERS = re.compile(r"\W*[A-Z](?:\s*(?:[,;/&+]|and|or)\s*[A-Z])+\W*")
_AND = re.compile(r"\s(?:and|и|und|et|y)\s")
_AND_BEHIND_COMMA = re.compile(r",.*\s(?:and|и|und|et|y)\s")


def several_letters(case: Case) -> bool:
    """The reference is one letter of a choice, and the answer names several.

    >>> several_letters(Case.of(read("Which answer is right?"), read("A or B"), read("B")))
    True
    """
    return bool(_ONE_LETTER.fullmatch(case.reference.raw) and _SEVERAL_LETTERS.fullmatch(case.head.raw))


def other_list(case: Case) -> bool:
    """The reference is a list ("red, yellow and blue"), and the answer has only a part of it, or other numbers."""
    enumerated = _enumerated(case.reference.normal)
    if len(enumerated) < 2 or len(case.reference.stems) > LONGEST_REFERENCE:
        return False
    expected_numbers = {number.value for number in case.reference.numbers}
    numbers = {number.value for number in case.head.numbers}
    # The reference is a list if one is asked for, or if it has nothing but numbers
    only_numbers = len(expected_numbers) == len(enumerated) and len(numbers) >= len(case.residue)
    asks_list = _AND_BEHIND_COMMA.search(case.reference.normal) or asks_several(case.question.raw)
    # "Ada" for "Ada and Eve"
    is_pair = bool(_AND.search(case.reference.normal)) and "," not in case.reference.normal
    asks_list = asks_list or (is_pair and set(case.residue) in map(set, enumerated))
    if not (asks_list or only_numbers) or case.reference.dates or not case.residue or not clear(case):
        return False
    stated = case.answer.stems
    expected = case.reference.stems
    is_present = []
    for stems in enumerated:
        is_present.append(any(occurs(expected_stem, stated) for expected_stem in stems))
    if len(stated) > len(expected) + len(case.question.stems) or not (any(is_present) or numbers & expected_numbers):
        return False
    if only_numbers and numbers != expected_numbers:
        return True
    if all(is_present):
        return False
    # A part of the list, or another list with one thing in place of another
    is_list = len(_enumerated(case.head.normal)) > 1 and _only_lists(case.head)
    return is_list or all(occurs(residue_stem, expected) for residue_stem in case.residue)


def longer_list(case: Case) -> bool:
    """The answer lists all that the reference names, and more: "Ada and Eve" for "Ada".

    >>> longer_list(Case.of(read("Which colour?"), read("red and green"), read("red")))
    True
    """
    stated = set(_enumerated(case.head.normal))
    expected = set(_enumerated(case.reference.normal))
    added = set(chain(*(stated - expected)))
    if not expected < stated or not 0 < len(added) <= _MAX_ADDED_WORDS or not clear(case):
        return False
    is_list = _AND.search(case.head.normal) and _only_lists(case.head)
    return bool(is_list) and added.isdisjoint(chain(case.question.stems, *(text.stems for text in case.references)))


def _only_lists(text: Text) -> bool:
    return {*text.stems} <= {*chain(*_enumerated(text.normal)), *_JOINING, "the", "a", "an"}


# References come again with every answer.
@lru_cache(maxsize=16_384)
def _enumerated(normal: str) -> tuple[tuple[str, ...], ...]:
    """The content stems of each item of what may be a list."""
    return tuple(read(part).content_stems for part in _LIST_MARK.split(normal) if part.strip(" ."))


def other_number(case: Case) -> bool:
    """Each names one amount, or an identifier, and these differ: "1250" is not "125", nor are "5 miles" "5 km"."""
    # "Over 50" in the reference sets no amount that another one could differ from
    is_bound = not _OF_AMOUNTS.isdisjoint(bounds(case.reference, case.question))
    if _same_amounts(case):
        # The answer names the amount of the reference as a bound that it lies beyond, or the reverse; or as the
        # bound on the other side
        different = other_bounds(case)
        if not _STRICT.isdisjoint(different) or different >= _OR_MORE:
            return True
    elif not is_bound and (_other_measure(case) or _other_amount(case)):
        return True
    is_equal = equal(case.reference.quantities, case.head.quantities)
    if _other_identifier(case) or _end_of_range(case) or (is_equal and _by_or_to(case)):
        return True
    # The reference is a ratio or a score, and the answer a single number: "3" for "3:1"
    is_pair = _PAIR.fullmatch(case.reference.normal.strip(" ."))
    return bool(is_pair) and len(case.answer.numbers) == 1 and not case.reference.dates


_PAIR = re.compile(r"(?<![\w.:/-])(\d{1,3})\s?[:-]\s?(\d{1,3})(?![\w:/-]|[.,]\d)")
"""A ratio or a score: "3:1", "2-1"."""


def _by_or_to(case: Case) -> bool:
    """Whether one says by how much something changes, and the other to how much; or one "in", and the other "ago"."""
    beside: set[str] = set()
    for text in (case.reference, case.head):
        tokens = text.counted.tokens
        for number in text.counted.numbers[:1]:
            # The word before the number, and the one behind its unit
            beside |= {*tokens[max(0, number.start - 1) : number.start], *tokens[number.stop + 1 : number.stop + 2]}
    return beside & _CHANGES in _BY_AND_TO


_BY_AND_TO = (
    {"by", "to"}, {"um", "auf"}, {"на", "до"}, {"in", "ago"}, {"within", "ago"}, {"from", "ago"}, {"in", "vor"},
    {"через", "назад"}, {"en", "hace"},
)  # fmt: skip
_CHANGES = frozenset().union(*_BY_AND_TO)


def _end_of_range(case: Case) -> bool:
    """Whether one names a range, and the other one amount of its kind: "5 days" for "3 to 5 days"."""
    fewer, more = sorted((case.reference.quantities, case.head.quantities), key=len)
    if len(fewer) != 1 or len(more) != 2 or not more[0].unit or not all(map(fewer[0].comparable, more)):
        return False
    ranging, single = (case.reference, case.head) if len(case.head.quantities) == 1 else (case.head, case.reference)
    low, high = ranging.counted.numbers[:2]
    return set(ranging.counted.tokens[low.stop : high.start]) <= _TO and single.quantities[0] in more


_TO = frozenset(("to", "bis", "до", "a", "hasta"))


def _other_measure(case: Case) -> bool:
    """Whether one of the amounts with units differs; of several, beside the same words."""
    expected = case.reference.quantities
    stated = case.head.quantities
    if len(expected) != len(stated) or (len(expected) > 1 and not _same_beside(case)):
        return False
    for quantity, stated_quantity in zip(expected, stated, strict=True):
        if quantity.unit and stated_quantity.comparable(quantity) and not stated_quantity.near(quantity):
            return True
    return False


_STRICT = frozenset(("above", "below"))
"""Bounds that leave out the amount itself: "over 50" is not 50, but "at least 50" may be."""
_OF_AMOUNTS = _STRICT | {"least", "most"}
_ASKING_FOR_A_LIMIT = word_list("asks_for_a_limit")


def other_bounds(case: Case) -> frozenset[str]:
    """The bounds that one text sets on its amount, and neither the other one nor the question.

    >>> sorted(other_bounds(Case.of(read("How many?"), read("over 50"), read("50"))))
    ['above']
    """
    if not _ASKING_FOR_A_LIMIT.isdisjoint(case.question.tokens):
        return frozenset()
    return _OF_AMOUNTS & (bounds(case.head, case.question) ^ bounds(case.reference, case.question))


def _other_amount(case: Case) -> bool:
    """Whether the reference is an amount, and no number that the answer adds to the question is that amount."""
    reference = case.reference
    if not case.head.counted.numbers or reference.negated != case.head.negated:
        return False
    # The reference says nothing else. Its unit may stand apart from the number.
    if len(reference.quantities) != 1 or _beside_amounts(reference, case.question.stem_set):
        return False
    [expected] = reference.quantities
    units = {UNIT_WORDS[token] for token in reference.tokens if token in UNIT_WORDS}
    if not expected.unit and len(units) == 1:
        expected = Quantity(expected.value, *units)

    # "6 feet (183 cm)" names one amount in two ways; years are left to the model
    asked_numbers = {number.value for number in case.question.numbers} - {expected.value}
    amounts = [amount for amount in case.answer.quantities if amount.value not in asked_numbers]
    if len(amounts) != 1 or (reference.dates and case.answer.dates):
        return False
    [amount] = amounts
    if amount.unit and expected.unit:
        return amount.comparable(expected) and amount.differs(expected)
    small, large = sorted((amount.value, expected.value), key=abs)
    is_same_in_millions = abs(small) < _LARGEST_IN_MILLIONS and large in [small * scale for scale in _SCALES]
    return not is_same_in_millions and amount.differs(expected)


_SCALES = (1e3, 1e6, 1e9)
_LARGEST_IN_MILLIONS = 1e5
"""The reference may be "137" where millions are meant, but not "5 million" where billions are."""


def _other_identifier(case: Case) -> bool:
    """Whether long tokens with digits differ, such as identifiers, in which every digit counts; or "12a" and "12b"."""
    identifiers = []
    for text in (case.reference, case.answer):
        long_tokens = [token for token in text.tokens if len(token) > LONGEST_NUMBER]
        identifiers.append({token for token in long_tokens if any(map(str.isdigit, token))})
    if all(identifiers) and identifiers[0].isdisjoint(identifiers[1]):
        return True
    for pattern in _LETTERED:
        expected = pattern.findall(case.reference.normal)
        stated = pattern.findall(case.answer.normal)
        for kept, changed in expected:
            of_kept = {other_part for part, other_part in stated if part == kept}
            if of_kept and changed not in of_kept:
                return True
    return False


_LETTERED = (re.compile(r"(?<![\w.,])(\d+)([a-f])(?!\w)"), re.compile(r"(?<![\w.,])([a-z])-?(\d{1,3})(?!\w|[.,]\d)"))
"""A seat, a gate, a section: "12b"; a quarter, a vitamin, a size of paper: "Q1"."""


_CONTACT = re.compile(
    r"(?P<address>[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)\S+|[\w-]+(?:\.[\w-]+)+/\S*"
    r"|[\w-]{2,}\.[a-z][a-z0-9]{1,4}\b|#[0-9a-f]{6}\b|\b[dmy]{1,4}(?:[/.-][dmy]{1,4}){2}\b)"
    r"|(?<![\w.,])(?P<phone>\+?\(?\d[\d\s()/-]{5,18}\d)(?!\w|[.,]\d)"
)
"""An address of mail or of the web, a file, a colour, a format of dates, or a number of a telephone."""


def _contacts(text: Text) -> list[str]:
    """The addresses and telephone numbers of a text, each in one spelling."""
    contacts = []
    for contact in _CONTACT.finditer(text.raw.casefold()):
        if contact["address"]:
            contacts.append(re.sub(r"^(?:https?://)?(?:www\.)?|[/.,;:!?)]+$", "", contact["address"]))
        else:
            digits_only = re.sub(r"[^\d+]", "", contact["phone"].replace("(0)", ""))
            contacts.append(re.sub(r"^00", "+", digits_only))
    return contacts


def _contact_ratio(case: Case) -> float | None:
    """The share of the addresses or telephone numbers of the answer that are the reference; None if it is no such.

    A number with the code of its country is the same as without: "+49 30 1234567" and "030 1234567".
    """
    if case.reference.dates or not _CONTACT.fullmatch(case.reference.raw.casefold().strip(" .")):
        return None
    [expected] = _contacts(case.reference)
    stated = _contacts(case.answer)
    if not stated:
        return None
    n_same = 0
    for contact in stated:
        short, long = sorted((contact, expected), key=len)
        n_same += short == long or (long.startswith("+") and long.endswith(short.lstrip("0")))
    return n_same / len(stated)


def same_contact(case: Case) -> bool:
    """Both are one address, or one number of a telephone, and nothing else.

    >>> same_contact(Case.of(read("Which number?"), read("030 123-4567"), read("+49 30 1234567")))
    True
    """
    return bool(_CONTACT.fullmatch(case.answer.raw.casefold().strip(" ."))) and _contact_ratio(case) == 1


def other_contact(case: Case) -> bool:
    """The reference is an address or a number of a telephone, and the answer names only others.

    >>> other_contact(Case.of(read("Where?"), read("See https://acme.example/faq"), read("acme.example/help")))
    True
    """
    return _contact_ratio(case) == 0


def other_version(case: Case) -> bool:
    """In numbers of versions, sections and others that are no amounts, zeros at the end count: 1.10 is not 1.1.

    >>> other_version(Case.of(read("Which version?"), read("1.10"), read("1.1")))
    True
    """
    if any(quantity.unit for quantity in case.reference.quantities):
        return False
    if all(_NUMBERED.isdisjoint(text.tokens) for text in (case.question, case.reference, case.answer)):
        return False
    expected = {digits(token): token for token in case.reference.tokens}
    stated = {digits(token): token for token in case.answer.tokens}
    fractions = [(value, token) for value, token in expected.items() if value and value % 1]
    return any(stated.get(value, token) != token for value, token in fractions)


_NUMBERED = word_list("numbered")


def glued_number(case: Case) -> bool:
    """The answer has the number of the reference only inside a name: "5abc" is not 5, nor is "B12" 12.

    >>> glued_number(Case.of(read("Which vitamin?"), read("It is B12."), read("12")))
    True
    """
    tokens = case.reference.tokens
    if len(tokens) != 1 or not tokens[0].isdecimal() or tokens[0] not in case.answer.tokens:
        return False
    # Letters that are no unit, and no word of the question, make a name of digits
    plain_letters = _BESIDE_DIGITS.union(case.question.tokens)
    holding = [parts for parts in map(parted, words_of_normalised(case.answer.normal)) if tokens[0] in parts]
    for parts in holding:
        if plain_letters.issuperset(part for part in parts if part.isalpha()):
            return False
    return bool(holding)


_BESIDE_DIGITS = frozenset(UNIT_WORDS) | frozenset(TABLES["scales"]) | word_list("beside_digits")


def stated(case: Case) -> bool:
    """The answer says the whole reference, word for word, and beside it little that the question does not say."""
    reference = case.reference
    answer = case.answer
    if not 0 < len(reference.said) <= _MAX_VALUE_WORDS or len(sentences(answer.raw)) > 1:
        return False
    if not set(reference.plain).issubset(case.head.plain):
        return False
    if not clear(case) or answer.negated or is_refusal(answer.normal):
        return False
    # What the question says too is no answer: "Ada beat Eve" for "Who beat Ada?"
    if case.question.stem_set & set(reference.said) or bounds(case.head, reference) - bounds(case.question, reference):
        return False
    expected = {*reference.stems, *case.question.stems, *SHELL_WORDS}
    added = {stem for stem in case.head.said if stem not in expected and not occurs(stem, case.question.stem_set)}
    return len(added) <= (0 if reference.numbers else _MAX_ADDED_WORDS) and _stands_alone(case, added)


_MAX_VALUE_WORDS = 4
_MAX_ADDED_WORDS = 2


def _stands_alone(case: Case, added: set[str]) -> bool:
    """Whether the words of the reference stand in the answer, in order, and are no part of a longer name."""
    expected = case.reference.plain
    stated = case.head.plain
    capitals: set[str] = set()
    for word in case.head.raw.split():
        if word[:1].isupper():
            capitals.update(read(word).tokens)
    # "Who beat Ada?" asks for a verb and its object
    question = case.question.tokens
    asked_words = [token for token in question if token not in FUNCTION_WORDS and token != "who"]
    asks_who = question[:1] == ("who",) and len(asked_words) > 1 and question[1] == asked_words[0]

    for start in range(len(stated) - len(expected) + 1):
        stop = start + len(expected)
        if stated[start:stop] != expected:
            continue
        previous = stated[max(0, start - 1) : start]
        if added and previous in _OWNED:
            continue
        # "Ada beat Eve" is no answer: it turns the question round
        if asks_who and previous == (asked_words[0],) and asked_words[-1] in stated[: start - 1]:
            continue
        beside = (*previous, *stated[stop : stop + 1])
        # "The lead and the manager" are not the lead
        if added and not _JOINING.isdisjoint(beside):
            continue
        if not any(stem(token) in added and (not capitals or token in capitals) for token in beside):
            return True
    return False


_OWNED = (("of",), ("de",))
"""Words that make "the brother of Ada" another person than Ada."""


def turned_pair(case: Case) -> bool:
    """The answer exchanges the numbers of a ratio or a score: "1:3" for "3:1".

    >>> turned_pair(Case.of(read("How did the match end?"), read("1:3"), read("3:1")))
    True
    """
    expected = set(_PAIR.findall(case.reference.normal))
    stated = set(_PAIR.findall(case.answer.normal))
    return len(expected) == 1 and not expected & stated and any(pair[::-1] in stated for pair in expected)


def other_order(case: Case) -> bool:
    """The answer has the words of the reference, with its two ends exchanged: "Ada beat Eve" for "Eve beat Ada"."""
    expected = case.reference.stems
    stated = case.head.stems
    if not 3 <= len(expected) <= _MAX_ORDERED_WORDS or len(expected) != len(stated) or expected == stated:
        return False
    tokens = case.reference.tokens
    normal = case.reference.normal
    is_russian = any("а" <= letter <= "я" for letter in normal)
    for start, middle, end in combinations(range(1, len(expected) + 1), 3):
        if stated != expected[middle:end] + expected[start:middle] + expected[:start] + expected[end:]:
            continue
        # Two names are told apart by a verb or a comparison between them, and not by "and"
        between = tokens[start:middle]
        compares = "чем" in between
        content = [word for word in between if word not in FUNCTION_WORDS and word not in AUXILIARIES]
        if not content or ("," in normal and not compares) or not _JOINING.isdisjoint(between):
            continue
        # In Russian another order is another meaning only if the endings change, or in a comparison
        is_exchange = not is_russian or compares or sorted(tokens) != sorted(case.head.tokens)
        if is_exchange and _MARKS_OF_ROLES.isdisjoint((tokens[0], tokens[middle])):
            return True
    return False


_MARKS_OF_ROLES = word_list("marks_of_roles")
"""Words that tell the role of what follows, wherever it stands: "to Ada", "auf Ada"."""


_MAX_ORDERED_WORDS = 16
_JOINING = word_list("joining")
_RELATIVES = "|".join(word_list("relatives"))
_QUALIFIED = re.compile(
    rf"^(?:\w+ ){{0,2}}?(?:{'|'.join(TABLES['not_at'])}|{'|'.join(word_list('standing_in'))}|(?:{_RELATIVES}) of"
    r"|(?:north|south|east|west)\w* of|[\d.,]+ ?\w+ (?:from|off)|(?:before|after)(?= (?:\w+ )?\d)) "
    rf"|['’]s (?:{_RELATIVES})$|,? (?:{'|'.join(TABLES['except'])})\b.*$"
)
_OF_SOMEBODY = re.compile(r"(?<=\w)['’]s(?: \w+){1,2}$")


def qualified(case: Case) -> bool:
    """One names what the other one only names to say what it means: "near Berlin", "Ada's wife", "before 1945".

    To a question for a person, "the buyer's bank" is not the buyer.

    >>> qualified(Case.of(read("Where is it?"), read("30 km from Berlin"), read("Berlin")))
    True
    """
    texts = [text.normal.strip(" .") for text in (case.head, case.reference)]
    asks_who = "who" in case.question.tokens[:1]
    for pattern in (_QUALIFIED, _OF_SOMEBODY) if asks_who else (_QUALIFIED,):
        is_in_one = len({pattern.search(text) is None for text in texts}) == 2
        first, second = ({*read(pattern.sub("", text)).said} - SHELL_WORDS for text in texts)
        if is_in_one and first == second and not pattern.search(case.question.normal):
            return True
    return False


def other_variant(case: Case) -> bool:
    """A word makes another name of a name: "West Virginia", "Pro Plus".

    >>> other_variant(Case.of(read("Which state?"), read("West Virginia"), read("Virginia")))
    True
    """
    ignored = FUNCTION_WORDS.union(case.question.tokens)
    name_tokens = tuple([token for token in case.head.plain if token not in ignored and stem(token) not in SHELL_WORDS])
    return _is_changed(case.reference.plain, case.head, ignored) or _is_changed(name_tokens, case.reference, ignored)


_BEFORE_NAMES = word_list("before_names")
_BEHIND_NAMES = word_list("behind_names")


def _is_changed(name: tuple[str, ...], text: Text, ignored: frozenset[str]) -> bool:
    """Whether a name stands in a text, and everywhere beside a word that makes it another name."""
    # In "12 Euro pro Tag" it is a preposition
    words = [word for word in text.raw.split() if word[:1].isupper() or text.raw.islower()]
    names = frozenset(read(" ".join(words)).tokens) - ignored
    stated = ("", *text.plain, "")
    stands = False
    for start in range(1, len(stated) - len(name)):
        stop = start + len(name)
        if stated[start:stop] == name:
            stands = True
            changing = {stated[start - 1]} & _BEFORE_NAMES or {stated[stop]} & _BEHIND_NAMES
            if not names & changing:
                return False
    return stands


def other_name(case: Case) -> bool:
    """The reference is a name of two words, and the answer has one of them beside another one: "Eve Brown" for "Ada
    Brown"."""
    names = case.reference.raw.strip(" .").split()
    if len(names) != 2 or len(case.answer.tokens) > _MAX_ANSWER_TOKENS or not all(map(_is_name, names)):
        return False
    first_name, last_name = (read(name).tokens for name in names)
    # Not "Munich, Bavaria"
    if not names[0].isalpha() or len(first_name) != 1 or len(last_name) != 1:
        return False
    if not {*first_name, *last_name}.isdisjoint(case.question.tokens):
        return False
    has_first, has_last = (_resembles(name, case.answer.stem_set) for name in case.reference.stems)
    if has_first == has_last:
        return False

    # Beside the name that the answer has, a name that the question does not have
    words = case.answer.raw.split()
    kept_name = last_name if has_last else first_name
    for word, next_word in pairwise(words if has_last else words[::-1]):
        if read(next_word).tokens[:1] != kept_name or not _is_name(word) or word[-1] in ",;:!?":
            continue
        tokens = read(word).tokens
        if len(tokens) == 1 and tokens[0] not in _NO_NAMES and tokens[0] not in case.question.tokens:
            return True
    return False


_MAX_ANSWER_TOKENS = 30
_NO_NAMES = FUNCTION_WORDS | TITLES | PLACE_OR_KIND | AUXILIARIES


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


def other_formula(case: Case) -> bool:
    """Both are formulas, code or addresses, and a sign differs.

    >>> other_formula(Case.of(read("What is its derivative?"), read("It is f(y)."), read("f(x)")))
    True
    """
    if "/" in case.reference.normal and equal(case.head.quantities, case.reference.quantities):
        # "18 km/h" for "5 m/s": the stroke is that of a unit
        return False
    return formulas_differ(case.head.raw, case.reference.raw)


RULES_VERSION = 13
"""Increase it whenever the decision of a rule changes: it is part of the signature."""

AGAINST_ANSWER = frozenset(("refusal", "hedged"))
"""Rules against an answer as a whole; other rules against a match concern a single reference."""

RULES: Mapping[Callable[[Case], bool], Ruling] = {
    glued_number: Ruling("other_number", "the answer has the number only as a part of a name"),
    other_version: Ruling("other_number", "the answer names another version or section"),
    other_variant: Ruling("other_name", "the answer names another variant of that name"),
    other_formula: Ruling("other_formula", "the answer differs from the reference in a sign that counts"),
    same_text: Ruling("same_text", "the answer equals the reference apart from its form", "match"),
    same_contact: Ruling("same_text", "the answer is the same address, file or number", "match"),
    refusal: Ruling("refusal", "the answer declines to answer", "refusal"),
    hedged: Ruling("hedged", "the answer says itself that it is not sure", "hedged"),
    negated: Ruling("negated", "the answer denies what the reference says"),
    opposite: Ruling("opposite", "one says yes, the other no"),
    turns_round: Ruling("opposite", "the answer turns a word of the reference round"),
    undenied: Ruling("opposite", "the answer says what the reference denies"),
    same_reply: Ruling("same_reply", "both say yes, or both say no", "match"),
    other_time: Ruling("other_number", "the answer names another time"),
    same_time: Ruling("same_number", "the answer names the same time", "match"),
    qualified: Ruling("other_name", "one is beside, without or part of what the other names"),
    other_date: Ruling("other_date", "the answer names another date"),
    same_number: Ruling("same_number", "the answer names the same number", "match"),
    same_date: Ruling("same_date", "the answer names the same date", "match"),
    several_letters: Ruling("other_list", "the answer names several letters, and the reference one", "partial"),
    longer_list: Ruling("other_list", "the answer lists more than the reference", "multiple_alternatives"),
    other_list: Ruling("other_list", "the answer does not list what the reference lists", "partial"),
    other_number: Ruling("other_number", "the answer names another number"),
    other_contact: Ruling("other_name", "the answer names another address, file or number"),
    turned_pair: Ruling("other_order", "the answer exchanges two numbers of the reference"),
    other_order: Ruling("other_order", "the answer exchanges two things of the reference"),
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
