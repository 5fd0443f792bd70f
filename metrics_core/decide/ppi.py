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

_MAX_WIDTH = 0.96
"""The scores are used if they narrow the interval of the labels to at most this share. With a judge that carries hardly
any information, the narrower of two intervals would be wrong more often."""


_MAX_STRATA = 12
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
    truth = np.asarray(labels, np.float64)
    sample = _Sample(
        judged=judged,
        labelled=np.isfinite(truth),
        truth=truth,
        codes=codes_of(clusters, len(judged)),
        chances=None,
        low=0.0,
        binary=_zeros_and_ones(truth),
    )
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

    Raises:
        ValueError: no row has a label of both releases.

    >>> ppi_difference([1, 0], [1, 0], [1, None], [None, 0])
    Traceback (most recent call last):
    ValueError: no row has a label of both releases
    >>> old, new = [1, 0, 0, 1] * 10, [1, 1, 0, 1] * 10
    >>> labels_old, labels_new = [1, 0, 0, 0] * 5 + [None] * 20, [1, 1, 0, 0] * 5 + [None] * 20
    >>> ppi_difference(old, new, labels_old, labels_new).value
    0.25
    """
    judged = np.asarray(new_scores, np.float64) - np.asarray(old_scores, np.float64)
    old_truth = np.asarray(old_labels, np.float64)
    new_truth = np.asarray(new_labels, np.float64)
    truth = new_truth - old_truth
    # Equal probabilities need no weights
    chances = np.ones(1) if probabilities is None else np.asarray(probabilities, np.float64)
    sample = _Sample(
        judged=judged,
        labelled=np.isfinite(truth),
        truth=truth,
        codes=codes_of(clusters, len(judged)),
        chances=None if chances.min() == chances.max() else chances,
        low=-1.0,
        binary=_zeros_and_ones(old_truth) and _zeros_and_ones(new_truth),
    )
    if not sample.labelled.any():
        raise ValueError("no row has a label of both releases")
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
    # With one kind of label, or a judge that guesses, the share cannot be told
    hits = calibration.true_positive
    rejections = calibration.true_negative
    n_correct = hits + calibration.false_negative
    n_wrong = rejections + calibration.false_positive
    if not n_correct or not n_wrong or hits * n_wrong + rejections * n_correct <= n_correct * n_wrong:
        return None
    value = _true_share(positive / n, hits / n_correct, rejections / n_wrong)
    interval = _lang_reiczigel(positive, n, calibration) if min(n, n_correct, n_wrong) > 1 else None
    return Estimate(min(1.0, max(0.0, value)), interval)


def _true_share(share: float, sensitivity: float, specificity: float) -> float:
    return (share + specificity - 1) / (sensitivity + specificity - 1)


def _lang_reiczigel(positive: int, n: int, calibration: Confusion) -> Interval:
    """Wald's interval around shrunken and shifted estimates, as in the paper."""
    z = normal_quantile(LEVEL)
    # Adds z^2 judged rows, half of them positive, and two calibration rows of each label, one of them judged wrongly.
    n_judged = n + z * z
    n_correct = calibration.true_positive + calibration.false_negative + 2
    n_wrong = calibration.false_positive + calibration.true_negative + 2
    share = (positive + z * z / 2) / n_judged
    sensitivity = (calibration.true_positive + 1) / n_correct
    specificity = (calibration.true_negative + 1) / n_wrong
    if sensitivity + specificity <= 1:
        # With these few labels the judge may be no better than chance, so any share is possible.
        return Interval(0.0, 1.0, "lang-reiczigel")
    value = _true_share(share, sensitivity, specificity)
    sensitivity_variance = sensitivity * (1 - sensitivity) / n_correct
    specificity_variance = specificity * (1 - specificity) / n_wrong
    shift = 2 * z * z * (value * sensitivity_variance - (1 - value) * specificity_variance)
    variance = (
        share * (1 - share) / n_judged + value * value * sensitivity_variance + (1 - value) ** 2 * specificity_variance
    )
    # Around the shifted estimate, inside the range of a share
    margin = z * math.sqrt(variance) / (sensitivity + specificity - 1)
    centre = value + shift
    low, high = (min(1.0, max(0.0, end)) for end in (centre - margin, centre + margin))
    return Interval(low, high, "lang-reiczigel")


def _zeros_and_ones(labels: Floats) -> bool:
    """Whether each label that there is, is 0 or 1."""
    return bool(np.isin(labels[np.isfinite(labels)], (0.0, 1.0)).all())


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Rows with a score, of which the `labelled` ones have a label `truth` in `low` to 1; shape (rows,) each.

    Attributes:
        codes: clusters; None if rows are independent.
        chances: the probability of each row to be labelled; None if all are equal.
        binary: labels are 0 or 1, or differences of such labels.
    """

    judged: Floats
    labelled: Mask
    truth: Floats
    codes: Codes | None
    chances: Floats | None
    low: float
    binary: bool


def _narrowest(sample: _Sample, level: float) -> PredictionPowered:
    """The estimate from the labels alone, or with the scores if that has a clearly narrower interval."""
    n_labelled = int(sample.labelled.sum())
    n_unlabelled = len(sample.labelled) - n_labelled
    correct = _corrected if sample.low < 0 else _weighted

    # The mean of the labels, with the interval of reports and comparisons; where they were drawn with several
    # probabilities, their plain mean is no estimate
    labels = sample.truth[sample.labelled]
    codes = None if sample.codes is None else sample.codes[sample.labelled]
    if sample.chances is not None and n_unlabelled:
        estimate = correct(sample, 0.0, level)
    elif sample.low < 0:
        bounds = change_range(labels, codes)
        interval = difference_interval(labels, codes, binary=sample.binary, bounds=bounds, level=level)
        estimate = Estimate(mean(labels), interval)
    elif sample.binary:
        estimate = Estimate(mean(labels), proportion_interval(labels, codes, level))
    else:
        estimate = Estimate(mean(labels), mean_interval(labels, codes, level=level))

    # The slope of a regression of labels on scores. Both moments are from the labelled rows: their errors cancel, so
    # the ratio is more precise than with all scores.
    scores = sample.judged[sample.labelled]
    slope = 0.0
    if n_unlabelled and standard_deviation(scores):
        odds = None if sample.chances is None else 1 / sample.chances[sample.labelled]
        covariance = np.cov(labels, scores, aweights=odds)
        slope = min(1.0, max(0.0, float(covariance[0, 1] / covariance[1, 1])))
    weight = 0.0
    if slope and estimate.interval:
        joint = correct(sample, slope, level)
        width = estimate.interval.high - estimate.interval.low
        if joint.interval and joint.interval.high - joint.interval.low <= _MAX_WIDTH * width:
            estimate = joint
            weight = slope * n_unlabelled / len(sample.labelled)
    return PredictionPowered(*estimate, weight, labelled=n_labelled, unlabelled=n_unlabelled)


def _corrected(sample: _Sample, slope: float, level: float) -> Estimate:
    """PPI++ of differences: slope * score, plus the mean correction of the labelled rows (Hajek, if chances differ).

    The ends allow for skewness (Johnson 1978), as few errors of a judge are skewed, and for errors that no label shows:
    each adds units that are as large as the weight of a label (of a cluster with its labels) can be. If no label
    differs from the scores, n labels of independent rows exclude log(40) / n of errors at 95 %, as Poisson counts do.
    """
    labelled = sample.labelled
    judged = slope * sample.judged
    n = int(labelled.sum())
    chances = np.ones(len(labelled)) if sample.chances is None else sample.chances
    codes = np.arange(len(labelled)) if sample.codes is None else sample.codes
    odds = 1 / chances
    weights = odds / odds[labelled].mean()
    corrections = (sample.truth - judged)[labelled]
    centre = float(weights[labelled] @ corrections) / n
    value = float(judged.mean()) + centre
    units = len(np.unique(codes[labelled]))
    if units < 2:
        return Estimate(value, None)

    # The effect of each row on the estimate, times the labels
    effects = (judged - judged.mean()) * (n / len(labelled))
    effects[labelled] += weights[labelled] * (corrections - centre)
    sums = unit_sums(effects, codes)
    square = float(sums @ sums) * units / (units - 1)
    cube = float(np.sum(sums**3))
    largest = max(float(weights.max()), float(np.bincount(codes[labelled], weights[labelled]).max()))

    # Normal or t, as far as the unseen errors move it, and Johnson's correction for skewness on either side
    z = normal_quantile(level)
    skew = (z * z + 2) / 3
    unseen = (math.log(2 / (1 - level)) - skew) / z * largest
    quantile = z if sample.binary and sample.codes is None else t_quantile(level, units - 1)
    reach = quantile * math.hypot(math.sqrt(square), unseen)
    below, above = (
        (reach + (skew - _COUNT) * (2 * largest**3 + signed_cube) / (square + 2 * largest**2) + _COUNT * largest) / n
        for signed_cube in (-cube, cube)
    )

    # Rows of a stratum of which nobody could label any may have any mean
    in_strata = len(np.unique(chances)) <= _MAX_STRATA
    absent = 1 - float(np.isin(chances, chances[labelled]).mean()) if in_strata else 0.0
    interval = Interval((1 - absent) * (value - below) - absent, (1 - absent) * (value + above) + absent, "ppi")
    return Estimate(value, interval.clipped(-1.0, 1.0))


def _weighted(sample: _Sample, slope: float, level: float) -> Estimate:
    """PPI++ as the mean of one number per row: slope * score, plus correction / share of labels for labelled rows.

    These numbers (or their clusters) are independent and lie in a known range, so `bounded_mean` covers the sampling of
    rows and of labels. Corrections are centred at their mean, which reduces their variance.
    """
    labelled = sample.labelled
    judged = slope * sample.judged
    units = labelled.sum() if sample.codes is None else len(np.unique(sample.codes[labelled]))
    corrections = (sample.truth - judged)[labelled]
    inverse_share = 1 / float(labelled.mean())
    centre = mean(corrections)
    rows = judged + centre
    rows[labelled] += (corrections - centre) * inverse_share
    # A single unit has no interval
    value = min(1.0, max(0.0, mean(rows)))
    if units < 2:
        return Estimate(value, None)
    interval = mean_interval(
        rows,
        sample.codes,
        low=min(centre, slope + centre - (slope + centre) * inverse_share),
        high=max(slope + centre, centre + (1 - centre) * inverse_share),
        level=level,
    )
    method = "ppi" if sample.codes is None else "cluster-ppi"
    return Estimate(value, interval and interval.clipped(0.0, 1.0)._replace(method=method))
