"""Tables of comparisons, verdicts, calibrations and traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rich.markup import escape

from answerkey.flows.cli.layout import STYLES, brief, fits, sample_lines, show, title_line
from answerkey.flows.cli.main import print_json
from answerkey.flows.environment import printable
from answerkey.metrics_core.comparison import Comparison, family_note
from answerkey.metrics_core.decide.policy import ALL
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
    doubts,
    headline,
    human_note,
    number,
    plot_line,
    signed,
    undetectable,
    verdict_plot,
    what_it_learned,
)
from answerkey.tasks.reports.report import ReportPoint

if TYPE_CHECKING:
    from answerkey.metrics_core.judges.learning import Learned
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.gate.verdicts import ReleaseVerdict
    from answerkey.tasks.traces.funnel import Funnel, Preview
    from answerkey.tasks.traces.over_time import History, Period

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
        show(*([""] if place else []), *_pair(pair, sentence, by_slice=by_slice, wide=wide, brief=brief))

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
    if as_json:
        print_json(asdict(difference))
        return
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
    show(*lines)


_MOST_DATASETS = 20
_HISTORY = 80
"""The width of the table without the plot, which a narrower terminal leaves out."""


def print_history(name: str, history: Mapping[str, Sequence[ReportPoint]], *, as_json: bool) -> None:
    """A field over reports: a table a data set, with the interval of each report drawn on one axis.

    Of more than `_MOST_DATASETS` data sets, one table has the newest report of each.
    """
    if as_json:
        print_json({dataset: [asdict(moment) for moment in moments] for dataset, moments in history.items()})
        return
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
    for index, (title, points) in enumerate(points_by_title.items()):
        parts: list[Table | str] = [""] if index else []
        parts.append(_with_plot(tables.history(title, points).without("data set", "status"), points))
        if len({point.methods for point in points}) > 1:
            parts.append(
                "[yellow]![/yellow] numbers of different methods are not comparable; `answerkey diff` says what changed"
            )
        show(*parts, *notes)


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
    notes = [f"[yellow]![/yellow] {_printable(note)}" for note in verdict.notes]
    show(
        f"[{STYLES[verdict.outcome]}]{verdict.outcome}[/]  {_printable(verdict.sentence)}",
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
    parts.append(f"signature: {_printable(calibration.signature)}")
    if ceiling := calibration.parts[0].ceiling:
        parts.append(f"two people on {ceiling.n:,} of these answers: kappa {tables.estimated(ceiling.kappa)}")
    if calibration.n_without_score:
        parts.append(f"{calibration.n_without_score:,} labelled answers have no score and are left out")
    show(*parts)


def _printable(text: str) -> str:
    """As one line that is neither markup nor anything else that acts, whatever names hold."""
    return escape(printable(text))


_MAX_TRACES = 10
"""Traces of a rule that a dry run prints; JSON has more."""
_LONGEST = 60


def print_funnels(funnels: Sequence[Funnel], *, as_json: bool) -> None:
    """A column a rule: how many traces were seen, and where each of them ended."""
    from answerkey.tasks.traces.funnel import funnel_table

    if as_json:
        print_json([asdict(funnel) for funnel in funnels])
        return
    show(funnel_table(funnels))


def print_previews(previews: Sequence[Preview], *, as_json: bool) -> None:
    """What a run would do: a column a rule, then the first traces that each would score."""
    from answerkey.tasks.traces.funnel import preview_table

    if as_json:
        print_json([asdict(preview) for preview in previews])
        return
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
            parts.append(f"and {preview.taken - _MAX_TRACES:,} more\n")
    show(preview_table(previews), *parts, "no judge was asked, and nothing was scored")


def print_over_time(rule: str, history: History, *, by: str, as_json: bool) -> None:
    """The mean of a field by day, week or month, with each interval drawn on one axis."""
    if as_json:
        print_json({rule: {history.name: [asdict(period) for period in history.periods]}})
        return
    from answerkey.tasks.traces.over_time import by_period

    table = by_period(f"{history.name} of {rule} by {by}", by, history.periods)
    show(_with_plot(table, history.periods))
    if "method" in table.head:
        show("[yellow]![/yellow] numbers of different methods are not comparable: the metric or its judge changed")


def print_learned(learned: Learned, out: str, *, as_json: bool) -> None:
    """What examples from labels change, and the examples."""
    gain = learned.gain
    rubric = learned.rubric
    low, high = (gain.interval.low, gain.interval.high) if gain.interval else (None, None)
    if as_json:
        content = {
            "n": learned.n, "corrected": learned.corrected, "before": gain.old, "after": gain.new,
            "gain": gain.difference, "gain_low": low, "gain_high": high, "rubric": rubric.text,
        }  # fmt: skip
        print_json(content)
        return
    print(printable(what_it_learned(learned)))
    if low is None or low <= 0:
        return
    print(f"The rubric is in {out}." if out else "\n".join(map(printable, f"\n{rubric.text}".split("\n"))))
