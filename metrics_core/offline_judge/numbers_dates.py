"""Numbers in whatever form: digits, number words and ordinals in English and Russian, Roman numerals, scales."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_ONES = {
    word: value
    for value, words in enumerate(
        (
            "zero ноль нуль", "one один одна одно одного одной одну", "two два две двух", "three три трех",
            "four четыре четырех", "five пять пяти", "six шесть шести", "seven семь семи", "eight восемь восьми",
            "nine девять девяти", "ten десять десяти", "eleven одиннадцать одиннадцати",
            "twelve двенадцать двенадцати", "thirteen тринадцать тринадцати", "fourteen четырнадцать четырнадцати",
            "fifteen пятнадцать пятнадцати", "sixteen шестнадцать шестнадцати", "seventeen семнадцать семнадцати",
            "eighteen восемнадцать восемнадцати", "nineteen девятнадцать девятнадцати",
        )
    )
    for word in words.split()
}  # fmt: skip
_TENS = {
    word: value * 10
    for value, words in enumerate(
        (
            "twenty двадцать двадцати", "thirty тридцать тридцати", "forty fourty сорок сорока",
            "fifty пятьдесят пятидесяти", "sixty шестьдесят шестидесяти", "seventy семьдесят семидесяти",
            "eighty восемьдесят восьмидесяти", "ninety девяносто девяноста",
        ),
        start=2,
    )
    for word in words.split()
}  # fmt: skip
_HUNDREDS = {
    word: value * 100
    for value, words in enumerate(
        ["сто", "двести", "триста", "четыреста", "пятьсот", "шестьсот", "семьсот", "восемьсот", "девятьсот"], start=1
    )
    for word in (words, words.replace("сто", "ста") if value == 1 else words)
}
_SCALES = {
    "hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12,
    "hundreds": 100, "thousands": 1e3, "millions": 1e6, "billions": 1e9, "mln": 1e6, "bn": 1e9,
    "тысяча": 1e3, "тысячи": 1e3, "тысяч": 1e3, "тыс": 1e3, "миллион": 1e6, "миллиона": 1e6, "миллионов": 1e6,
    "млн": 1e6, "миллиард": 1e9, "миллиарда": 1e9, "миллиардов": 1e9, "млрд": 1e9, "триллион": 1e12,
}  # fmt: skip
_ORDINALS_EN = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16,
    "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30, "fortieth": 40,
    "fiftieth": 50, "sixtieth": 60, "seventieth": 70, "eightieth": 80, "ninetieth": 90, "hundredth": 100,
    "once": 1, "twice": 2, "thrice": 3,
}  # fmt: skip
_ORDINAL_STEMS_RU = {
    "перв": 1, "втор": 2, "трет": 3, "четверт": 4, "пят": 5, "шест": 6, "седьм": 7, "восьм": 8, "девят": 9,
    "десят": 10, "одиннадцат": 11, "двенадцат": 12, "тринадцат": 13, "четырнадцат": 14, "пятнадцат": 15,
    "шестнадцат": 16, "семнадцат": 17, "восемнадцат": 18, "девятнадцат": 19, "двадцат": 20, "тридцат": 30,
}  # fmt: skip
_ORDINAL_RU = re.compile(
    rf"({'|'.join(sorted(_ORDINAL_STEMS_RU, key=len, reverse=True))})(?:[ыио]й|ая|ое|ого|ому|ом|ую|ые|ых|ья|ье|ьего)"
)
_ORDINAL_DIGITS = re.compile(r"(\d+)(?:st|nd|rd|th|-?(?:й|я|е|го|му|м|ый|ой|ая|ое))")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_DECADE = re.compile(r"(\d{3}0)'?s")
LONGEST_NUMBER = 15
"""Characters. A double keeps so many digits apart; what is longer is compared as text, as identifiers are."""
_MINUS = frozenset(("minus", "минус"))
_ROMAN = re.compile(r"(?=[ivxlc])(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the tokens from `start` up to `stop` name."""

    value: float
    start: int
    stop: int
    ordinal: bool = False


@lru_cache(maxsize=65_536)
def digits(token: str) -> float | None:
    """The value of a token written with digits: `-5`, `3.14`, `4th`, `1990s`; None where it is no number."""
    if len(token) > LONGEST_NUMBER or not any(map(str.isdigit, token)):
        return None
    if _PLAIN.fullmatch(token):
        return float(token)
    if "," in token and _PLAIN.fullmatch(token.replace(",", ".")):
        return float(token.replace(",", "."))
    found = _ORDINAL_DIGITS.fullmatch(token) or _DECADE.fullmatch(token)
    return float(found[1]) if found else None


@lru_cache(maxsize=65_536)
def ordinal_word(token: str) -> int | None:
    """The value of an ordinal in words, English or Russian in any case."""
    if token in _ORDINALS_EN:
        return _ORDINALS_EN[token]
    found = _ORDINAL_RU.fullmatch(token)
    return _ORDINAL_STEMS_RU[found[1]] if found else None


def roman(token: str) -> int | None:
    """The value of a Roman numeral of at least two letters, up to 89 (a single letter is more often a letter)."""
    if len(token) < 2 or not _ROMAN.fullmatch(token):
        return None
    values = [_ROMAN_VALUES[letter] for letter in token]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def numbers(tokens: Sequence[str]) -> list[Number]:
    """Every number that `tokens` (of `answerkey.metrics_core.text.words`) name, from left to right.

    >>> [number.value for number in numbers(("twenty", "one", "dogs", "3.5", "million"))]
    [21.0, 3500000.0]
    """
    found: list[Number] = []
    at = 0
    while at < len(tokens):
        below = tokens[at] in _MINUS and at + 1 < len(tokens)
        number = _negative(_number_at(tokens, at + 1)) if below else _number_at(tokens, at)
        if number is None:
            at += 1
        else:
            found.append(number)
            at = number.stop
    return found


def _negative(number: Number | None) -> Number | None:
    return number and Number(-number.value, number.start - 1, number.stop, number.ordinal)


def _number_at(tokens: Sequence[str], start: int) -> Number | None:
    token = tokens[start]
    value = digits(token)
    if value is not None:
        return _scaled(tokens, value, start, start + 1, ordinal=not _PLAIN.fullmatch(token))
    if (token in _ONES or token in _TENS or token in _HUNDREDS) or (
        token == "a" and start + 1 < len(tokens) and tokens[start + 1] in _SCALES
    ):
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
        else:
            small = _small(token)
            # "twenty one" is 21, "one two" are two numbers.
            if small is None or (part % 100 and not (part % 10 == 0 and small < 10)) or small >= last:
                break
            part += small
            ordinal = token not in _ONES and token not in _TENS and token not in _HUNDREDS
        stop += 1
    return Number(total + part, start, max(stop, start + 1), ordinal)


def _small(token: str) -> int | None:
    for table in (_ONES, _TENS, _HUNDREDS):
        if token in table:
            return table[token]
    ordinal = ordinal_word(token)
    return ordinal if ordinal is not None and token not in ("second", "once", "twice", "thrice") else None
