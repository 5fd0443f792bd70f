"""Human labels as a metric: what people say of an answer, beside what metrics say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from answerkey.metrics_core.measurement import Undefined
from answerkey.metrics_core.metric import NO_QUESTION, NO_REFERENCE, Field, Metric, Need, Value
from answerkey.metrics_core.sample import Sample

LABEL = "label"
LABEL_SIGNATURE = "label|v1"
LABEL_FIELD = Field("correct", "1 where people call the answer right", binary=True)
LABELLED = f"{LABEL}.{LABEL_FIELD.name}"
NOT_LABELLED = "not labelled"
OF_THE_DATA = (NO_REFERENCE.reason, NO_QUESTION.reason, NOT_LABELLED)
"""Reasons of undefined scores that are not about the answer."""
MOST_LABELLED = 0.5
"""The share of the rows below which the others are predicted from their scores.

With more labels than that, the labels speak for themselves. The other rows then mostly have none because annotators
could not judge them, so predictions for them are worth less than they seem.
"""


@dataclass(frozen=True)
class Label(Metric):
    """human labels: is the answer right?

    >>> Label().measure([Sample("1", "Paris", ["Paris"], label=True)])[0].values
    {'correct': 1.0}
    """

    name = LABEL
    needs: ClassVar[frozenset[Need]] = frozenset()
    fields = (LABEL_FIELD,)

    def score(self, sample: Sample) -> Value:
        """1 for right, 0 for wrong; undefined without a label."""
        return Undefined(NOT_LABELLED) if sample.label is None else float(sample.label)
