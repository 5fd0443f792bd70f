"""Make the report tables of a run: one report a release, in one transaction, never changing an older one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.metric import Field
from answerkey.metrics_core.registry import Options, create
from answerkey.metrics_core.statistics.intervals import Interval, cluster_t, student_t, wilson
from answerkey.tasks.reports.commit import Committed, ReleaseVersion
from answerkey.tasks.reports.corpus_bleu import corpus_bleu_rows
from answerkey.tasks.reports.coverage import settle_reports
from answerkey.tasks.reports.judged_by import note_judges
from answerkey.tasks.reports.labels import LABEL, LABEL_FIELD, LABEL_SIGNATURE, has_labels, label_scores
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class ReportRef:
    """A report that was made; `message` says what has no score and why, None where everything has one."""

    report_id: str
    release: str
    status: str
    message: str | None


def aggregate(
    home: Home,
    committed: Committed,
    metrics: Sequence[str],
    options: Options,
    manifest: Mapping[str, Any],
    *,
    min_coverage: float = 0.95,
) -> tuple[ReportRef, ...]:
    """Write `reports`, `scores` and `report_scores` for every release of the run.

    Where people have labelled any answer of the run, their label is the first metric of every report.

    `min_coverage` is the share of rows (0 to 1), of those that should have a score, that every metric must have
    scored for a report to be COMPLETE.
    """
    chosen = create(metrics, options)
    fields = {(metric.name, field.name): field for metric in chosen for field in metric.fields}
    signatures = {metric.name: metric.signature for metric in chosen}
    with home.warehouse.writing() as warehouse:
        if labelled := has_labels(warehouse, committed):
            fields = {(LABEL, LABEL_FIELD.name): LABEL_FIELD} | fields
            signatures = {LABEL: LABEL_SIGNATURE} | signatures
        _new_reports(warehouse, committed, {**manifest, "signatures": signatures})
        _fields(warehouse, list(fields), signatures)
        _insert_scores(warehouse, committed)
        if labelled:
            label_scores(warehouse, committed)
        _rows_for_aggregates(warehouse, committed)
        _insert_aggregates(warehouse, fields)
        corpus_bleu_rows(warehouse)
        settle_reports(warehouse, min_coverage)
        note_judges(warehouse)
        return _refs(warehouse)


def _new_reports(warehouse: duckdb.DuckDBPyConnection, committed: Committed, manifest: Mapping[str, Any]) -> None:
    warehouse.execute(
        "CREATE OR REPLACE TEMP TABLE new_reports (report_id VARCHAR, release VARCHAR, answers_version VARCHAR)"
    )
    for release in committed.releases:
        [(version,)] = warehouse.execute(
            "SELECT coalesce(max(version), 0) + 1 FROM reports WHERE dataset = ? AND release = ?",
            [committed.dataset, release.release],
        ).fetchall()
        report_id = f"{committed.dataset}/{release.release}/v{version}"
        content = {**manifest, "answers_version": release.answers_version, "n_rows": release.n_rows}
        if "rerun_of" not in content and (earlier := _of_this_run(warehouse, committed, release, manifest)):
            content["rerun_of"] = earlier
        warehouse.execute(
            "INSERT INTO new_reports VALUES (?, ?, ?)", [report_id, release.release, release.answers_version]
        )
        warehouse.execute(
            "INSERT INTO reports (report_id, dataset, dataset_version, release, version, created_at, status, manifest, "
            "answers_version, run_id) VALUES (?, ?, ?, ?, ?, now(), 'COMPLETE', ?, ?, ?)",
            [
                report_id, committed.dataset, committed.dataset_version, release.release, version,
                json.dumps(content, ensure_ascii=False), release.answers_version, content.get("run_id"),
            ],
        )  # fmt: skip


def _of_this_run(
    warehouse: duckdb.DuckDBPyConnection, committed: Committed, release: ReleaseVersion, manifest: Mapping[str, Any]
) -> str | None:
    """The report that this very run made before it failed further on and was retried."""
    found = warehouse.execute(
        "SELECT report_id FROM reports WHERE dataset = ? AND release = ? AND run_id = ? ORDER BY version DESC LIMIT 1",
        [committed.dataset, release.release, manifest.get("run_id")],
    ).fetchone()
    return found[0] if found else None


def _fields(
    warehouse: duckdb.DuckDBPyConnection, fields: Sequence[tuple[str, str]], signatures: Mapping[str, str]
) -> None:
    warehouse.execute(
        "CREATE OR REPLACE TEMP TABLE fields (place INTEGER, metric VARCHAR, signature VARCHAR, field VARCHAR)"
    )
    for place, (metric, field) in enumerate(fields):
        warehouse.execute("INSERT INTO fields VALUES (?, ?, ?, ?)", [place, metric, signatures[metric], field])


def _insert_scores(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> None:
    # A row that nobody measured was left out on purpose: --only-failed scores nothing new. Labels are not measured.
    # A question without an answer has failed before anything could be scored.
    warehouse.execute(
        """
        INSERT INTO scores
        SELECT n.report_id, a.dataset, ?, a.release, a.sample_id, f.metric, f.field,
               CASE WHEN m.status = 'scored' THEN map_extract(m."values", f.field)[1] END,
               CASE WHEN a.missing_because IS NOT NULL THEN 'failed' ELSE coalesce(m.status, 'skipped') END,
               CASE WHEN a.missing_because IS NOT NULL
                        THEN concat('unanswered (', split_part(a.missing_because, ':', 1), ')')
                    WHEN m.status IS NULL THEN 'not scored yet: only failed rows were asked for'
                    ELSE m.reason END,
               f.signature
        FROM new_reports n
        JOIN answers a ON a.dataset = ? AND a.release = n.release AND a.answers_version = n.answers_version
        JOIN fields f ON f.metric <> ?
        LEFT JOIN measurements m ON m.sample_key = a.sample_key AND m.signature = f.signature
        """,
        [committed.dataset_version, committed.dataset, LABEL],
    )


def _rows_for_aggregates(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> None:
    """The table `places`: every row of the new reports once for 'all' and once a slice.

    `unit` is what is independent: the cluster, or the row itself. Sums are taken per `grp`, which is the unit
    only where there are clusters, so that a million independent rows make one sum and not a million.
    """
    key = {"dataset": committed.dataset, "version": committed.dataset_version}
    [(clustered,)] = warehouse.execute(
        'SELECT count("cluster") > 0 FROM samples WHERE dataset = $dataset AND dataset_version = $version',
        key,
    ).fetchall()
    warehouse.execute(
        """
        CREATE OR REPLACE TEMP TABLE places AS
        SELECT n.report_id, n.release, a.sample_id, a.sample_key,
               coalesce('cluster ' || s."cluster", 'sample ' || a.sample_id) AS unit,
               CASE WHEN $clustered THEN unit ELSE '' END AS grp, $clustered AS clustered,
               unnest(list_prepend('all', [key || '=' || a.slices[key] for key in map_keys(a.slices)])) AS slice
        FROM new_reports n
        JOIN answers a ON a.dataset = $dataset AND a.release = n.release AND a.answers_version = n.answers_version
        LEFT JOIN samples s
            ON s.dataset = $dataset AND s.dataset_version = $version AND s.sample_id = a.sample_id
        """,
        {**key, "clustered": clustered},
    )


_AGGREGATES = """
WITH sums AS (
    SELECT p.report_id, any_value(p.release) AS release, s.metric, s.field, p.slice, p.grp,
           any_value(p.clustered) AS clustered, count(*) AS n, count(s."value") AS n_scored,
           count(*) FILTER (s.status = 'failed') AS n_failed,
           count(*) FILTER (s.status = 'undefined') AS n_undefined,
           count(*) FILTER (s.status = 'skipped') AS n_skipped,
           sum(s."value") AS total, sum(s."value" * s."value") AS squares
    FROM places p JOIN scores s USING (report_id, sample_id)
    GROUP BY ALL
), means AS (
    SELECT *, fsum(total) OVER w / nullif(sum(n_scored) OVER w, 0) AS mean FROM sums
    WINDOW w AS (PARTITION BY report_id, metric, field, slice)
)
SELECT report_id, any_value(release), metric, field, slice, sum(n)::BIGINT, sum(n_scored)::BIGINT,
       sum(n_failed)::BIGINT, sum(n_undefined)::BIGINT, sum(n_skipped)::BIGINT, any_value(mean),
       sum(squares - 2 * mean * total + n_scored * mean * mean) AS deviations,
       sum((total - mean * n_scored) ** 2) AS residuals,
       count(*) FILTER (n_scored > 0) AS clusters, bool_or(clustered) AS clustered
FROM means GROUP BY report_id, metric, field, slice
"""


def _insert_aggregates(warehouse: duckdb.DuckDBPyConnection, fields: Mapping[tuple[str, str], Field]) -> None:
    places = {key: place for place, key in enumerate(fields)}
    rows = warehouse.execute(_AGGREGATES).fetchall()
    for row in sorted(rows, key=lambda row: (row[0], places[row[2], row[3]], row[4])):
        report_id, release, metric, field, slice_, total, scored, failed, undefined, skipped, mean = row[:11]
        about = fields[metric, field]
        interval = None if mean is None else _interval(about, mean, scored, *row[11:])
        low, high, method = interval or (None, None, None)
        bounds = _bounds(about, mean or 0.0, scored, failed + skipped)
        warehouse.execute(
            f"INSERT INTO report_scores VALUES ({', '.join('?' * 17)})",
            [
                report_id, release, metric, field, slice_, total, scored, failed, undefined, skipped,
                scored / total, mean, low, high, method, *bounds,
            ],
        )  # fmt: skip


def _interval(
    field: Field, mean: float, n: int, deviations: float, residuals: float, clusters: int, clustered: bool
) -> Interval | None:
    interval: Interval | None
    if clustered:
        interval = cluster_t(mean, residuals, n, clusters)
    elif field.binary:
        interval = wilson(round(mean * n), n)
    else:
        # Rounding can leave a sum of squares a hair below nothing.
        sd = (max(0.0, deviations) / (n - 1)) ** 0.5 if n > 1 else 0.0
        interval = student_t(mean, sd, n)
    return interval and interval.clipped(field.low, field.high)


def _bounds(field: Field, mean: float, n_scored: int, n_missing: int) -> tuple[float | None, float | None]:
    """The mean if every row that should have a number had the lowest, and the highest, one."""
    n = n_scored + n_missing
    if not n:
        return None, None
    return tuple((mean * n_scored + end * n_missing) / n for end in (field.low, field.high))  # type: ignore[return-value]


def _refs(warehouse: duckdb.DuckDBPyConnection) -> tuple[ReportRef, ...]:
    rows = warehouse.execute(
        "SELECT report_id, n.release, status, message "
        "FROM new_reports n JOIN reports USING (report_id) ORDER BY n.rowid"
    ).fetchall()
    return tuple(ReportRef(*row) for row in rows)
