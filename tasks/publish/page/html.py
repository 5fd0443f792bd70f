"""The page as one HTML file: no request leaves it, and nothing but its own script runs in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from answerkey.metrics_core.comparison import ALL, Comparison, FieldComparison
from answerkey.metrics_core.gate.gate import RuleOutcome
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.page.model import Page, as_json
from answerkey.tasks.publish.page.text import breakable, isolated, typeset, visible
from answerkey.tasks.publish.text import (
    chance,
    ends,
    family_note,
    fixed,
    human_note,
    needed,
    number,
    percent,
    signed,
    spent_on_judges,
)
from answerkey.tasks.warehouse.store import whole

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = ("text.js", "rows.js", "detail.js", "table.js", "page.js", "stack.js")
"""In this order: each uses those before it."""


def write(page: Page, path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it."""
    with whole(path) as unfinished:
        unfinished.write_text(render(page), encoding="utf-8", errors="replace", newline="\n")
    return path


def render(page: Page) -> str:
    """The page as HTML. Text from data is escaped by the template, and in the script's data by `for_script`."""
    style, script = code("page.css"), code(*_SCRIPTS)
    templates = environment()
    templates.globals |= {
        function.__name__: function
        for function in (
            rule_number, by_slice, name_of_test, one_sided, family_note, human_note, ends, fixed, needed, signed,
            spent_on_judges,
        )
    }  # fmt: skip
    html = templates.get_template("page.html.j2").render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        data=Markup(for_script(_data(page))),
        policy=policy(style, script),
        plots=charts.plots(page),
        colors=[(f"c{turn}", shape) for turn, shape in enumerate(charts.SHAPES, 1)],
    )
    return f"{html.strip()}\n"


def for_script(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element, open a comment or break a line of code."""
    json = as_json(value)
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


def _data(page: Page) -> dict[str, Any]:
    """What the table of samples needs."""
    labels = [release.label for release in page.releases]
    comparison = page.comparisons[-1] if page.comparisons else None
    chosen = (
        (comparison.old, comparison.new) if comparison else (labels[-2:] if len(labels) > 1 else (labels[0], labels[0]))
    )
    return {
        "dataset": page.dataset,
        "primary": page.primary,
        "fields": [field.name for field in page.fields],
        "old": labels.index(chosen[0]),
        "new": labels.index(chosen[1]),
        "samples": page.samples,
    }


def policy(style: str, script: str) -> str:
    """A Content Security Policy: this style, this script, and nothing from anywhere."""
    rules = [
        "default-src 'none'",
        f"style-src 'sha256-{_digest(style)}'",
        f"script-src 'sha256-{_digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def environment(*, autoescape: bool = True) -> Environment:
    """The templates of the page, with the filters for numbers and text from data."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("answerkey.tasks.publish.page", "."),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {function.__name__: function for function in (visible, typeset, isolated, breakable)}
    made.filters |= {function.__name__: _typeset(function) for function in (number, signed, percent, chance)}
    return made


def _typeset(show: Callable[..., str]) -> Callable[..., str]:
    return lambda *values: typeset(show(*values))


def code(*names: str) -> str:
    """A style sheet, or scripts together as one, each of which uses those before it."""
    folder = resources.files("answerkey.tasks.publish.page")
    text = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f'(() => {{\n"use strict";\n{text}}})();\n' if names[0].endswith(".js") else text


def rule_number(rule: RuleOutcome) -> Callable[[float | None], str]:
    """How the numbers of a rule are written: a difference has a sign, also where it is plus."""
    difference = not rule.rule.startswith(("level ", "kappa ", "coverage "))
    return signed if difference else number


def by_slice(comparison: Comparison, primary: str) -> tuple[tuple[str, tuple[FieldComparison, ...]], ...]:
    """The comparisons of slices under a title: those of the field that decides, then those of all others."""
    sliced = [row for row in comparison.rows if row.slice != ALL]
    parts = {
        f"{primary} by slice": tuple(row for row in sliced if row.name == primary),
        "Other metrics by slice": tuple(row for row in sliced if row.name != primary),
    }
    return tuple((title, rows) for title, rows in parts.items() if rows)


_TESTS = {
    "mcnemar": "McNemar, exact",
    "sign-flip": "permutation",
    "cluster sign-flip": "permutation, clusters",
    "exchange": "permutation",
}


def name_of_test(row: FieldComparison) -> str:
    """The test behind a p-value, in words."""
    return _TESTS.get(row.test, row.test)


def one_sided(row: FieldComparison) -> tuple[str, ...]:
    """How many rows have a number in one of the releases only, and what they are in the other."""
    sides = (("only old", row.n_only_old, row.missing_new), ("only new", row.n_only_new, row.missing_old))
    return tuple(
        f"{name} {n:,}" + (f" ({', '.join(f'{count:,} {why}' for why, count in missing.items())})" if missing else "")
        for name, n, missing in sides
        if n
    )
