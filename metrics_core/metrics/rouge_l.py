"""ROUGE-L: the longest common subsequence of word tokens (Lin 2004, sentence level, beta = 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from answerkey.metrics_core.metrics._lexical import OverlapMetric, Words

_LONG = 60_000
"""Words of the shorter text from which on `_lcs_of_long` takes less time."""
_KEPT_MASKS = 1_000


@dataclass(frozen=True)
class RougeL(OverlapMetric):
    """Longest common subsequence of words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> RougeL().measure([Sample("1", "the cat sat", ["the cat sat down"])])[0].values["recall"]
    0.75
    """

    name = "rouge_l"
    summary = "longest common subsequence of words, from the one best reference"

    def shared(self, answer: Words) -> Callable[[Words], int]:
        """The words in the same order."""
        return words_in_order(answer)


def words_in_order(answer: Words) -> Callable[[Words], int]:
    """What finds the length of the longest common subsequence of an answer and a reference. Linear in memory.

    >>> words_in_order(["a", "b", "c"])(["c", "a", "b"])
    2
    """
    return partial(_length if len(answer) > _LONG else _similarity(), answer)


def _length(answer: Words, reference: Words) -> int:
    return _lcs_of_long(answer, reference) if len(reference) > _LONG else _similarity()(answer, reference)


@lru_cache(maxsize=1)
def _similarity() -> Callable[[Words, Words], int]:
    # Help pages import this module for its options.
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity


def _lcs_of_long(words: Words, others: Words) -> int:
    """The length of the longest common subsequence, with one bit of an integer for each of `words` (Hyyro 2004).

    The library takes minutes for texts of megabytes: it looks each word up once for every 64 words of the other text.
    """
    shared = set(words).intersection(others)
    places: dict[str, list[int]] = {word: [] for word in shared}
    for place, word in enumerate(word for word in words if word in shared):
        places[word].append(place)
    size = sum(map(len, places.values()))
    everything = unmatched = (1 << size) - 1
    # The masks of the most frequent words bound the memory; those of the others are made when they are met.
    frequent = sorted(places, key=lambda word: len(places[word]), reverse=True)[:_KEPT_MASKS]
    masks = {word: _mask(places[word], size) for word in frequent}
    for word in others:
        if word in shared:
            mask = masks.get(word) or _mask(places[word], size)
            matched = unmatched & mask
            unmatched = ((unmatched + matched) | (unmatched - matched)) & everything
    return size - unmatched.bit_count()


def _mask(places: Sequence[int], size: int) -> int:
    bits = bytearray(size // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")
