"""The basket `answer_correctness`: ROUGE-L, token overlap and BLEU in seven fields.

Each field is its best value over the references, so with several references precision and recall may come
from different ones. The coherent numbers of the one best reference are in the details, with its index.
"""

from __future__ import annotations

from functools import partial

from answerkey.metrics_core.measurement import Outcome, Scored, Undefined
from answerkey.metrics_core.metric import BlankAnswer, Field
from answerkey.metrics_core.metrics import bleu, continuous_eval
from answerkey.metrics_core.metrics.counts import PERFECT, Agreement, counted
from answerkey.metrics_core.metrics.lexical import LexicalMetric, References, identical
from answerkey.metrics_core.metrics.rouge_l import rouge_l
from answerkey.metrics_core.metrics.token_overlap import token_overlap
from answerkey.metrics_core.text import TOKENIZER_ID, normalise, reference_words, words_of_normalised

NAME = "answer_correctness"
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


def score(answer: str, references: References) -> Scored:
    """The seven fields of one answer; see the module."""
    text = normalise(answer)
    same = identical(text, references)
    if same is not None:
        return _basket([(same, PERFECT, PERFECT, 1.0)])
    tokens = words_of_normalised(text)
    counts = counted(tokens)
    cut = bleu.bleu_tokens(text)
    return _basket(
        [
            (
                i,
                rouge_l(tokens, reference),
                token_overlap(counts, len(tokens), reference),
                bleu.bleu_score(bleu.bleu_stats(cut, [bleu.reference_tokens(reference_text)])),
            )
            for i, reference_text in references
            for reference in (reference_words(reference_text),)
        ]
    )


Row = tuple[int, Agreement, Agreement, float]


def _basket(rows: list[Row]) -> Scored:
    if len(rows) == 1:
        return Scored(dict(zip(NAMES, _values(rows[0]), strict=True)), details={"reference": rows[0][0]})
    best = max(rows, key=lambda row: (row[1].rank, row[2].rank, row[3]))
    maxima = (max(column) for column in zip(*map(_values, rows), strict=True))
    return Scored(
        dict(zip(NAMES, maxima, strict=True)),
        details={"reference": best[0], "coherent": dict(zip(NAMES, _values(best), strict=True))},
    )


def _values(row: Row) -> tuple[float, ...]:
    return (*row[1], *row[2], row[3])


def _score_profile(profile: continuous_eval.Profile, answer: str, references: References) -> Outcome:
    try:
        values = continuous_eval.score(answer, [text for _, text in references], profile)
    except ValueError as error:
        return Undefined(f"{profile} has no number for this: {error}")
    return Scored(values)


def answer_correctness(
    profile: continuous_eval.Profile | None = None, blank_answer: BlankAnswer = "zero"
) -> LexicalMetric:
    """The basket, by default or under a compatibility profile.

    Raises:
        ValueError: the profile is not known. Found only while scoring, it would look like odd input.
    """
    if profile is not None and profile not in continuous_eval.PROFILES:
        raise ValueError(f"profile {profile!r} is not known: choose from {', '.join(continuous_eval.PROFILES)}")
    if profile is not None:
        return LexicalMetric(NAME, FIELDS, partial(_score_profile, profile), f"v1|profile:{profile}", blank_answer)
    parameters = f"v1|tok:{TOKENIZER_ID}|bleu:{bleu.TOKENIZER_ID}|refs:max"
    return LexicalMetric(NAME, FIELDS, score, parameters, blank_answer)
