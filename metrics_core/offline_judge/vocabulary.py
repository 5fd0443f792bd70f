"""Word lists of the offline judge: function words and verbs of English and Russian, units, well-known short names.

Texts in other languages are judged without these lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TABLES: Mapping[str, Any] = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
"""Lists of words, lines of them for each name, and tables of words with what they stand for."""


def word_list(name: str) -> frozenset[str]:
    """The words of a list in `words.json`.

    >>> sorted(word_list("alternative_words"))
    ['either', 'oder', 'or', 'ou', 'или', 'либо']
    """
    return frozenset(" ".join(TABLES[name]).split())


FUNCTION_WORDS = word_list("function_words")
"""Words with a grammatical function. "or" and negations are left out on purpose; "или" is included for overlap."""

NEGATIONS = word_list("negations")

YES = word_list("yes")
NO = word_list("no")

ALTERNATIVE_WORDS = word_list("alternative_words")

TITLES = word_list("titles")

PLACE_OR_KIND = word_list("place_or_kind")
"""Words for kinds of named things; a name without them is the same name."""

UNIT_WORDS: dict[str, str] = {}
for _unit, _forms in TABLES["units"].items():
    UNIT_WORDS |= dict.fromkeys(_forms.split(), _unit)

ALIASES: tuple[frozenset[str], ...] = tuple(
    frozenset(name.strip() for name in line.split("=")) for line in TABLES["aliases"]
)
"""Names that cannot be recognised by their form. Acronyms need no list."""

ROMAN: Mapping[str, str] = TABLES["latin_letters"]
"""Cyrillic letters in Latin ones."""


SUBJECTS = word_list("subjects")
PREPOSITIONS = word_list("prepositions")
AUXILIARIES = word_list("auxiliaries")
_PERSONS = word_list("persons")
_ARTICLES = word_list("articles")
SUBORDINATE = word_list("subordinate")
"""A piece that begins with one of these is not an item of an enumeration."""
LIGHT = AUXILIARIES | word_list("light_words")
"""Words without content, which link a value to the question."""
_MODALS = word_list("modals")
_STEMS = word_list("verb_stems")
_IRREGULAR = word_list("irregular_verbs")
LEMMAS: dict[str, str] = {}
"""The forms of irregular words, each mapped to one of them."""
for _line in TABLES["lemmas"]:
    LEMMAS |= dict.fromkeys(_line.split(), _line.split()[0])
VERBS = (
    _IRREGULAR
    | _STEMS
    | {stem + ("es" if stem.endswith(("s", "sh", "ch", "x", "o")) else "s") for stem in _STEMS}
    | {stem + ("d" if stem.endswith("e") else "ed") for stem in _STEMS}
    | word_list("more_verbs")
)
"""Forms of frequent verbs. Other verbs are recognised by their form (`is_verb`), if at all."""

_RUSSIAN_VERB = re.compile(
    r".{2,}(?:ует|ают|яют|уют|еют|ает|яет|еет|ется|ится|ются|утся|ятся|атся|лся|лась|лось|лись|ивал[аи]?|ывал[аи]?"
    r"|[аияеуы]л|[аияеуы]л[аи]|оит|дит|жит|сит|дят|жат|одят)"
)
_RUSSIAN_NOUNS = word_list("russian_nouns_like_verbs")


_WORD = re.compile(r"[\w'’%°$€£₽№.+-]*\w[\w'’%°]*|[—–]|\S")
DASHES = ("—", "–", "-")
"""Dashes, which stand for "is" between words."""


def is_verb(word: str, previous: str = "", following: str = "") -> bool:
    """Whether a word (lower case, between the words `previous` and `following`) is probably a finite verb.

    >>> is_verb("likes"), is_verb("apples"), is_verb("work", previous="the")
    (True, False, False)
    """
    if word in AUXILIARIES or word in VERBS or previous in _MODALS:
        return not (word in _STEMS and previous in ("the", "a", "an", "of", "your", "his", "her", "its", "their"))
    if not word.isascii():
        return word not in _RUSSIAN_NOUNS and _RUSSIAN_VERB.fullmatch(word) is not None
    if previous in _PERSONS:
        return word.isalpha() and word not in FUNCTION_WORDS
    if word.endswith("ed") and len(word) > 4:
        return previous not in ("the", "a", "an", "")
    # "reflects the light": a plural does not stand before an article.
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 and following in _ARTICLES


def tagged(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    """Every token of a text, in lower case, and whether it is a verb or a dash that stands for one.

    >>> [word for _, word, verb in tagged("Amy likes apples") if verb]
    ['likes']
    """
    tokens = list(_WORD.finditer(text))
    lower = ["", *(token[0].casefold().replace("’", "'") for token in tokens), ""]
    for token, previous, word, following in zip(tokens, lower, lower[1:], lower[2:], strict=False):
        yield token, word, word in DASHES or is_verb(word, previous, following)
