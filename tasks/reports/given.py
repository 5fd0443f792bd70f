"""Scores that came with answers, as fields of the reports, and how far those of another tool agree with ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.metric import Field
from answerkey.tasks.load.given import USAGE_METRICS
from answerkey.tasks.reports.commit import Committed
from answerkey.tasks.reports.report import NOT_GIVEN
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

Fields = Mapping[tuple[str, str], Field]
_SQL = statements(__name__)
_MOST_DIFFERING = 12
_SCALES = (1.0, 5.0, 10.0, 100.0)
"""Upper ends of the ranges of scores: the first that no score in the run exceeds."""


def given_fields(
    warehouse: duckdb.DuckDBPyConnection, committed: Committed, taken: Mapping[str, Any]
) -> dict[str, dict[tuple[str, str], Field]]:
    """The fields of the scores that came with answers of the run, by release, then by metric and name.

    Nobody says which range they have. It is taken to be 0, or minus its upper end, to the first of 1, 5, 10 and 100
    that no score of the run exceeds. Larger scores, and what answers took, have no highest value.

    Args:
        taken: names of the metrics of the run, which keep theirs; given ones of such a name are left out.
    """
    about = {
        "dataset": committed.dataset,
        "releases": [one.release for one in committed.releases],
        "versions": [one.answers_version for one in committed.releases],
    }
    found: dict[str, dict[tuple[str, str], Field]] = {}
    for name, releases, low, high, binary in warehouse.execute(_SQL["fields"], about).fetchall():
        metric, _, field = name.partition(".")
        most = max(abs(low), abs(high))
        # A tool that knows no price writes 0.
        if metric in taken or (metric in USAGE_METRICS and not most):
            continue
        lower = metric in USAGE_METRICS
        end = next((scale for scale in _SCALES if scale >= most and not lower), math.inf)
        described = f"{field} that the answer took" if lower else f"{field}, as it came with the answer"
        start = 0.0 if low >= 0 else -most if math.isinf(end) else -end
        made = Field(field, described, start, end, bool(binary) and not lower, lower)
        for release in releases:
            found.setdefault(release, {})[metric, field] = made
    return found


def notes_of(fields: Fields) -> dict[str, dict[str, Any]]:
    """What the manifest of a report keeps of metrics that came with the answers; the first field is the headline."""
    by_metric: dict[str, list[Field]] = {}
    for (metric, _), field in fields.items():
        by_metric.setdefault(metric, []).append(field)
    return {
        metric: {
            "spec": "",
            "kind": "given",
            "summary": "what the answer took" if metric in USAGE_METRICS else "scores that came with the answers",
            "fields": [field.as_dict() for field in of_metric],
            "headline": of_metric[0].name,
        }
        for metric, of_metric in by_metric.items()
    }


def add_given(warehouse: duckdb.DuckDBPyConnection, report_id: str, fields: Fields) -> None:
    """Write the rows of `scores` of a report: each answer has one for each of the fields."""
    about = {
        "report_id": report_id,
        "metrics": [metric for metric, _ in fields],
        "fields": [name for _, name in fields],
        "reason": NOT_GIVEN,
    }
    warehouse.execute(_SQL["add_given"], about)


def signature_of(metric: str) -> str:
    """The signature of a metric that came with the answers."""
    return f"{metric}|given"


def agreements(
    warehouse: duckdb.DuckDBPyConnection, report_id: str, given: Fields, ours: Fields
) -> list[dict[str, Any]]:
    """For each given field of 0 and 1, and each such field of ours that speaks for its metric: how many answers have
    both, how many of these have the same, which only one calls right, and the first samples that differ."""
    fields = {
        side: [key for key, field in of_side.items() if field.binary and key[0] not in USAGE_METRICS]
        for side, of_side in (("old", given), ("new", ours))
    }
    if not all(fields.values()):
        return []
    about: dict[str, Any] = {"report_id": report_id, "most": _MOST_DIFFERING}
    for side, keys in fields.items():
        about |= {f"{side}_metrics": [metric for metric, _ in keys], f"{side}_fields": [name for _, name in keys]}
    rows = warehouse.execute(_SQL["agreements"], about).fetchall()
    names = ("given", "field", "n", "same", "only_given", "only_ours", "samples")
    return [dict(zip(names, row, strict=True)) for row in rows]
