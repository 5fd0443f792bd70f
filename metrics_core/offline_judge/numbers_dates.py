"""Numbers, dates, times of day and quantities in any form: "twenty one", "18 мая 2018", "2 pm", "6 ft 1 in"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from answerkey.metrics_core.offline_judge.vocabulary import TABLES, UNIT_WORDS, word_list


def _values(table: str, step: int, first_line: int = 1) -> Mapping[str, int]:
    """The words of a table and the values of their lines: `first_line` times `step`, and `step` more for each line."""
    values: dict[str, int] = {}
    for n, line in enumerate(TABLES[table], first_line):
        values |= dict.fromkeys(line.split(), n * step)
    return values


_ONES = _values("ones", 1, first_line=0)
_TENS = _values("tens", 10, first_line=2)
_CARDINALS = {**_values("hundreds", 100), **_TENS, **_ONES}
_MONTHS = _values("months", 1)
_COMPOUNDS = _values("spanish_twenties", 1, first_line=21)
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
    # The ones stand before the tens: "fünfundzwanzig"
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
        # A negative number begins with its sign
        is_below = token in _MINUS and position + 1 < len(tokens)
        number = _number_from(tokens, position + 1 if is_below else position)
        if number is not None:
            is_half = _token(tokens, number.stop) == "½"
            # Adding 0.0 makes a plain 0 of a negative one
            value = number.value + (0.5 if is_half else 0.0)
            stop = number.stop + 1 if is_half else number.stop
            result.append(Number(-value if is_below else value, position, stop, number.ordinal))
    return result


# Most tokens begin neither, and checking each of them in detail would dominate the time of a text.
@lru_cache(maxsize=65_536)
def _may_begin(token: str) -> bool:
    """Whether a number or a date may begin with this token."""
    if token == "a" or any(token in words for words in (_CARDINALS, _MINUS, _MONTHS)):
        return True
    if any(map(str.isdigit, token)):
        return True
    return any(value(token) is not None for value in (ordinal_word, compound, roman))


def _number_from(tokens: Sequence[str], start: int) -> Number | None:
    token = tokens[start]
    value = digits(token)
    if value is not None:
        stop = start + 1
        while stop < len(tokens) and tokens[stop] in _SCALES:
            value *= _SCALES[tokens[stop]]
            stop += 1
        return Number(value, start, stop, ordinal=not _PLAIN.fullmatch(token))
    is_cardinal = token in _CARDINALS or compound(token) is not None
    if is_cardinal or (token == "a" and _token(tokens, start + 1) in _SCALES):
        return _in_words(tokens, start)
    ordinal = ordinal_word(token)
    if ordinal is None and start > 0:
        ordinal = roman(token)
    return None if ordinal is None else Number(float(ordinal), start, start + 1, ordinal=True)


def _in_words(tokens: Sequence[str], start: int) -> Number:
    total = 0.0
    part = 0.0
    # What follows a thousand is less than a thousand
    limit = 1e15
    stop = start
    ordinal = False
    while stop < len(tokens) and not ordinal:
        token = tokens[stop]
        following = _token(tokens, stop + 1)
        if token in _SCALES and (stop > start or token != "a"):
            scale = _SCALES[token]
            if scale == 100:
                part = (part or 1) * 100
                limit = 1e15
            else:
                total += (part or 1) * scale
                part = 0.0
                limit = scale
        elif token in ("and", "a") and following and (stop == start or part >= 100 or total):
            if _small(following) is None and following not in _SCALES:
                break
        elif token in _JOINS:
            # "cuarenta y ocho"
            joined = _small(following)
            if joined is None or joined > 9 or part % 100 < 30 or part % 10:
                break
        else:
            small = _small(token)
            # "twenty one" is 21, "one two" are two numbers.
            if small is None or (part % 100 and not (part % 10 == 0 and small < 10)) or small >= limit:
                break
            part += small
            ordinal = token not in _CARDINALS and compound(token) is None
        stop += 1
    return Number(total + part, start, max(stop, start + 1), ordinal)


def _small(token: str) -> int | None:
    value = _CARDINALS.get(token)
    if value is None:
        value = compound(token)
    if value is None and token not in ("second", "once", "twice", "thrice"):
        value = ordinal_word(token)
    return value


_EARLIEST = 1000
_LATEST = 2199
_CENTURY = word_list("century")
_AFTER_YEAR = word_list("after_year")
_BETWEEN_PARTS = word_list("between_date_parts")
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

    def agrees(self, other_date: Date) -> bool:
        """Whether both state a part in common, and no common part differs.

        >>> Date(2018, 5).agrees(Date(2018)), Date(2018, 5).agrees(Date(2018, 6))
        (True, False)
        """
        parts = [(self.month, other_date.month), (self.day, other_date.day)]
        if self.year is not None and other_date.year is not None:
            span = max(self.span, other_date.span)
            parts.append((self.year // span, other_date.year // span))
        agreeing = [
            part == other_number for part, other_number in parts if part is not None and other_number is not None
        ]
        if agreeing and all(agreeing):
            return True
        if not (self.ambiguous or other_date.ambiguous):
            return False
        # The day of one of them may be the month
        ambiguous_date, fixed_date = (self, other_date) if self.ambiguous else (other_date, self)
        exchanged = replace(ambiguous_date, month=ambiguous_date.day, day=ambiguous_date.month, ambiguous=False)
        return exchanged.agrees(replace(fixed_date, ambiguous=False))

    def covers(self, other_date: Date) -> bool:
        """Whether it agrees and states at least as much: "18 May 2018" covers "May 2018", not the other way.

        >>> Date(2018, 5, 18).covers(Date(2018, 5)), Date(2018, 5).covers(Date(2018, 5, 18))
        (True, False)
        """
        if not self.agrees(other_date) or self.span > other_date.span:
            return False
        pairs = ((self.year, other_date.year), (self.month, other_date.month), (self.day, other_date.day))
        return all(part is not None for part, other_number in pairs if other_number is not None)


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
        date = _numeric(tokens, position) or _with_month(tokens, position) or _only_years(tokens, position)
        if date is not None:
            result.append(date)
    return result


def _whole_number(token: str) -> int | None:
    value = digits(token)
    return int(value) if value is not None and value == int(value) and value > 0 else None


def _year(token: str) -> int | None:
    value = _whole_number(token) if len(token) == 4 else None
    return value if value is not None and _EARLIEST <= value <= _LATEST else None


def _numeric(tokens: Sequence[str], position: int) -> Date | None:
    """2018-05-18 (a sign stays a separator after a digit), 05/18/2018, 18.05.2018."""
    pieces = tokens[position].split(".")
    stop = position + 1
    if len(pieces) != 3:
        pieces = list(tokens[position : position + 3])
        stop = position + 3
    if len(pieces) < 3 or not all(piece.isdecimal() and len(piece) <= 4 for piece in pieces):
        return None
    year, month, day = map(int, pieces)
    if len(pieces[0]) == 4 and _EARLIEST <= year <= _LATEST and month <= 12 and 1 <= day <= 31:
        return Date(year, month, day, start=position, stop=stop)
    # The day first, unless only the month can come first; with a stroke, nobody can tell.
    day, month, year = map(int, pieces)
    if month > 12:
        month, day, year = map(int, pieces)
    if len(pieces[2]) != 4 or not _EARLIEST <= year <= _LATEST or not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    is_ambiguous = stop > position + 1 and day <= 12
    return Date(year, month, day, start=position, stop=stop, ambiguous=is_ambiguous)


def _with_month(tokens: Sequence[str], position: int) -> Date | None:
    """Day month year and month day year, with parts missing."""
    # The day before the month, if there is one
    day: int | None = None
    month_at = position
    number = _whole_number(tokens[position]) or ordinal_word(tokens[position])
    if number is not None and number <= 31 and _year(tokens[position]) is None:
        day = number
        month_at = _skip(tokens, position + 1, _BETWEEN_PARTS)
    month = _MONTHS.get(_token(tokens, month_at))
    if month is None:
        return None
    # The day behind the month, unless it is a year
    stop = month_at + 1
    following = _token(tokens, stop)
    if day is None and len(following) != 4:
        number = _whole_number(following)
        if number is not None and number <= 31:
            day = number
            stop += 1
    # A month alone may be another word: "may"
    year_at = _skip(tokens, stop, _BETWEEN_PARTS)
    year = _year(_token(tokens, year_at))
    if year is not None:
        stop = _skip(tokens, year_at + 1, _AFTER_YEAR)
    if day is None and year is None and tokens[month_at] in _AMBIGUOUS:
        return None
    return Date(year, month, day, start=position, stop=stop)


def _skip(tokens: Sequence[str], position: int, words: frozenset[str]) -> int:
    """Return the index of the first token from `position` on that is not one of `words`."""
    return next((i for i in range(position, len(tokens)) if tokens[i] not in words), len(tokens))


def _only_years(tokens: Sequence[str], position: int) -> Date | None:
    """A century, a decade or a year without its month."""
    token = tokens[position]
    following = _token(tokens, position + 1)
    if following in _CENTURY:
        number = _whole_number(token) or ordinal_word(token) or roman(token)
        if number and number <= 22:
            return Date((number - 1) * 100, span=100, start=position, stop=position + 2)
    if len(token) == 3 and token.endswith("0s") and token[0].isdecimal():
        # "The 90s" are the 1990s; decades of other centuries are written in full.
        return Date(1900 + int(token[:2]), span=10, start=position, stop=position + 1)
    is_decade = len(token) in (5, 6) and token.endswith("s")
    year = _year(token[:4] if is_decade else token)
    if year is None or (is_decade and year % 10):
        return None
    stop = position + 2 if following in _AFTER_YEAR and not is_decade else position + 1
    return Date(year, span=10 if is_decade else 1, start=position, stop=stop)


_HALF_DAY = 12 * 60
DAY = 2 * _HALF_DAY
"""Minutes."""

_TIME = re.compile(
    r"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-3])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?::[0-5]\d)?)?"
    r"(?P<clock>\s?(?:o'clock|uhr)(?!\w))?"
    r"(?:\s?(?P<half>[ap])\.?\s?m(?!\w)\.?"
    r"|\s(?:(?:in the )?(?P<part>morning|afternoon|evening|morgens|abends|утра|вечера)(?!\w)|at (?P<night>night)))?"
    r"(?![\d:/-])"
)
_NAMED_TIME = re.compile(r"\b(?:(?P<noon>noon|midday)|midnight)\b")


_HOURS = {word: hour for word, hour in _ONES.items() if 1 <= hour <= 12}
_SPOKEN_TIME = re.compile(
    r"\b(?:(?:(?P<share>half|(?:a )?quarter|viertel) (?P<side>past|to|nach|vor)|(?P<before>halb)) "
    r"(?P<hour>{hours}|1[0-2]|[1-9])|(?P<full>{hours})(?= (?:o'clock|uhr)))(?![\w:.,]*\d)\b".format(
        hours="|".join(_HOURS)
    )
)
_FROM_TO = re.compile(r"(?:(?<=\d:\d\d)|(?<=\d[ap]m))\s?[-–—]\s?(?=\d)")


def with_times_in_digits(normal: str) -> str:
    """A normalised text with times of day in digits that are in words.

    >>> with_times_in_digits("from half past ten to a quarter to 1, not at two o'clock")
    "from 10:30 to 12:45, not at 2 o'clock"
    >>> with_times_in_digits("um halb neun")
    'um 8:30'
    """
    is_spoken = any(word in normal for word in (" past ", "quarter to ", "o'clock", "uhr", "halb ", "viertel "))
    return _SPOKEN_TIME.sub(_in_digits, normal) if is_spoken else normal


def _in_digits(spoken: re.Match[str]) -> str:
    if spoken["full"]:
        return str(_HOURS[spoken["full"]])
    hour = _HOURS.get(spoken["hour"]) or int(spoken["hour"])
    minute = 30 if spoken["before"] or spoken["share"] == "half" else 15
    # "A quarter to nine", and "halb neun"
    if spoken["before"] or spoken["side"] in ("to", "vor"):
        hour = hour - 1 or 12
        minute = 60 - minute
    return f"{hour}:{minute}"


def times(normal: str) -> list[frozenset[int]]:
    """Every time of day that a normalised text names: the minutes since midnight that each can mean.

    Without "am" or "pm" an hour from 1 to 12 is in the morning or in the afternoon. A day is added to what is counted
    in halves of a day, or may be: "9:00" may be 9 pm, and hardly 21:00.

    >>> [sorted(time) for time in times("from 2 p.m. to 16:30, or at 5 o'clock")]
    [[840, 2280], [990], [300, 1020, 2460]]
    """
    readings: list[frozenset[int]] = []
    for time in _TIME.finditer(_FROM_TO.sub(" to ", normal) if "m" in normal or ":" in normal else normal):
        hour = int(time["hour"])
        minute = int(time["minute"] or 0)
        half = time["half"]
        if not half and time["part"]:
            half = "a" if time["part"] in ("morning", "morgens", "утра") else "p"
        elif not half and time["night"]:
            half = "p" if 6 <= hour < 12 else "a"

        # "2 pm" is one time, "2:00" and "2 o'clock" may be two
        if half and hour <= 12:
            minutes = hour % 12 * 60 + minute + (_HALF_DAY if half == "p" else 0)
            readings.append(frozenset([minutes, minutes + DAY]))
        elif time["colon"] == ":" or time["clock"]:
            minutes = hour % 24 * 60 + minute
            readings.append(frozenset([minutes]))
            if hour <= 12 and not time["hour"].startswith("0"):
                other_half = (minutes + _HALF_DAY) % DAY
                is_spoken = (time["clock"] or "").endswith("clock")
                readings[-1] |= {other_half + DAY, other_half if is_spoken else minutes}
    for time in _NAMED_TIME.finditer(normal):
        minutes = _HALF_DAY if time["noon"] else 0
        readings.append(frozenset([minutes, minutes + DAY]))
    return readings


def without_times(normal: str) -> str:
    """A normalised text without the times of day in it.

    >>> without_times("at 2 pm, on monday")
    'at  , on monday'
    """
    return _NAMED_TIME.sub(" ", _TIME.sub(" ", _FROM_TO.sub(" to ", normal)))


_CONVERSION_GAP = 0.005
_ROUNDING_GAP = 0.03
_DIGITS_GAP = 0.05
"""Up to such gaps, as shares, amounts are equal in two units, equal for people who round, or one may be the other one
rounded to fewer digits."""
_PERHAPS_SAME = ({"degree", "celsius"}, {"degree", "fahrenheit"}, {"pound", "sterling"})
_FACTORS: dict[str, tuple[str, float]] = {}
"""The kind of quantity that a unit measures, and its factor to the base unit."""
for _kind, _units in TABLES["measures"].items():
    _FACTORS |= {unit: (_kind, factor) for unit, factor in _units.items()}
_ZEROS: Mapping[str, float] = TABLES["zeros"]
"""What is added to a temperature before it is converted."""
_MIN_SIZES = {"temperature": 100.0}
"""The amount of which a difference is at least taken as a share: 20 and 21 °C are 1 % apart."""
_PER_WORDS = word_list("per")
_PER = frozenset(("per", "pro", "a", "an", "в", "por"))
_BEFORE_UNITS = word_list("before_units")
_MARKS_OF_MONEY = frozenset("$€£₽¢¥₹₩₺") | {"usd", "eur", "gbp", "chf", "jpy", "inr"}
_HUNDREDTHS = frozenset((cent, unit) for cent, units in TABLES["hundredths"].items() for unit in units.split())
_RANGES = word_list("ranges")
ADVERBS_OF_RATES: dict[str, str] = {}
"""The units of "daily", "jährlich" and others."""
for _unit, _adverbs in TABLES["daily"].items():
    ADVERBS_OF_RATES |= dict.fromkeys(_adverbs.split(), _unit)


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

    def equals(self, other_quantity: Quantity) -> bool:
        """Whether the amounts are equal; a missing unit matches every unit.

        Amounts in two units agree within 0.5 %, or if one is the other one converted and rounded.

        >>> [Quantity(1, "mile").equals(Quantity(km, "kilometre")) for km in (1.6, 1.7)]
        [True, False]
        """
        gap = self._gap(other_quantity)
        if not self.unit or not other_quantity.unit or self.unit == other_quantity.unit:
            return gap == 0
        return gap <= _CONVERSION_GAP or (
            gap <= _ROUNDING_GAP and (self._rounds_to(other_quantity) or other_quantity._rounds_to(self))
        )

    def _rounds_to(self, other_quantity: Quantity) -> bool:
        kind, factor, zero = _scale(other_quantity.unit)
        n_digits = _significant_digits(other_quantity.value)
        # 32 °F may be "30", which is below zero
        is_exact = kind not in _MIN_SIZES or n_digits > 1
        return is_exact and float(f"{self._converted[1] / factor - zero:.{n_digits}g}") == other_quantity.value

    def near(self, other_quantity: Quantity) -> bool:
        """Whether the amounts are equal within 3 %, since people round."""
        return self._gap(other_quantity) <= _ROUNDING_GAP

    def comparable(self, other_quantity: Quantity) -> bool:
        """Whether another amount is another answer: both have a unit or none, and are rates or not.

        >>> Quantity(5, "kilometre").comparable(Quantity(5, "mile"))
        True
        """
        if self.unit == other_quantity.unit:
            return True
        if not self.unit or not other_quantity.unit or ("/" in self.unit) != ("/" in other_quantity.unit):
            return False
        # "degrees" may be of any scale, a "pound" of weight or of money
        return {self.unit, other_quantity.unit} not in _PERHAPS_SAME

    def differs(self, other_quantity: Quantity) -> bool:
        """Whether it is another amount: neither equal nor the same one rounded.

        >>> Quantity(125).differs(Quantity(1250)), Quantity(5.2, "mile").differs(Quantity(5, "mile"))
        (True, False)
        """
        if self.unit and other_quantity.unit and self.unit != other_quantity.unit:
            return not self.near(other_quantity)
        if self.equals(other_quantity):
            return False
        # 5.2 and 5, 3207 and 3200
        rough, exact = sorted((self.value, other_quantity.value), key=_significant_digits)
        n_digits = _significant_digits(rough)
        has_fewer_digits = n_digits < _significant_digits(exact) and float(f"{exact:.{n_digits}g}") == rough
        return not has_fewer_digits or _relative_gap(rough, exact) > _DIGITS_GAP

    def _gap(self, other_quantity: Quantity) -> float:
        """The difference of the amounts as a share of the larger one; 0 for 0.25 and 25 %, and for $1.50 and 150 ¢."""
        for share, percent in ((self, other_quantity), (other_quantity, self)):
            if (percent.unit, share.unit) in _HUNDREDTHS:
                return _relative_gap(100 * share.value, percent.value)
            is_share = percent.unit == "percent" and not share.unit
            if is_share and _relative_gap(100 * share.value, percent.value) <= _CONVERSION_GAP:
                return 0.0
        if not self.unit or not other_quantity.unit or {self.unit, other_quantity.unit} in _PERHAPS_SAME:
            return _relative_gap(self.value, other_quantity.value)
        kind, amount = self._converted
        other_kind, other_amount = other_quantity._converted
        if kind != other_kind:
            return math.inf
        return _relative_gap(amount, other_amount, _MIN_SIZES.get(kind, 0.0))

    @property
    def _converted(self) -> tuple[str, float]:
        """The kind of quantity, and the amount in the base unit of this kind."""
        kind, factor, zero = _scale(self.unit)
        return kind, (self.value + zero) * factor


@lru_cache(maxsize=1_024)
def _scale(unit: str) -> tuple[str, float, float]:
    """The kind of quantity that a unit measures, its factor to the base unit, and what is added before."""
    unit, _, per = unit.partition("/")
    kind, factor = _FACTORS.get(unit, (unit, 1.0))
    per_kind, per_factor = _FACTORS.get(per, (per, 1.0))
    return f"{kind}/{per_kind}".rstrip("/"), factor / per_factor, _ZEROS.get(unit, 0.0)


def equal(expected: Sequence[Quantity], stated: Sequence[Quantity]) -> bool:
    """Whether two texts name equal amounts, at least one, in the same order.

    >>> equal([Quantity(1, "hour")], [Quantity(60, "minute")])
    True
    """
    return bool(expected) and len(expected) == len(stated) and all(map(Quantity.equals, expected, stated))


def _significant_digits(value: float) -> int:
    return max(1, len(f"{abs(value):.15f}".replace(".", "").strip("0")))


def _relative_gap(x: float, y: float, min_size: float = 0.0) -> float:
    return 0.0 if x == y else abs(x - y) / max(abs(x), abs(y), min_size)


def quantities(tokens: Sequence[str], numbers: Sequence[Number]) -> list[Quantity]:
    """Every number of a text, with the unit right after it, or the currency right before it, and what it is "per".

    >>> tokens = ("6", "ft", "1", "in")
    >>> quantities(tokens, numbers(tokens))
    [Quantity(value=73.0, unit='inch')]
    >>> tokens = ("twice", "a", "week", "at", "$", "20", "an", "hour")
    >>> quantities(tokens, numbers(tokens))
    [Quantity(value=2.0, unit='/week'), Quantity(value=20.0, unit='dollar/hour')]
    >>> tokens = ("5", "to", "10", "dollars")
    >>> quantities(tokens, numbers(tokens))
    [Quantity(value=5.0, unit='dollar'), Quantity(value=10.0, unit='dollar')]
    """
    result: list[Quantity] = []
    stop = 0
    previous_stop = 0
    behind_unit = 0
    for number in numbers:
        if number.start < stop:
            # "Second" in "10 metres per second"
            continue
        position = _skip(tokens, number.stop, _BEFORE_UNITS)
        next_token = _token(tokens, position)
        unit = UNIT_WORDS.get(next_token, "")
        if next_token == "in" and result and result[-1].unit == "foot":
            # "6 ft 1 in"; elsewhere it is the preposition
            unit = "inch"
        elif unit == "degree":
            # "65 degrees Celsius", "65 °C"
            scale_at = _skip(tokens, position + 1, _BEFORE_UNITS)
            scale = UNIT_WORDS.get(_token(tokens, scale_at), "")
            if scale in _ZEROS:
                unit = scale
                position = scale_at
        elif next_token == "por" and _token(tokens, position + 1) == "ciento":
            unit = "percent"
            position += 1

        # In "5 € or 10 km", the mark belongs to the first number
        previous_token = _token(tokens, number.start - 1) if number.start > behind_unit else ""
        if previous_token in _MARKS_OF_MONEY and unit != UNIT_WORDS[previous_token]:
            # What stands behind "$5" is what it is per: "$5/month"
            unit = UNIT_WORDS[previous_token]
            position -= 1
        behind_unit = position + 1 if unit else position
        per, behind_rate = _per(tokens, behind_unit, has_unit=bool(unit))
        if not (unit or per) and _token(tokens, position + 1) in _PER:
            # "100 requests per minute"
            per, behind_rate = _per(tokens, position + 1, has_unit=False)
        if per and _FACTORS.get(unit, ("",))[0] != "speed of data":
            # Megabits are said of speeds, with or without "per second"
            unit = f"{unit.partition('/')[0]}/{per}"

        # A range has its unit once: "$5 to 10", "5 to 10 dollars"
        between = tokens[previous_stop : number.start] if result else ()
        if between and _RANGES.issuperset(between):
            unit = unit or result[-1].unit
            result[-1] = Quantity(result[-1].value, result[-1].unit or unit)
        previous_stop = number.stop

        quantity = Quantity(number.value, unit)
        joined = _joined(result[-1], quantity) if result and number.start <= stop + 2 else None
        if joined:
            result[-1] = joined
        else:
            result.append(quantity)
        stop = behind_rate if per else number.stop
    return result


def _token(tokens: Sequence[str], position: int) -> str:
    return tokens[position] if 0 <= position < len(tokens) else ""


def _per(tokens: Sequence[str], position: int, *, has_unit: bool) -> tuple[str, int]:
    """The second unit of a rate, "" without one, and the position behind it.

    "An hour", "pro Tag", "daily"; behind a first unit also alone, as in "km/h".
    """
    unit_at = _skip(tokens, position, _PER_WORDS)
    word = _token(tokens, unit_at)
    unit = "second" if has_unit and word == "s" else UNIT_WORDS.get(word, "")
    # "10 a.m." is no rate
    is_rate = has_unit or (unit_at > position and len(word) > 1)
    return ADVERBS_OF_RATES.get(word, unit if is_rate else ""), unit_at + 1


def _joined(larger: Quantity, smaller: Quantity) -> Quantity | None:
    """ "3 hours and 48 minutes", "6 feet 1 inch": one amount in a larger and a smaller unit, in the smaller one."""
    kind, factor = _FACTORS.get(larger.unit, ("", 1.0))
    other_kind, small_factor = _FACTORS.get(smaller.unit, (None, 1.0))
    # "6 ft 1 in", but not "6 ft (183 cm)".
    if kind != other_kind or small_factor >= factor or not 0 <= smaller.value * small_factor < factor:
        return None
    return Quantity(round(larger.value * factor / small_factor + smaller.value, 6), smaller.unit)
