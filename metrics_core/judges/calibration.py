"""A metric or judge against human labels: how far it can be trusted, and which threshold fits it best."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from answerkey.metrics_core.decide.agreement import Agreement, Threshold, agreement, auroc, best_threshold
from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.clustered import codes_of
from answerkey.metrics_core.decide.intervals import Estimate

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """Agreement of one metric field with labels.

    Attributes:
        release: whose answers these are; None for all releases together.
        n: answers with a score and a label; `clusters`: how many questions (or other clusters) they come from.
        agreement: of the verdicts with the labels. The verdicts are the scores where these are 0 or 1, and otherwise
            whether they reach a threshold that was learned on other clusters; None where no threshold could be.
        auroc: the chance that a right answer scores above a wrong one; None for verdicts, and where all labels agree.
        threshold: the best one, learned on all rows; None likewise.
        ceiling: how far two people agree with each other on the same answers; None where there is one annotator.
    """

    release: str | None
    n: int
    clusters: int
    agreement: Agreement | None
    auroc: Estimate | None
    threshold: Threshold | None
    ceiling: Agreement | None


@dataclass(frozen=True, slots=True)
class Labelled:
    """Answers with a score and a label; all sequences have the shape (answers,).

    `second` is the label of a second annotator, None if there is only one; empty: there is none at all.
    """

    scores: Sequence[float]
    labels: Sequence[bool]
    releases: Sequence[str]
    clusters: Sequence[Hashable]
    second: Sequence[bool | None] = ()


def human_agreement(rows: Labelled) -> list[HumanAgreement]:
    """The agreement with human labels over all releases together, then on each of them.

    Releases share questions, and what is hard to judge is hard in every release, so intervals are clustered.

    Raises:
        ValueError: no rows, not the same number of everything, a score that is not finite.

    >>> rows = Labelled([1, 1, 0, 0, 1], [True, True, False, False, False], ["gpt-5"] * 5, "abcde")
    >>> whole, release = human_agreement(rows)
    >>> release.release, release.n, round(release.agreement.accuracy.value, 2)
    ('gpt-5', 5, 0.8)
    """
    binary = set(rows.scores) <= {0, 1}
    scores = np.asarray(rows.scores, np.float64)
    labels = np.asarray(rows.labels, np.float64)
    agreements = []
    for release in (None, *dict.fromkeys(rows.releases)):
        indices = [index for index, name in enumerate(rows.releases) if release in (None, name)]
        clusters = [rows.clusters[index] for index in indices]
        # Verdicts are compared as they are, graded scores by a threshold
        of_release = scores[indices]
        truth = labels[indices]
        verdicts = of_release if binary else _cross_fitted(of_release, truth, clusters)

        # How far two people agree, where both have given a label
        twice = [index for index in indices if rows.second and rows.second[index] is not None]
        ceiling = None
        if twice:
            ceiling = agreement(
                [bool(rows.second[index]) for index in twice],
                [rows.labels[index] for index in twice],
                clusters=[rows.clusters[index] for index in twice],
            )
        agreements.append(
            HumanAgreement(
                release=release,
                n=len(indices),
                clusters=len(set(clusters)),
                agreement=None if verdicts is None else agreement(verdicts, truth, clusters=clusters),
                auroc=None if binary else auroc(of_release, truth, clusters=clusters),
                threshold=None if binary else best_threshold(of_release, truth, clusters=clusters),
                ceiling=ceiling,
            )
        )
    return agreements


def _cross_fitted(scores: Floats, truth: Floats, clusters: list[Hashable]) -> Floats | None:
    """Whether each score reaches a threshold learned without its cluster. One learned with it flatters the metric."""
    codes = codes_of(clusters, len(scores))
    folds = (np.arange(len(scores)) if codes is None else codes) % _FOLDS
    # A fold that has all answers leaves none to learn from
    verdicts = np.empty(len(scores))
    for fold in np.unique(folds):
        in_fold = folds == fold
        learned = None if in_fold.all() else best_threshold(scores[~in_fold], truth[~in_fold], resamples=1)
        if learned is None:
            return None
        verdicts[in_fold] = scores[in_fold] >= learned.value
    return verdicts
