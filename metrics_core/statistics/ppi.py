"""Means that are corrected for a judge's errors, from rows that people labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.agreement import Confusion
from answerkey.metrics_core.statistics.clustered import (
    Clusters,
    Codes,
    Floats,
    check_same_rows,
    codes_of,
    mean,
    numbers,
    standard_deviation,
    sum_interval,
)
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, Interval, normal_quantile

Labels = Sequence[float | None]
"""The label of each row, None where nobody labelled it."""


@dataclass(frozen=True, slots=True)
class PredictionPowered:
    """A mean as people would have given it, from some labels and all scores.

    Attributes:
        value: the estimate; `interval`: None for fewer than two labelled rows (clusters), or three if weight > 0.
        weight: lambda in 0..1, how much the scores are trusted: at 0 only the labels count.
        labelled: rows with a label; `unlabelled`: rows with a score only.
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
    """The mean label of all rows, though only some are labelled (PPI++, Angelopoulos, Duchi and Zrnic 2023).

    lambda * mean(scores of unlabelled rows) + mean(label - lambda * score over labelled rows), with the lambda that
    makes the variance smallest: cov(label, score) / ((1 + labelled / unlabelled) * var(score)), cut to 0..1. For
    many rows it is never wider than the labels alone. Holds whatever the judge's errors are, but only where the
    labelled rows are a random sample of all rows and the judge was not tuned on their labels.

    The interval is t, with the degrees of freedom of the labelled rows (clusters), not cut to the metric's range.

    Args:
        scores: (rows,): the judge's score of every row, in a range of length `span`.
        labels: (rows,): in the same range, None where there is none.

    Raises:
        ValueError: no labelled row, not one label or None a row, a number that is not finite.
    """
    judged = numbers(scores, "scores")
    known, truth = _labels(labels, len(judged))
    return _ppi(judged, known, truth, codes_of(clusters, len(judged)), span, level)


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
    """
    old, new = numbers(old_scores, "old_scores"), numbers(new_scores, "new_scores")
    check_same_rows(old, new, "old_scores and new_scores")
    old_known, old_truth = _labels(old_labels, len(old))
    new_known, new_truth = _labels(new_labels, len(old))
    return _ppi(new - old, old_known & new_known, new_truth - old_truth, codes_of(clusters, len(old)), 2 * span, level)


def rogan_gladen(positive: int, n: int, calibration: Confusion, level: float = LEVEL) -> Estimate | None:
    """The share of right answers behind a judge's share of positive verdicts (Rogan and Gladen 1978).

    (p + specificity - 1) / (sensitivity + specificity - 1), cut to 0..1, with the interval of Lang and Reiczigel
    (2014). For rows without labels and a calibration on other rows. It carries over to another share of right answers,
    but only as far as the judge errs as often on these rows as on those; where this run has labels, use `ppi_mean`.

    Args:
        positive: verdicts of 1 among `n`, the rows to be corrected.
        calibration: the judge against labels, on other rows.

    Returns:
        None where the judge is no better than chance, or the calibration lacks one of the labels.

    Raises:
        ValueError: counts that cannot be.
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
    # As if z^2 rows more had been judged, half of them positive, and two more of each label, one of them wrongly.
    rows, ones, zeros = n + z * z, right + missed + 2, fooled + caught + 2
    share, sensitivity, specificity = (positive + z * z / 2) / rows, (right + 1) / ones, (caught + 1) / zeros
    if sensitivity + specificity <= 1:
        # So few labels that the judge may be no better than chance: any share is possible.
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
    """Which rows have a label, and the labels with 0 for none."""
    if len(labels) != n:
        raise ValueError(f"labels: {len(labels)} of them for {n} rows")
    known = np.array([label is not None for label in labels], np.bool_)
    return known, numbers([0.0 if label is None else label for label in labels], "labels")


def _ppi(
    judged: Floats, known: npt.NDArray[np.bool_], truth: Floats, codes: Codes | None, span: float, level: float
) -> PredictionPowered:
    """PPI++ for a mean, with the error summed by cluster where there are clusters."""
    labelled, unlabelled = int(known.sum()), int((~known).sum())
    if not labelled:
        raise ValueError("labels: at least one row must have one")
    weight = _weight(judged, known, truth)
    rest, corrections = weight * judged[~known], (truth - weight * judged)[known]
    value = mean(corrections) + (mean(rest) if unlabelled else 0.0)
    effects = np.zeros(len(judged))
    for chosen, part in ((known, corrections), (~known, rest)):
        if len(part):
            effects[chosen] = (part - mean(part)) / len(part)
    # The weight was fitted to the labelled rows, which costs one of them, as a slope does in a regression.
    units = (labelled if codes is None else len(np.unique(codes[known]))) - (weight > 0)
    interval = sum_interval(value, effects, codes, span=span, method="ppi-t", n=units, level=level)
    return PredictionPowered(value, interval, weight, labelled, unlabelled)


def _weight(judged: Floats, known: npt.NDArray[np.bool_], truth: Floats) -> float:
    """Lambda; 0 where nothing can be learned: all rows labelled, or the labelled ones have no spread of scores."""
    labelled, unlabelled = int(known.sum()), int((~known).sum())
    scores = judged[known]
    if not unlabelled or not standard_deviation(scores):
        return 0.0
    # Both moments from the labelled rows: their errors cancel, and the ratio is surer than with var(all scores).
    covariance = np.cov(truth[known], scores)
    slope = float(covariance[0, 1] / covariance[1, 1])
    return min(1.0, max(0.0, slope / (1 + labelled / unlabelled)))
