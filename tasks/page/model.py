"""Everything that the page shows, as plain values: made by `build`, read by `charts` and `html`, and JSON by `as_json`.

Scores and differences are in the units of their metric, mostly 0 to 1; None stands where there is no number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from tasks.page.columns import Samples
from tasks.report import Report

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "INCOMPLETE"]
Finding = Literal["better", "worse", "not shown to differ"]
ALL = "all"
"""The slice with every row."""
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule of a gate: how it is written, how it came out, and why, in one sentence."""

    rule: str
    outcome: Outcome
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says, in one sentence that a release manager can act on, and the rules behind it."""

    outcome: Outcome
    sentence: str
    rules: tuple[RuleOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field of a metric on one slice, in two releases, on the rows that both have.

    `difference` is new - old with the 95 % interval `low` to `high`; `p_adjusted` is `p` after the correction for
    the family that was declared; `mde` is the smallest difference that these rows would show. `fixed` and `broken`
    count the rows that went from 0 to 1 and back, where the field is binary. `test` names the test.
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
        if self.p_adjusted is not None and self.p_adjusted >= _ALPHA:
            return "not shown to differ"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two reports that were compared, by their ids.

    `margin` is what the gate tolerates, where there is one. `not_comparable` says why there are no numbers
    (signatures that differ), None where there are.
    """

    old: str
    new: str
    rows: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()
    margin: float | None = None
    not_comparable: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """One report, and what its answers look like.

    `label` is the release, with the version of the report where the page shows several of one release. The median
    answer length is in characters. `n_right` of `n_labelled` answers are right by the labels of people.
    """

    label: str
    report: Report
    command: str
    median_length: float | None
    n_labelled: int
    n_right: int


@dataclass(frozen=True, slots=True)
class Field:
    """A number of a metric, named METRIC.FIELD; binary: it is 0 or 1 on every row."""

    name: str
    metric: str
    summary: str
    signatures: tuple[str, ...]
    binary: bool


@dataclass(frozen=True, slots=True)
class Warning:
    """Something to know before trusting a number. Serious ones change what the page says; `details` are its lines."""

    serious: bool
    title: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many rows of a release fall into each of the equally wide bins from `low` to `high`."""

    field: str
    release: str
    low: float
    high: float
    counts: tuple[int, ...]
    n_missing: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows of a release that have no score, by what is said about them."""

    release: str
    metric: str
    status: str
    reason: str
    n: int


@dataclass(frozen=True, slots=True)
class Check:
    """What a check of the data found; `release` is None where it was about all of them."""

    rule: str
    severity: str
    release: str | None
    success: bool
    n_checked: int
    n_failed: int
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A row in quarantine, shortened."""

    source: str
    row: int | None
    sample_id: str | None
    release: str | None
    rule: str
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A field of an older or newer report of the data set; `methods` counts the signatures met so far, from 1."""

    report_id: str
    release: str
    version: int
    created_at: str
    dataset_version: str
    status: str
    field: str
    n_scored: int
    n_total: int
    mean: float | None
    low: float | None
    high: float | None
    methods: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page about one or several reports of one data set, in the order in which they were asked for.

    `primary` is the METRIC.FIELD that decides; `headlines` has one field of every metric, the primary one first.
    """

    dataset: str
    made_at: str
    primary: str
    headlines: tuple[str, ...]
    fields: tuple[Field, ...]
    releases: tuple[Release, ...]
    verdict: Verdict | None
    summary: str
    warnings: tuple[Warning, ...]
    pairs: tuple[Pair, ...]
    distributions: tuple[Distribution, ...]
    failures: tuple[Failure, ...]
    checks: tuple[Check, ...]
    n_quarantined: int
    quarantine: tuple[Refused, ...]
    history: tuple[Moment, ...]
    samples: Samples


def as_json(value: Any) -> str:
    """The page or a part of it as compact JSON. NaN and infinity are refused.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")
