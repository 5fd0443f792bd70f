"""What commands print: reports, comparisons, verdicts, calibrations, traces and costs, as tables or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from answerkey.flows.cli.layout import STYLES, brief, fits, sample_lines, show, show_or_json, title_line
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import HOME, pasted
from answerkey.flows.environment import printable
from answerkey.metrics_core.comparison import Comparison, family_note
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.tasks.compare.difference import Difference
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.tables import needed
from answerkey.tasks.publish.text import (
    BASES,
    DETECTABLE,
    HUMAN,
    NEEDED,
    PLOT,
    by_people,
    counted,
    doubts,
    headline,
    human_note,
    number,
    plot_line,
    price,
    signed,
    spent_on_judges,
    undetectable,
    verdict_plot,
    what_it_learned,
)
from answerkey.tasks.releases.generate import Generated, counts, spent
from answerkey.tasks.releases.register import Registration
from answerkey.tasks.reports.headline import fields_of, headlines, primary
from answerkey.tasks.reports.manifest import judge_warnings, saved
from answerkey.tasks.reports.report import Report, ReportPoint

if TYPE_CHECKING:
    from answerkey.metrics_core.judges.learning import Learned
    from answerkey.tasks.compare.examples import WorstScore
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.gate.verdicts import ReleaseVerdict
    from answerkey.tasks.traces.funnel import Funnel, Preview
    from answerkey.tasks.traces.over_time import History, Period
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
    worst_of_each = _worst(home, reports, by, samples)
    if as_json:
        rows = [asdict(report) for report in reports]
        for row, worst in zip(rows, worst_of_each, strict=False):
            row["samples"] = worst
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
    for report, worst in zip(reports, worst_of_each, strict=False):
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
    table = Table("", names, rows, left=names)
    show_or_json(table.records(), table, as_json=as_json)


def print_estimates(
    estimates: Sequence[Cost], *, as_json: bool, models: str = "the judges", at_most: bool = False
) -> None:
    """A dry run: one line per metric, and the total; `at_most`: how many calls depends on replies."""
    # What may be less than the table says, and what is not about samples
    remarks = []
    for estimate in estimates:
        if estimate.offline:
            remarks.append(f"{estimate.metric}: {estimate.offline:,} answers less if the cascade's trial holds")
        if estimate.checks:
            remarks.append(f"{estimate.metric}: {estimate.checks:,} of the calls check the judges")
    remarks.append("no model was asked; reply tokens are estimated, and failed calls come on top")
    title = f"dry run: what {models} would be asked{' at most' if at_most else ''}"
    show_or_json(estimates, tables.costs(title, estimates), *remarks, as_json=as_json)


def registered(registration: Registration) -> str:
    """What a registered release is called, and whether it is evaluated, in a sentence."""
    state = f"has the report {registration.report_id}" if registration.report_id else "waits for its evaluation"
    return f"{registration.name} is registered as {registration.registration} and {state}"


def print_generated(generated: Generated, registration: Registration, *, as_json: bool) -> None:
    """The answers of a release: what came of the questions, where they are, and how to go on."""
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
    table = Table(title, ("", unit), rows, groups=[*("" for _ in parts), "all"])
    show_or_json({**asdict(generated), "registration": registration}, table, *lines, as_json=as_json)


_KINDS = {
    "judge": "judge",
    "prompt": "prompt",
    "parser": "parser",
    "code": "code",
    "settings": "settings of metrics",
    "library": "library versions",
    "parameter": "parameters",
}


_WIDE = ("clusters", HUMAN, "p adjusted", "detectable", "needed", "fixed/broken")
"""Columns of a comparison that are printed when asked for."""


def print_pairs(
    pairs: Sequence[Comparison],
    *,
    by_slice: bool,
    wide: bool = False,
    samples: Sequence[LargestChange] = (),
    verdicts: Sequence[ReleaseVerdict] = (),
    brief: bool = False,
) -> None:
    """Each comparison: a table of the fields on all samples, then one of each field's slices, then the warnings.

    With `wide`, tables also say on how many samples a finding rests, its p-value, what the samples can show, and what
    human labels say of each field. The sentence above the table leaves out numbers that one of the `verdicts`, printed
    before, has. With `brief`, nothing is said of whether fields that do not decide are better or worse.
    """
    # A verdict about the same field has the numbers of the sentence
    decided = {(gated.old, gated.new): gated.verdict for gated in verdicts if gated.deciding_field == gated.primary}
    for place, pair in enumerate(pairs):
        verdict = decided.get((pair.old, pair.new))
        sentence = headline(pair, pair.primary, verdict)
        if brief and verdict:
            sentence = " ".join(by_people(pair, pair.row(pair.primary), verdict))
        show(*[""][:place], *_pair(pair, sentence, by_slice=by_slice, wide=wide, brief=brief))

    # What moved most, in words
    for index, sample in enumerate(samples):
        change = f"{number(sample.old)} → {number(sample.new)} ({signed(sample.difference)})"
        texts = {
            "question": sample.question,
            "reference": " | ".join(sample.references),
            "old": sample.old_answer,
            "new": sample.new_answer,
            "old reason": sample.old_reason,
            "new reason": sample.new_reason,
        }
        show(*([] if index else [""]), *sample_lines(sample.sample_id, change, texts))


def pair_json(pair: Comparison) -> dict[str, object]:
    """The comparison as JSON takes it, with its findings."""
    rows = [{**asdict(row), "finding": row.finding} for row in pair.rows]
    return {**asdict(pair), "rows": rows}


def _pair(pair: Comparison, sentence: str, *, by_slice: bool, wide: bool, brief: bool) -> Iterator[Table | str]:
    n_common = pair.n_common - pair.n_changed
    if not brief:
        yield title_line(f"{pair.old} → {pair.new}: {n_common:,} samples in both")
    left_out = [] if wide else [*_WIDE]
    if not wide and {row.n_common for row in pair.overall} <= {n_common}:
        # How many samples have a number is said where that is not all of them
        left_out.append("samples")
    if brief:
        left_out.append("finding")
    if pair.overall:
        if sentence:
            yield escape(sentence)
        yield tables.comparison("", pair.overall).without(*left_out)
    if by_slice:
        for name in dict.fromkeys(row.name for row in pair.rows):
            rows = [row for row in pair.rows if row.name == name and row.slice != ALL]
            if rows:
                yield tables.comparison(f"{name} by slice", rows).without(*([] if wide else _WIDE))

    # What the columns are, and what to know of the numbers
    notes: list[str | None] = []
    if wide:
        if any(row.mde is not None for row in pair.overall):
            notes.append(DETECTABLE)
        if any(map(needed, pair.overall)):
            notes.append(NEEDED)
        notes.append(human_note(pair))
    notes += undetectable(pair)
    if not brief:
        notes.append(family_note(pair))
    yield from (f"[dim]{note}[/dim]" for note in notes if note)
    yield from (f"[yellow]![/yellow] {escape(text)}" for text in doubts(pair))


def print_difference(difference: Difference, *, as_json: bool) -> None:
    """What differs between two reports."""
    # Rows first
    counts = {
        "only in the old report": difference.n_only_old,
        "only in the new report": difference.n_only_new,
        "with a different question or different references": difference.n_questions,
        "with other facts": difference.n_facts,
        "with another answer": difference.n_answers,
        "with another label": difference.n_labels,
    }
    changes = ", ".join(f"{n:,} {label}" for label, n in counts.items() if n)
    lines = [
        f"{escape(difference.old)} → {escape(difference.new)}",
        f"samples: {difference.n_common:,} in both; {changes or 'nothing differs'}",
    ]

    # Then what the scores were computed with
    same = []
    for kind, name in _KINDS.items():
        changes_of_kind = [change for change in difference.changed if change.kind == kind]
        for change in changes_of_kind:
            old_and_new = f"{brief(change.old or 'none')} → {brief(change.new or 'none')}"
            lines.append(f"{name}: {brief(change.what)}: {old_and_new}")
        if not changes_of_kind:
            same.append(name)
    if same:
        lines.append(f"[dim]the same: {', '.join(same)}[/dim]")

    # Metrics that one report lacks
    for names, side in ((difference.only_old, "old"), (difference.only_new, "new")):
        if names:
            lines.append(f"only in the {side} report: {escape(', '.join(names))}")
    show_or_json(difference, *lines, as_json=as_json)


_METHODS = "[yellow]![/yellow] numbers of different methods are not comparable"
_MOST_DATASETS = 20
_HISTORY = 80
"""The width of the table without the plot, which a narrower terminal leaves out."""


def print_history(name: str, history: Mapping[str, Sequence[ReportPoint]], *, as_json: bool) -> None:
    """A field over reports: a table a data set, with the interval of each report drawn on one axis.

    Of more than `_MOST_DATASETS` data sets, one table has the newest report of each.
    """
    # What each table is about, and what stands below it
    notes: list[str] = []
    points_by_title = {f"{name} on {dataset}": moments for dataset, moments in history.items()}
    if len(history) > _MOST_DATASETS:
        newest = [
            replace(moments[-1], release=f"{dataset}/{moments[-1].release}", methods=1)
            for dataset, moments in history.items()
        ]
        points_by_title = {f"{name} in the newest report of each data set": newest}
        notes = ["all reports of a data set, and its gates: add --dataset NAME"]
    parts: list[Table | str] = []
    for title, points in points_by_title.items():
        parts.append(_with_plot(tables.history(title, points).without("data set", "status"), points))
        if len({point.methods for point in points}) > 1:
            parts.append(f"{_METHODS}; `answerkey diff` says what changed")
        parts += [*notes, ""]
    show_or_json(history, *parts, as_json=as_json)


def _with_plot(table: Table, points: Sequence[ReportPoint | Period]) -> Table:
    """The table with the interval of each point drawn on one axis, which a narrow terminal leaves out."""
    ends = [end for point in points for end in (point.mean, point.low, point.high) if end is not None]
    if not ends or not fits(_HISTORY + PLOT):
        return table
    low = min(ends)
    high = max(ends)
    axis = f"{low:.3f}{f'{high:.3f}':>{PLOT - 5}}"
    rows = []
    for row, point in zip(table.rows, points, strict=True):
        rows.append((*row, plot_line(point.mean, point.low, point.high, axis=(low, high), marks={})))
    return replace(table, head=(*table.head, axis), rows=rows, left=(*table.left, axis))


def print_verdict(gated: ReleaseVerdict, *, brief: bool = False) -> None:
    """The verdict and its sentence, then a line a rule; with `brief`, a rule that does not hold and is not in it."""
    verdict = gated.verdict
    if brief:
        left = [rule for rule in verdict.rules if rule.outcome != "PASS" and rule.sentence not in verdict.sentence]
        verdict = replace(verdict, rules=tuple(left))
    # The sentences have the numbers.
    page = tables.rules("", verdict).without("value", "samples")
    basis = [f"basis: {BASES[verdict.basis]}"] if verdict.basis and not brief else []
    plot = [f"  {line}"] if (line := verdict_plot(gated.verdict, gated.margin)) else []
    notes = [f"[yellow]![/yellow] {escape(note)}" for note in verdict.notes]
    show(
        f"[{STYLES[verdict.outcome]}]{verdict.outcome}[/]  {escape(verdict.sentence)}",
        *plot,
        *basis,
        *notes,
        *([page] if page.rows else []),
    )


def print_calibration(calibration: Calibration, *, as_json: bool) -> None:
    """Agreement of the metric with human labels, overall and per release, and the means corrected for its errors.

    JSON has the same columns as the table `calibrations`.
    """
    if as_json:
        from answerkey.tasks.gate.calibrate import columns_of

        content = {
            "metric": calibration.name,
            "signature": calibration.signature,
            "reports": calibration.report_ids,
            "labels": calibration.labels,
            "n_without_score": calibration.n_without_score,
            "calibrations": [columns_of(calibration, part) for part in calibration.parts],
        }
        print_json(content)
        return
    parts: list[Table | str] = [tables.agreement(calibration)]
    if calibration.corrected:
        parts.append(tables.corrected(calibration))
    parts.append(f"signature: {escape(calibration.signature)}")
    if ceiling := calibration.parts[0].ceiling:
        parts.append(f"two people on {ceiling.n:,} of these answers: kappa {tables.estimated(ceiling.kappa)}")
    if calibration.n_without_score:
        parts.append(f"{calibration.n_without_score:,} labelled answers have no score and are left out")
    show(*parts)


_MAX_TRACES = 10
"""Traces of a rule that a dry run prints; JSON has more."""
_LONGEST = 60


def print_funnels(funnels: Sequence[Funnel], *, as_json: bool) -> None:
    """A column a rule: how many traces were seen, and where each of them ended."""
    from answerkey.tasks.traces.funnel import funnel_table

    show_or_json(funnels, funnel_table(funnels), as_json=as_json)


def print_previews(previews: Sequence[Preview], *, as_json: bool) -> None:
    """What a run would do: a column a rule, then the first traces that each would score."""
    from answerkey.tasks.traces.funnel import preview_table

    head = ("trace", "time (UTC)", "answer")
    parts: list[Table | str] = []
    for preview in previews:
        rows = []
        for trace in preview.traces[:_MAX_TRACES]:
            cells = (trace.trace_id, trace.time or "", trace.answer or "")
            rows.append([cut(one_line(cell), _LONGEST) for cell in cells])
        if rows:
            parts.append(Table(f"{preview.rule} would score", head, rows, left=head, wrapped={"answer": 20}))
        if rows and preview.taken > _MAX_TRACES:
            parts += [f"and {preview.taken - _MAX_TRACES:,} more", ""]
    parts.append("no judge was asked, and nothing was scored")
    show_or_json(previews, preview_table(previews), *parts, as_json=as_json)


def print_over_time(rule: str, history: History, *, by: str, as_json: bool) -> None:
    """The mean of a field by day, week or month, with each interval drawn on one axis."""
    from answerkey.tasks.traces.over_time import by_period

    table = by_period(f"{history.name} of {rule} by {by}", by, history.periods)
    changed = [f"{_METHODS}: the metric or its judge changed"] if "method" in table.head else []
    content = {rule: {history.name: history.periods}}
    show_or_json(content, _with_plot(table, history.periods), *changed, as_json=as_json)


def print_learned(learned: Learned, out: str, *, as_json: bool) -> None:
    """What examples from labels change, and the examples."""
    gain = learned.gain
    rubric = learned.rubric
    low, high = (gain.interval.low, gain.interval.high) if gain.interval else (None, None)
    content = {
        "n": learned.n, "corrected": learned.corrected, "before": gain.old, "after": gain.new,
        "gain": gain.difference, "gain_low": low, "gain_high": high, "rubric": rubric.text,
    }  # fmt: skip
    show_or_json(content, escape(what_it_learned(learned)), as_json=as_json)
    if not as_json and low is not None and low > 0:
        # To be pasted into a file, so it is not wrapped
        print(f"The rubric is in {out}." if out else "\n".join(map(printable, f"\n{rubric.text}".split("\n"))))
