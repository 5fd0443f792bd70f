"""Numbers and untrusted text, made safe and readable for the page."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

NONE = "–"
_BIDI = {
    "\u061c": "ALM", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF",
    "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
}  # fmt: skip
_TAGS = range(0xE0000, 0xE0080)
"""Invisible copies of ASCII, which models can read."""


def number(value: float | None, digits: int = 3) -> str:
    """Decimals with a true minus, or a dash where there is no number."""
    return NONE if value is None else f"{value:.{digits}f}".replace("-", "\u2212")


def signed(value: float | None, digits: int = 3) -> str:
    """A difference with its sign, also where it is plus; nothing has none."""
    if value is None:
        return NONE
    size = f"{abs(value):.{digits}f}"
    sign = "" if float(size) == 0 else "+" if value > 0 else "\u2212"
    return sign + size


def percent(value: float | None) -> str:
    """A share; never rounded to 100 % or 0 % where it is not."""
    if value is None:
        return NONE
    text = f"{100 * value:.1f}"
    if text == "100.0":
        return "100\u00a0%" if value >= 1 else "> 99.9\u00a0%"
    return "< 0.1\u00a0%" if text == "0.0" and value > 0 else f"{text.removesuffix('.0')}\u00a0%"


def probability(value: float | None) -> str:
    """A p value; small ones as a bound."""
    if value is None:
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def hidden_name(character: str) -> str | None:
    """A short name for a character that steers or hides text without being seen; None for all others."""
    if character in _BIDI:
        return _BIDI[character]
    if ord(character) in _TAGS or (unicodedata.category(character) == "Cc" and character not in "\n\t\r"):
        return f"U+{ord(character):04X}"
    return None


def visible(text: str) -> str:
    """The text with a name in brackets in place of each character that steers or hides text: for plain contexts."""
    return "".join(f"[{name}]" if (name := hidden_name(one)) else one for one in text)


def typeset(text: str) -> str:
    """A sentence of our own with a true minus before its numbers, and no break before a sign of per cent."""
    return re.sub(r"(?<=\d) %", "\u00a0%", re.sub(r"(?<=[ (])-(?=\d\.\d{3}\b)", "\u2212", text))


def isolated(text: object) -> Markup:
    """Text from data for HTML: escaped, in its own direction, characters that steer text made visible."""
    pieces = [
        Markup('<span class="mark">{}</span>').format(name) if (name := hidden_name(one)) else escape(one)
        for one in str(text)
    ]
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(pieces))
