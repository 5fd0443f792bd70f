"""chrF on characters (Popovic 2015) by sacreBLEU, for languages in which words inflect."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.metrics._lexical import LexicalMetric, References, identical
from answerkey.metrics_core.text import TOKENIZER_ID, normal_reference, normalise


@dataclass(frozen=True)
class Chrf(LexicalMetric):
    """Character n-gram F2 of the answer and the best of its references, from 0 to 1.

    >>> from answerkey.metrics_core import Sample
    >>> Chrf().measure([Sample("1", "Paris", ["paris"])])[0].values
    {'chrf': 1.0}
    """

    name = "chrf"
    summary = "sacreBLEU's chrF on characters, for languages where words inflect"
    fields = (Field("chrf", "character n-gram F2"),)
    method = f"norm:{TOKENIZER_ID}|nc:6|beta:2|refs:best"

    def compare(self, answer: str, references: References) -> Scored:
        """sacreBLEU's sentence score, over 100."""
        normalised = normalise(answer)
        if identical(normalised, references) is not None:
            return Scored({"chrf": 1.0})
        from sacrebleu.metrics.chrf import CHRF

        score = CHRF().sentence_score(normalised, [normal_reference(text) for _, text in references]).score
        return Scored({"chrf": min(1.0, score / 100)})
