"""Texts as the offline judge reads them: folded tokens, sentences, numbers, dates; and what a question asks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from answerkey.metrics_core.offline_judge.numbers_dates import (
    Date,
    Number,
    Quantity,
    dates,
    digits,
    numbers,
    ordinal_word,
    quantities,
    with_times_in_digits,
)
from answerkey.metrics_core.offline_judge.vocabulary import (
    FUNCTION_WORDS,
    LEMMAS,
    NEGATIONS,
    TABLES,
    UNIT_WORDS,
    word_list,
)
from answerkey.metrics_core.text import normalise, words, words_of_normalised

LONGEST_CHARACTERS = 4_000
"""The most characters that are read; a longer answer is outside the training data anyway."""

# German days have a full stop: "9. November".
_DAY = r"(?<=\d\.)\s+(?=(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*\b)"
_SENTENCE = re.compile(
    r".+?(?:\n+\s*|(?<!\b[A-Z])(?<!\b(?:Mr|Dr|St|Jr|Sr|vs))(?<!\bMrs)[.!?…؟।]+[\"')\]]*(?!"
    + _DAY
    + r")\s+|[。！？]\s*|$)",
    re.DOTALL,
)
_MAY_END = re.compile(r"\n|[.!?…؟।][\"')\]]*\s|[。！？]")
# A citation within a sentence, but neither an answer ("The answer is [5]") nor an index in code, which starts at 0.
_CITATION = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<![:=] )(?:\[\^?[1-9]\d*\^?\]|\[[1-9]\d*(?:,\s*\d+)*\]|\^[1-9]\d*\^)"
)
_SENTENCE_WORDS = 4
_THINK = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"\*\*|__|`+|^#+\s+|^\s*[-*•]\s+", re.MULTILINE)
_MARK = re.compile("[*_`#•-]")
# "5km" and "5 km", "iPhone12" and "iPhone 12"; this also detaches footnotes without brackets ("sung by The Man1").
_SPACED_THOUSANDS = re.compile(r"(?<![\w.,])([1-9]\d{0,2}(?: \d{3})+)(?![\w%]|[.,:]\d)")
# "1/2", "1 1/2" and "1½"; other numbers with a stroke are dates, seasons or names
_FRACTION = re.compile(
    r"(?<![\w.,:/-])(?:(?P<whole>\d{1,3})(?:[ -]|(?=[¼-¾⅐-⅞])))?"
    r"(?:(?P<above>\d{1,2})[/⁄](?P<below>[2-9]|1[026]|32|64|100)(?![\w:/]|[.,]\d)|(?P<sign>[¼-¾⅐-⅞]))"
)
# "1e3", "10^3", "5 x 10^3", "2.5M", "$3bn", "1.5k", "1.000.000": numbers that need no other words to be read. A "k"
# behind a digit alone may be a resolution, "K" kelvin, "m" metres.
_SCIENTIFIC = re.compile(
    r"(?<![\w.,^])(?:(?P<factor>\d+(?:\.\d+)?)(?:[eE](?=[+-]?\d)|\s?[x×*·]\s?10(?:\^\{?|\*\*|(?=[⁻⁰-⁹¹²³])))|10(?:\^\{?|\*\*|"
    r"(?=[⁻⁰-⁹¹²³])))(?P<power>[+−⁻-]?[\d⁰-⁹¹²³]{1,2})\}?(?!\w|[.,]\d)"
)
_SHORT_SCALE = re.compile(
    r"(?<![\w.,])(?:(?P<money>[$€£¥₹₩]\s?)(?P<sum>\d+(?:\.\d+)?)(?P<unit>[kKmMbB]|bn)"
    r"|(?P<number>\d+\.\d+|\d{2,})k|(?P<millions>\d+(?:\.\d+)?)M)(?![\w/]|[.,]\d)"
)
_FACTORS = {"k": 1e3, "m": 1e6, "b": 1e9, "bn": 1e9}
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s?\{(\d+)\}\{(\d+)\}")
# "1.200,50": with both marks, the comma is that of decimals
_COMMA_BEHIND_DOTS = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3})+,\d+(?!\w|[.,]\d)")
_DOTTED = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3}){2,}(?!\w|[.,]\d)")
_KELVIN = re.compile(r"(?<=\d )K(?![\w.]| ?\d)")
_USUAL_SPELLINGS = {
    mark: [(re.compile(pattern), spelling) for pattern, spelling in spellings.items()]
    for mark, spellings in TABLES["spellings"].items()
}
"""By what a text must have in it: patterns, and what stands for them."""
_MAY_BE_SHORT = re.compile(r"\d K\b|\d[eEkKmMbB]|\b10[\^*⁻⁰-⁹¹²³]|\.\d{3}[.,]\d")
# "2k", "1500K" and "1.000 €" may be thousands, or a resolution, kelvin, or a number with decimals
_PERHAPS_THOUSANDS = re.compile(
    r"(?<![\w.,])(?P<short>\d+k|\d{2,}K)(?![\w/]|[.,]\d)"
    r"|(?<![\w.,])(?P<above>[1-9]\d{0,2})\.(?P<below>000(?=\s[^\W\d_])|\d{3}(?=\s?(?i:€|eur|chf)))"
)
# "3-5 days", "$5-10": between other numbers, the dash may be that of a score or a date
_RANGE = re.compile(
    r"(?<![\w.,:/-])(?P<mark>[$€£]\s?)?(?P<low>\d[\d.,]*)\s?[-–—]\s?(?P<high>\d[\d.,]*)(?![\d:/-])(?=\s?(?P<unit>[^\W\d_]+|[%°€$£])?)"
)
_EVERY = re.compile(r"(?:every|alle|каждые|cada) (.+) (\S+)")
_AMOUNTS: Mapping[str, str] = TABLES["amounts"]
_SHARES: Mapping[str, str] = TABLES["shares"]
_AMOUNT = re.compile(rf"(?<!\S)(?:{'|'.join(sorted(_AMOUNTS, key=len, reverse=True))})(?!\S)")
_HALF_BEHIND_UNIT = re.compile(r"(\S+) ½")
_ONE_OF_A_UNIT = re.compile(r"(?<!\S)(?:an?|eine?[nmr]?|una?|une) (?=([^\W\d_]{2,}))|^(?=([а-яё]{3,})$)")
_NUMBERS_IN_A_ROW = re.compile(r"\d \d")
# A sign that makes another name of a letter: "C" is neither "C#" nor "C++"
_SIGNED = re.compile(r"(?<!\w)([^\W\d_])(\+\+?|#)(?!\w)")
_NAMES_OF_SIGNS = {"#": "sharp", "+": "plus", "++": "plusplus"}
_INITIALS = re.compile(r"(?<=\b[^\W\d_]) (?=[^\W\d_]\b)")
_LETTERS_OR_DIGITS = re.compile(r"\d+|\D+")
_DECADE = re.compile(r"\d0s")
_ENDINGS_EN = ("ingly", "edly", "ings", "ing", "ied", "ies", "ed", "es", "s", "ly", "'s")
_ENDINGS_RU = tuple(
    sorted(
        word_list("russian_endings"),
        key=lambda ending: (-len(ending), ending),
    )
)


@dataclass(frozen=True)
class Text:
    """A text, analysed once for all comparisons. What few comparisons need is computed when it is first used.

    Attributes:
        raw: the text without markup and citations; `normal`: normalised.
        tokens: word tokens without accents; `content`: positions of those that carry content.
        stems: of the tokens, in the same order.

    >>> read("It is **not** 5km").tokens
    ('it', 'is', 'not', '5', 'km')
    """

    raw: str
    normal: str
    tokens: tuple[str, ...]
    stems: tuple[str, ...]
    content: tuple[int, ...]

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that the tokens name."""
        return tuple(numbers(self.tokens))

    @cached_property
    def number_positions(self) -> frozenset[int]:
        """The positions of the tokens that name numbers."""
        return frozenset(chain.from_iterable(range(number.start, number.stop) for number in self.numbers))

    @cached_property
    def counted(self) -> Text:
        """The text with amounts in digits that have a name: "half a dozen", and "a year" if no other amount is there.

        >>> read("an hour and a half").counted.tokens, read("a couple of days").counted.tokens
        (('1', '½', 'hour'), ('2', 'days'))
        """
        line = " ".join(self.tokens)
        counted = _SHARES.get(line) or _AMOUNT.sub(lambda amount: _AMOUNTS[amount[0]], line)
        # "Every two weeks" is half a time a week
        every = _EVERY.fullmatch(counted)
        if every and every[2] in UNIT_WORDS:
            count = numbers(every[1].split())
            if len(count) == 1 and count[0].value > 0:
                counted = f"{1 / count[0].value:.9f} per {every[2]}"
        if not numbers(counted.split()):
            counted = _ONE_OF_A_UNIT.sub(
                lambda article: "1 " if (article[1] or article[2]) in UNIT_WORDS else article[0], counted
            )
        # "1 hour and a half"
        counted = _HALF_BEHIND_UNIT.sub(lambda unit: f"½ {unit[1]}" if unit[1] in UNIT_WORDS else unit[0], counted)
        return self if counted == line else _analysed(self.raw, self.normal, tuple(counted.split()))

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The amounts that it names, with their units."""
        return tuple(quantities(self.counted.tokens, self.counted.numbers))

    @cached_property
    def dates(self) -> tuple[Date, ...]:
        """The dates that the tokens name."""
        return tuple(dates(self.tokens))

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The tokens without articles, initials as one: "J. K." as "jk"."""
        joined = _INITIALS.sub("", " ".join(self.tokens))
        return tuple([token for token in joined.split() if token not in ("the", "a", "an")])

    @cached_property
    def said(self) -> tuple[str, ...]:
        """Stems of the content tokens."""
        return tuple([self.stems[i] for i in self.content])

    @cached_property
    def content_stems(self) -> tuple[str, ...]:
        """The stems of the content tokens, or of all tokens if none carries content ("The Who", "It")."""
        return self.said or self.stems

    @cached_property
    def stem_set(self) -> frozenset[str]:
        """The stems, each once."""
        return frozenset(self.stems)

    @cached_property
    def negated(self) -> bool:
        """Whether it contains "not" in one of its forms; "no fee" is an amount."""
        return any(token in NEGATIONS for token in self.counted.tokens)

    @cached_property
    def in_thousands(self) -> Text:
        """The text as it reads where "2k" and "1.000 €" are thousands.

        >>> read("2k users").in_thousands.tokens
        ('2000', 'users')
        """
        written_out = _PERHAPS_THOUSANDS.sub(
            lambda number: f"{number['short'][:-1]}000" if number["short"] else number["above"] + number["below"],
            self.raw,
        )
        return self if written_out == self.raw else read(written_out)


@lru_cache(maxsize=32_768)
def read(text: str) -> Text:
    """Read `text`. The result is cached.

    >>> read("The Beatles").content_stems
    ('beatl',)
    """
    raw = clean(text)
    digits_only = raw
    if _MAY_BE_SHORT.search(raw):
        # Powers of ten, and the letter of a thousand or a million: "5 x 10^3", "$3bn"
        digits_only = _COMMA_BEHIND_DOTS.sub(lambda number: number[0].replace(".", "").replace(",", "."), raw)
        digits_only = _DOTTED.sub(lambda matched: matched[0].replace(".", ""), _KELVIN.sub("kelvin", digits_only))
        digits_only = _SHORT_SCALE.sub(_in_full, _SCIENTIFIC.sub(_power_of_ten, digits_only))
    if "frac" in digits_only:
        digits_only = _LATEX_FRACTION.sub(r"\1/\2", digits_only)
    normal = with_times_in_digits(normalise(digits_only))
    # What has another usual spelling: "isn't", "18+", "requests/min", "UTC-5", "1h30", "44 BCE", "the third quarter"
    for mark, spellings in _USUAL_SPELLINGS.items():
        if mark in normal:
            for pattern, spelling in spellings:
                normal = pattern.sub(spelling, normal)
    if "-" in normal or "–" in normal:
        normal = _RANGE.sub(_from_to, normal)
    if _NUMBERS_IN_A_ROW.search(normal):
        normal = _SPACED_THOUSANDS.sub(lambda matched: matched[0].replace(" ", ""), normal)
    # "1 1/2" is 1.5, "C#" is one word
    if "/" in normal or "⁄" in normal or not normal.isascii():
        normal = _FRACTION.sub(_decimal, normal)
    if "+" in normal or "#" in normal:
        normal = _SIGNED.sub(lambda matched: f"{matched[1]}{_NAMES_OF_SIGNS[matched[2]]}", normal)
    # The word tokens without accents, split between letters and digits, but for ordinals and decades
    tokens = tuple(chain.from_iterable(map(parted, words_of_normalised(normal))))
    return _analysed(raw, normal, tokens)


def _analysed(raw: str, normal: str, tokens: tuple[str, ...]) -> Text:
    content = tuple([i for i, token in enumerate(tokens) if token not in FUNCTION_WORDS])
    return Text(raw=raw, normal=normal, tokens=tokens, stems=tuple(map(stem, tokens)), content=content)


def _from_to(matched: re.Match[str]) -> str:
    """A range with its dash in words, if it is one of amounts."""
    is_amount = matched["mark"] or matched["unit"] in UNIT_WORDS
    return f"{matched['mark'] or ''}{matched['low']} to {matched['high']}" if is_amount else matched[0]


def _power_of_ten(matched: re.Match[str]) -> str:
    power = int(unicodedata.normalize("NFKC", matched["power"]).replace("−", "-"))
    return _written_out(float(matched["factor"] or 1) * 10.0**power) or matched[0]


def _in_full(matched: re.Match[str]) -> str:
    unit = (matched["unit"] or ("m" if matched["millions"] else "k")).lower()
    number = float(matched["sum"] or matched["number"] or matched["millions"])
    written = _written_out(number * _FACTORS[unit])
    return f"{matched['money'] or ''}{written}" if written else matched[0]


def _written_out(value: float) -> str:
    """A number without an exponent; empty where it would have too many digits to be read again."""
    return f"{value:.10f}".rstrip("0").rstrip(".") if 1e-9 <= value < 1e14 else ""


def _decimal(matched: re.Match[str]) -> str:
    """A fraction below 1, with the whole number before it, as a decimal number; as it stands if it is 1 or more."""
    value = unicodedata.numeric(matched["sign"]) if matched["sign"] else int(matched["above"]) / int(matched["below"])
    return f"{int(matched['whole'] or 0) + value:.6g}" if 0 < value < 1 else matched[0]


def clean(text: str) -> str:
    """The text without hidden thoughts, citation marks and Markdown, cut at `LONGEST_CHARACTERS`.

    >>> clean("**Paris** <think>or London?</think>")
    'Paris'
    """
    text = _THINK.sub(" ", text) if "<" in text else text
    cited = ("[" in text or "^" in text) and len(text.split()) >= _SENTENCE_WORDS
    text = _CITATION.sub(" ", text) if cited else text
    text = text[:LONGEST_CHARACTERS]
    text = _MARKUP.sub(" ", text) if _MARK.search(text) else text
    repaired = text
    if "Ã" in text or "â€" in text or "Ð" in text:
        # UTF-8 that was decoded as Latin-1: "DÃ¡in" is "Dáin"
        for encoding in ("cp1252", "latin-1"):
            with suppress(UnicodeError):
                repaired = text.encode(encoding).decode("utf-8")
                break
    return repaired.strip() or text.strip()


@lru_cache(maxsize=65_536)
def parted(token: str) -> tuple[str, ...]:
    """Split a word between letters and digits, but for ordinals and decades.

    >>> parted("5km"), parted("4th")
    (('5', 'km'), ('4th',))
    """
    if not token.isascii():
        # Accents go. Marks that form another letter in their script stay.
        letters = unicodedata.normalize("NFD", token)
        script = unicodedata.name(letters[0], "")
        if "LATIN" in script or "GREEK" in script:
            bare = "".join([letter for letter in letters if not unicodedata.combining(letter)])
            token = unicodedata.normalize("NFC", bare)
    if token.isalpha() or not token.isalnum() or digits(token) is not None or _DECADE.fullmatch(token):
        return (token,)
    return tuple(_LETTERS_OR_DIGITS.findall(token))


@lru_cache(maxsize=8_192)
def sentences(raw: str) -> tuple[str, ...]:
    """Sentences and lines of a cleaned text, none blank.

    >>> sentences("Dr. Brown won. She is old.")
    ('Dr. Brown won.', 'She is old.')
    """
    if not _MAY_END.search(raw):
        return (raw.strip() or raw,)
    return tuple([part.strip() for part in _SENTENCE.findall(raw) if part.strip()]) or (raw,)


@lru_cache(maxsize=65_536)
def stem(token: str) -> str:
    """A token without its common English or Russian endings; numbers by their value.

    >>> stem("answered"), stem("cities"), stem("реками")
    ('answer', 'city', 'рек')
    """
    value = digits(token)
    if value is not None:
        return f"{value:g}" if abs(value) < 1e5 else f"{value:.0f}"
    if len(token) <= 3:
        return token
    ordinal = ordinal_word(token)
    if ordinal is not None and token not in ("second", "once", "twice"):
        return str(ordinal)
    if token.isascii():
        return _without_ending(token, _ENDINGS_EN)
    return _without_ending(token, _ENDINGS_RU) if "а" <= token[0] <= "я" else token


def _without_ending(token: str, endings: tuple[str, ...]) -> str:
    is_latin = token.isascii()
    # At least three letters are left
    for ending in endings:
        if token.endswith(ending) and len(token) - len(ending) >= 3:
            root = token[: -len(ending)]
            if ending in ("ied", "ies"):
                return root + "y"
            if ending == "s" and root.endswith(("s", "u", "i")):
                return token
            return root.rstrip("e") if is_latin and len(root) > 3 else root
    return token.rstrip("e") if is_latin and len(token) > 4 else token


def lemma(token: str) -> str:
    """The stem of a token, equal for all forms of an irregular word.

    >>> lemma("wrote") == lemma("written")
    True
    """
    return stem(LEMMAS.get(token, token))


_ASKING = word_list("question_words")
_CLOSED = word_list("closed_questions")


def asks_yes_or_no(question: Text) -> bool:
    """Whether yes or no answers `question`.

    >>> asks_yes_or_no(read("Is it open?")), asks_yes_or_no(read("When is it open?"))
    (True, False)
    """
    tokens = question.tokens
    return bool(tokens) and (tokens[0] in _CLOSED or "ли" in tokens) and _ASKING.isdisjoint(tokens)


_PARTS = re.compile(
    r"\s*,?\s+(?:and|и)\s+(?=(?:(?:in|on|at|for|from|to|by|of|в|на|с|из|от|к)\s+)?"
    r"(?:what|which|who|whom|whose|when|where|why|how"
    r"|кто|что|как|когда|где|куда|откуда|почему|сколько|какой|какая|какое|какие|каков|какова|каково|каковы|каком|какую|каких)\b)"
    r"|\?\s+|,\s+(?=(?:в|на)\s+как)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|[2-9]|list|name all|which of the"
    r"|две|два|двух|три|трех|четыре|пять|шесть|семь|восемь|перечислите|назовите)\b"
    r"|\b(?:what|which)(?: \w+)? (?:are|were)\b|\b(?:what|which) \w+s\b",
    re.IGNORECASE,
)


def parts_of(question: str | None) -> tuple[str, ...]:
    """The parts of a question: "Who wrote it, and when?" has two.

    >>> parts_of("Who wrote it, and when?")
    ('Who wrote it', 'when?')
    """
    return tuple(part for part in _PARTS.split(question or "") if words(part))


@lru_cache(maxsize=4_096)
def asks_several(question: str | None) -> bool:
    """Whether a question asks for more than one thing.

    >>> asks_several("Which two rivers?"), asks_several("Who wrote it?")
    (True, False)
    """
    return len(parts_of(question)) > 1 or _SEVERAL.search(question or "") is not None
