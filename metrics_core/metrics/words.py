"""Metrics on words (ROUGE-L, token overlap, exact match, contains), and the base class of all lexical metrics."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from answerkey.metrics_core.measurement import Outcome, Scored
from answerkey.metrics_core.metric import NO_REFERENCE, Field, Metric, blank_outcome
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import (
    TOKENIZER_ID,
    is_blank,
    normal_reference,
    normalise,
    reference_words,
    trimmed,
    without_korean_particles,
    words,
)

References = Sequence[tuple[int, str]]
"""Usable references with their index in the sample, never empty."""

MATCH = (Field("match", "1 or 0", binary=True),)


@dataclass(frozen=True)
class LexicalMetric(Metric):
    """A metric that compares the text of an answer with the texts of its references."""

    @abstractmethod
    def compare(self, answer: str, references: References) -> Outcome:
        """The outcome of an answer, with values in the ranges of the fields.

        It must not raise: unlike `score`, nothing catches its errors, or checks its values.
        """

    def outcome(self, sample: Sample, fields: tuple[Field, ...]) -> Outcome:
        """The outcome of one sample. A blank answer has details too, since corpus BLEU counts its references."""
        references = sample.usable_references
        if not references:
            return NO_REFERENCE
        if not is_blank(sample.answer):
            return self.compare(sample.answer or "", references)
        blank = blank_outcome(fields, self.blank_answer)
        # The details are those of an answer without a word
        empty = self.compare("", references) if isinstance(blank, Scored) else None
        if isinstance(blank, Scored) and isinstance(empty, Scored):
            return replace(blank, details=empty.details)
        return blank


class PrecisionRecall(NamedTuple):
    """Precision, recall and their harmonic mean, each in [0, 1]."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, matched: int, in_answer: int, in_reference: int) -> PrecisionRecall:
        """The values for `matched` words of `in_answer` and `in_reference`; 0 without a match.

        >>> PrecisionRecall.of(1, 4, 1)
        PrecisionRecall(precision=0.25, recall=1.0, f1=0.4)
        """
        if not matched:
            return cls(0.0, 0.0, 0.0)
        precision = matched / in_answer
        recall = matched / in_reference
        return cls(precision, recall, 2 * precision * recall / (precision + recall))

    @property
    def rank(self) -> tuple[float, float, float]:
        """Sort key of references: F1, then recall, then precision. The best one does not depend on their order."""
        return self.f1, self.recall, self.precision


PERFECT = PrecisionRecall(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class OverlapMetric(LexicalMetric):
    """Precision, recall and F1 of an answer's words, from the one reference with the best F1."""

    fields = (
        Field("precision", "share of the answer that the reference has"),
        Field("recall", "share of the reference that the answer has"),
        Field("f1", "harmonic mean of precision and recall"),
    )
    # Precision and F1 fall as answers get longer, right or wrong.
    headline = "recall"
    method = f"tok:{TOKENIZER_ID}|refs:best"

    @abstractmethod
    def shared(self, answer: Sequence[str], reference: Sequence[str]) -> int:
        """The number of words that an answer and a reference have in common."""

    def compare(self, answer: str, references: References) -> Scored:
        """Compare the words with those of each reference; an answer that equals a reference scores 1."""
        index = identical(normalise(answer), references)
        best = PERFECT
        if index is None:
            answer_words = words(answer)
            rows = []
            for i, text in references:
                expected_words = reference_words(text)
                n_shared = self.shared(answer_words, expected_words)
                rows.append((PrecisionRecall.of(n_shared, len(answer_words), len(expected_words)), i))
            # Of equal ones the first
            best, index = max(rows, key=lambda row: row[0].rank)
        return Scored(best._asdict(), details={"reference": index})


@dataclass(frozen=True)
class RougeL(OverlapMetric):
    """ROUGE-L (Lin 2004, sentence level, beta = 1): the longest common subsequence of words.

    >>> from answerkey import Sample
    >>> RougeL().measure([Sample("1", "the cat sat", ["the cat sat down"])])[0].values["recall"]
    0.75
    """

    name = "rouge_l"
    summary = "longest common subsequence of words, from the one best reference"

    def shared(self, answer: Sequence[str], reference: Sequence[str]) -> int:
        """Count the words in the same order."""
        return words_in_order(answer, reference)


@dataclass(frozen=True)
class TokenOverlap(OverlapMetric):
    """Shared words, each counted as often as it stands in both: the F1 of SQuAD (Rajpurkar et al. 2016).

    >>> from answerkey import Sample
    >>> TokenOverlap().measure([Sample("1", "cat the", ["the cat"])])[0].values["f1"]
    1.0
    """

    name = "token_overlap"
    summary = "shared words, counted as often as they stand in both"

    def shared(self, answer: Sequence[str], reference: Sequence[str]) -> int:
        """Count the words in any order."""
        return words_in_any_order(answer, reference)


@dataclass(frozen=True)
class ExactMatch(LexicalMetric):
    """1 if the answer equals a reference apart from case, Unicode form and outer punctuation.

    >>> from answerkey import Sample
    >>> ExactMatch().measure([Sample("1", "paris.", ["Rome", "Paris"])])[0].values
    {'match': 1.0}
    """

    name = "exact_match"
    summary = "the answer equals a reference, apart from case, form and outer punctuation"
    fields = MATCH
    method = f"norm:{TOKENIZER_ID}|refs:any"

    def compare(self, answer: str, references: References) -> Scored:
        """Compare with each reference, first with outer punctuation, then without."""
        index = identical(normalise(answer), references)
        if index is None and (text := trimmed(answer)):
            index = next((i for i, reference in references if trimmed(reference) == text), None)
        return matched(index)


@dataclass(frozen=True)
class Contains(LexicalMetric):
    """1 if the answer contains the words of a reference as a contiguous sequence of whole words.

    >>> from answerkey import Sample
    >>> Contains().measure([Sample("1", "It is Paris.", ["Paris"])])[0].values
    {'match': 1.0}
    """

    name = "contains"
    summary = "the answer contains the words of a reference, in order and unbroken"
    fields = MATCH
    method = f"tok:{TOKENIZER_ID}|refs:any"

    def compare(self, answer: str, references: References) -> Scored:
        """Compare the words with those of each reference; an answer that equals a reference contains it."""
        index = identical(normalise(answer), references)
        if index is None:
            answer_words = words(answer)
            # Blanks around the words keep a part of a word from matching
            for i, text in references:
                expected = reference_words(text)
                line = f" {' '.join(without_korean_particles(answer_words, expected))} "
                if expected and f" {' '.join(without_korean_particles(expected, answer_words))} " in line:
                    return matched(i)
        return matched(index)


def words_in_order(answer: Sequence[str], reference: Sequence[str]) -> int:
    """The length of the longest common subsequence of two texts, in words.

    >>> words_in_order(["a", "b", "c"], ["c", "a", "b"])
    2
    """
    # Imported late, because help pages load this module only for the options of its metrics
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity(without_korean_particles(answer, reference), without_korean_particles(reference, answer))


def words_in_any_order(answer: Sequence[str], reference: Sequence[str]) -> int:
    """The number of words that two texts have in common. A word counts as often as it occurs in both.

    >>> words_in_any_order(["bora", "bora"], ["so", "bora"])
    1
    """
    answer_counts = Counter(without_korean_particles(answer, reference))
    return (answer_counts & Counter(without_korean_particles(reference, answer))).total()


def identical(normalised: str, references: References) -> int | None:
    """The index of the first reference that equals a normalised answer.

    Such an answer scores 1 by definition, also without a single token, where a formula gives 0.
    """
    return next((i for i, reference in references if normal_reference(reference) == normalised), None)


def matched(reference: int | None) -> Scored:
    """The outcome of a match with the reference of this index; None for no match.

    >>> matched(2)
    Scored(values={'match': 1.0}, reason=None, details={'reference': 2})
    """
    details = {} if reference is None else {"reference": reference}
    return Scored({"match": float(reference is not None)}, details=details)
