"""The page as markdown, for the Prefect UI: everything but the plots and the samples."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.gate.gate import Verdict
from answerkey.tasks.publish.escape import visible
from answerkey.tasks.publish.page.html import environment
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.publish.tables import rules
from answerkey.tasks.publish.text import count, literal, only_one, spent_on_judges, undetectable
from answerkey.tasks.reports.manifest import named

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


def verdict_markdown(verdict: Verdict) -> str:
    """The verdict alone: its sentence, what it rests on, notes, and how each rule came out, and why."""
    grounds = str(_environment().get_template("macros.md.j2").module.grounds(verdict))  # type: ignore[attr-defined]
    table = rules("", verdict).markdown()
    return f"# {verdict.outcome}\n\n**{literal(verdict.sentence)}**\n\n{grounds.strip()}\n\n{table}\n"


@cache
def _environment() -> Environment:
    made = environment(autoescape=False)
    made.filters |= {"markdown": lambda text: literal(visible(text)), "count": count}
    made.globals |= {
        "notes": _notes,
        "refusals": lambda page: list(dict.fromkeys((row[3], row[4]) for row in page.quarantine.rows))[:_MOST_FAILURES],
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
