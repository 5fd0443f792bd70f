"""Everything that the page shows, as plain values: made by `build`, read by `charts` and `html`, and JSON by `as_json`.

Scores and differences are in the units of their metric, mostly 0 to 1; None stands where there is no number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from answerkey.metrics_core.comparison import Pair
from answerkey.tasks.gate.verdicts import Gated
from answerkey.tasks.publish.page.columns import Samples
from answerkey.tasks.reports.history import Moment
from answerkey.tasks.reports.report import Report

Estimate = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Release:
    """One report, and what its answers look like.

    `label` is the release, with the version of the report where the page shows several of one release. The median
    length of its answers is in characters.
    """

    label: str
    report: Report
    command: str
    median_length: float | None


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
class Agreement:
    """How far a metric field agrees with labels of people; of all releases together, where `release` is None.

    Estimates are value, low and high, the ends of a 95 % interval.
    """

    field: str
    release: str | None
    labels: str
    n: int
    kappa: Estimate
    sensitivity: Estimate
    specificity: Estimate
    bias: Estimate
    ceiling: Estimate


@dataclass(frozen=True, slots=True)
class Corrected:
    """The mean of a field in a release as it was scored, and as people would have given it.

    From `n` labelled and `n_unlabelled` other answers: by PPI++ where those are answers of one report, and by Rogan
    and Gladen where the labels are of another report of the release.
    """

    field: str
    release: str
    raw: Estimate
    corrected: Estimate
    n: int
    n_unlabelled: int
    method: Literal["PPI++", "Rogan-Gladen"]


@dataclass(frozen=True, slots=True)
class Page:
    """One page about one or several reports of one data set, in the order in which they were asked for.

    `primary` is the METRIC.FIELD that decides; `headlines` has one field of every metric, the primary one first. In
    `pairs` and `gates` reports go by the labels of the releases.
    """

    dataset: str
    made_at: str
    primary: str
    headlines: tuple[str, ...]
    fields: tuple[Field, ...]
    releases: tuple[Release, ...]
    gates: tuple[Gated, ...]
    summary: str
    warnings: tuple[Warning, ...]
    pairs: tuple[Pair, ...]
    distributions: tuple[Distribution, ...]
    failures: tuple[Failure, ...]
    checks: tuple[Check, ...]
    n_quarantined: int
    quarantine: tuple[Refused, ...]
    agreements: tuple[Agreement, ...]
    corrected: tuple[Corrected, ...]
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
