"""Token overlap: clipped (multiset) word overlap, the F1 of SQuAD (Rajpurkar et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics._lexical import (
    P_R_F1,
    PERFECT,
    LexicalMetric,
    PrecisionRecall,
    References,
    best,
    counted,
    identical,
)
from answerkey.metrics_core.text import TOKENIZER_ID, normalise, reference_words, words_of_normalised


@dataclass(frozen=True)
class TokenOverlap(LexicalMetric):
    """Shared words: precision, recall and F1 from the one reference with the best F1.

    >>> from answerkey.metrics_core import Sample
    >>> TokenOverlap().measure([Sample("1", "cat the", ["the cat"])])[0].values["f1"]
    1.0
    """

    name = "token_overlap"
    summary = "shared words, counted as often as they stand in both"
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
        counts, size = counted(words), len(words)
        return best([(i, token_overlap(counts, size, reference_words(reference))) for i, reference in references])


def token_overlap(answer: Mapping[str, int], length: int, reference: Sequence[str]) -> PrecisionRecall:
    """Overlap of an answer, given as token counts and their sum `length`, with a reference's tokens.

    A token counts as often as it stands in both, so repeating a word neither helps nor hurts an identical
    text.

    >>> token_overlap({"bora": 2}, 2, ["bora"])
    PrecisionRecall(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    used: dict[str, int] = {}
    matched = 0
    for token in reference:
        taken = used.get(token, 0)
        if taken < answer.get(token, 0):
            used[token] = taken + 1
            matched += 1
    return PrecisionRecall.of(matched, length, len(reference))
