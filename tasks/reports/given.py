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
_MAX_DIFFERING = 12
_SCALES = (1.0, 5.0, 10.0, 100.0)
"""Upper ends of the ranges of scores: the first that no score in the run exceeds."""


def given_fields(
    warehouse: duckdb.DuckDBPyConnection, committed: Committed, signatures: Mapping[str, str]
) -> dict[str, dict[tuple[str, str], Field]]:
    """The fields of the scores that came with answers of the run, by release, then by metric and name.

    Nobody says which range they have. It is taken to be 0, or minus its upper end, to the first of 1, 5, 10 and 100
    that no score of the run exceeds. Larger scores, and what answers took, have no highest value.

    Args:
        signatures: by metric of the run, which keeps its name; given scores of such a name are left out.
    """
    answers = {
        "dataset": committed.dataset,
        "releases": [release.release for release in committed.releases],
        "versions": [release.answers_version for release in committed.releases],
    }
    by_release: dict[str, dict[tuple[str, str], Field]] = {}
    for full_name, releases, low, high, binary in warehouse.execute(_SQL["fields"], answers).fetchall():
        metric, _, name = full_name.partition(".")
        is_usage = metric in USAGE_METRICS
        largest = max(abs(low), abs(high))
        # A tool that knows no price writes 0.
        if metric in signatures or (is_usage and not largest):
            continue
        # The range that the scores seem to have
        end = next((scale for scale in _SCALES if scale >= largest and not is_usage), math.inf)
        start = 0.0
        if low < 0:
            start = -largest if math.isinf(end) else -end
        field = Field(
            name=name,
            description=f"{name} that the answer took" if is_usage else f"{name}, as it came with the answer",
            low=start,
            high=end,
            binary=bool(binary) and not is_usage,
            lower_is_better=is_usage,
        )
        for release in releases:
            by_release.setdefault(release, {})[metric, name] = field
    return by_release


def notes_of(fields: Fields) -> dict[str, dict[str, Any]]:
    """What the manifest of a report keeps of metrics that came with the answers; the first field is the headline."""
    notes: dict[str, dict[str, Any]] = {}
    for (metric, name), field in fields.items():
        summary = "what the answer took" if metric in USAGE_METRICS else "scores that came with the answers"
        empty_note = {"spec": "", "kind": "given", "summary": summary, "fields": [], "headline": name}
        notes.setdefault(metric, empty_note)["fields"].append(field.as_dict())
    return notes


def add_given(warehouse: duckdb.DuckDBPyConnection, report_id: str, fields: Fields) -> None:
    """Write the rows of `scores` of a report: each answer has one for each of the fields."""
    parameters = {
        "report_id": report_id,
        "metrics": [metric for metric, _ in fields],
        "fields": [name for _, name in fields],
        "reason": NOT_GIVEN,
    }
    warehouse.execute(_SQL["add_given"], parameters)


def agreements(
    warehouse: duckdb.DuckDBPyConnection, report_id: str, imported: Fields, computed: Fields
) -> list[dict[str, Any]]:
    """For each imported field of 0 and 1, and each such computed field that speaks for its metric: how many answers
    have both, how many of these have the same, which only one calls right, and the first samples that differ."""
    parameters: dict[str, Any] = {"report_id": report_id, "most": _MAX_DIFFERING}
    for side, fields in (("old", imported), ("new", computed)):
        # Only verdicts can agree or not
        keys = [key for key, field in fields.items() if field.binary and key[0] not in USAGE_METRICS]
        if not keys:
            return []
        parameters[f"{side}_metrics"] = [metric for metric, _ in keys]
        parameters[f"{side}_fields"] = [name for _, name in keys]
    rows = warehouse.execute(_SQL["agreements"], parameters).fetchall()
    names = ("given", "field", "n", "same", "only_given", "only_ours", "samples")
    return [dict(zip(names, row, strict=True)) for row in rows]
