"""ROUGE-L: the longest common subsequence of word tokens (Lin 2004, sentence level, beta = 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from answerkey.metrics_core.metrics._lexical import OverlapMetric, PrecisionRecall, Words


@dataclass(frozen=True)
class RougeL(OverlapMetric):
    """Longest common subsequence of words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> RougeL().measure([Sample("1", "the cat sat", ["the cat sat down"])])[0].values["recall"]
    0.75
    """

    name = "rouge_l"
    summary = "longest common subsequence of words, from the one best reference"

    def overlaps(self, answer: Words, references: Iterable[Words]) -> Iterator[PrecisionRecall]:
        """ROUGE-L with each reference."""
        return rouge_l(answer, references)


def rouge_l(answer: Words, references: Iterable[Words]) -> Iterator[PrecisionRecall]:
    """ROUGE-L of the words of an answer and those of each reference. Linear in memory; equal to rouge-score's.

    >>> list(rouge_l(["a", "b", "c"], [["a", "c"]]))
    [PrecisionRecall(precision=0.6666666666666666, recall=1.0, f1=0.8)]
    """
    # Help pages import this module for its options.
    from rapidfuzz.distance import LCSseq

    for reference in references:
        yield PrecisionRecall.of(LCSseq.similarity(answer, reference), len(answer), len(reference))
