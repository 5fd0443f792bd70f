"""Tables of comparisons, verdicts, calibrations and traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape
from rich.table import Table

from answerkey.flows.cli.tables import fits, plain_table, show
from answerkey.metrics_core.comparison import ALL, Comparison, FieldComparison, Finding
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.statistics.intervals import Estimate
from answerkey.tasks.compare.attribution import CAUSES, Difference, Movement
from answerkey.tasks.compare.drift import Drift
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.publish.text import dollars, human_note, number, only_one, table
from answerkey.tasks.reports.report import Moment
from answerkey.tasks.traces.score import Preview
from answerkey.tasks.traces.summary import BUCKETS, Funnel, Period, ends

if TYPE_CHECKING:
    from answerkey.metrics_core.gate.simulate import SelfTest
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.gate.verdicts import LooksTaken, ReleaseVerdict


_LONGEST_TEXT = 400
_VERDICT, _GAP = 19, 3
"""The least width of a verdict, and what stands between two columns."""
_COLORS: Mapping[Finding | None, str] = {"better": "green", "worse": "red", None: "dim"}
_KINDS = {
    "judge": "judge",
    "prompt": "prompt",
    "parser": "parser",
    "code": "code",
    "settings": "settings of metrics",
    "library": "library versions",
    "parameter": "parameters",
}


def print_pairs(pairs: Sequence[Comparison], *, by_slice: bool, samples: Sequence[LargestChange] = ()) -> None:
    """Each comparison: a table of the fields on all samples, then one of each field's slices, then the warnings."""
    for place, pair in enumerate(pairs):
        show(*([""] if place else []), *_pair(pair, by_slice=by_slice))
    if samples:
        show("", *_samples(samples))


def pair_json(pair: Comparison) -> dict[str, object]:
    """The comparison as JSON takes it, with its findings."""
    rows = [{**asdict(row), "finding": row.finding} for row in pair.rows]
    return {**asdict(pair), "rows": rows}


def _pair(pair: Comparison, *, by_slice: bool) -> Iterator[Table | str]:
    n = pair.n_common - pair.n_changed
    yield from _table(f"{pair.old} → {pair.new}: {n:,} samples in both", pair.overall)
    if by_slice:
        for name in dict.fromkeys(row.name for row in pair.rows):
            rows = [row for row in pair.rows if row.name == name and row.slice != ALL]
            if rows:
                yield from _table(f"{name} by slice", rows)
    if note := human_note(pair):
        yield f"[dim]{note}[/dim]"
    warnings = [*([pair.not_comparable] if pair.not_comparable else []), *pair.warnings, *only_one(pair)]
    yield from (f"[yellow]![/yellow] {escape(text)}" for text in warnings)


def _table(title: str, rows: Sequence[FieldComparison]) -> Iterator[Table | str]:
    """Of fields on all samples, or of the slices of one field; on a narrow terminal the same in lines."""
    (first, *head), cells = table(rows)
    place = head.index("finding") + 1
    widths = [max(map(len, column)) for column in zip((first, *head), *cells, strict=True)]
    if not fits(sum(widths) - widths[place] + _VERDICT + _GAP * len(widths)):
        colors = [_COLORS.get(row.finding) or "default" for row in rows]
        yield from _in_lines(title, (first, *head), cells, place, colors)
        return
    page = plain_table(escape(title))
    for name in (first if all(row.slice == ALL for row in rows) else "slice", *head):
        text = name in (first, "slice", "finding")
        page.add_column(name, justify="left" if text else "right", no_wrap=not text)
    previous = ""
    for row, shown in zip(rows, cells, strict=True):
        group = row.metric if row.slice == ALL else row.slice.partition("=")[0]
        if previous and group != previous:
            page.add_section()
        previous = group
        name, *middle, verdict, counts = map(escape, shown)
        color = _COLORS.get(row.finding)
        page.add_row(name, *middle, f"[{color}]{verdict}[/{color}]" if color else verdict, counts)
    yield page


def _in_lines(
    title: str, head: Sequence[str], cells: Sequence[Sequence[str]], verdict: int, colors: Sequence[str]
) -> Iterator[str]:
    """Each row as a line with its name and verdict, and one with its numbers."""
    yield f"[bold]{escape(title)}[/bold]"
    for row, color in zip(cells, colors, strict=True):
        yield f"[bold]{escape(row[0])}[/bold]  [{color}]{escape(row[verdict])}[/{color}]"
        rest = [
            (name, cell) for place, (name, cell) in enumerate(zip(head, row, strict=True)) if place not in (0, verdict)
        ]
        yield f"  [dim]{escape('; '.join(f'{name} {cell}' for name, cell in rest if cell != '–'))}[/dim]"
    yield ""


def _samples(samples: Sequence[LargestChange]) -> Iterator[str]:
    for sample in samples:
        yield (
            f"[bold]{_text(sample.sample_id)}[/bold]  {number(sample.old)} → {number(sample.new)} "
            f"({sample.difference:+.3f})"
        )
        texts = {
            "question": sample.question,
            "reference": " | ".join(sample.references),
            "old": sample.old_answer,
            "new": sample.new_answer,
            "old reason": sample.old_reason,
            "new reason": sample.new_reason,
        }
        yield from (f"  [dim]{name:<10}[/dim]  {_text(text)}" for name, text in texts.items() if text)


def _text(text: str) -> str:
    return escape(cut(one_line(text), _LONGEST_TEXT))


def print_difference(found: Difference, *, as_json: bool) -> None:
    """Why a number moved: what differs between two reports, and by how much each cause moved each mean."""
    if as_json:
        print(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    show(f"{escape(found.old)} → {escape(found.new)}", *_what(found), "", *_moved(found.movements))


def _what(found: Difference) -> Iterator[str]:
    counts = {
        "only in the old report": found.n_only_old,
        "only in the new report": found.n_only_new,
        "with another question or other references": found.n_questions,
        "with other facts": found.n_facts,
        "with another answer": found.n_answers,
        "with another label": found.n_labels,
    }
    changes = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    yield f"samples: {found.n_common:,} in both; {changes or 'nothing differs'}"
    for kind, name in _KINDS.items():
        for one in (changed for changed in found.changed if changed.kind == kind):
            yield f"{name}: {_text(one.what)}: {_text(one.old or 'none')} → {_text(one.new or 'none')}"
    same = [name for kind, name in _KINDS.items() if all(changed.kind != kind for changed in found.changed)]
    if same:
        yield f"[dim]the same: {', '.join(same)}[/dim]"
    for names, where in ((found.only_old, "old"), (found.only_new, "new")):
        if names:
            yield f"only in the {where} report: {escape(', '.join(names))}"


def _moved(movements: Sequence[Movement]) -> Iterator[Table | str]:
    causes = [cause for cause in CAUSES if any(part.cause == cause for one in movements for part in one.parts)]
    page = plain_table("by how much each cause moved the mean")
    page.add_column("field", no_wrap=True)
    for name in ("old", "new", "change", *causes):
        page.add_column(name, justify="right", no_wrap=True)
    for one in movements:
        amounts = {part.cause: part.amount for part in one.parts}
        shown = (f"{amounts[cause]:+.3f}" if cause in amounts else "–" for cause in causes)
        name = escape(f"{one.metric}.{one.field}")
        page.add_row(name, number(one.old), number(one.new), f"{one.change:+.3f}", *shown)
    yield page
    yield from (f"[dim]{cause}: {CAUSES[cause]}[/dim]" for cause in causes)


_PLOT = 32
_HISTORY = 80
"""The width of the table without the plot, which a narrower terminal leaves out."""


def print_history(
    name: str,
    found: Mapping[str, Sequence[Moment]],
    drifts: Mapping[str, Drift],
    looks: Mapping[str, Sequence[LooksTaken]],
    *,
    as_json: bool,
) -> None:
    """A field over reports: a table a data set, with the interval of each report drawn on one axis.

    Below it, whether the newest report differs from those before it, and how often gates have looked at the field.
    """
    if as_json:
        rows = {dataset: [asdict(moment) for moment in moments] for dataset, moments in found.items()}
        for dataset, (*_, newest) in rows.items():
            newest |= {"drift": asdict(drifts[dataset]), "looks": [asdict(one) for one in looks[dataset]]}
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for place, (dataset, moments) in enumerate(found.items()):
        show(*([""] if place else []), *_history(f"{name} on {dataset}", moments))
        show(_drifted(drifts[dataset]), *(escape(str(one)) for one in looks[dataset]))


def _drifted(drift: Drift) -> str:
    return f"{'[yellow]![/yellow] ' if drift.finding else ''}{_printable(drift.sentence)}"


def _history(title: str, moments: Sequence[Moment]) -> Iterator[Table | str]:
    axis = Axis.of(moments)
    several = len({one.methods for one in moments}) > 1
    page = plain_table(escape(title))
    drawn = fits(_HISTORY + _PLOT)
    for name in ("report", "made (UTC)", "mean", "95 % interval", "scored"):
        page.add_column(name, justify="right" if name in ("mean", "scored") else "left", no_wrap=name != "report")
    if several:
        page.add_column("method", justify="right")
    if drawn:
        page.add_column(axis.head, no_wrap=True)
    for one in moments:
        interval = "–" if one.low is None or one.high is None else f"{one.low:.3f} – {one.high:.3f}"
        method = [str(one.methods)] if several else []
        about = (f"{escape(one.release)} v{one.version}", one.created_at, number(one.mean), interval)
        plot = [axis.drawn(one)] if drawn else []
        page.add_row(*about, f"{one.n_scored:,}/{one.n_total:,}", *method, *plot)
    yield page
    if several:
        yield "[yellow]![/yellow] numbers of different methods are not comparable; `answerkey diff` says what changed"


class Estimated(Protocol):
    """Something with a mean and its interval."""

    @property
    def mean(self) -> float | None:
        """The mean."""

    @property
    def low(self) -> float | None:
        """The lower end."""

    @property
    def high(self) -> float | None:
        """The upper end."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A line of the terminal from the lowest to the highest end of what is drawn on it."""

    low: float
    high: float

    @classmethod
    def of(cls, ones: Sequence[Estimated]) -> Axis:
        """The axis that holds all of them."""
        ends = [end for one in ones for end in (one.low, one.mean, one.high) if end is not None]
        return cls(min(ends), max(ends)) if ends else cls(0.0, 1.0)

    @property
    def head(self) -> str:
        """Both ends, as the head of the column."""
        return f"{self.low:.3f}{f'{self.high:.3f}':>{_PLOT - 5}}"

    def drawn(self, one: Estimated) -> str:
        """The interval as a line with the mean on it."""
        if one.mean is None:
            return ""
        cells = [" "] * _PLOT
        if one.low is not None and one.high is not None:
            start, end = self._place(one.low), self._place(one.high)
            cells[start : end + 1] = "─" * (end - start + 1)
            cells[start], cells[end] = "├", "┤"
        cells[self._place(one.mean)] = "●"
        return "".join(cells)

    def _place(self, value: float) -> int:
        return round((value - self.low) / ((self.high - self.low) or 1.0) * (_PLOT - 1))


_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow", "INCOMPLETE": "bold magenta"}


def print_verdict(gated: ReleaseVerdict) -> None:
    """The verdict and its sentence, then a line a rule."""
    verdict = gated.verdict
    table = plain_table()
    table.add_column("rule", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("why", overflow="fold")
    for rule in verdict.rules:
        table.add_row(_printable(rule.rule), _outcome(rule.outcome), _printable(rule.sentence))
    show(f"{_outcome(verdict.outcome)}  {_printable(verdict.sentence)}", table)


def print_self_test(tested: SelfTest) -> None:
    """What was simulated, and how often the gate said what, each with its Monte Carlo error."""
    units = "" if tested.units == tested.n else f" in {tested.units:,} clusters"
    table = plain_table()
    table.add_column("what is true of the new release", overflow="fold")
    for name in ("samples", "runs", "PASS", "FAIL"):
        table.add_column(name, justify="right", no_wrap=name in ("samples", "runs"))
    for point in tested.trials:
        truth = {
            "equal": "as good as the old one",
            "margin": f"worse by the margin, {point.loss:g}",
            "loss": f"worse by {point.loss:.4f}",
            "enough": "as good, on as many samples as are said to do",
            "dropped": f"worse by {point.loss:g}, the worst answers left out",
            "documents": f"worse by {point.loss:g}: a few clusters lose everything",
            "rare": f"worse by {point.loss:g}: a few answers lose everything",
            "noise": "as good, but scores move up and down",
        }[point.name]
        table.add_row(
            truth, f"{point.n:,}", f"{point.n_runs:,}", _rate(point.passed, point.stated_pass),
            _rate(point.failed, point.stated_fail),
        )  # fmt: skip
    wrong = [
        f"wrong {outcome}: {_rate(point.passed if outcome == 'PASS' else point.failed)}, in the scenario where that is "
        f"most frequent"
        for outcome, point in (("PASS", tested.worst("PASS")), ("FAIL", tested.worst("FAIL")))
        if point
    ]
    show(
        f"The gate itself on simulated releases: {tested.n:,} samples{units}, drawn again and exchanged at random",
        table,
        *wrong,
        f"rules: {_printable('; '.join(tested.rules))}",
    )


def print_calibration(found: Calibration) -> None:
    """Agreement of the metric with human labels, overall and per release, and the means corrected for its errors."""
    graded = any(part.threshold for part in found.parts)
    table = plain_table(f"{_printable(found.name)} against human labels ({_printable(found.labels)})")
    table.add_column("release", overflow="fold")
    for name in (
        "n",
        "kappa",
        "AC1",
        "sensitivity",
        "specificity",
        "bias",
        *(("AUROC", "threshold") if graded else ()),
    ):
        table.add_column(name, justify="right", no_wrap=name == "n", overflow="fold")
    for part in found.parts:
        names = ("kappa", "ac1", "sensitivity", "specificity", "bias")
        estimates: list[Estimate | None] = [getattr(part.agreement, name, None) for name in names]
        if graded:
            cut = part.threshold and Estimate(part.threshold.value, part.threshold.interval)
            estimates += [part.auroc, cut]
        name = "all" if part.release is None else _printable(part.release)
        table.add_row(name, f"{part.n:,}", *(_estimate(one) for one in estimates))
    lines = [f"signature: {_printable(found.signature)}"]
    if ceiling := found.parts[0].ceiling:
        lines.append(f"two people on {ceiling.n:,} of these answers: kappa {_estimate(ceiling.kappa)}")
    if found.n_without_score:
        lines.append(f"{found.n_without_score:,} labelled answers have no score and are left out")
    show(table, *([_corrected(found)] if found.corrected else []), *lines)


def _corrected(found: Calibration) -> Table:
    table = plain_table("mean of each release, raw and corrected for these errors (PPI++)")
    table.add_column("release", overflow="fold")
    for name in ("raw", "corrected", "labelled", "scored only"):
        table.add_column(name, justify="right", no_wrap=name not in ("raw", "corrected"))
    for one in found.corrected:
        better = one.corrected
        table.add_row(
            _printable(one.release), _estimate(one.raw), _estimate(Estimate(better.value, better.interval)),
            f"{better.labelled:,}", f"{better.unlabelled:,}",
        )  # fmt: skip
    return table


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "-"
    value, interval = found
    return f"{value:.3f}" + (f" ({interval.low:.3f} to {interval.high:.3f})" if interval else "")


def _rate(found: Estimate, stated: float | None = None) -> str:
    value, interval = found
    error = f" ± {100 * (interval.high - interval.low) / 2:.1f}" if interval else ""
    return f"{100 * value:.1f}{error} %" + ("" if stated is None else f" (stated: {100 * stated:.0f} %)")


def _outcome(outcome: str) -> str:
    return f"[{_STYLES[outcome]}]{outcome}[/]"


def _printable(text: str) -> str:
    """As one line that cannot move the cursor or turn the writing round, whatever names hold."""
    return escape("".join(char if char.isprintable() else "�" for char in text))


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
    show(page, *(line for one in previews for line in _taken(one)), "no judge was asked, and nothing was scored")


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


def print_over_time(rule: str, name: str, periods: Sequence[Period], drift: Drift, *, by: str, as_json: bool) -> None:
    """The mean of a field by day, week or month, with each interval drawn on one axis; below it, its drift."""
    if as_json:
        rows = [asdict(one) for one in periods]
        for newest in rows[-1:]:
            newest["drift"] = asdict(drift)
        print(json.dumps({rule: {name: rows}}, indent=2, ensure_ascii=False))
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
    show(page, *(warning if several else []), _drifted(drift))
