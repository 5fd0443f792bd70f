"""All metrics by name, and the options that they are made with."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.metric import BlankAnswer, Kind, Metric
from answerkey.metrics_core.metrics.answer_correctness import AnswerCorrectness
from answerkey.metrics_core.metrics.bleu import Bleu
from answerkey.metrics_core.metrics.chrf import Chrf
from answerkey.metrics_core.metrics.contains import Contains
from answerkey.metrics_core.metrics.continuous_eval import Profile
from answerkey.metrics_core.metrics.exact_match import ExactMatch
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.metrics.rouge_l import RougeL
from answerkey.metrics_core.metrics.semantic_similarity import Aggregation, SemanticSimilarity
from answerkey.metrics_core.metrics.token_overlap import TokenOverlap

METRICS: Mapping[str, type[Metric]] = {
    cls.name: cls
    for cls in (
        AnswerCorrectness,
        RougeL,
        TokenOverlap,
        Bleu,
        Chrf,
        ExactMatch,
        Contains,
        SemanticSimilarity,
        MeaningMatch,
        GroundTruthSimilarity,
    )
}
"""Every metric of this package by the name that users write, in the order of reports."""


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the numbers of metrics. Everything here ends up in the signatures.

    `profile` swaps in the old numbers of `answer_correctness` for people who migrate. `embedding_cache` is a
    folder; it changes no number. `judge` is for the metrics that need one: unless it names a model, the offline judge.
    `access` opens the models (key, ledger, run) and changes no number either.
    """

    profile: Profile | None = None
    blank_answer: BlankAnswer = "zero"
    embedding_models: tuple[str, ...] = ()
    aggregation: Aggregation = "mean"
    threshold: float | None = None
    tolerance: float = 0.1
    embedding_cache: str | None = None
    judge: JudgeOptions = OFFLINE_JUDGE
    access: Access = NO_ACCESS


def _made(name: str, options: Options) -> Metric:
    from answerkey.metrics_core.offline_judge import ground_truth_similarity, meaning_match

    cache, judge, blank = options.embedding_cache, options.judge, options.blank_answer
    if name == "meaning_match" and judge.cascade:
        return meaning_match.CascadeMeaningMatch(judge, cache, access=options.access, blank_answer=blank)
    if name == "meaning_match" and judge.offline:
        return meaning_match.OfflineMeaningMatch(cache, blank_answer=blank)
    if name == "ground_truth_similarity" and judge.offline:
        return ground_truth_similarity.OfflineGroundTruthSimilarity(cache, blank_answer=blank)
    given = {one.name: getattr(options, one.name) for one in METRICS[name].options()}
    return METRICS[name](**{option: value for option, value in given.items() if value != ()})


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
            metrics.append(_made(name, options))
        except ValueError as error:
            raise UserError(f"metric {name}: {error}") from error
    return metrics
