"""A field over the reports of a data set: releases and versions, oldest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

MOST_REPORTS = 40


@dataclass(frozen=True, slots=True)
class Moment:
    """A field of one report. `methods` counts the signatures met so far, from 1: numbers of two are not comparable."""

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


def history(home: Home, name: str, dataset: str = "", most: int = MOST_REPORTS) -> dict[str, tuple[Moment, ...]]:
    """By data set: the field `name` (METRIC.FIELD) in the newest `most` reports that have it.

    Args:
        dataset: the only data set to look at; all, where it is empty.

    Raises:
        UserError: no report has the field, or there is no such data set.
    """
    with home.warehouse.reading() as warehouse:
        known = warehouse.execute(
            "SELECT DISTINCT dataset, s.metric || '.' || s.field FROM reports JOIN report_scores s USING (report_id) "
            "WHERE $dataset IN ('', dataset) ORDER BY ALL",
            {"dataset": dataset},
        ).fetchall()
        datasets = [one for one, field in known if field == name]
        if not datasets:
            there = f"the reports on {dataset}" if dataset else "the reports"
            fields = ", ".join(dict.fromkeys(field for _, field in known)) or "no numbers"
            raise UserError(f"{name}: {there} in {home} have {fields}")
        return {one: moments(warehouse, one, [name], most) for one in datasets}


def moments(
    warehouse: duckdb.DuckDBPyConnection, dataset: str, names: Sequence[str], most: int = MOST_REPORTS
) -> tuple[Moment, ...]:
    """The fields `names` (METRIC.FIELD) in the newest `most` reports of a data set that have any, oldest first."""
    rows = warehouse.execute(
        """
        WITH found AS (
            SELECT r.report_id, r.release, r.version, strftime(r.created_at, '%Y-%m-%d %H:%M'), r.dataset_version,
                   r.status, s.metric || '.' || s.field AS name, s.n_scored, s.n_total, s.mean, s.ci_low, s.ci_high,
                   s.metric, r.manifest, r.created_at, r.rowid AS place
            FROM reports r JOIN report_scores s USING (report_id)
            WHERE r.dataset = $dataset AND s.slice = 'all' AND name IN (SELECT unnest($names))
            QUALIFY dense_rank() OVER (ORDER BY r.created_at DESC, r.rowid DESC) <= $most
        )
        SELECT * EXCLUDE (created_at, place) FROM found ORDER BY created_at, place, list_position($names, name)
        """,
        {"dataset": dataset, "names": list(names), "most": most},
    ).fetchall()
    met: dict[str, dict[str, int]] = {}
    found = []
    for row in rows:
        *about, metric, manifest = row
        known = met.setdefault(metric, {})
        signature = str(json.loads(manifest)["signatures"].get(metric))
        about.append(known.setdefault(signature, len(known) + 1))
        found.append(Moment(*about))
    return tuple(found)
