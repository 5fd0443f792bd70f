"""Agreement of a judge's verdicts or scores with labels that count as the truth, mostly human ones.

Accuracy alone says little if most labels are 1, so it is always reported with kappa and the two error rates: a judge
that lets wrong answers pass needs another remedy than one that fails right answers. Graded scores have the AUROC, and
the threshold that agrees best with the labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats
from .clustered import (
    Clusters,
    Codes,
    Scale,
    codes_of,
    mean,
    proportion_interval,
    sum_interval,
)
from .intervals import LEVEL, Estimate, Interval
from .paired import difference_interval

# 1 - kappa is a ratio, of observed to expected disagreement, and never below 0.
# Callers clip values below -1; without the minimum, the exponential might overflow.
_LOG = Scale(lambda x: -math.log(1 - x), lambda x: 1 / (1 - x), lambda y: 1 - math.exp(min(1.0, -y)))


class Confusion(NamedTuple):
    """Counts of verdict and label: of 1 and 1, of 1 and 0, of 0 and 1, of 0 and 0.

    >>> confusion([1, 1, 0, 0], [1, 0, 0, 0])
    Confusion(true_positive=1, false_positive=1, false_negative=0, true_negative=2)
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The comparison of a judge with labels. A statistic is None if it is undefined for these rows.

    Attributes:
        n: rows; `confusion`: their counts by verdict and label.
        base_rate: mean label: the accuracy of a judge that always says yes.
        accuracy: share of rows with equal verdict and label.
        kappa: Cohen's (1960), -1..1; None where verdicts and labels are all the same.
        ac1: Gwet's (2008), -1..1; more stable than kappa if nearly all labels are the same.
        sensitivity: share of the rows labelled 1 with verdict 1; `specificity`: of those labelled 0 with verdict 0.
        bias: mean verdict - mean label; above 0 the judge is too lenient.

    >>> agreement([1, 1, 0, 0], [1, 0, 0, 0]).bias.value
    0.25
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


def agreement(verdicts: npt.ArrayLike, labels: npt.ArrayLike, *, clusters: Clusters = None) -> Agreement:
    """Compare verdicts with labels, or two annotators, whose agreement is the ceiling for a judge.

    Intervals: Clopper-Pearson for shares, Tango for the bias, for kappa and AC1 Student's t with the first-order error
    (Fleiss, Cohen and Everitt 1969; Gwet 2008) on the scale of log(1 - value). In clusters: cluster-t, with the same
    row effects summed by cluster.

    Args:
        verdicts: (rows,): the judge's, 0 or 1; `labels`: the human ones, 0 or 1, of the same rows in the same order.
        clusters: (rows,): for instance the question, where several systems answer each.

    >>> result = agreement([1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0])
    >>> round(result.accuracy.value, 3), round(result.kappa.value, 3), round(result.bias.value, 3)
    (0.833, 0.667, 0.167)
    """
    judged = np.asarray(verdicts, np.float64)
    truth = np.asarray(labels, np.float64)
    codes = codes_of(clusters, len(judged))
    agrees = (judged == truth).astype(np.float64)
    difference = judged - truth
    verdict = mean(judged)
    label = mean(truth)

    # Cohen's chance to agree: both say 1, or both say 0, each at its own rate
    chance = verdict * label + (1 - verdict) * (1 - label)
    kappa = None
    if chance != 1:
        effects = (judged - verdict) * (2 * label - 1) + (truth - label) * (2 * verdict - 1)
        kappa = _beyond_chance(agrees, chance, effects, codes)
    # Gwet's: one of the two guesses, where the verdict is in doubt
    share = (verdict + label) / 2
    effects = 2 * (1 - 2 * share) * ((judged + truth) / 2 - share)
    ac1 = _beyond_chance(agrees, 2 * share * (1 - share), effects, codes)
    return Agreement(
        n=len(judged),
        confusion=confusion(judged, truth),
        base_rate=label,
        accuracy=Estimate(mean(agrees), proportion_interval(agrees, codes)),
        kappa=kappa,
        ac1=ac1,
        sensitivity=_share(judged, truth == 1, codes),
        specificity=_share(1 - judged, truth == 0, codes),
        bias=Estimate(mean(difference), difference_interval(difference, codes, binary=True)),
    )


def confusion(verdicts: npt.ArrayLike, labels: npt.ArrayLike) -> Confusion:
    """Count the rows by verdict and label.

    >>> confusion([1, 1, 0, 0], [1, 0, 0, 0])
    Confusion(true_positive=1, false_positive=1, false_negative=0, true_negative=2)
    """
    judged = np.asarray(verdicts, np.float64)
    truth = np.asarray(labels, np.float64)
    counts = np.bincount((2 * (1 - judged) + (1 - truth)).astype(np.intp), minlength=4)
    return Confusion(*(int(count) for count in counts))


def _share(hits: Floats, chosen: npt.NDArray[np.bool_], codes: Codes | None) -> Estimate | None:
    """Mean of `hits` among the chosen rows."""
    if not chosen.any():
        return None
    part = hits[chosen]
    return Estimate(mean(part), proportion_interval(part, None if codes is None else codes[chosen]))


def _beyond_chance(agrees: Floats, chance: float, chance_effects: Floats, codes: Codes | None) -> Estimate:
    """(agreement - chance) / (1 - chance), with the delta method over rows.

    Args:
        agrees: (rows,): 1 if verdict and label are equal, else 0.
        chance: agreement by chance, below 1; `chance_effects`: (rows,): the effect of each row on it, times the rows.
    """
    agreed = mean(agrees)
    value = (agreed - chance) / (1 - chance)
    effects = (agrees - agreed - (1 - value) * chance_effects) / (1 - chance) / len(agrees)
    span = 1 / (1 - chance)
    interval = sum_interval(value, effects, codes, span=span, method="delta-log-t", scale=_LOG)
    return Estimate(value, interval and interval.clipped(-1.0, 1.0))


_LOGIT = Scale(lambda x: math.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), lambda y: 0.5 + 0.5 * math.tanh(y / 2))

_CELLS = 2_000_000
"""The cells of a batch of resamples, 16 MB, so that memory does not grow with the rows."""


class Threshold(NamedTuple):
    """The threshold that agrees best with the labels it was chosen on: scores of at least `value` count as 1.

    `kappa` is Cohen's kappa on those rows, the highest of many: expect a lower one on new rows.

    >>> Threshold(0.62, Interval(0.5, 0.7, "bootstrap"), kappa=0.8).value
    0.62
    """

    value: float
    interval: Interval | None
    kappa: float


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike, *, clusters: Clusters = None) -> Estimate | None:
    """The chance that a row labelled 1 scores above one labelled 0, ties counting half; 0.5 is no better than chance.

    Interval: t with the error of DeLong et al. (1988), in clusters that of Obuchowski (1997), on the logit scale
    (Pepe 2003).

    Args:
        scores: (rows,): finite numbers; `labels`: 0 or 1, of the same rows in the same order.

    Returns:
        None where all labels are the same.

    >>> auroc([0.2, 0.6, 0.4, 0.9], [0, 0, 1, 1]).value
    0.75
    """
    from scipy.stats import rankdata

    marks = np.asarray(scores, np.float64)
    truth = np.asarray(labels, np.float64)
    positive = truth == 1
    negative = truth == 0
    n_positive = int(positive.sum())
    n_negative = int(negative.sum())
    if not n_positive or not n_negative:
        return None
    ranks = rankdata(marks)
    # For each row, the share of rows with the other label that are ordered correctly (Sun and Xu 2014).
    placed = np.empty(len(marks))
    placed[positive] = (ranks[positive] - rankdata(marks[positive])) / n_negative
    placed[negative] = 1 - (ranks[negative] - rankdata(marks[negative])) / n_positive
    value = mean(placed[positive])
    effects = placed - value
    effects[positive] /= n_positive
    effects[negative] /= n_negative

    # Each label has an error of its own, so the rarer one limits what the spread is known from
    n_units = min(n_positive, n_negative)
    codes = codes_of(clusters, len(marks))
    if codes is not None:
        n_units = min(len(np.unique(codes[chosen])) for chosen in (positive, negative))
    interval = sum_interval(value, effects, codes, span=1.0, method="delong-logit-t", scale=_LOGIT, n=n_units)
    return Estimate(value, interval and interval.clipped(0.0, 1.0))


def best_threshold(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    clusters: Clusters = None,
    resamples: int = 1000,
) -> Threshold | None:
    """The threshold with the highest kappa against the labels: half way between two scores, the lowest of ties.

    Its interval is the percentile bootstrap over rows, or clusters. The best threshold converges slowly, with the cube
    root of the rows (Kim and Pollard 1990). If scores are few and coarse, many thresholds are equally good, and the
    interval is wider than necessary.

    Args:
        scores: (rows,): finite numbers, more is better; `labels`: 0 or 1, of the same rows in the same order.

    Returns:
        None where all labels, or all scores, are the same.

    >>> best_threshold([0.2, 0.3, 0.7, 0.9], [0, 0, 1, 1]).value
    0.5
    """
    marks = np.asarray(scores, np.float64)
    truth = np.asarray(labels, np.float64)
    codes = codes_of(clusters, len(marks))
    # Cuts lie between two scores that differ, in rising order
    order = np.lexsort((truth, marks))
    marks = marks[order]
    truth = truth[order]
    cuts = np.flatnonzero(np.diff(marks)) + 1
    if not cuts.size or truth.min() == truth.max():
        return None
    middles = (marks[cuts - 1] + marks[cuts]) / 2
    kappas = _kappas(np.ones((1, len(marks))), truth, cuts)[0]
    best = int(np.argmax(kappas))

    # The best cut in each resample of the rows, or of the clusters
    units = len(marks)
    if codes is not None:
        units = int(codes.max()) + 1
        codes = codes[order]
    rng = np.random.default_rng(0)
    batch = max(1, _CELLS // len(marks))
    resampled = []
    for start in range(0, resamples, batch):
        rows = rng.multinomial(units, np.full(units, 1 / units), min(batch, resamples - start))
        weights = rows if codes is None else rows[:, codes]
        resampled.append(np.argmax(_kappas(weights.astype(np.float64), truth, cuts), axis=1))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(middles[np.concatenate(resampled)], [tail, 1 - tail])
    interval = Interval(float(low), float(high), "bootstrap") if units > 1 else None
    return Threshold(float(middles[best]), interval, float(kappas[best]))


def _kappas(weights: Floats, truth: Floats, cuts: Codes) -> Floats:
    """Kappa of every cut under every row of weights, shape (resamples, cuts).

    Args:
        weights: (resamples, rows), rows by rising score; `cuts`: verdict 1 from this row on.
    """
    total = weights.sum(axis=1, keepdims=True)
    ones = weights @ truth[:, None]
    below = np.cumsum(weights, axis=1)[:, cuts - 1]
    ones_below = np.cumsum(weights * truth, axis=1)[:, cuts - 1]
    verdicts = (total - below) / total
    labels = ones / total
    agreed = (ones - ones_below + below - ones_below) / total
    chance = verdicts * labels + (1 - verdicts) * (1 - labels)
    # In a resample with one label only, all agreement is by chance.
    kappas: Floats = np.divide(agreed - chance, 1 - chance, out=np.zeros_like(chance), where=chance < 1)
    return kappas
