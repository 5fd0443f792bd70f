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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from cyclopts import Parameter

from answerkey.flows.cli.main import HARMLESS, STANDARD_INPUT, default_text, heading
from answerkey.flows.forms import how_called, option_of
from answerkey.metrics_core.errors import UserError, did_you_mean
from answerkey.metrics_core.validation import COMMAS
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from answerkey.flows.parameters import Data
    from answerkey.metrics_core.document import Located


@dataclass(frozen=True, slots=True)
class Flags:
    """A form among the arguments of a command: `command` makes an option of every field.

    Attributes:
        group: the heading in the help page.
        omit: fields that the command does not take.
    """

    group: str
    omit: tuple[str, ...] = ()


OUTPUT = heading("Output")
IN_OUTPUT = Parameter(group=OUTPUT)
COMPARING = heading("Comparison and gate")

HOME = Home(Path(".answerkey"))
HomeOption = Annotated[
    Home,
    Parameter(
        group=OUTPUT,
        metavar="DIR",
        accepts_keys=False,
        n_tokens=1,
        converter=lambda _type, tokens: Home.parse(tokens[0].value) if tokens[0].value else HOME,
        env_var="ANSWERKEY_HOME",
        help="Where everything is kept: a folder on this machine, or s3://BUCKET/PREFIX, which several machines can "
        "share (set ANSWERKEY_CATALOG).",
    ),
]
AllFields = Annotated[
    bool,
    Parameter(group=OUTPUT, help="Show every field, not one per metric; comparisons are corrected for all."),
]
AsJson = Annotated[bool, Parameter("--json", group=OUTPUT, help="Print JSON instead of tables.")]
Quiet = Annotated[bool, Parameter(group=OUTPUT, help="Print only warnings while it runs.")]
Dataset = Annotated[str, Parameter(metavar="NAME", help="The data set, where a release has reports on several.")]
Baseline = Annotated[
    str,
    Parameter(
        metavar="NAME",
        group=COMPARING,
        help="Compare with the newest report of this release, or with a report. Without it, `evaluate` compares the "
        "two releases of a file that has exactly two, with the first as the old one; `none` compares nothing.",
    ),
]
PolicyOption = Annotated[
    str,
    Parameter(
        metavar="FILE",
        group=COMPARING,
        help="A YAML file with what must hold for a release to ship in place of the baseline. See `answerkey gate`.",
    ),
]
PageOption = Annotated[
    bool,
    Parameter(
        negative="--no-page",
        group=COMPARING,
        help="Write a page for the browser into the folder pages of the warehouse.",
    ),
]
_Config = Annotated[
    str,
    Parameter(
        metavar="FILE",
        help="A YAML file, or its text, with what the options do not say: `{judging: {temperature: 0.5, jury: mean}}`. "
        "All keys are on the page Command line of the documentation.",
    ),
]

Model = TypeVar("Model", bound="BaseModel")


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Give the options of a command one by one: each argument annotated with `Flags` becomes its form's fields.

    What the command line does not give is taken from the file of `--config`, else it has the form's own default. The
    attribute `in_file` of the command has the keys of fields that only that file sets, by what their option would be.
    """
    in_file: dict[str, str] = {}
    flat: list[inspect.Parameter] = []
    forms: dict[str, tuple[type[BaseModel], dict[str, str]]] = {}
    # Arguments that are no forms: those by position, and the annotations of the others
    positional_names: list[str] = []
    plain: dict[str, Any] = {}
    hints = typing.get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints[parameter.name]
        flags = [extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Flags)]
        if not flags:
            flat.append(parameter.replace(annotation=annotation))
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional_names.append(parameter.name)
            else:
                plain[parameter.name] = annotation
            continue
        form = annotation.__origin__
        options: dict[str, str] = {}
        for name, field in form.model_fields.items():
            option = option_of(name, field)
            if name in flags[0].omit:
                continue
            if option:
                options[name] = option
                flat.append(_parameter(f"{parameter.name}__{name}", field, option, flags[0].group))
            else:
                in_file[f"--{name.replace('_', '-')}"] = f"{parameter.name}.{name}"
        forms[parameter.name] = form, options
    flat.append(inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default="", annotation=_Config))

    @functools.wraps(function)
    def run(*positional: Any, **keywords: Any) -> int:
        bound = inspect.signature(run).bind(*positional, **keywords).arguments
        file = _Settings.read(bound.pop("config", ""), (*forms, *plain))
        # Forms: from the command line, else from the file, else their own defaults
        for argument, (form, options) in forms.items():
            values = {name: bound.pop(f"{argument}__{name}", None) for name in options}
            values = {name: value for name, value in values.items() if value is not None}
            bound[argument] = build(form, values, options, file.inside(argument), function.__name__)
        # All other arguments, by position first
        from_file = {name: file.value(name, kind) for name, kind in plain.items() if name not in bound}
        bound.update((name, value) for name, value in from_file.items() if value is not None)
        by_position = [bound.pop(name) for name in positional_names if name in bound]
        return function(*by_position, **bound)

    order = sorted(flat, key=lambda parameter: (parameter.kind, parameter.default is not parameter.empty))
    run.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.in_file = in_file  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the file of `--config` has for a form, or for a whole command: `place` is where in the file."""

    file: Located | None
    content: Mapping[str, Any]
    place: str = ""

    @classmethod
    def read(cls, file: str, known: Sequence[str]) -> _Settings:
        """The file; nothing if none is named.

        Raises:
            UserError: it cannot be read, or has another key than the `known` ones.
        """
        if not file:
            return cls(None, {})
        from answerkey.metrics_core.document import read_yaml

        document = read_yaml(file, "--config")
        settings = cls(document, document.content or {})
        if not isinstance(document.content, Mapping | None):
            raise UserError(f"{document.where()}: write keys and values, as in `scoring: {{metrics: [bleu]}}`")
        for key in settings.content:
            if key not in known:
                raise settings.wrong(key, f"there is no such key{did_you_mean(key, known)}")
        return settings

    def inside(self, key: str) -> _Settings:
        """What the file has for the form `key`."""
        content = self.content.get(key) or {}
        if not isinstance(content, Mapping):
            raise self.wrong(key, "write the fields of this form below it, one a line")
        return _Settings(self.file, content, f"{key}.")

    def value(self, key: str, annotation: Any) -> Any:
        """The value of an argument that is no form, converted as its annotation says; None if the file has none."""
        if (value := self.content.get(key)) is None:
            return None
        from pydantic import TypeAdapter, ValidationError

        kind = annotation.__origin__
        try:
            return Home.parse(str(value)) if kind is Home else TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            raise self.wrong(key, str(error.errors()[0]["msg"])) from None

    def wrong(self, key: str, problem: str) -> UserError:
        """The error that says where in the file a key is, and what is wrong with it."""
        assert self.file
        return UserError(f"{self.file.where(self.place + key)}: {self.place}{key}: {problem}")


def build(
    form: type[Model], values: Mapping[str, Any], options: Mapping[str, str], file: _Settings, name: str
) -> Model:
    """The form of the command `name`, with the values that the command line gives, else those of a file.

    `options` says how the command line calls the fields.

    Raises:
        UserError: a value is wrong, or one that must be there is missing. What may be a secret is not in the message.
    """
    from answerkey.metrics_core.validation import SILENT, InvalidValue

    # Lists are written with commas, or an option for each value
    typed = dict(values)
    for name_of_field, value in values.items():
        field_info = form.model_fields[name_of_field]
        if isinstance(value, list) and get_origin(field_info.annotation) in (list, tuple):
            separator = how_called(field_info).separator
            typed[name_of_field] = [part for text in value for part in listed(text, separator)]
    try:
        return form(**{**file.content, **typed})
    except InvalidValue as error:
        # Where the wrong value came from: the file, or an option
        field = error.field
        if field in file.content and field not in values:
            raise file.wrong(field, error.problem) from None
        if not field:
            raise
        option = options.get(field, f"--{field.replace('_', '-')}")
        if field not in values:
            raise UserError(f"{option} is missing; see `answerkey {name.replace('_', '-')} --help`") from None
        value = values[field]
        text = " ".join(value) if isinstance(value, list) else str(value)
        repeated = f" {text}" if field not in SILENT and HARMLESS.fullmatch(text) else ""
        raise UserError(f"{option}{repeated}: {error.problem}") from None


def _parameter(name: str, field: FieldInfo, option: str, group: str) -> inspect.Parameter:
    positional = not option.startswith("-")
    kind: Any = field.annotation
    if type(None) in get_args(kind):
        [kind] = (argument for argument in get_args(kind) if argument is not type(None))
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    is_list = get_origin(kind) in (list, tuple)
    if is_list or how_called(field).several:
        kind = list[str]
    elif kind not in (bool, int, float) and get_origin(kind) is not Literal:
        kind = str
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    # In a form a value stands for what is left out; on the command line nothing does.
    text, *left_out = _LEFT_OUT.split(field.description or "")
    parameter = Parameter(
        name=option,
        group=heading("Arguments" if positional else group),
        help=text,
        # For the help page: `build` looks after it, since the file of --config may have what is missing.
        required=field.is_required(),
        metavar="A,B" if is_list and not positional else None,
        show_default=left_out[0] if left_out and not field.is_required() else default_text(default) or False,
        negative=option.replace("--", "--no-", 1) if default is True else "",
    )
    parameter_kind = inspect.Parameter.POSITIONAL_ONLY if positional else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, parameter_kind, default=None, annotation=Annotated[Union[kind, None], parameter])  # noqa: UP007


_LEFT_OUT = re.compile(r" (?:Both empty|Empty|Off|-1|0|default): ([^.]*(?:\.\S[^.]*)*)\.$")
"""The last sentence about a field: what an empty one means, or the value that stands for it."""


def listed(text: str, separator: str = COMMAS) -> list[str]:
    """A list as it is written on the command line: with commas, which within brackets do not count."""
    return [part.strip() for part in re.split(separator, text) if part.strip()]


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
    return "\n".join(path if not path or "://" in path else os.path.abspath(path) for path in source.split("\n"))


def from_anywhere(document: str) -> str:
    """A YAML document, given as its path or its text: the path holds from any folder."""
    from answerkey.metrics_core.document import is_text

    return document if is_text(document) else absolute(document)


def with_files(data: Data) -> Data:
    """The data with paths that hold from any folder, once it is known that something is there.

    `-` is standard input: what comes from there is kept in a file until this process ends.

    Raises:
        UserError: a file is not there, or a folder or a pattern has none.
    """
    from answerkey.tasks.load import sources
    from answerkey.tasks.releases.register import ADDRESS

    if data.answers.startswith(ADDRESS):
        return data

    # What comes from standard input goes into a file with the ending of its kind
    files = data.answers.split("\n")
    if STANDARD_INPUT in files:
        from answerkey.tasks.load.plain import with_ending

        if sys.stdin is None:
            raise UserError("-: standard input is closed; send the answers to it, or name a file")
        folder = Path(tempfile.mkdtemp(prefix=sources.STANDARD_INPUT))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        received = folder / "stdin"
        with received.open("wb") as output:
            shutil.copyfileobj(sys.stdin.buffer, output, 1 << 20)
        input_file = str(with_ending(received))
        files = [input_file if file == STANDARD_INPUT else file for file in files]
        data = data.model_copy(update={"answers": "\n".join(files)})

    # What stands where a file may stand can be a key that was pasted
    for number, file in enumerate(files[1:], start=2):
        if not (re.search(r"[./:]", file) or HARMLESS.fullmatch(file) or Path(file).exists()):
            raise UserError(f"FILE {number}: there is no such file")
    for source in filter(None, (data.answers, data.references)):
        sources.check_there(source)
    return data.model_copy(update={"answers": absolute(data.answers), "references": absolute(data.references)})
