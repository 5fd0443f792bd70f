"""What the lexical metrics share: comparing words with references, and precision, recall and F1 from counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeVar

from answerkey.metrics_core.measurement import Measurement, Outcome, Scored
from answerkey.metrics_core.metric import NO_REFERENCE, Field, Metric, blank_outcome
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import (
    TOKENIZER_ID,
    is_blank,
    normal_reference,
    normalise,
    reference_words,
    words_of_all,
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
_NOTHING = (0.0, 0.0, 0.0, 0)


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
class NgramMetric(LexicalMetric):
    """A metric on n-grams, which take long to make and much memory."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """As every metric does. Answers to the same references come one after another, so that these are cut once."""
        places: dict[Sequence[str], list[int]] = {}
        for place, sample in enumerate(samples):
            places.setdefault(sample.references, []).append(place)
        order = list(chain.from_iterable(places.values()))
        measured = super().measure([samples[place] for place in order])
        back = dict(zip(order, measured, strict=True))
        return [back[place] for place in range(len(samples))]


@dataclass(frozen=True)
class WordMetric(LexicalMetric):
    """A metric on the words of an answer and of its references. The answers are cut into words together."""

    @abstractmethod
    def of_words(self, sample: Sample, answer: Words) -> Outcome:
        """The outcome for an answer with at least one word, cut; `NO_REFERENCE` where none is usable."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """As every metric does."""
        name, signature, fields = self.name, self.signature, self.fields
        cut = words_of_all(sample.answer or "" for sample in samples)
        return [
            Measurement(
                sample.sample_id,
                name,
                signature,
                self.of_words(sample, answer) if answer else self.outcome(sample, fields),
            )
            for sample, answer in zip(samples, cut, strict=True)
        ]


@dataclass(frozen=True)
class OverlapMetric(WordMetric):
    """Precision, recall and F1 of an answer's words, from the one reference with the best F1."""

    fields = P_R_F1
    # Precision and F1 fall as answers get longer, whether or not they are right.
    headline = "recall"
    method = f"tok:{TOKENIZER_ID}|refs:best"

    @abstractmethod
    def shared(self, answer: Words) -> Callable[[Words], int]:
        """What counts the words that the answer shares with a reference."""

    def of_words(self, sample: Sample, answer: Words) -> Outcome:
        """The answer's words against those of each reference."""
        shared, size = self.shared(answer), len(answer)
        first, best, tie = None, _NOTHING, False
        for place, text in enumerate(sample.references):
            reference = reference_words(text)
            if not reference and is_blank(text):
                continue
            if first is None:
                first = place
            matched = shared(reference)
            if matched:
                precision, recall = matched / size, matched / len(reference)
                rank = 2 * precision * recall / (precision + recall), recall, precision, -place
                if rank > best:
                    best = rank
                elif rank[0] == 1:
                    tie = True
        if first is None:
            return NO_REFERENCE
        if tie:
            # Of several references with the same words, the one that is identical is named.
            same = identical(normalise(sample.answer or ""), enumerate(sample.references))
            return _overlap(*best) if same is None else _overlap(1.0, 1.0, 1.0, -same)
        return _overlap(*best) if best[0] else _overlap(0.0, 0.0, 0.0, -first)

    def compare(self, answer: str, references: References) -> Scored:
        """An answer without words: it equals a reference, or has nothing in common with any."""
        same = identical(normalise(answer), references)
        return _overlap(0.0, 0.0, 0.0, -references[0][0]) if same is None else _overlap(1.0, 1.0, 1.0, -same)


def identical(normalised: str, references: Iterable[tuple[int, str]]) -> int | None:
    """Index of the first reference that equals a normalised answer.

    Such an answer scores 1 by definition. It matters for texts without a single token, where a formula
    would say 0.
    """
    for i, reference in references:
        if normal_reference(reference) == normalised:
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


PERFECT = PrecisionRecall(1.0, 1.0, 1.0)


@lru_cache(maxsize=4096)
def _overlap(f1: float, recall: float, precision: float, minus_place: int) -> Scored:
    # Many short texts have the same few fractions.
    return Scored({"precision": precision, "recall": recall, "f1": f1}, details={"reference": -minus_place})


@lru_cache(maxsize=4096)
def matched(reference: int | None) -> Scored:
    """1 where a reference matched, with its index."""
    details = {} if reference is None else {"reference": reference}
    return Scored({"match": float(reference is not None)}, details=details)
