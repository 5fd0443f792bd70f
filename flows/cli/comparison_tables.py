"""Tables of comparisons, verdicts, calibrations and traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from answerkey.flows.cli.layout import Cell, brief, fits, grid, show, title_line
from answerkey.flows.cli.main import print_json
from answerkey.flows.environment import printable
from answerkey.metrics_core.comparison import ALL, Comparison, FieldComparison, Finding
from answerkey.metrics_core.llm.untrusted import cut, one_line
from answerkey.metrics_core.statistics.intervals import LEVEL, Estimate, percent
from answerkey.tasks.compare.attribution import CAUSES, Difference, Movement
from answerkey.tasks.compare.drift import Drift
from answerkey.tasks.compare.examples import LargestChange
from answerkey.tasks.publish.text import (
    DETECTABLE,
    NEEDED,
    dollars,
    ends,
    estimate,
    family_note,
    headline,
    human_note,
    needed,
    number,
    only_one,
    signed,
    table,
    undetectable,
    what_it_learned,
)
from answerkey.tasks.reports.report import Moment

if TYPE_CHECKING:
    from answerkey.metrics_core.gate.simulate import SelfTest
    from answerkey.metrics_core.judges.learning import Learned
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.gate.verdicts import LooksTaken, ReleaseVerdict
    from answerkey.tasks.traces.score import Preview
    from answerkey.tasks.traces.summary import Funnel, Period


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
    yield title_line(f"{pair.old} → {pair.new}: {pair.n_common - pair.n_changed:,} samples in both")
    if pair.overall:
        yield escape(headline(pair, pair.primary))
        yield from _table("", pair.overall)
    if by_slice:
        for name in dict.fromkeys(row.name for row in pair.rows):
            rows = [row for row in pair.rows if row.name == name and row.slice != ALL]
            if rows:
                yield from _table(f"{name} by slice", rows)
    if any(row.mde is not None for row in pair.overall):
        yield f"[dim]{DETECTABLE}[/dim]"
    if any(map(needed, pair.overall)):
        yield f"[dim]{NEEDED}[/dim]"
    yield from (f"[dim]{note}[/dim]" for note in (*undetectable(pair), family_note(pair), human_note(pair)) if note)
    warnings = [*([pair.not_comparable] if pair.not_comparable else []), *pair.warnings, *only_one(pair)]
    yield from (f"[yellow]![/yellow] {escape(text)}" for text in warnings)


def _table(title: str, rows: Sequence[FieldComparison]) -> Iterator[Table | str]:
    """Of fields on all samples, or of the slices of one field."""
    (first, *head), cells = table(rows)
    sliced = any(row.slice != ALL for row in rows)
    place = head.index("finding") + 1
    shown: list[list[Cell]] = [
        [*row[:place], Text(row[place], style=_COLORS.get(one.finding) or "default"), *row[place + 1 :]]
        for row, one in zip(cells, rows, strict=True)
    ]
    groups = [row.slice.partition("=")[0] if sliced else row.metric for row in rows]
    names = ("slice" if sliced else first, *head)
    yield from grid(title, names, shown, left=["finding"], wrapped={"finding": 19}, groups=groups)


def _samples(samples: Sequence[LargestChange]) -> Iterator[str]:
    for sample in samples:
        yield (
            f"[bold]{brief(sample.sample_id)}[/bold]  {number(sample.old)} → {number(sample.new)} "
            f"({signed(sample.difference)})"
        )
        texts = {
            "question": sample.question,
            "reference": " | ".join(sample.references),
            "old": sample.old_answer,
            "new": sample.new_answer,
            "old reason": sample.old_reason,
            "new reason": sample.new_reason,
        }
        yield from (f"  [dim]{name:<10}[/dim]  {brief(text)}" for name, text in texts.items() if text)


def print_difference(found: Difference, *, as_json: bool) -> None:
    """Why a number moved: what differs between two reports, and by how much each cause moved each mean."""
    if as_json:
        print_json(asdict(found))
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
            yield f"{name}: {brief(one.what)}: {brief(one.old or 'none')} → {brief(one.new or 'none')}"
    same = [name for kind, name in _KINDS.items() if all(changed.kind != kind for changed in found.changed)]
    if same:
        yield f"[dim]the same: {', '.join(same)}[/dim]"
    for names, where in ((found.only_old, "old"), (found.only_new, "new")):
        if names:
            yield f"only in the {where} report: {escape(', '.join(names))}"


def _moved(movements: Sequence[Movement]) -> Iterator[Table | str]:
    causes = [cause for cause in CAUSES if any(part.cause == cause for one in movements for part in one.parts)]
    head = ("field", "old", "new", "change", *causes)
    rows = []
    for one in movements:
        amounts = {part.cause: part.amount for part in one.parts}
        shown = (signed(amounts.get(cause)) for cause in causes)
        rows.append((f"{one.metric}.{one.field}", number(one.old), number(one.new), signed(one.change), *shown))
    yield from grid("by how much each cause moved the mean", head, rows)
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
        print_json(rows)
        return
    for place, (dataset, moments) in enumerate(found.items()):
        show(*([""] if place else []), *_history(f"{name} on {dataset}", moments))
        show(_drifted(drifts[dataset]), *(escape(str(one)) for one in looks[dataset]))


def _drifted(drift: Drift) -> str:
    return f"{'[yellow]![/yellow] ' if drift.finding else ''}{_printable(drift.sentence)}"


def _history(title: str, moments: Sequence[Moment]) -> Iterator[Table | str]:
    axis = Axis.of(moments)
    several = len({one.methods for one in moments}) > 1
    head = ("report", "made (UTC)", "mean", "95 % interval", "scored", *(["method"] if several else []))
    rows = [
        (
            f"{one.release} v{one.version}", one.created_at, number(one.mean), ends(one.low, one.high),
            f"{one.n_scored:,}/{one.n_total:,}", *([str(one.methods)] if several else []),
        )
        for one in moments
    ]  # fmt: skip
    yield from grid(title, *_drawn(head, rows, axis, moments), left=["made (UTC)", axis.head], wrapped={"report": 16})
    if several:
        yield "[yellow]![/yellow] numbers of different methods are not comparable; `answerkey diff` says what changed"


def _drawn(
    head: Sequence[str], rows: Sequence[Sequence[str]], axis: Axis, ones: Sequence[Estimated]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The table with the intervals drawn on an axis, which a narrow terminal leaves out."""
    if not fits(_HISTORY + _PLOT):
        return head, rows
    return (*head, axis.head), [(*row, axis.drawn(one)) for row, one in zip(rows, ones, strict=True)]


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
    head = ("rule", "outcome", "why")
    rows = [(rule.rule, Text(rule.outcome, style=_STYLES[rule.outcome]), rule.sentence) for rule in verdict.rules]
    page = grid("", head, rows, left=head, wrapped={"rule": 22, "why": 36})
    show(f"{_outcome(verdict.outcome)}  {_printable(verdict.sentence)}", *page)


def print_self_test(tested: SelfTest) -> None:
    """What was simulated, and how often the gate said what, each with its Monte Carlo error."""
    units = "" if tested.units == tested.n else f" in {tested.units:,} clusters"
    truths = {
        "equal": "as good as the old one",
        "margin": "worse by the margin, {loss:g}",
        "loss": "worse by {loss:.4f}",
        "enough": "as good, on as many samples as are said to do",
        "dropped": "worse by {loss:g}, the worst answers left out",
        "documents": "worse by {loss:g}: a few clusters lose everything",
        "rare": "worse by {loss:g}: a few answers lose everything",
        "noise": "as good, but scores move up and down",
    }
    head = ("what is true of the new release", "samples", "runs", "PASS", "FAIL")
    rows = [
        (
            truths[point.name].format(loss=point.loss), f"{point.n:,}", f"{point.n_runs:,}",
            _rate(point.passed, point.stated_pass), _rate(point.failed, point.stated_fail),
        )
        for point in tested.trials
    ]  # fmt: skip
    wrong = [
        f"wrong {outcome}: {_rate(point.passed if outcome == 'PASS' else point.failed)}, in the scenario where that is "
        f"most frequent"
        for outcome, point in (("PASS", tested.worst("PASS")), ("FAIL", tested.worst("FAIL")))
        if point
    ]
    show(
        f"The gate itself on simulated releases: {tested.n:,} samples{units}, drawn again and exchanged at random",
        *grid("", head, rows, wrapped={head[0]: 24}),
        *wrong,
        f"rules: {_printable('; '.join(tested.rules))}",
        *([f"intervals at {percent(tested.level)}, those of the next verdict"] if tested.level != LEVEL else []),
    )


def print_calibration(found: Calibration) -> None:
    """Agreement of the metric with human labels, overall and per release, and the means corrected for its errors."""
    graded = any(part.threshold for part in found.parts)
    estimates = {
        "kappa": "kappa", "AC1": "ac1", "sensitivity": "sensitivity", "specificity": "specificity", "bias": "bias",
    }  # fmt: skip
    head = ("release", "n", *estimates, *(("AUROC", "threshold") if graded else ()))
    rows = []
    for part in found.parts:
        cells: list[Estimate | None] = [getattr(part.agreement, name, None) for name in estimates.values()]
        if graded:
            cut = part.threshold and Estimate(part.threshold.value, part.threshold.interval)
            cells += [part.auroc, cut]
        rows.append((part.release or "all", f"{part.n:,}", *map(_estimate, cells)))
    page = grid(f"{found.name} against human labels ({found.labels})", head, rows)
    lines = [f"signature: {_printable(found.signature)}"]
    if ceiling := found.parts[0].ceiling:
        lines.append(f"two people on {ceiling.n:,} of these answers: kappa {_estimate(ceiling.kappa)}")
    if found.n_without_score:
        lines.append(f"{found.n_without_score:,} labelled answers have no score and are left out")
    show(*page, *(_corrected(found) if found.corrected else []), *lines)


def _corrected(found: Calibration) -> Iterator[Table | str]:
    rows = []
    for one in found.corrected:
        better = one.corrected
        estimates = (_estimate(one.raw), _estimate(Estimate(better.value, better.interval)))
        rows.append((one.release, *estimates, f"{better.labelled:,}", f"{better.unlabelled:,}"))
    title = "mean of each release, raw and corrected for these errors (PPI++)"
    yield from grid(title, ("release", "raw", "corrected", "labelled", "scored only"), rows)


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "–"
    value, interval = found
    return estimate(value, *(interval[:2] if interval else (None, None)))


def _rate(found: Estimate, stated: float | None = None) -> str:
    """A share of simulated runs with both ends of its Monte Carlo interval."""
    value, interval = found
    error = f" [{100 * interval.low:.1f}, {100 * interval.high:.1f}]" if interval else ""
    return f"{100 * value:.1f} %{error}" + ("" if stated is None else f" (stated: {100 * stated:.0f} %)")


def _outcome(outcome: str) -> str:
    return f"[{_STYLES[outcome]}]{outcome}[/]"


def _printable(text: str) -> str:
    """As one line that is neither markup nor anything else that acts, whatever names hold."""
    return escape(printable(text))


_FIRST = 10
"""Traces of a rule that a dry run prints; JSON has more."""
_LONGEST = 60


def print_funnels(funnels: Sequence[Funnel], *, as_json: bool) -> None:
    """A column a rule: how many traces were seen, and where each of them ended."""
    from answerkey.tasks.traces.summary import BUCKETS

    if as_json:
        print_json([asdict(funnel) for funnel in funnels])
        return
    shown = [
        (bucket, what)
        for bucket, what in BUCKETS.items()
        if bucket == "scored" or any(getattr(funnel, bucket) for funnel in funnels)
    ]
    rows = [
        ("seen", *(f"{funnel.seen:,}" for funnel in funnels), ""),
        *(
            (f"  {bucket.replace('_', ' ')}", *(f"{getattr(funnel, bucket):,}" for funnel in funnels), what)
            for bucket, what in shown
        ),
        ("mean", *(number(funnel.mean) for funnel in funnels), ""),
        ("95 % interval", *(ends(funnel.low, funnel.high) for funnel in funnels), ""),
    ]
    groups = ["seen", *("bucket" for _ in shown), "mean", "mean"]
    page = _rules([funnel.rule for funnel in funnels], rows, groups)
    fields = [f"{escape(funnel.rule)}: the mean is of {funnel.metric}.{funnel.field}" for funnel in funnels]
    again = [
        f"{escape(funnel.rule)}: {funnel.again:,} of those seen were seen before" for funnel in funnels if funnel.again
    ]
    show(*page, *fields, *again)


def _rules(rules: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[str]) -> Iterator[Table | str]:
    """A column a rule, and one that says what each row is."""
    yield from grid("", ("traces", *rules, ""), rows, left=[""], wrapped={"": 16}, groups=groups)


def print_previews(previews: Sequence[Preview], *, as_json: bool) -> None:
    """What a run would do: a column a rule, then the first traces that each would score."""
    from answerkey.tasks.traces.summary import BUCKETS

    if as_json:
        print_json([asdict(one) for one in previews])
        return
    about = {
        "seen": "",
        "disabled": BUCKETS["disabled"],
        "filtered": BUCKETS["filtered"],
        "sampled_out": BUCKETS["sampled_out"],
        "quarantined": BUCKETS["quarantined"],
        "taken": "would have a score",
        "measured": "of them: measurements to make",
    }
    rows = [
        (name.replace("_", " "), *(f"{getattr(one, name):,}" for one in previews), what) for name, what in about.items()
    ]
    estimates = [one.estimate for one in previews]
    if any(estimates):
        rows.append(("calls", *(f"{one.calls:,}" if one else "–" for one in estimates), "to judges"))
        rows.append(("cost", *(dollars(one.cost_usd) if one else "–" for one in estimates), ""))
    groups = [*("traces" for _ in about), *("judges" for _ in rows[len(about) :])]
    page = _rules([one.rule for one in previews], rows, groups)
    show(*page, *(line for one in previews for line in _taken(one)), "no judge was asked, and nothing was scored")


def _taken(one: Preview) -> Iterator[Table | str]:
    if not one.traces:
        return
    head = ("trace", "time (UTC)", "answer")
    rows = [
        [cut(one_line(cell), _LONGEST) for cell in (trace.trace_id, trace.time or "", trace.answer or "")]
        for trace in one.traces[:_FIRST]
    ]
    yield from grid(f"{one.rule} would score", head, rows, left=head, wrapped={"answer": 20})
    if one.taken > _FIRST:
        yield f"and {one.taken - _FIRST:,} more\n"


def print_over_time(rule: str, name: str, periods: Sequence[Period], drift: Drift, *, by: str, as_json: bool) -> None:
    """The mean of a field by day, week or month, with each interval drawn on one axis; below it, its drift."""
    if as_json:
        found = [asdict(one) for one in periods]
        for newest in found[-1:]:
            newest["drift"] = asdict(drift)
        print_json({rule: {name: found}})
        return
    axis = Axis.of(periods)
    several = any(one.methods > 1 for one in periods)
    head = (f"{by} (UTC)", "mean", "95 % interval", "scored", *(["method"] if several else []))
    rows = [
        (
            one.start, number(one.mean), ends(one.low, one.high), f"{one.n_scored:,}/{one.n_total:,}",
            *([str(one.methods)] if several else []),
        )
        for one in periods
    ]  # fmt: skip
    page = grid(f"{name} of {rule} by {by}", *_drawn(head, rows, axis, periods), left=[axis.head])
    warning = ["[yellow]![/yellow] numbers of different methods are not comparable: the metric or its judge changed"]
    show(*page, *(warning if several else []), _drifted(drift))


def print_learned(learned: Learned, out: str, *, as_json: bool) -> None:
    """What examples from labels change, and the examples."""
    gain, rubric = learned.gain, learned.rubric
    low, high = (gain.interval.low, gain.interval.high) if gain.interval else (None, None)
    if as_json:
        about: dict[str, object] = {"n": learned.n, "corrected": learned.corrected}
        about |= {"before": gain.old, "after": gain.new, "gain": gain.difference, "gain_low": low, "gain_high": high}
        about["rubric"] = rubric.text
        print_json(about)
        return
    print(printable(what_it_learned(learned)))
    print(f"The rubric is in {out}." if out else "\n".join(map(printable, f"\n{rubric.text}".split("\n"))))
