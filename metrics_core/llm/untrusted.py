"""Text that a model wrote, made fit to be shown: in a message, a terminal, a database, another request."""

from __future__ import annotations

import json
import unicodedata

LONGEST_QUOTE = 60

_REPLACED = {"Cc": " ", "Zl": " ", "Zp": " ", "Cf": "", "Cs": "\ufffd"}
_JOINERS = "\u200c\u200d"  # these two belong to the spelling of Persian, of Indian scripts and of emoji
_MARKUP = str.maketrans(dict.fromkeys('<>`"', " "))


def one_line(text: str) -> str:
    """One line that reads as it looks: white space folded, no controls, no format characters, no lone surrogates."""
    if not text.isprintable():
        text = "".join(
            character if character in _JOINERS else _REPLACED.get(unicodedata.category(character), character)
            for character in text
        )
    return " ".join(text.split())


def storable(text: str) -> str:
    """Without lone surrogates: JSON can spell them, and neither a database nor another request takes them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cut(text: str, longest: int) -> str:
    """At most `longest` characters of a text; the last is an ellipsis where something is missing."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def quoted(value: object) -> str:
    """A JSON value in quotation marks, on one line: at most 60 characters of it, and no markup."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = " ".join(one_line(text[: 2 * LONGEST_QUOTE]).translate(_MARKUP).split())
    return f'"{cut(plain, LONGEST_QUOTE)}"'
