"""The basket `answer_correctness`: ROUGE-L, token overlap and BLEU in seven fields.

Each field is its maximum over the references, so precision and recall may come from different ones. The details have
the values of the single best reference, with its index.
"""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.metric import Field, option
from answerkey.metrics_core.metrics import bleu, continuous_eval
from answerkey.metrics_core.metrics.words import (
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
SINGLE_METRIC_FIELDS = {
    "rouge_l_precision": "rouge_l.precision",
    "rouge_l_recall": "rouge_l.recall",
    "rouge_l_f1": "rouge_l.f1",
    "token_overlap_precision": "token_overlap.precision",
    "token_overlap_recall": "token_overlap.recall",
    "token_overlap_f1": "token_overlap.f1",
    "bleu_score": "bleu.bleu",
}
"""By field, the METRIC.FIELD with the same number; for precision and recall only if samples have one reference each."""


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
    # The recalls agree best with people (docs/choose_metrics.md). The other fields fall as answers get longer, right or
    # wrong.
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
        texts = [text for _, text in references]
        if self.profile:
            try:
                return Scored(continuous_eval.score(answer, texts, self.profile))
            except ValueError as error:
                return Undefined(f"{self.profile} has no number for this: {error}")
        normalised = normalise(answer)
        identical_index = identical(normalised, references)
        if identical_index is not None:
            return Scored(dict.fromkeys(NAMES, 1.0), details={"reference": identical_index})

        # The fields for each reference
        answer_words = words(answer)
        tokens = bleu.bleu_tokens(normalised)
        rows: list[tuple[float, ...]] = []
        ranks = []
        for text in texts:
            expected_words = reference_words(text)
            sizes = len(answer_words), len(expected_words)
            n_shared = words_in_any_order(answer_words, expected_words)
            n_ordered = words_in_order(answer_words, expected_words) if n_shared else 0
            rouge_l = PrecisionRecall.of(n_ordered, *sizes)
            overlap = PrecisionRecall.of(n_shared, *sizes)
            score = bleu.sentence_bleu(tokens, bleu.bleu_tokens(normal_reference(text)))
            rows.append((*rouge_l, *overlap, score))
            ranks.append((rouge_l.rank, overlap.rank, score))

        # Each field may be from another reference, the details are from one
        best = max(range(len(rows)), key=ranks.__getitem__)
        details: dict[str, object] = {"reference": references[best][0]}
        if len(rows) > 1:
            details["coherent"] = dict(zip(NAMES, rows[best], strict=True))
        maxima = map(max, zip(*rows, strict=True))
        return Scored(dict(zip(NAMES, maxima, strict=True)), details=details)
