"""What the lexical metrics share: comparing words with references, and precision, recall and F1 from counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.metric import NO_REFERENCE, Field, Metric, blank_outcome
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import (
    TOKENIZER_ID,
    is_blank,
    normal_reference,
    normalise,
    reference_words,
    words,
)

References = Sequence[tuple[int, str]]
"""Usable references with their index in the sample, never empty."""

Words = Sequence[str]

Item = TypeVar("Item", bound=Hashable)

P_R_F1 = (
    Field("precision", "share of the answer that the reference has"),
    Field("recall", "share of the reference that the answer has"),
    Field("f1", "harmonic mean of precision and recall"),
)
MATCH = (Field("match", "1 or 0", binary=True),)


@dataclass(frozen=True)
class LexicalMetric(Metric):
    """A metric on the words of an answer and of its references."""

    @abstractmethod
    def compare(self, answer: str, references: References) -> Outcome:
        """The outcome for `answer`; its values are within the ranges of the fields."""

    def outcome(self, sample: Sample, fields: tuple[Field, ...]) -> Outcome:
        """That of `compare`. The details of a blank answer are there too: corpus BLEU counts its references."""
        references = sample.usable_references
        if not references:
            return NO_REFERENCE
        if not is_blank(sample.answer):
            return self.compare(sample.answer or "", references)
        blank = blank_outcome(fields, self.blank_answer)
        empty = self.compare("", references) if isinstance(blank, Scored) else None
        if isinstance(blank, Scored) and isinstance(empty, Scored):
            return replace(blank, details=empty.details)
        return blank


@dataclass(frozen=True)
class OverlapMetric(LexicalMetric):
    """Precision, recall and F1 of an answer's words, from the one reference with the best F1."""

    fields = P_R_F1
    # Precision and F1 fall as answers get longer, whether or not they are right.
    headline = "recall"
    method = f"tok:{TOKENIZER_ID}|refs:best"

    @abstractmethod
    def overlaps(self, answer: Words, references: Iterable[Words]) -> Iterator[PrecisionRecall]:
        """How far the words of an answer agree with those of each reference."""

    def compare(self, answer: str, references: References) -> Scored:
        """The answer's words against those of each reference."""
        cut = words(answer)
        same = identical_by_words(answer, cut, references)
        if same is not None:
            return PERFECT.scored(same)
        texts = [reference_words(reference) for _, reference in references]
        return best(zip([i for i, _ in references], self.overlaps(cut, texts), strict=True))


def identical(normalised: str, references: References) -> int | None:
    """Index of the first reference that equals a normalised answer.

    Such an answer scores 1 by definition. It matters for texts without a single token, where a formula
    would say 0.
    """
    for i, reference in references:
        if normal_reference(reference) == normalised:
            return i
    return None


def identical_by_words(answer: str, cut: Words, references: References) -> int | None:
    """`identical` for an answer that is cut into words: it is normalised only if a reference has the same words."""
    for i, reference in references:
        if reference_words(reference) == cut and normal_reference(reference) == normalise(answer):
            return i
    return None


def counted(items: Iterable[Item]) -> dict[Item, int]:
    """How often each item comes. For texts of a few words this is several times faster than a Counter."""
    counts: dict[Item, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts


class PrecisionRecall(NamedTuple):
    """Precision, recall and their harmonic mean, each in [0, 1]."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, matched: int, in_answer: int, in_reference: int) -> PrecisionRecall:
        """`matched` tokens out of `in_answer` and `in_reference`; 0 where there is nothing to divide by.

        >>> PrecisionRecall.of(1, 4, 1)
        PrecisionRecall(precision=0.25, recall=1.0, f1=0.4)
        """
        if not matched:
            return cls(0.0, 0.0, 0.0)
        precision, recall = matched / in_answer, matched / in_reference
        return cls(precision, recall, 2 * precision * recall / (precision + recall))

    @property
    def rank(self) -> tuple[float, float, float]:
        """Sort key of the best reference: F1 first, then recall. The order of references has no say."""
        return self.f1, self.recall, self.precision

    def scored(self, reference: int) -> Scored:
        """As an outcome with the fields `P_R_F1` and the index of the reference."""
        return _overlap(self, reference)


@lru_cache(maxsize=4096)
def _overlap(values: PrecisionRecall, reference: int) -> Scored:
    # Many short texts have the same few fractions.
    precision, recall, f1 = values
    return Scored({"precision": precision, "recall": recall, "f1": f1}, details={"reference": reference})


PERFECT = PrecisionRecall(1.0, 1.0, 1.0)


def best(compared: Iterable[tuple[int, PrecisionRecall]]) -> Scored:
    """The outcome for the one reference with the best F1; of equal ones the first."""
    [(index, values), *others] = compared
    for place, other in others:
        if other.rank > values.rank:
            index, values = place, other
    return values.scored(index)


@lru_cache(maxsize=4096)
def matched(reference: int | None) -> Scored:
    """1 where a reference matched, with its index."""
    details = {} if reference is None else {"reference": reference}
    return Scored({"match": float(reference is not None)}, details=details)
