"""Means that are corrected for a judge's errors, from rows with human labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.agreement import Confusion
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import (
    Clusters,
    Codes,
    check_same_rows,
    codes_of,
    mean,
    mean_interval,
    numbers,
    standard_deviation,
    sum_interval,
)
from answerkey.metrics_core.statistics.intervals import (
    LEVEL,
    Estimate,
    Interval,
    independent_difference,
    normal_quantile,
)

Labels = Sequence[float | None]
"""The label of each row, None where it has none."""


@dataclass(frozen=True, slots=True)
class PredictionPowered:
    """An estimate of the mean human label of all rows, from labels of some rows and scores of all.

    Attributes:
        value: the estimate; `interval`: None for fewer than two labelled rows (clusters).
        weight: lambda, 0..1: the weight of the scores; at 0 only the labels count.
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
    labels: Labels,
    *,
    clusters: Clusters = None,
    span: float = 1.0,
    level: float = LEVEL,
) -> PredictionPowered:
    """The mean label of all rows, of which only some are labelled (PPI++; Angelopoulos, Duchi and Zrnic 2023).

    lambda * mean(scores of unlabelled rows) + mean(label - lambda * score over labelled rows), with the lambda that
    minimises the variance: cov(label, score) / ((1 + labelled / unlabelled) * var(score)), cut to 0..1. Valid whatever
    errors the judge makes, but only if the labelled rows are a random sample of all rows and the judge was not tuned on
    their labels.

    The interval adds the squares of two distances (MOVER; Zou and Donner 2008), those of the bounded means of the
    corrections and of the predictions: t intervals are too narrow where few labels show none of a good judge's errors.
    In clusters, which may have rows of both kinds, it is t with the error summed by cluster. Where the labels alone
    have the narrower interval (few of them, mostly), they alone count, and the weight is 0.

    Args:
        scores: (rows,): the judge's score of every row, in 0 to `span`.
        labels: (rows,): in the same range, None where a row has no label.

    Raises:
        ValueError: no labelled row, not one label or None per row, a number that is not finite.

    >>> scores = [1, 1, 1, 0, 0] * 20
    >>> labels = [*[1, 1, 0, 0, 0] * 10, *[None] * 50]
    >>> found = ppi_mean(scores, labels)
    >>> round(found.value, 3), round(found.weight, 3)
    (0.4, 0.333)
    """
    judged = numbers(scores, "scores")
    known, truth = _labels(labels, len(judged))
    return _ppi(judged, known, truth, codes_of(clusters, len(judged)), (0.0, span), level)


def ppi_difference(
    old_scores: npt.ArrayLike,
    new_scores: npt.ArrayLike,
    old_labels: Labels,
    new_labels: Labels,
    *,
    clusters: Clusters = None,
    span: float = 1.0,
    level: float = LEVEL,
) -> PredictionPowered:
    """The mean difference of labels, new - old, of two releases on the same rows: `ppi_mean` of the differences.

    A row counts as labelled where both releases have a label.

    Raises:
        ValueError: no row labelled in both, not the same number of rows, a number that is not finite.

    >>> old, new = [1, 0, 0, 1] * 10, [1, 1, 0, 1] * 10
    >>> labels_old, labels_new = [1, 0, 0, 0] * 5 + [None] * 20, [1, 1, 0, 0] * 5 + [None] * 20
    >>> ppi_difference(old, new, labels_old, labels_new).value
    0.25
    """
    old, new = numbers(old_scores, "old_scores"), numbers(new_scores, "new_scores")
    check_same_rows(old, new, "old_scores and new_scores")
    old_known, old_truth = _labels(old_labels, len(old))
    new_known, new_truth = _labels(new_labels, len(old))
    return _ppi(
        new - old, old_known & new_known, new_truth - old_truth, codes_of(clusters, len(old)), (-span, span), level
    )


def rogan_gladen(positive: int, n: int, calibration: Confusion, level: float = LEVEL) -> Estimate | None:
    """The share of correct answers, estimated from a judge's share of positive verdicts (Rogan and Gladen 1978).

    (p + specificity - 1) / (sensitivity + specificity - 1), cut to 0..1, with the interval of Lang and Reiczigel
    (2014). For rows without labels, from a calibration on other rows. The share of correct answers may differ between
    the two, but the judge must err as often on these rows as on those; where this run has labels, use `ppi_mean`.

    Args:
        positive: verdicts of 1 among `n`, the rows to be corrected.
        calibration: the judge against labels, on other rows.

    Returns:
        None where the judge is no better than chance, or the calibration has only one kind of label.

    Raises:
        ValueError: impossible counts.

    >>> calibration = Confusion(true_positive=90, false_positive=20, false_negative=10, true_negative=80)
    >>> round(rogan_gladen(60, 100, calibration).value, 3)
    0.571
    """
    if not 0 <= positive <= n or n < 1 or min(calibration) < 0:
        raise ValueError(f"counts: 0 <= positive <= n and n >= 1 are needed, not {positive} of {n}, {calibration}")
    right, fooled, missed, caught = calibration
    ones, zeros = right + missed, fooled + caught
    if not ones or not zeros or right * zeros + caught * ones <= ones * zeros:
        return None
    value = _true_share(positive / n, right / ones, caught / zeros)
    interval = _lang_reiczigel(positive, n, calibration, level) if min(n, ones, zeros) > 1 else None
    return Estimate(min(1.0, max(0.0, value)), interval)


def _true_share(share: float, sensitivity: float, specificity: float) -> float:
    return (share + specificity - 1) / (sensitivity + specificity - 1)


def _lang_reiczigel(positive: int, n: int, calibration: Confusion, level: float) -> Interval:
    """Wald's interval around estimates that are drawn to the middle, and shifted, as in the paper."""
    z = normal_quantile(level)
    right, fooled, missed, caught = calibration
    # As if z^2 more rows had been judged, half of them positive, and two more of each label, one of them wrongly.
    rows, ones, zeros = n + z * z, right + missed + 2, fooled + caught + 2
    share, sensitivity, specificity = (positive + z * z / 2) / rows, (right + 1) / ones, (caught + 1) / zeros
    if sensitivity + specificity <= 1:
        # With so few labels the judge may be no better than chance, so any share is possible.
        return Interval(0.0, 1.0, "lang-reiczigel")
    value = _true_share(share, sensitivity, specificity)
    doubt, doubt_zeros = sensitivity * (1 - sensitivity) / ones, specificity * (1 - specificity) / zeros
    shift = 2 * z * z * (value * doubt - (1 - value) * doubt_zeros)
    variance = share * (1 - share) / rows + value * value * doubt + (1 - value) ** 2 * doubt_zeros
    margin = z * math.sqrt(variance) / (sensitivity + specificity - 1)
    centre = value + shift
    low, high = (min(1.0, max(0.0, end)) for end in (centre - margin, centre + margin))
    return Interval(low, high, "lang-reiczigel")


def _labels(labels: Labels, n: int) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Which rows have a label, and the labels, with 0 for rows without one."""
    if len(labels) != n:
        raise ValueError(f"labels: {len(labels)} of them for {n} rows")
    known = np.array([label is not None for label in labels], np.bool_)
    return known, numbers([0.0 if label is None else label for label in labels], "labels")


def _ppi(
    judged: Floats,
    known: npt.NDArray[np.bool_],
    truth: Floats,
    codes: Codes | None,
    ends: tuple[float, float],
    level: float,
) -> PredictionPowered:
    """PPI++ for a mean; the labels alone where that makes the narrower interval."""
    labelled, unlabelled = int(known.sum()), int((~known).sum())
    if not labelled:
        raise ValueError("labels: at least one row must have one")

    low, high = ends
    alone = _mean(truth, known, codes, low, high, level)
    weight = _weight(judged, known, truth)
    if weight and alone.interval:
        corrections = _mean(truth - weight * judged, known, codes, low - weight * high, high - weight * low, level)
        predicted = _mean(-weight * judged, ~known, codes, -weight * high, -weight * low, level)
        value = corrections.value - predicted.value
        if codes is None:
            interval = independent_difference(corrections, predicted)
        else:
            interval = _clustered(value, (truth - weight * judged, weight * judged), known, codes, high - low, level)
        inside = interval and interval.clipped(low, high)._replace(method="ppi" if codes is None else "cluster-ppi-t")
        if inside and inside.high - inside.low < alone.interval.high - alone.interval.low:
            return PredictionPowered(min(high, max(low, value)), inside, weight, labelled, unlabelled)
    return PredictionPowered(alone.value, alone.interval, 0.0, labelled, unlabelled)


def _mean(
    values: Floats, rows: npt.NDArray[np.bool_], codes: Codes | None, low: float, high: float, level: float
) -> Estimate:
    """Of the values of `rows`, which lie in `low` to `high`."""
    part = values[rows]
    clusters = None if codes is None else codes[rows]
    return Estimate(mean(part), mean_interval(part, clusters, low=low, high=high, level=level))


def _clustered(
    value: float, parts: tuple[Floats, Floats], known: npt.NDArray[np.bool_], codes: Codes, span: float, level: float
) -> Interval | None:
    """t interval with the error summed by cluster, since a cluster may have rows with a label and rows without one.

    Args:
        parts: (rows,) each: corrections, of which those of labelled rows count, and predictions of the other rows.
    """
    effects = np.zeros(len(known))
    for rows, part in ((known, parts[0]), (~known, parts[1])):
        effects[rows] = (part[rows] - mean(part[rows])) / rows.sum()
    # The weight was fitted to the labelled rows, which costs one of them, as a slope does in a regression.
    return sum_interval(
        value, effects, codes, span=span, method="ppi-t", n=len(np.unique(codes[known])) - 1, level=level
    )


def _weight(judged: Floats, known: npt.NDArray[np.bool_], truth: Floats) -> float:
    """Lambda; 0 where scores cannot help: all rows are labelled, or the labelled ones all have the same score."""
    labelled, unlabelled = int(known.sum()), int((~known).sum())
    scores = judged[known]
    if not unlabelled or not standard_deviation(scores):
        return 0.0
    # Both moments from the labelled rows: their errors cancel, so the ratio is more precise than with var(all scores).
    covariance = np.cov(truth[known], scores)
    slope = float(covariance[0, 1] / covariance[1, 1])
    return min(1.0, max(0.0, slope / (1 + labelled / unlabelled)))
