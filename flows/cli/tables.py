"""Tables of reports, metrics, costs and generated answers, drawn by rich; plain text where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from answerkey.flows.cli.layout import sample_lines, show, title_line
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, pasted
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.llm.untrusted import one_line
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import counted, number, price, spent_on_judges
from answerkey.tasks.releases.generate import Generated, counts, spent
from answerkey.tasks.releases.register import Registration
from answerkey.tasks.reports.headline import fields_of, headlines, primary
from answerkey.tasks.reports.manifest import judge_warnings, saved
from answerkey.tasks.reports.report import Report

if TYPE_CHECKING:
    from answerkey.tasks.compare.examples import WorstScore
    from answerkey.tasks.warehouse.home import Home


def print_reports(
    reports: Sequence[Report],
    *,
    as_json: bool,
    with_checks: bool = False,
    by: str | None = None,
    all_fields: bool = False,
    home: Home = HOME,
    samples: int = 0,
) -> None:
    """One release: metric, mean, interval, scored/total. Several: one column each. Then the slices, if any.

    There is one field per metric, with `all_fields` there are all. `with_checks` adds what validation found; a run has
    said so already while it worked. `by` names the METRIC.FIELD that the slices show, by default the primary field.
    `home` is where a command finds the reports. `samples`: how many of the worst scores of each report are shown, in
    the same field as the slices.

    Raises:
        UserError: no report has the field `by`.
    """
    if as_json:
        rows = [asdict(report) for report in reports]
        for row, worst in zip(rows, _worst(home, reports, by, samples), strict=False):
            row["samples"] = [asdict(sample) for sample in worst]
        print_json(rows)
        return
    # One field per metric, each with its pass@k and pass^k where questions have several answers
    all_names = fields_of(reports)
    names = []
    for name in all_names if all_fields else headlines(reports):
        names.append(name)
        if not all_fields:
            names += [other for other in all_names if other.startswith((f"{name}_pass@", f"{name}_pass^"))]

    # What is not in the table, and what else is to be known
    lines = []
    command = pasted(home, "report", *(report.report_id for report in reports), "--all-fields")
    n_more = len(all_names) - len(names)
    if n_more and command:
        lines.append(f"[dim]{counted(n_more, 'more field')}: {escape(command)}[/dim]")
    for report in reports:
        lines += _remarks(report, names)
    lines += _spent(reports)
    if with_checks:
        messages = [message for report in reports for _, _, passed, message in report.checks if not passed]
        lines += [escape(f"- {message}") for message in dict.fromkeys(messages)]

    # The scores, and the slices, if there are any
    scored = [score for report in reports for score in report.scores]
    fields = list(dict.fromkeys(score.name for score in scored))
    if by is not None and by not in fields:
        raise UserError(f"--by {by}: these reports have {', '.join(fields)}{did_you_mean(by, fields)}")
    slices = []
    if any(score.slice != ALL for score in scored):
        slices.append(tables.slices(tables.reports_by_release(reports), by or primary(reports)))
    show(tables.scores_of(reports, names), *slices, *_agreements(reports, names[0]), *lines)

    # The worst samples of each report
    for report, worst in zip(reports, _worst(home, reports, by, samples), strict=False):
        title = f"the samples with the worst {worst[0].field}" if worst else "no sample has a number"
        sample_texts: list[str] = []
        for sample in worst:
            texts = {
                "question": sample.question,
                "reference": " | ".join(sample.references),
                "answer": sample.answer,
                "reason": sample.reason,
            }
            sample_texts += sample_lines(sample.sample_id, number(sample.value), texts)
        show("", title_line(f"{report.release}: {title}"), *sample_texts)


def print_remarks(reports: Sequence[Report], *, with_depth: bool) -> None:
    """What else is to be known of reports whose scores were printed by a comparison.

    `with_depth`: how many of the primary metric's answers are outside the training data of the offline judge.
    """
    name = primary(reports)
    depth_of = [name.partition(".")[0]] if with_depth else []
    lines: list[str] = []
    for report in reports:
        remarks = [*_remarks(report, (), depth_of)]
        # The first line only says how many answers there are
        if remarks[1:] or report.quarantined:
            lines += remarks
    show(*_agreements(reports, name), *lines, *_spent(reports))


def _agreements(reports: Sequence[Report], name: str) -> list[Table]:
    """How far scores that came with the answers agree with the field, where any did."""
    table = tables.agreements(tables.reports_by_release(reports), name)
    return [table] if table.rows else []


def _worst(home: Home, reports: Sequence[Report], by: str | None, samples: int) -> list[tuple[WorstScore, ...]]:
    """Of each report, where any are asked for. One that lacks the field, which another has, has none."""
    if not samples:
        return []
    from answerkey.tasks.compare.examples import worst_scores

    field = primary(reports, by or "")
    return [worst_scores(home, report, field, samples) for report in reports]


def _remarks(report: Report, names: Sequence[str], depth_of: Sequence[str] | None = None) -> Iterator[str]:
    # How many answers there are, and what the run said of them
    notes = [f"{report.n_total:,} answers"]
    if report.n_questions != report.n_total:
        notes = [f"{notes[0]} to {report.n_questions:,} questions"]
    if report.status != "COMPLETE":
        notes.append(report.status)
    if quarantined := sum(count for _, count in report.quarantined):
        notes.append(f"{quarantined:,} quarantined")
    yield f"{escape(report.report_id)}  [dim]{', '.join(notes)}[/dim]"
    if report.message:
        yield from (f"  {escape(part)}" for part in report.message.split("; "))

    # How far the answers to one question differ, and what the judge warns of
    variances = []
    for name in names:
        variance = report.variance_within(name)
        if variance is not None:
            variances.append(f"{name} {number(variance)}")
    if variances:
        yield f"  variance between the answers to one question: {', '.join(variances)}"
    yield from (f"  {escape(one_line(warning))}" for warning in judge_warnings(report.manifest, depth_of))


def _spent(reports: Sequence[Report]) -> Iterator[str]:
    """Who judged, and what was paid for it, once a run."""
    runs: dict[str, list[Report]] = {}
    for report in reports:
        runs.setdefault(report.run_id, []).append(report)
    lines = []
    for run_reports in runs.values():
        manifest = run_reports[0].manifest
        if judge := manifest.get("judge"):
            lines += [f"  {line}" for line in spent_on_judges(manifest)]
            lines.append(_judged(judge, [saved(report.manifest) for report in run_reports]))
    # Runs with the free judge have the same line
    if all(line.endswith("; free") for line in lines):
        lines = list(dict.fromkeys(lines))
    yield from map(escape, lines)


def _judged(judge: Mapping[str, Any], saved_calls: Sequence[tuple[int, int, int, int] | None]) -> str:
    """Say how often the judges of a run were asked, what that cost, and what a cascade has saved."""
    if judge["judges"] == [OFFLINE]:
        return f"judge: {judge['about']}; free"
    line = f"judge: {counted(judge['calls'], 'call')}, {price(judge['cost_usd'])}"
    cascades = [calls for calls in saved_calls if calls]
    if not cascades:
        return line

    # What the offline judge decided in place of the others
    offline, tried, different, _ = map(sum, zip(*cascades, strict=True))
    promise = f"at most {judge['cascade']:.3g} of its verdicts wrong by the judge's"
    trial = f"of {tried:,} that both judged, they differ on {different:,}" if tried else "too few to be tried"
    if not offline:
        return f"{line}; none saved: the cascade decided nothing ({promise} was not shown: {trial})"
    # All reports of a run say the same of it
    *_, n_saved = cascades[0]
    return (
        f"{line}; {counted(n_saved, 'call')} saved: the offline judge decided {offline:,} answers of meaning_match, "
        f"{promise} ({trial}; {judge['about']})"
    )


def print_list(rows: Sequence[tuple[str, str, str, str]], *, as_json: bool) -> None:
    """Reports, one per line."""
    names = ("report", "data set version", "made (UTC)", "status")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    show(Table("", names, rows, left=names))


def print_estimates(
    estimates: Sequence[Cost], *, as_json: bool, models: str = "the judges", at_most: bool = False
) -> None:
    """A dry run: one line per metric, and the total; `at_most`: how many calls depends on replies."""
    if as_json:
        print_json([asdict(estimate) for estimate in estimates])
        return

    # What may be less than the table says, and what is not about samples
    remarks = []
    for estimate in estimates:
        if estimate.offline:
            remarks.append(f"{estimate.metric}: {estimate.offline:,} answers less if the cascade's trial holds")
    for estimate in estimates:
        if estimate.checks:
            remarks.append(f"{estimate.metric}: {estimate.checks:,} of the calls check the judges")
    title = f"dry run: what {models} would be asked"
    if at_most:
        title += " at most"
    show(
        tables.costs(title, estimates),
        *remarks,
        "no model was asked; reply tokens are estimated, and failed calls come on top",
    )


def registered(registration: Registration) -> str:
    """What a registered release is called, and whether it is evaluated, in a sentence."""
    state = f"has the report {registration.report_id}" if registration.report_id else "waits for its evaluation"
    return f"{registration.name} is registered as {registration.registration} and {state}"


def print_generated(generated: Generated, registration: Registration, *, as_json: bool) -> None:
    """The answers of a release: what came of the questions, where they are, and how to go on."""
    if as_json:
        print_json({**asdict(generated), "registration": asdict(registration)})
        return
    (unit, total), *parts = counts(generated)
    rows = [(label, f"{n:,}") for label, n in (*parts, ("all", total))]
    title = f"{generated.release} on {generated.dataset}"
    lines = [f"without an answer: {escape(generated.why)}"] if generated.reasons else []
    if generated.n_cut_off:
        lines.append(f"cut off at the token limit: {generated.n_cut_off:,}")
    if generated.n_refused:
        lines.append(f"refused: {generated.n_refused:,}")
    lines.append(f"model: {spent(generated)}")
    lines.append(f"answers: {escape(generated.answers)}")
    lines.append(escape(registered(registration)))
    show(Table(title, ("", unit), rows, groups=[*("" for _ in parts), "all"]), *lines)
