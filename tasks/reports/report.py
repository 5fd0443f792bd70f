"""Read reports back from the warehouse, for the terminal, for artifacts and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Field, Kind
from answerkey.metrics_core.registry import METRICS
from answerkey.tasks.warehouse.home import Home


@dataclass(frozen=True, slots=True)
class Score:
    """One aggregated field of a report; see `report_scores` in schema.sql."""

    metric: str
    field: str
    slice: str
    n_total: int
    n_scored: int
    n_failed: int
    n_undefined: int
    n_skipped: int
    coverage: float | None
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    ci_method: str | None
    bound_low: float | None
    bound_high: float | None


@dataclass(frozen=True, slots=True)
class MetricNote:
    """What a report keeps of a metric."""

    kind: Kind
    summary: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A report with its aggregates, checks and quarantine counts.

    `message` says what has no score and why; None where everything has one.
    """

    report_id: str
    dataset: str
    dataset_version: str
    release: str
    version: int
    created_at: str
    status: str
    message: str | None
    answers_version: str
    run_id: str
    manifest: dict[str, Any]
    scores: tuple[Score, ...]
    checks: tuple[tuple[str, str, bool, str], ...]
    quarantined: tuple[tuple[str, int], ...]

    def metric(self, name: str) -> MetricNote | None:
        """What the metric called `name` is; None for one that is not a metric of the report.

        Reports keep it themselves, since the code of a metric may be gone; those of the first version did not, and
        had metrics of this package only.
        """
        if note := self.manifest.get("metrics", {}).get(name):
            return MetricNote(note["kind"], note["summary"], tuple(Field(**one) for one in note["fields"]))
        if name not in METRICS:
            return None
        return MetricNote(METRICS[name].kind, METRICS[name].described(), METRICS[name]().fields)

    def range(self, metric: str, field: str) -> tuple[float, float]:
        """The lowest and highest possible value of a field; of one that is not known, the widest of its metric."""
        note = self.metric(metric)
        if note is None:
            return 0.0, 1.0
        fields = [one for one in note.fields if one.name == field] or note.fields
        return min(one.low for one in fields), max(one.high for one in fields)

    @property
    def overall(self) -> tuple[Score, ...]:
        """The scores over all rows, without slices."""
        return tuple(score for score in self.scores if score.slice == "all")

    @property
    def n_total(self) -> int:
        """Rows of the release that were accepted."""
        return int(self.manifest["n_rows"])


def read_reports(home: Home, report_ids: Sequence[str]) -> list[Report]:
    """The reports called `report_ids`, in that order.

    Raises:
        UserError: one of them is not in the warehouse.
    """
    with home.warehouse.reading() as warehouse:
        return [_read(warehouse, report_id, home) for report_id in report_ids]


def list_reports(home: Home, prefix: str = "") -> list[tuple[str, str, str, str]]:
    """Id, data set version, time and status of the reports whose id starts with `prefix`, oldest first."""
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            "SELECT report_id, dataset_version, strftime(created_at, '%Y-%m-%d %H:%M'), status FROM reports "
            "WHERE starts_with(report_id, ?) ORDER BY created_at, rowid",
            [prefix],
        ).fetchall()
    return [(str(a), str(b), str(c), str(d)) for a, b, c, d in rows]


def latest_run(home: Home) -> list[str]:
    """Ids of the reports that the newest run made."""
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            """
            SELECT report_id FROM reports
            WHERE run_id = (SELECT run_id FROM reports ORDER BY created_at DESC LIMIT 1) ORDER BY rowid
            """
        ).fetchall()
    return [str(row[0]) for row in rows]


def _read(warehouse: Any, report_id: str, home: Home) -> Report:
    about = warehouse.execute(
        "SELECT dataset, dataset_version, release, version, strftime(created_at, '%Y-%m-%d %H:%M:%S UTC'), status, "
        "message, answers_version, run_id, manifest FROM reports WHERE report_id = ?",
        [report_id],
    ).fetchone()
    if about is None:
        raise UserError(f"{report_id}: no such report in {home}; `answerkey report --list` shows what there is")
    dataset, dataset_version, release, version, created_at, status, message, answers_version, run_id, content = about
    manifest = json.loads(content)
    places = {metric: place for place, metric in enumerate(manifest["signatures"])}
    scores = [
        Score(*row)
        for row in warehouse.execute(
            "SELECT metric, field, slice, n_total, n_scored, n_failed, n_undefined, n_skipped, coverage, mean, "
            "ci_low, ci_high, ci_method, bound_low, bound_high FROM report_scores WHERE report_id = ? "
            "ORDER BY slice <> 'all', slice, rowid",
            [report_id],
        ).fetchall()
    ]
    scores.sort(key=lambda score: places.get(score.metric, len(places)))
    checks = warehouse.execute(
        "SELECT rule, severity, success, message FROM validations "
        "WHERE run_id = ? AND (release IS NULL OR release = ?) ORDER BY rowid",
        [run_id, release],
    ).fetchall()
    quarantined = warehouse.execute(
        "SELECT rule, count(*) FROM quarantine WHERE run_id = ? AND (release IS NULL OR release = ?) "
        "GROUP BY rule ORDER BY rule",
        [run_id, release],
    ).fetchall()
    return Report(
        report_id, dataset, dataset_version, release, version, created_at, status, message, answers_version, run_id,
        manifest, tuple(scores), tuple(checks), tuple(quarantined),
    )  # fmt: skip
