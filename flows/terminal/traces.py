"""What the command line prints about rules and traces: funnels, what a run would do, and means over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.markup import escape
from rich.table import Table

from answerkey.flows.terminal.comparisons import Axis
from answerkey.flows.terminal.reports import dollars, plain_table, show
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.tasks.publish.text import number
from answerkey.tasks.traces.score import Preview
from answerkey.tasks.traces.summary import BUCKETS, Funnel, Period, ends

_FIRST = 10
"""Traces of a rule that a dry run prints; JSON has more."""
_LONGEST = 60


def print_funnels(funnels: Sequence[Funnel], *, as_json: bool) -> None:
    """A column a rule: how many traces were seen, and where each of them ended."""
    if as_json:
        print(json.dumps([asdict(funnel) for funnel in funnels], indent=2, ensure_ascii=False))
        return
    page = _page([funnel.rule for funnel in funnels])
    page.add_row("seen", *(f"{funnel.seen:,}" for funnel in funnels), "")
    page.add_section()
    for bucket, what in BUCKETS.items():
        if any(getattr(funnel, bucket) for funnel in funnels) or bucket == "scored":
            counts = (f"{getattr(funnel, bucket):,}" for funnel in funnels)
            page.add_row(f"  {bucket.replace('_', ' ')}", *counts, f"[dim]{what}[/dim]")
    page.add_section()
    page.add_row("mean", *(number(funnel.mean) for funnel in funnels), "")
    page.add_row("95 % interval", *(ends(funnel) for funnel in funnels), "")
    fields = [f"{escape(funnel.rule)}: the mean is of {funnel.metric}.{funnel.field}" for funnel in funnels]
    again = [
        f"{escape(funnel.rule)}: {funnel.again:,} of those seen were seen before" for funnel in funnels if funnel.again
    ]
    show(page, *fields, *again)


def _page(rules: Sequence[str]) -> Table:
    page = plain_table()
    page.add_column("traces", no_wrap=True)
    for rule in rules:
        page.add_column(escape(rule), justify="right", overflow="fold")
    page.add_column("")
    return page


def print_previews(previews: Sequence[Preview], *, as_json: bool) -> None:
    """What a run would do: a column a rule, then the first traces that each would score."""
    if as_json:
        print(json.dumps([asdict(one) for one in previews], indent=2, ensure_ascii=False))
        return
    page = _page([one.rule for one in previews])
    rows = {
        "seen": "",
        "disabled": BUCKETS["disabled"],
        "filtered": BUCKETS["filtered"],
        "sampled_out": BUCKETS["sampled_out"],
        "quarantined": BUCKETS["quarantined"],
        "taken": "would have a score",
        "measured": "of them: measurements to make",
    }
    for name, what in rows.items():
        counts = (f"{getattr(one, name):,}" for one in previews)
        page.add_row(name.replace("_", " "), *counts, f"[dim]{what}[/dim]")
    estimates = [one.estimate for one in previews]
    if any(estimates):
        page.add_section()
        page.add_row("calls", *(f"{one.calls:,}" if one else "–" for one in estimates), "[dim]to judges[/dim]")
        page.add_row("cost", *(dollars(one.cost_usd) if one else "–" for one in estimates), "")
    show(page, *(line for one in previews for line in _taken(one)), "nobody was asked, and nothing was scored")


def _taken(one: Preview) -> Iterator[Table | str]:
    if not one.traces:
        return
    page = plain_table(escape(f"{one.rule} would score"))
    page.add_column("trace", overflow="fold")
    page.add_column("time (UTC)", no_wrap=True)
    page.add_column("answer", overflow="fold")
    for trace in one.traces[:_FIRST]:
        cells = (trace.trace_id, trace.time or "", trace.answer or "")
        page.add_row(*(escape(cut(one_line(cell), _LONGEST)) for cell in cells))
    yield page
    if one.taken > _FIRST:
        yield f"and {one.taken - _FIRST:,} more\n"


def print_over_time(rule: str, name: str, periods: Sequence[Period], *, by: str, as_json: bool) -> None:
    """The mean of a field by day, week or month, with each interval drawn on one axis."""
    if as_json:
        print(json.dumps({rule: {name: [asdict(one) for one in periods]}}, indent=2, ensure_ascii=False))
        return
    axis = Axis.of(periods)
    several = any(one.methods > 1 for one in periods)
    page = plain_table(escape(f"{name} of {rule} by {by}"))
    page.add_column(f"{by} (UTC)", no_wrap=True)
    for head in ("mean", "95 % interval", "scored", *(["method"] if several else [])):
        page.add_column(head, justify="right", no_wrap=True)
    page.add_column(axis.head, no_wrap=True)
    for one in periods:
        method = [str(one.methods)] if several else []
        page.add_row(
            one.start, number(one.mean), ends(one), f"{one.n_scored:,}/{one.n_total:,}", *method, axis.drawn(one)
        )
    warning = ["[yellow]![/yellow] numbers of different methods are not comparable: the metric or its judge changed"]
    show(page, *(warning if several else []))
