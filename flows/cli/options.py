"""The fields of a form as options of a command, and what is wrong with a command line in one line.

A form declares an option once: its type, default, title and description. A command takes forms as arguments, and
`command` turns their fields into flags.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from cyclopts import Group, Parameter
from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_HARMLESS = re.compile(r"(--?)?[A-Za-z][A-Za-z_-]{0,23}|-?[0-9.]{1,12}|[A-Za-z][A-Za-z0-9_]{0,23}")
"""What may be repeated in a message: names, options and numbers, too short or too plain for a key."""


@dataclass(frozen=True, slots=True)
class Flags:
    """How a form is written on the command line: `command` makes an option of every field.

    Attributes:
        group: the heading in the help page.
        names: the options of fields that are not called `--field-name`.
        positional: fields that are given without the name of an option, in this order, and their placeholder.
        repeated: lists of which every value has an option of its own; other lists are written with commas.
        omit: fields that the command does not take.
        required: fields with a default that the command insists on.
        prefix: put before the name of a field where an earlier form of the command has an option of that name.
    """

    group: str
    names: Mapping[str, str] = field(default_factory=dict)
    positional: Mapping[str, str] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    prefix: str = ""

    def option(self, name: str, info: FieldInfo) -> str:
        """The option of the field `name`."""
        if name in self.positional:
            return self.positional[name]
        no = "no-" if info.default is True else ""
        return f"--{no}{self.names.get(name, name).replace('_', '-')}"


DATA = Flags(
    "Data",
    {"columns": "map", "reference_columns": "map-references", "slices": "slice"},
    {"answers": "FILE"},
    repeated=("columns", "reference_columns", "slices"),
)
SCORING = Flags("Scoring")
LIMITS = Flags("Limits")
JUDGING = Flags(
    "Judge",
    {
        "judges": "judge", "api_base": "judge-base", "key_from": "judge-key-from", "concurrency": "judge-concurrency",
        "timeout_s": "judge-timeout", "deadline_s": "judge-deadline", "max_cost_usd": "max-cost",
    },
    prefix="judge",
)  # fmt: skip

_LAST = ("Options", "Scoring", "Judge", "Limits", "Comparison and gate", "Output")
"""Headings that come after those of a command's own, in this order."""


@functools.cache
def heading(name: str) -> Group:
    """A heading of the help pages. cyclopts wants one object for each."""
    return Group(name, sort_key=_LAST.index(name) if name in _LAST else -1)


OUTPUT = heading("Output")
COMPARING = heading("Comparison and gate")

HOME = Home(Path(".answerkey"))
HomeOption = Annotated[
    Home,
    Parameter(
        "--home",
        group=OUTPUT,
        metavar="DIR",
        accepts_keys=False,
        n_tokens=1,
        converter=lambda _type, tokens: Home.parse(tokens[0].value) if tokens[0].value else HOME,
        env_var="ANSWERKEY_HOME",
        help="The folder of the warehouse.",
    ),
]
AsJson = Annotated[bool, Parameter("--json", group=OUTPUT, help="Print JSON in place of tables.")]
Quiet = Annotated[bool, Parameter("--quiet", group=OUTPUT, help="Print warnings only while it works.")]
Dataset = Annotated[
    str, Parameter("--dataset", metavar="NAME", help="The data set, where a release has reports on several.")
]
Baseline = Annotated[
    str,
    Parameter(
        "--baseline",
        metavar="NAME",
        group=COMPARING,
        help="Compare with the newest report of this release, or a report.",
    ),
]
Policy = Annotated[
    str,
    Parameter(
        "--policy",
        metavar="FILE",
        group=COMPARING,
        help="A YAML file with what must hold for a release to ship in place of the baseline. See `answerkey gate`.",
    ),
]
NoPage = Annotated[
    bool, Parameter("--no-page", group=COMPARING, help="Write no page into the folder pages of the warehouse.")
]

Model = TypeVar("Model", bound="BaseModel")


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Give the options of a command one by one: each argument annotated with `Flags` becomes its form's fields.

    What the command line does not give is left to the form's own defaults.
    """
    flat: list[inspect.Parameter] = []
    forms: dict[str, tuple[type[BaseModel], Flags, dict[str, str]]] = {}
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    places = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
    taken: set[str] = set()
    for parameter in parameters:
        annotation = hints[parameter.name]
        flags = next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Flags)), None)
        if flags is None:
            flat.append(parameter.replace(annotation=annotation))
            taken.add(next(iter(_names(annotation)), ""))
            continue
        form = annotation.__origin__
        options = _options(form, flags, taken)
        taken.update(options.values())
        forms[parameter.name] = (form, flags, options)
        flat += [_parameter(f"{parameter.name}__{name}", form, name, options[name], flags) for name in options]

    @functools.wraps(function)
    def run(*positional: Any, **given: Any) -> int:
        bound = inspect.signature(run).bind(*positional, **given).arguments
        for argument, (form, flags, options) in forms.items():
            values = {name: bound.pop(_placed(flags, name) or f"{argument}__{name}", None) for name in options}
            bound[argument] = build(form, _values(form, values, flags), options)
        placed = [bound.pop(name) for name in places if name in bound]
        return function(*placed, **bound)

    order = sorted(flat, key=lambda one: (one.kind, one.default is not one.empty))
    run.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def build(form: type[Model], values: Mapping[str, Any], options: Mapping[str, str]) -> Model:
    """The form with these values; `options` says how the command line calls its fields.

    Raises:
        UserError: a value is wrong. One that may be a secret is not in the message.
    """
    from pydantic import ValidationError

    from answerkey.flows.forms.parameters import SILENT, wrong_value

    try:
        return form(**values)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors()[0])
    # Not as the cause: a traceback of it could show what was typed.
    name = str(first["loc"][0]) if first["loc"] else ""
    option = options.get(name, f"--{name.replace('_', '-')}")
    if name in SILENT:
        raise UserError(f"{option}: {SILENT[name]}")
    value = first["input"]
    shown = f" {value}" if isinstance(value, int | float) or _HARMLESS.fullmatch(str(value)) else ""
    raise UserError(f"{option}{shown}: {wrong_value(first)}")


def _options(form: type[BaseModel], flags: Flags, taken: Iterable[str]) -> dict[str, str]:
    options = {}
    for name, info in form.model_fields.items():
        if name not in flags.omit:
            option = flags.option(name, info)
            options[name] = f"--{flags.prefix}-{option.removeprefix('--')}" if option in taken else option
    return options


def _parameter(name: str, form: type[BaseModel], of: str, option: str, flags: Flags) -> inspect.Parameter:
    info = form.model_fields[of]
    positional = of in flags.positional
    many = _is_list(info.annotation)
    kind: Any = info.annotation
    if many:
        kind = list[str] if of in flags.repeated or positional else str
    elif info.annotation not in (bool, int, float) and get_origin(info.annotation) is not Literal:
        kind = str
    required = info.is_required() or of in flags.required
    default = None if required else info.get_default(call_default_factory=True)
    parameter = Parameter(
        name=() if positional else option,
        group=heading("Arguments" if positional else flags.group),
        help=info.description,
        metavar="A,B" if many and kind is str else option if positional else _METAVARS.get(kind, "TEXT"),
        show_default=shown(default) or False,
        negative="",
        required=required,
    )
    where = inspect.Parameter.POSITIONAL_ONLY if positional else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        _placed(flags, of) or name,
        where,
        default=inspect.Parameter.empty if required else None,
        annotation=Annotated[kind if required else Union[kind, None], parameter],  # noqa: UP007
    )


def _placed(flags: Flags, name: str) -> str:
    """The argument of a field without an option: the help page shows it in capitals."""
    return flags.positional.get(name, "").lower()


def shown(default: Any) -> str | None:
    """A default for the help page; None where it says nothing."""
    if default is None or default is True or default is False or default in ("", [], ()):
        return None
    text = ",".join(default) if isinstance(default, list | tuple) else str(default)
    return f"{default:g}" if isinstance(default, float) else text if len(text) <= _LONGEST_DEFAULT else None


_LONGEST_DEFAULT = 30
_METAVARS = {int: "N", float: "X", bool: None}


def _values(form: type[BaseModel], given: Mapping[str, Any], flags: Flags) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        info = form.model_fields[name]
        if _is_list(info.annotation) and isinstance(value, str):
            values[name] = listed(value)
        else:
            values[name] = not value if info.default is True else value
    return values


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) in (list, tuple)


def _names(annotation: Any) -> Iterable[str]:
    return (name for one in get_args(annotation)[1:] if isinstance(one, Parameter) for name in one.name or ())


def listed(text: str) -> list[str]:
    """A list as it is written on the command line: with commas, which within brackets do not count."""
    parts = re.split(r",(?![^(]*\))", text)
    return [part.strip() for part in parts if part.strip()]


def absolute(source: str) -> str:
    """Paths as the flow run can be repeated from another folder; URLs as they are."""
    return source if not source or "://" in source else os.path.abspath(source)


def check_files(*sources: str) -> None:
    """What can be known before anything is started.

    Raises:
        UserError: a file is not there.
    """
    for source in filter(None, sources):
        file = source.split("::", 1)[0]
        if "://" not in file and not Path(file).is_file():
            raise UserError(f"{file}: there is no such file")


def what_is_wrong(error: CycloptsError) -> str:
    """One line about a command line that cannot be understood. Nothing that may be a secret is repeated."""
    chain = " ".join(("answerkey", *(error.command_chain or ())))
    match error:
        case UnknownOptionError():
            known = [name for one in error.argument_collection for name in one.names if name.startswith("-")]
            return _unknown((error.token.keyword or error.token.value or "").split("=", 1)[0], "option", known, chain)
        case UnknownCommandError():
            known = [name for name in error.app or () if not name.startswith("-")]
            return _unknown((error.unused_tokens or [""])[0], "command", known, chain)
        case MissingArgumentError() if error.argument is not None:
            name = error.keyword or _called(error.argument)
            return f"{name}: give a value" if error.keyword else f"{name} is missing; see `{chain} --help`"
        case CoercionError() if error.argument is not None:
            return f"{_called(error.argument)}{_repeated(error)}: {_expected(error)}"
        case UnusedCliTokensError():
            return f"one argument too many; see `{chain} --help`"
    return f"this cannot be understood; see `{chain} --help`"


def _unknown(typed: str, what: str, known: Iterable[str], chain: str) -> str:
    shown = f"{typed}: " if _HARMLESS.fullmatch(typed) else ""
    close = difflib.get_close_matches(typed, list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else f"see `{chain} --help`"
    return f"{shown}there is no such {what}; {hint}"


def _called(argument: Any) -> str:
    return str(argument.name if argument.name.startswith("-") else argument.parameter.metavar or argument.name)


def _repeated(error: CoercionError) -> str:
    value = error.token.value if error.token else ""
    return f" {value}" if _HARMLESS.fullmatch(value) else ""


def _expected(error: CoercionError) -> str:
    if error.argument and (choices := error.argument.get_choices(force=True)):
        return f"choose from {', '.join(choices)}"
    kinds: dict[Any, str] = {int: "a whole number", float: "a number"}
    hint: Any = error.target_type
    inner = next((one for one in get_args(hint) if one is not types.NoneType), hint)
    return f"write {kinds.get(inner, 'another value')}"
