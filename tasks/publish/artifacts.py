"""Show a run's scores in the Prefect UI, a table a report; and how numbers and names look in artifacts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from answerkey.tasks.reports.aggregate import ReportRef
from answerkey.tasks.reports.report import Report, Score, read_reports
from answerkey.tasks.warehouse.home import Home


def publish(home: Home, reports: Sequence[ReportRef]) -> None:
    """Make a table artifact of every report. The warehouse stays the record."""
    from prefect.artifacts import create_table_artifact

    for report in read_reports(home, [ref.report_id for ref in reports]):
        key = artifact_key(f"{report.dataset}-{report.release}")
        create_table_artifact(table_rows(report), key=f"scores-{key}", description=f"Scores of {report.report_id}")


def artifact_key(name: str) -> str:
    """A name as Prefect's artifact keys must be: lower-case letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def table_rows(report: Report) -> list[dict[str, Any]]:
    """The overall scores as rows for people: metric, mean, interval, scored/total."""
    return [
        {
            "metric": f"{score.metric}.{score.field}",
            "mean": number(score.mean),
            "95 % interval": interval(score),
            "scored": f"{score.n_scored}/{score.n_total}",
            "failed": score.n_failed,
        }
        for score in report.overall
    ]


def number(value: float | None) -> str:
    """Three decimals, or a dash where there is no number."""
    return "–" if value is None else f"{value:.3f}"


def interval(score: Score) -> str:
    """The interval as `0.710 – 0.731`, or a dash."""
    return "–" if score.ci_low is None else f"{number(score.ci_low)} – {number(score.ci_high)}"


def literal(text: str) -> str:
    """Text from data, as markdown shows it literally."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text.replace("\n", " "))
