"""All metrics by name, and the options that they are made with."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import NO_JUDGE, JudgeOptions
from answerkey.metrics_core.metric import BlankAnswer, Metric
from answerkey.metrics_core.metrics.answer_correctness import answer_correctness
from answerkey.metrics_core.metrics.continuous_eval import Profile
from answerkey.metrics_core.metrics.lexical import lexical_metric
from answerkey.metrics_core.metrics.semantic_aggregation import Aggregation


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the numbers of metrics. Everything here ends up in the signatures.

    `profile` swaps in the old numbers of `answer_correctness` for people who migrate. `embedding_cache` is a
    folder; it changes no number. `judge` is for the metrics that need one: unless it names a model, the offline judge.
    """

    profile: Profile | None = None
    blank_answer: BlankAnswer = "zero"
    embedding_models: tuple[str, ...] = ()
    aggregation: Aggregation = "mean"
    threshold: float | None = None
    tolerance: float = 0.1
    embedding_cache: str | None = None
    judge: JudgeOptions = NO_JUDGE


Kind = Literal["lexical", "semantic", "judge"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One line of the catalogue."""

    summary: str
    build: Callable[[Options], Metric]
    kind: Kind = "lexical"


def _lexical(name: str, summary: str) -> tuple[str, MetricInfo]:
    return name, MetricInfo(summary, lambda options: lexical_metric(name, options.blank_answer))


def _semantic_similarity(options: Options) -> Metric:
    from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity

    chosen = {"models": options.embedding_models} if options.embedding_models else {}
    return SemanticSimilarity(
        **chosen,
        aggregation=options.aggregation,
        threshold=options.threshold,
        tolerance=options.tolerance,
        blank_answer=options.blank_answer,
        cache_dir=options.embedding_cache,
    )


def _meaning_match(options: Options) -> Metric:
    if options.judge.offline or options.judge.cascade:
        from answerkey.metrics_core.offline_judge.meaning_match import CascadeMeaningMatch, OfflineMeaningMatch

        if options.judge.cascade:
            return CascadeMeaningMatch(options.judge, options.blank_answer, options.embedding_cache)
        return OfflineMeaningMatch(options.blank_answer, options.embedding_cache)
    from answerkey.metrics_core.metrics.meaning_match import MeaningMatch

    return MeaningMatch(options.judge, options.blank_answer)


def _ground_truth_similarity(options: Options) -> Metric:
    if options.judge.offline:
        from answerkey.metrics_core.offline_judge.ground_truth_similarity import OfflineGroundTruthSimilarity

        return OfflineGroundTruthSimilarity(options.blank_answer, options.embedding_cache)
    from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity

    return GroundTruthSimilarity(options.judge, options.blank_answer)


METRICS: Mapping[str, MetricInfo] = dict(
    [
        (
            "answer_correctness",
            MetricInfo(
                "ROUGE-L, token overlap and BLEU in one basket, each the best over the references",
                lambda options: answer_correctness(options.profile, options.blank_answer),
            ),
        ),
        _lexical("rouge_l", "longest common subsequence of words, from the one best reference"),
        _lexical("token_overlap", "shared words, counted as often as they stand in both"),
        _lexical("bleu", "sacreBLEU's sentence BLEU, all references at once; corpus BLEU in the report"),
        _lexical("chrf", "sacreBLEU's chrF on characters, for languages where words inflect"),
        _lexical("exact_match", "the answer is a reference, but for case, form and outer punctuation"),
        _lexical("contains", "the words of a reference stand in the answer in one piece"),
        (
            "semantic_similarity",
            MetricInfo("cosine of sentence embeddings, one or several models", _semantic_similarity, "semantic"),
        ),
        (
            "meaning_match",
            MetricInfo("a judge: does the answer say the same essential thing?", _meaning_match, "judge"),
        ),
        (
            "ground_truth_similarity",
            MetricInfo("a judge: matched facts over the larger number of facts", _ground_truth_similarity, "judge"),
        ),
    ]
)
"""Every metric by the name that users write, in the order of reports."""


def workload(name: str, options: Options) -> Kind:
    """What the work of a metric is like, whatever the metric is: `lexical`: words counted in Python. `semantic`: a
    model in this process. `judge`: waiting for the network; but the offline judge is a model.
    """
    kind = METRICS[name].kind
    return "semantic" if kind == "judge" and options.judge.offline else kind


def create(names: Sequence[str], options: Options | None = None) -> list[Metric]:
    """The metrics called `names`, in that order, each once.

    Raises:
        UserError: a name is not in `METRICS`, or an option does not fit a metric.
    """
    options = options or Options()
    metrics = []
    for name in dict.fromkeys(names):
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(METRICS)}"
            raise UserError(f"metric {name!r} is not known: {hint}")
        try:
            metrics.append(METRICS[name].build(options))
        except ValueError as error:
            raise UserError(f"metric {name}: {error}") from error
    return metrics
