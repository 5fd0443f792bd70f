"""The label of people as a metric field like any other, where the data set brings labels."""

from __future__ import annotations

from answerkey.metrics_core.metric import Field

LABEL = "label"
LABEL_SIGNATURE = "label|v1"
LABEL_FIELD = Field("correct", "1 where people call the answer right", binary=True)
NOT_LABELLED = "not labelled"
MOST_LABELLED = 0.5
"""The share of the rows below which the others are predicted from their scores.

Where people labelled more, the labels speak for themselves. The others then mostly have none because people could not
judge them, and what is predicted for them is worth less than it looks.
"""
