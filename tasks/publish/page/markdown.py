"""The page as markdown, for the Prefect UI: everything but the plots and the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from answerkey.metrics_core.comparison import ALL, Comparison, Pair
from answerkey.metrics_core.gate.gate import RuleOutcome
from answerkey.tasks.compare.text import only_one, people_note, table
from answerkey.tasks.publish.artifacts import literal, number
from answerkey.tasks.publish.page import views
from answerkey.tasks.publish.page.figures import percent, visible
from answerkey.tasks.publish.page.model import Estimate, Page
from answerkey.tasks.reports.judged_by import named
from answerkey.tasks.reports.report import Score

_MOST_SLICES = 40
"""Rows of a table about slices: an artifact is for reading, and the warehouse has them all."""
_MOST_FAILURES = 20


def as_markdown(page: Page, file: str = "", link: str = "") -> str:
    """The verdicts, the releases side by side, differences, slices, coverage, data, methods and the commands.

    `file` is where the whole page is, if it was written, and `link` its address, if it has one.
    """
    whole = f" [Open the whole page]({link}), `{file}`." if link else f" The whole page: `{file}`" if file else ""
    labels = ", ".join(f"**{_text(release.label)}**" for release in page.releases)
    parts = [
        f"# {_text(page.dataset)}",
        f"{labels}. Made {page.made_at}.{whole}",
        *_verdicts(page),
        *([f"{_text(page.summary)}"] if page.summary else []),
        *_warnings(page),
        "## Scores",
        _scores(page),
        *(part for pair in page.pairs[::-1] for part in _difference(pair, page.primary)),
        *_slices(page),
        *_coverage(page),
        *_data(page),
        *_people(page),
        *_methods(page),
    ]
    return "\n\n".join(parts) + "\n"


def rules_table(rules: Sequence[RuleOutcome]) -> str:
    """The rules of a gate: how each is written, how it came out, and why."""
    rows = [
        (rule.rule, rule.outcome, _span((rule.value, rule.low, rule.high)), _count(rule.n), rule.sentence)
        for rule in rules
    ]
    return _table(("rule", "outcome", "value", "samples", "why"), rows)


def _verdicts(page: Page) -> Iterator[str]:
    for gated in page.gates[::-1]:
        yield (
            f"## {gated.verdict.outcome}: {_text(gated.new)}" if len(page.gates) > 1 else f"## {gated.verdict.outcome}"
        )
        yield f"**{_text(gated.verdict.sentence)}**"
        if gated.verdict.rules:
            yield rules_table(gated.verdict.rules)


def _warnings(page: Page) -> Iterator[str]:
    if page.warnings:
        yield "## Before you trust a number"
        yield "\n".join(
            f"- {'**Warning:** ' if warning.serious else ''}{_text(warning.title)}"
            + "".join(f"\n  - {_text(line)}" for line in warning.details)
            for warning in page.warnings
        )


def _scores(page: Page) -> str:
    rows = [(line.field.name, *map(_score, line.cells)) for line in views.lines(page)]
    rows.append(("answers", *(_count(release.report.n_total) for release in page.releases)))
    rows.append(("median length, characters", *(_count(release.median_length) for release in page.releases)))
    return _table(("mean (95 % interval)", *(release.label for release in page.releases)), rows)


def _difference(pair: Pair, primary: str) -> Iterator[str]:
    yield f"## {_text(pair.old)} → {_text(pair.new)}"
    notes = [*([pair.not_comparable] if pair.not_comparable else []), *pair.warnings, *only_one(pair)]
    if notes:
        yield "\n".join(f"- {_text(note)}" for note in notes)
    yield _comparisons(pair.overall)
    if note := people_note(pair):
        yield f"{_text(note)}."
    if slices := [row for row in pair.rows if row.slice != ALL and row.name == primary][:_MOST_SLICES]:
        yield f"### {_text(primary)} by slice"
        yield _comparisons(slices)


def _comparisons(rows: Sequence[Comparison]) -> str:
    head, cells = table(rows)
    return _table(head, cells)


def _slices(page: Page) -> Iterator[str]:
    names = [release.label for release in page.releases]
    for found in (one for one in views.slice_tables(page) if one.field == page.primary):
        yield f"## {_text(found.field)} by {_text(found.column)}"
        rows = [(line.value, _count(line.n), *map(_score, line.cells)) for line in found.lines[:_MOST_SLICES]]
        yield _table((found.column, "rows", *names), rows)


def _coverage(page: Page) -> Iterator[str]:
    yield "## Coverage and failures"
    if not views.incomplete(page):
        yield "No row failed or was skipped."
    said = [(release.label, release.report.message) for release in page.releases if release.report.message]
    if said:
        yield "\n".join(f"- {_text(label)}: {_text(message)}" for label, message in said)
    rows = [
        (
            line.field.name, release.label, f"{cell.n_scored:,}/{cell.n_total:,}", percent(cell.coverage),
            _count(cell.n_failed), _count(cell.n_undefined), _count(cell.n_skipped),
            f"{number(cell.bound_low)} to {number(cell.bound_high)}",
        )
        for line in views.lines(page)
        if line.headline
        for release, cell in zip(page.releases, line.cells, strict=True)
        if cell
    ]  # fmt: skip
    yield _table(("metric", "release", "scored", "coverage", "failed", "undefined", "skipped", "bounds"), rows)
    if page.failures:
        reasons = [(one.metric, one.release, one.status, _count(one.n), one.reason) for one in page.failures]
        yield _table(("metric", "release", "status", "rows", "reason"), reasons[:_MOST_FAILURES])


def _data(page: Page) -> Iterator[str]:
    found = [check for check in page.checks if not check.success]
    yield "## Validation and quarantine"
    yield (
        f"{len(page.checks) - len(found)} of {len(page.checks)} checks found nothing. "
        f"{page.n_quarantined:,} row{'' if page.n_quarantined == 1 else 's'} in quarantine."
    )
    lines = [f"- {check.severity}: {_text(check.message)}" for check in found]
    reasons = dict.fromkeys(f"- quarantined by {row.rule}: {_text(row.reason)}" for row in page.quarantine)
    if lines or reasons:
        yield "\n".join([*lines, *list(reasons)[:_MOST_FAILURES]])


def _people(page: Page) -> Iterator[str]:
    if page.agreements:
        yield "## Agreement with people"
        rows = [
            (
                one.field, one.release or "all", _count(one.n), _span(one.kappa), _span(one.sensitivity),
                _span(one.specificity), _span(one.bias),
            )
            for one in page.agreements
        ]  # fmt: skip
        yield _table(("metric", "release", "labels", "kappa", "sensitivity", "specificity", "bias"), rows)
    if page.corrected:
        yield "## Means as people would have given them"
        means = [
            (one.field, one.release, _span(one.raw), _span(one.corrected), _count(one.n), one.method)
            for one in page.corrected
        ]
        yield _table(("metric", "release", "as scored", "as people would", "labels", "by"), means)


def _methods(page: Page) -> Iterator[str]:
    yield "## Methods"
    signatures = dict.fromkeys(one for field in page.fields for one in field.signatures)
    yield "\n".join(f"- `{visible(signature)}`" for signature in signatures)
    judges = dict.fromkeys(named(release.report.manifest) for release in page.releases)
    yield from (f"Judge: {_text(judge)}" for judge in judges if judge)
    yield "## How to make it again"
    yield from (f"```sh\n{visible(recipe.command)}\n```" for recipe in views.recipes(page) if recipe.command)
    yield _table(
        ("report", "data set version", "answers", "scoring code", "status"),
        [
            (
                release.report.report_id, release.report.dataset_version, release.report.manifest["answers_version"],
                release.report.manifest["code"], release.report.status,
            )
            for release in page.releases
        ],
    )  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_text(cell) for cell in row] for row in rows)]
    lines[0] = [_text(cell) for cell in head]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _score(score: Score | None) -> str:
    return "–" if score is None else _span((score.mean, score.ci_low, score.ci_high))


def _span(estimate: Estimate) -> str:
    value, low, high = estimate
    return number(value) + ("" if low is None or high is None else f" ({low:.3f} to {high:.3f})")


def _count(n: float | None) -> str:
    return "–" if n is None else f"{n:,.0f}"


def _text(text: str) -> str:
    """Text from data as markdown shows it literally, with what steers text made visible."""
    return literal(visible(text))
