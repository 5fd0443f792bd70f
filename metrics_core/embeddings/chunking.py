"""Cutting texts that are longer than a model reads, and telling which texts it cannot read at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

READABLE_SHARE = 0.5
"""A model reads a text when it knows at least this share of its letters and digits."""

_CLOSING = r"[\"'”’»)\]]*"
_SENTENCE = re.compile(
    # Full-width marks end a sentence by themselves; the others need white space, for 3.14 is one number.
    rf".+?(?:\n\s*|[.!?…؟۔।॥]{_CLOSING}\s+|[。！？｡][」』”’）]*\s*|$)",
    re.DOTALL,
)
_WORD = re.compile(r"\s*\S+\s*")
# What tokenizers put before a word or a piece; it carries no meaning by itself.
_MARKERS = "▁Ġ# "


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text that fits the model; its weight among several is its length in pieces."""

    text: str
    weight: int = 1


def chunk(text: str, pieces: Callable[[str], Sequence[str | None]], limit: int) -> list[Chunk] | None:
    """`text` in parts of at most `limit` pieces, cut at the ends of sentences where possible.

    Args:
        text: not blank.
        pieces: the model's tokenizer: the pieces of a text, `None` for each that the model does not know.
        limit: the most pieces that the model reads, without the special ones.

    Returns:
        One chunk where the text fits, several where it does not, None where the model cannot read the text
        (see `readable`): its embedding would be that of any other text that it cannot read.
    """
    if _surely_fits(text, limit):
        return [Chunk(text)]
    all_pieces = pieces(text)
    if not readable(text, all_pieces):
        return None
    if len(all_pieces) <= limit:
        return [Chunk(text)]
    parts = pack(text, lambda part: len(pieces(part)) <= limit)
    return [Chunk(part, len(pieces(part))) for part in parts]


def _surely_fits(text: str, limit: int) -> bool:
    # No tokenizer makes more pieces than bytes, and all know ASCII. This spares tokenizing most texts twice.
    return len(text) <= limit and text.isascii() and any(map(str.isalnum, text))


def readable(text: str, pieces: Sequence[str | None]) -> bool:
    """Whether a model knows enough of `text`: `READABLE_SHARE` of its letters and digits.

    Without any letter or digit, one known mark is enough.
    """
    known = [piece for piece in pieces if piece is not None]
    if len(known) == len(pieces):
        return bool(pieces)
    letters = sum(map(str.isalnum, text))
    if not letters:
        return any(piece.strip(_MARKERS) for piece in known)
    return sum(sum(map(str.isalnum, piece)) for piece in known) >= READABLE_SHARE * letters


def pack(text: str, fits: Callable[[str], bool]) -> list[str]:
    """`text` in as few stripped parts as fit, filled greedily from the front.

    Parts end where sentences end; a sentence that does not fit is cut between words, and a word that does
    not fit between characters. A single character always counts as fitting.

    >>> pack("One. Two three. Four.", lambda part: len(part) <= 15)
    ['One. Two three.', 'Four.']
    """
    units = _SENTENCE.findall(text)
    parts: list[str] = []
    start = 0
    while start < len(units):
        count = _most_that_fit(units, start, fits)
        if count == 0:
            units[start : start + 1] = _smaller(units[start])
            continue
        parts.append("".join(units[start : start + count]).strip())
        start += count
    return [part for part in parts if part]


def _smaller(unit: str) -> list[str]:
    words: list[str] = _WORD.findall(unit)
    return words if len(words) > 1 else list(unit)


def _most_that_fit(units: Sequence[str], start: int, fits: Callable[[str], bool]) -> int:
    """How many units from `start` on fit together: by doubling, then halving, since each try is tokenized."""

    def fit(count: int) -> bool:
        return fits("".join(units[start : start + count]).strip())

    left = len(units) - start
    high = 1
    while high <= left and fit(high):
        high *= 2
    low = high // 2
    high = min(high, left + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low if low or len(units[start]) > 1 else 1
