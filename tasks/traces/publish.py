"""Show what became of traces in the Prefect UI: a table of the run, and a page of every rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from answerkey.tasks.publish.artifacts import artifact_key, literal, number
from answerkey.tasks.traces.funnel import BUCKETS, Funnel
from answerkey.tasks.traces.summary import Period, over_time
from answerkey.tasks.warehouse.home import Home

_DAYS = 30


def publish(home: Home, funnels: Sequence[Funnel]) -> None:
    """Make a table artifact of the run's funnels, and a markdown artifact of every rule with its days."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    create_table_artifact(table_rows(funnels), key="score-traces", description="How many traces came how far")
    for funnel in funnels:
        name, days = over_time(home, funnel.rule)
        create_markdown_artifact(
            markdown(funnel, name, days[-_DAYS:]), key=f"rule-{artifact_key(funnel.rule)}", description=funnel.rule
        )


def table_rows(funnels: Sequence[Funnel]) -> list[dict[str, Any]]:
    """A row a rule: where its traces ended, and the mean of the metric's main field."""
    return [
        {
            "rule": funnel.rule,
            "seen": funnel.seen,
            **{bucket.replace("_", " "): getattr(funnel, bucket) for bucket in BUCKETS},
            "field": f"{funnel.metric}.{funnel.field}",
            "mean": number(funnel.mean),
            "95 % interval": ends(funnel),
        }
        for funnel in funnels
    ]


def ends(one: Funnel | Period) -> str:
    """The interval as `0.710 – 0.731`, or a dash."""
    return "–" if one.low is None else f"{number(one.low)} – {number(one.high)}"


def markdown(funnel: Funnel, name: str, days: Sequence[Period]) -> str:
    """One page about a rule: how many traces of this run came how far, and its mean by day."""
    lines = [
        f"# {literal(funnel.rule)}",
        "",
        f"`{funnel.signature}`",
        "",
        "| traces | of this run | |",
        "|---|---|---|",
        f"| seen | {funnel.seen:,} | {funnel.again:,} of them again |",
        *(f"| {bucket.replace('_', ' ')} | {getattr(funnel, bucket):,} | {what} |" for bucket, what in BUCKETS.items()),
        "",
        f"{funnel.measured:,} measurements were made; the others were known, or equal each other.",
        "",
        f"## {literal(name)} by day",
        "",
        "| day (UTC) | mean | 95 % interval | scored |",
        "|---|---|---|---|",
        *(f"| {day.start} | {number(day.mean)} | {ends(day)} | {day.n_scored:,}/{day.n_total:,} |" for day in days),
        "",
    ]
    return "\n".join(lines)
