"""Formulas and code, in which every sign counts: "a + b" is not "a - b", nor is "f(x)" "f(y)"."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from answerkey.metrics_core.offline_judge.vocabulary import TABLES

_MAX_CHARS = 60
_MAX_PARTS = 8
"""Characters, and parts between blanks, of a formula. A longer text is prose in which signs occur."""
_SHORT = 2
"""Characters of what may be a formula although it has no sign: "p" for "¬p"."""

_SPELLINGS = tuple((re.compile(pattern), sign) for pattern, sign in TABLES["signs"].items())
_NO_FORMULA = re.compile(r"://|\\(?![A-Za-z]+$)|^>\s")
_RELATION = re.compile(r"(?:^|\s)(?:[<>≤≥≠=∧∨→←]|--?(?=[A-Za-z]))")
_LETTER = re.compile(r"[^\W\d_]")
_SIGN = re.compile(
    r"[+=<>≤≥≠^_|~¬∧∨∪∩→←@\\*×·±]"
    # A hyphen or a stroke beside letters alone, or digits; in "T-shirt" and "he/she" it joins words
    r"|(?<![^\W\d_]{2})[-/](?![^\W\d_]{2})|^~?/(?=\w)"
    # A call: the bracket belongs to the name before it, other than in "apple(s)" and "Paris(France)"
    r"|(?<=[A-Za-z0-9_])[(\[](?!(?:s|es|[A-Za-z]{3,})[)\]])"
    # "H2O", "2x"
    r"|^(?=\w*\d)(?:[A-Z][a-z]?\d*){2,}$|^\d+[xyzn]$"
)
_SILENT = re.compile(r"[\s()\[\]{}^_*×·'\"`,;:!?]|\.(?!\d)|(?<!\d)\.")
_ANY_ORDER = re.compile(r"[+=∧∨∪∩]")
_SIDES = re.compile(r"[=→]")
_PATH = re.compile(r"[^\W\d_]{3,}(?:→[^\W\d_]{3,})+")
"""Where something is found in menus."""


def _spelled(text: str) -> str:
    """A text with one sign for each that is written in several ways, without the mark at its end."""
    text = unicodedata.normalize("NFKC", text).strip().rstrip(".!?;,")
    for pattern, sign in _SPELLINGS:
        text = pattern.sub(sign, text)
    return text


def _signs(text: str) -> str:
    """A text as one string of the signs that count in a formula.

    >>> _signs("E = m*c^2"), _signs("e=mc²")
    ('e=mc2', 'e=mc2')
    """
    return _SILENT.sub("", _spelled(text).casefold())


@lru_cache(maxsize=16_384)
def is_formula(text: str) -> bool:
    """Whether a text is a formula, a call, an address, or one operator: no word stands alone, or a relation does.

    >>> [is_formula(text) for text in ("f(x)", "a + b", "pH > 7", "Paris (France)", "24/7", "he/she", "apple(s)")]
    [True, True, True, False, False, False, False]
    """
    text = _spelled(text)
    parts = text.split()
    if len(parts) > _MAX_PARTS or _NO_FORMULA.search(text):
        return False
    if not _LETTER.search(text):
        return len(text) == 1 and bool(_SIGN.fullmatch(text))
    if _RELATION.search(text):
        return True
    has_sign = [bool(_SIGN.search(part)) for part in parts]
    return any(has_sign) and all(
        signed or len(part) == 1 or part[:-1].isdecimal() for part, signed in zip(parts, has_sign, strict=True)
    )


def formulas_differ(answer: str, reference: str) -> bool:
    """Whether one text is a formula, and the other another formula, or a letter or two.

    Spaces, brackets and marks of multiplication do not count. The order does, where no sign lets it be turned round.
    Words are not compared with a formula, nor are numbers.

    >>> formulas_differ("a - b", "a + b"), formulas_differ("b + a", "a + b"), formulas_differ("y = 2*x", "y = 2x")
    (True, False, False)
    >>> formulas_differ("x squared", "x^2"), formulas_differ("5", "x = 5"), formulas_differ("A-", "A")
    (False, False, True)
    """
    are_formulas = [len(text) <= _MAX_CHARS and is_formula(text) for text in (answer, reference)]
    if not any(are_formulas):
        return False
    texts = [_signs(text) for text in (answer, reference)]
    # "Under Settings > Billing" and "Settings > Billing"
    is_path = all(map(_PATH.fullmatch, texts)) and any(map(str.endswith, texts, texts[::-1]))
    if (
        is_path
        or texts[0] == texts[1]
        or (all(are_formulas) and len({bool(_LETTER.search(text)) for text in texts}) > 1)
    ):
        return False
    if all(are_formulas):
        # The same value of another name: "y = 5" for "x = 5"
        if texts[0].rpartition("=")[2] == texts[1].rpartition("=")[2]:
            return False
    else:
        formula, short_text = texts if are_formulas[0] else texts[::-1]
        if len(short_text) > _SHORT or not _LETTER.search(short_text) or short_text in _SIDES.split(formula):
            return False
    bare = [text.replace("-", "") for text in texts]
    if bare[0] == bare[1] and not any(text.startswith("-") or text.endswith("-") for text in texts):
        # "R2-D2" and "R2D2"
        return False
    return sorted(texts[0]) != sorted(texts[1]) or not _ANY_ORDER.search(texts[0])
