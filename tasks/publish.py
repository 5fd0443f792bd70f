"""Show a run's reports in the Prefect UI: a table and a page per report, and a progress bar while it works."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.aggregate import ReportRef
from tasks.report import Report, Score, read_reports


def publish(home: Path, reports: Sequence[ReportRef]) -> None:
    """Make a table and a markdown artifact of every report. The warehouse stays the record."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    for report in read_reports(home, [ref.report_id for ref in reports]):
        key = artifact_key(f"{report.dataset}-{report.release}")
        create_table_artifact(table_rows(report), key=f"scores-{key}", description=f"Scores of {report.report_id}")
        create_markdown_artifact(markdown(report), key=f"report-{key}", description=report.report_id)


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


def markdown(report: Report) -> str:
    """One page about a report: what it is, the scores, what validation found, how it was made."""
    rows = table_rows(report)
    lines = [
        f"# {literal(report.report_id)}",
        "",
        f"{report.n_total} answers of **{literal(report.release)}** on data set **{report.dataset}**, version "
        f"`{report.dataset_version}`. Status: **{report.status}**. Made {report.created_at}.",
        "",
        *([literal(report.message), ""] if report.message else []),
        "| " + " | ".join(rows[0]) + " |",
        "|" + "---|" * len(rows[0]),
        *("| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows),
        "",
        "## Validation",
        "",
        *(f"- {rule}: {count} rows quarantined" for rule, count in report.quarantined),
        *(f"- {severity}: {literal(message)}" for _, severity, success, message in report.checks if not success),
        "",
        "## Signatures",
        "",
        *(f"- `{signature}`" for signature in report.manifest["signatures"].values()),
        "",
    ]
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three decimals, or a dash where there is no number."""
    return "–" if value is None else f"{value:.3f}"


def interval(score: Score) -> str:
    """The interval as `0.710 – 0.731`, or a dash."""
    return "–" if score.ci_low is None else f"{number(score.ci_low)} – {number(score.ci_high)}"


def literal(text: str) -> str:
    """Text from data, as markdown shows it literally."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text.replace("\n", " "))
