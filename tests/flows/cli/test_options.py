"""Flags are the fields of forms; shells complete them; help and examples are there."""

import inspect
import json
import re
import shlex
from typing import Annotated, Any

import pytest
from pydantic import Field

from answerkey.flows.cli.main import _COMMANDS, make_app
from answerkey.flows.cli.options import Baseline, Flags, command, listed, with_files
from answerkey.flows.forms import option_of
from answerkey.flows.parameters import PAIRS, Data, Judging, Limits, Scoring
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.registry import ASKED, METRICS
from answerkey.metrics_core.validation import Option, Validated

COMMANDS = [name for group in _COMMANDS.values() for name in group]


class Form(Validated):
    """One field of each type."""

    file: Annotated[str, Option("FILE")] = Field(description="a file")
    models: list[str] = Field(default_factory=list, description="models")
    columns: Annotated[list[str], Option("--map", separator=PAIRS)] = Field(default_factory=list, description="columns")
    n: Annotated[int, Option("--number")] = Field(3, ge=1, description="a number")
    wait_s: float = Field(1.0, description="seconds")
    page: bool = Field(True, description="a page")
    dry_run: bool = Field(False, description="stop")


def called(*words):
    """The form that these words make."""
    made: list[Form] = []

    @command
    def run(form: Annotated[Form, Flags("Form")], *, baseline: Baseline = "") -> int:
        made.append(form if not baseline else form.model_copy(update={"file": baseline}))
        return 0

    app = make_app()
    app.command(run, name="run")
    assert app(["run", *words]) == 0
    return made[0]


def test_files_folders_and_patterns_are_there_and_hold_from_any_folder(tmp_path, monkeypatch):
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


def test_fields_are_flags():
    assert called("a.csv") == Form(file="a.csv")
    words = shlex.split(
        "--models 'x, y(a=1,b=2)' --models z --map id=a,b,answer=c --map label=d --number 5 --wait 2.5 "
        "--no-page --dry-run"
    )
    assert called("a.csv", *words) == Form(
        file="a.csv", models=["x", "y(a=1,b=2)", "z"], columns=["id=a,b", "answer=c", "label=d"], n=5, wait_s=2.5,
        page=False, dry_run=True,
    )  # fmt: skip
    assert called("--number", "4", "a.csv", "--number", "6").n == 6
    assert called("--", "--a.csv").file == "--a.csv"


def test_a_value_out_of_range_names_its_flag():
    with pytest.raises(UserError, match=r"^--number 0: must be greater than or equal to 1$"):
        called("a.csv", "--number", "0")


def test_a_file_has_what_the_command_line_leaves_out(tmp_path):
    file = tmp_path / "answerkey.yaml"
    file.write_text("form:\n  file: b.csv\n  models: [x, 'y,z']\n  n: 4\n  page: false\nbaseline: old\n")
    of_the_file = Form(file="old", models=["x", "y,z"], n=4, page=False)
    assert called("--config", str(file)) == of_the_file
    assert called("--config", str(file), "--baseline", "") == of_the_file.model_copy(update={"file": "b.csv"})
    more = ("--config", str(file), "a.csv", "--baseline=", "--number", "6", "--page", "--models", "u,v")
    assert called(*more) == Form(file="a.csv", models=["u", "v"], n=6, page=True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("form:\n  file: a\nfrom: 1", "{file}:3: from: there is no such key; did you mean form?"),
        ("form:\n  file: a\n  modls: [x]", "{file}:3: form.modls: there is no such field; did you mean models?"),
        ("form:\n  file: a\n  n: 0", "{file}:3: form.n: must be greater than or equal to 1"),
        ("form: [a]", "{file}:1: form: write the fields of this form below it, one a line"),
        ("- a", "{file}:1: write keys and values, as in `scoring: {{metrics: [bleu]}}`"),
        ("form:\n  n: 2", "FILE is missing; see `answerkey run --help`"),
        ("form:\n  file: a\nbaseline: [1]", "{file}:3: baseline: Input should be a valid string"),
    ],
)
def test_what_is_wrong_in_a_file_has_its_line_and_key(tmp_path, text, line):
    file = tmp_path / "answerkey.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        called("--config", str(file))
    assert str(error.value) == line.format(file=file)


def test_commas_within_brackets_separate_nothing():
    assert listed("rouge_l, x=a.b:C(d=1, e=2) ,bleu") == ["rouge_l", "x=a.b:C(d=1, e=2)", "bleu"]


def test_every_field_of_the_forms_is_a_flag_of_evaluate(bare_cli):
    page = bare_cli("evaluate", "--help", COLUMNS="200").stdout
    for form in (Data, Scoring, Judging, Limits):
        options = [option_of(name, info) for name, info in form.model_fields.items()]
        assert [option for option in options if option not in page] == []
    assert JudgeOptions.model_fields.keys() <= Judging.model_fields.keys()


def app_of(name):
    """The command as the whole command line has it."""
    found: Any = make_app()
    for word in name.split():
        found = found[word]
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_every_command_parse(name):
    title, *examples = app_of(name).help_epilogue.splitlines()
    assert title == "Examples:" and examples
    for example in map(str.strip, examples):
        program, *words = shlex.split(example.split(" > ")[0])
        function, bound, *_ = make_app().parse_args(words)
        assert f"{shlex.join(words)} ".startswith(f"{name} ")
        assert (program, function.__name__.rstrip("_")) == ("answerkey", name.rpartition(" ")[2].replace("-", "_"))
        assert inspect.signature(function).bind(*bound.args, **bound.kwargs)


def test_the_version(bare_cli):
    assert bare_cli("--version").stdout.startswith("answerkey ")


@pytest.mark.parametrize(("words", "option"), [(["help"], ["--help"]), (["help", "gate"], ["gate", "--help"])])
def test_help_is_a_command_too(bare_cli, words, option):
    result = bare_cli(*words)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: answerkey")
    assert result.stdout == bare_cli(*option).stdout


def test_metrics_lists_all_with_their_fields(bare_cli):
    result = bare_cli("metrics", "--json")
    catalogue = {row["metric"]: row for row in json.loads(result.stdout)}
    assert list(catalogue) == [*METRICS, *ASKED]
    assert [field["name"] for field in catalogue["rouge_l"]["fields"]] == ["precision", "recall", "f1"]
    assert catalogue["meaning_match"]["needs"] == ["answer", "question", "references"]
    output = bare_cli("metrics").stdout
    assert all(name in output for name in catalogue)
