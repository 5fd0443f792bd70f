"""The page as one HTML file: no request leaves it, and nothing but its own script runs in it."""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from answerkey.tasks.compare.text import people_note
from answerkey.tasks.publish.page import charts, figures, views
from answerkey.tasks.publish.page.model import Page, as_json

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = ("text.js", "rows.js", "detail.js", "table.js", "page.js")
"""In this order: each uses those before it."""


def write(page: Page, path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_name(f".{path.name}.{os.getpid()}.part")
    partly.write_text(render(page), encoding="utf-8", errors="replace", newline="\n")
    os.replace(partly, path)
    return path


def render(page: Page) -> str:
    """The page as HTML. Text from data is escaped by the template, and in the script's data by `for_script`."""
    style, script = _file("page.css"), "".join(["(() => {\n", '"use strict";\n', *map(_file, _SCRIPTS), "})();\n"])
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            style=Markup(style),
            script=Markup(script),
            data=Markup(for_script(_data(page))),
            policy=_policy(style, script),
            plots=charts.plots(page),
            views=views,
            people_note=people_note,
            colors=[(f"c{turn}", shape) for turn, shape in enumerate(charts.SHAPES, 1)],
        )
    )
    return f"{html.strip()}\n"


def for_script(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element, open a comment or break a line of code."""
    text = as_json(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _data(page: Page) -> dict[str, Any]:
    """What the table of samples needs."""
    labels = [release.label for release in page.releases]
    pair = page.pairs[-1] if page.pairs else None
    chosen = (pair.old, pair.new) if pair else (labels[-2:] if len(labels) > 1 else (labels[0], labels[0]))
    return {
        "dataset": page.dataset,
        "primary": page.primary,
        "fields": [field.name for field in page.fields],
        "old": labels.index(chosen[0]),
        "new": labels.index(chosen[1]),
        "samples": page.samples,
    }


def _policy(style: str, script: str) -> str:
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


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("answerkey.tasks.publish.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = (
        figures.number, figures.signed, figures.percent, figures.probability, figures.visible, figures.typeset,
        figures.isolated,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in shown}
    return environment


def _file(name: str) -> str:
    return resources.files("answerkey.tasks.publish.page").joinpath(name).read_text(encoding="utf-8")
