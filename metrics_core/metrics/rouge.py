"""ROUGE (Lin 2004) by rouge-score, for numbers that can be compared with those of papers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics.words import LexicalMetric, References

TYPES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougel": "rougeL", "rougelsum": "rougeLsum"}
"""The names in rouge-score by field."""

_MOST_CELLS = 25_000_000
"""Words of an answer times words of a reference. At this size, the table of rouge-score takes seconds and 200 MB."""


@dataclass(frozen=True)
class Rouge(LexicalMetric):
    """F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum by rouge-score, each from the reference that is best for it.

    Its tokenizer reads only a-z and 0-9; `rouge_l` reads every script.

    >>> from answerkey import Sample
    >>> Rouge().measure([Sample("1", "the cat sat", ["the cat sat down"])])[0].values["rouge2"]
    0.8
    """

    name = "rouge"
    summary = "rouge-score's ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum, to be set beside papers"
    fields = (
        Field("rouge1", "F1 of words"),
        Field("rouge2", "F1 of pairs of words"),
        Field("rougel", "F1 of the longest common subsequence"),
        Field("rougelsum", "F1 of the longest common subsequences of lines"),
    )
    headline = "rougel"
    method = "tok:rouge_score|refs:max"

    def compare(self, answer: str, references: References) -> Outcome:
        """Compute the four fields; undefined if no reference has a word, or the texts are too long for rouge-score."""
        scorer, tokenize = _scorer()
        lengths = [len(tokenize(text)) for _, text in references]
        if not any(lengths):
            return Undefined("no reference has a word that rouge-score reads, a-z and 0-9; rouge_l reads every script")
        if (cells := len(tokenize(answer)) * max(lengths)) > _MOST_CELLS:
            return Undefined(f"too long for rouge-score: {cells:,} pairs of words; rouge_l takes texts of any length")
        scores = scorer.score_multi([text for _, text in references], answer)
        return Scored({field: float(scores[name].fmeasure) for field, name in TYPES.items()})


@cache
def _scorer() -> tuple[Any, Any]:
    """A scorer of rouge-score, and its function that splits a text into words."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    return RougeScorer(list(TYPES.values())), DefaultTokenizer().tokenize
