"""The table `calibrations`: how far a metric agrees with people, bound to everything that changes its numbers."""

from __future__ import annotations

from pathlib import Path

from metrics_core.evidence import Calibrated, Missing
from metrics_core.statistics.intervals import Estimate, Interval
from tasks.calibrate import Calibrating, columns_of
from tasks.report import Report
from tasks.signatures import changes
from tasks.warehouse.warehouse import reading, writing


def keep(home: Path, found: Calibrating) -> None:
    """Write a calibration, one row over all releases and one for each. Older ones stay, and the newest counts."""
    metric, _, field = found.name.partition(".")
    about = {
        "metric": metric, "field": field, "signature": found.signature, "report_ids": list(found.report_ids),
        "labels": found.labels, "seed": found.seed,
    }  # fmt: skip
    with writing(home) as warehouse:
        for part in found.parts:
            row = {**about, **columns_of(found, part)}
            places = ", ".join("?" * len(row))
            warehouse.execute(
                f"INSERT INTO calibrations (created_at, {', '.join(row)}) VALUES (now(), {places})", list(row.values())
            )


def calibration_of(home: Path, report: Report, name: str) -> Calibrated | Missing:
    """The newest calibration of METRIC.FIELD `name` with the signature that `report` has of it.

    A calibration with another signature has expired: another judge, prompt or parser errs in another way.
    """
    metric, _, field = name.partition(".")
    signature = report.manifest["signatures"].get(metric)
    how = f"run answerkey calibrate {name} --report {report.report_id}"
    with reading(home) as warehouse:
        # A warehouse that an older release wrote has no such table until it is written to again.
        if not warehouse.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'calibrations'").fetchone():
            return Missing(f"it was never calibrated; {how}")
        rows = warehouse.execute(
            "SELECT signature, n, kappa, kappa_low, kappa_high, coalesce(report_ids[1], labels) FROM calibrations "
            "WHERE metric = ? AND field = ? AND release IS NULL ORDER BY signature = ? DESC, created_at DESC LIMIT 1",
            [metric, field, signature],
        ).fetchall()
    if not rows or signature is None:
        return Missing(f"it was never calibrated; {how}")
    [(calibrated, n, kappa, low, high, source)] = rows
    if calibrated != signature:
        what = ", ".join(str(change) for change in changes(calibrated, signature))
        return Missing(f"its calibration on {source} has expired ({what}); {how}")
    if kappa is None:
        return Calibrated(None, n, source)
    return Calibrated(Estimate(kappa, None if low is None else Interval(low, high, "delta-log-t")), n, source)
