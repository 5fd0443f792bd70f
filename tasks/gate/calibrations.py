"""The table `calibrations`: how far a metric agrees with people, bound to everything that changes its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.metrics_core.gate.evidence import Calibrated, Missing
from answerkey.metrics_core.statistics.intervals import Estimate, Interval
from answerkey.tasks.compare.attribution import signature_changes
from answerkey.tasks.gate.calibrate import OWN_LABELS, Calibrating, columns_of
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home


def keep(home: Home, found: Calibrating) -> None:
    """Write a calibration, one row over all releases and one for each. Older ones stay, and the newest counts."""
    metric, _, field = found.name.partition(".")
    about = {
        "metric": metric, "field": field, "signature": found.signature, "report_ids": list(found.report_ids),
        "labels": found.labels, "seed": found.seed,
    }  # fmt: skip
    with home.warehouse.writing() as warehouse:
        for part in found.parts:
            row = {**about, **columns_of(found, part)}
            places = ", ".join("?" * len(row))
            warehouse.execute(
                f"INSERT INTO calibrations (created_at, {', '.join(row)}) VALUES (now(), {places})", list(row.values())
            )


def calibrations_of(home: Home, reports: Sequence[Report], name: str) -> tuple[Calibrated | Missing, ...]:
    """The newest calibration of METRIC.FIELD `name` on the release of each report, with the signature it has there.

    A calibration with another signature has expired: another judge, prompt or parser errs in another way. One on other
    releases does not count: a judge may be kind to one release and hard on another.
    """
    how = " ".join(["run answerkey calibrate", name, *(f"--report {report.report_id}" for report in reports)])
    return tuple(_calibration_of(home, report, name, how) for report in reports)


def _calibration_of(home: Home, report: Report, name: str, how: str) -> Calibrated | Missing:
    metric, _, field = name.partition(".")
    signature = report.manifest["signatures"].get(metric)
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            "SELECT release, signature, n, kappa, kappa_low, kappa_high, labels FROM calibrations "
            "WHERE metric = ? AND field = ? AND release IS NOT NULL "
            "ORDER BY signature = ? DESC, release = ? DESC, created_at DESC LIMIT 1",
            [metric, field, signature, report.release],
        ).fetchall()
    if not rows or signature is None:
        return Missing(f"it was never calibrated; {how}")
    [(release, calibrated, n, kappa, low, high, labels)] = rows
    if calibrated != signature:
        what = ", ".join(str(change) for change in signature_changes(calibrated, signature))
        return Missing(f"its calibration on answers of {release} has expired ({what}); {how}")
    if release != report.release:
        return Missing(f"it was calibrated on answers of {release}, and not on those of {report.release}; {how}")
    source = "that came with the answers" if labels == OWN_LABELS else f"of {labels}"
    interval = None if low is None else Interval(low, high, "delta-log-t")
    return Calibrated(release, None if kappa is None else Estimate(kappa, interval), n, source)
