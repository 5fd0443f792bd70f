"""The page as one HTML file: no request leaves it, and nothing but its own script runs in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from answerkey.metrics_core.comparison import family_note
from answerkey.tasks.publish import tables, text
from answerkey.tasks.publish.escape import breakable, isolated, typeset, visible
from answerkey.tasks.publish.page import charts
from answerkey.tasks.publish.page.model import Page, as_json
from answerkey.tasks.warehouse.store import atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = ("text.js", "rows.js", "detail.js", "table.js", "page.js", "stack.js")
"""In this order: each uses those before it."""


def write(page: Page, path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(render(page), encoding="utf-8", errors="replace", newline="\n")
    return path


def render(page: Page) -> str:
    """The page as HTML. Text from data is escaped by the template, and in the script's data by `for_script`."""
    # The two releases that the table of samples begins with
    labels = [release.label for release in page.releases]
    old = labels[-2:][0]
    new = labels[-1]
    if page.comparisons:
        old = page.comparisons[-1].old
        new = page.comparisons[-1].new

    # Fields and releases by their places, as the script has them
    metrics = {field.metric for field in page.fields}
    kinds = {release.report.kind(metric) for release in page.releases for metric in metrics}
    data = {
        "dataset": page.dataset,
        "primary": page.primary,
        "binary": [field.name for field in page.fields if field.binary],
        "lower": [field.name for field in page.fields if field.lower_is_better],
        "fields": [field.name for field in page.fields],
        "reports": [release.report.report_id for release in page.releases],
        "judged": "judge" in kinds,
        "old": labels.index(old),
        "new": labels.index(new),
        "samples": page.samples,
    }
    return from_template(
        "page.html.j2",
        _SCRIPTS,
        page=page,
        data=Markup(for_script(data)),
        colors=[(f"c{turn}", shape) for turn, shape in enumerate(charts.SHAPES, 1)],
    )


@cache
def label_page() -> str:
    """The page on which people label answers: empty until its script asks the server that sent it, and nobody else."""
    return from_template("label.html.j2", ["label.js"], ["page.css", "label.css"])


def from_template(name: str, scripts: Sequence[str], styles: Sequence[str] = ("page.css",), **values: object) -> str:
    """A page from a template and `values`, with its style sheets and scripts, and a policy that allows nothing else."""
    # Nothing is taken from anywhere but the server of the page: this style, this script
    style = code(*styles)
    script = code(*scripts)
    style_hash, script_hash = (b64encode(sha256(source.encode()).digest()).decode() for source in (style, script))
    rules = [
        "default-src 'none'",
        f"style-src 'sha256-{style_hash}'",
        f"script-src 'sha256-{script_hash}'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    html = (
        environment()
        .get_template(name)
        .render(style=Markup(style), script=Markup(script), policy="; ".join(rules), **values)
    )
    return f"{html.strip()}\n"


def for_script(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element, open a comment or break a line of code."""
    json = as_json(value)
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


@cache
def environment(*, autoescape: bool = True) -> Environment:
    """The templates of the page, each compiled once, with the filters for numbers and text from data."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    jinja = Environment(
        loader=PackageLoader("answerkey.tasks.publish.page", "."),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    # What templates do with text from data and with numbers, and what they draw and tabulate
    jinja.filters |= {function.__name__: function for function in (visible, typeset, isolated, breakable)}
    jinja.filters |= {
        "number": lambda value: typeset(text.number(value)),
        "signed": lambda value: typeset(text.signed(value)),
    }
    jinja.globals |= {
        "charts": charts,
        "tables": tables,
        "text": text,
        "family_note": family_note,
        "styles": ("better", "worse", "not shown to differ", "not compared"),
    }
    return jinja


def code(*names: str) -> str:
    """A style sheet, or scripts together as one, each of which uses those before it."""
    folder = resources.files("answerkey.tasks.publish.page")
    source = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f'(() => {{\n"use strict";\n{source}}})();\n' if names[0].endswith(".js") else source
