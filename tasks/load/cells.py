"""The text that Excel shows for the value of a cell: number formats, dates, escapes.

This module provides:
- `shown_number`: a number, or a date as Excel counts it, in the number format of its cell;
- `shown_text`: a text with the escapes of the file resolved, in the text format of its cell;
- `UnreadableCell`: what stands in a record for a cell whose text is not known.

Texts are those of Excel in English: a point before decimals, commas between thousands, names of months and days in the
language that a format asks for. What a format shows depends for `General` on the width of the column; here a number has
up to 15 digits then, as in the line above the sheet.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_LAST_DAY = 2_958_465
"""The number that Excel has for 31 December 9999."""
_DAY_S = 86_400
_MARCH_1900 = 61
"""The first day after the 29 February 1900 that Excel counts, and no calendar has."""
_1904 = 1_462
"""Days between the two calendars that workbooks count in."""
_DIGITS = Context(prec=400, rounding=ROUND_HALF_UP)
"""Precision for any number that a cell can hold, with its decimals; halves are rounded up, as Excel does it."""
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_TOKEN = re.compile(
    r"""
    "(?P<quoted>[^"]*)"?
    | \\(?P<escaped>.)
    | _(?P<gap>.)
    | \*(?P<fill>.)
    | \[(?P<bracket>[^\]]*)\]
    | (?P<general>General)
    | (?P<half>AM/PM|A/P)
    | (?P<date>y+|m+|d+|h+|s+)
    | (?P<exponent>E[+-])
    | (?P<digit>[0#?])
    | (?P<mark>[.,%/@])
    | (?P<number>[1-9])
    | (?P<letter>[a-z])
    | (?P<literal>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CALENDAR_NAMES = json.loads(Path(__file__).with_name("calendar_names.json").read_text(encoding="utf-8"))
"""The names of months and days by language."""
_LANGUAGES: dict[str, str] = {names["number"]: language for language, names in _CALENDAR_NAMES.items()}
"""Languages by the last two digits of the number that Windows has for a country's version of them."""
_UNKNOWN_FORMAT = "its number format {} is not known here"
SHOWN_OTHERWISE = ("mm-dd-yy", "m/d/yy h:mm")
"""The formats of dates without a choice: each computer shows them in the order of its own country."""


class UnshownError(ValueError):
    """A cell of which it is not known what Excel shows; in its message, {} stands for the number format."""


@dataclass(frozen=True, slots=True)
class UnreadableCell:
    """A cell whose text is not known, or that shows an error such as `#N/A` in place of one.

    Args:
        reason: which cell it is, and why.
        error: the error that is shown.
    """

    reason: str
    error: str = ""

    def __str__(self) -> str:
        return self.reason


class ShownNumber(str):
    """The text that Excel shows for a number, with the number, which a score needs in full."""

    number: float = math.nan


class Token(NamedTuple):
    """A piece of a number format: its kind (a group of `_TOKEN`, `elapsed` or `currency`), and what it holds."""

    kind: str
    text: str


_COMMA, _POINT, _PERCENT, _SLASH, _TEXT = (Token("mark", mark) for mark in ",.%/@")


Section = tuple[Token, ...]
"""One of the formats, between semicolons, that a number format has for positive numbers, negative ones, 0 and texts."""


def shown_text(text: str, code: str = "General") -> str:
    r"""Return the text that Excel shows for a text.

    >>> shown_text("Monday_x000D_\nTuesday"), shown_text("_x005F_x000D_"), shown_text("Ada", '@" Brown"')
    ('Monday\nTuesday', '_x000D_', 'Ada Brown')

    Raises:
        UnshownError: the number format hides texts.
    """
    if "_x" in text:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
        # Characters beyond 16 bits are two escapes
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    sections = _sections(code)
    section = sections[-1]
    if len(sections) < 4 and _TEXT not in section:
        return text
    if not section:
        raise UnshownError("its number format {} hides the text")
    return "".join(text if token == _TEXT else _literal(token) for token in section)


def shown_number(value: float, code: str = "General", *, is_1904: bool = False) -> str:
    """Return the text that Excel shows for a number, without blanks around it.

    >>> shown_number(1234.5, '"$"#,##0.00'), shown_number(7, "000"), shown_number(0.5, "# ?/?")
    ('$1,234.50', '007', '1/2')
    >>> shown_number(45352, "dd.mm.yyyy"), shown_number(1.2535, "[h]:mm"), shown_number(45352, "[$-407]d. mmmm")
    ('01.03.2024', '30:05', '1. März')

    Args:
        value: the number in the file; of a date, the days since the end of 1899.
        code: the number format.
        is_1904: whether the workbook counts days from 1904.

    Raises:
        UnshownError: this format is not one of those that are known here, or hides the number.
    """
    exact = Decimal(f"{value:.15g}")
    sections = _sections(code)
    # A section that has texts is none for numbers, unless there is no other
    section, *other_sections = [section for section in sections[:3] if _TEXT not in section] or sections
    sign = "-" if exact < 0 and not other_sections else ""
    if other_sections and exact < 0:
        section = other_sections[0]
    elif len(other_sections) > 1 and exact == 0:
        section = other_sections[1]
    if not section:
        raise UnshownError("its number format {} hides the number")
    kinds = {token.kind for token in section}
    size = abs(exact)
    with localcontext(_DIGITS):
        if kinds & {"date", "elapsed", "half"}:
            return _shown_date(exact, section, is_1904).strip()
        if "exponent" in kinds:
            text = _shown_scientific(size, section)
        elif _SLASH in section and "digit" in kinds:
            text = _shown_fraction(size, section)
        else:
            text = _shown_decimal(size, section)
    number = ShownNumber(sign + text.strip())
    number.number = value
    return number


@lru_cache(maxsize=1_000)
def _sections(code: str) -> tuple[Section, ...]:
    """Return the sections of a number format.

    Raises:
        UnshownError: it has conditions, or asks for numerals of another script.
    """
    sections: list[list[Token]] = [[]]
    for match in _TOKEN.finditer(code):
        kind = str(match.lastgroup)
        text = match[kind]
        if kind == "literal" and text == ";":
            sections.append([])
        elif kind != "bracket":
            sections[-1].append(Token(kind, text))
        elif text.startswith("$"):
            symbol, _, country = text[1:].partition("-")
            country = country.casefold()
            # The language of a country as a number of Windows (407, 10407) or a tag (de-DE); digits before it ask for
            # numerals of another script, or another calendar
            language = country.partition("-")[0] or "en"
            if re.fullmatch("(1?0?1)?[0-9a-f]{3,4}", country):
                language = _LANGUAGES.get(country[-2:], country)
            elif re.fullmatch("[0-9a-f]{5,}", country):
                raise UnshownError(_UNKNOWN_FORMAT)
            sections[-1] += [Token("quoted", symbol), Token("language", language)]
        elif re.fullmatch("h+|m+|s+", text, re.IGNORECASE):
            sections[-1].append(Token("elapsed", text))
        elif not re.fullmatch(r"black|blue|cyan|green|magenta|red|white|yellow|color ?\d+", text, re.IGNORECASE):
            raise UnshownError(_UNKNOWN_FORMAT)
    return tuple(map(tuple, sections))


def _literal(token: Token) -> str:
    """Return what a token stands for that is no part of the value."""
    if token.kind in ("quoted", "escaped", "literal"):
        return token.text
    if token.kind == "language":
        return ""
    if token.kind == "gap" or (token.kind == "fill" and token.text == " "):
        return " "
    if token.kind == "mark" and token.text in "%/":
        return token.text
    raise UnshownError(_UNKNOWN_FORMAT)


def _shown_general(size: Decimal) -> str:
    """Return a number without a format: up to 15 digits, and 6 of very large and very small ones."""
    if size and not Decimal("1e-4") <= size < Decimal("1e15"):
        digits, exponent = f"{size:.5E}".split("E")
        return f"{digits.rstrip('0').rstrip('.')}E{exponent[0]}{exponent[1:].zfill(2)}"
    text = f"{size:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown_decimal(size: Decimal, section: Section) -> str:
    """Return a number of 0 or more in a format such as `#,##0.00 "km"`."""
    # Between digits a comma sets thousands apart, and after them it leaves three digits out
    is_grouped = False
    tokens = []
    for index, token in enumerate(section):
        if token == _PERCENT:
            size *= 100
        if token != _COMMA:
            tokens.append(token)
        elif not tokens or tokens[-1].kind != "digit":
            tokens.append(Token("literal", ","))
        elif next((later.kind for later in section[index:] if later != _COMMA), "") == "digit":
            is_grouped = True
        else:
            size /= 1000
    point = tokens.index(_POINT) if _POINT in tokens else len(tokens)
    n_decimals = sum(token.kind == "digit" for token in tokens[point:])
    digits, _, decimals = f"{size:.{n_decimals}f}".partition(".")
    text = _filled_from_right(tokens[:point], digits.lstrip("0"), is_grouped, size)
    text += "." if point < len(tokens) else ""

    # After the point, zeros at the end are shown where the format has 0
    n_kept = len(decimals.rstrip("0"))
    index = 0
    for token in tokens[point + 1 :]:
        if token.kind != "digit":
            text += _literal(token)
            continue
        is_needed = index < n_kept or token.text == "0"
        text += decimals[index] if is_needed else {"?": " "}.get(token.text, "")
        index += 1
    return text


def _filled_from_right(tokens: Sequence[Token], digits: str, is_grouped: bool, size: Decimal) -> str:
    """Return the part before the point: digits go to the placeholders from the right, the rest to the first one."""
    n_left = sum(token.kind == "digit" for token in tokens)
    text = ""
    n_shown = 0
    for token in reversed(tokens):
        if token.kind == "general" or token == _TEXT:
            text = _shown_general(size) + text
            continue
        if token.kind != "digit":
            text = _literal(token) + text
            continue
        n_left -= 1
        start = -1 if n_left else 0
        own_digits = digits[start:]
        digits = digits[:start]
        for digit in reversed(own_digits or {"0": "0", "?": " "}.get(token.text, "")):
            if is_grouped and n_shown and n_shown % 3 == 0:
                text = ("," if digit != " " else " ") + text
            text = digit + text
            n_shown += 1
    return text


def _shown_scientific(size: Decimal, section: Section) -> str:
    """Return a number of 0 or more in a format such as `0.00E+00`."""
    match = re.fullmatch(r"(0|0\.0+)E([+-])(0+)", "".join(token.text for token in section).upper())
    if not match:
        raise UnshownError(_UNKNOWN_FORMAT)
    digits, exponent = f"{size or 0.0:.{len(match[1].partition('.')[2])}E}".split("E")
    sign = "-" if int(exponent) < 0 else match[2].strip("-")
    return f"{digits}E{sign}{exponent[1:].zfill(len(match[3]))}"


def _shown_fraction(size: Decimal, section: Section) -> str:
    """Return a number of 0 or more in a format such as `# ?/?` or `# ??/16`, without blanks that align it."""
    form = "".join(token.text for token in section)
    match = re.fullmatch(r"(?P<whole>[#0?]* )?(?P<top>[#0?]+)/(?P<below>[#0?]+|[1-9][0-9]*)", form)
    if not match:
        raise UnshownError(_UNKNOWN_FORMAT)
    integer = int(size) if match["whole"] else 0
    fraction = Fraction(size) - integer
    if match["below"].isdigit() and int(match["below"]):
        denominator = int(match["below"])
        numerator = int(fraction * denominator + Fraction(1, 2))
    else:
        numerator, denominator = fraction.limit_denominator(10 ** len(match["below"]) - 1).as_integer_ratio()
    if match["whole"] and numerator in (0, denominator):
        return str(integer + numerator // denominator)
    return f"{integer or ''} {numerator}/{denominator}"


def _shown_date(serial: Decimal, section: Section, is_1904: bool) -> str:
    """Return a date, a time of day or a duration."""
    tokens = list(section)
    letters = [token.text[0].lower() if token.kind in ("date", "elapsed") else "" for token in tokens]
    days = serial + _1904 * is_1904
    has_time = bool({"h", "s"} & {*letters}) or any(token.kind == "elapsed" for token in tokens)
    has_date = bool({"y", "d"} & {*letters}) or not has_time
    if serial < 0 or days >= _LAST_DAY + 1 or (days < _MARCH_1900 and has_date):
        raise UnshownError("it is a date or a time that is not known here")

    # A time is rounded to the decimals that are shown of its seconds, a date is cut off
    n_decimals = tokens.count(Token("digit", "0")) if _POINT in tokens else 0
    step = Decimal(1).scaleb(-n_decimals)
    seconds = (days * _DAY_S).quantize(step, ROUND_HALF_UP if has_time else ROUND_DOWN)
    moment = datetime(1899, 12, 30) + timedelta(seconds=int(seconds))
    language = next((token.text for token in tokens if token.kind == "language"), "en")
    is_half = any(token.kind == "half" for token in tokens)
    hour = (moment.hour + 11) % 12 + 1 if is_half else moment.hour
    numbers = {"m": moment.month, "d": moment.day, "h": hour, "s": moment.second}
    elapsed = seconds - _1904 * is_1904 * _DAY_S

    text = ""
    previous = ""
    for index, (token, letter) in enumerate(zip(tokens, letters, strict=True)):
        n_letters = len(token.text)
        if token.kind == "elapsed":
            text += str(int(elapsed // {"h": 3600, "m": 60, "s": 1}[letter])).zfill(n_letters)
        elif token.kind == "date":
            number = numbers.get(letter) if letter in "hs" or n_letters < 3 else None
            # Next to hours or seconds, m are minutes
            following = next(filter(None, letters[index + 1 :]), "")
            if letter == "m" and n_letters < 3 and (previous == "h" or following == "s"):
                number = moment.minute
            if number is not None:
                text += str(number).zfill(min(n_letters, 2))
            elif letter == "y":
                text += str(moment.year) if n_letters > 2 else f"{moment.year % 100:02}"
            else:
                # Shorter forms differ from computer to computer, but in English
                names = _CALENDAR_NAMES.get(language)
                if names is None or (n_letters != 4 and language != "en"):
                    raise UnshownError("its number format {} has names in a language that is not known here")
                name = names["months"][moment.month - 1] if letter == "m" else names["days"][moment.weekday()]
                text += name[: {3: 3, 5: 1}.get(n_letters)]
        elif token.kind == "half":
            text += ("AM" if moment.hour < 12 else "PM")[: n_letters // 2]
        elif token == Token("digit", "0") and n_decimals:
            text += f"{seconds % 1:f}"[2 + tokens[:index].count(token)]
        else:
            text += token.text if token in (_POINT, _COMMA) else _literal(token)
        previous = letter or previous
    return text
