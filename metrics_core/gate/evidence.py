"""What a gate decides on: paired scores of two releases, how complete they are, and how good the judge is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import (
    Codes,
    Floats,
    Mask,
    mean,
    mean_interval,
    proportion_interval,
    unit_sums,
)
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, Interval
from answerkey.metrics_core.statistics.paired import difference_interval


@dataclass(frozen=True, slots=True)
class Missing:
    """Evidence that is not available: why, and what to do about it, as part of a sentence.

    >>> Missing("v2 has no such field").reason
    'v2 has no such field'
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The scores of one field on one slice, each of shape (samples,), NaN where a sample has no number.

    Attributes:
        old, new: scores of the samples for which both releases have a number, NaN in both for all others.
        own: every score of the new release.
        binary: all scores are 0 or 1. Otherwise they lie in `low` to `high`.

    >>> old, new = np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0])
    >>> statistic_of(PairedScores(old, new, new, binary=True), None, difference=True).means
    (0.6666666666666666, 1.0)
    """

    old: Floats
    new: Floats
    own: Floats
    binary: bool
    low: float = 0.0
    high: float = 1.0

    def drawn(self, rows: npt.NDArray[np.intp], swapped: Mask) -> PairedScores:
        """The samples `rows` (indices), old and new exchanged where `swapped`; `own` is left empty."""
        old, new = self.old[rows], self.new[rows]
        return replace(self, old=np.where(swapped, new, old), new=np.where(swapped, old, new), own=self.own[:0])


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the samples that should have a comparable number in a release have one, and what the others are.

    >>> Coverage("v2", n_wanted=200, n_scored=190, missing={"failed": 10}).share
    0.95
    """

    release: str
    n_wanted: int
    n_scored: int
    missing: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def share(self) -> float:
        """0 to 1; 0 where no sample should have a number, because then nothing is known."""
        return self.n_scored / self.n_wanted if self.n_wanted else 0.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How far a metric agrees with human labels on the answers of `release`; kappa is None where undefined.

    `n` answers have a label; `source` says where the labels come from, as part of a sentence.

    >>> Calibrated("v2", Estimate(0.7, Interval(0.6, 0.8, "delta-log-t")), 200, "of the report").kappa.value
    0.7
    """

    release: str
    kappa: Estimate | None
    n: int
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a policy needs to know about two releases.

    Attributes:
        old, new: their names.
        scores: by field and slice, for those that the policy `needs`.
        coverage: by field, of both releases.
        calibrations: by field, for those that the policy wants calibrated: on the old release and on the new one. A
            judge makes other mistakes on other answers, so neither stands in for the other.
        clusters: (samples,): samples with the same number are not independent; None where all samples are.

    >>> Evidence("v1", "v2", scores={}, coverage={"rouge_l.f1": (Coverage("v2", 200, 190),)}).new
    'v2'
    """

    old: str
    new: str
    scores: Mapping[tuple[str, str], PairedScores | Missing]
    coverage: Mapping[str, tuple[Coverage, ...]]
    calibrations: Mapping[str, tuple[Calibrated | Missing, ...]] = field(default_factory=dict)
    clusters: Codes | None = None


@dataclass(frozen=True, slots=True)
class RuleStatistic:
    """The statistic that a rule puts a floor under: a mean, or a difference of two `means`, from `n` samples.

    `changes` are the samples' differences, or their scores, of shape (n,); `codes` their clusters.

    >>> same = np.zeros(100)
    >>> statistic = statistic_of(PairedScores(same, same, same, binary=True), None, difference=True)
    >>> statistic.value, round(statistic.interval().high, 3)
    (0.0, 0.037)
    """

    value: float
    n: int
    changes: Floats
    codes: Codes | None
    binary: bool
    low: float
    high: float
    means: tuple[float, float] | None

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The interval of the difference or of the mean, by the same methods as in reports and comparisons."""
        if self.means:
            span = self.high - self.low
            return difference_interval(self.changes, self.codes, binary=self.binary, span=span, level=level)
        if self.binary:
            return proportion_interval(self.changes, self.codes, level)
        unclipped = mean_interval(self.changes, self.codes, span=self.high - self.low, level=level)
        return unclipped and unclipped.clipped(self.low, self.high)

    def interval_if_equal(self, level: float = LEVEL) -> Interval | None:
        """Roughly the interval of the difference if the releases were equally good and changed as many answers.

        Changes in both directions spread more around 0 than changes in one direction around their mean.
        """
        observed = self.interval(level)
        sums, centred = (unit_sums(part, self.codes) for part in (self.changes, self.changes - mean(self.changes)))
        spread = float(centred @ centred)
        if observed is None or spread <= 1e-12 * float(sums @ sums):
            return observed
        half = (observed.high - observed.low) / 2 * math.sqrt(float(sums @ sums) / spread)
        return Interval(-half, half, observed.method)


def statistic_of(column: PairedScores, clusters: Codes | None, *, difference: bool) -> RuleStatistic | None:
    """The difference new - old, or the mean of the new release alone; None if no sample has a number.

    >>> nothing = np.full(3, np.nan)
    >>> statistic_of(PairedScores(nothing, nothing, nothing, binary=True), None, difference=True) is None
    True
    """
    known = np.isfinite(column.old) if difference else np.isfinite(column.own)
    if not known.any():
        return None
    codes = None if clusters is None else clusters[known]
    # Clusters of one row each are independent rows.
    if codes is not None and len(np.unique(codes)) == len(codes):
        codes = None
    if not difference:
        own = column.own[known]
        return RuleStatistic(mean(own), len(own), own, codes, column.binary, column.low, column.high, None)
    old, new = column.old[known], column.new[known]
    both = mean(old), mean(new)
    return RuleStatistic(mean(new - old), len(old), new - old, codes, column.binary, column.low, column.high, both)
