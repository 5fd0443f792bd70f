"""The evidence of a gate: paired scores of two releases, their coverage, and the quality of the judge."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .bounded_mean import Floats, assumed_range, rejects
from .clustered import Codes, Mask, mean, mean_interval, proportion_interval, unit_sums
from .intervals import (
    LEVEL,
    Count,
    Estimate,
    Interval,
    proportions_above,
    unpaired_proportions,
)
from .multiple_testing import planned_level
from .paired import change_range, difference_interval
from .power import needed_by_width, needed_to_pass
from .ppi import PredictionPowered, ppi_difference

Basis = Literal["people", "people and judge", "judge", "text", "given"]
"""The basis of a number: human labels, labels that correct a judge, a judge alone, the text alone, or scores that
another tool gave."""

OFFLINE_ALONE = "|judge:offline@"
"""In the signature of a metric whose verdicts are all the offline judge's; a cascade has another judge."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Missing evidence: the reason and the remedy, as part of a sentence.

    >>> Missing("v2 has no such field").reason
    'v2 has no such field'
    """

    reason: str


class Veto(NamedTuple):
    """The reason why the numbers of a METRIC.FIELD decide nothing, as part of a sentence: its rules are INCOMPLETE.

    >>> Veto("meaning_match.match", "the judge was replaced by its fallback on 40 of 100 answers of v2").field
    'meaning_match.match'
    """

    field: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class LabelDraw:
    """How the samples with human labels were drawn, and how often their labels are analysed.

    Attributes:
        chances: (samples,): the probability of each sample to be labelled by now.
        drawn: (samples,): those that were drawn by now; others may have labels without a draw.
        fractions: (analyses,): labelled / planned samples at each interim analysis up to this one.
        planned: the number of analyses; each may spend an equal part of the error.

    >>> LabelDraw(np.full(4, 0.5), np.array([True, False, False, True]), (0.5, 1.0), 2).level(0.95) > 0.95
    True
    """

    chances: Floats
    drawn: Mask
    fractions: tuple[float, ...]
    planned: int

    def level(self, level: float) -> float:
        """The level of this analysis, so that the intervals of all analyses together have `level`."""
        return _level_of(self.fractions, self.planned, level)


@cache
def _level_of(fractions: tuple[float, ...], planned: int, level: float) -> float:
    spent = [analysis / planned for analysis in range(1, len(fractions) + 1)]
    return planned_level(fractions, spent=spent, level=level)


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The scores of one field on one slice, of shape (samples,) each; NaN for no number.

    A sample that the new release did not answer gets the lowest score, so that leaving answers out does not pay.

    Attributes:
        old, new: scores of the two releases.
        binary: whether all scores are 0 or 1. Otherwise they lie in `low` to `high`.
        limits: where scores have an open end, the range that they could have. `low` and `high` are then the lowest and
            the highest that either release has, which missing answers get.
        unanswered: by reason, the samples that the new release did not answer; each counts as `low`.
        unmeasured: by reason, the samples whose answers in the new release were not scored; each may score anything in
            `low` to `high`.
        unmeasured_old: those whose answers in the old release were not scored; None for no sample.
        changed: samples whose question or references differ in the data set of the new release; None for no sample.
        left_out: for samples with several answers, the number of answers that the new release did not give although it
            gave others; in `new` they count as `low`. None if all were given.
        labels: human labels of the answers of the old and of the new release: 0, 1, or NaN for no label. None if one of
            the two has no labels, or the field is not about what the labels are about.
        draw: how the samples with labels were drawn; None where it is not known, or all have the same probability.

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
    labels: tuple[Floats, Floats] | None = None
    draw: LabelDraw | None = None
    unmeasured_old: Mask | None = None
    limits: tuple[float, float] | None = None

    def as_predictions(self) -> PairedScores:
        """The scores as predictions of labels: answers that were not scored count as `low` in the old release too.

        >>> old, unmeasured = np.array([1.0, np.nan]), np.array([False, True])
        >>> PairedScores(old, np.ones(2), binary=True, unmeasured_old=unmeasured).as_predictions().old.tolist()
        [1.0, 0.0]
        """
        return self.with_old(self.low)

    def with_old(self, unmeasured: float) -> PairedScores:
        """The scores with `unmeasured` for answers of the old release that were not scored."""
        if self.unmeasured_old is None:
            return self
        return replace(self, old=np.where(self.unmeasured_old, unmeasured, self.old), unmeasured_old=None)

    def by_people(self) -> PairedScores | None:
        """The human labels in place of the scores, on the samples that have one in both releases.

        An answer that the new release did not give counts as wrong.
        """
        if self.labels is None:
            return None
        old, new = self.labels
        # People label answers, so an answer that is missing has no label and needs none
        answered = ~np.any([np.zeros(len(old), bool), *self.unanswered.values()], axis=0)
        labelled = np.isfinite(old) & (np.isfinite(new) | ~answered) & self._unchanged()
        unanswered = {reason: mask & labelled for reason, mask in self.unanswered.items()}
        return PairedScores(
            np.where(labelled, old, np.nan),
            np.where(labelled & answered, new, np.nan),
            binary=True,
            unanswered=unanswered,
            changed=self.changed,
        )

    def filled(self, unmeasured: float) -> Floats:
        """The scores of the new release, with `low` for missing answers and `unmeasured` for unscored ones."""
        # The scores themselves stay as they are: a sample may be filled with the worst and with the best
        new = self.new.copy()
        for mask in self.unanswered.values():
            new[mask] = self.low
        for mask in self.unmeasured.values():
            new[mask] = unmeasured
        return new

    def comparable(self) -> Mask:
        """The samples with a number in the old release, and the same question and references in both."""
        return np.isfinite(self.old) & self._unchanged()

    def _unchanged(self) -> Mask:
        return np.ones(len(self.old), bool) if self.changed is None else ~self.changed


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of samples with a comparable number in a release, of those that should have one, and what others lack.

    >>> Coverage("v2", n_wanted=200, n_scored=190, missing={"failed": 10}).share
    0.95
    """

    release: str
    n_wanted: int
    n_scored: int
    missing: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def share(self) -> float:
        """The share of samples with a number, 0 to 1; 0 if no sample should have one, because then nothing is known."""
        return self.n_scored / self.n_wanted if self.n_wanted else 0.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The agreement of a metric with human labels on the answers of `release`; kappa is None if undefined.

    `n` answers have a label; `source` is their origin, as part of a sentence.

    >>> Calibrated("v2", Estimate(0.7, Interval(0.6, 0.8, "delta-log-t")), 200, "of the report").kappa.value
    0.7
    """

    release: str
    kappa: Estimate | None
    n: int
    source: str


@dataclass(frozen=True, slots=True)
class Depth:
    """The number of verdicts on a release that the offline judge flags as outside its training data, and why.

    >>> Depth("v2", n=500, flagged=10, why="10 in a language of which it has seen little").share
    0.98
    """

    release: str
    n: int
    flagged: int
    why: str = ""

    @property
    def share(self) -> float:
        """The share of verdicts without a flag, 0 to 1."""
        return 1 - self.flagged / self.n if self.n else 0.0


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
        vetoes: by field, the reasons why its numbers decide nothing, each as part of a sentence.
        notes: sentences for the reader of the verdict, which do not change it.
        bases: by field, the basis of its scores; by default `text`.
        depth: by field that the offline judge scored, on the old release and on the new one.
        counts: right answers and all answers of each release, where nothing else is known of them.

    >>> Evidence("v1", "v2", scores={}, coverage={"rouge_l.f1": (Coverage("v2", 200, 190),)}).new
    'v2'
    """

    old: str
    new: str
    scores: Mapping[tuple[str, str], PairedScores | Missing]
    coverage: Mapping[str, tuple[Coverage, ...]]
    calibrations: Mapping[str, tuple[Calibrated | Missing, ...]] = field(default_factory=dict)
    clusters: Codes | None = None
    vetoes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bases: Mapping[str, Basis] = field(default_factory=dict)
    depth: Mapping[str, tuple[Depth, ...]] = field(default_factory=dict)
    counts: tuple[Count, Count] | None = None


@dataclass(frozen=True, slots=True)
class RuleStatistic:
    """The statistic that a rule puts a floor under: a mean, or a difference of two `means`, from `n` samples.

    Attributes:
        changes: the samples' differences, or their scores, of shape (n,); `codes`: their clusters, of which there are
            `n_clusters`. None where all samples are independent.
        unanswered: by reason, the number of samples that count as the lowest score; `unmeasured`: the number of samples
            that were not scored, and count as `unmeasured_as`; `unmeasured_old`: the number of those that were not
            scored in the old release, and count there as the other end of the range.
        n_changed: samples that are left out because the question or the references changed.
        left_out: the number of answers that count as the lowest score within the mean of a sample with further answers,
            and the number of such samples.
        counts: the old and the new release as counts of different samples, in place of `changes`.
        bounds: the lowest and the highest value that a change, or a score, can have, or is assumed to have.
        n_labelled: for a statistic of human labels, the number of samples with a label in both releases; `judged`: the
            difference in the scores of the same samples. Both are None for a statistic of scores.

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
    unmeasured_old: int = 0
    n_changed: int = 0
    left_out: tuple[int, int] = (0, 0)
    n_labelled: int | None = None
    judged: float | None = None
    counts: tuple[Count, Count] | None = None
    bounds: tuple[float, float] = (-1.0, 1.0)

    @property
    def _is_one_unit(self) -> bool:
        """Whether there is a single independent unit, from which no interval follows."""
        return self.n < 2 or self.n_clusters == 1

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The interval of the difference or of the mean, by the methods of reports and comparisons."""
        if self.counts:
            return unpaired_proportions(*self.counts, level)
        if self.means:
            return difference_interval(self.changes, self.codes, binary=self.binary, bounds=self.bounds, level=level)
        if self.binary:
            return proportion_interval(self.changes, self.codes, level)
        return mean_interval(self.changes, self.codes, low=self.bounds[0], high=self.bounds[1], level=level)

    def lies_beyond(self, floor: float, sign: int, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies above `floor` (`sign` 1), or below it (-1).

        This equals a comparison with the end of the interval, and is much faster than finding it.
        """
        if self._is_one_unit:
            return False
        if not self.binary or self.codes is not None:
            return _mean_beyond(self.changes, self.codes, self.bounds, floor=floor, sign=sign, level=level)
        if not self.means or self.counts:
            return _interval_beyond(self.interval(level), floor, sign)
        # Independent zeros and ones need no root of the score test
        n_better = int((sign * self.changes > 0).sum())
        n_worse = int((sign * self.changes < 0).sum())
        return bool(proportions_above(n_better, n_worse, self.n, sign * floor, level=level))

    def needed_to_pass(self, floor: float, mean: float) -> int | None:
        """About how many samples like these would lie above `floor` with a power of 80 % if `mean` were true."""
        if self.counts:
            return needed_by_width(self.interval(), mean - floor, self.n)
        return needed_to_pass(self.changes, self.codes, floor, mean, binary=self.binary, bounds=self.bounds)


@dataclass(frozen=True, slots=True)
class CorrectedStatistic(RuleStatistic):
    """The difference in human labels over all samples, of which only some have labels (prediction-powered inference).

    `scores` and `labels` belong to the old and to the new release, of shape (n,) each, from 0 to 1; a missing label is
    NaN. `means` are those of the labels, `changes` those of the scores.

    >>> right, labels = np.repeat([1.0, 0.0], [50, 50]), [1.0, 0.0] * 25 + [None] * 50
    >>> column = PairedScores(right, right, binary=True, labels=(np.array(labels, float), np.array(labels, float)))
    >>> statistic = people_statistic(column, None)
    >>> type(statistic).__name__, statistic.n, statistic.n_labelled
    ('CorrectedStatistic', 100, 50)
    """

    scores: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
    labels: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
    draw: LabelDraw | None = None

    def estimate(self, level: float = LEVEL) -> PredictionPowered:
        """The estimate at the level of this analysis; the intervals of all analyses of a draw together have `level`."""
        # Of a draw, each analysis spends a part of the error
        chances = self.draw.chances if self.draw else None
        level = self.draw.level(level) if self.draw else level
        return ppi_difference(*self.scores, *self.labels, clusters=self.codes, level=level, probabilities=chances)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The interval of the difference in labels, valid whatever errors the scores have."""
        return self.estimate(level).interval

    def lies_beyond(self, floor: float, sign: int, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies above `floor` (`sign` 1), or below it (-1)."""
        return _interval_beyond(self.interval(level), floor, sign)

    def needed_to_pass(self, floor: float, mean: float) -> int | None:
        """About how many labels would lift the interval above `floor` with a power of 80 % if `mean` were true."""
        # Labels cost work, and scores none: so the labels are counted
        if mean <= floor or not self.n_labelled:
            return None
        return needed_by_width(self.interval(), mean - floor, self.n_labelled)


def people_statistic(column: PairedScores, clusters: Codes | None) -> RuleStatistic | None:
    """The difference new - old in human labels; the scores predict the labels that are missing.

    None if no sample has a label in both releases.

    >>> old, new = np.ones(100), np.repeat([1.0, 0.0], [90, 10])
    >>> labels = (np.where(np.arange(100) % 2, old, np.nan), np.where(np.arange(100) % 2, new, np.nan))
    >>> result = people_statistic(PairedScores(old, new, binary=True, labels=labels), None)
    >>> result.n, result.n_labelled, round(result.value, 3)
    (100, 50, -0.1)
    """
    column = column.as_predictions()
    people = column.by_people()
    if people is None:
        return None
    # What the labels say alone, and where nothing has to be predicted
    labels_only = statistic_of(people, clusters, difference=True)
    if labels_only is None:
        return None
    scores = statistic_of(column, clusters, difference=True)
    new_scores = column.filled(column.low)
    new_labels = people.filled(0.0)
    rows = np.isfinite(new_scores) & column.comparable()
    labelled = np.isfinite(new_labels) & rows
    if scores is None or not labelled.any() or (labelled.sum() == rows.sum() and column.draw is None):
        return replace(labels_only, n_labelled=labels_only.n, judged=scores.value if scores else None)

    # Some samples have no label, or labels are analysed several times: the scores, from 0 to 1, predict them
    n_labelled = int(labelled.sum())
    draw = column.draw
    if draw:
        n_labelled = int((labelled & draw.drawn).sum())
        draw = replace(draw, chances=draw.chances[rows], drawn=draw.drawn[rows])
    span = column.high - column.low
    statistic = CorrectedStatistic(
        value=0.0,
        n=scores.n,
        changes=scores.changes,
        codes=scores.codes,
        binary=False,
        low=0.0,
        high=1.0,
        means=labels_only.means,
        n_clusters=scores.n_clusters,
        unanswered=scores.unanswered,
        n_changed=scores.n_changed,
        n_labelled=n_labelled,
        judged=scores.value,
        scores=((column.old[rows] - column.low) / span, (new_scores[rows] - column.low) / span),
        labels=(np.where(labelled, people.old, np.nan)[rows], np.where(labelled, new_labels, np.nan)[rows]),
        draw=draw,
    )
    return replace(statistic, value=statistic.estimate().value)


@dataclass(frozen=True, slots=True)
class PercentileStatistic(RuleStatistic):
    """The number that a `share` of the scores reach: a percentile, where `changes` are the scores.

    It lies above a floor where more than `share` of the scores do, which is a proportion with an interval (Clopper and
    Pearson 1934); without clusters the ends are then order statistics.

    >>> seconds = -np.arange(1.0, 101.0)
    >>> column = PairedScores(seconds, seconds, binary=False, limits=(-np.inf, 0.0))
    >>> p90 = statistic_of(column, None, difference=False, share=0.9)
    >>> p90.value, p90.interval(), p90.lies_beyond(-97.0, 1), p90.lies_beyond(-95.0, 1)
    (-90.0, Interval(low=-96.0, high=-84.0, method='percentile'), True, False)
    """

    share: float = 0.5

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The floors that the percentile is neither shown to lie above nor below; infinite where there is no end."""
        if self._is_one_unit:
            return None
        # Only scores can be ends, so they are tried by bisection
        values = np.unique(self.changes)
        # The last floor that it lies above, and the first one that it lies below
        n_above = bisect_left(values, True, key=lambda floor: not self.lies_beyond(floor, 1, level))
        n_not_below = bisect_left(
            values, True, key=lambda floor: self.lies_beyond(np.nextafter(floor, np.inf), -1, level)
        )
        low = float(values[n_above - 1]) if n_above else -math.inf
        high = float(values[n_not_below]) if n_not_below < len(values) else math.inf
        return Interval(low, high, "percentile")

    def lies_beyond(self, floor: float, sign: int, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies above `floor` (`sign` 1), or below it (-1)."""
        if self._is_one_unit:
            return False
        return _interval_beyond(proportion_interval(self._reaching(floor), self.codes, level), self.share, sign)

    def _reaching(self, floor: float) -> Floats:
        """1 for each score that reaches a floor, else 0."""
        return (self.changes >= floor).astype(np.float64)

    def needed_to_pass(self, floor: float, mean: float) -> int | None:
        """About how many samples like these would lie above `floor` with a power of 80 %."""
        # The percentile lies above the floor if the share that reaches it does
        reached = self._reaching(floor)
        share = float(reached.mean())
        return needed_to_pass(reached, self.codes, self.share, share, binary=True, bounds=(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class RelativeStatistic(RuleStatistic):
    """The relative difference of the means, as a share of the old one: -0.1 where 10 % more is worse.

    It lies above a floor where new - (1 - floor) old does on average, which is a mean of rows (as in Fieller 1954).
    `scores` are those of the old and of the new release, none above 0 (less of the field is better).

    >>> seconds = -np.linspace(1.0, 2.0, 300)
    >>> column = PairedScores(seconds, 1.05 * seconds, binary=False, low=-2.1, high=-1.0, limits=(-np.inf, 0.0))
    >>> statistic = statistic_of(column, None, difference=True, relative=True)
    >>> round(statistic.value, 3), [round(end, 3) for end in statistic.interval()[:2]]
    (-0.05, [-0.062, -0.038])
    >>> statistic.lies_beyond(-0.1, 1), statistic.lies_beyond(-0.02, -1)
    (True, True)
    """

    scores: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))

    def interval(self, level: float = LEVEL) -> Interval | None:
        """The floors that the relative difference is neither shown to lie above nor below."""
        if self._is_one_unit:
            return None
        return Interval(self._end(1, level), self._end(-1, level), "relative")

    def _end(self, sign: int, level: float) -> float:
        """The end of the interval below (`sign` 1) or above the value, found by halving; infinite if there is none."""
        # Outward in steps twice as large each, until the end is between two of them
        inside = self.value
        outside = self.value - sign * 1e-3
        while not self.lies_beyond(outside, sign, level):
            inside = outside
            outside = self.value + 2 * (outside - self.value)
            if abs(outside) > _LARGEST_RATIO:
                return -sign * math.inf
        # Then by halving
        while abs(outside - inside) > 1e-6:
            middle = (inside + outside) / 2
            if self.lies_beyond(middle, sign, level):
                outside = middle
            else:
                inside = middle
        return inside

    def lies_beyond(self, floor: float, sign: int, level: float = LEVEL) -> bool:
        """Whether the whole interval at `level` lies above `floor` (`sign` 1), or below it (-1)."""
        if self._is_one_unit:
            return False
        old, new = self.scores
        changes = new - (1 - floor) * old
        bounds = change_range(changes, self.codes, span=math.inf, usual=mean(old))
        return _mean_beyond(changes, self.codes, bounds, floor=0.0, sign=sign, level=level)

    def needed_to_pass(self, floor: float, mean: float) -> int | None:
        """About how many samples like these would lie above `floor` with a power of 80 % if `mean` were true."""
        old, new = self.scores
        changes = new - (1 - floor) * old
        usual = -float(old.mean())
        bounds = change_range(changes, self.codes, span=math.inf, usual=usual)
        return needed_to_pass(changes, self.codes, 0.0, (mean - floor) * usual, binary=False, bounds=bounds)


_LARGEST_RATIO = 1e3
"""The largest relative difference that is looked for."""


def _mean_beyond(
    changes: Floats, codes: Codes | None, bounds: tuple[float, float], *, floor: float, sign: int, level: float
) -> bool:
    """Whether the interval of a mean lies above `floor` (`sign` 1), or below it (-1)."""
    low, high = sorted(sign * end for end in bounds)
    sizes = 1.0 if codes is None else np.bincount(codes).astype(np.float64)
    sums = sign * unit_sums(changes, codes)
    return bool(rejects([sums], sign * floor, sizes, low=low, high=high, alpha=(1 - level) / 2)[0])


def statistic_of(
    column: PairedScores,
    clusters: Codes | None,
    *,
    difference: bool,
    best: bool = False,
    share: float | None = None,
    relative: bool = False,
) -> RuleStatistic | None:
    """The difference new - old, or the mean of the new release alone; None if no sample has a number.

    Args:
        clusters: of all samples, shape (samples,); None if all are independent.
        share: the number that this share of the scores reach, in place of the mean.
        relative: the difference as a share of the old mean. None if that is 0.
        best: what was not scored counts as what is best for the new release: the highest score there, and the lowest in
            the old one. By default it counts as what is worst.

    >>> nothing = np.full(3, np.nan)
    >>> statistic_of(PairedScores(nothing, nothing, binary=True), None, difference=True) is None
    True
    """
    # The samples with a number, and their clusters; those of one row each are independent rows
    unmeasured_as = column.high if best else column.low
    new = column.filled(unmeasured_as)
    unmeasured_old = column.unmeasured_old
    column = column.with_old(column.low if best else column.high)
    rows = np.isfinite(new)
    if difference:
        rows &= column.comparable()
    if not rows.any():
        return None
    codes = None if clusters is None else np.unique(clusters[rows], return_inverse=True)[1]
    n_clusters = None if codes is None else int(codes.max()) + 1
    if n_clusters == rows.sum():
        codes = n_clusters = None

    # The value, and the range of what it is the mean of
    scores = new[rows]
    changes = scores
    means = None
    bounds = column.low, column.high
    n_changed = n_unmeasured_old = 0
    if difference:
        old = column.old[rows]
        changes = scores - old
        means = mean(old), mean(scores)
        span = math.inf if column.limits else column.high - column.low
        bounds = change_range(changes, codes, span=span, usual=means[0])
        if column.changed is not None:
            n_changed = int((column.changed & np.isfinite(column.old)).sum())
        if unmeasured_old is not None:
            n_unmeasured_old = int((unmeasured_old & rows).sum())
    elif column.limits:
        low, high = column.limits
        bounds = assumed_range(unit_sums(changes, codes), unit_sums(np.ones(len(changes)), codes), low=low, high=high)
    # A percentile or a relative difference has a value of its own
    kind: Callable[..., RuleStatistic] = RuleStatistic
    value = mean(changes)
    if share is not None:
        kind = partial(PercentileStatistic, share=share)
        value = float(np.sort(scores)[::-1][math.ceil(round(share * len(scores), 9)) - 1])
    elif relative and means:
        if not means[0]:
            return None
        kind = partial(RelativeStatistic, scores=(old, scores))
        value = 1 - means[1] / means[0]
    left_out = np.zeros(1, np.int64) if column.left_out is None else column.left_out[rows]
    return kind(
        value=value,
        n=len(changes),
        changes=changes,
        codes=codes,
        binary=column.binary,
        low=column.low,
        high=column.high,
        means=means,
        n_clusters=n_clusters,
        unanswered=_count_masks(column.unanswered, rows),
        unmeasured=_count_masks(column.unmeasured, rows),
        unmeasured_as=unmeasured_as,
        unmeasured_old=n_unmeasured_old,
        n_changed=n_changed,
        left_out=(int(left_out.sum()), int((left_out > 0).sum())),
        bounds=bounds,
    )


def _interval_beyond(interval: Interval | None, floor: float, sign: int) -> bool:
    """Whether an interval lies above `floor` (`sign` 1), or below it (-1); not without an interval."""
    if interval is None:
        return False
    return interval.low > floor if sign > 0 else interval.high < floor


def _count_masks(masks: Mapping[str, Mask], rows: Mask) -> dict[str, int]:
    """The number of `rows` in each mask that has any."""
    counts = {reason: int((mask & rows).sum()) for reason, mask in masks.items()}
    return {reason: n for reason, n in counts.items() if n}
