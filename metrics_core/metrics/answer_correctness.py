"""The basket `answer_correctness`: ROUGE-L, token overlap and BLEU in seven fields.

Each field is its best value over the references, so with several references precision and recall may come
from different ones. The coherent numbers of the one best reference are in the details, with its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.metric import Field, option
from answerkey.metrics_core.metrics import bleu, continuous_eval
from answerkey.metrics_core.metrics._lexical import (
    PERFECT,
    NgramMetric,
    PrecisionRecall,
    References,
    identical,
)
from answerkey.metrics_core.metrics.rouge_l import words_in_order
from answerkey.metrics_core.metrics.token_overlap import words_in_any_order
from answerkey.metrics_core.text import TOKENIZER_ID, normalise, reference_words, words

FIELDS = (
    Field("rouge_l_precision", "longest common subsequence / answer length"),
    Field("rouge_l_recall", "longest common subsequence / reference length"),
    Field("rouge_l_f1", "harmonic mean of the two"),
    Field("token_overlap_precision", "share of the answer's words that the reference has"),
    Field("token_overlap_recall", "share of the reference's words that the answer has"),
    Field("token_overlap_f1", "harmonic mean of the two"),
    Field("bleu_score", "sentence BLEU, the best single reference"),
)
NAMES = tuple(field.name for field in FIELDS)
PARTS = {
    "rouge_l_precision": "rouge_l.precision",
    "rouge_l_recall": "rouge_l.recall",
    "rouge_l_f1": "rouge_l.f1",
    "token_overlap_precision": "token_overlap.precision",
    "token_overlap_recall": "token_overlap.recall",
    "token_overlap_f1": "token_overlap.f1",
    "bleu_score": "bleu.bleu",
}
"""By field, the METRIC.FIELD with the same number: F1 always, the others where samples have one reference each."""

_Overlap = tuple[int, PrecisionRecall, PrecisionRecall, float]
"""The index of a reference, ROUGE-L, token overlap and BLEU."""


@dataclass(frozen=True)
class AnswerCorrectness(NgramMetric):
    """ROUGE-L, token overlap and BLEU in seven fields, each the best over the references.

    Args:
        profile: gives the old numbers of continuous-eval instead, for those who migrate (see `continuous_eval`).

    >>> from answerkey.metrics_core import Sample
    >>> [measured] = AnswerCorrectness().measure([Sample("1", "Paris", ["It is Paris."])])
    >>> measured.values["rouge_l_precision"], measured.values["token_overlap_f1"]
    (1.0, 0.5)
    """

    name = "answer_correctness"
    summary = "ROUGE-L, token overlap and BLEU in one basket, each the best over the references"
    fields = FIELDS
    # The document behind this metric calls the recalls its best fields, as judged by people, token overlap first. The
    # other fields fall as answers get longer, whether or not they are right.
    headline = "token_overlap_recall"

    profile: continuous_eval.Profile | None = option(
        None,
        title="Profile",
        description="The numbers of an older definition, for teams that migrate from continuous-eval.",
    )

    @property
    def signature(self) -> str:
        """With the profile or the rules that stand in its place."""
        rules = f"tok:{TOKENIZER_ID}|bleu:{bleu.TOKENIZER_ID}|refs:max"
        method = f"profile:{self.profile}" if self.profile else rules
        return f"{self.name}|v{self.version}|{method}|blank:{self.blank_answer}"

    def compare(self, answer: str, references: References) -> Outcome:
        """The seven fields of one answer; see the module."""
        if self.profile:
            return _by_profile(self.profile, answer, references)
        normalised = normalise(answer)
        same = identical(normalised, references)
        if same is not None:
            return _basket([(same, PERFECT, PERFECT, 1.0)])
        cut, tokens = words(answer), bleu.bleu_tokens(normalised)
        in_order, in_any_order = words_in_order(cut), words_in_any_order(cut)
        rows = []
        for place, text in references:
            reference = reference_words(text)
            sizes = len(cut), len(reference)
            score = bleu.bleu_score(bleu.bleu_stats(tokens, bleu.reference_tokens(text)))
            shared = in_any_order(reference)
            ordered = in_order(reference) if shared else 0
            rows.append((place, PrecisionRecall.of(ordered, *sizes), PrecisionRecall.of(shared, *sizes), score))
        return _basket(rows)


def _basket(rows: Sequence[_Overlap]) -> Scored:
    if len(rows) == 1:
        return Scored(dict(zip(NAMES, _values(rows[0]), strict=True)), details={"reference": rows[0][0]})
    best = max(rows, key=lambda row: (row[1].rank, row[2].rank, row[3]))
    maxima = (max(column) for column in zip(*map(_values, rows), strict=True))
    return Scored(
        dict(zip(NAMES, maxima, strict=True)),
        details={"reference": best[0], "coherent": dict(zip(NAMES, _values(best), strict=True))},
    )


def _values(row: _Overlap) -> tuple[float, ...]:
    return (*row[1], *row[2], row[3])


def _by_profile(profile: continuous_eval.Profile, answer: str, references: References) -> Outcome:
    try:
        values = continuous_eval.score(answer, [text for _, text in references], profile)
    except ValueError as error:
        return Undefined(f"{profile} has no number for this: {error}")
    return Scored(values)
