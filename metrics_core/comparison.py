"""The comparison of two releases, as plain values for reports and gates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from answerkey.metrics_core.decide.bounded_mean import Floats
from answerkey.metrics_core.decide.clustered import Codes
from answerkey.metrics_core.decide.multiple_testing import benjamini_hochberg, holm
from answerkey.metrics_core.decide.paired import PairedDifference, paired_difference, sign_flip
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.decide.power import minimum_detectable, needed_to_show, undetectable
from answerkey.metrics_core.formatting import Displayed, Shown, chance, number
from answerkey.metrics_core.frame import to_frame

Finding = Literal["better", "worse", "not shown to differ"]
LENGTH_RATIO = 1.5
"""Of median answer lengths, either way: above it length alone moves the scores that reward overlap."""
REWARDS_OVERLAP = "Scores that reward overlap"
LENGTH_ADVICE = (
    f"{REWARDS_OVERLAP} (F1, precision, BLEU, similarity) move with length alone; rely on recall, judges and human "
    "labels"
)
HEADLINES = "headlines"
ALL_FIELDS = "all fields"
"""Families of fields that are compared, and corrected for, together: one of each metric, or all."""


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One field of a metric, compared between two releases on the rows of a slice that have a number in both.

    Attributes:
        slice: 'all', or column=value.
        n_common: rows with a number in both; `n_only_old` and `n_only_new`: in one of them only.
        old: mean of the common rows in the old release (corpus BLEU where the field is corpus_bleu); `new`: likewise.
        difference: new - old, with the 95 % interval `low` to `high`; None without a number.
        p: two-sided p-value by `test`; `p_adjusted`: corrected for all fields that are compared together.
        mde: the minimum detectable effect: the smallest true difference that rows like these would show with a power of
            80 % after the same correction; `mde_note`: why there is none.
        fixed: rows that went from 0 to 1, `broken`: from 1 to 0; None where the field is not binary.
        test: mcnemar, sign-flip, cluster sign-flip or exchange; empty if there was nothing to test.
        needed: about how many rows like these would show a difference as large as this one; None if these rows do, or
            if it would take more than a hundred times as many.
        missing_old: what the rows of `n_only_new` are in the old report, with counts: absent, failed, undefined,
            skipped, other slice; `missing_new`: those of `n_only_old` in the new one.
        note: why there is no number.
        people: the difference new - old in human labels on these rows, estimated from `n_labelled` rows with a label
            in both releases and from the scores of all (prediction-powered inference, PPI++), with the interval
            `people_low` to `people_high`; None where no row or at least half of the rows have labels, and on slices.
        lower_is_better: whether less of the field is better, so that a difference below 0 is a better one.
        n_clusters: clusters that the common rows come from; None where the data have no clusters.
        n_unanswered: rows with a number in the old release that the new one did not answer. If there are any and
            `difference` is above 0, `low_with_unanswered` is the lower end of the interval when each of them gets the
            lowest score; if that is above 0, `p` is the larger of the two p-values. The finding is "better" only if
            both intervals lie above 0.

    >>> row = FieldComparison(
    ...     "exact_match", "match", ALL, n_common=400, n_only_old=0, n_only_new=0, old=0.60, new=0.65, difference=0.05,
    ...     low=0.01, high=0.09, p=0.012, p_adjusted=0.024, mde=0.06, fixed=40, broken=20, test="mcnemar",
    ... )
    >>> row.name, row.finding
    ('exact_match.match', 'better')
    """

    metric: str
    field: str
    slice: str
    n_common: int = 0
    n_only_old: int = 0
    n_only_new: int = 0
    old: float | None = None
    new: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    mde: float | None = None
    fixed: int | None = None
    broken: int | None = None
    test: str = ""
    needed: int | None = None
    missing_old: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    missing_new: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    note: str | None = None
    people: float | None = None
    people_low: float | None = None
    people_high: float | None = None
    n_labelled: int | None = None
    n_clusters: int | None = None
    n_unanswered: int = 0
    low_with_unanswered: float | None = None
    mde_note: str | None = None
    lower_is_better: bool = False

    @property
    def name(self) -> str:
        """METRIC.FIELD."""
        return f"{self.metric}.{self.field}"

    @property
    def finding(self) -> Finding | None:
        """The conclusion, on which the interval and the adjusted p, if any, must agree. None without a number."""
        if self.difference is None:
            return None
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "not shown to differ"
        if self.low_with_unanswered is not None and self.low_with_unanswered <= 0 < self.difference:
            return "not shown to differ"
        if self.p_adjusted is not None and self.p_adjusted >= 0.05:
            return "not shown to differ"
        return "better" if (self.difference > 0) != self.lower_is_better else "worse"


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """The comparison of two reports, named by their ids, or of two results, named by their releases.

    `margin` is the non-inferiority margin of the gate, if any. `not_comparable` says why there are no numbers at all
    (signatures that differ), None if there are. Samples in both reports are `n_common`, in one only
    `n_only_old` and `n_only_new`; `n_changed` of the common ones have a different question or different references,
    and are left out. The adjusted p-values allow for `n_pairs` pairs of releases that were compared together, and for
    the fields of `family`: 'headlines', 'all fields', or the fields that were named.

    >>> comparison = Comparison("faq/gpt-4/v1", "faq/gpt-5/v1", rows=(), warnings=("answers are 2 times longer",))
    >>> comparison.overall
    ()
    """

    old: str
    new: str
    rows: tuple[FieldComparison, ...]
    warnings: tuple[str, ...] = ()
    margin: float | None = None
    not_comparable: str | None = None
    n_common: int = 0
    n_only_old: int = 0
    n_only_new: int = 0
    n_changed: int = 0
    n_pairs: int = 1
    family: str = HEADLINES

    @property
    def primary(self) -> str:
        """The METRIC.FIELD that decides: the first; empty where nothing is compared."""
        return self.overall[0].name if self.overall else ""

    @property
    def is_complete(self) -> bool:
        """Whether both releases have the same samples, and every field a difference."""
        differences = [row.difference for row in self.overall]
        return None not in differences and not self.n_only_old + self.n_only_new

    def row(self, name: str) -> FieldComparison | None:
        """METRIC.FIELD `name` on all samples; None where it was not compared."""
        return next((row for row in self.overall if row.name == name), None)

    @property
    def overall(self) -> tuple[FieldComparison, ...]:
        """The rows about all samples, without slices."""
        return tuple(row for row in self.rows if row.slice == ALL)

    def to_pandas(self) -> Any:
        """A row for each field and slice: the attributes of `FieldComparison`, and the `finding`.

        Returns:
            pandas.DataFrame: in the order of `rows`.
        """
        names = ["metric", "field", "slice", "finding", "old", "new", "difference", "low", "high", "p", "p_adjusted"]
        names += ["n_common", "n_clusters", "mde", "needed", "fixed", "broken", "test", "note"]
        columns: dict[str, list[Any]] = {}
        for name in names:
            columns[name] = [getattr(row, name) for row in self.rows]
        return to_frame(columns)

    def shown(self) -> Shown:
        """A row for each field and slice."""
        head = ("", "old", "new", "difference [95 % interval]", "p adjusted", "finding", "samples")
        rows = []
        for row in self.rows:
            # With its interval, if it has one
            difference, *ends = (number(value, sign=True) for value in (row.difference, row.low, row.high))
            cells = (
                row.name if row.slice == ALL else f"{row.name} [{row.slice}]",
                number(row.old),
                number(row.new),
                difference if row.low is None else f"{difference} [{', '.join(ends)}]",
                chance(row.p_adjusted),
                row.finding or f"not compared: {row.note}",
                f"{row.n_common:,}",
            )
            rows.append(cells)
        caption = f"{self.old} → {self.new}: {self.n_common - self.n_changed:,} samples in both"
        notes = [note for note in (self.not_comparable, *self.warnings, family_note(self)) if note]
        return Shown(caption, head, rows, notes)


def length_warning(old_length: Floats, new_length: Floats) -> Iterator[str]:
    """A sentence if the answers of the new release are much longer or shorter than those of the old one.

    Args:
        old_length: (samples,): characters of each answer; NaN where there is none. `new_length`: likewise.

    >>> [line] = length_warning(np.array([10.0, 10.0]), np.array([30.0, 30.0]))
    >>> line[:34]
    'answers are 3 times longer: the me'
    """
    in_both = np.isfinite(old_length) & np.isfinite(new_length)
    if not in_both.any():
        return
    old = float(np.median(old_length[in_both]))
    new = float(np.median(new_length[in_both]))
    # An answer of no characters is a length too, and nothing can be divided by it.
    ratio = (max(old, new) or 1.0) / (min(old, new) or 1.0)
    if ratio > LENGTH_RATIO:
        change = "longer" if new > old else "shorter"
        yield (
            f"answers are {ratio:,.3g} times {change}: the median went from {old:,.6g} to {new:,.6g} characters. "
            f"{LENGTH_ADVICE}"
        )


def family_note(comparison: Comparison) -> str | None:
    """A note on the correction of the p-values; None for a single test."""
    n = sum(row.p is not None for row in comparison.overall)
    if n * comparison.n_pairs < 2:
        return None
    fields = "1 field" if n == 1 else f"{n} fields"
    pairs = f" of {comparison.n_pairs} pairs" if comparison.n_pairs > 1 else ""
    return f"Corrected for comparing {fields}{pairs} at once (Holm)"


def adjust(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Adjust the p-values of comparisons that are read together.

    On all samples, the family is every field of every comparison (Holm 1979): the chance of any wrong "better" or
    "worse" among them is at most 5 %. On slices, it is every slice of every field of every comparison, of which
    findings are wrong in a share of at most 5 % on average (Benjamini and Hochberg 1995).

    Args:
        comparisons: for instance of several new releases with one baseline. Their `p` counts, not their `p_adjusted`.

    >>> row = FieldComparison(
    ...     "exact_match", "match", ALL, n_common=400, n_only_old=0, n_only_new=0, old=0.60, new=0.65, difference=0.05,
    ...     low=0.01, high=0.09, p=0.012, p_adjusted=None, mde=0.06, fixed=40, broken=20, test="mcnemar",
    ... )
    >>> for one in adjust([Comparison("a", name, (row,)) for name in "bcdef"])[:1]:
    ...     print(one.n_pairs, one.rows[0].p_adjusted, one.rows[0].finding)
    5 0.06 not shown to differ
    """
    rows = list(chain.from_iterable(comparison.rows for comparison in comparisons))
    overall = [index for index, row in enumerate(rows) if row.slice == ALL]
    slices = [index for index, row in enumerate(rows) if row.slice != ALL]
    adjusted: dict[int, float] = {}
    # All samples and slices are two families, with a correction each
    for family, correction in ((overall, holm), (slices, benjamini_hochberg)):
        p_values = {index: rows[index].p for index in family}
        tested = {index: p for index, p in p_values.items() if p is not None}
        adjusted |= dict(zip(tested, correction(list(tested.values())), strict=True))
    # Back to the comparisons that the rows are of
    new = (replace(row, p_adjusted=adjusted.get(index)) for index, row in enumerate(rows))
    return tuple(replace(old, rows=tuple(islice(new, len(old.rows))), n_pairs=len(comparisons)) for old in comparisons)


USES_FACTS = ("ground_truth_similarity",)
"""Metrics for which a sample with other facts is another sample."""

_UNITS = 10_000
_SLICE_UNITS = 2_000
"""The most units that a test exchanges, on all samples and on a slice; more rows are merged into random groups."""
_MIN_EXCHANGES = 999
_MAX_EXCHANGES = 9_999
"""The least and the most exchanges that a test tries; fewer units allow for more."""


def mean_difference(
    old: Floats, new: Floats, clusters: Codes | None, *, span: float | None, n_tests: int, slice_: str
) -> PairedDifference:
    """The difference of the means of two releases on the same rows, in the same order.

    Args:
        old: (rows,): scores of the old release; `new`: of the new one; `clusters`: codes of dependent rows.
        span: length of the range that scores lie in; None: they are 0 or 1.
        n_tests: how many p-values are adjusted together.
        slice_: with fewer exchanges than `ALL`, since there are many slices.
    """
    max_units = _UNITS if slice_ == ALL else _SLICE_UNITS
    unit_of_row = groups(len(old), clusters, max_units)
    # Enough for the smallest p to survive the correction, and more for fewer units.
    n_units = int(unit_of_row.max()) + 1
    permutations = max(_MIN_EXCHANGES, 40 * n_tests, min(_MAX_EXCHANGES, _MIN_EXCHANGES * max_units // n_units))
    difference = paired_difference(
        old,
        new,
        binary=span is None,
        clusters=None if clusters is None else clusters.tolist(),
        span=span or 1.0,
        permutations=permutations if len(old) <= max_units else 1,
    )
    if len(old) <= max_units or difference.test == "mcnemar":
        return difference
    # Whole groups are exchanged, so that the time does not grow with the rows
    sums = np.bincount(unit_of_row, weights=new - old).astype(np.float64)
    return replace(difference, p=sign_flip(sums, permutations=permutations))


def groups(rows: int, clusters: Codes | None, max_units: int) -> Codes:
    """Codes of the units to resample or exchange: rows or clusters, or at most `max_units` random groups of them.

    The variance of a sum over independent groups is that of the sum over rows, so the results are the same, and a
    million rows take no longer than `max_units`. The groups depend on the order of the rows.
    """
    # Without clusters each row is a unit
    codes = np.arange(rows) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(codes.max()) + 1
    return codes if count <= max_units else (np.random.default_rng(0).permutation(count) % max_units)[codes]


def field_comparison(
    metric: str,
    field: str,
    slice_: str,
    difference: PairedDifference | None,
    counts: dict[str, Any],
    family: int,
) -> FieldComparison:
    """The row of a difference, without adjusted p.

    Args:
        counts: of the rows, as attributes of the result.
        family: fields whose p-values are corrected together.
    """
    if difference is None:
        return FieldComparison(metric, field, slice_, **counts, note="no sample has a number in both reports")
    low, high, _ = difference.interval or (None, None, None)
    mde = minimum_detectable(difference, family=family)
    # How many rows it would take is told only where these are too few
    too_small = slice_ == ALL and (mde is None or abs(difference.difference) < mde)
    return FieldComparison(
        metric,
        field,
        slice_,
        **counts,
        old=difference.old,
        new=difference.new,
        difference=difference.difference,
        low=low,
        high=high,
        p=difference.p,
        mde=mde,
        fixed=difference.fixed,
        broken=difference.broken,
        test=difference.test,
        needed=needed_to_show(difference, family=family) if too_small else None,
        mde_note=undetectable(difference, family=family),
    )
