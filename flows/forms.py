"""Forms: what flows take as parameters, people fill in on a Prefect server, and commands take as options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict
from pydantic.fields import FieldInfo

from answerkey.metrics_core.validation import Option, Validated


def show_fields(*names: str) -> Callable[[dict[str, Any]], None]:
    """Show these fields in a form, in this order; without names all, as declared.

    The others have their defaults there. The API, prefect.yaml and `prefect deployment run` set them too, and a server
    checks them alike: in the schema they stand where Prefect's pages do not look.
    """

    def arrange(schema: dict[str, Any]) -> None:
        fields = schema.get("properties", {})
        schema["properties"] = {name: fields[name] for name in names or fields}
        for position, field in enumerate(schema["properties"].values()):
            field["position"] = position
        if hidden := {f"^{name}$": field for name, field in fields.items() if name not in schema["properties"]}:
            schema["patternProperties"] = hidden

    return arrange


def how_called(field: FieldInfo) -> Option:
    """What a field declares about its option."""
    return next((declared for declared in reversed(field.metadata) if isinstance(declared, Option)), _USUAL)


_USUAL = Option("")


def option_of(name: str, field: FieldInfo) -> str:
    """The option of a field: the one that it declares, else its name without the unit.

    >>> option_of("timeout_s", FieldInfo(annotation=float))
    '--timeout'
    """
    declared = how_called(field)
    return f"--{re.sub('_(s|usd)$', '', name).replace('_', '-')}" if declared is _USUAL else declared.name


class Form(Validated):
    """A form of the Prefect UI."""

    model_config = ConfigDict(
        json_schema_extra=show_fields(), field_title_generator=lambda name, _: name.replace("_", " ").capitalize()
    )
