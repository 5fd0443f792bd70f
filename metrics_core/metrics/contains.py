"""Contains: the words of a reference stand in the answer in one piece."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics._lexical import MATCH, LexicalMetric, References, identical_by_words, matched
from answerkey.metrics_core.text import TOKENIZER_ID, reference_words, words


@dataclass(frozen=True)
class Contains(LexicalMetric):
    """1 where a reference's words stand in the answer one after another, as whole words.

    >>> from answerkey.metrics_core import Sample
    >>> Contains().measure([Sample("1", "It is Paris.", ["Paris"])])[0].values
    {'match': 1.0}
    """

    name = "contains"
    summary = "the words of a reference stand in the answer in one piece"
    fields = MATCH
    method = f"tok:{TOKENIZER_ID}|refs:any"

    def compare(self, answer: str, references: References) -> Scored:
        """The answer's words against those of each reference."""
        cut = words(answer)
        same = identical_by_words(answer, cut, references)
        if same is not None:
            return matched(same)
        text = f" {' '.join(cut)} "
        for i, reference in references:
            expected = reference_words(reference)
            if expected and f" {' '.join(expected)} " in text:
                return matched(i)
        return matched(None)
