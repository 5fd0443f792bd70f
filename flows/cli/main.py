"""The commands, and the one place where errors become messages and exit codes.

Answers at once: a command's own module is imported when the command is run, or its help is asked for.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import errno
import functools
import io
import json
import keyword
import os
import re
import signal
import sys
import textwrap
import traceback
import types
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

from cyclopts import App, ArgumentCollection, Group, Parameter
from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

EXIT_CODES = {
    0: "done; a gate says PASS",
    1: "doctor, judge, the ledger, the server or the disk has a problem; a gate says FAIL",
    2: "bad input: one line on standard error says what is wrong",
    3: "a gate says INCONCLUSIVE: there are too few samples",
    4: "a gate says INCOMPLETE, or no answer has a score of a metric: something that it needs is missing",
    70: "an error within answerkey, with a traceback; nothing was decided",
    130: "stopped with Ctrl-C; what was scored is kept",
    143: "stopped with SIGTERM; what was scored is kept",
}
"""What the exit code of every command means."""

EXIT_BAD_INPUT = 2
EXIT_INTERNAL = 70
"""As EX_SOFTWARE of sysexits.h: no verdict has this code, while Python's own 1 would be read as FAIL."""

_COMMANDS: dict[str, dict[str, str]] = {
    "Evaluate": {
        "evaluate": "evaluate",
        "rerun": "releases",
        "generate": "releases",
        "score-traces": "releases",
        "judge": "judge",
    },
    "Read and compare": {
        "report": "compare",
        "view": "server",
        "compare": "compare",
        "diff": "compare",
        "history": "compare",
        "gate": "gate",
        "label": "label",
        "labels export": "label",
        "labels import": "label",
        "calibrate": "label",
    },
    "Releases": {
        "register-release": "releases",
    },
    "Set up": {
        "init": "init",
        "serve": "server",
        "warehouse export": "warehouse",
        "warehouse backup": "warehouse",
        "warehouse forget": "warehouse",
        "warehouse maintain": "warehouse",
        "metrics": "evaluate",
        "doctor": "doctor",
    },
}
"""The commands under each heading of the help page, and the module of each; its docstring is its help."""

_AT_WORK = ("evaluate", "rerun", "generate", "score-traces")
"""Commands that show how far they are, from their start on: what they import takes a second on a slow machine."""

_PARENTS = {
    "warehouse": "Export, back up or maintain a warehouse, or delete some of it for good.",
    "labels": "Take the questions of a queue out as CSV, and labels back in.",
}
"""What is said of the first word of a command with two."""


STANDARD_INPUT = "/dev/stdin"

HARMLESS = re.compile(r"(--?)?[A-Za-z][A-Za-z_-]{0,23}|-?[0-9.]{1,12}|[A-Za-z][A-Za-z0-9_]{0,23}")
"""What may be repeated in a message: names, options and numbers, too short or too plain for a key."""

_LATE_HEADINGS = ("Options", "Scoring", "Judge", "Limits", "Comparison and gate", "Output")
"""Headings that come after those of a command's own, in this order."""


@functools.cache
def heading(name: str) -> Group:
    """A heading of the help pages. cyclopts wants one object for each."""
    return Group(name, sort_key=_LATE_HEADINGS.index(name) if name in _LATE_HEADINGS else -1)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What a terminal or file with a smaller character set shows of a text: escapes, which JSON knows as well."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("json_escapes", _escaped)


def print_json(content: object) -> None:
    """Print JSON: with line breaks for a reader at a terminal, elsewhere compact."""
    print(json_text(content, indent=2 if sys.stdout.isatty() else None))


def json_text(content: object, *, indent: int | None = None) -> str:
    """The content as JSON, dataclasses too. What could steer a terminal is escaped in it, wherever it came from.

    >>> json_text({"id": "\\x9b2J Größe"})
    '{"id":"\\\\u009b2J Größe"}'
    """
    separators = None if indent else (",", ":")
    text = json.dumps(
        content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False, default=asdict
    )
    return _STEERING.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


_STEERING = re.compile(r"[^\n -~]")


class _LastingOutput(io.FileIO):
    """A standard stream that outlives its reader: what cannot be written is dropped, and the first error kept.

    The exit code of a command is that of its work. `| head -1` and `| grep -q` close the pipe in the middle of it.
    """

    error: OSError | None = None

    def write(self, content: Any, /) -> int:
        """Write what can be written, and claim that all of it was."""
        try:
            return super().write(content)
        except OSError as error:
            self.error = self.error or error
            return memoryview(content).nbytes


def _make_lasting(name: str) -> _LastingOutput | None:
    """Have a standard stream outlive its reader; None for one that is not that of this process, as in tests."""
    stream = getattr(sys, name)
    if stream is None:
        # Closed by the caller (`>&-`): there is nothing to print to.
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
        return None
    if stream is not getattr(sys, f"__{name}__"):
        return None
    raw = _LastingOutput(stream.fileno(), "w", closefd=False)
    setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=stream.line_buffering))
    return raw


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, one of `EXIT_CODES`."""
    output = _make_lasting("stdout")
    _make_lasting("stderr")
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json_escapes")

    # The command, or a message about what is wrong
    message: str | None = None
    try:
        code = _run(words)
    except CycloptsError as error:
        message = usage_problem(error)
        code = EXIT_BAD_INPUT
    except (KeyboardInterrupt, Exception) as error:
        message, code = _what_failed(error)

    # On standard error and, where standard output is to be JSON, there as well
    if message is not None:
        from answerkey.flows.environment import printable

        if "--json" in words:
            print_json({"error": {"message": message, "exit_code": code}})
        print("\n".join(map(printable, f"answerkey: {message}".split("\n"))), file=sys.stderr)

    # A reader that closed the pipe has what it wants; any other error of standard output is one of the command
    if output is None:
        return code
    sys.stdout.flush()
    if output.error is None or output.error.errno == errno.EPIPE:
        return code
    print(f"answerkey: standard output: {_outside(output.error) or output.error.strerror}", file=sys.stderr)
    gives_verdict = words[:1] in (["gate"], ["label"]) or any(word.startswith("--policy") for word in words)
    return code or int(not gives_verdict)


def _what_failed(error: BaseException) -> tuple[str, int]:
    """Say what is wrong, with the exit code; an error of the program itself is printed with its traceback."""
    # Within a statement of DuckDB, an interrupt is the cause of another error
    for interrupt in (error, error.__cause__):
        if isinstance(interrupt, KeyboardInterrupt):
            number = interrupt.args[0] if interrupt.args else signal.SIGINT
            return "stopped; what was scored so far is kept, run the same command again", 128 + number
    # Only here, since a help page needs neither
    from answerkey.metrics_core.errors import UserError
    from answerkey.metrics_core.llm.ledger import LedgerError
    from answerkey.tasks.warehouse.store import Unreachable

    if isinstance(error, UserError):
        return str(error), EXIT_BAD_INPUT
    if isinstance(error, LedgerError | Unreachable):
        return str(error), 1
    if outside := _outside(error):
        return outside, EXIT_BAD_INPUT if getattr(error, "errno", 0) == errno.ENAMETOOLONG else 1
    traceback.print_exc()
    message = "an error within answerkey; please report the lines above. What was scored is kept; nothing was decided"
    return message, EXIT_INTERNAL


_OF_THE_SERVER = {
    "ConcurrencySlotAcquisitionError": "refuses requests; run again once it works: what was scored is kept",
    # A server that is slow to confirm the end of a run is told of it again, and answers without the result.
    "MissingResult": "was slow to confirm the end of the run; run again to see its result: all is kept",
}


def _outside(error: BaseException | None) -> str:
    """What is wrong with the machine or the server, where an error is of these; empty if it is of the program."""
    # The error, what it was raised from, and so on
    causes: list[BaseException] = []
    while error:
        causes.append(error)
        error = error.__cause__ or error.__context__

    # The first of them that is not of the program
    for position, cause in enumerate(causes):
        text = str(cause)
        # A full disk
        if any(full in text for full in ("No space left on device", "Disk quota exceeded", "disk is full")):
            return "the disk is full; free some space and run the same command again: what was scored is kept"
        if "File too large" in text:
            return (
                "a file would exceed the limit on its size (see `ulimit -f`, or the user's quota); raise the limit and "
                "run the same command again: what was scored is kept"
            )
        # A folder that is gone, or a file that may not be written or read. Arrow and DuckDB name it in their text alone
        file = cause.filename if isinstance(cause, OSError) else None
        files = [file] if file else re.findall(r"file ['\"](.+?)['\"]", text)
        folder = Path(files[0]).parent if files else Path()
        problem = ""
        if "no such file or directory" in text.lower() and not folder.exists():
            problem = f"{folder}: the folder was removed while this worked; run the same command again"
        elif isinstance(cause, OSError) and file and cause.errno in (errno.EACCES, errno.EROFS, errno.ENAMETOOLONG):
            problem = f"{file}: {cause.strerror}"
        if problem:
            return problem
        # A server, named without a password that may be in its address
        name = f"{type(cause).__module__}.{type(cause).__name__}"
        if "Failed to reach API at" in text or name.startswith(
            ("httpx.", "httpcore.", "prefect.exceptions.PrefectHTTP")
        ):
            server = os.environ.get("PREFECT_API_URL", "of your profile").rpartition("@")[2]
            responses = [getattr(below, "response", None) for below in causes[position:]]
            status = next(filter(None, (getattr(response, "status_code", None) for response in responses)), None)
            problem = f"answers {status}" if status else "does not answer"
            remedy = "run again once it works (what was scored is kept), or unset PREFECT_API_URL"
            if status == HTTPStatus.UNAUTHORIZED:
                remedy = "set PREFECT_API_AUTH_STRING, or for Prefect Cloud PREFECT_API_KEY"
            return f"the Prefect server {server} {problem}; {remedy}"
        if type(cause).__name__ in _OF_THE_SERVER and not cause.__cause__:
            return f"the Prefect server {_OF_THE_SERVER[type(cause).__name__]}"
    return ""


def _run(arguments: list[str]) -> int:
    app = make_app(documented=not arguments or not {"help", "--help", "-h"}.isdisjoint(arguments))
    if not arguments:
        app.help_print([])
        return EXIT_BAD_INPUT
    if arguments[0] == "help":
        # As git and docker have it
        arguments = [*arguments[1:], "--help"]
    at_work: AbstractContextManager[None] = nullcontext()
    if arguments[0] in _AT_WORK and not {"--quiet", "--help", "-h"} & set(arguments):
        from answerkey.flows.cli.progress import begun

        at_work = begun()
    with at_work:
        # A dash alone would be taken for an option
        return int(app([STANDARD_INPUT if word == "-" else word for word in arguments]) or 0)


def make_app(*, documented: bool = True) -> App:
    """The command line with all its commands, none of them imported; `documented` says whether it is to give help."""
    app = App(
        name="answerkey",
        help="Did the new model release answer better or worse than the last one, measured against answers known to "
        "be right?",
        help_epilogue="`answerkey COMMAND --help` has the options and examples of a command.",
        version=_version,
        version_flags=["--version"],
        help_flags=["--help", "-h"],
        help_format="plaintext",
        default_parameter=Parameter(negative="", allow_repeating=True, show_default=default_text),
        group_arguments=heading("Arguments"),
        group_parameters=heading("Options"),
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
        config=_leave_to_a_file,
    )
    # The commands in the order of their headings; `import` and others are no names in Python
    for place, (title, commands) in enumerate(_COMMANDS.items()):
        group = Group(title, sort_key=place)
        for name, module in commands.items():
            *parents, own = name.split()
            function = f"{own}_" if keyword.iskeyword(own) else own.replace("-", "_")
            text, examples = _documented(module)[function] if documented else ("", "")
            parent = app
            for name_of_two in parents:
                # The command whose commands have names of two words
                if name_of_two not in app:
                    app.command(App(name=name_of_two, help=_PARENTS[name_of_two], group=group))
                parent = app[name_of_two]
            parent.command(
                f"answerkey.flows.cli.{module}:{function}",
                name=own,
                help=text,
                group=group,
                help_epilogue=examples,
            )
    return app


@functools.cache
def _documented(module: str) -> dict[str, tuple[str, str]]:
    """The docstring of each function of a module that is not imported, its examples apart."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    documented = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            text, _, examples = (ast.get_docstring(node) or "").partition("\n\nExamples:\n")
            # What is said of arguments is for cyclopts
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", text.partition("\n\nArgs:\n")[0])
            lines = textwrap.indent(textwrap.dedent(examples), "  ")
            documented[node.name] = text, f"Examples:\n{lines}"
    return documented


def _leave_to_a_file(_app: App, _commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """With --config, nothing is missing before the file is read."""
    if any(argument.name == "--config" and argument.has_tokens for argument in arguments):
        for argument in arguments:
            argument.parameter = Parameter.combine(argument.parameter, Parameter(required=False))


def _version() -> str:
    from importlib.metadata import version

    return f"answerkey {version('answerkey')}"


def default_text(default: Any) -> str | None:
    """A default for the help page; None where it says nothing."""
    if default is None or default is True or default is False or default in ("", [], ()):
        return None
    if isinstance(default, float):
        return f"{default:g}"
    text = ",".join(default) if isinstance(default, list | tuple) else str(default)
    return text if len(text) <= _LONGEST_DEFAULT else None


_LONGEST_DEFAULT = 30
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number"}
"""What is to be written for an option of a type."""


def usage_problem(error: CycloptsError) -> str:
    """One line about a command line that cannot be understood. Nothing that may be a secret is repeated."""
    # Each kind of error with what was typed, if that cannot be a secret
    chain = " ".join(("answerkey", *(error.command_chain or ())))
    match error:
        case UnknownOptionError():
            names = [name for argument in error.argument_collection for name in argument.names if name.startswith("-")]
            typed = (error.token.keyword or error.token.value or "").split("=", 1)[0]
            key = getattr(error.target, "in_file", {}).get(typed)
            return f"{typed}: set {key} in the file of --config" if key else _unknown(typed, "option", names, chain)
        case UnknownCommandError():
            names = [name for name in error.app or () if not name.startswith("-")]
            return _unknown((error.unused_tokens or [""])[0], "command", names, chain)
        case MissingArgumentError() if error.argument is not None:
            name = error.keyword or error.argument.name
            return f"{name}: give a value" if error.keyword else f"{name} is missing; see `{chain} --help`"
        case CoercionError() if error.argument is not None:
            value = error.token.value if error.token else ""
            repeated = f" {value}" if HARMLESS.fullmatch(value) else ""
            # What is expected: one of several words, or a value of this type
            if choices := error.argument.get_choices(force=True):
                expected = f"choose from {', '.join(choices)}"
            else:
                hint: Any = error.target_type
                inner = next((part for part in get_args(hint) if part is not types.NoneType), hint)
                expected = f"write {_KINDS.get(inner, 'another value')}"
            return f"{error.argument.name}{repeated}: {expected}"
        case UnusedCliTokensError():
            return f"one argument too many; see `{chain} --help`"
    return f"this cannot be parsed; see `{chain} --help`"


def _unknown(typed: str, kind: str, names: Iterable[str], chain: str) -> str:
    quoted = f"{typed}: " if HARMLESS.fullmatch(typed) else ""
    close = difflib.get_close_matches(typed, list(names), n=1)
    hint = f"did you mean {close[0]}?" if close else f"see `{chain} --help`"
    return f"{quoted}there is no such {kind}; {hint}"
