"""Dates, whole and partial: "18 May 2018", "2018-05-18", "18.05.2018", "18 мая", "1990s", "18th century"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.offline_judge.numbers_dates import digits, ordinal_word, roman

_MONTHS = {
    form: month
    for month, forms in enumerate(
        (
            "january jan январь января январе januar janvier enero",
            "february feb февраль февраля феврале februar fevrier febrero",
            "march mar март марта марте marz mars marzo", "april apr апрель апреля апреле avril abril",
            "may май мая мае mai mayo", "june jun июнь июня июне juni juin junio",
            "july jul июль июля июле juli juillet julio", "august aug август августа августе aout agosto",
            "september sep sept сентябрь сентября сентябре septembre septiembre",
            "october oct октябрь октября октябре oktober octobre octubre",
            "november nov ноябрь ноября ноябре novembre noviembre",
            "december dec декабрь декабря декабре dezember decembre diciembre",
        ),
        start=1,
    )
    for form in forms.split()
}  # fmt: skip
_CENTURY = frozenset(("century", "centuries", "век", "века", "веке", "столетие", "столетия"))
_EARLIEST, _LATEST = 1000, 2199
_AFTER_YEAR = frozenset(("г", "года", "году", "год"))
_GLUE = frozenset(("of", "the", "in", "de", "del", "г", "года", "году", "year"))
_AMBIGUOUS = frozenset(("may", "march", "mar", "mars", "mai", "jan"))
"""Names of months that are words or names as well, so that a day or a year must stand beside them."""


@dataclass(frozen=True, slots=True)
class Date:
    """What a text says of a date; None is what it does not say. `span` is 1, 10 for a decade, 100 for a century."""

    year: int | None
    month: int | None = None
    day: int | None = None
    span: int = 1
    start: int = 0
    stop: int = 0

    @property
    def parts(self) -> int:
        """How many of year, month and day are said."""
        return sum(part is not None for part in (self.year, self.month, self.day))

    def agrees(self, other: Date) -> bool:
        """Nothing that both say differs, and both say something in common."""
        shared = False
        if self.year is not None and other.year is not None:
            wide = max(self.span, other.span)
            if self.year // wide != other.year // wide:
                return False
            shared = True
        for mine, theirs in ((self.month, other.month), (self.day, other.day)):
            if mine is not None and theirs is not None:
                if mine != theirs:
                    return False
                shared = True
        return shared

    def covers(self, other: Date) -> bool:
        """Agrees, and says at least as much: "18 May 2018" covers "May 2018", not the other way."""
        if not self.agrees(other) or self.span > other.span:
            return False
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(mine is not None for mine, theirs in pairs if theirs is not None)


def dates(tokens: Sequence[str]) -> list[Date]:
    """Every date that `tokens` (of `answerkey.metrics_core.text.words`) name, from left to right.

    A bare number counts as a year from 1000 to 2199.
    """
    found: list[Date] = []
    at = 0
    while at < len(tokens):
        date = _numeric(tokens, at) or _with_month(tokens, at) or _century(tokens, at) or _year_alone(tokens, at)
        if date is None:
            at += 1
        else:
            found.append(date)
            at = date.stop
    return found


def _whole(token: str) -> int | None:
    value = digits(token)
    return int(value) if value is not None and value == int(value) and value > 0 else None


def _year(token: str) -> int | None:
    value = _whole(token) if len(token) == 4 else None
    return value if value is not None and _EARLIEST <= value <= _LATEST else None


def _numeric(tokens: Sequence[str], at: int) -> Date | None:
    """2018-05-18 (a sign stays a separator after a digit), 05/18/2018, 18.05.2018."""
    pieces = tokens[at].split(".")
    stop = at + 1
    if len(pieces) != 3:
        pieces, stop = list(tokens[at : at + 3]), at + 3
    if len(pieces) < 3 or not all(p.isdecimal() and len(p) <= 4 for p in pieces):
        return None
    a, b, c = (int(p) for p in pieces)
    if len(pieces[0]) == 4 and _EARLIEST <= a <= _LATEST and b <= 12 and 1 <= c <= 31:
        return Date(a, b, c, start=at, stop=stop)
    if len(pieces[2]) == 4 and _EARLIEST <= c <= _LATEST and max(a, b) <= 31:
        # Day first, except where only the month can come first.
        month, day = (a, b) if b > 12 else (b, a)
        if 1 <= month <= 12 and day >= 1:
            return Date(c, month, day, start=at, stop=stop)
    return None


def _with_month(tokens: Sequence[str], at: int) -> Date | None:
    """Day month year and month day year, with parts missing."""
    day: int | None = None
    month_at = at
    value = _whole(tokens[at]) or ordinal_word(tokens[at])
    if value is not None and value <= 31 and _year(tokens[at]) is None:
        day, month_at = value, at + 1
        while month_at < len(tokens) and tokens[month_at] in _GLUE:
            month_at += 1
    month = _MONTHS.get(tokens[month_at]) if month_at < len(tokens) else None
    if month is None:
        return None
    stop = month_at + 1
    if day is None and stop < len(tokens):
        value = _whole(tokens[stop]) if len(tokens[stop]) != 4 else None
        if value is not None and value <= 31:
            day, stop = value, stop + 1
    year_at = stop
    while year_at < len(tokens) and tokens[year_at] in _GLUE:
        year_at += 1
    year = _year(tokens[year_at]) if year_at < len(tokens) else None
    if year is not None:
        stop = year_at + 1
        while stop < len(tokens) and tokens[stop] in _AFTER_YEAR:
            stop += 1
    if day is None and year is None and tokens[month_at] in _AMBIGUOUS:
        return None
    return Date(year, month, day, start=at, stop=stop)


def _century(tokens: Sequence[str], at: int) -> Date | None:
    if at + 1 >= len(tokens) or tokens[at + 1] not in _CENTURY:
        return None
    number = _whole(tokens[at]) or ordinal_word(tokens[at]) or roman(tokens[at])
    return Date((number - 1) * 100, span=100, start=at, stop=at + 2) if number and number <= 22 else None


def _year_alone(tokens: Sequence[str], at: int) -> Date | None:
    token = tokens[at]
    if len(token) == 3 and token.endswith("0s") and token[0].isdecimal():
        # "The 90s" are the 1990s: nobody writes of others that way without saying so.
        return Date(1900 + int(token[:2]), span=10, start=at, stop=at + 1)
    if len(token) in (5, 6) and token.endswith("s"):
        decade = _year(token[:4])
        return Date(decade, span=10, start=at, stop=at + 1) if decade is not None and decade % 10 == 0 else None
    year = _year(token)
    if year is None:
        return None
    followed = at + 1 < len(tokens) and tokens[at + 1] in _AFTER_YEAR
    return Date(year, start=at, stop=at + 1 + followed)
