"""What a gate decides on: two releases on the same samples, how complete their scores are, and how good a judge is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.clustered import (
    Codes,
    Floats,
    mean,
    mean_interval,
    proportion_interval,
    unit_sums,
)
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, Interval
from answerkey.metrics_core.statistics.paired import difference_interval

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is nothing to decide on, and what to do about it; a part of a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Column:
    """One field on one slice, by sample: shape (samples,), NaN where there is no number.

    Attributes:
        old, new: scores of the samples that both releases have a number for, NaN in both for all others.
        own: every score of the new release.
        binary: all scores are 0 or 1. Otherwise they lie in `low` to `high`.
    """

    old: Floats
    new: Floats
    own: Floats
    binary: bool
    low: float = 0.0
    high: float = 1.0

    def drawn(self, rows: npt.NDArray[np.intp], swapped: Mask) -> Column:
        """The samples `rows`, with old and new exchanged where `swapped`; without the scores of one release only."""
        old, new = self.old[rows], self.new[rows]
        return replace(self, old=np.where(swapped, new, old), new=np.where(swapped, old, new), own=self.own[:0])


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the samples that should have a comparable number have one in a release, and what the others are."""

    release: str
    n_wanted: int
    n_scored: int
    missing: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def share(self) -> float:
        """0 to 1; 0 where no sample should have a number, because nothing is known then."""
        return self.n_scored / self.n_wanted if self.n_wanted else 0.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How far a metric agrees with people on the answers of `release`; kappa is None where undefined.

    `n` answers have a label, and `source` says where the labels are from, as a part of a sentence.
    """

    release: str
    kappa: Estimate | None
    n: int
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a policy asks about two releases.

    Attributes:
        old, new: their names.
        columns: by field and slice, for those of the policy's `needs`.
        coverage: by field, of both releases.
        calibrations: by field, of those that the policy wants calibrated: on the old release, and on the new one. A
            judge errs in another way on other answers, so neither speaks for the other.
        clusters: (samples,): what is not independent, None where all samples are.
    """

    old: str
    new: str
    columns: Mapping[tuple[str, str], Column | Missing]
    coverage: Mapping[str, tuple[Coverage, ...]]
    calibrations: Mapping[str, tuple[Calibrated | Missing, ...]] = field(default_factory=dict)
    clusters: Codes | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The numbers of one rule: `value` with an interval, from `n` samples. A difference also has both means."""

    value: float
    n: int
    changes: Floats
    codes: Codes | None
    binary: bool
    low: float
    high: float
    means: tuple[float, float] | None

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Of the difference, or of the mean, as in reports and comparisons."""
        if self.means:
            span = self.high - self.low
            return difference_interval(self.changes, self.codes, binary=self.binary, span=span, level=level)
        if self.binary:
            return proportion_interval(self.changes, self.codes, level)
        found = mean_interval(self.changes, self.codes, span=self.high - self.low, level=level)
        return found and found.clipped(self.low, self.high)

    def interval_if_equal(self, level: float = LEVEL) -> Interval | None:
        """About the interval of a difference, had the releases been equally good and changed as much.

        Changes to both sides spread more around 0 than changes to one side around their mean.
        """
        found = self.interval(level)
        sums, centred = (unit_sums(part, self.codes) for part in (self.changes, self.changes - mean(self.changes)))
        spread = float(centred @ centred)
        if found is None or spread <= 1e-12 * float(sums @ sums):
            return found
        half = (found.high - found.low) / 2 * math.sqrt(float(sums @ sums) / spread)
        return Interval(-half, half, found.method)


def side_of(column: Column, clusters: Codes | None, *, difference: bool) -> Side | None:
    """The difference new - old of a column, or the mean of the new release alone; None without a sample."""
    known = np.isfinite(column.old) if difference else np.isfinite(column.own)
    if not known.any():
        return None
    codes = None if clusters is None else clusters[known]
    # Rows that are each on their own are independent, whatever their clusters are called.
    if codes is not None and len(np.unique(codes)) == len(codes):
        codes = None
    if not difference:
        own = column.own[known]
        return Side(mean(own), len(own), own, codes, column.binary, column.low, column.high, None)
    old, new = column.old[known], column.new[known]
    both = mean(old), mean(new)
    return Side(mean(new - old), len(old), new - old, codes, column.binary, column.low, column.high, both)
