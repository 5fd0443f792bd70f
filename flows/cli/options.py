"""The fields of a form as options of a command.

A form declares an option once: its type, default, title and description. A command takes forms as arguments, and
`command` turns their fields into flags.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import re
import shlex
import shutil
import sys
import tempfile
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from cyclopts import Parameter

from answerkey.flows.cli.main import HARMLESS, STANDARD_INPUT, heading, shown
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.command_line import NAMES, REPEATED
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from answerkey.flows.parameters import Data


@dataclass(frozen=True, slots=True)
class Flags:
    """How a form is written on the command line: `command` makes an option of every field.

    Attributes:
        group: the heading in the help page.
        names: the options of fields that are not called `--field-name`.
        positional: fields that are given without the name of an option, in this order, and their placeholder.
        repeated: lists with one option per value; other lists are written with commas.
        several: fields without an option that may be given several times; they become lines of one text.
    omit: fields that the command does not take.
        required: fields with a default that the command insists on.
        prefix: put before the name of a field where an earlier form of the command has an option of that name.
    """

    group: str
    names: Mapping[str, str] = field(default_factory=dict)
    positional: Mapping[str, str] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    prefix: str = ""

    def option(self, name: str, info: FieldInfo) -> str:
        """The option of the field `name`."""
        if name in self.positional:
            return self.positional[name]
        no = "no-" if info.default is True else ""
        return f"--{no}{self.names.get(name, name).replace('_', '-')}"


DATA = Flags("Data", NAMES["data"], {"answers": "FILE"}, repeated=REPEATED, several=("answers",))
# `--metrics` takes both.
SCORING = Flags("Scoring", omit=("own_metrics",))
LIMITS = Flags("Limits")
JUDGING = Flags("Judge", NAMES["judging"], prefix="judge")

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
        help="Where everything is kept: a folder of this machine, or s3://BUCKET/PREFIX, which machines share (its "
        "catalog is in ANSWERKEY_CATALOG).",
    ),
]
AllFields = Annotated[
    bool,
    Parameter(
        "--all-fields", group=OUTPUT, help="Show every field, not one per metric; comparisons are corrected for all."
    ),
]
AsJson = Annotated[bool, Parameter("--json", group=OUTPUT, help="Print JSON instead of tables.")]
Quiet = Annotated[bool, Parameter("--quiet", group=OUTPUT, help="Print only warnings while it runs.")]
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
PolicyOption = Annotated[
    str,
    Parameter(
        "--policy",
        metavar="FILE",
        group=COMPARING,
        help="A YAML file with what must hold for a release to ship in place of the baseline. See `answerkey gate`.",
    ),
]
NoPage = Annotated[
    bool,
    Parameter("--no-page", group=COMPARING, help="Do not write an HTML page into the folder pages of the warehouse."),
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
    # The help is in the table of commands; cyclopts would take every docstring apart.
    run.__doc__ = None
    return run


def build(form: type[Model], values: Mapping[str, Any], options: Mapping[str, str]) -> Model:
    """The form with these values; `options` says how the command line calls its fields.

    Raises:
        UserError: a value is wrong. One that may be a secret is not in the message.
    """
    from answerkey.metrics_core.validation import SILENT, InvalidValue

    try:
        return form(**values)
    except InvalidValue as error:
        if not error.field:
            raise
        option = options.get(error.field, f"--{error.field.replace('_', '-')}")
        value = "" if error.field in SILENT else str(values.get(error.field, ""))
        shown = f" {value}" if HARMLESS.fullmatch(value) else ""
        raise UserError(f"{option}{shown}: {error.problem}") from None


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
    elif of in flags.several and positional:
        kind = list[str]
    elif info.annotation not in (bool, int, float) and get_origin(info.annotation) is not Literal:
        kind = str
    required = info.is_required() or of in flags.required
    text = info.description or ""
    # What an empty field stands for is no matter where the command insists on a value.
    text = text.partition(" Empty: ")[0] if required else text
    default = None if required else info.get_default(call_default_factory=True)
    parameter = Parameter(
        name=() if positional else option,
        group=heading("Arguments" if positional else flags.group),
        help=f"{text} May be repeated." if many and of in flags.repeated else text,
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


_METAVARS = {int: "N", float: "X", bool: None}


def _values(form: type[BaseModel], given: Mapping[str, Any], flags: Flags) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        info = form.model_fields[name]
        if _is_list(info.annotation) and isinstance(value, str):
            values[name] = listed(value)
        elif isinstance(value, list) and name in flags.several:
            values[name] = "\n".join(value)
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


def pasted(home: Home, *words: str) -> str:
    """A command of answerkey as a shell takes it, with the home where it is not the one that is used without --home.

    Empty where a name, as no terminal shows it and no shell takes it, would make another command of it.

    >>> pasted(HOME, "compare", "faq/my model/v1", "faq/gpt-5/v1")
    "answerkey compare 'faq/my model/v1' faq/gpt-5/v1"
    """
    usual = Home.parse(os.environ.get("ANSWERKEY_HOME") or str(HOME))
    text = shlex.join(["answerkey", *words, *([] if home.address == usual.address else ["--home", str(home)])])
    return text if text.isprintable() else ""


def absolute(source: str) -> str:
    """Paths, one per line, as the flow run can be repeated from another folder; URLs as they are."""
    return "\n".join(one if not one or "://" in one else os.path.abspath(one) for one in source.split("\n"))


def with_files(data: Data) -> Data:
    """The data with paths that hold from any folder, once it is known that something is there.

    `-` is standard input: what comes from there is kept in a file until this process ends.

    Raises:
        UserError: a file is not there, or a folder or a pattern has none.
    """
    from answerkey.tasks.load.sources import check_there

    if STANDARD_INPUT in (given := data.answers.split("\n")):
        taken = _standard_input()
        files = (taken if one == STANDARD_INPUT else one for one in given)
        data = data.model_copy(update={"answers": "\n".join(files)})
    for place, file in enumerate(data.answers.split("\n")[1:], start=2):
        # What stands where a file may stand can be a key that was pasted.
        if not (re.search(r"[./:]", file) or HARMLESS.fullmatch(file) or Path(file).exists()):
            raise UserError(f"FILE {place}: there is no such file")
    for source in filter(None, (data.answers, data.references)):
        check_there(source)
    return data.model_copy(update={"answers": absolute(data.answers), "references": absolute(data.references)})


def _standard_input() -> str:
    """What comes from standard input, as a file with the ending of its kind."""
    from answerkey.tasks.load import sources
    from answerkey.tasks.load.plain import with_ending

    if sys.stdin is None:
        raise UserError("-: standard input is closed; send the answers to it, or name a file")
    folder = Path(tempfile.mkdtemp(prefix=sources.STANDARD_INPUT))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "stdin"
    with file.open("wb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out, 1 << 20)
    return str(with_ending(file))
