"""Token overlap: clipped (multiset) word overlap, the F1 of SQuAD (Rajpurkar et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from answerkey.metrics_core.metrics._lexical import OverlapMetric, Words, counted

_FEW, _MANY = 16, 128
"""Below so many words, looking for all of them, or for a few, takes less time than counting."""


@dataclass(frozen=True)
class TokenOverlap(OverlapMetric):
    """Shared words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> TokenOverlap().measure([Sample("1", "cat the", ["the cat"])])[0].values["f1"]
    1.0
    """

    name = "token_overlap"
    summary = "shared words, counted as often as they stand in both"

    def shared(self, answer: Words) -> Callable[[Words], int]:
        """The words in any order."""
        return words_in_any_order(answer)


def words_in_any_order(answer: Words) -> Callable[[Words], int]:
    """What counts the words that an answer and a reference have in common.

    A word counts as often as it stands in both, so repeating a word neither helps nor hurts an identical text.

    >>> words_in_any_order(["bora", "bora"])(["so", "bora"])
    1
    """
    distinct = set(answer)
    repeats = len(distinct) < len(answer)
    in_answer = answer.count if len(answer) < _MANY else counted(answer).__getitem__

    def shared(reference: Words) -> int:
        common = distinct.intersection(reference)
        if not repeats or len(common) == len(reference):
            return len(common)
        in_reference = reference.count if len(reference) < _FEW else counted(reference).__getitem__
        times = map(in_reference, common)
        return sum([1 if n == 1 else min(n, in_answer(word)) for word, n in zip(common, times, strict=True)])

    return shared
