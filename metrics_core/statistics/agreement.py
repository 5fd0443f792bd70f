"""How far a judge's verdicts agree with labels that are taken as the truth, mostly people's.

Agreement alone says little where most labels are 1, so it never stands without kappa, and never without the two error
rates: a judge that lets wrong answers pass and one that fails right answers need different cures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import (
    Clusters,
    Codes,
    Floats,
    Scale,
    codes_of,
    mean,
    paired,
    proportion_interval,
    sum_interval,
    zeros_and_ones,
)
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate
from answerkey.metrics_core.statistics.paired import difference_interval

# 1 - kappa is a ratio, of observed to expected disagreement, and never below 0.
# What would be below -1 is cut off by the caller; the exponential alone might overflow.
_LOG = Scale(lambda x: -math.log(1 - x), lambda x: 1 / (1 - x), lambda y: 1 - math.exp(min(1.0, -y)))


class Confusion(NamedTuple):
    """Counts of verdict and label: of 1 and 1, of 1 and 0, of 0 and 1, of 0 and 0."""

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge against labels. A statistic is None where the rows do not define it.

    Attributes:
        n: rows with both; `confusion`: their counts.
        base_rate: mean label, what an always-yes judge would have as accuracy.
        accuracy: share of rows with equal verdict and label.
        kappa: Cohen's (1960), -1..1; None where verdicts and labels are all the same.
        ac1: Gwet's (2008), -1..1; steadier than kappa where nearly all labels are the same.
        sensitivity: share of the rows labelled 1 with verdict 1; `specificity`: of those labelled 0 with verdict 0.
        bias: mean verdict - mean label: above 0 the judge is too kind.
    """

    n: int
    confusion: Confusion
    base_rate: float
    accuracy: Estimate
    kappa: Estimate | None
    ac1: Estimate
    sensitivity: Estimate | None
    specificity: Estimate | None
    bias: Estimate


def agreement(
    verdicts: npt.ArrayLike, labels: npt.ArrayLike, *, clusters: Clusters = None, level: float = LEVEL
) -> Agreement:
    """Compare verdicts with labels; two annotators are compared the same way, for the ceiling that people set.

    Intervals: Wilson for shares, Tango for the bias, for kappa and AC1 Student's t with the first-order error
    (Fleiss, Cohen and Everitt 1969; Gwet 2008) on the scale of log(1 - value). In clusters: cluster-t, with the same
    row effects summed by cluster.

    Args:
        verdicts: (rows,): 0 or 1 of the judge; `labels`: 0 or 1 of people, of the same rows in the same order.
        clusters: (rows,): for instance the question, where several systems answer it.

    Raises:
        ValueError: no rows, not the same number of rows, anything but 0 and 1.
    """
    judged, truth = zeros_and_ones(verdicts, "verdicts"), zeros_and_ones(labels, "labels")
    paired(judged, truth, "verdicts and labels")
    codes = codes_of(clusters, len(judged))
    same = (judged == truth).astype(np.float64)
    difference = judged - truth
    return Agreement(
        n=len(judged),
        confusion=confusion(judged, truth),
        base_rate=mean(truth),
        accuracy=Estimate(mean(same), proportion_interval(same, codes, level)),
        kappa=_kappa(judged, truth, codes, level),
        ac1=_ac1(judged, truth, codes, level),
        sensitivity=_share(judged, truth == 1, codes, level),
        specificity=_share(1 - judged, truth == 0, codes, level),
        bias=Estimate(mean(difference), difference_interval(difference, codes, binary=True, level=level)),
    )


def confusion(verdicts: npt.ArrayLike, labels: npt.ArrayLike) -> Confusion:
    """Count the four kinds of rows.

    Raises:
        ValueError: no rows, not the same number of rows, anything but 0 and 1.
    """
    judged, truth = zeros_and_ones(verdicts, "verdicts"), zeros_and_ones(labels, "labels")
    paired(judged, truth, "verdicts and labels")
    counts = np.bincount((2 * (1 - judged) + (1 - truth)).astype(np.intp), minlength=4)
    return Confusion(*(int(count) for count in counts))


def _share(hits: Floats, chosen: npt.NDArray[np.bool_], codes: Codes | None, level: float) -> Estimate | None:
    """Mean of `hits` among the chosen rows."""
    if not chosen.any():
        return None
    part = hits[chosen]
    return Estimate(mean(part), proportion_interval(part, None if codes is None else codes[chosen], level))


def _kappa(judged: Floats, truth: Floats, codes: Codes | None, level: float) -> Estimate | None:
    verdict, label = mean(judged), mean(truth)
    chance = verdict * label + (1 - verdict) * (1 - label)
    if chance == 1:
        return None
    effects = (judged - verdict) * (2 * label - 1) + (truth - label) * (2 * verdict - 1)
    return _beyond_chance(judged == truth, chance, effects, codes, level)


def _ac1(judged: Floats, truth: Floats, codes: Codes | None, level: float) -> Estimate:
    share = (mean(judged) + mean(truth)) / 2
    effects = 2 * (1 - 2 * share) * ((judged + truth) / 2 - share)
    return _beyond_chance(judged == truth, 2 * share * (1 - share), effects, codes, level)


def _beyond_chance(
    same: npt.NDArray[np.bool_], chance: float, chance_effects: Floats, codes: Codes | None, level: float
) -> Estimate:
    """(agreement - chance) / (1 - chance), with the delta method over rows.

    Args:
        chance: agreement by chance, below 1; `chance_effects`: (rows,): what each row moves it by, times the rows.
    """
    agreed = mean(same.astype(np.float64))
    value = (agreed - chance) / (1 - chance)
    effects = (same - agreed - (1 - value) * chance_effects) / (1 - chance) / len(same)
    span = 1 / (1 - chance)
    interval = sum_interval(value, effects, codes, span=span, method="delta-log-t", scale=_LOG, level=level)
    return Estimate(value, interval and interval.clipped(-1.0, 1.0))
