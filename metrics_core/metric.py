"""What a metric is, and the rules that every metric shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from answerkey.metrics_core.measurement import Measurement, Outcome, Scored, Undefined
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import is_blank, normal_reference, normalise

BlankAnswer = Literal["zero", "undefined"]
"""What a blank answer to a question that has references is worth.

`zero`: a missing answer is a wrong answer, so it scores the lowest value. `undefined`: it is left out.
"""

Need = Literal["answer", "references", "question"]


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a metric: its range, and that more of it is better."""

    name: str
    description: str
    low: float = 0.0
    high: float = 1.0
    binary: bool = False


class Metric(Protocol):
    """A stateless scorer.

    `measure` returns one measurement a sample, in the order of the samples; a sample that cannot be scored
    gets an `Undefined` or `Failed` measurement and never ends the call.
    """

    @property
    def name(self) -> str:
        """The metric's name, as users write it."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The numbers a scored measurement has, in order."""

    @property
    def needs(self) -> frozenset[Need]:
        """What a sample must have for the metric to say anything."""

    @property
    def signature(self) -> str:
        """One short text with everything that changes the number."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order."""


NO_REFERENCE = Undefined("no reference: every reference is missing or blank")
BLANK_ANSWER = "blank answer"


def degenerate(sample: Sample, fields: tuple[Field, ...], blank_answer: BlankAnswer) -> Outcome | None:
    """The shared truth table for inputs that need no metric; None where the metric must decide.

    No usable reference is undefined whatever the answer. A blank answer to a usable reference is the
    lowest value of every field (policy `zero`) or undefined.
    """
    if not sample.usable_references:
        return NO_REFERENCE
    if is_blank(sample.answer):
        if blank_answer == "undefined":
            return Undefined(BLANK_ANSWER)
        return Scored({field.name: max(field.low, 0.0) for field in fields}, reason=BLANK_ANSWER)
    return None


def identical_reference(sample: Sample) -> int | None:
    """The index of the first usable reference that the answer equals but for its form; None where there is none."""
    normalised = normalise(sample.answer or "")
    for index, reference in sample.usable_references:
        if normal_reference(reference) == normalised:
            return index
    return None
