"""The commands, and the one place where errors become messages and exit codes.

Answers at once: a command's own module is imported when the command is run, or its help is asked for.
"""

from __future__ import annotations

import codecs
import difflib
import errno
import functools
import gc
import io
import itertools
import json
import os
import re
import signal
import sys
import types
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, get_args

from cyclopts import App, Group, Parameter
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
    1: "doctor, verify, judge, the ledger, the runner, the server or the disk has a problem; a gate says FAIL",
    2: "bad input: one line on standard error says what is wrong",
    3: "a gate says INCONCLUSIVE: there are too few samples",
    4: "a gate says INCOMPLETE, or no answer has a score of a metric: something that it needs is missing",
    130: "stopped with Ctrl-C; what was scored is kept",
    143: "stopped with SIGTERM; what was scored is kept",
}
"""What the exit code of every command means."""

EXIT_BAD_INPUT = 2

_COMMANDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Evaluate": {
        "evaluate": (
            "evaluate", "Score the answers of one or more releases and report.",
            "answerkey evaluate answers.csv",
            "answerkey evaluate answers.jsonl --references questions.jsonl --map release=model --slice lang",
            "answerkey evaluate answers.csv --judge openai/gpt-4o-mini --dry-run",
        ),
        "rerun": (
            "releases", "Make a report again with another judge, threshold or metrics.\n\n"
            "The new report is the next version, from the same answers. What you leave out stays as it was.",
            "answerkey rerun faq/gpt-4/v2 --judge openai/gpt-4o-mini --max-cost 5",
            "answerkey rerun gpt-4 --only-failed",
        ),
        "generate": (
            "generate", "Ask a model all questions of a data set, and register its answers.\n\n"
            "Replies are kept in the ledger: no question is paid for twice. With --evaluate the release is "
            "evaluated at once, with the options for scoring, judges and limits.",
            "answerkey generate --dataset questions.jsonl --model openai/gpt-4o-mini --release mini --dry-run",
            "answerkey generate --dataset faq --model openai/gpt-4o-mini --release mini --evaluate --baseline gpt-4",
        ),
        "score-traces": (
            "traces", "Score logged traces by rules: new ones, or a range.",
            "answerkey score-traces rules --dry-run",
            "answerkey score-traces rules",
            "answerkey score-traces rules --rule faq-meaning --since 2026-11-01 --until 2026-12-01",
        ),
        "judge": (
            "judge", "Try a judge on one answer.\n\n"
            "The metrics, prompts and ledger are those of an evaluation: a reply is not paid for twice.",
            'answerkey judge "Capital of France?" "Paris" "It is Paris."',
            'answerkey judge "Capital of France?" "Paris" "Lyon" --judge openai/gpt-4o-mini --repeats 3',
        ),
    },
    "Read and compare": {
        "report": (
            "compare", "Show reports.",
            "answerkey report --list",
            "answerkey report gpt-5 --baseline gpt-4 --html page.html",
        ),
        "view": (
            "view", "Look at everything in a browser: data sets, releases over time, verdicts, reports, spend.\n\n"
            "Serves the home read-only on this machine until Ctrl-C, or writes the same pages as files. They are made "
            "from the snapshot, so no run waits for them.",
            "answerkey view",
            "answerkey view --home evaluations --port 4300",
            "answerkey view --to site",
        ),
        "compare": (
            "compare", "Is the new release better or worse than the old one?\n\n"
            "Compares two reports, sample by sample, on the samples that both have a score for.",
            "answerkey compare gpt-4 gpt-5",
            "answerkey compare gpt-4 gpt-5 --primary meaning_match.match --samples 5",
        ),
        "diff": (
            "compare", "Why did a number move? What differs between two reports.\n\n"
            "Lists everything that differs (rows, references, answers, judge, prompt, parser, code), and attributes "
            "the change of every mean to its causes.",
            "answerkey diff faq/gpt-4/v1 faq/gpt-4/v2",
        ),
        "history": (
            "compare", "A score over releases and report versions.\n\n"
            "Every report of a data set, or the traces of a rule over time; oldest first.",
            "answerkey history label.correct --dataset faq",
            "answerkey history --rule faq-meaning --by week",
        ),
        "gate": (
            "gate", "Decide by a policy whether a release may ship.\n\n"
            "The exit code is that of the verdict: 0 PASS, 1 FAIL, 3 INCONCLUSIVE (too few samples), 4 INCOMPLETE "
            "(something is missing); 2 is bad input. A self-test exits with 0 if it ran.",
            "answerkey gate gpt-4 gpt-5 --primary meaning_match.match --margin 0.02",
            "answerkey gate faq/gpt-4/v2 faq/gpt-5/v1 --policy gate.yaml --junit gate.xml",
            "answerkey gate gpt-4 gpt-5 --policy gate.yaml --self-test",
        ),
        "calibrate": (
            "calibrate", "Compare a metric or judge with human labels.\n\n"
            "The labels are those that came with the answers, or those in a file. The result is kept, and a gate can "
            "require it. With --learn, a rubric gets examples from them instead, which are tried on other answers.",
            "answerkey calibrate meaning_match.match",
            "answerkey calibrate meaning_match.match --labels labels.csv --map second=annotator_2",
            "answerkey calibrate tone.score --rubric tone.yaml --learn 4 --out tone2.yaml --judge openai/gpt-4o-mini",
        ),
    },
    "Releases": {
        "register-release": (
            "releases", "Register the answers of a release for evaluation.\n\n"
            "Notifies the Prefect server, if there is one. Registering the same answers again changes nothing. Without "
            "references, those of the data set's newest evaluation are used.",
            "answerkey register-release gpt-5 --dataset faq --answers answers.csv",
        ),
        "evaluate-registered": (
            "releases", "Evaluate every registered release without a report.\n\n"
            "Running it again does nothing.",
            "answerkey evaluate-registered",
            "answerkey evaluate-registered faq/gpt-5 --baseline gpt-4 --policy gate.yaml",
        ),
    },
    "Set up": {
        "init": (
            "init", "Copy example data, a policy, a judge, a metric and rules into a folder, to start from.",
            "answerkey init trial",
        ),
        "serve": (
            "server", "Start a Prefect server with all flows on this machine.",
            "answerkey serve --port 4300",
        ),
        "deploy": (
            "server", "Deploy all flows and automations to the server at PREFECT_API_URL.",
            "answerkey deploy --pool docker --notify slack-webhook/team",
        ),
        "verify": (
            "warehouse", "Check that the warehouse says what was measured.\n\n"
            "Hashes every row again, tests keys and checks, and computes every number of every report again from its "
            "scores, corpus BLEU and pass@k included. Names what was changed, added or removed by other means; the "
            "exit code is 1 then. Writers wait meanwhile.",
            "answerkey verify",
            "answerkey verify --home evaluations --json",
        ),
        "export": (
            "warehouse", "Write tables and views into files for other programs.\n\n"
            "A Parquet or CSV file for each, all from one state. In CSV, lists and maps are JSON, and texts that a "
            "spreadsheet would take for formulas get an apostrophe before them.",
            "answerkey export tables",
            "answerkey export sheets report_metrics sample_scores --format csv",
        ),
        "backup": (
            "warehouse", "Copy the home into a folder, while runs go on.\n\n"
            "Tables, ledger, pages, registered and generated answers, and parts. The copy is a home: use it with "
            "--home, or, to restore it, put it in the place of the other one while no run is at work.",
            "answerkey backup /backups/2026-11-22",
        ),
        "forget": (
            "warehouse", "Remove a sample, an answer or a release for good.\n\n"
            "Out of tables, ledger, snapshot, registered and generated answers, unfinished work and pages of the data "
            "set; the files are rewritten, so that nothing of the texts is left in them. A record says that something "
            "was removed, and not what. Reports about other answers are computed again from those, and say so.",
            "answerkey forget faq --sample q17 --reason 'request of 3 May'",
            "answerkey forget faq --sample q17 --release gpt-4",
            "answerkey forget faq --release gpt-3",
        ),
        "warehouse maintain": (
            "warehouse", "Keep the tables quick to read and small.\n\n"
            "On a lake: merges small files, gives up states older than 30 days, and removes files a day after they "
            "were last needed. In a file: gives free what was deleted. Reports, scores and answers stay as they are. "
            "The deployment housekeeping does it every night.",
            "answerkey warehouse maintain",
            "answerkey warehouse maintain --home evaluations --json",
            "answerkey warehouse maintain --older-than 365",
        ),
        "warehouse move": (
            "warehouse", "Move a home from a folder to a bucket, or back.\n\n"
            "Copies tables, pages, registered answers, parts and the ledger of paid calls into a home with nothing in "
            "it, and compares all of them by content. The source stays as it is. A move that was killed goes on when "
            "the same command is run again.",
            "answerkey warehouse move .answerkey s3://bucket/evaluations",
            "answerkey warehouse move s3://bucket/evaluations copy",
        ),
        "metrics": (
            "evaluate", "What each metric is, its fields and what it needs.",
            "answerkey metrics --json",
        ),
        "doctor": (
            "doctor", "Check versions, models, the judge, the warehouse and the server.",
            "answerkey doctor",
        ),
        "completion": (
            "completion", "Print the script that completes commands and options in a shell.",
            "answerkey completion bash > ~/.local/share/bash-completion/completions/answerkey",
        ),
    },
}  # fmt: skip
"""Command: the module that has it, what it does, and examples."""

_AT_WORK = ("evaluate", "rerun", "generate", "score-traces", "evaluate-registered")
"""Commands that show how far they are, from their start on: what they import takes a second on a slow machine."""

_PARENTS = {"warehouse": "Look after the tables, or move them to another place."}
"""What is said of the first word of a command with two."""


STANDARD_INPUT = "/dev/stdin"

HARMLESS = re.compile(r"(--?)?[A-Za-z][A-Za-z_-]{0,23}|-?[0-9.]{1,12}|[A-Za-z][A-Za-z0-9_]{0,23}")
"""What may be repeated in a message: names, options and numbers, too short or too plain for a key."""

_LAST = ("Options", "Scoring", "Judge", "Limits", "Comparison and gate", "Output")
"""Headings that come after those of a command's own, in this order."""


@functools.cache
def heading(name: str) -> Group:
    """A heading of the help pages. cyclopts wants one object for each."""
    return Group(name, sort_key=_LAST.index(name) if name in _LAST else -1)


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
    """The content as JSON. What could steer a terminal is escaped in it, wherever it came from.

    >>> json_text({"id": "\\x9b2J Größe"})
    '{"id":"\\\\u009b2J Größe"}'
    """
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    return _STEERING.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


_STEERING = re.compile(r"[^\n -~]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, one of `EXIT_CODES`."""
    # A short command mostly imports: at Python's default, looking for garbage among what stays is 6 % of its CPU.
    gc.set_threshold(50_000, 20, 50)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json_escapes")
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = _asks_for_json(words)
    try:
        return _run(words, as_json=as_json)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        return _stopped(error, as_json=as_json)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Within a statement of DuckDB, which makes another error of it.
            return _stopped(error.__cause__, as_json=as_json)
        # Only here, since a help page needs neither.
        from answerkey.metrics_core.errors import UserError
        from answerkey.metrics_core.llm.ledger import LedgerError
        from answerkey.tasks.warehouse.store import Unreachable

        if isinstance(error, UserError | LedgerError | Unreachable):
            return _failed(error, EXIT_BAD_INPUT if isinstance(error, UserError) else 1, as_json=as_json)
        if outside := _outside(error):
            return _failed(outside, 1, as_json=as_json)
        raise


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether standard output is to be JSON: of `gate`, --json has the name of a file, and only `-` is printed."""
    if words[:1] == ["gate"]:
        return "--json=-" in words or ("--json", "-") in itertools.pairwise(words)
    return "--json" in words


def _of_a_file(error: OSError) -> str:
    """Which file may not be written or read, or which folder is gone; empty for anything else."""
    folder = Path(error.filename).parent
    if error.errno == errno.ENOENT and not folder.exists():
        return f"{folder}: the folder was removed while this worked; run the same command again"
    return f"{error.filename}: {error.strerror}" if error.errno in (errno.EACCES, errno.EROFS) else ""


def _outside(error: BaseException | None) -> str:
    """What is wrong with the machine or the server, where an error is of these; empty if it is of the program."""
    while error:
        name, text = f"{type(error).__module__}.{type(error).__name__}", str(error)
        if any(full in text for full in ("No space left on device", "Disk quota exceeded", "disk is full")):
            return "the disk is full; free some space and run the same command again: what was scored is kept"
        if "File too large" in text:
            return (
                "a file would exceed the limit on its size (see `ulimit -f`, or the user's quota); raise the limit and "
                "run the same command again: what was scored is kept"
            )
        if isinstance(error, OSError) and error.filename and (said := _of_a_file(error)):
            return said
        if "Failed to reach API at" in text or name.startswith(
            ("httpx.", "httpcore.", "prefect.exceptions.PrefectHTTP")
        ):
            # Without a password that may be in it.
            server = os.environ.get("PREFECT_API_URL", "of your profile").rpartition("@")[2]
            status = _status(error)
            said = f"answers {status}" if status else "does not answer"
            return (
                f"the Prefect server {server} {said}; run again once it works (what was scored is kept), or unset "
                "PREFECT_API_URL"
            )
        if name.endswith("ConcurrencySlotAcquisitionError") and not error.__cause__:
            return "the Prefect server refuses requests; run again once it works: what was scored is kept"
        error = error.__cause__ or error.__context__
    return ""


def _status(error: BaseException | None) -> int | None:
    """What a server answered in place of what was asked for, if that is why."""
    while error:
        if status := getattr(getattr(error, "response", None), "status_code", None):
            return int(status)
        error = error.__cause__ or error.__context__
    return None


def _run(arguments: list[str], *, as_json: bool) -> int:
    app = make_app()
    if not arguments:
        app.help_print([])
        return EXIT_BAD_INPUT
    if arguments[0] == "help":
        # As git and docker have it.
        arguments = [*arguments[1:], "--help"]
    try:
        # A dash alone would be taken for an option. After --json it stands for standard output.
        pairs = zip(["", *arguments], arguments, strict=False)
        with _shown_at_work(arguments):
            words = [STANDARD_INPUT if word == "-" and before != "--json" else word for before, word in pairs]
            return int(app(words) or 0)
    except CycloptsError as error:
        return _failed(what_is_wrong(error), EXIT_BAD_INPUT, as_json=as_json)


def _shown_at_work(arguments: Sequence[str]) -> AbstractContextManager[None]:
    if arguments[0] not in _AT_WORK or {"--quiet", "--help", "-h"} & set(arguments):
        return nullcontext()
    from answerkey.flows.cli.progress import begun

    return begun()


def _stopped(error: KeyboardInterrupt, *, as_json: bool) -> int:
    # With the number of the signal, if it was not Ctrl-C.
    number = error.args[0] if error.args else signal.SIGINT
    return _failed("stopped; what was scored so far is kept, run the same command again", 128 + number, as_json=as_json)


def _failed(message: object, code: int, *, as_json: bool) -> int:
    """Say what is wrong on standard error and, where standard output is to be JSON, there as well."""
    from answerkey.flows.environment import printable

    if as_json:
        print_json({"error": {"message": str(message), "exit_code": code}})
    print("\n".join(map(printable, f"answerkey: {message}".split("\n"))), file=sys.stderr)
    return code


def make_app() -> App:
    """The command line with all its commands, none of them imported."""
    app = App(
        name="answerkey",
        help="Did the new model release answer better or worse than the last one, measured against answers known to "
        "be right?",
        help_epilogue="`answerkey COMMAND --help` has the options and examples of a command.",
        version=_version,
        version_flags=["--version"],
        help_flags=["--help", "-h"],
        help_format="plaintext",
        default_parameter=Parameter(negative="", allow_repeating=True, show_default=shown),
        group_arguments=heading("Arguments"),
        group_parameters=heading("Options"),
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for place, (title, commands) in enumerate(_COMMANDS.items()):
        group = Group(title, sort_key=place)
        for name, (module, summary, *examples) in commands.items():
            *parents, own = name.split()
            (_parent(app, parents[0], group) if parents else app).command(
                f"answerkey.flows.cli.{module}:{own.replace('-', '_')}",
                name=own,
                help=summary,
                group=group,
                help_epilogue="\n".join(["Examples:", *(f"  {example}" for example in examples)]),
            )
    return app


def _parent(app: App, name: str, group: Group) -> App:
    """The command whose commands have names of two words."""
    if name not in app:
        app.command(App(name=name, help=_PARENTS[name], group=group))
    return app[name]


def _version() -> str:
    from importlib.metadata import version

    return f"answerkey {version('answerkey')}"


def shown(default: Any) -> str | None:
    """A default for the help page; None where it says nothing."""
    if default is None or default is True or default is False or default in ("", [], ()):
        return None
    text = ",".join(default) if isinstance(default, list | tuple) else str(default)
    return f"{default:g}" if isinstance(default, float) else text if len(text) <= _LONGEST_DEFAULT else None


_LONGEST_DEFAULT = 30


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
    shown = f"{typed}: " if HARMLESS.fullmatch(typed) else ""
    close = difflib.get_close_matches(typed, list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else f"see `{chain} --help`"
    return f"{shown}there is no such {what}; {hint}"


def _called(argument: Any) -> str:
    return str(argument.name if argument.name.startswith("-") else argument.parameter.metavar or argument.name)


def _repeated(error: CoercionError) -> str:
    value = error.token.value if error.token else ""
    return f" {value}" if HARMLESS.fullmatch(value) else ""


def _expected(error: CoercionError) -> str:
    if error.argument and (choices := error.argument.get_choices(force=True)):
        return f"choose from {', '.join(choices)}"
    kinds: dict[Any, str] = {int: "a whole number", float: "a number"}
    hint: Any = error.target_type
    inner = next((one for one in get_args(hint) if one is not types.NoneType), hint)
    return f"write {kinds.get(inner, 'another value')}"
