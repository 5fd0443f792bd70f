"""What the page needs beyond the reports themselves: distributions, failures, checks, quarantine, history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from answerkey.metrics_core.statistics.agreement import Confusion
from answerkey.metrics_core.statistics.ppi import rogan_gladen
from answerkey.tasks.publish.page.model import Agreement, Check, Corrected, Distribution, Failure, Refused
from answerkey.tasks.reports.report import Report

if TYPE_CHECKING:
    import duckdb

BINS = 20
_MOST_REFUSED = 100
_RAW_CHARS = 2_000


def median_lengths(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> dict[str, float | None]:
    """By report id: the median length of the answers in characters; None where there is no answer."""
    found = {}
    for report in reports:
        [(median,)] = warehouse.execute(
            "SELECT median(length(answer)) FROM answers WHERE dataset = ? AND release = ? AND answers_version = ?",
            [report.dataset, report.release, report.answers_version],
        ).fetchall()
        found[report.report_id] = median
    return found


def binary_fields(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> set[str]:
    """The fields, as METRIC.FIELD, whose every score in these reports is 0 or 1."""
    rows = warehouse.execute(
        "SELECT metric || '.' || field FROM scores WHERE report_id = ANY(?) AND status = 'scored' "
        'GROUP BY ALL HAVING bool_and("value" IN (0, 1))',
        [[report.report_id for report in reports]],
    ).fetchall()
    return {str(row[0]) for row in rows}


def distributions(
    warehouse: duckdb.DuckDBPyConnection, labels: Mapping[str, str], binary: set[str]
) -> tuple[Distribution, ...]:
    """Counts of every field of the reports in `labels` (id to label). Bins span 0 to 1, or more where values do."""
    rows = warehouse.execute(
        """
        WITH chosen AS (
            SELECT report_id, metric || '.' || field AS name, "value" AS x FROM scores WHERE report_id = ANY($ids)
        ), spans AS (
            SELECT name, least(0, floor(coalesce(min(x), 0) * 5) / 5) AS low,
                   greatest(1, ceil(coalesce(max(x), 1) * 5) / 5) AS high
            FROM chosen GROUP BY name
        ), binned AS (
            SELECT report_id, name, low, high, x,
                   -- What has no score is in no bin: least() would pass over the NULL, and put it into the last one.
                   if(x IS NULL, NULL, least($bins - 1, floor((x - low) / (high - low) * $bins))::INTEGER) AS bin
            FROM chosen JOIN spans USING (name)
        )
        SELECT report_id, name, any_value(low), any_value(high), bin, count(*) FROM binned
        GROUP BY report_id, name, bin
        """,
        {"ids": list(labels), "bins": BINS},
    ).fetchall()
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    bins: dict[tuple[str, str], dict[int | None, int]] = {}
    for report_id, name, low, high, bin_, n in rows:
        spans[name, report_id] = (low, high)
        bins.setdefault((name, report_id), {})[bin_] = n
    found = []
    for name, report_id in sorted(bins, key=lambda key: (key[0], list(labels).index(key[1]))):
        counts = [bins[name, report_id].get(place, 0) for place in range(BINS)]
        if name in binary:
            counts = [sum(counts[:-1]), counts[-1]]
        missing = bins[name, report_id].get(None, 0)
        found.append(Distribution(name, labels[report_id], *spans[name, report_id], tuple(counts), missing))
    return tuple(found)


def failures(warehouse: duckdb.DuckDBPyConnection, labels: Mapping[str, str]) -> tuple[Failure, ...]:
    """Rows without a score, by metric, status and reason, the most frequent first."""
    rows = warehouse.execute(
        """
        WITH rows AS (
            SELECT DISTINCT report_id, metric, sample_id, status, coalesce(reason, '') AS reason
            FROM scores WHERE report_id = ANY(?) AND status <> 'scored'
        )
        SELECT report_id, metric, status, reason, count(*) AS n FROM rows
        GROUP BY ALL ORDER BY status, n DESC, metric, reason LIMIT 200
        """,
        [list(labels)],
    ).fetchall()
    return tuple(Failure(labels[row[0]], *row[1:]) for row in rows)


def checks(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> tuple[Check, ...]:
    """What was checked in the runs of these reports, on their releases or on all; what failed comes first."""
    rows = warehouse.execute(
        """
        SELECT rule, severity, release, success, n_checked, n_failed, message FROM validations
        WHERE run_id = ANY(?) AND (release IS NULL OR release = ANY(?))
        ORDER BY success, severity, rowid
        """,
        [_runs(reports), [report.release for report in reports]],
    ).fetchall()
    return tuple(dict.fromkeys(Check(*row) for row in rows))


def quarantine(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> tuple[int, tuple[Refused, ...]]:
    """How many rows the runs of these reports refused, and the first of them."""
    chosen = "FROM quarantine WHERE run_id = ANY(?) AND (release IS NULL OR release = ANY(?))"
    parameters = [_runs(reports), [report.release for report in reports]]
    [(n,)] = warehouse.execute(f"SELECT count(*) {chosen}", parameters).fetchall()
    rows = warehouse.execute(
        f'SELECT source, "row", sample_id, release, rule, reason, left(raw, {_RAW_CHARS}) {chosen} '
        f"ORDER BY rowid LIMIT {_MOST_REFUSED}",
        parameters,
    ).fetchall()
    return n, tuple(Refused(*row) for row in rows)


_ESTIMATES = ("kappa", "sensitivity", "specificity", "bias", "ceiling_kappa", "raw_mean", "ppi_mean")


def agreements(
    warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report], labels: Mapping[str, str], binary: set[str]
) -> tuple[tuple[Agreement, ...], tuple[Corrected, ...]]:
    """The newest calibration of each field and release with the signature that the reports have of its metric.

    Corrected means are those of a report of the page. Where the calibration is of another report of the release, for
    instance on another data set, the errors that it found are carried over, for the fields that are `binary`.
    """
    signatures = {signature for report in reports for signature in report.manifest["signatures"].values()}
    estimates = ", ".join(f"{name}, {name}_low, {name}_high" for name in _ESTIMATES)
    rows = warehouse.execute(
        f"""
        SELECT metric || '.' || field, release, labels, n, n_unlabelled, report_ids, base_rate, {estimates}
        FROM calibrations
        WHERE signature = ANY($signatures) AND (release IS NULL OR release = ANY($releases))
        QUALIFY row_number() OVER (PARTITION BY metric, field, release ORDER BY created_at DESC, rowid DESC) = 1
        ORDER BY metric, field, release IS NOT NULL, list_position($releases, release)
        """,
        {"signatures": list(signatures), "releases": [report.release for report in reports]},
    ).fetchall()
    found, means = [], []
    for field, release, source, n, n_unlabelled, report_ids, base_rate, *numbers in rows:
        kappa, sensitivity, specificity, bias, ceiling, raw, corrected = zip(*[iter(numbers)] * 3, strict=True)
        of_release = [report for report in reports if report.release == release]
        own = next((report for report in of_release if report.report_id in report_ids), None)
        shown = own or next(iter(of_release), None)
        name = labels[shown.report_id] if shown else None
        one = Agreement(field, name, source, n, kappa, sensitivity, specificity, bias, ceiling)
        found.append(one)
        if own and name and corrected[0] is not None:
            means.append(Corrected(field, name, raw, corrected, n, n_unlabelled, "PPI++"))
        elif not own and shown and field in binary and base_rate is not None:
            means += _carried_over(one, shown, base_rate)
    return tuple(found), tuple(means)


def _carried_over(one: Agreement, report: Report, base_rate: float) -> list[Corrected]:
    """The mean of `report` corrected for the errors that the judge makes on other answers of the release, if it can."""
    score = next((score for score in report.overall if f"{score.metric}.{score.field}" == one.field), None)
    if score is None or score.mean is None or one.sensitivity[0] is None or one.specificity[0] is None:
        return []
    # The counts behind the rates.
    ones = round(one.n * base_rate)
    right, caught = round(one.sensitivity[0] * ones), round(one.specificity[0] * (one.n - ones))
    counts = Confusion(right, one.n - ones - caught, ones - right, caught)
    found = rogan_gladen(round(score.mean * score.n_scored), score.n_scored, counts)
    if found is None or found.interval is None:
        return []
    corrected = (found.value, found.interval.low, found.interval.high)
    raw = (score.mean, score.ci_low, score.ci_high)
    return [Corrected(one.field, str(one.release), raw, corrected, one.n, score.n_scored, "Rogan-Gladen")]


def _runs(reports: Sequence[Report]) -> list[str]:
    return list(dict.fromkeys(report.run_id for report in reports))
