"""Numbers, dates, times of day and quantities in any form: "twenty one", "18 мая 2018", "2 pm", "6 ft 1 in"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from answerkey.metrics_core.offline_judge.vocabulary import TABLES, UNIT_WORDS, word_list


def _values(table: str, step: int, first: int = 1) -> Mapping[str, int]:
    """The words of a table and the values of their lines: `first` times `step`, and `step` more for each line."""
    return {word: n * step for n, words in enumerate(TABLES[table], first) for word in words.split()}


_ONES, _TENS, _HUNDREDS = _values("ones", 1, 0), _values("tens", 10, 2), _values("hundreds", 100)
_MONTHS = _values("months", 1)
_COMPOUNDS = _values("spanish_twenties", 1, 21)
_GERMAN_ONES = {word: value for word, value in _ONES.items() if value} | {"ein": 1}
_GERMAN = re.compile(
    r"(?:(?P<thousands>{ones})?(?P<thousand>tausend))?(?:(?P<hundreds>{ones})?(?P<hundred>hundert))?"
    r"(?:und)?(?:(?:(?P<ones>{ones})und)?(?P<tens>{tens})|(?P<last>{ones}))?".format(
        ones="|".join(sorted(_GERMAN_ONES, key=len, reverse=True)), tens="|".join(_TENS)
    )
)
_SCALES: Mapping[str, float] = TABLES["scales"]
_ORDINALS_EN: Mapping[str, int] = TABLES["ordinals"]
_ORDINAL_STEMS_RU: Mapping[str, int] = TABLES["russian_ordinal_stems"]
_ORDINAL_RU = re.compile(
    rf"({'|'.join(sorted(_ORDINAL_STEMS_RU, key=len, reverse=True))})(?:[ыио]й|ая|ое|ого|ому|ом|ую|ые|ых|ья|ье|ьего)"
)
_ORDINAL_DIGITS = re.compile(r"(\d+)(?:st|nd|rd|th|-?(?:й|я|е|го|му|м|ый|ой|ая|ое))")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_DECADE = re.compile(r"(\d{3}0)'?s")
LONGEST_NUMBER = 15
"""The most characters of a number, which a double represents exactly. Longer ones are compared as text."""
_MINUS = word_list("minus")
_JOINS = word_list("joins_numbers")
_ROMAN = _values("roman", 1)


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the tokens from `start` up to `stop` name.

    >>> numbers(("minus", "five"))
    [Number(value=-5.0, start=0, stop=2, ordinal=False)]
    """

    value: float
    start: int
    stop: int
    ordinal: bool = False


@lru_cache(maxsize=65_536)
def digits(token: str) -> float | None:
    """The value of a token written with digits: `-5`, `3.14`, `4th`, `1990s`; None if it is not a number.

    >>> digits("3.14"), digits("4th"), digits("four")
    (3.14, 4.0, None)
    """
    if len(token) > LONGEST_NUMBER or not any(map(str.isdigit, token)):
        return None
    if _PLAIN.fullmatch(token):
        return float(token)
    if "," in token and _PLAIN.fullmatch(token.replace(",", ".")):
        return float(token.replace(",", "."))
    matched = _ORDINAL_DIGITS.fullmatch(token) or _DECADE.fullmatch(token)
    return float(matched[1]) if matched else None


@lru_cache(maxsize=65_536)
def ordinal_word(token: str) -> int | None:
    """The value of an ordinal in words, English or Russian in any case.

    >>> ordinal_word("third"), ordinal_word("третьего")
    (3, 3)
    """
    if token in _ORDINALS_EN:
        return _ORDINALS_EN[token]
    matched = _ORDINAL_RU.fullmatch(token)
    return _ORDINAL_STEMS_RU[matched[1]] if matched else None


@lru_cache(maxsize=65_536)
def compound(token: str) -> int | None:
    """The value of a German or Spanish number of several words in one, or None.

    >>> compound("hundertfunfundzwanzig"), compound("veintidos"), compound("hundreds")
    (125, 22, None)
    """
    if token in _COMPOUNDS:
        return _COMPOUNDS[token]
    if "und" not in token and "tausend" not in token:
        return None
    parts = _GERMAN.fullmatch(token)
    if parts is None or token in ("und", "tausend", "hundert"):
        return None
    value = _GERMAN_ONES.get(parts["ones"] or parts["last"], 0) + _TENS.get(parts["tens"], 0)
    if parts["hundred"]:
        value += 100 * _GERMAN_ONES.get(parts["hundreds"], 1)
    if parts["thousand"]:
        value += 1000 * _GERMAN_ONES.get(parts["thousands"], 1)
    return value or None


def roman(token: str) -> int | None:
    """The value of a Roman numeral of at least two letters, up to 99 (a single letter is more often a letter).

    >>> roman("xiv"), roman("x")
    (14, None)
    """
    return _ROMAN.get(token) if len(token) > 1 else None


def numbers(tokens: Sequence[str]) -> list[Number]:
    """Every number that `tokens` (of `answerkey.metrics_core.text.words`) name, from left to right.

    >>> [number.value for number in numbers(("twenty", "one", "dogs", "3.5", "million"))]
    [21.0, 3500000.0]
    """
    result: list[Number] = []
    for position, token in enumerate(tokens):
        if not _may_begin(token) or (result and position < result[-1].stop):
            continue
        if token == "ciento" and position and tokens[position - 1] == "por":
            # "18 por ciento" is 18 %
            continue
        below = token in _MINUS and position + 1 < len(tokens)
        number = _number_at(tokens, position + 1 if below else position)
        if number is not None:
            half = _token(tokens, number.stop) == "½"
            value = number.value + 0.5 * half
            result.append(Number(-value if below else value, position, number.stop + half, number.ordinal))
    return result


# Most tokens begin neither, and checking each of them in detail would dominate the time of a text.
@lru_cache(maxsize=65_536)
def _may_begin(token: str) -> bool:
    """Whether a number or a date may begin with this token."""
    named = token == "a" or any(token in words for words in (_ONES, _TENS, _HUNDREDS, _MINUS, _MONTHS))
    if named or any(map(str.isdigit, token)):
        return True
    return any(value(token) is not None for value in (ordinal_word, compound, roman))


def _number_at(tokens: Sequence[str], start: int) -> Number | None:
    token = tokens[start]
    value = digits(token)
    if value is not None:
        return _scaled(tokens, value, start, start + 1, ordinal=not _PLAIN.fullmatch(token))
    in_words = token in _ONES or token in _TENS or token in _HUNDREDS or compound(token) is not None
    if in_words or (token == "a" and start + 1 < len(tokens) and tokens[start + 1] in _SCALES):
        return _in_words(tokens, start)
    ordinal = ordinal_word(token)
    if ordinal is not None:
        return Number(float(ordinal), start, start + 1, True)
    numeral = roman(token)
    if numeral is not None and start > 0:
        return Number(float(numeral), start, start + 1, True)
    return None


def _scaled(tokens: Sequence[str], value: float, start: int, stop: int, *, ordinal: bool) -> Number:
    while stop < len(tokens) and tokens[stop] in _SCALES:
        value *= _SCALES[tokens[stop]]
        stop += 1
    return Number(value, start, stop, ordinal)


def _in_words(tokens: Sequence[str], start: int) -> Number:
    total, part, stop = 0.0, 0.0, start
    ordinal = False
    last = 1e15
    while stop < len(tokens) and not ordinal:
        token = tokens[stop]
        if token in _SCALES and (stop > start or token != "a"):
            scale = _SCALES[token]
            if scale == 100:
                part = (part or 1) * 100
            else:
                total, part = total + (part or 1) * scale, 0.0
            last = 1e15 if scale == 100 else scale
        elif token in ("and", "a") and stop + 1 < len(tokens) and (stop == start or part >= 100 or total):
            if _small(tokens[stop + 1]) is None and tokens[stop + 1] not in _SCALES:
                break
        elif token in _JOINS:
            # "cuarenta y ocho"
            joined = _small(tokens[stop + 1]) if stop + 1 < len(tokens) else None
            if joined is None or joined > 9 or part % 100 < 30 or part % 10:
                break
        else:
            small = _small(token)
            # "twenty one" is 21, "one two" are two numbers.
            if small is None or (part % 100 and not (part % 10 == 0 and small < 10)) or small >= last:
                break
            part += small
            ordinal = not any(token in table for table in (_ONES, _TENS, _HUNDREDS)) and compound(token) is None
        stop += 1
    return Number(total + part, start, max(stop, start + 1), ordinal)


def _small(token: str) -> int | None:
    for table in (_ONES, _TENS, _HUNDREDS):
        if token in table:
            return table[token]
    if (value := compound(token)) is not None:
        return value
    ordinal = ordinal_word(token)
    return ordinal if ordinal is not None and token not in ("second", "once", "twice", "thrice") else None


_EARLIEST, _LATEST = 1000, 2199
_CENTURY, _AFTER_YEAR, _BETWEEN_PARTS = map(word_list, ("century", "after_year", "between_date_parts"))
_AMBIGUOUS = word_list("ambiguous_months")
"""Months whose names are also words or names of people; they count only beside a day or a year."""


@dataclass(frozen=True, slots=True)
class Date:
    """A date; parts that are not stated are None. `span`: 1, 10 (decade) or 100 (century) years.

    `ambiguous`: the day may be the month, and the month the day: "5/4/2020".

    >>> [may] = dates(("18", "may", "2018"))
    >>> may.year, may.month, may.day, may.parts
    (2018, 5, 18, 3)
    """

    year: int | None
    month: int | None = None
    day: int | None = None
    span: int = 1
    start: int = 0
    stop: int = 0
    ambiguous: bool = False

    @property
    def parts(self) -> int:
        """The number of stated parts among year, month and day."""
        return sum(part is not None for part in (self.year, self.month, self.day))

    def agrees(self, other: Date) -> bool:
        """Whether both state a part in common, and no common part differs.

        >>> Date(2018, 5).agrees(Date(2018)), Date(2018, 5).agrees(Date(2018, 6))
        (True, False)
        """
        span = max(self.span, other.span)
        years = [None if year is None else year // span for year in (self.year, other.year)]
        pairs = (years, (self.month, other.month), (self.day, other.day))
        agreeing = [part == other_part for part, other_part in pairs if part is not None and other_part is not None]
        if bool(agreeing) and all(agreeing):
            return True
        if not (self.ambiguous or other.ambiguous):
            return False
        ambiguous_date, fixed_date = (self, other) if self.ambiguous else (other, self)
        return replace(ambiguous_date, month=ambiguous_date.day, day=ambiguous_date.month, ambiguous=False).agrees(
            replace(fixed_date, ambiguous=False)
        )

    def covers(self, other: Date) -> bool:
        """Whether it agrees and states at least as much: "18 May 2018" covers "May 2018", not the other way.

        >>> Date(2018, 5, 18).covers(Date(2018, 5)), Date(2018, 5).covers(Date(2018, 5, 18))
        (True, False)
        """
        if not self.agrees(other) or self.span > other.span:
            return False
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(part is not None for part, other_part in pairs if other_part is not None)


def dates(tokens: Sequence[str]) -> list[Date]:
    """Every date that `tokens` (of `answerkey.metrics_core.text.words`) name, from left to right.

    A bare number counts as a year from 1000 to 2199.

    >>> [date.year for date in dates(("1851", "to", "1900s"))]
    [1851, 1900]
    """
    result: list[Date] = []
    for position, token in enumerate(tokens):
        if not _may_begin(token) or (result and position < result[-1].stop):
            continue
        date = (
            _numeric(tokens, position)
            or _with_month(tokens, position)
            or _century(tokens, position)
            or _year_alone(tokens, position)
        )
        if date is not None:
            result.append(date)
    return result


def _whole(token: str) -> int | None:
    value = digits(token)
    return int(value) if value is not None and value == int(value) and value > 0 else None


def _year(token: str) -> int | None:
    value = _whole(token) if len(token) == 4 else None
    return value if value is not None and _EARLIEST <= value <= _LATEST else None


def _numeric(tokens: Sequence[str], position: int) -> Date | None:
    """2018-05-18 (a sign stays a separator after a digit), 05/18/2018, 18.05.2018."""
    pieces = tokens[position].split(".")
    stop = position + 1
    if len(pieces) != 3:
        pieces, stop = list(tokens[position : position + 3]), position + 3
    if len(pieces) < 3 or not all(p.isdecimal() and len(p) <= 4 for p in pieces):
        return None
    a, b, c = (int(p) for p in pieces)
    if len(pieces[0]) == 4 and _EARLIEST <= a <= _LATEST and b <= 12 and 1 <= c <= 31:
        return Date(a, b, c, start=position, stop=stop)
    if len(pieces[2]) == 4 and _EARLIEST <= c <= _LATEST and max(a, b) <= 31:
        # Day first, unless only the month can come first; with a stroke, nobody can tell.
        month, day = (a, b) if b > 12 else (b, a)
        if 1 <= month <= 12 and day >= 1:
            return Date(c, month, day, start=position, stop=stop, ambiguous=stop > position + 1 and max(a, b) <= 12)
    return None


def _with_month(tokens: Sequence[str], position: int) -> Date | None:
    """Day month year and month day year, with parts missing."""
    day: int | None = None
    month_at = position
    value = _whole(tokens[position]) or ordinal_word(tokens[position])
    if value is not None and value <= 31 and _year(tokens[position]) is None:
        day, month_at = value, _after(tokens, position + 1, _BETWEEN_PARTS)
    month = _MONTHS.get(tokens[month_at]) if month_at < len(tokens) else None
    if month is None:
        return None
    stop = month_at + 1
    if day is None and stop < len(tokens):
        value = _whole(tokens[stop]) if len(tokens[stop]) != 4 else None
        if value is not None and value <= 31:
            day, stop = value, stop + 1
    year_at = _after(tokens, stop, _BETWEEN_PARTS)
    year = _year(tokens[year_at]) if year_at < len(tokens) else None
    if year is not None:
        stop = _after(tokens, year_at + 1, _AFTER_YEAR)
    if day is None and year is None and tokens[month_at] in _AMBIGUOUS:
        return None
    return Date(year, month, day, start=position, stop=stop)


def _after(tokens: Sequence[str], position: int, words: frozenset[str]) -> int:
    """The index of the first token from `at` that is not one of `words`."""
    return next((i for i in range(position, len(tokens)) if tokens[i] not in words), len(tokens))


def _century(tokens: Sequence[str], position: int) -> Date | None:
    if position + 1 >= len(tokens) or tokens[position + 1] not in _CENTURY:
        return None
    number = _whole(tokens[position]) or ordinal_word(tokens[position]) or roman(tokens[position])
    return Date((number - 1) * 100, span=100, start=position, stop=position + 2) if number and number <= 22 else None


def _year_alone(tokens: Sequence[str], position: int) -> Date | None:
    token = tokens[position]
    if len(token) == 3 and token.endswith("0s") and token[0].isdecimal():
        # "The 90s" are the 1990s; decades of other centuries are written in full.
        return Date(1900 + int(token[:2]), span=10, start=position, stop=position + 1)
    if len(token) in (5, 6) and token.endswith("s"):
        decade = _year(token[:4])
        return (
            Date(decade, span=10, start=position, stop=position + 1)
            if decade is not None and decade % 10 == 0
            else None
        )
    year = _year(token)
    if year is None:
        return None
    followed = position + 1 < len(tokens) and tokens[position + 1] in _AFTER_YEAR
    return Date(year, start=position, stop=position + 1 + followed)


_HALF_DAY = 12 * 60
"""Minutes."""

_TIME = re.compile(
    r"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-3])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?::[0-5]\d)?)?"
    r"(?P<clock>\s?(?:o'clock|uhr)(?!\w))?"
    r"(?:\s?(?P<half>[ap])\.?\s?m(?!\w)\.?|\s(?:in the (?P<part>morning|afternoon|evening)|at (?P<night>night)))?"
    r"(?![\d:/-])"
)
_NAMED_TIME = re.compile(r"\b(?:(?P<noon>noon|midday)|midnight)\b")


_HOURS = {word: hour for word, hour in _ONES.items() if 1 <= hour <= 12}
_SPOKEN_TIME = re.compile(
    r"\b(?:(?P<share>half|(?:a )?quarter) (?P<side>past|to) (?P<hour>{hours}|1[0-2]|[1-9])"
    r"|(?P<full>{hours})(?= o'clock))(?![\w:.,]*\d)\b".format(hours="|".join(_HOURS))
)


def with_times_in_digits(normal: str) -> str:
    """A normalised text with times of day in digits that are in words.

    >>> with_times_in_digits("from half past ten to a quarter to 1, not at two o'clock")
    "from 10:30 to 12:45, not at 2 o'clock"
    """
    if not (" past " in normal or "quarter to " in normal or "o'clock" in normal):
        return normal
    return _SPOKEN_TIME.sub(_in_digits, normal)


def _in_digits(spoken: re.Match[str]) -> str:
    if spoken["full"]:
        return str(_HOURS[spoken["full"]])
    hour = _HOURS.get(spoken["hour"]) or int(spoken["hour"])
    minute = 30 if spoken["share"] == "half" else 15
    if spoken["side"] == "to":
        hour = hour - 1 or 12
        minute = 60 - minute
    return f"{hour}:{minute}"


def times(normal: str) -> list[frozenset[int]]:
    """Every time of day that a normalised text names: the minutes since midnight that each can mean.

    Without "am" or "pm" an hour from 1 to 12 is in the morning or in the afternoon.

    >>> [sorted(time) for time in times("from 2 p.m. to 16:30, or at 5 o'clock")]
    [[840], [990], [300, 1020]]
    """
    readings: list[frozenset[int]] = []
    for time in _TIME.finditer(normal):
        hour = int(time["hour"])
        minute = int(time["minute"] or 0)
        half = time["half"]
        if not half and time["part"]:
            half = "a" if time["part"] == "morning" else "p"
        elif not half and time["night"]:
            half = "p" if 6 <= hour < 12 else "a"

        if half and hour <= 12:
            afternoon = _HALF_DAY if half == "p" else 0
            readings.append(frozenset([hour % 12 * 60 + minute + afternoon]))
        elif time["colon"] == ":" or time["clock"]:
            minutes = hour % 24 * 60 + minute
            readings.append(frozenset([minutes]))
            if hour <= 12 and not time["hour"].startswith("0"):
                readings[-1] |= {(minutes + _HALF_DAY) % (2 * _HALF_DAY)}
    readings += [frozenset([_HALF_DAY if time["noon"] else 0]) for time in _NAMED_TIME.finditer(normal)]
    return readings


def without_times(normal: str) -> str:
    """A normalised text without the times of day in it.

    >>> without_times("at 2 pm, on monday")
    'at  , on monday'
    """
    return _NAMED_TIME.sub(" ", _TIME.sub(" ", normal))


_SAME, _NEAR, _ROUNDED = 0.005, 0.03, 0.05
_PERHAPS_SAME = ({"degree", "celsius"}, {"degree", "fahrenheit"}, {"pound", "sterling"})
_FACTORS = {unit: (kind, factor) for kind, units in TABLES["measures"].items() for unit, factor in units.items()}
_ZEROS: Mapping[str, float] = TABLES["zeros"]
"""What is added to a temperature before it is converted."""
_LEAST = {"temperature": 100.0}
"""The amount of which a difference is at least taken as a share: 20 and 21 °C are 1 % apart."""
_PER_WORDS, _BEFORE_UNITS, _MARKS_OF_MONEY = word_list("per"), word_list("before_units"), frozenset("$€£₽¢¥₹₩₺")
ADVERBS_OF_RATES: Mapping[str, str] = {word: unit for unit, words in TABLES["daily"].items() for word in words.split()}
"""The units of "daily", "jährlich" and others."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, "" where the text names none that is known.

    A rate has two units, of which the first may be missing: "mile/hour", "/week".

    >>> Quantity(5, "kilometre").equals(Quantity(5000, "metre"))
    True
    >>> Quantity(32, "fahrenheit").equals(Quantity(0, "celsius"))
    True
    """

    value: float
    unit: str = ""

    def equals(self, other: Quantity) -> bool:
        """Whether the amounts are equal; a missing unit matches every unit.

        Amounts in two units agree within 0.5 %, or if one is the other one converted and rounded.

        >>> [Quantity(1, "mile").equals(Quantity(km, "kilometre")) for km in (1.6, 1.7)]
        [True, False]
        """
        gap = self._gap(other)
        if not self.unit or not other.unit or self.unit == other.unit:
            return gap == 0
        return gap <= _SAME or (gap <= _NEAR and (self._rounds_to(other) or other._rounds_to(self)))

    def _rounds_to(self, other: Quantity) -> bool:
        kind, factor, zero = _scale(other.unit)
        n_digits = _significant_digits(other.value)
        # 32 °F may be "30", which is below zero
        exact = kind not in _LEAST or n_digits > 1
        return exact and float(f"{self._converted[1] / factor - zero:.{n_digits}g}") == other.value

    def near(self, other: Quantity) -> bool:
        """Whether the amounts are equal within 3 %, since people round."""
        return self._gap(other) <= _NEAR

    def comparable(self, other: Quantity) -> bool:
        """Whether another amount is another answer: both have a unit or none, and are rates or not.

        >>> Quantity(5, "kilometre").comparable(Quantity(5, "mile"))
        True
        """
        if self.unit == other.unit:
            return True
        if not self.unit or not other.unit or ("/" in self.unit) != ("/" in other.unit):
            return False
        # "degrees" may be of any scale, a "pound" of weight or of money
        return {self.unit, other.unit} not in _PERHAPS_SAME

    def differs(self, other: Quantity) -> bool:
        """Whether it is another amount: neither equal nor the same one rounded.

        >>> Quantity(125).differs(Quantity(1250)), Quantity(5.2, "mile").differs(Quantity(5, "mile"))
        (True, False)
        """
        if self.unit == other.unit or not self.unit or not other.unit:
            return not (self.equals(other) or _rounded(self.value, other.value))
        return not self.near(other)

    def _gap(self, other: Quantity) -> float:
        """The difference of the amounts as a share of the larger one; 0 for 0.25 and 25 %."""
        if self._share_of(other) or other._share_of(self):
            return 0.0
        if not self.unit or not other.unit or {self.unit, other.unit} in _PERHAPS_SAME:
            return _gap(self.value, other.value)
        (kind, value), (other_kind, other_value) = self._converted, other._converted
        return _gap(value, other_value, _LEAST.get(kind, 0.0)) if kind == other_kind else math.inf

    @property
    def _converted(self) -> tuple[str, float]:
        """The kind of quantity, and the amount in the base unit of this kind."""
        kind, factor, zero = _scale(self.unit)
        return kind, (self.value + zero) * factor

    def _share_of(self, percent: Quantity) -> bool:
        """0.25 and 25 %."""
        return percent.unit == "percent" and not self.unit and _gap(100 * self.value, percent.value) <= _SAME


@lru_cache(maxsize=1_024)
def _scale(unit: str) -> tuple[str, float, float]:
    """The kind of quantity that a unit measures, its factor to the base unit, and what is added before."""
    unit, _, per = unit.partition("/")
    kind, factor = _FACTORS.get(unit, (unit, 1.0))
    per_kind, per_factor = _FACTORS.get(per, (per, 1.0))
    return f"{kind}/{per_kind}".rstrip("/"), factor / per_factor, _ZEROS.get(unit, 0.0)


def equal(some: Sequence[Quantity], others: Sequence[Quantity]) -> bool:
    """Whether two texts name equal amounts, at least one, in the same order.

    >>> equal([Quantity(1, "hour")], [Quantity(60, "minute")])
    True
    """
    return len(some) == len(others) > 0 and all(map(Quantity.equals, some, others))


def _rounded(a: float, b: float) -> bool:
    """Whether one number is the other one, rounded to fewer digits: 5.2 and 5, 3207 and 3200."""
    if a == b:
        return True
    rough, exact = sorted((a, b), key=_significant_digits)
    n_digits = _significant_digits(rough)
    return n_digits < _significant_digits(exact) and float(f"{exact:.{n_digits}g}") == rough and _gap(a, b) <= _ROUNDED


def _significant_digits(value: float) -> int:
    return max(1, len(f"{abs(value):.15f}".replace(".", "").strip("0")))


def _gap(a: float, b: float, least: float = 0.0) -> float:
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b), least)


def quantities(tokens: Sequence[str], numbers: Sequence[Number]) -> list[Quantity]:
    """Every number of a text, with the unit right after it, or the currency right before it, and what it is "per".

    >>> tokens = ("6", "ft", "1", "in")
    >>> quantities(tokens, numbers(tokens))
    [Quantity(value=73.0, unit='inch')]
    >>> tokens = ("twice", "a", "week", "at", "$", "20", "an", "hour")
    >>> quantities(tokens, numbers(tokens))
    [Quantity(value=2.0, unit='/week'), Quantity(value=20.0, unit='dollar/hour')]
    """
    result: list[Quantity] = []
    stop = behind_unit = 0
    for number in numbers:
        if number.start < stop:
            # "Second" in "10 metres per second"
            continue
        position = _after(tokens, number.stop, _BEFORE_UNITS)
        next_token, following = _token(tokens, position), _token(tokens, position + 1)
        # The preposition, but in "6 ft 1 in"
        is_inch = next_token == "in" and result and result[-1].unit == "foot"
        unit = "inch" if is_inch else UNIT_WORDS.get(next_token, "")
        # In "5 € or 10 km", the mark belongs to the first number
        previous_token = _token(tokens, number.start - 1) if number.start > behind_unit else ""
        currency = UNIT_WORDS[previous_token] if previous_token in _MARKS_OF_MONEY else ""
        if unit == "degree":
            # "65 degrees Celsius", "65 °C"
            scale_at = _after(tokens, position + 1, _BEFORE_UNITS)
            scale = UNIT_WORDS.get(_token(tokens, scale_at), "")
            unit, position = (scale, scale_at) if scale in _ZEROS else (unit, position)
        elif (next_token, following) == ("por", "ciento"):
            unit, position = "percent", position + 1
        if currency and unit != currency:
            # What stands behind "$5" is what it is per: "$5/month"
            unit, position = currency, position - 1
        behind_unit = position + bool(unit)
        per, behind = _per(tokens, behind_unit, has_unit=bool(unit))
        if per and _FACTORS.get(unit, ("",))[0] != "speed of data":
            # Megabits are said of speeds, with or without "per second"
            unit = f"{unit.partition('/')[0]}/{per}"
        quantity = Quantity(number.value, unit)
        if result and number.start <= stop + 2 and (joined := _joined(result[-1], quantity)):
            result[-1] = joined
        else:
            result.append(quantity)
        stop = behind if per else number.stop
    return result


def _token(tokens: Sequence[str], position: int) -> str:
    return tokens[position] if 0 <= position < len(tokens) else ""


def _per(tokens: Sequence[str], position: int, *, has_unit: bool) -> tuple[str, int]:
    """The second unit of a rate, "" without one, and the position behind it.

    "An hour", "pro Tag", "daily"; behind a first unit also alone, as in "km/h".
    """
    unit_at = _after(tokens, position, _PER_WORDS)
    word = _token(tokens, unit_at)
    unit = "second" if has_unit and word == "s" else UNIT_WORDS.get(word, "")
    # "10 a.m." is no rate
    is_rate = has_unit or (unit_at > position and len(word) > 1)
    return ADVERBS_OF_RATES.get(word, unit if is_rate else ""), unit_at + 1


def _joined(first: Quantity, second: Quantity) -> Quantity | None:
    """ "3 hours and 48 minutes", "6 feet 1 inch": one amount in a larger and a smaller unit, in the smaller one."""
    kind, factor = _FACTORS.get(first.unit, ("", 1.0))
    other_kind, smaller = _FACTORS.get(second.unit, (None, 1.0))
    # "6 ft 1 in", but not "6 ft (183 cm)".
    if kind != other_kind or smaller >= factor or not 0 <= second.value * smaller < factor:
        return None
    return Quantity(round(first.value * factor / smaller + second.value, 6), second.unit)
