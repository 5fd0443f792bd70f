"""Means corrected for the errors of a judge, by rows with human labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .agreement import Confusion
from .bounded_mean import Floats
from .clustered import (
    Clusters,
    Codes,
    Mask,
    codes_of,
    mean,
    mean_interval,
    proportion_interval,
    standard_deviation,
    unit_sums,
)
from .intervals import LEVEL, Estimate, Interval, normal_quantile, t_quantile
from .paired import change_range, difference_interval

_WIDEST = 0.96
"""The scores are used if they narrow the interval of the labels to at most this share. With a judge that carries hardly
any information, the narrower of two intervals would be wrong more often."""


_MOST_STRATA = 12
"""The most distinct probabilities of being labelled that are strata. A sampling plan has a few."""
_COUNT = 0.25
"""The correction for counts: half a label would hold whatever the judge's variance is, which smooths the counts."""


@dataclass(frozen=True, slots=True)
class PredictionPowered:
    """An estimate of the mean human label of all rows, from labels of some rows and scores of all.

    Attributes:
        value: the estimate; `interval`: None for fewer than two labelled rows (clusters).
        weight: lambda, 0..1: the weight of the scores in PPI++; at 0 only the labels count.
        labelled: rows with a label; `unlabelled`: rows with a score only.

    >>> ppi_mean([1, 1, 0, 1], [1, 0, None, None]).labelled
    2
    """

    value: float
    interval: Interval | None
    weight: float
    labelled: int
    unlabelled: int


def ppi_mean(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    clusters: Clusters = None,
) -> PredictionPowered:
    """The mean label of all rows, of which only some are labelled (prediction-powered inference).

    Valid for any errors of the judge, but only if the labelled rows are a random sample of all rows and the judge was
    not tuned on their labels. The rows themselves are a sample of questions, and the interval is about all questions:
    if every row has a label, it is the interval of the labels.

    PPI++ (Angelopoulos, Duchi and Zrnic 2023): lambda * mean(scores of unlabelled rows) + mean(label - lambda * score
    over labelled rows), with the lambda that minimises the variance, and the `bounded_mean` of rows (clusters), which
    keeps its level also if the few labels contain none of the judge's errors. Unless that interval is at least 4 %
    narrower than the interval of the labels alone, only the labels count, and the weight is 0; simulations show that
    this choice keeps the level (docs/statistics.md).

    Args:
        scores: (rows,): the judge's score of every row, 0 to 1.
        labels: (rows,): in the same range; None or NaN for no label.

    >>> scores = [1, 1, 1, 0, 0] * 20
    >>> labels = [*[1, 1, 0, 0, 0] * 10, *[None] * 50]
    >>> estimate = ppi_mean(scores, labels)
    >>> round(estimate.value, 3), [round(end, 2) for end in estimate.interval[:2]]
    (0.4, [0.27, 0.54])
    """
    judged = np.asarray(scores, np.float64)
    truth, codes = np.asarray(labels, np.float64), codes_of(clusters, len(judged))
    sample = _Sample(judged, np.isfinite(truth), truth, codes, None, 0.0, _zeros_and_ones(truth))
    return _narrowest(sample, LEVEL)


def ppi_difference(
    old_scores: npt.ArrayLike,
    new_scores: npt.ArrayLike,
    old_labels: npt.ArrayLike,
    new_labels: npt.ArrayLike,
    *,
    clusters: Clusters = None,
    level: float = LEVEL,
    probabilities: npt.ArrayLike | None = None,
) -> PredictionPowered:
    """The mean difference of labels, new - old, of two releases on the same rows, some of which are labelled in both.

    The estimate is that of `ppi_mean`. Each end is a number of standard errors away, corrected for skewness and for
    errors of the judge that no label shows: it keeps its level if the judge hides all of a loss from few labels. Unless
    the interval is at least 4 % narrower than that of the labels alone, only the labels count.

    Args:
        old_scores: (rows,): the judge's scores of the old release, 0 to 1; `new_scores`: of the new one.
        old_labels: (rows,): human labels in the same range; `new_labels`: likewise.
        probabilities: (rows,): the probability of each row to be labelled in both releases, above 0 to 1; by default
            all equal.

    >>> old, new = [1, 0, 0, 1] * 10, [1, 1, 0, 1] * 10
    >>> labels_old, labels_new = [1, 0, 0, 0] * 5 + [None] * 20, [1, 1, 0, 0] * 5 + [None] * 20
    >>> ppi_difference(old, new, labels_old, labels_new).value
    0.25
    """
    old, new = np.asarray(old_scores, np.float64), np.asarray(new_scores, np.float64)
    old_truth, new_truth = np.asarray(old_labels, np.float64), np.asarray(new_labels, np.float64)
    truth, codes, chances = new_truth - old_truth, codes_of(clusters, len(old)), _chances(probabilities)
    binary = _zeros_and_ones(old_truth) and _zeros_and_ones(new_truth)
    sample = _Sample(new - old, np.isfinite(truth), truth, codes, chances, -1.0, binary)
    return _narrowest(sample, level)


def rogan_gladen(positive: int, n: int, calibration: Confusion) -> Estimate | None:
    """The share of correct answers, estimated from a judge's share of positive verdicts (Rogan and Gladen 1978).

    (p + specificity - 1) / (sensitivity + specificity - 1), clipped to 0..1, with the interval of Lang and Reiczigel
    (2014). For rows without labels, by a calibration on other rows. The share of correct answers may differ between the
    two, but the error rates of the judge must not. If this run has labels, use `ppi_mean`.

    Args:
        positive: verdicts of 1 among `n`, the rows to be corrected.
        calibration: the judge against labels, on other rows.

    Returns:
        None if the judge is no better than chance, or the calibration has only one kind of label.

    >>> calibration = Confusion(true_positive=90, false_positive=20, false_negative=10, true_negative=80)
    >>> round(rogan_gladen(60, 100, calibration).value, 3)
    0.571
    """
    right, fooled, missed, caught = calibration
    ones, zeros = right + missed, fooled + caught
    if not ones or not zeros or right * zeros + caught * ones <= ones * zeros:
        return None
    value = _true_share(positive / n, right / ones, caught / zeros)
    interval = _lang_reiczigel(positive, n, calibration) if min(n, ones, zeros) > 1 else None
    return Estimate(min(1.0, max(0.0, value)), interval)


def _true_share(share: float, sensitivity: float, specificity: float) -> float:
    return (share + specificity - 1) / (sensitivity + specificity - 1)


def _lang_reiczigel(positive: int, n: int, calibration: Confusion) -> Interval:
    """Wald's interval around shrunken and shifted estimates, as in the paper."""
    z = normal_quantile(LEVEL)
    right, fooled, missed, caught = calibration
    # Adds z^2 judged rows, half of them positive, and two calibration rows of each label, one of them judged wrongly.
    rows, ones, zeros = n + z * z, right + missed + 2, fooled + caught + 2
    share, sensitivity, specificity = (positive + z * z / 2) / rows, (right + 1) / ones, (caught + 1) / zeros
    if sensitivity + specificity <= 1:
        # With these few labels the judge may be no better than chance, so any share is possible.
        return Interval(0.0, 1.0, "lang-reiczigel")
    value = _true_share(share, sensitivity, specificity)
    doubt, doubt_zeros = sensitivity * (1 - sensitivity) / ones, specificity * (1 - specificity) / zeros
    shift = 2 * z * z * (value * doubt - (1 - value) * doubt_zeros)
    variance = share * (1 - share) / rows + value * value * doubt + (1 - value) ** 2 * doubt_zeros
    margin = z * math.sqrt(variance) / (sensitivity + specificity - 1)
    centre = value + shift
    low, high = (min(1.0, max(0.0, end)) for end in (centre - margin, centre + margin))
    return Interval(low, high, "lang-reiczigel")


def _chances(probabilities: npt.ArrayLike | None) -> Floats | None:
    """The probabilities of being labelled; None if they are all equal."""
    chances = np.ones(1) if probabilities is None else np.asarray(probabilities, np.float64)
    return None if chances.min() == chances.max() else chances


def _zeros_and_ones(labels: Floats) -> bool:
    return bool(np.isin(labels[np.isfinite(labels)], (0.0, 1.0)).all())


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Rows with a score, of which the `known` ones have a label `truth` in `low` to 1; shape (rows,) each.

    Attributes:
        codes: clusters; None if rows are independent.
        chances: the probability of each row to be labelled; None if all are equal.
        binary: labels are 0 or 1, or differences of such labels.
    """

    judged: Floats
    known: Mask
    truth: Floats
    codes: Codes | None
    chances: Floats | None
    low: float
    binary: bool


def _narrowest(sample: _Sample, level: float) -> PredictionPowered:
    """The estimate from the labels alone, or with the scores if that has a clearly narrower interval."""
    labelled, unlabelled = int(sample.known.sum()), int((~sample.known).sum())
    corrected = _corrected if sample.low < 0 else _weighted
    alone = _labels_alone(sample, level) if sample.chances is None or not unlabelled else corrected(sample, 0.0, level)
    slope = _slope(sample)
    if slope and alone.interval:
        joint = corrected(sample, slope, level)
        if joint.interval and _width(joint.interval) <= _WIDEST * _width(alone.interval):
            weight = slope * unlabelled / (labelled + unlabelled)
            return PredictionPowered(joint.value, joint.interval, weight, labelled, unlabelled)
    return PredictionPowered(alone.value, alone.interval, 0.0, labelled, unlabelled)


def _width(interval: Interval) -> float:
    return interval.high - interval.low


def _labels_alone(sample: _Sample, level: float) -> Estimate:
    """The mean of the labels, with the interval of reports and comparisons."""
    part = sample.truth[sample.known]
    codes = None if sample.codes is None else sample.codes[sample.known]
    if sample.low < 0:
        bounds = change_range(part, codes)
        interval = difference_interval(part, codes, binary=sample.binary, bounds=bounds, level=level)
    elif sample.binary:
        interval = proportion_interval(part, codes, level)
    else:
        interval = mean_interval(part, codes, level=level)
    return Estimate(mean(part), interval)


def _corrected(sample: _Sample, slope: float, level: float) -> Estimate:
    """PPI++ of differences: slope * score, plus the mean correction of the labelled rows (Hajek, if chances differ).

    The ends allow for skewness (Johnson 1978), as few errors of a judge are skewed, and for errors that no label shows:
    each adds units that are as large as the weight of a label (of a cluster with its labels) can be. If no label
    differs from the scores, n labels of independent rows exclude log(40) / n of errors at 95 %, as Poisson counts do.
    """
    known, judged, n = sample.known, slope * sample.judged, int(sample.known.sum())
    chances = np.ones(len(known)) if sample.chances is None else sample.chances
    codes = np.arange(len(known)) if sample.codes is None else sample.codes
    odds = 1 / chances
    weights = odds / odds[known].mean()
    corrections = (sample.truth - judged)[known]
    centre = float(weights[known] @ corrections) / n
    value = float(judged.mean()) + centre
    units = len(np.unique(codes[known]))
    if units < 2:
        return Estimate(value, None)

    # The effect of each row on the estimate, times the labels
    effects = (judged - judged.mean()) * (n / len(known))
    effects[known] += weights[known] * (corrections - centre)
    sums = unit_sums(effects, codes)
    square, cube = float(sums @ sums) * units / (units - 1), float(np.sum(sums**3))
    largest = max(float(weights.max()), float(np.bincount(codes[known], weights[known]).max()))

    z = normal_quantile(level)
    skew = (z * z + 2) / 3
    unseen = (math.log(2 / (1 - level)) - skew) / z * largest
    times = z if sample.binary and sample.codes is None else t_quantile(level, units - 1)
    reach = times * math.hypot(math.sqrt(square), unseen)
    below, above = (
        (reach + (skew - _COUNT) * (2 * largest**3 + turned) / (square + 2 * largest**2) + _COUNT * largest) / n
        for turned in (-cube, cube)
    )
    # Rows of a stratum of which nobody could label any may have any mean
    in_strata = len(np.unique(chances)) <= _MOST_STRATA
    absent = 1 - float(np.isin(chances, chances[known]).mean()) if in_strata else 0.0
    low, high = ((1 - absent) * end + side * absent for end, side in ((value - below, -1), (value + above, 1)))
    return Estimate(value, Interval(low, high, "ppi").clipped(-1.0, 1.0))


def _weighted(sample: _Sample, slope: float, level: float) -> Estimate:
    """PPI++ as the mean of one number per row: slope * score, plus correction / share of labels for labelled rows.

    These numbers (or their clusters) are independent and lie in a known range, so `bounded_mean` covers the sampling of
    rows and of labels. Corrections are centred at their mean, which reduces their variance.
    """
    known, judged = sample.known, slope * sample.judged
    units = known.sum() if sample.codes is None else len(np.unique(sample.codes[known]))
    corrections, most = (sample.truth - judged)[known], 1 / float(known.mean())
    centre = mean(corrections)
    rows = judged + centre
    rows[known] += (corrections - centre) * most
    worst, best = (
        min(centre, slope + centre - (slope + centre) * most),
        max(slope + centre, centre + (1 - centre) * most),
    )
    value = mean(rows)
    interval = mean_interval(rows, sample.codes, low=worst, high=best, level=level) if units > 1 else None
    method = "ppi" if sample.codes is None else "cluster-ppi"
    inside = interval and interval.clipped(0.0, 1.0)._replace(method=method)
    return Estimate(min(1.0, max(0.0, value)), inside)


def _slope(sample: _Sample) -> float:
    """The slope of a regression of labels on scores, clipped to 0..1.

    0 if all rows are labelled, or all labelled rows have the same score.
    """
    scores = sample.judged[sample.known]
    if sample.known.all() or not standard_deviation(scores):
        return 0.0
    odds = None if sample.chances is None else 1 / sample.chances[sample.known]
    # Both moments are from the labelled rows: their errors cancel, so the ratio is more precise than with all scores.
    covariance = np.cov(sample.truth[sample.known], scores, aweights=odds)
    return min(1.0, max(0.0, float(covariance[0, 1] / covariance[1, 1])))
