"""The tables of the page, cell by cell, as the template walks through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from answerkey.metrics_core.comparison import ALL, Comparison, Pair
from answerkey.metrics_core.gate.gate import PRECEDENCE, RuleOutcome
from answerkey.tasks.publish.page.figures import number, signed
from answerkey.tasks.publish.page.model import Field, Page, Release
from answerkey.tasks.reports.history import Moment
from answerkey.tasks.reports.report import Score

_MOST_SLICES = 40


@dataclass(frozen=True, slots=True)
class Line:
    """One field with its score in every release, None where a release has none."""

    field: Field
    first: bool
    headline: bool
    cells: tuple[Score | None, ...]


@dataclass(frozen=True, slots=True)
class SliceLine:
    """One value of a slice column with the score of one field in every release."""

    value: str
    n: int
    cells: tuple[Score | None, ...]


@dataclass(frozen=True, slots=True)
class SliceTable:
    """One field by the values of one column, those with most rows; `left_out` counts the others."""

    field: str
    column: str
    lines: tuple[SliceLine, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A command and the reports that it makes."""

    command: str
    releases: tuple[Release, ...]


def headline(page: Page) -> str:
    """The page in a few words: the release and its verdict; of several, how many have which."""
    if len(page.gates) < 2:
        start = f"{page.gates[0].verdict.outcome}, " if page.gates else ""
        return start + page.releases[-1].label
    counts = Counter(gated.verdict.outcome for gated in page.gates)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in PRECEDENCE if counts[outcome])


def rule_number(rule: RuleOutcome) -> Callable[[float | None], str]:
    """How the numbers of a rule are written: a difference has a sign, also where it is plus."""
    difference = not rule.rule.startswith(("level ", "kappa ", "coverage "))
    return signed if difference else number


def lines(page: Page) -> tuple[Line, ...]:
    """All fields over all rows, by metric; `first` marks the first field of a metric."""
    scores = [_by_name(release, ALL) for release in page.releases]
    metrics = [field.metric for field in page.fields]
    return tuple(
        Line(
            field,
            place == metrics.index(field.metric),
            field.name in page.headlines,
            tuple(by_name.get(field.name) for by_name in scores),
        )
        for place, field in enumerate(page.fields)
    )


def incomplete(page: Page) -> bool:
    """Whether any row of any release should have a score in any metric, and has none."""
    return any(score.n_failed + score.n_skipped for release in page.releases for score in release.report.overall)


def slice_columns(page: Page) -> tuple[str, ...]:
    """The columns that the reports are sliced by."""
    names = (s.slice.partition("=")[0] for r in page.releases for s in r.report.scores if s.slice != ALL)
    return tuple(dict.fromkeys(names))


def slice_tables(page: Page) -> tuple[SliceTable, ...]:
    """Every field by every slice column, the primary field first."""
    by_release = [{(score_name(s), s.slice): s for s in release.report.scores} for release in page.releases]
    names = sorted((field.name for field in page.fields), key=lambda name: name != page.primary)
    return tuple(_slice_table(name, column, by_release) for name in names for column in slice_columns(page))


def _slice_table(name: str, column: str, by_release: Sequence[dict[tuple[str, str], Score]]) -> SliceTable:
    values = dict.fromkeys(s for scores in by_release for n, s in scores if n == name and s.startswith(f"{column}="))
    found = []
    for value in values:
        cells = tuple(scores.get((name, value)) for scores in by_release)
        found.append(SliceLine(value.partition("=")[2], max(cell.n_total for cell in cells if cell), cells))
    kept = found if len(found) <= _MOST_SLICES else sorted(found, key=lambda line: -line.n)[:_MOST_SLICES]
    return SliceTable(name, column, tuple(kept), len(found) - len(kept))


def by_slice(pair: Pair, primary: str) -> tuple[tuple[str, tuple[Comparison, ...]], ...]:
    """The comparisons of slices under a title: those of the field that decides, then those of all others."""
    sliced = [row for row in pair.rows if row.slice != ALL]
    parts = {
        f"{primary} by slice": tuple(row for row in sliced if row.name == primary),
        "Other metrics by slice": tuple(row for row in sliced if row.name != primary),
    }
    return tuple((title, rows) for title, rows in parts.items() if rows)


_TESTS = {
    "mcnemar": "McNemar, exact",
    "sign-flip": "sign flips",
    "cluster sign-flip": "sign flips, clusters",
    "exchange": "exchanges",
}


def test_name(row: Comparison) -> str:
    """The test behind a p-value, in words."""
    return _TESTS.get(row.test, row.test)


def one_sided(row: Comparison) -> tuple[str, ...]:
    """How many rows have a number in one of the releases only, and what they are in the other."""
    sides = (("only old", row.n_only_old, row.missing_new), ("only new", row.n_only_new, row.missing_old))
    return tuple(
        f"{name} {n:,}" + (f" ({', '.join(f'{count:,} {why}' for why, count in missing.items())})" if missing else "")
        for name, n, missing in sides
        if n
    )


def moments(page: Page) -> tuple[Moment, ...]:
    """The reports of the data set with the primary field, newest first."""
    return tuple(moment for moment in page.history[::-1] if moment.field == page.primary)


def recipes(page: Page) -> tuple[Recipe, ...]:
    """The commands that make the reports of the page, each once."""
    found: dict[str, list[Release]] = {}
    for release in page.releases:
        found.setdefault(release.command, []).append(release)
    return tuple(Recipe(command, tuple(releases)) for command, releases in found.items())


def score_name(score: Score) -> str:
    """METRIC.FIELD."""
    return f"{score.metric}.{score.field}"


def _by_name(release: Release, slice_: str) -> dict[str, Score]:
    return {score_name(score): score for score in release.report.scores if score.slice == slice_}
