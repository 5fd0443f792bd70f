"""The command line that makes a report again, from the parameters in its manifest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.tasks.load.sources import without_secrets

_DATA = {
    "references": "--references",
    "dataset": "--dataset",
    "release": "--release",
    "columns": "--map",
    "reference_columns": "--map-references",
    "slices": "--slice",
}
_SCORING = {
    "metrics": "--metrics",
    "profile": "--profile",
    "blank_answer": "--blank-answer",
    "embedding_models": "--embedding-models",
    "aggregation": "--aggregation",
    "threshold": "--threshold",
    "only_failed": "--only-failed",
}
_JUDGING = {
    "judges": "--judge",
    "api_base": "--judge-base",
    "key_from": "--judge-key-from",
    "cascade": "--cascade",
    "jury": "--jury",
    "repeats": "--repeats",
    "max_calls": "--max-calls",
    "max_cost_usd": "--max-cost",
}
_LIMITS = {"max_quarantined": "--max-quarantined", "min_coverage": "--min-coverage"}
_LAST_STEPS = {"baseline": "--baseline", "policy": "--policy"}
_ONE_BY_ONE = ("columns", "reference_columns", "slices")
"""Lists that are written as an option each; the others are joined by commas."""


def command(parameters: Mapping[str, Any]) -> str:
    """`answerkey evaluate` with every parameter that the command line takes; empty where the run had none.

    Parameters are written also where they have their default, which a later release may change. What is empty or 0
    is left out: it means that nothing was asked for.
    """
    data = parameters.get("data") or {}
    if not data.get("answers"):
        return ""
    words = ["answerkey evaluate", shlex.quote(without_secrets(data["answers"]))]
    for part, names in (("data", _DATA), ("scoring", _SCORING), ("judging", _JUDGING), ("limits", _LIMITS)):
        given = parameters.get(part) or {}
        if part == "judging" and not given.get("judges"):
            continue
        for name, option in names.items():
            words += _option(name, option, given.get(name))
    for name, option in _LAST_STEPS.items():
        words += _option(name, option, parameters.get(name))
    return " \\\n    ".join(words)


def _option(name: str, option: str, value: Any) -> list[str]:
    if not value:
        return []
    if value is True:
        return [option]
    many = isinstance(value, Sequence) and not isinstance(value, str)
    values = [str(one) for one in value] if many else [str(value)]
    if many and name not in _ONE_BY_ONE:
        values = [",".join(values)]
    return [f"{option} {shlex.quote(without_secrets(one))}" for one in values]
