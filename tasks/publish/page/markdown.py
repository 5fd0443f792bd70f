"""The page as markdown, for the Prefect UI: everything but the plots and the samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.gate.gate import RuleOutcome
from answerkey.tasks.publish.page.html import by_slice, environment
from answerkey.tasks.publish.page.model import Page, ValueWithEnds
from answerkey.tasks.publish.page.text import visible
from answerkey.tasks.publish.text import (
    NONE,
    ends,
    estimate,
    family_note,
    human_note,
    literal,
    number,
    only_one,
    spent_on_judges,
    table,
    undetectable,
)
from answerkey.tasks.reports.manifest import named
from answerkey.tasks.reports.report import Score

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_SLICES = 40
"""Rows of a table about slices: an artifact is for reading, and the warehouse has them all."""
_MOST_FAILURES = 20


def as_markdown(page: Page, file: str = "", link: str = "") -> str:
    """The verdicts, the releases side by side, differences, slices, coverage, data, methods and the commands.

    `file` is where the whole page is, if it was written, and `link` its address, if it has one.
    """
    return _environment().get_template("page.md.j2").render(page=page, file=file, link=link).rstrip() + "\n"


def rules_table(rules: Sequence[RuleOutcome]) -> str:
    """The rules of a gate: how each is written, how it came out, and why."""
    macros = _environment().get_template("macros.md.j2").module
    return str(macros.rules(rules)).rstrip()  # type: ignore[attr-defined]


@cache
def _environment() -> Environment:
    made = environment(autoescape=False)
    made.filters |= {"markdown": _markdown, "number": number, "span": _span, "mean": _mean, "count": _count}
    made.globals |= {
        "notes": _notes,
        "differences": table,
        "family_note": family_note,
        "human_note": human_note,
        "ends": ends,
        "by_slice": by_slice,
        "refusals": _refusals,
        "signatures": lambda page: dict.fromkeys(one for field in page.fields for one in field.signatures),
        "judges": lambda page: filter(None, dict.fromkeys(named(release.report.manifest) for release in page.releases)),
        "spent_on_judges": lambda page: dict.fromkeys(
            line for release in page.releases for line in spent_on_judges(release.report.manifest)
        ),
        "most_slices": _MOST_SLICES,
        "most_failures": _MOST_FAILURES,
    }
    return made


def _notes(comparison: Comparison) -> list[str]:
    return [
        *([comparison.not_comparable] if comparison.not_comparable else []),
        *comparison.warnings,
        *only_one(comparison),
        *undetectable(comparison),
    ]


def _refusals(page: Page) -> Iterable[tuple[str, str]]:
    return list(dict.fromkeys((row.rule, row.reason) for row in page.quarantine))[:_MOST_FAILURES]


def _mean(score: Score | None) -> str:
    return NONE if score is None else estimate(score.mean, score.ci_low, score.ci_high)


def _span(found: ValueWithEnds) -> str:
    return estimate(*found)


def _count(n: float | None) -> str:
    return NONE if n is None else f"{n:,.0f}"


def _markdown(text: str) -> str:
    """Text from data as markdown shows it literally, with what steers text made visible."""
    return literal(visible(text))
