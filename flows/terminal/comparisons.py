"""What the command line prints about two reports: how they compare, and why they differ; and about many: history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from rich.markup import escape
from rich.table import Table

from answerkey.flows.terminal.reports import fits, plain_table, show
from answerkey.metrics_core.comparison import ALL, Comparison, FieldComparison, Finding
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.tasks.compare.attribution import CAUSES, Difference, Movement
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.publish.text import human_note, number, only_one, table
from answerkey.tasks.reports.report import Moment

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
    told = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    yield f"samples: {found.n_common:,} in both; {told or 'nothing differs'}"
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


def print_history(name: str, found: Mapping[str, Sequence[Moment]], *, as_json: bool) -> None:
    """A field over reports: a table a data set, with the interval of each report drawn on one axis."""
    if as_json:
        rows = {dataset: [asdict(moment) for moment in moments] for dataset, moments in found.items()}
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for place, (dataset, moments) in enumerate(found.items()):
        show(*([""] if place else []), *_history(f"{name} on {dataset}", moments))


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
