"""The command that makes a report again, from the parameters of its run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from answerkey.flows.forms import Form, option_of
from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.tasks.load.remote import without_secrets

_FORMS: Mapping[str, type[Form]] = {"data": Data, "scoring": Scoring, "judging": Judging, "limits": Limits}


def command_line(parameters: Mapping[str, Any]) -> str:
    """`answerkey evaluate` with the parameters of a run; empty where the run had none.

    Options are written also where they have their default, which a later release may change. What is empty or 0
    is left out, unless the default is another value. Fields without an option follow `--config`, where they differ
    from their default.

    >>> command_line({"data": {"answers": "a.csv"}, "scoring": {"metrics": ["bleu"]}, "baseline": ""}).split()
    ['answerkey', 'evaluate', '\\\\', 'a.csv', '\\\\', '--metrics', 'bleu']
    """
    data = parameters.get("data") or {}
    if not data.get("answers"):
        return ""
    words = ["answerkey evaluate", shlex.join(map(without_secrets, data["answers"].splitlines()))]
    config: dict[str, dict[str, Any]] = {}
    for name, form in _FORMS.items():
        values = parameters.get(name) or {}
        if name == "judging" and not values.get("judges"):
            continue
        for field, value in values.items():
            if not (field_info := form.model_fields.get(field)):
                continue
            option = option_of(field, field_info)
            if option.startswith("--"):
                words += _written(option, value, field_info.default)
            elif not option and value != field_info.get_default(call_default_factory=True):
                config.setdefault(name, {})[field] = value
    if config:
        words.append(f"--config {shlex.quote(without_secrets(json.dumps(config)))}")
    for name in ("baseline", "policy"):
        words += _written(f"--{name}", parameters.get(name), "")
    return " \\\n    ".join(words)


def _written(option: str, value: Any, default: Any) -> list[str]:
    if default is True:
        return [] if value else [option.replace("--", "--no-", 1)]
    if value is True:
        return [option]
    if not value and (value is False or not isinstance(value, int | float) or not default):
        return []
    written = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return [f"{option} {shlex.quote(without_secrets(written))}"]
