"""A comparison in plain words, for the terminal and for the Prefect UI."""

from __future__ import annotations

from collections.abc import Iterator

from metrics_core.pair import ALL, Comparison, Pair
from tasks.publish import artifact_key, literal, number

HEAD = ("field", "rows", "old", "new", "difference", "p adjusted", "verdict", "fixed/broken")
"""What `cells` gives, in order."""


def cells(row: Comparison) -> tuple[str, ...]:
    """One row of a table: the field (or the slice), how many rows have a number in both, means, and what is found."""
    return (
        row.name if row.slice == ALL else row.slice,
        f"{row.n_common:,}",
        number(row.old),
        number(row.new),
        size(row),
        chance(row.p_adjusted),
        verdict(row),
        "–" if row.fixed is None else f"{row.fixed:,}/{row.broken:,}",
    )


def size(row: Comparison) -> str:
    """The difference with half its interval: `+0.012 ±0.020`."""
    if row.difference is None:
        return "–"
    if row.low is None or row.high is None:
        return f"{row.difference:+.3f}"
    return f"{row.difference:+.3f} ±{(row.high - row.low) / 2:.3f}"


def chance(p: float | None) -> str:
    """A p-value with three decimals: it is never 0."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.0005 else f"{p:.3f}"


def verdict(row: Comparison) -> str:
    """What may be said: better, worse, or not shown to differ, with what would have been seen."""
    if row.finding is None:
        return f"not compared: {row.note}"
    if row.finding != "not shown to differ" or row.mde is None:
        return row.finding
    needed = f"; this one would take about {row.needed:,} rows" if row.needed else ""
    return f"{row.finding} (would show ±{row.mde:.3f}{needed})"


def only_one(pair: Pair) -> Iterator[str]:
    """Which fields have rows with a number in one report only, and what these are in the other.

    Samples that the other report does not have at all are in the warnings of the pair.
    """
    lines: dict[str, list[str]] = {}
    for row in pair.overall:
        parts = [
            f"{sum(counts.values()):,} only in {there}, where {elsewhere} has "
            + ", ".join(f"{n:,} {why}" for why, n in counts.items())
            for missing, there, elsewhere in (
                (row.missing_new, pair.old, pair.new),
                (row.missing_old, pair.new, pair.old),
            )
            if (counts := {why: n for why, n in missing.items() if why != "absent"})
        ]
        if parts:
            lines.setdefault("; ".join(parts), []).append(row.name)
    for text, names in lines.items():
        shown = f"all {len(names)} fields" if len(names) == len(pair.overall) > 1 else ", ".join(names)
        yield f"{shown}: some rows have a number in one report only: {text}"


def markdown(pair: Pair) -> str:
    """The comparison as a page: warnings first, then a table of all samples, then one of each slice."""
    warnings = [*([pair.not_comparable] if pair.not_comparable else []), *pair.warnings, *only_one(pair)]
    lines = [f"# {literal(pair.old)} → {literal(pair.new)}", "", *(f"- {literal(text)}" for text in warnings), ""]
    for slice_ in dict.fromkeys(row.slice for row in pair.rows):
        rows = [row for row in pair.rows if row.slice == slice_]
        shown = [(row.name, *cells(row)[1:]) for row in rows]
        lines += [f"## {literal(slice_)}: {max(row.n_common for row in rows):,} rows", ""]
        lines += [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(map(literal, row)) + " |" for row in shown]
        lines.append("")
    return "\n".join(lines)


def publish_comparison(pair: Pair) -> None:
    """Make a table and a markdown artifact of the comparison in the Prefect UI. The warehouse stays the record."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    name = f"{pair.old} against {pair.new}"
    key = artifact_key(f"{_unversioned(pair.old)}-{_unversioned(pair.new)}")
    rows = [dict(zip(HEAD, cells(row), strict=True)) for row in pair.overall]
    create_table_artifact(rows, key=f"differences-{key}", description=name)
    create_markdown_artifact(markdown(pair), key=f"comparison-{key}", description=name)


def _unversioned(report_id: str) -> str:
    return report_id.rpartition("/")[0]
