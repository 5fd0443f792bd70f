"""Token overlap: clipped (multiset) word overlap, the F1 of SQuAD (Rajpurkar et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from answerkey.metrics_core.metrics._lexical import OverlapMetric, PrecisionRecall, Words, counted


@dataclass(frozen=True)
class TokenOverlap(OverlapMetric):
    """Shared words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> TokenOverlap().measure([Sample("1", "cat the", ["the cat"])])[0].values["f1"]
    1.0
    """

    name = "token_overlap"
    summary = "shared words, counted as often as they stand in both"

    def overlaps(self, answer: Words, references: Iterable[Words]) -> Iterator[PrecisionRecall]:
        """The overlap with each reference."""
        return token_overlap(answer, references)


def token_overlap(answer: Words, references: Iterable[Words]) -> Iterator[PrecisionRecall]:
    """Overlap of the words of an answer with those of each reference.

    A word counts as often as it stands in both, so repeating a word neither helps nor hurts an identical text.

    >>> list(token_overlap(["bora", "bora"], [["bora"]]))
    [PrecisionRecall(precision=0.5, recall=1.0, f1=0.6666666666666666)]
    """
    counts = counted(answer)
    for reference in references:
        used: dict[str, int] = {}
        matched = 0
        for word in reference:
            taken = used.get(word, 0)
            if taken < counts.get(word, 0):
                used[word] = taken + 1
                matched += 1
        yield PrecisionRecall.of(matched, len(answer), len(reference))
