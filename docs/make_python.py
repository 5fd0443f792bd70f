"""The page of the documentation site about the Python library: all public names, their options and the flows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import isclass

from pydantic import BaseModel

import answerkey
from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.metrics_core.comparison import Comparison

_HEAD = """# Python reference

What `from answerkey import …` offers, the results that it returns, and the flows. [Python library](library.md) shows
how they are used.

## Names and results

"""
_FLOWS = """## Flows

Functions that run the whole pipeline against a home, as the commands do. Import them from their modules.

"""
FLOWS = (
    "answerkey.flows.evaluate_release.evaluate_release",
    "answerkey.flows.compare_releases.compare_releases",
    "answerkey.flows.gate_releases.gate_releases",
    "answerkey.flows.calibrate_judge.calibrate_judge",
    "answerkey.flows.rerun_report.rerun_report",
)
FORMS = (Data, Scoring, Judging, Limits)


def names() -> list[str]:
    """The public names, in the order of the page.

    >>> "JudgeOptions" in names()
    True
    """
    return [name for name in answerkey.__all__ if not name.startswith("_")]


def reference() -> str:
    """The page: a directive of mkdocstrings for each name, and a table of the fields of each pydantic model."""
    parts = [_HEAD]
    for name in names():
        what = getattr(answerkey, name)
        module = getattr(what, "__module__", "answerkey.metrics_core.registry")
        parts.append(f"::: {module}.{name}\n\n")
        if isclass(what) and issubclass(what, BaseModel):
            parts += _fields(what)
    parts += [f"::: {Comparison.__module__}.Comparison\n\n", _FLOWS, *(f"::: {flow}\n\n" for flow in FLOWS)]
    for form in FORMS:
        parts += [f"::: {form.__module__}.{form.__name__}\n\n", *_fields(form)]
    return "".join(parts)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    yield "| option | type | default | what it is |\n|---|---|---|---|\n"
    for name, field in model.model_fields.items():
        kind = field.annotation.__name__ if isclass(field.annotation) else str(field.annotation)
        # What else an annotation says is for forms and checks.
        kind = re.sub(r"Annotated\[(\w+),.*\](?=, \.\.\.|\]|$)", r"\1", kind)
        kind = kind.replace("typing.", "").replace("|", "\\|")
        default = "needed" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
        yield f"| `{name}` | `{kind}` | {default} | {field.description or field.title or ''} |\n"
    yield "\n"
