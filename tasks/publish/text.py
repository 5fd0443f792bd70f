"""Numbers and comparisons in plain words, for the terminal and for the Prefect UI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import ALL, Comparison, FieldComparison
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.tasks.reports.report import Score

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.access import CallLimits

HEAD = ("field", "rows", "old", "new", "difference", "p adjusted", "finding", "fixed/broken")
HUMAN = "in human labels"
"""The column after the difference, where a part of the rows has human labels."""


def table(rows: Sequence[FieldComparison]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows: the field (or the slice), how many rows have a number in both, means, what is found."""
    human = any(row.people is not None for row in rows)
    place = HEAD.index("difference") + 1
    head = (*HEAD[:place], HUMAN, *HEAD[place:]) if human else HEAD
    return head, [_cells(row, human=human) for row in rows]


def _cells(row: FieldComparison, *, human: bool) -> tuple[str, ...]:
    return (
        row.name if row.slice == ALL else row.slice,
        f"{row.n_common:,}",
        number(row.old),
        number(row.new),
        _size(row.difference, row.low, row.high),
        *([_size(row.people, row.people_low, row.people_high)] if human else []),
        chance(row.p_adjusted),
        finding(row),
        "–" if row.fixed is None else f"{row.fixed:,}/{row.broken:,}",
    )


def _size(difference: float | None, low: float | None, high: float | None) -> str:
    """The difference with half its interval: `+0.012 ±0.020`."""
    if difference is None:
        return "–"
    if low is None or high is None:
        return f"{difference:+.3f}"
    return f"{difference:+.3f} ±{(high - low) / 2:.3f}"


def chance(p: float | None) -> str:
    """A p-value with three decimals; never 0."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.0005 else f"{p:.3f}"


def finding(row: FieldComparison) -> str:
    """Better, worse, or not shown to differ with the minimum detectable effect; or why there is no comparison."""
    if row.finding is None:
        return f"not compared: {row.note}"
    if row.finding != "not shown to differ" or row.mde is None:
        return row.finding
    needed = f"; about {row.needed:,} rows needed for this one" if row.needed else ""
    return f"{row.finding} (detectable: ±{row.mde:.3f}{needed})"


def only_one(comparison: Comparison) -> Iterator[str]:
    """Which fields have rows with a number in one report only, and what these are in the other.

    Samples that the other report does not have at all are in the warnings of the comparison.
    """
    lines: dict[str, list[str]] = {}
    for row in comparison.overall:
        parts = [
            f"{sum(counts.values()):,} only in {there}, where {elsewhere} has "
            + ", ".join(f"{n:,} {why}" for why, n in counts.items())
            for missing, there, elsewhere in (
                (row.missing_new, comparison.old, comparison.new),
                (row.missing_old, comparison.new, comparison.old),
            )
            if (counts := {why: n for why, n in missing.items() if why != "absent"})
        ]
        if parts:
            lines.setdefault("; ".join(parts), []).append(row.name)
    for text, names in lines.items():
        shown = f"all {len(names)} fields" if len(names) == len(comparison.overall) > 1 else ", ".join(names)
        yield f"{shown}: some rows have a number in one report only: {text}"


def human_note(comparison: Comparison) -> str | None:
    """What the column `HUMAN` is, where there is one."""
    n = max((row.n_labelled or 0 for row in comparison.overall), default=0)
    if not n:
        return None
    return (
        f"{HUMAN}: the difference in human labels over all these rows, estimated from the {n:,} rows with a label in "
        "both reports and from the scores of all (prediction-powered inference, PPI++). Every line estimates the same "
        "number. Valid if the labelled rows are a random sample"
    )


def number(value: float | None) -> str:
    """Three decimals, or a dash where there is no number."""
    return "–" if value is None else f"{value:.3f}"


def interval(score: Score) -> str:
    """The interval as `0.710 – 0.731`, or a dash."""
    return "–" if score.ci_low is None else f"{number(score.ci_low)} – {number(score.ci_high)}"


def literal(text: str) -> str:
    """Text from data, as markdown shows it literally."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text.replace("\n", " "))


def price(cost: float | None) -> str:
    """A cost in a sentence."""
    return "price unknown" if cost is None else dollars(cost)


def what_it_costs(models: Sequence[str], limits: CallLimits, estimates: Sequence[Cost]) -> str:
    """Which models a run will ask, how often, what it may cost, and its limits, in a sentence."""
    calls, known = (sum(getattr(one, name) for one in estimates) for name in ("calls", "in_ledger"))
    limited = [f"{limits.max_calls:,} calls"] if limits.max_calls is not None else []
    limited += [dollars(limits.max_cost_usd)] if limits.max_cost_usd is not None else []
    return (
        f"{', '.join(models)} will be asked {calls:,} times ({known:,} replies are in the ledger), about "
        f"{price(total_usd(estimates))}; limit: {' and '.join(limited) or 'none'}"
    )


def dollars(cost: float | None) -> str:
    """An amount of money in a table; "unknown" where a price is."""
    if cost is None:
        return "unknown"
    return f"${cost:,.4f}" if cost < 1 else f"${cost:,.2f}"
