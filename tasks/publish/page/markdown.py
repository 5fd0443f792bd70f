"""The page as markdown, for the Prefect UI: everything but the plots and the samples."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from answerkey.metrics_core.decide.verdict import Verdict
from answerkey.metrics_core.formatting import literal
from answerkey.metrics_core.llm.untrusted import cut
from answerkey.tasks.publish.escape import visible
from answerkey.tasks.publish.page.html import environment
from answerkey.tasks.publish.page.model import Page
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.tables import rules
from answerkey.tasks.publish.text import NONE, count, doubts, samples, spent_on_judges, undetectable, verdict_plot
from answerkey.tasks.reports.manifest import named

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_SLICES = 40
"""Rows of a table about slices: an artifact is for reading, and the warehouse has them all."""
_MOST_FAILURES = 20
_MOST_RULES = 10
_MOST_WORST = 5
_LONGEST = 100
"""What a comment has at most: rules, samples, and characters of a text."""


def as_markdown(page: Page, file: str = "", link: str = "") -> str:
    """The verdicts, the releases side by side, differences, slices, coverage, data, methods and the commands.

    `file` is where the whole page is, if it was written, and `link` its address, if it has one.
    """
    return _environment().get_template("page.md.j2").render(page=page, file=file, link=link).rstrip() + "\n"


def comment_markdown(page: Page, link: str = "") -> str:
    """The first verdict of a page for a comment on a pull request, in at most 40 lines: its basis, the rules that are
    not shown to hold first, and the samples that got worse by most. `link` is the address of the whole page."""
    changes = page.changes
    worse = page.got_worse
    n_same = sum(not change.difference for change in changes)
    n_better = len(changes) - len(worse) - n_same
    changed = (
        f"By {literal(page.primary)}, {samples(len(worse))} got worse, {n_better:,} got better, and {n_same:,} "
        "stayed the same."
    )
    plot = verdict_plot(page.gates[0].verdict, page.gates[0].margin)

    # The samples that got worse by most, without columns of texts that nobody has
    rows = []
    for sample in worse[:_MOST_WORST]:
        texts = (sample.sample_id, sample.question, "; ".join(sample.references), sample.old_answer, sample.new_answer)
        rows.append([cut(sample_text or NONE, _LONGEST) for sample_text in texts])
    worst = Table("", (), ())
    if rows:
        names = ("question", "right answer", page.comparisons[-1].old, page.comparisons[-1].new)
        worst = Table("", ("worst samples", *names), rows).without_empty(*names)
    template = _environment().get_template("comment.md.j2")
    text = template.render(page=page, link=link, plot=plot, changed=changed if changes else "", worst=worst)
    return text.rstrip() + "\n"


def _rules(verdict: Verdict) -> str:
    """The first rules of a verdict, those that are not shown to hold before the others, and why these are not."""
    failed = [rule for rule in verdict.rules if rule.outcome != "PASS"]
    passed = [replace(rule, sentence=NONE) for rule in verdict.rules if rule.outcome == "PASS"]
    ordered = (*failed, *passed)
    left_out = len(ordered) - _MOST_RULES
    table = rules("", replace(verdict, rules=ordered)).first(_MOST_RULES).without_empty("why")
    return replace(table, notes=[f"{left_out:,} more rules are not shown here"] if left_out > 0 else []).markdown()


def verdict_markdown(verdict: Verdict) -> str:
    """The verdict alone: its sentence, what it rests on, notes, and how each rule came out, and why."""
    grounds = str(_environment().get_template("macros.md.j2").module.grounds(verdict))  # type: ignore[attr-defined]
    table = rules("", verdict).markdown()
    return f"# {verdict.outcome}\n\n**{literal(verdict.sentence)}**\n\n{grounds.strip()}\n\n{table}\n"


@cache
def _environment() -> Environment:
    jinja = environment(autoescape=False)
    jinja.filters |= {"markdown": lambda text: literal(visible(text)), "count": count}
    jinja.globals |= {
        "notes": lambda comparison: [*doubts(comparison), *undetectable(comparison)],
        "refusals": lambda page: list(dict.fromkeys((row[3], row[4]) for row in page.quarantine.rows))[:_MOST_FAILURES],
        "judges": lambda page: filter(None, dict.fromkeys(named(release.report.manifest) for release in page.releases)),
        "spent_on_judges": lambda page: dict.fromkeys(
            chain.from_iterable(spent_on_judges(release.report.manifest) for release in page.releases)
        ),
        "most_slices": _MOST_SLICES,
        "most_failures": _MOST_FAILURES,
        "table_of_rules": _rules,
    }
    return jinja
