"""Tables of reports, judges and generated answers. Drawn by rich; without a terminal they come as plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.judges.votes import OUT_OF_DEPTH
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.metrics_core.measurement import Scored
from answerkey.tasks.publish.text import dollars, interval, number, price
from answerkey.tasks.releases.generate import Generated, counts, spent
from answerkey.tasks.releases.register import Registration
from answerkey.tasks.reports.headline import fields_of, headlines, primary
from answerkey.tasks.reports.manifest import depth_warnings, saved
from answerkey.tasks.reports.report import LABEL, Report, Score

if TYPE_CHECKING:
    from answerkey.flows.cli.doctor import DoctorCheck
    from answerkey.flows.cli.judge import Trial
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
    reports: Sequence[Report],
    *,
    as_json: bool,
    with_checks: bool = False,
    by: str | None = None,
    all_fields: bool = False,
) -> None:
    """One release: metric, mean, interval, scored/total. Several: one column each. Then the slices, if any.

    There is one field per metric, with `all_fields` there are all. `with_checks` adds what validation found; a run has
    said so already while it worked. `by` names the METRIC.FIELD that the slices show, by default the one that decides.

    Raises:
        UserError: no report has the field `by`.
    """
    if as_json:
        print(json.dumps([asdict(report) for report in reports], indent=2, ensure_ascii=False))
        return
    every = fields_of(reports)
    names = every if all_fields else headlines(reports)
    table = _one(reports[0], names) if len(reports) == 1 else _side_by_side(reports, names)
    tables = [table, *_slices(reports, by)]
    found = {message: None for report in reports for _, _, ok, message in report.checks if not ok}
    more = len(every) - len(names)
    about = [f"[dim]{more} more field{'s' if more > 1 else ''} with --all-fields[/dim]"] if more else []
    about += [line for report in reports for line in _about(report)]
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


def plain_table(title: str = "") -> Table:
    """Rows under a ruled head, without a frame."""
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, title_style="bold", pad_edge=False)


def _one(report: Report, names: Sequence[str]) -> Table:
    table = plain_table(escape(f"{report.release} on {report.dataset}"))
    table.add_column("metric", no_wrap=True)
    for name in ("mean", "95 % interval", "scored/total"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = ""
    by_name = {score.name: score for score in report.overall}
    for name, score in ((name, by_name[name]) for name in names):
        if previous and score.metric != previous:
            table.add_section()
        previous = score.metric
        table.add_row(name, number(score.mean), interval(score), f"{score.n_scored:,}/{score.n_total:,}")
    return table


def _side_by_side(reports: Sequence[Report], names: Sequence[str]) -> Table:
    table = plain_table(escape(f"{len(reports)} releases on {reports[0].dataset}: mean ± half the 95 % interval"))
    table.add_column("metric", no_wrap=True)
    for report in reports:
        table.add_column(escape(report.release), justify="right", overflow="fold")
    by_name = [{score.name: score for score in report.overall} for report in reports]
    for name in names:
        table.add_row(name, *(_cell(scores.get(name)) for scores in by_name))
    table.add_section()
    if any(score.metric == LABEL for report in reports for score in report.overall):
        table.add_row("labelled/total", *(_coverage(report, labels=True) for report in reports))
    table.add_row("scored/total", *(_coverage(report) for report in reports))
    return table


def _slices(reports: Sequence[Report], by: str | None) -> list[Table]:
    by_place = [{(score.name, score.slice): score for score in report.scores} for report in reports]
    fields = list(dict.fromkeys(field for scores in by_place for field, _ in scores))
    if by is not None and by not in fields:
        raise UserError(f"--by {by}: these reports have {', '.join(fields)}{did_you_mean(by, fields)}")
    chosen = by or primary(reports)
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

    Human labels stand apart: an answer without a label is no failure.
    """
    chosen = [score for score in report.overall if (score.metric == LABEL) == labels]
    if not chosen:
        return "–"
    least = min(chosen, key=lambda score: score.n_scored)
    return f"{least.n_scored:,}/{least.n_total:,}"


def print_list(rows: Sequence[tuple[str, str, str, str]], *, as_json: bool) -> None:
    """Reports, one per line."""
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


def print_findings(findings: Sequence[DoctorCheck]) -> None:
    """One line a finding, with the remedy where something is wrong."""
    marks = {True: "[green]ok[/green]  ", False: "[red]fail[/red]"}
    show(*(f"{marks[f.ok]}  {f.name:<22} {escape(f.text)}" for f in findings))


_LABEL = 9


def print_estimates(estimates: Sequence[Cost], *, as_json: bool, models: str = "the judges") -> None:
    """A dry run: one line per metric, and the total."""
    if as_json:
        print(json.dumps([asdict(estimate) for estimate in estimates], indent=2))
        return
    page = plain_table(f"dry run: what {models} would be asked")
    page.add_column("metric", overflow="fold")
    for name in ("samples", "calls", "ledger", "tokens in/out", "cost"):
        page.add_column(name, justify="right", no_wrap=True)
    for one in estimates:
        tokens = f"{_rough(one.tokens_in)}/{_rough(one.tokens_out)}"
        counts = (f"{one.samples:,}", f"{one.calls:,}", f"{one.in_ledger:,}")
        page.add_row(one.metric, *counts, tokens, dollars(one.cost_usd))
    names = ("calls", "in_ledger", "tokens_in", "tokens_out")
    calls, known, asked, answered = (sum(getattr(one, name) for one in estimates) for name in names)
    page.add_section()
    tokens = f"{_rough(asked)}/{_rough(answered)}"
    page.add_row("total", "", f"{calls:,}", f"{known:,}", tokens, dollars(total_usd(estimates)))
    decided = [f"{one.metric}: the offline judge decides {one.offline:,}" for one in estimates if one.offline]
    show(page, *decided, "no model was asked; reply tokens are estimated, and failed calls come on top")


def _rough(tokens: int) -> str:
    """Three digits: an estimate has no more to say."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= 0.9995 * size:
            return f"{tokens / size:.3g}{unit}"
    return str(tokens)


def print_trials(trials: Sequence[Trial], references: Sequence[str], *, as_json: bool) -> None:
    """What judges said about one sample, metric by metric."""
    if as_json:
        print(json.dumps([_as_json(trial) for trial in trials], indent=2, ensure_ascii=False))
        return
    for place, trial in enumerate(trials):
        show(*([""] if place else []), *_page(trial, references))


def _as_json(trial: Trial) -> dict[str, Any]:
    found = trial.measurement
    return {
        "metric": found.metric, "status": found.status, "values": dict(found.values), "reason": found.reason,
        "details": dict(found.details), "signature": found.signature, "from_ledger": found.from_ledger,
        "calls": trial.calls, "usage": asdict(found.usage), "requests": list(found.requests),
    }  # fmt: skip


def _page(trial: Trial, references: Sequence[str]) -> Iterator[str | Table]:
    found = trial.measurement
    values = ", ".join(f"{name} {_short(value)}" for name, value in found.values.items())
    yield f"[bold]{found.metric}[/bold]  {values or found.status}"
    details = found.details
    if "verdict" in details:
        rule = f", by the rule {details['rule']}" if details["rule"] else ""
        yield _line("verdict", f"{details['verdict']}{rule}")
    if "probability" in details:
        yield _line("matches", f"with a probability of {details['probability']:.2f}, in the eyes of people")
    if OUT_OF_DEPTH in details:
        yield _line("beware", f"the offline judge is out of its depth: {details[OUT_OF_DEPTH]}")
    if found.reason:
        yield _line("reason" if isinstance(found.outcome, Scored) else "cause", found.reason)
    if isinstance(index := details.get("reference"), int):
        yield _line("reference", f"{index + 1}: {references[index]}")
    yield _line("calls", _calls(trial))
    if len(details.get("votes", ())) > 1:
        yield _votes(details["votes"])
    if "facts" in details:
        yield _facts(details["facts"])


def _line(label: str, text: str) -> str:
    # Judges wrote much of this: neither markup nor control characters of theirs reach the terminal.
    return f"  [dim]{label:<{_LABEL}}[/dim]  {escape(one_line(text))}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else number(value)


def _calls(trial: Trial) -> str:
    found = trial.measurement
    if not trial.calls and trial.about:
        return f"none: judged by the {trial.about}"
    if not trial.calls:
        return "none: the ledger has the replies" if found.from_ledger else "none needed"
    usage = found.usage
    tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
    return f"{trial.calls:,}, {tokens}, {price(usage.cost_usd)}, {usage.seconds:.1f} s"


def _votes(votes: Sequence[Mapping[str, Any]]) -> Table:
    page = plain_table()
    for name in ("vote", "judge", "reason"):
        page.add_column(name, overflow="fold")
    for vote in votes:
        page.add_row(number(vote["vote"]), escape(vote["judge"]), escape(one_line(vote["reason"] or "")))
    return page


def _facts(facts: Sequence[Mapping[str, str | None]]) -> Table:
    """The facts of both texts, those that belong together side by side."""
    page = plain_table()
    for name in ("", "fact of the reference", "fact of the answer"):
        page.add_column(name, overflow="fold")
    texts = {row["id"]: escape(one_line(row["fact"] or "")) for row in facts}
    shown = set()
    for row in facts:
        if row["side"] == "reference":
            page.add_row(row["status"], texts[row["id"]], texts.get(row["with"], ""))
            shown.add(row["with"])
        elif row["id"] not in shown:
            page.add_row(row["status"], "", texts[row["id"]])
    return page


def print_generated(made: Generated, registration: Registration, *, as_json: bool) -> None:
    """The answers of a release: what came of the questions, where they are, and how to go on."""
    if as_json:
        print(json.dumps({**asdict(made), "registration": asdict(registration)}, indent=2, ensure_ascii=False))
        return
    page = plain_table(escape(f"{made.release} on {made.dataset}"))
    page.add_column("")
    (unit, total), *parts = counts(made)
    page.add_column(unit, justify="right")
    for what, n in parts:
        page.add_row(what, f"{n:,}")
    page.add_section()
    page.add_row("all", f"{total:,}")
    lines = [f"without an answer: {escape(made.why)}"] if made.reasons else []
    if made.n_cut_off:
        lines.append(f"cut off at the limit of tokens: {made.n_cut_off:,}")
    state = f"has the report {registration.report_id}" if registration.report_id else "waits for its evaluation"
    lines += [
        f"model: {spent(made)}",
        f"answers: {escape(made.answers)}",
        f"{escape(registration.name)} is registered as {registration.registration} and {state}",
    ]
    show(page, *lines)
