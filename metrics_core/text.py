"""Unicode normalisation and word tokens, the basis of all lexical metrics.

Two spellings of the same text have the same tokens in every script, and nothing that carries meaning is lost:
negations, signs, decimals, percent and currency marks stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import regex

TOKENIZER_ID = "unicode2"
"""The version of `normalise` and `words` in signatures: change it whenever the rules change."""

_LOOKALIKES = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "٫": ".", "٬": ",", "٪": "%", "؉": "‰",
        # Hebrew has marks of its own for a hyphen and for abbreviations
        "־": "-", "׳": "'", "״": '"',
        # Letters that Arabic, Persian and Urdu keyboards write in different ways, and the alef with or without its mark
        "ى": "ي", "ی": "ي", "ک": "ك", "ہ": "ه", "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا",
    }
)  # fmt: skip
_LOOKALIKE = re.compile(f"[{''.join(map(chr, _LOOKALIKES))}]")
# Visible characters, of which nearly every text has one.
_VISIBLE = re.compile("[!-~À-ʯЀ-ҁ一-鿿]")
# Also the marks of vowels, of recitation and of a stretched letter, which Arabic and Hebrew mostly leave out; but not
# the hamza and the madda, which are part of a letter.
_INVISIBLE = regex.compile(
    r"[\p{Default_Ignorable_Code_Point}\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc"
    r"\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"
)
# In Turkish and Azerbaijani, the capital of ı is I and that of i is İ. A word with one of these letters is in one of
# them; in any other word I is the capital of i.
_TURKISH = re.compile("[İığĞ]")
_LETTERS = regex.compile(r"\p{L}++")
_FOREIGN_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
# Compatibility forms fold away (full width, ligatures), but not where that would make another number:
# NFKC turns 10² into 102 and 1½ into 11⁄2. After a letter there is no number to change: m² is m2, CO₂ is CO2.
_MEANINGFUL_FORM = regex.compile(r"((?<=[\p{Nd}²³¹⁰⁴-⁹₀-₉⁺⁻₊₋])[²³¹⁰⁴-⁹₀-₉]|[¼-¾⅐-⅟↉])")
_OTHER_NUMBER = re.compile("[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅟↉]")

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]"
# A sign belongs to a number unless something stands right before it (10-5, COVID-19, x(2)-3). In scripts
# without spaces something always does, so there only a number with its unit (5日-7日) counts.
_ASCII_SIGN = r"-(?<![a-z0-9_)\]]-)"
_SIGN = rf"-(?<!(?:{_LETTER}|[_)\]]|\p{{N}}[{_UNSPACED}]{{1,2}})-)"


def _number(letter: str, sign: str) -> str:
    # With its thousands in apostrophes, as in Switzerland
    grouped = r"(?<!\d)\d{1,3}(?:'\d{3})+(?:[.,]\d+)?(?!\d)"
    plain_number = rf"{sign}(?:\d+(?:[.,]\d+)+|\.\d+|\d{letter}*)|\d+(?:[.,]\d+)+"
    return rf"(?:{sign})?{grouped}|{plain_number}|\.(?<!(?:{letter}|[_.])\.)\d+"


# Before a currency mark, a fraction or infinity the sign is a token of its own: -$5, -½. So is "!=".
_ASCII_WORD = re.compile(rf"{_number('[a-z0-9]', _ASCII_SIGN)}|[a-z0-9]+|[$%+<=>#]|!=|{_ASCII_SIGN}(?=\$)", re.ASCII)
_WORD = regex.compile(
    rf"{_number(_LETTER, _SIGN)}|[{_UNSPACED}]\p{{M}}*|{_LETTER}+"
    rf"|[[\p{{So}}\p{{Sc}}\p{{Sm}}%‰‱#]--[|~⁄]]|!=|{_SIGN}(?=[\p{{Sc}}\p{{N}}∞√])",
    regex.V1,
)
_CASED_WORD = regex.compile(r"(\d[ \u00a0-]?)?(\p{L}+)")
_MAX_ABBREVIATION_LETTERS = 4
_MAX_UNIT_LETTERS = 2
_POINTED_NUMBER = re.compile(r"[.,']\d")
# By thousands, with commas or apostrophes; in India by hundreds above the first thousand.
_THOUSANDS = re.compile(
    r"(?P<sign>-?)(?P<whole>[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:'\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3})"
    r"(?P<decimals>[.,]\d+)?",
    re.ASCII,
)
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.,'])[1-9]\d{0,2}(?:[,']\d{2,3})+(?![\d,'])", re.ASCII)
# In every script, but no mark that changes what a number or a name is (5 %, C#, § 5), nor the start of ".5" or "!=".
# The look-behind before the tail keeps a long run of stops within a text from being tried at each of them.
_PUNCTUATION = r"[[\s\p{Pi}\p{Pf}\p{Ps}\p{Pe}\p{Po}_]--[#%&@/\\‰‱§†‡′″‴]]"
_PUNCTUATION_AROUND = regex.compile(
    rf"^(?:(?!(?<!\.)\.\d|!=){_PUNCTUATION})+|(?<!{_PUNCTUATION}){_PUNCTUATION}+$", regex.V1
)


_MARKED = re.compile(r"[*_`$\\\[]")
_MARKS = (
    # A link, but no image, whose text only describes it
    re.compile(r"(?<!!)\[([^\[\]]+)\]\((?:[^()\s]|\([^()\s]*\))+(?:\s+\"[^\"]*\")?\)"),
    re.compile(r"\\(?:boxed|text|textbf|textit|mathrm|mathbf)\{([^{}]*)\}"),
    # Two signs of a currency enclose no formula: "$5 and $6"
    re.compile(
        r"\$\$([^$]+)\$\$|(?<![\w$\\])\$(?=\S)([^$]*[^\s$\\])\$(?![\w$])|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]",
        re.DOTALL,
    ),
    re.compile(r"\*\*(.+?)\*\*|(?<!\w)__(.+?)__(?!\w)|```(?:\w+\n)?(.+?)```|`([^`]+)`", re.DOTALL),
    re.compile(r"(?<![\w*])\*(?=\S)([^*]+)(?<=\S)\*(?![\w*])|(?<![\w_])_(?=\S)([^_]+)(?<=\S)_(?![\w_])"),
)
"""Marks that are form, with what stands between them."""

_KOREAN = re.compile("[가-힣]")
_PARTICLES = re.compile(
    "(?:은|는|이|가|을|를|의|에|에서|에는|에서는|에게|에게서|께|께서|한테|로|으로|로서|으로서|로써|으로써|와|과|랑|이랑|하고|도|만|까지|부터|마다|보다|처럼|밖에)"
    "{1,2}|(?:이|)(?:다|고|며|라고|라는|란|라|야|죠|지요|었다|었습니다)|입니다|입니까|이에요|예요|였다|였습니다|였고|이었고|인"
)
"""What stands behind a Korean noun: one or two particles, or a form of "to be"."""
_MAX_PARTICLES_LETTERS = 5


def normalise(text: str) -> str:
    """Convert a text to one spelling for all texts that differ only in form.

    Case, Unicode normal form, white space, quotation marks, dashes, foreign decimal digits and invisible
    characters are folded; powers, subscripts and fractions of numbers are kept apart from plain digits.

    >>> normalise("  Ｐａｒｉｓ\\u00a0is  NICE ")
    'paris is nice'
    """
    if not text.isascii():
        # Folding case can undo a normal form, so the order is: form, case, form again.
        text = composed(text)
        if "I" in text and _TURKISH.search(text):
            text = _LETTERS.sub(lambda word: word[0].replace("I", "ı") if _TURKISH.search(word[0]) else word[0], text)
        text = unicodedata.normalize("NFC", text.casefold())
        # Russian spelling uses ё and е interchangeably; the small letter of the Turkish İ has no second dot.
        text = _INVISIBLE.sub("", text).replace("ё", "е").replace("i\u0307", "i")
        if _LOOKALIKE.search(text):
            text = text.translate(_LOOKALIKES)
        # `regex` may know digits of a later Unicode than Python does: they stay as they are.
        text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text)
    text = text.lower()
    # The only printable white space is the space.
    if text.isprintable() and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


def differ_in_case(text: str, other_text: str) -> bool:
    """Whether two texts with the same normal form differ in a case that carries meaning.

    That is so for units and abbreviations: short words that are all capitals in one text only, that have a capital
    inside, or that follow a number. A capital at the beginning, and long words in capitals, are a matter of form.

    >>> differ_in_case("10 mg", "10 Mg"), differ_in_case("US", "us"), differ_in_case("2 MWh", "2 mWh")
    (True, True, True)
    >>> differ_in_case("paris", "Paris"), differ_in_case("It is OSLO", "it is Oslo")
    (False, False)
    """
    if text == other_text:
        return False
    cased_words = _CASED_WORD.findall(unicodedata.normalize("NFKC", text))
    other_words = _CASED_WORD.findall(unicodedata.normalize("NFKC", other_text))
    for (number, word), (_, other_word) in zip(cased_words, other_words, strict=False):
        if word == other_word or word.lower() != other_word.lower() or len(word) > _MAX_ABBREVIATION_LETTERS:
            continue
        if word[1:] == other_word[1:]:
            # Only the first letter differs
            if number or (not word[1:].islower() and len(word) > 1):
                return True
        elif len(word) <= _MAX_UNIT_LETTERS or not (word.istitle() or other_word.istitle()):
            # It is no name and the same name in capitals
            return True
    return False


def composed(text: str) -> str:
    """The Unicode form of `normalise`, without changes of case and white space."""
    if text.isascii():
        return text
    if not _OTHER_NUMBER.search(text):
        return unicodedata.normalize("NFKC", text)
    pieces = _MEANINGFUL_FORM.split(unicodedata.normalize("NFC", text))
    pieces[::2] = [unicodedata.normalize("NFKC", piece) for piece in pieces[::2]]
    return "".join(pieces)


def words(text: str) -> tuple[str, ...]:
    """Word tokens of a text, normalised. Punctuation is dropped; a text may have none.

    Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give one token a character.
    On lower-case ASCII letters, digits and spaces this equals rouge-score's own tokenizer.

    >>> words("It is -5 °C, not 1,000.5!")
    ('it', 'is', '-5', '°', 'c', 'not', '1000.5')
    """
    return words_of_normalised(normalise(text))


def words_of_normalised(text: str) -> tuple[str, ...]:
    """`words` for a text that `normalise` returned."""
    tokens = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    if not _POINTED_NUMBER.search(text):
        return tuple(tokens)
    return tuple(map(_canonical_number, tokens))


reference_words = lru_cache(maxsize=16_384)(words)
"""`words` with a cache, for references, which are the same in every release."""
normal_reference = lru_cache(maxsize=16_384)(normalise)
"""`normalise` with a cache, for references, which are the same in every release."""


def storable(text: str) -> str:
    """Replace lone surrogates, which JSON can contain, but neither databases nor requests can.

    >>> storable("a\\ud800b") == "a\\ufffdb"
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_blank(text: str | None) -> bool:
    """Whether a text is missing, or consists of white space and invisible characters only."""
    if not text or _VISIBLE.match(text):
        return not text
    return text.isspace() or (not text.isascii() and not _VISIBLE.search(text) and not normalise(text))


def plain(text: str) -> str:
    """A text without the marks of its form: Markdown's links, emphasis and code, and LaTeX's formulas and boxes.

    >>> plain(r"**[Paris](https://x.example)** is $\\boxed{42}$")
    'Paris is 42'
    """
    if _MARKED.search(text):
        for marks in _MARKS:
            text = marks.sub(lambda match: next(filter(None, match.groups()), ""), text)
    return text


def trimmed(text: str) -> str:
    """A normalised text without the marks, punctuation and brackets around it: `"Paris."` is `paris`, `1,000` is
    `1000`.
    """
    normalised = normalise(plain(text))
    if _POINTED_NUMBER.search(normalised):
        normalised = _NUMBER_IN_TEXT.sub(lambda number: _canonical_number(number[0]), normalised)
    bare: str = _PUNCTUATION_AROUND.sub("", normalised)
    return bare


def without_korean_particles(tokens: Sequence[str], other_tokens: Sequence[str]) -> Sequence[str]:
    """Words of a Korean text, without the particles behind nouns that the other text has without them.

    >>> without_korean_particles(["서울은", "수도이다", "서울대"], ["서울", "수도"])
    ['서울', '수도', '서울대']
    """
    if all(map(str.isascii, tokens)) or not _KOREAN.search(" ".join(tokens)):
        return tokens
    other_words = frozenset(other_tokens)
    nouns = []
    for token in tokens:
        noun = token
        if token not in other_words:
            # The shortest particles behind a noun of the other text
            for end in range(len(token) - 1, max(0, len(token) - _MAX_PARTICLES_LETTERS - 1), -1):
                if token[:end] in other_words and _PARTICLES.fullmatch(token, end):
                    noun = token[:end]
                    break
        nouns.append(noun)
    return nouns


def _canonical_number(token: str) -> str:
    if number := _THOUSANDS.fullmatch(token):
        digits = number["whole"].replace(",", "").replace("'", "")
        return f"{number['sign']}{digits}{number['decimals'] or ''}"
    if token.startswith((".", "-.")):
        return token.replace(".", "0.", 1)
    return token
