"""The tables of the page, as HTML and as Markdown: those of `publish.tables` for what is on it, and its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.policy import ALL
from answerkey.tasks.compare.warnings import confounded
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.table import Cell, Table
from answerkey.tasks.publish.text import count, ends, number, percent

if TYPE_CHECKING:
    from answerkey.tasks.publish.page.model import CheckSummary, Page

_MOST_SLICES = 40


def named(page: Page) -> tables.Named:
    """The reports of the page by the labels of their releases."""
    return {release.label: release.report for release in page.releases}


def headline_scores(page: Page) -> Table:
    """The headline field of each metric with a column for each release, and what is said about whole releases."""
    return tables.scores("Scores", named(page), page.headlines_in_order, list(_about(page)))


def other_scores(page: Page) -> Table:
    """All fields that are not headlines; no rows where there are none."""
    others = [field.name for field in page.fields if field.name not in page.headlines]
    return tables.scores("Scores of the other fields", named(page), others)


def _about(page: Page) -> Iterator[tables.Row]:
    yield from tables.counts(named(page))
    reports = [release.report for release in page.releases]
    if any(report.n_questions != report.n_total for report in reports):
        variances = (number(report.variance_within(page.primary)) for report in reports)
        yield "questions", *(count(report.n_questions) for report in reports)
        yield f"variance between the answers to one question, {page.primary}", *variances
    yield "median length, characters", *(count(release.median_length) for release in page.releases)


def slices(page: Page, name: str) -> Table:
    """METRIC.FIELD `name` by slice; no rows where there are none."""
    return tables.slices(named(page), name, _MOST_SLICES)


def differences(comparison: Comparison, primary: str) -> list[Table]:
    """The fields on all samples, then the slices of the field that decides, then those of all others."""
    sliced = [row for row in comparison.rows if row.slice != ALL]
    parts = {
        "Differences, all samples": comparison.overall,
        f"{primary} by slice": [row for row in sliced if row.name == primary],
        "Other metrics by slice": [row for row in sliced if row.name != primary],
    }
    return [tables.comparison(title, rows, confounded(comparison)) for title, rows in parts.items() if rows]


def coverage(page: Page) -> Table:
    """How many rows of each release have a score in each metric, and between which bounds the mean lies without gaps.

    The bounds are the mean if every row that failed or was skipped had the lowest, or the highest, value.
    """
    rows = [
        (
            name, label, f"{score.n_scored:,}/{score.n_total:,}", percent(score.coverage), count(score.n_failed),
            count(score.n_undefined), count(score.n_skipped), number(score.mean),
            ends(score.bound_low, score.bound_high),
        )
        for name in page.headlines_in_order
        for label, report in named(page).items()
        if (score := report.score(name))
    ]  # fmt: skip
    head = ("metric", "release", "scored/total", "coverage", "failed", "undefined", "skipped", "mean", "bounds")
    return Table("Coverage", head, rows, left=["release"], groups=[row[0] for row in rows])


def checks(title: str, found: Sequence[CheckSummary]) -> Table:
    """Checks of the data, with what each found."""
    rows = [
        (check.rule, check.severity, count(check.n_failed), count(check.n_checked), check.message) for check in found
    ]
    head = ("check", "severity", "found", "checked", "message")
    return Table(title, head, rows, left=["severity", "message"], wrapped={"message": 36})


def given(page: Page) -> Table:
    """How far the scores that came with the answers agree with the primary field; no rows where none did."""
    return tables.agreements(named(page), page.primary)


def versions(page: Page) -> Table:
    """What each report was made of and with."""
    rows: list[tables.Row] = [
        (
            report.report_id, report.created_at, report.status.lower(),
            *(Cell(str(text), kind="code") for text in (
                report.dataset_version, report.answers_version, report.manifest["code"], report.manifest["seed"],
                report.run_id,
            )),
        )
        for report in named(page).values()
    ]  # fmt: skip
    head = ("report", "made", "status", "data set", "answers", "scoring code", "seed", "run")
    return Table("Versions and hashes", head, rows, left=head)
