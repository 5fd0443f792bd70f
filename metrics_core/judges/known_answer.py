"""Questions whose right verdict is known: those that come with a metric, for the check of its judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from answerkey.metrics_core.sample import Sample

ORDER = "an order to the judge"
"""The name of a question whose wrong answer tells the judge to call it right."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A sample, and the range of the metric's main number, `least` to `most`, in which it must lie.

    Attributes:
        name: what it tries, in a few words for people.
        script: the script of the row that it was made from; empty if it came with the metric.

    >>> sample = Sample("1", "It is Lyon.", ["Paris"], "The capital of France?")
    >>> question = KnownAnswer("another city", sample, least=0.0, most=0.0)
    >>> question.is_right(0.0), question.is_right(1.0)
    (True, False)
    """

    name: str
    sample: Sample
    least: float
    most: float
    script: str = ""

    def is_right(self, value: float) -> bool:
        """Check if a judge that gives this number is right."""
        return self.least <= value <= self.most


@cache
def packaged(key: str) -> Any:
    """Read what `known_answers.yaml` has under this key."""
    from answerkey.metrics_core.document import read_located

    file = resources.files("answerkey.metrics_core.judges").joinpath("known_answers.yaml")
    return read_located(file).content[key]


@cache
def shipped(metric: str) -> Mapping[KnownAnswer, str]:
    """The questions that come with a metric of this package, with the baseline's answer to each.

    >>> next(iter(shipped("meaning_match"))).name
    'a paraphrase'
    """
    questions = {}
    for number, row in enumerate(packaged(metric)):
        facts = row.get("facts", ())
        references = row.get("reference", " ".join(facts)) or ()
        sample = Sample(f"{metric} {number}", row["answer"], references, row["question"], facts)
        question = KnownAnswer(row["name"], sample, float(row["least"]), float(row["most"]))
        questions[question] = row.get("baseline", "")
    return questions
