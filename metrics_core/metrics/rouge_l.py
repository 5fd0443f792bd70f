"""ROUGE-L: the longest common subsequence of word tokens (Lin 2004, sentence level, beta = 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics._lexical import (
    P_R_F1,
    PERFECT,
    LexicalMetric,
    PrecisionRecall,
    References,
    best,
    identical,
)
from answerkey.metrics_core.text import TOKENIZER_ID, normalise, reference_words, words_of_normalised


@dataclass(frozen=True)
class RougeL(LexicalMetric):
    """Longest common subsequence of words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> RougeL().measure([Sample("1", "the cat sat", ["the cat sat down"])])[0].values["recall"]
    0.75
    """

    name = "rouge_l"
    summary = "longest common subsequence of words, from the one best reference"
    fields = P_R_F1
    # Precision and F1 fall as answers get longer, whether or not they are right.
    headline = "recall"
    method = f"tok:{TOKENIZER_ID}|refs:best"

    def compare(self, answer: str, references: References) -> Scored:
        """The answer's words against those of each reference."""
        text = normalise(answer)
        same = identical(text, references)
        if same is not None:
            return PERFECT.scored(same)
        words = words_of_normalised(text)
        return best([(i, rouge_l(words, reference_words(reference))) for i, reference in references])


def rouge_l(answer: Sequence[str], reference: Sequence[str]) -> PrecisionRecall:
    """ROUGE-L of two token sequences. Linear in memory; equal to rouge-score's on the same tokens.

    >>> rouge_l(["a", "b", "c"], ["a", "c"])
    PrecisionRecall(precision=0.6666666666666666, recall=1.0, f1=0.8)
    """
    # Help pages import this module for its options.
    from rapidfuzz.distance import LCSseq

    return PrecisionRecall.of(LCSseq.similarity(answer, reference), len(answer), len(reference))
