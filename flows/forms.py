"""Forms: what flows take as parameters, people fill in on a Prefect server, and commands take as options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict
from pydantic.fields import FieldInfo

from answerkey.metrics_core.validation import Option, Validated


def in_order(*first: str) -> Callable[[dict[str, Any]], None]:
    """Number the fields of a form, which Prefect shows in this order: `first`, then the others as declared."""

    def number(schema: dict[str, Any]) -> None:
        fields = schema.get("properties", {})
        for place, name in enumerate([*first, *(name for name in fields if name not in first)]):
            fields[name]["position"] = place

    return number


def how_called(info: FieldInfo) -> Option:
    """What a field declares about its option."""
    return next((one for one in reversed(info.metadata) if isinstance(one, Option)), _USUAL)


_USUAL = Option("")


def option_of(name: str, info: FieldInfo) -> str:
    """The option of a field: the one that it declares, else its name without the unit.

    >>> option_of("timeout_s", FieldInfo(annotation=float))
    '--timeout'
    """
    declared = how_called(info)
    return f"--{re.sub('_(s|usd)$', '', name).replace('_', '-')}" if declared is _USUAL else declared.name


class Form(Validated):
    """A form of the Prefect UI."""

    model_config = ConfigDict(
        json_schema_extra=in_order(), field_title_generator=lambda name, _: name.replace("_", " ").capitalize()
    )
