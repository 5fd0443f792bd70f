"""Unicode normalisation and word tokens: the ground that every lexical metric stands on.

Two spellings of the same text must give the same tokens in every script, and nothing that carries meaning
may fall out on the way: negations, signs, decimals, percent and currency marks stay.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain

import regex

TOKENIZER_ID = "unicode1"
"""Names the rules of `normalise` and `words` in signatures. Change the rules, change the name."""

_LOOKALIKES = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "٫": ".", "٬": ",", "٪": "%", "؉": "‰",
    }
)  # fmt: skip
_LOOKALIKE = re.compile(f"[{''.join(map(chr, _LOOKALIKES))}]")
# By far not all, but most texts have one.
_VISIBLE = re.compile("[!-~À-ʯЀ-ҁ一-鿿]")
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}]")
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
    return rf"{sign}(?:\d+(?:[.,]\d+)+|\.\d+|\d{letter}*)|\d+(?:[.,]\d+)+|\.(?<!(?:{letter}|[_.])\.)\d+"


# Before a currency mark, a fraction or infinity the sign is a token of its own: -$5, -½. So is "!=".
_ASCII_WORD = re.compile(rf"{_number('[a-z0-9]', _ASCII_SIGN)}|[a-z0-9]+|[$%+<=>#]|!=|{_ASCII_SIGN}(?=\$)", re.ASCII)
_WORD = regex.compile(
    rf"{_number(_LETTER, _SIGN)}|[{_UNSPACED}]\p{{M}}*|{_LETTER}+"
    rf"|[[\p{{So}}\p{{Sc}}\p{{Sm}}%‰‱#]--[|~⁄]]|!=|{_SIGN}(?=[\p{{Sc}}\p{{N}}∞√])",
    regex.V1,
)
# What each ASCII character is to `_marks`: a letter a (or what else ends a word before a sign), a digit 0, a stop
# or comma, a sign -, a mark that is a word by itself #.
_KINDS = bytes(
    0x30 if 0x30 <= code <= 0x39 else 0x61 if chr(code).isalnum() or chr(code) in "_)]" else 0x2E if chr(code) in ".,"
    else 0x2D if chr(code) == "-" else 0x23 if chr(code) in "$%+<=>#" else 0x20
    for code in range(128)
).ljust(256)  # fmt: skip
# What may be words, or in words, beside letters and digits; a sign only if it is not between two of them.
_MARK, _POINT, _SIGN_OR_HYPHEN = b"#", b".0", b"-0"
_ONLY_LETTERS_AND_DIGITS = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() else 0x20 for code in range(128)
).ljust(256)  # fmt: skip
# Between texts that are cut at once.
_BORDER, _CODE_OF_BORDER = " \0 ", 0
_KEEPING_BORDERS = bytes((0, *_ONLY_LETTERS_AND_DIGITS[1:]))
_CUT_AT_ONCE = 8_192
_LETTERS_AND_DIGITS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_ASCII_PUNCTUATION = " \"'()*,.:;?![]_{}"
_CASED_WORD = regex.compile(r"(\d[ \u00a0-]?)?(\p{L}+)")
_LONGEST_ABBREVIATION, _LONGEST_UNIT = 4, 2
_SHORT = 64
_LONGEST_KEPT_PIECE, _MOST_KEPT_PIECES = 40, 65_536
_POINTED_NUMBER = re.compile(r"[.,]\d")
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
# In every script, but no mark that changes what a number or a name is (5 %, C#, § 5), nor the start of ".5" or "!=".
# The look-behind before the tail keeps a long run of stops within a text from being tried at each of them.
_PUNCTUATION = r"[[\s\p{Pi}\p{Pf}\p{Ps}\p{Pe}\p{Po}_]--[#%&@/\\‰‱§†‡′″‴]]"
_PUNCTUATION_AROUND = regex.compile(
    rf"^(?:(?!(?<!\.)\.\d|!=){_PUNCTUATION})+|(?<!{_PUNCTUATION}){_PUNCTUATION}+$", regex.V1
)


def normalise(text: str) -> str:
    """One spelling for texts that differ only in form.

    Case, Unicode normal form, white space, quotation marks, dashes, foreign decimal digits and invisible
    characters are folded; powers, subscripts and fractions of numbers are kept apart from plain digits.

    >>> normalise("  Ｐａｒｉｓ\\u00a0is  NICE ")
    'paris is nice'
    """
    if not text.isascii():
        text = _fold_unicode(text)
    text = text.lower()
    # Of all white space, only the space is printable.
    if text.isprintable() and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


def differ_in_case(text: str, other: str) -> bool:
    """Whether two texts that `normalise` makes equal differ in a case that may mean something.

    That is so for units and abbreviations: short words that are all capitals in one text only, that have a capital
    within, or that follow a number. A capital at the beginning, and whole words in capitals, are a matter of form.

    >>> differ_in_case("10 mg", "10 Mg"), differ_in_case("US", "us"), differ_in_case("2 MWh", "2 mWh")
    (True, True, True)
    >>> differ_in_case("paris", "Paris"), differ_in_case("It is OSLO", "it is Oslo")
    (False, False)
    """
    if text == other:
        return False
    pairs = zip(*(_CASED_WORD.findall(unicodedata.normalize("NFKC", one)) for one in (text, other)), strict=False)
    return any(_case_matters(word, another, bool(number)) for (number, word), (_, another) in pairs)


def _case_matters(word: str, other: str, after_number: bool) -> bool:
    if word == other or word.lower() != other.lower() or len(word) > _LONGEST_ABBREVIATION:
        return False
    if word[1:] == other[1:]:
        return after_number or (not word[1:].islower() and len(word) > 1)
    # A name and the same name in capitals.
    return len(word) <= _LONGEST_UNIT or not (word.istitle() or other.istitle())


def composed(text: str) -> str:
    """One Unicode form of a text, that of `normalise`, with its case and its white space as they are."""
    if text.isascii():
        return text
    if not _OTHER_NUMBER.search(text):
        return unicodedata.normalize("NFKC", text)
    pieces = _MEANINGFUL_FORM.split(unicodedata.normalize("NFC", text))
    pieces[::2] = [unicodedata.normalize("NFKC", piece) for piece in pieces[::2]]
    return "".join(pieces)


def _fold_unicode(text: str) -> str:
    # Folding case can undo a normal form, so the order is: form, case, form again.
    text = unicodedata.normalize("NFC", composed(text).casefold())
    # Russian spelling uses ё and е interchangeably.
    text = _INVISIBLE.sub("", text).replace("ё", "е")
    if _LOOKALIKE.search(text):
        text = text.translate(_LOOKALIKES)
    # `regex` may know digits of a later Unicode than Python does: they stay as they are.
    folded: str = _FOREIGN_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0], match[0])), text)
    return folded


def words(text: str) -> tuple[str, ...]:
    """Word tokens of a text, normalised. Punctuation is dropped; a text may have none.

    Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give one token a character.
    On lower-case ASCII letters, digits and spaces this equals rouge-score's own tokenizer.

    >>> words("It is -5 °C, not 1,000.5!")
    ('it', 'is', '-5', '°', 'c', 'not', '1000.5')
    """
    if text.isascii():
        if len(text) < _SHORT and text.replace(" ", "").isalnum():
            return tuple(text.lower().split())
        raw = text.encode()
        if next(_marks(raw), None) is None:
            return tuple(raw.translate(_ONLY_LETTERS_AND_DIGITS).decode().split())
    elif _is_nearly_ascii(text):
        return tuple(chain.from_iterable(map(_words_of_piece.__getitem__, text.split())))
    return words_of_normalised(normalise(text))


def _marks(raw: bytes) -> Iterator[int]:
    """Where an ASCII text may have words of anything else than letters and digits: numbers with signs or points."""
    kinds = raw.translate(_KINDS)
    for mark in (_MARK, _POINT, _SIGN_OR_HYPHEN):
        at = kinds.find(mark)
        while at >= 0:
            if mark != _SIGN_OR_HYPHEN or kinds[at - 1 : at] not in (b"a", b"0"):
                yield at
            at = kinds.find(mark, at + 1)


def words_of_all(texts: Iterable[str]) -> Iterator[Sequence[str]]:
    """The `words` of each of many texts. Those of plain ASCII are cut together, in half the time.

    >>> [" ".join(words) for words in words_of_all(["It is Paris.", "", "-5 °C"])]
    ['it is paris', '', '-5 ° c']
    """
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= _CUT_AT_ONCE:
            yield from _words_together(batch)
            batch, characters = [], 0
    yield from _words_together(batch)


def _words_together(texts: Sequence[str]) -> Iterable[Sequence[str]]:
    plain = [text if text.isascii() else "" for text in texts]
    raw = _BORDER.join(plain).encode()
    if raw.count(_CODE_OF_BORDER) >= len(texts):
        return map(words, texts)
    cut: list[Sequence[str]] = [part.split() for part in raw.translate(_KEEPING_BORDERS).decode().split("\0")]
    ends = list(accumulate(len(text) + len(_BORDER) for text in plain))
    marked = {bisect(ends, place) for place in _marks(raw)}
    for place in marked.union(place for place, text in enumerate(plain) if not text):
        cut[place] = words(texts[place])
    return cut


def _is_nearly_ascii(text: str) -> bool:
    return 10 * (len(text.encode("utf-8", "surrogatepass")) - len(text)) < len(text)


class _WordsOfPiece(dict[str, tuple[str, ...]]):
    """The words of pieces of text without white space. No rule of `normalise` or `words` looks across white space."""

    def __missing__(self, piece: str) -> tuple[str, ...]:
        found = words(piece) if piece.isascii() else words_of_normalised(normalise(piece))
        if len(piece) <= _LONGEST_KEPT_PIECE:
            if len(self) >= _MOST_KEPT_PIECES:
                self.clear()
            self[piece] = found
        return found


_words_of_piece = _WordsOfPiece()


def words_of_normalised(text: str) -> tuple[str, ...]:
    """`words` for a text that `normalise` returned."""
    tokens = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    if _POINTED_NUMBER.search(text):
        return tuple(_canonical_number(token) if "." in token or "," in token else token for token in tokens)
    return tuple(tokens)


# References come again with every release; the sizes bound the memory. What is kept of answers, for the next metric of
# a run, was measured to save seven metrics together 5 % of their time, and to cost one alone 8 %: it leaves the cache
# of the processor, and the garbage collector looks through it.
reference_words = lru_cache(maxsize=16_384)(words)
"""`words` for references: kept, since they come again with every release."""
normal_reference = lru_cache(maxsize=16_384)(normalise)
"""`normalise` for references: kept, since they come again with every release."""


def is_blank(text: str | None) -> bool:
    """Nothing to see: no text, white space, or invisible characters only."""
    if not text or _VISIBLE.match(text):
        return not text
    return text.isspace() or (not text.isascii() and not _VISIBLE.search(text) and not normalise(text))


def trimmed(text: str) -> str:
    """A normalised text without the punctuation and brackets around it: `"paris."` is `paris`."""
    return trimmed_of_normalised(normalise(text))


def trimmed_of_normalised(text: str) -> str:
    """`trimmed` for a text that `normalise` returned."""
    if text[:1] in _LETTERS_AND_DIGITS and text[-1:] in _LETTERS_AND_DIGITS:
        return text
    if text.isascii():
        bare = text.strip(_ASCII_PUNCTUATION)
        # A stop or an exclamation mark before the rest may belong to it.
        if bare == text or not bare or text[text.index(bare) - 1 : text.index(bare)] not in (".", "!"):
            return bare
    bare_text: str = _PUNCTUATION_AROUND.sub("", text)
    return bare_text


def _canonical_number(token: str) -> str:
    if _THOUSANDS.fullmatch(token):
        return token.replace(",", "")
    if token.startswith((".", "-.")):
        return token.replace(".", "0.", 1)
    return token
