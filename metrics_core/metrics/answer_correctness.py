"""The basket `answer_correctness`: ROUGE-L, token overlap and BLEU in seven fields.

Each field is its maximum over the references, so precision and recall may come from different ones. The details have
the values of the single best reference, with its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.metric import Field, option
from answerkey.metrics_core.metrics import bleu, continuous_eval
from answerkey.metrics_core.metrics.words import (
    PERFECT,
    LexicalMetric,
    PrecisionRecall,
    References,
    identical,
    words_in_any_order,
    words_in_order,
)
from answerkey.metrics_core.text import TOKENIZER_ID, normal_reference, normalise, reference_words, words

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
PARTITIONS = {
    "rouge_l_precision": "rouge_l.precision",
    "rouge_l_recall": "rouge_l.recall",
    "rouge_l_f1": "rouge_l.f1",
    "token_overlap_precision": "token_overlap.precision",
    "token_overlap_recall": "token_overlap.recall",
    "token_overlap_f1": "token_overlap.f1",
    "bleu_score": "bleu.bleu",
}
"""By field, the METRIC.FIELD with the same number; for precision and recall only if samples have one reference each."""

_Overlap = tuple[int, PrecisionRecall, PrecisionRecall, float]
"""The index of a reference, ROUGE-L, token overlap and BLEU."""


@dataclass(frozen=True)
class AnswerCorrectness(LexicalMetric):
    """ROUGE-L, token overlap and BLEU in seven fields, each the best over the references.

    Args:
        profile: computes the numbers of an older continuous-eval, for migration (see `continuous_eval`).

    >>> from answerkey import Sample
    >>> [measured] = AnswerCorrectness().measure([Sample("1", "Paris", ["It is Paris."])])
    >>> measured.values["rouge_l_precision"], measured.values["token_overlap_f1"]
    (1.0, 0.5)
    """

    name = "answer_correctness"
    summary = "ROUGE-L, token overlap and BLEU together, each the best over the references"
    fields = FIELDS
    # According to the document behind this metric, the recalls agree best with people, token overlap first. The other
    # fields fall as answers get longer, right or wrong.
    headline = "token_overlap_recall"

    profile: continuous_eval.Profile | None = option(
        None,
        title="Profile",
        description="The numbers of an older definition, for teams that migrate from continuous-eval.",
        signed=False,
    )

    @property
    def method(self) -> str:
        """Names the profile, or the tokenizers and the choice among references."""
        rules = f"tok:{TOKENIZER_ID}|bleu:{bleu.TOKENIZER_ID}|refs:max"
        return f"profile:{self.profile}" if self.profile else rules

    def compare(self, answer: str, references: References) -> Outcome:
        """Compute the seven fields."""
        if self.profile:
            return _by_profile(self.profile, answer, references)
        normalised = normalise(answer)
        same = identical(normalised, references)
        if same is not None:
            return _basket([(same, PERFECT, PERFECT, 1.0)])
        cut, tokens = words(answer), bleu.bleu_tokens(normalised)
        rows = []
        for index, text in references:
            reference = reference_words(text)
            sizes = len(cut), len(reference)
            score = bleu.sentence_bleu(tokens, bleu.bleu_tokens(normal_reference(text)))
            shared = words_in_any_order(cut, reference)
            ordered = words_in_order(cut, reference) if shared else 0
            rows.append((index, PrecisionRecall.of(ordered, *sizes), PrecisionRecall.of(shared, *sizes), score))
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
