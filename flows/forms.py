"""How forms look on a Prefect server: what people set each time comes first, the rest is folded until it is wanted.

Only what is shown changes. The keys of parameters, and what a server accepts, are those of the models.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, WithJsonSchema
from pydantic.fields import FieldInfo

from answerkey.metrics_core.validation import Option, Validated

USUAL, ALL = "The usual settings", "All settings, from their defaults"
"""What the buttons say. Prefect does not carry over what was typed before, so the second one says so."""

CHOOSE, TYPE = "Choose", "Type"
"""What the buttons of a field say that takes a name which the home has, or any other."""

_LAST = ("limits", "page", "candidates", "seed", "target")
"""Parameters of flows that are seldom set: at the end of a form, in this order."""

PLATFORM = ("home", "runner")
"""Parameters of flows that a form has not, but an evaluation target."""

TARGET_SLUG = "evaluation-target"
_Target = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "Where results are kept, where answers are scored, and what a run may cost at most.",
            "block_type_slug": TARGET_SLUG,
        }
    ),
]

_SHOWN = ("type", "title", "description", "default", "enum", "items", "position", "examples", "names", "typed_first")
"""What a field of a form is drawn from. Everything else in a schema only says what is accepted."""

_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern")


def in_order(*first: str) -> Callable[[dict[str, Any]], None]:
    """Number the fields of a form, which Prefect shows in this order: `first`, then the others as declared."""

    def number(schema: dict[str, Any]) -> None:
        fields = schema.get("properties", {})
        for place, name in enumerate([*first, *(name for name in fields if name not in first)]):
            fields[name]["position"] = place

    return number


def names_of(kind: Literal["datasets", "releases", "reports"], *, typed_first: bool = False) -> dict[str, JsonValue]:
    """Of a field, for its schema: names of this kind are offered in it, at once or, where people usually type something
    else, behind a button."""
    return {"names": kind, "typed_first": typed_first}


ReleaseChoice = Annotated[str, Field(json_schema_extra=names_of("releases"))]


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

    usual: ClassVar[tuple[str, ...]] = ()
    """The fields that people set each time; the others are folded. Empty: all are shown."""


def as_shown(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a flow as Prefect makes a form of them."""
    parameters = inspect.signature(function, eval_str=True).parameters
    shown = [one for one in parameters.values() if one.name not in PLATFORM]
    if "home" in parameters:
        shown.append(inspect.Parameter("target", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Target))
    shown.sort(key=lambda one: (one.default is not one.empty, _LAST.index(one.name) if one.name in _LAST else -1))
    return inspect.Signature([_folded(one).replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown])


def _folded(parameter: inspect.Parameter) -> inspect.Parameter:
    form, required = parameter.annotation, parameter.default is parameter.empty
    if not (inspect.isclass(form) and issubclass(form, Form) and form.usual):
        return parameter
    # With values for all fields in the default, Prefect would begin with all settings.
    default: Any = parameter.empty if required else {}
    return parameter.replace(annotation=Annotated[dict[str, Any], WithJsonSchema(_both_ways(form))], default=default)


def _both_ways(form: type[Form]) -> dict[str, Any]:
    """The schema of a folded form: a choice of two forms, for which Prefect draws two buttons.

    They have the same keys, so Prefect shows all settings by itself where a value has more than the usual ones. What
    is accepted is said beside them: of a value that fits none of two forms, messages do not say which field is wrong.
    """
    schema = form.model_json_schema()
    required = schema.pop("required", [])
    fields = {name: _shown(field) for name, field in schema["properties"].items()}
    usual = {name: fields[name] for name in form.usual}
    ways = [{"title": title, "type": "object", "properties": shown} for title, shown in ((USUAL, usual), (ALL, fields))]
    return {"anyOf": ways, "if": True, "then": schema, "required": required}


def _shown(field: dict[str, Any]) -> dict[str, Any]:
    """What a field is drawn from. One that may be left out is an empty field of its type."""
    kind: dict[str, Any] = next((way for way in field.get("anyOf", ()) if way.get("type") != "null"), {})
    return {
        key: value
        for key, value in (kind | field).items()
        if key in _SHOWN and not (key == "default" and value is None)
    }


def with_defaults(schema: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a deployment whose folded forms begin with parameters of the deployment, also once unfolded: those
    that a form must have, and numbers.

    Else a limit that the deployment sets would be gone as soon as somebody looks at all settings. A text or list that
    may be left out is no default: the copy of a run in which it was cleared would have it again.
    """
    shown = deepcopy(schema)
    for name, values in parameters.items():
        ways = shown["properties"].get(name, {}) if isinstance(values, dict) else {}
        required = ways.get("required", ())
        for way in ways.get("anyOf", ()):
            for key in values.keys() & way["properties"].keys():
                if key in required or isinstance(values[key], int | float):
                    way["properties"][key]["default"] = values[key]
    return shown


def with_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a deployment in which parameters have titles for people, folded forms the line that explains them.

    Lines of their own would push the fields that people set each time off the screen.
    """
    shown = deepcopy(schema)
    for name, parameter in shown["properties"].items():
        if "anyOf" in parameter and "names" not in parameter and (about := parameter.pop("description", "")):
            parameter["title"] = about.rstrip(".")
        elif parameter.get("title") == name:
            # A block is called as its type.
            parameter["title"] = re.sub("[-_]", " ", parameter.get("block_type_slug", name)).capitalize()
    return shown


def with_limits(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a deployment with its limits under `allOf` as well: Prefect then marks the field of a wrong value.

    Before it sends a form, Prefect's page has the server check the values. Of the properties it sends names and types
    only, but `allOf` as it is.
    """
    return schema | {"allOf": [_limits(schema, schema.get("definitions", {}))]}


def _limits(field: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """What a field, the fields in it and the items of it may hold, without the ways in which a form is drawn."""
    field = field | definitions.get(field.get("$ref", "").rpartition("/")[2], {})
    field |= field.get("then") or next((way for way in field.get("anyOf", ()) if way.get("type") != "null"), {})
    found = {key: field[key] for key in _LIMITS if key in field}
    parts = {name: limits for name, one in field.get("properties", {}).items() if (limits := _limits(one, definitions))}
    if parts:
        found["properties"] = parts
    if "items" in field and (items := _limits(field["items"], definitions)):
        found["items"] = items
    return found


def with_names(schema: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The schema of a deployment in which fields for names offer `names`, by kind, besides any text.

    A choice alone would refuse the name of what is new since.
    """
    shown = deepcopy(schema)
    for field in _fields(shown):
        if "names" in field:
            field.pop("anyOf", None)
            field["type"] = "string"
            if known := names.get(field["names"]):
                del field["type"]
                # Of two that take a text, Prefect begins with the first.
                choices = dict.fromkeys(["", *filter(None, [field.get("default")]), *known])
                offered = {"title": CHOOSE, "type": "string", "enum": [*choices]}
                ways = [offered, {"title": TYPE, "type": "string"}]
                field["anyOf"] = ways[::-1] if field["typed_first"] else ways
    return shown


def _fields(schema: object) -> Iterator[dict[str, Any]]:
    """Every field of every form in a schema. What is only said of what is accepted, under `then`, is not shown."""
    if isinstance(schema, dict):
        yield from (one for one in schema.get("properties", {}).values() if isinstance(one, dict))
        parts = [part for key, part in schema.items() if key != "then"]
    else:
        parts = schema if isinstance(schema, list) else []
    for part in parts:
        yield from _fields(part)
