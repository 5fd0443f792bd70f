"""Two releases side by side, as plain values: the result of a comparison, read by reports and gates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from answerkey.metrics_core.statistics.intervals import LEVEL
from answerkey.metrics_core.statistics.multiple_testing import benjamini_hochberg, holm

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
