"""What the command line prints. Tables are drawn by rich; without a terminal they come as plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.llm.access import Limits
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.tasks.publish.text import interval, number
from answerkey.tasks.reports.manifest import depth_warnings, saved
from answerkey.tasks.reports.report import LABEL, Report, Score

if TYPE_CHECKING:
    from answerkey.flows.cli.doctor import Finding
    from answerkey.metrics_core.metric import Metric

_PLAIN_WIDTH = 200
"""Columns where there is no terminal to measure: a file or a pipe does not wrap."""


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def fits(columns: int) -> bool:
    """Whether what is that wide can be shown; a file or a pipe takes anything."""
    console = _console()
    return not console.is_terminal or columns <= console.width


def show(*renderables: Table | str) -> None:
    """Print to a terminal as it is, elsewhere as plain lines without the padding of tables."""
    console = _console()
    if console.is_terminal:
        for renderable in renderables:
            console.print(renderable, soft_wrap=isinstance(renderable, str))
        return
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable, soft_wrap=isinstance(renderable, str))
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_reports(
    reports: Sequence[Report], *, as_json: bool, with_checks: bool = False, by: str | None = None
) -> None:
    """One release: metric, mean, interval, scored/total. Several: one column each. Then the slices, if any.

    `with_checks` adds what validation found; a run has said so already while it worked. `by` names the
    METRIC.FIELD that the slices show; recall is the default, because length sways the others most.

    Raises:
        UserError: no report has the field `by`.
    """
    if as_json:
        print(json.dumps([asdict(report) for report in reports], indent=2, ensure_ascii=False))
        return
    table = _one(reports[0]) if len(reports) == 1 else _side_by_side(reports)
    tables = [table, *_slices(reports, by)]
    found = {message: None for report in reports for _, _, ok, message in report.checks if not ok}
    about = [line for report in reports for line in _about(report)]
    show(*tables, *about, *_spent(reports), *(escape(f"- {message}") for message in found if with_checks))


def _about(report: Report) -> Iterator[str]:
    notes = [f"{report.n_total:,} answers", f"data {report.dataset_version}", report.status]
    if quarantined := sum(count for _, count in report.quarantined):
        notes.append(f"{quarantined:,} quarantined")
    yield f"{escape(report.report_id)}  [dim]{', '.join(notes)}[/dim]"
    if report.message:
        yield from (f"  {escape(part)}" for part in report.message.split("; "))
    yield from (f"  {escape(warning)}" for warning in depth_warnings(report.manifest))


def _spent(reports: Sequence[Report]) -> Iterator[str]:
    """Who judged, and what was paid for it, once a run."""
    runs: dict[str, list[Report]] = {}
    for report in reports:
        runs.setdefault(report.run_id, []).append(report)
    for of_run in runs.values():
        if judge := of_run[0].manifest.get("judge"):
            yield escape(_judged(judge, list(filter(None, (saved(report.manifest) for report in of_run)))))


def _judged(judge: Mapping[str, Any], cascades: Sequence[tuple[int, int]]) -> str:
    if judge["judges"] == [OFFLINE]:
        return f"judge: {judge['about']}; free"
    line = f"judge: {judge['calls']:,} call{'' if judge['calls'] == 1 else 's'}, {price(judge['cost_usd'])}"
    if not cascades:
        return line
    decided, calls = (sum(part) for part in zip(*cascades, strict=True))
    return (
        f"{line}; {calls:,} call{'' if calls == 1 else 's'} saved, since the offline judge decided {decided:,} "
        f"answers of meaning_match at an accepted error of {judge['cascade']:.3g} ({judge['about']})"
    )


def price(cost: float | None) -> str:
    """What was, or would be, paid, in a sentence."""
    return "price unknown" if cost is None else dollars(cost)


def what_it_costs(models: Sequence[str], limits: Limits, estimates: Sequence[Cost]) -> str:
    """Whom a run will ask, how often, what it may cost, and its limits, in a sentence."""
    calls, known = (sum(getattr(one, name) for one in estimates) for name in ("calls", "in_ledger"))
    limited = [f"{limits.max_calls:,} calls"] if limits.max_calls is not None else []
    limited += [dollars(limits.max_cost_usd)] if limits.max_cost_usd is not None else []
    return (
        f"{', '.join(models)} will be asked {calls:,} times ({known:,} replies are in the ledger), about "
        f"{price(total_usd(estimates))}; limit: {' and '.join(limited) or 'none'}"
    )


def dollars(cost: float | None) -> str:
    """The same in a table."""
    if cost is None:
        return "unknown"
    return f"${cost:,.4f}" if cost < 1 else f"${cost:,.2f}"


def plain_table(title: str = "") -> Table:
    """Rows under a ruled head, without a frame."""
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, title_style="bold", pad_edge=False)


def _one(report: Report) -> Table:
    table = plain_table(escape(f"{report.release} on {report.dataset}"))
    table.add_column("metric", no_wrap=True)
    for name in ("mean", "95 % interval", "scored/total"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = ""
    for score in report.overall:
        name = f"{score.metric}.{score.field}"
        if previous and score.metric != previous:
            table.add_section()
        previous = score.metric
        table.add_row(name, number(score.mean), interval(score), f"{score.n_scored:,}/{score.n_total:,}")
    return table


def _side_by_side(reports: Sequence[Report]) -> Table:
    table = plain_table(escape(f"{len(reports)} releases on {reports[0].dataset}: mean ± half the 95 % interval"))
    table.add_column("metric", no_wrap=True)
    for report in reports:
        table.add_column(escape(report.release), justify="right", overflow="fold")
    by_field = [{(s.metric, s.field): s for s in report.overall} for report in reports]
    for metric, field in dict.fromkeys(key for scores in by_field for key in scores):
        cells = [_cell(scores.get((metric, field))) for scores in by_field]
        table.add_row(f"{metric}.{field}", *cells)
    table.add_section()
    if any(score.metric == LABEL for report in reports for score in report.overall):
        table.add_row("labelled/total", *(_coverage(report, labels=True) for report in reports))
    table.add_row("scored/total", *(_coverage(report) for report in reports))
    return table


_HEADLINES = ("answer_correctness.token_overlap_recall", "token_overlap.recall", "rouge_l.recall")


def _slices(reports: Sequence[Report], by: str | None) -> list[Table]:
    by_place = [{(f"{s.metric}.{s.field}", s.slice): s for s in report.scores} for report in reports]
    fields = list(dict.fromkeys(field for scores in by_place for field, _ in scores))
    if by is not None and by not in fields:
        raise UserError(f"--by {by}: these reports have {', '.join(fields)}")
    chosen = by or next((field for field in _HEADLINES if field in fields), fields[0])
    slices = dict.fromkeys(slice_ for scores in by_place for _, slice_ in scores if slice_ != "all")
    if not slices:
        return []
    table = plain_table(f"{chosen} by slice")
    table.add_column("slice")
    for report in reports:
        table.add_column(escape(report.release), justify="right", overflow="fold")
    table.add_column("scored", justify="right")
    previous = ""
    for slice_ in slices:
        column = slice_.partition("=")[0]
        if previous and column != previous:
            table.add_section()
        previous = column
        found = [scores.get((chosen, slice_)) for scores in by_place]
        counts = dict.fromkeys(f"{score.n_scored:,}" for score in found if score is not None)
        table.add_row(escape(slice_), *map(_cell, found), " / ".join(counts))
    return [table]


def _cell(score: Score | None) -> str:
    if score is None or score.mean is None:
        return "–"
    if score.ci_low is None or score.ci_high is None:
        return number(score.mean)
    half = f"{(score.ci_high - score.ci_low) / 2:.3f}".removeprefix("0")
    # A space that does not break: the number and its interval stay on one line.
    return f"{score.mean:.3f}\u00a0[dim]±{half}[/dim]"


def _coverage(report: Report, *, labels: bool = False) -> str:
    """Of the metric that covers least: a table may not look more complete than its weakest row.

    Labels of people stand apart: what nobody labelled is no failure.
    """
    chosen = [score for score in report.overall if (score.metric == LABEL) == labels]
    if not chosen:
        return "–"
    least = min(chosen, key=lambda score: score.n_scored)
    return f"{least.n_scored:,}/{least.n_total:,}"


def print_list(rows: Sequence[tuple[str, str, str, str]], *, as_json: bool) -> None:
    """Reports, one a line."""
    names = ("report", "data set version", "made (UTC)", "status")
    if as_json:
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2, ensure_ascii=False))
        return
    table = plain_table()
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(escape, row))
    show(table)


def print_metrics(catalogue: Sequence[tuple[str, Metric]]) -> None:
    """The metrics with their fields and needs."""
    table = plain_table()
    table.add_column("metric", no_wrap=True)
    for name in ("what it is", "fields", "needs"):
        table.add_column(name, overflow="fold")
    for name, metric in catalogue:
        fields = ", ".join(field.name for field in metric.fields)
        table.add_row(name, metric.described(), fields, ", ".join(sorted(metric.needs)))
    show(table)


def print_findings(findings: Sequence[Finding]) -> None:
    """One line a finding, with the remedy where something is wrong."""
    marks = {True: "[green]ok[/green]  ", False: "[red]fail[/red]"}
    show(*(f"{marks[f.ok]}  {f.name:<22} {escape(f.text)}" for f in findings))
