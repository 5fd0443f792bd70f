"""Two releases side by side, as plain values: the result of a comparison, read by reports and gates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from answerkey.metrics_core.chart import Bar, Chart, number, table_html, to_frame
from answerkey.metrics_core.statistics.bounded_mean import Floats
from answerkey.metrics_core.statistics.clustered import Codes
from answerkey.metrics_core.statistics.intervals import LEVEL
from answerkey.metrics_core.statistics.multiple_testing import benjamini_hochberg, holm
from answerkey.metrics_core.statistics.paired import PairedDifference, paired_difference, sign_flip
from answerkey.metrics_core.statistics.power import minimum_detectable, needed_to_show, undetectable

Finding = Literal["better", "worse", "not shown to differ"]
ALL = "all"
"""The slice with every row."""
HEADLINES, ALL_FIELDS = "headlines", "all fields"
"""Families of fields that are compared, and corrected for, together: one of each metric, or all."""


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One field of a metric on one slice, in two releases, on the rows that both have a number for.

    Attributes:
        slice: 'all', or column=value.
        n_common: rows with a number in both; `n_only_old` and `n_only_new`: in one of them only.
        old: mean of the common rows in the old release (corpus BLEU where the field is corpus_bleu); `new`: likewise.
        difference: new - old, with the interval `low` to `high` at `level`; None where there is no number.
        p: two-sided, that chance alone makes such a difference, by `test`; `p_adjusted`: after the correction for
            all that was looked at.
        mde: the minimum detectable effect: the smallest true difference that rows like these would show, after the
            correction for all that was looked at, with a power of 80 %; `mde_note`: why there is none.
        fixed: rows that went from 0 to 1, `broken`: from 1 to 0; None where the field is not binary.
        test: mcnemar, sign-flip, cluster sign-flip, exchange; empty where there was nothing to test.
        needed: about how many rows like these would show a difference as large as this one; None where they do
            already, and where it would take more than a hundred times as many.
        missing_old: what the rows of `n_only_new` are in the old report, with counts: absent, failed, undefined,
            skipped, other slice; `missing_new`: those of `n_only_old` in the new one.
        note: why there is no number; None where there is one.
        people: the difference new - old in human labels on these rows, estimated from `n_labelled` rows with a label
            in both releases and from the scores of all (prediction-powered inference, PPI++), with the interval
            `people_low` to `people_high`; None where no row or at least half of the rows have labels, and on slices.
        n_clusters: clusters that the common rows come from; None where the data have no clusters.
        n_unanswered: rows with a number in the old release that the new one did not answer. Where there are any and
            `difference` is above 0, `low_with_unanswered` is the lower end of the interval with the lowest score for
            each of them; if that is above 0, `p` is the larger one of the two. What is better only without them is not
            better.

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
    n_common: int
    n_only_old: int
    n_only_new: int
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    mde: float | None
    fixed: int | None
    broken: int | None
    test: str
    needed: int | None = None
    missing_old: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    missing_new: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    note: str | None = None
    level: float = LEVEL
    people: float | None = None
    people_low: float | None = None
    people_high: float | None = None
    n_labelled: int | None = None
    n_clusters: int | None = None
    n_unanswered: int = 0
    low_with_unanswered: float | None = None
    mde_note: str | None = None

    @property
    def name(self) -> str:
        """METRIC.FIELD."""
        return f"{self.metric}.{self.field}"

    @property
    def finding(self) -> Finding | None:
        """What may be said: the interval and, where there is one, the adjusted p must agree. None without a number."""
        if self.difference is None:
            return None
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "not shown to differ"
        if self.low_with_unanswered is not None and self.low_with_unanswered <= 0 < self.difference:
            return "not shown to differ"
        # 1 - 0.95 is a hair above 0.05 in floating point.
        if self.p_adjusted is not None and self.p_adjusted >= round(1 - self.level, 12):
            return "not shown to differ"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two reports that were compared, by their ids.

    `margin` is the non-inferiority margin of the gate, where there is one. `not_comparable` says why there are no
    numbers at all (signatures that differ), None where there are. Samples in both reports are `n_common`, in one only
    `n_only_old` and `n_only_new`; `n_changed` of the common ones have another question or other references, and are
    left out. The adjusted p-values allow for `n_candidates` comparisons that were made together, this one included, and
    for the fields of `family`: 'headlines', 'all fields', or the fields that were named.

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
    n_candidates: int = 1
    family: str = HEADLINES

    @property
    def primary(self) -> str:
        """The METRIC.FIELD that decides: the first; empty where nothing is compared."""
        return self.overall[0].name if self.overall else ""

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
        return to_frame({name: [getattr(row, name) for row in self.rows] for name in names})

    def plot(self) -> Chart:
        """The difference in every field with its interval, as a drawing (SVG) that notebooks show."""
        bars = [Bar(row.name, row.difference, row.low, row.high) for row in self.overall if row.difference is not None]
        return Chart(f"{self.new} - {self.old}: difference and interval", bars, differences=True)

    def _repr_html_(self) -> str:
        head = ("", "old", "new", "difference", "from", "to", "p adjusted", "finding", "samples")
        rows = [
            (
                row.name if row.slice == ALL else f"{row.name} [{row.slice}]", number(row.old), number(row.new),
                *(number(one, sign=True) for one in (row.difference, row.low, row.high)), number(row.p_adjusted),
                row.finding or f"not compared: {row.note}", f"{row.n_common:,}",
            )
            for row in self.rows
        ]  # fmt: skip
        caption = f"{self.old} → {self.new}: {self.n_common - self.n_changed:,} samples in both"
        notes = [*([self.not_comparable] if self.not_comparable else []), *self.warnings]
        return table_html(caption, head, rows, notes)


def adjust(comparisons: Sequence[Comparison], candidates: int = 0) -> tuple[Comparison, ...]:
    """Comparisons that are read together, with p-values that allow for all of them.

    On all samples, the family is every field of every comparison (Holm 1979): the chance of any wrong "better" or
    "worse" among them is at most 1 - level. On slices, it is every slice of every field of every comparison, of which
    findings are wrong in a share of at most 1 - level on average (Benjamini and Hochberg 1995).

    Args:
        comparisons: for instance of several new releases with one baseline. Their `p` counts, not their `p_adjusted`.
        candidates: how many comparisons there are in all, if more than these: each gets the same share of the error
            (Bonferroni), which these have together.

    >>> row = FieldComparison(
    ...     "exact_match", "match", ALL, n_common=400, n_only_old=0, n_only_new=0, old=0.60, new=0.65, difference=0.05,
    ...     low=0.01, high=0.09, p=0.012, p_adjusted=None, mde=0.06, fixed=40, broken=20, test="mcnemar",
    ... )
    >>> for one in adjust([Comparison("a", name, (row,)) for name in "bcdef"])[:1]:
    ...     print(one.n_candidates, one.rows[0].p_adjusted, one.rows[0].finding)
    5 0.06 not shown to differ
    """
    rows = [row for comparison in comparisons for row in comparison.rows]
    overall = [place for place, row in enumerate(rows) if row.slice == ALL]
    slices = [place for place, row in enumerate(rows) if row.slice != ALL]
    n = max(candidates, len(comparisons))
    adjusted: dict[int, float] = {}
    for family, correction in ((overall, holm), (slices, benjamini_hochberg)):
        raw = {place: p for place in family if (p := rows[place].p) is not None}
        found = (min(1.0, p * n / len(comparisons)) for p in correction(list(raw.values())))
        adjusted |= dict(zip(raw, found, strict=True))
    corrected = (replace(row, p_adjusted=adjusted.get(place)) for place, row in enumerate(rows))
    return tuple(replace(one, rows=tuple(islice(corrected, len(one.rows))), n_candidates=n) for one in comparisons)


USES_FACTS = ("ground_truth_similarity",)
"""Metrics for which a sample with other facts is another sample."""

_UNITS, _SLICE_UNITS = 10_000, 2_000
"""What a test exchanges at most, on all samples and on a slice; more rows are put into so many random groups."""
_LEAST, _MOST = 999, 9_999
"""Exchanges that a test tries: as many as if there were always as many units as allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all fields that are compared together share.

    Attributes:
        seed: of the permutation tests and the bootstrap.
        level: of the intervals, 0 to 1.
        n_tests: how many p-values are adjusted together.
    """

    seed: int = 0
    level: float = LEVEL
    n_tests: int = 1

    def difference(
        self, old: Floats, new: Floats, clusters: Codes | None, *, span: float | None, slice_: str = ALL
    ) -> PairedDifference:
        """Of the means of two releases on the same rows, in the same order.

        Args:
            old: (rows,): scores of the old release; `new`: of the new one; `clusters`: codes of what is not
                independent.
            span: length of the range that scores lie in; None: they are 0 or 1.
            slice_: with fewer exchanges than `ALL`, since there are many slices.
        """
        most = _UNITS if slice_ == ALL else _SLICE_UNITS
        of_row = groups(len(old), clusters, most, self.seed)
        permutations = self._permutations(int(of_row.max()) + 1, most)
        found = paired_difference(
            old,
            new,
            binary=span is None,
            clusters=None if clusters is None else clusters.tolist(),
            span=span or 1.0,
            seed=self.seed,
            permutations=permutations if len(old) <= most else 1,
            level=self.level,
        )
        if len(old) <= most or found.test == "mcnemar":
            return found
        sums = np.bincount(of_row, weights=new - old).astype(np.float64)
        return replace(found, p=sign_flip(sums, seed=self.seed, permutations=permutations))

    def with_unanswered(
        self,
        row: FieldComparison,
        old: Floats,
        new: Floats,
        clusters: Codes | None,
        *,
        n: int,
        range_: tuple[float, float],
    ) -> FieldComparison:
        """The row, with what is left of the difference if answers that the new release did not give score lowest.

        Args:
            old: (rows,): scores of the rows in both releases, and of those that the new one did not answer; `new`:
                likewise, with the lowest score where there is no answer.
            n: how many were not answered; where there are none, the row stays as it is.
            range_: the lowest and the highest score.
        """
        if not n:
            return row
        low, high = range_
        binary = range_ == (0.0, 1.0) and all(np.isin(side, (0, 1)).all() for side in (old, new))
        found = self.difference(old, new, clusters, span=None if binary else high - low, slice_=row.slice)
        least = found.interval.low if found.interval else low - high
        # Where the interval contains 0 anyway, p keeps its plain meaning.
        p = max(row.p or 0.0, found.p) if least > 0 else row.p
        return replace(row, n_unanswered=n, low_with_unanswered=least, p=p)

    def _permutations(self, units: int, most_units: int) -> int:
        """Exchanges to try: enough for the smallest p to survive the correction, and more where units are few."""
        return max(_LEAST, 40 * self.n_tests, min(_MOST, _LEAST * most_units // units))


def groups(rows: int, clusters: Codes | None, most: int, seed: int) -> Codes:
    """What may be resampled or exchanged as one: rows, or whole clusters; past `most` of them, random groups of them.

    The variance of a sum over independent groups is the same, so the answer is; and a million rows take no longer
    than `most`. The groups depend on the order of the rows and on the seed.
    """
    codes = np.arange(rows) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(codes.max()) + 1
    return codes if count <= most else (np.random.default_rng(seed).permutation(count) % most)[codes]


def not_compared(metric: str, field: str, slice_: str, note: str) -> FieldComparison:
    """A comparison that could not be made, with the reason."""
    return FieldComparison(
        metric, field, slice_, n_common=0, n_only_old=0, n_only_new=0, old=None, new=None, difference=None, low=None,
        high=None, p=None, p_adjusted=None, mde=None, fixed=None, broken=None, test="", note=note,
    )  # fmt: skip


def field_comparison(
    metric: str,
    field: str,
    slice_: str,
    found: PairedDifference | None,
    about: dict[str, Any],
    settings: Settings,
    family: int,
) -> FieldComparison:
    """What a difference says, without adjusted p; `about` is what is known of the rows, `family` corrected together."""
    if found is None:
        return replace(not_compared(metric, field, slice_, "no sample has a number in both reports"), **about)
    low, high, _ = found.interval or (None, None, None)
    mde = minimum_detectable(found, family=family, level=settings.level)
    too_small = slice_ == ALL and (mde is None or abs(found.difference) < mde)
    return FieldComparison(
        metric, field, slice_, **about, old=found.old, new=found.new, difference=found.difference, low=low, high=high,
        p=found.p, p_adjusted=None, mde=mde, fixed=found.fixed, broken=found.broken, test=found.test,
        needed=needed_to_show(found, family=family, level=settings.level) if too_small else None, level=settings.level,
        mde_note=undetectable(found, family=family, level=settings.level),
    )  # fmt: skip
