"""Exact match: the answer is a reference, but for case, form and the punctuation around it."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics._lexical import MATCH, LexicalMetric, References, identical, matched
from answerkey.metrics_core.text import TOKENIZER_ID, normal_reference, normalise, trimmed_of_normalised


@dataclass(frozen=True)
class ExactMatch(LexicalMetric):
    """1 where the answer equals a reference but for case, form and the punctuation around it.

    >>> from answerkey.metrics_core import Sample
    >>> ExactMatch().measure([Sample("1", "paris.", ["Rome", "Paris"])])[0].values
    {'match': 1.0}
    """

    name = "exact_match"
    summary = "the answer is a reference, but for case, form and outer punctuation"
    fields = MATCH
    method = f"norm:{TOKENIZER_ID}|refs:any"

    def compare(self, answer: str, references: References) -> Scored:
        """The answer against each reference, as they are first, and without outer punctuation then."""
        normalised = normalise(answer)
        same = identical(normalised, references)
        if same is not None:
            return matched(same)
        text = trimmed_of_normalised(normalised)
        for i, reference in references:
            if text and trimmed_of_normalised(normal_reference(reference)) == text:
                return matched(i)
        return matched(None)
