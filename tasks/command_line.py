"""How parameters are called on the command line, and the command that makes a report again.

A parameter's option is `--its-name`. Only those that are called otherwise are named here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

NAMES: Mapping[str, Mapping[str, str]] = {
    "data": {"columns": "map", "reference_columns": "map-references", "slices": "slice"},
    "judging": {
        "judges": "judge",
        "api_base": "judge-base",
        "key_from": "judge-key-from",
        "concurrency": "judge-concurrency",
        "batch_poll_s": "batch-poll",
        "timeout_s": "judge-timeout",
        "deadline_s": "judge-deadline",
        "max_cost_usd": "max-cost",
        "max_cost_total_usd": "max-cost-total",
    },
}
"""Of each form, the options that are not called as their fields are."""

REPEATED = ("columns", "reference_columns", "slices")
"""Lists of which every value has an option of its own; others are written with commas."""

_FORMS = ("data", "scoring", "judging", "limits")
_LAST = ("baseline", "policy")


def option_of(form: str, field: str) -> str:
    """The option of a field.

    >>> option_of("judging", "timeout_s"), option_of("judging", "repeats")
    ('--judge-timeout', '--repeats')
    """
    return f"--{NAMES.get(form, {}).get(field, field).replace('_', '-')}"


def command(parameters: Mapping[str, Any]) -> str:
    """`answerkey evaluate` with the parameters in the manifest of a report; empty where the run had none.

    Parameters are written also where they have their default, which a later release may change. What is empty or 0
    is left out where it means that nothing was asked for; a limit of 0, and 0 where a metric's default is another
    number, is a choice.

    >>> command({"data": {"answers": "a.csv"}, "scoring": {"metrics": ["bleu"]}, "baseline": ""}).split()
    ['answerkey', 'evaluate', '\\\\', 'a.csv', '\\\\', '--metrics', 'bleu']
    """
    from answerkey.tasks.load.remote import without_secrets

    data = parameters.get("data") or {}
    if not data.get("answers"):
        return ""
    words = ["answerkey evaluate", shlex.join(map(without_secrets, data["answers"].splitlines()))]
    for form in _FORMS:
        given = parameters.get(form) or {}
        if form == "judging" and not given.get("judges"):
            continue
        for field, value in given.items():
            if (form, field) != ("data", "answers"):
                default = _default(field) if form == "scoring" else None
                words += _written(option_of(form, field), field, value, default, zero=form == "limits" or bool(default))
    for name in _LAST:
        words += _written(f"--{name}", name, parameters.get(name))
    return " \\\n    ".join(words)


def _default(option: str) -> Any:
    """What the first metric that has this option declares as its default."""
    from answerkey.metrics_core.registry import METRICS

    declared = (one for cls in METRICS.values() for one in cls.options())
    return next((one.default for one in declared if one.name == option), None)


def _written(option: str, field: str, value: Any, default: Any = None, *, zero: bool = False) -> list[str]:
    from answerkey.tasks.load.remote import without_secrets

    if default is True:
        return [] if value else [option.replace("--", "--no-", 1)]
    if not value and not (zero and isinstance(value, int | float) and value is not False):
        return []
    if value is True:
        return [option]
    many = isinstance(value, Sequence) and not isinstance(value, str)
    values = [str(one) for one in value] if many else [str(value)]
    if many and field not in REPEATED:
        values = [",".join(values)]
    return [f"{option} {shlex.quote(without_secrets(one))}" for one in values]
