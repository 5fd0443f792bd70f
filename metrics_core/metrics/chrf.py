"""chrF on characters (Popovic 2015) by sacreBLEU, for languages where words inflect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics.words import LexicalMetric, References
from answerkey.metrics_core.text import TOKENIZER_ID, normal_reference, normalise


@dataclass(frozen=True)
class Chrf(LexicalMetric):
    """Character n-gram F2 of the answer with its best reference, from 0 to 1.

    >>> from answerkey import Sample
    >>> Chrf().measure([Sample("1", "Paris", ["paris"])])[0].values
    {'chrf': 1.0}
    """

    name = "chrf"
    summary = "sacreBLEU's chrF on characters, for languages where words inflect"
    fields = (Field("chrf", "character n-gram F2"),)
    method = f"norm:{TOKENIZER_ID}|nc:6|beta:2|refs:best"

    def compare(self, answer: str, references: References) -> Scored:
        """Compute chrF of the normalised texts."""
        score = _sacrebleu().sentence_score(normalise(answer), [normal_reference(text) for _, text in references])
        return Scored({"chrf": min(1.0, score.score / 100)})


@cache
def _sacrebleu() -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()
