"""Flags are the fields of forms; nothing that may be a secret is repeated; shells complete them; examples parse."""

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from answerkey.flows.cli.main import _COMMANDS, make_app
from answerkey.flows.cli.options import DATA, JUDGING, LIMITS, SCORING, Flags, command, listed, with_files
from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.validation import Validated
from tests.flows.conftest import ROOT

Cli = Callable[..., subprocess.CompletedProcess[str]]
COMMANDS = {name: examples for group in _COMMANDS.values() for name, (_, _, *examples) in group.items()}
KEY = "sk-0123456789abcdef0123456789abcdef"


class Form(Validated):
    """One field of each type."""

    file: str = Field(description="a file")
    models: list[str] = Field(default_factory=list, description="models")
    columns: list[str] = Field(default_factory=list, description="columns")
    n: int = Field(3, ge=1, description="a number")
    page: bool = Field(True, description="a page")
    dry_run: bool = Field(False, description="stop")


def called(*words: str) -> Form:
    """The form that these words make."""
    made: list[Form] = []

    @command
    def run(form: Annotated[Form, Flags("Form", {"n": "number"}, {"file": "FILE"}, repeated=("columns",))], /) -> int:
        made.append(form)
        return 0

    app = make_app()
    app.command(run, name="run")
    assert app(["run", *words]) == 0
    return made[0]


def test_files_folders_and_patterns_are_there_and_hold_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers").mkdir()
    with pytest.raises(UserError, match=r"answers: there is no file; give CSV"):
        with_files(Data(answers="answers"))
    (tmp_path / "answers" / "a.jsonl").write_text("{}")
    for source in ("answers", "answers/*.jsonl", "answers/a.jsonl"):
        assert with_files(Data(answers=source)).answers == str(tmp_path / source)
    for source in ("https://example.org/a.csv", "s3://bucket/release=*/", "s3://bucket/a.duckdb::answers"):
        assert with_files(Data(answers=source)).answers == source
    for source in ("nothing/*.jsonl", "nothing.csv", "nothing.duckdb::answers"):
        with pytest.raises(UserError, match=rf"^{re.escape(source.partition('::')[0])}: (there is )?no (such )?file"):
            with_files(Data(answers="answers", references=source))


def test_fields_are_flags() -> None:
    assert called("a.csv") == Form(file="a.csv")
    words = (
        "--models",
        "x, y(a=1,b=2)",
        "--columns",
        "a,b",
        "--columns",
        "c",
        "--number",
        "5",
        "--no-page",
        "--dry-run",
    )
    assert called("a.csv", *words) == Form(
        file="a.csv", models=["x", "y(a=1,b=2)"], columns=["a,b", "c"], n=5, page=False, dry_run=True
    )
    assert called("--number", "4", "a.csv", "--number", "6").n == 6
    assert called("--", "--a.csv").file == "--a.csv"


def test_a_value_out_of_range_names_its_flag() -> None:
    with pytest.raises(UserError, match=r"^--number 0: must be greater than or equal to 1$"):
        called("a.csv", "--number", "0")


def test_commas_within_brackets_separate_nothing() -> None:
    assert listed("rouge_l, x=a.b:C(d=1, e=2) ,bleu") == ["rouge_l", "x=a.b:C(d=1, e=2)", "bleu"]


def test_every_field_of_the_forms_is_a_flag_of_evaluate(bare_cli: Cli) -> None:
    page = bare_cli("evaluate", "--help", COLUMNS="200").stdout
    for form, flags in ((Data, DATA), (Scoring, SCORING), (Judging, JUDGING), (Limits, LIMITS)):
        options = [flags.option(name, info) for name, info in form.model_fields.items() if name not in flags.omit]
        assert [option for option in options if option not in page] == []
    assert JudgeOptions.model_fields.keys() <= Judging.model_fields.keys()


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "examples/answers.jsonl", "--api-key", KEY),
        ("evaluate", "examples/answers.jsonl", f"--judge-key={KEY}"),
        ("evaluate", "examples/answers.jsonl", f"--{KEY}"),
        ("evaluate", "examples/answers.jsonl", KEY),
        ("evaluate", "examples/answers.jsonl", "--judge", KEY),
        ("evaluate", "examples/answers.jsonl", "--judge-key-from", KEY),
        ("evaluate", "examples/answers.jsonl", "--judge-base", f"http://me:{KEY}@host/v1"),
        ("evaluate", "examples/answers.jsonl", "--repeats", KEY),
        ("evaluate", "examples/answers.jsonl", "--jury", KEY),
        ("generate", "--dataset", "x", "--release", "r", "--model", KEY),
        ("rerun", "faq/a/v1", "--judge-key-from", KEY),
        (KEY,),
    ],
)
def test_a_pasted_key_is_not_repeated(bare_cli: Cli, words: tuple[str, ...]) -> None:
    result = bare_cli(*words)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1), result.stderr
    assert KEY[:10] not in result.stderr


def test_a_near_miss_is_named(bare_cli: Cli) -> None:
    for words, hint in {
        ("evalute", "a.csv"): "evalute: there is no such command; did you mean evaluate?",
        ("report", "--policies", "x"): "--policies: there is no such option; did you mean --policy?",
        ("evaluate",): "FILE is missing; see `answerkey evaluate --help`",
        ("serve", "--port", "many"): "--port many: write a whole number",
        ("completion", "tcsh"): "SHELL tcsh: choose from bash, zsh, fish",
    }.items():
        assert bare_cli(*words).stderr == f"answerkey: {hint}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_every_command_parse(name: str) -> None:
    assert COMMANDS[name]
    for example in COMMANDS[name]:
        program, *words = shlex.split(example.split(" > ")[0])
        function, bound, *_ = make_app().parse_args(words)
        assert f"{shlex.join(words)} ".startswith(f"{name} ")
        assert (program, function.__name__) == ("answerkey", name.rpartition(" ")[2].replace("-", "_"))
        assert inspect.signature(function).bind(*bound.args, **bound.kwargs)


def test_the_version(bare_cli: Cli) -> None:
    assert bare_cli("--version").stdout.startswith("answerkey ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_that_shell(bare_cli: Cli, shell: str) -> None:
    script = bare_cli("completion", shell).stdout
    assert "evaluate" in script
    assert "judge-timeout" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bash_completes_commands_and_options(bare_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "completion"
    file.write_text(bare_cli("completion", "bash").stdout)

    def completed(*words: str) -> list[str]:
        script = (
            f"source {file}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
            '_answerkey; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert {"evaluate", "evaluate-registered"} <= set(completed("answerkey", "eval"))
    assert set(completed("answerkey", "evaluate", "--judge-t")) == {"--judge-timeout"}
    assert set(completed("answerkey", "evaluate", "--jury", "")) >= {"majority", "mean"}


def test_the_reference_is_up_to_date() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ANSWERKEY_HOME"}
    code = "import sys; sys.path.insert(0, 'docs'); import make_cli; print(make_cli.reference(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert made.stdout == (ROOT / "docs/cli.md").read_text(encoding="utf-8"), "run `make cli-reference`"
