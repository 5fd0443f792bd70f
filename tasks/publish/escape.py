"""Untrusted text and our own numbers, made safe and readable for the page, Markdown and the terminal."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

_BIDI = {
    "\u061c": "ALM", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF",
    "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
}  # fmt: skip
_STEERING = ("Cc", "Cs", "Zl", "Zp")
"""Categories: controls, halves of surrogate pairs, which cannot be written, and separators of lines and paragraphs."""
_TAGS = range(0xE0000, 0xE0080)
"""Invisible copies of ASCII, which models can read."""


def hidden_name(character: str) -> str | None:
    """A short name for a character that steers or hides text without being seen; None for all others."""
    if character in _BIDI:
        return _BIDI[character]
    if ord(character) in _TAGS or (unicodedata.category(character) in _STEERING and character not in "\n\t\r"):
        return f"U+{ord(character):04X}"
    return None


def visible(text: str) -> str:
    """The text with a name in brackets in place of each character that steers or hides text: for plain contexts."""
    pieces = []
    for character in text:
        name = hidden_name(character)
        pieces.append(f"[{name}]" if name else character)
    return "".join(pieces)


def typeset(text: str) -> str:
    """Our own numbers and sentences with true minus signs, and no break before a percent sign."""
    return re.sub(r"(?<=\d) %", "\u00a0%", re.sub(r"(?:(?<=[ (\[])|^)-(?=\d+\.\d{3}\b)", "\u2212", text))


def breakable(name: str) -> Markup:
    """METRIC.FIELD, which a narrow column may break after the dot."""
    return escape(name).replace(".", Markup(".<wbr>"))


def isolated(text: object) -> Markup:
    """Text from data for HTML: escaped, in its own direction, characters that steer text made visible."""
    pieces = []
    for character in str(text):
        name = hidden_name(character)
        pieces.append(Markup('<span class="mark">{}</span>').format(name) if name else escape(character))
    return Markup('<bdi dir="auto">{}</bdi>').format(Markup("").join(pieces))
