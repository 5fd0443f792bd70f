"""What a gate decides on: paired scores of two releases, how complete they are, and how good the judge is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.statistics.bounded_mean import Floats, rejects
from answerkey.metrics_core.statistics.clustered import Codes, Mask, mean, mean_interval, proportion_interval, unit_sums
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, Interval
from answerkey.metrics_core.statistics.paired import difference_interval
from answerkey.metrics_core.statistics.power import detectable_loss, needed_to_pass


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

    A sample that the new release did not answer has the lowest score, so that leaving answers out does not pay.

    Attributes:
        old, new: scores of the two releases.
        binary: all scores are 0 or 1. Otherwise they lie in `low` to `high`.
        unanswered: by reason, which samples the new release did not answer: each counts as `low`.
        unmeasured: by reason, which answers of the new release were not scored: each may be anything in `low` to
            `high`.
        changed: samples with another question or other references in the data set of the new release; None: no sample.
        left_out: of several answers to a question, how many the new release did not give, where it gave others: in
            `new` they count as `low`. None: every answer was given.

    >>> old, new = np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, np.nan])
    >>> column = PairedScores(old, new, binary=True, unanswered={"absent": np.array([False, False, True])})
    >>> statistic_of(column, None, difference=True).means
    (0.6666666666666666, 0.6666666666666666)
    """

    old: Floats
    new: Floats
    binary: bool
    low: float = 0.0
    high: float = 1.0
    unanswered: Mapping[str, Mask] = field(default_factory=dict)
    unmeasured: Mapping[str, Mask] = field(default_factory=dict)
    changed: Mask | None = None
    left_out: npt.NDArray[np.int64] | None = None

    def filled(self, unmeasured: float) -> Floats:
        """Scores of the new release with a number for every answer that should have one."""
        new = self.new.copy()
        for masks, value in ((self.unanswered, self.low), (self.unmeasured, unmeasured)):
            for mask in masks.values():
                new[mask] = value
        return new

    def paired(self) -> PairedScores:
        """The samples with a number in both releases, NaN in both for all others."""
        known = self.comparable() & np.isfinite(self.new)
        old, new = (np.where(known, side, np.nan) for side in (self.old, self.new))
        return PairedScores(old, new, self.binary, self.low, self.high)

    def drawn(self, rows: npt.NDArray[np.intp], swapped: Mask) -> PairedScores:
        """The samples `rows` (indices) of `paired` scores, old and new exchanged where `swapped`."""
        old, new = self.old[rows], self.new[rows]
        return replace(self, old=np.where(swapped, new, old), new=np.where(swapped, old, new))

    def comparable(self) -> Mask:
        """Which samples have a number in the old release, and the same question and references in both."""
        return np.isfinite(self.old) if self.changed is None else np.isfinite(self.old) & ~self.changed


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

    Attributes:
        changes: the samples' differences, or their scores, of shape (n,); `codes`: their clusters, of which there are
            `n_clusters`. None where all samples are independent.
        unanswered: by reason, how many of the samples count as the lowest score; `unmeasured`: how many were not
            scored, and count as `unmeasured_as`.
        n_changed: samples that are left out, because the question or the references changed.
        left_out: answers that count as the lowest score within the mean of a sample that has others, and how many
            samples these are.

    >>> same = np.zeros(100)
    >>> statistic = statistic_of(PairedScores(same, same, binary=True), None, difference=True)
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
    n_clusters: int | None = None
    unanswered: Mapping[str, int] = field(default_factory=dict)
    unmeasured: Mapping[str, int] = field(default_factory=dict)
    unmeasured_as: float = 0.0
    n_changed: int = 0
    left_out: tuple[int, int] = (0, 0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value that a change, or a score, can have."""
        return (self.low - self.high, self.high - self.low) if self.means else (self.low, self.high)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The interval of the difference or of the mean, by the same methods as in reports and comparisons."""
        if self.means:
            span = self.high - self.low
            if self.binary and self.codes is None:
                return _interval_of_counts(int((self.changes > 0).sum()), int((self.changes < 0).sum()), self.n, level)
            return difference_interval(self.changes, self.codes, binary=self.binary, span=span, level=level)
        if self.binary:
            return proportion_interval(self.changes, self.codes, level)
        return mean_interval(self.changes, self.codes, low=self.low, high=self.high, level=level)

    def above(self, floor: float, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies above `floor`."""
        return self._beyond(floor, level, 1)

    def below(self, floor: float, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies below `floor`."""
        return self._beyond(floor, level, -1)

    def _beyond(self, floor: float, level: float, sign: int) -> bool:
        """The same as by the ends of the interval, and much quicker than finding them."""
        if self.n < 2 or self.n_clusters == 1:
            return False
        if self.binary and self.codes is None:
            interval = self.interval(level)
            return interval is not None and (interval.low > floor if sign > 0 else interval.high < floor)
        low, high = self.bounds if sign > 0 else (-self.bounds[1], -self.bounds[0])
        sums = sign * unit_sums(self.changes, self.codes)
        sizes = 1.0 if self.codes is None else np.bincount(self.codes).astype(np.float64)
        return bool(rejects([sums], sign * floor, sizes, low=low, high=high, alpha=(1 - level) / 2)[0])

    def needed_to_pass(self, floor: float, mean: float, level: float = LEVEL) -> int | None:
        """About how many samples like these would lie above `floor` with a power of 80 %, were `mean` the true mean."""
        return needed_to_pass(
            self.changes, self.codes, floor, mean, binary=self.binary, bounds=self.bounds, level=level
        )

    def detectable_loss(self, floor: float, most: float, level: float = LEVEL) -> float | None:
        """The smallest true loss, up to `most`, that such samples show to be below `floor` with a power of 80 %."""
        return detectable_loss(
            self.changes, self.codes, floor, most, binary=self.binary, bounds=self.bounds, level=level
        )


def statistic_of(
    column: PairedScores, clusters: Codes | None, *, difference: bool, best: bool = False
) -> RuleStatistic | None:
    """The difference new - old, or the mean of the new release alone; None if no sample has a number.

    Args:
        clusters: of all samples, shape (samples,); None where all are independent.
        best: count answers that were not measured as the highest score. By default they count as the lowest.

    >>> nothing = np.full(3, np.nan)
    >>> statistic_of(PairedScores(nothing, nothing, binary=True), None, difference=True) is None
    True
    """
    unmeasured_as = column.high if best else column.low
    new = column.filled(unmeasured_as)
    known = np.isfinite(new) & column.comparable() if difference else np.isfinite(new)
    if not known.any():
        return None
    codes = None if clusters is None else np.unique(clusters[known], return_inverse=True)[1]
    # Clusters of one row each are independent rows.
    n_clusters = None if codes is None or int(codes.max()) + 1 == len(codes) else int(codes.max()) + 1
    scores = new[known]
    old = column.old[known]
    both = (mean(old), mean(scores)) if difference else None
    changes = scores - old if difference else scores
    return RuleStatistic(
        mean(changes),
        len(changes),
        changes,
        None if n_clusters is None else codes,
        column.binary,
        column.low,
        column.high,
        both,
        n_clusters,
        _counts(column.unanswered, known),
        _counts(column.unmeasured, known),
        unmeasured_as,
        int((column.changed & np.isfinite(column.old)).sum()) if difference and column.changed is not None else 0,
        (0, 0) if column.left_out is None else _left_out(column.left_out[known]),
    )


def _left_out(answers: npt.NDArray[np.int64]) -> tuple[int, int]:
    return int(answers.sum()), int((answers > 0).sum())


@lru_cache(maxsize=4096)
def _interval_of_counts(fixed: int, broken: int, n: int, level: float) -> Interval | None:
    """Of a difference of 0/1 scores. A simulation meets the same counts again and again."""
    changes = np.repeat([1.0, -1.0, 0.0], [fixed, broken, n - fixed - broken])
    return difference_interval(changes, None, binary=True, level=level)


def _counts(masks: Mapping[str, Mask], known: Mask) -> dict[str, int]:
    return {reason: n for reason, mask in masks.items() if (n := int((mask & known).sum()))}
