"""The lexical metrics as `Metric` objects: one class, one scoring function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from answerkey.metrics_core.measurement import Measurement, Outcome, Scored
from answerkey.metrics_core.metric import BlankAnswer, Field, Need, degenerate
from answerkey.metrics_core.metrics import bleu
from answerkey.metrics_core.metrics.counts import PERFECT, Agreement, counted
from answerkey.metrics_core.metrics.rouge_l import rouge_l
from answerkey.metrics_core.metrics.token_overlap import token_overlap
from answerkey.metrics_core.sample import Sample
from answerkey.metrics_core.text import (
    TOKENIZER_ID,
    normal_reference,
    normalise,
    reference_words,
    trimmed,
    words_of_normalised,
)

References = Sequence[tuple[int, str]]
"""Usable references with their index in the sample, never empty."""

Scorer = Callable[[str, References], Outcome]

P_R_F1 = (
    Field("precision", "share of the answer that the reference has"),
    Field("recall", "share of the reference that the answer has"),
    Field("f1", "harmonic mean of precision and recall"),
)


@dataclass(frozen=True, slots=True)
class LexicalMetric:
    """A metric on words; see `answerkey.metrics_core.metric.Metric` for what it promises.

    `parameters` is the middle of the signature: everything that changes the number but the policy for
    blank answers.

    Raises:
        ValueError: the policy for blank answers is not known.
    """

    name: str
    fields: tuple[Field, ...]
    score: Scorer
    parameters: str
    blank_answer: BlankAnswer = "zero"

    def __post_init__(self) -> None:
        if self.blank_answer not in get_args(BlankAnswer):
            raise ValueError(f"blank_answer is {self.blank_answer!r}, expected zero or undefined")

    @property
    def needs(self) -> frozenset[Need]:
        """An answer and its references."""
        return frozenset(("answer", "references"))

    @property
    def signature(self) -> str:
        """For instance `rouge_l|v1|tok:unicode1|refs:best|blank:zero`."""
        return f"{self.name}|{self.parameters}|blank:{self.blank_answer}"

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples` one by one: same length, same order."""
        signature = self.signature
        return [Measurement(sample.sample_id, self.name, signature, self._outcome(sample)) for sample in samples]

    def _outcome(self, sample: Sample) -> Outcome:
        decided = degenerate(sample, self.fields, self.blank_answer)
        if decided is None:
            return self.score(sample.answer or "", sample.usable_references)
        if isinstance(decided, Scored):
            # Corpus BLEU counts the references of a missing answer: they are in the details.
            empty = self.score("", sample.usable_references)
            return replace(decided, details=empty.details) if isinstance(empty, Scored) else decided
        return decided


def _best(agreements: Sequence[tuple[int, Agreement]]) -> tuple[int, Agreement]:
    return max(agreements, key=lambda pair: pair[1].rank)


def identical(normalised: str, references: References) -> int | None:
    """Index of the first reference that equals a normalised answer.

    Such an answer scores 1 by definition. It matters for texts without a single token, where a formula
    would say 0.
    """
    for i, reference in references:
        if normal_reference(reference) == normalised:
            return i
    return None


def score_rouge_l(answer: str, references: References) -> Scored:
    """Precision, recall and F1 from the one reference with the best F1."""
    return _by_words(answer, references, lambda tokens: partial(rouge_l, tokens))


def score_token_overlap(answer: str, references: References) -> Scored:
    """Precision, recall and F1 from the one reference with the best F1."""
    return _by_words(answer, references, lambda tokens: partial(token_overlap, counted(tokens), len(tokens)))


def _by_words(
    answer: str, references: References, prepare: Callable[[tuple[str, ...]], Callable[[Sequence[str]], Agreement]]
) -> Scored:
    """`prepare` takes the answer's words once, and what it returns compares them with each reference's."""
    text = normalise(answer)
    same = identical(text, references)
    if same is not None:
        return _agreement(same, PERFECT)
    compare = prepare(words_of_normalised(text))
    return _agreement(*_best([(i, compare(reference_words(reference))) for i, reference in references]))


def _agreement(reference: int, agreement: Agreement) -> Scored:
    return Scored(agreement._asdict(), details={"reference": reference})


def score_bleu(answer: str, references: References) -> Scored:
    """Sentence BLEU against all references at once; keeps the statistics for corpus BLEU."""
    normalised = normalise(answer)
    tokens = bleu.bleu_tokens(normalised)
    stats = bleu.bleu_stats(tokens, [bleu.reference_tokens(text) for _, text in references])
    value = 1.0 if identical(normalised, references) is not None else bleu.bleu_score(stats)
    return Scored({"bleu": value}, details={"stats": stats.flat})


def score_chrf(answer: str, references: References) -> Scored:
    """Sentence chrF (Popovic 2015) by sacreBLEU: best of the references."""
    normalised = normalise(answer)
    if identical(normalised, references) is not None:
        return Scored({"chrf": 1.0})
    from sacrebleu.metrics.chrf import CHRF

    score = CHRF().sentence_score(normalised, [normal_reference(text) for _, text in references]).score
    return Scored({"chrf": min(1.0, score / 100)})


def score_exact_match(answer: str, references: References) -> Scored:
    """1 if the answer equals a reference but for form and the punctuation around it."""
    text = trimmed(answer)
    return _match(
        identical(normalise(answer), references),
        (i for i, reference in references if text and trimmed(reference) == text),
    )


def score_contains(answer: str, references: References) -> Scored:
    """1 if a reference's words stand in the answer one after another, as whole words."""
    normalised = normalise(answer)
    text = f" {' '.join(words_of_normalised(normalised))} "
    return _match(
        identical(normalised, references),
        (
            i
            for i, reference in references
            if (tokens := reference_words(reference)) and f" {' '.join(tokens)} " in text
        ),
    )


def _match(same: int | None, others: Any) -> Scored:
    found = same if same is not None else next(others, None)
    details: Mapping[str, Any] = {} if found is None else {"reference": found}
    return Scored({"match": float(found is not None)}, details=details)


MATCH = (Field("match", "1 or 0", binary=True),)

DEFINITIONS: Mapping[str, tuple[tuple[Field, ...], Scorer, str]] = {
    "rouge_l": (P_R_F1, score_rouge_l, f"v1|tok:{TOKENIZER_ID}|refs:best"),
    "token_overlap": (P_R_F1, score_token_overlap, f"v1|tok:{TOKENIZER_ID}|refs:best"),
    "bleu": (
        (Field("bleu", "sentence BLEU, all references at once"),),
        score_bleu,
        f"v1|tok:{bleu.TOKENIZER_ID}|norm:{TOKENIZER_ID}|eff:yes|smooth:exp|refs:all",
    ),
    "chrf": (
        (Field("chrf", "character n-gram F2"),),
        score_chrf,
        f"v1|norm:{TOKENIZER_ID}|nc:6|beta:2|refs:best",
    ),
    "exact_match": (MATCH, score_exact_match, f"v1|norm:{TOKENIZER_ID}|refs:any"),
    "contains": (MATCH, score_contains, f"v1|tok:{TOKENIZER_ID}|refs:any"),
}
"""Fields, scoring function and signature parameters of each metric by name."""


def lexical_metric(name: str, blank_answer: BlankAnswer = "zero") -> LexicalMetric:
    """The lexical metric called `name`, one of `DEFINITIONS`."""
    fields, score, parameters = DEFINITIONS[name]
    return LexicalMetric(name, fields, score, parameters, blank_answer)
