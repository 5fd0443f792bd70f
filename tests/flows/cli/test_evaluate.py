"""Files of other tools through the command, and the commands that it prints at its end, which work when pasted."""

import gzip
import json
import os
import shlex
import sys

import pytest

from answerkey.flows.cli.evaluate import print_result
from answerkey.flows.cli.main import STANDARD_INPUT, main
from answerkey.flows.cli.options import with_files
from answerkey.flows.parameters import Data
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source
from answerkey.tasks.warehouse.home import Home
from tests.tasks.load.formats.exports import EXPORTS
from tests.tasks.staging_help import jsonl, query, run

BY_NAME = {export.name: export for export in EXPORTS}


# ----------------------------------------------------------------------------------------------------------------
# Which release is old
# ----------------------------------------------------------------------------------------------------------------
CAPITALS = {"Capital of France?": "Paris", "Capital of Italy?": "Rome", "Capital of Spain?": "Madrid"}


def wide_table(folder):
    """Write a table with a column per release, in which the first answer of the first release is quarantined."""
    lines = ["id,question,reference,zeta,alpha", "1,Q,r,\x01,r", *(f"{n},Q{n},r,r,r" for n in range(2, 9))]
    file = folder / "wide.csv"
    file.write_text("\n".join(lines))
    return [file, "--wide", "zeta,alpha", "--max-quarantined", "1"]


def traces_newest_first(folder):
    """Write traces of MLflow as its search lists them."""
    rows = [
        {
            "trace_id": f"{run} {question}",
            "request_time": f"2024-06-0{day}T10:00:00Z",
            "request": {"question": question},
            "response": {"answer": reference},
            "run_id": run,
            "assessments": [{"assessment_name": "expected_response", "expectation": {"value": reference}}],
        }
        for run, day in (("alpha", 2), ("zeta", 1))
        for question, reference in CAPITALS.items()
    ]
    return [jsonl(folder / "traces.jsonl", rows)]


def results_as_they_were_done(folder):
    """Write results of promptfoo, of which the second provider was the faster one."""
    rows = [
        {
            "promptIdx": number,
            "testIdx": test,
            "provider": {"id": provider},
            "prompt": {"raw": question},
            "vars": {"question": question, "expected": reference},
            "response": {"output": reference},
        }
        for test, (question, reference) in enumerate(CAPITALS.items())
        for number, provider in ((1, "alpha"), (0, "zeta"))
    ]
    return [jsonl(folder / "results.jsonl", rows)]


@pytest.mark.parametrize(
    "write",
    [wide_table, traces_newest_first, results_as_they_were_done],
    ids=lambda write: write.__name__,
)
def test_the_older_release_is_the_old_one_and_the_first_line_says_how_to_turn_them_round(write, cli, tmp_path, home):
    process = cli("evaluate", *write(tmp_path), "--metrics", "contains", "--quiet", code=0)

    first_line = process.stdout.splitlines()[0]
    assert first_line.startswith("zeta comes first")
    assert "--baseline alpha" in first_line
    assert query(home, "SELECT DISTINCT old_release, new_release FROM release_comparisons") == [("zeta", "alpha")]


def test_several_files_of_one_data_set(cli, tmp_path):
    first, second, home = tmp_path / "old.jsonl", tmp_path / "new.csv", tmp_path / "home"
    first.write_text('{"id": 1, "response": "It is Paris", "reference": "Paris", "release": "old"}\n')
    second.write_text("id,output,reference,release\n1,Rome,Paris,new\n")
    process = cli(
        "evaluate", first, second, "--dataset", "d", "--home", home, "--metrics", "contains", "--json", code=0
    )
    means = {one["report_id"]: one["scores"][0]["mean"] for one in json.loads(process.stdout)}
    assert means == {"d/old/v1": 1.0, "d/new/v1": 0.0}
    assert "old.jsonl, new.csv: columns " in process.stderr


@pytest.mark.nightly
def test_standard_input(server, warm_command, tmp_path):
    rows = "".join(json.dumps({"id": n, "answer": "x", "reference": "x", "release": "r"}) + "\n" for n in range(3))
    rows += "[1]\n"
    given, other, home = tmp_path / "given", tmp_path / "other.jsonl", tmp_path / "home"
    given.write_bytes(gzip.compress(rows.encode()))
    other.write_text(json.dumps({"id": 3, "answer": "x", "reference": "x", "release": "r"}))
    words = [
        "evaluate",
        str(other),
        "-",
        "--dataset",
        "d",
        "--home",
        str(home),
        "--metrics",
        "contains",
        "--json",
        "--no-page",
        "--max-quarantined",
        "0.5",
    ]
    environment = {**os.environ, "PREFECT_API_URL": server}
    completed = warm_command.run("answerkey.flows.cli", words, tmp_path, environment, 240, given)
    assert completed.returncode == 0, completed.stderr
    [report] = json.loads(completed.stdout)
    assert (report["report_id"], report["scores"][0]["n_scored"]) == ("d/r/v1", 4)
    assert "other.jsonl, stdin.jsonl: columns id, answer, " in completed.stderr
    # The file that it was put into is gone.
    reason = "-: line 4 is a JSON list, not an object"
    assert query(home, 'SELECT source, "row", reason FROM quarantine') == [("-", 4, reason)]


def test_several_files_that_cannot_be_used_are_named_in_one_line(bare_cli, tmp_path, own_home):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for n, file in enumerate(files):
        file.write_text(json.dumps({"id": n, "answer": "x", "reference": "", "release": "r"}))
    process = bare_cli("evaluate", *files, "--dataset", "d", code=2)
    last = process.stderr.splitlines()[-1]
    assert last.startswith(f"answerkey: {files[0]}, {files[1]}: 100 % of the rows (2 of 2) are in quarantine, "), last


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match=r"^-: standard input is closed; send the answers to it, or name a file$"):
        with_files(Data(answers=STANDARD_INPUT))


def test_a_release_is_asked_for_before_a_server_is_started(bare_cli, tmp_path, own_home):
    export = BY_NAME["langsmith-table"]
    file = tmp_path / export.file
    file.write_bytes(export.content)
    process = bare_cli("evaluate", file, code=2)
    assert process.stderr == (
        "answerkey: exp.csv: it does not say which release answered (an export of LangSmith); name it with --release\n"
    )


NEW = 'it\'s $(new); "*" é'


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three releases, one of which has a name that a shell would take apart, in a home with a blank in its name."""
    folder = tmp_path_factory.mktemp("next") / "my home"
    for name, right in (("first", 9), ("old", 6), (NEW, 8), ("steers\u00a0by", 8)):
        rows = [
            {"id": f"q{n}", "question": "Q?", "answer": "Paris" if n < right else "Rome", "reference": "Paris"}
            for n in range(12)
        ]
        file = jsonl(folder.parent / "rows.jsonl", rows)
        run(folder, Source(file, dataset="faq", release=name), ("exact_match",))
    return folder


def commands(home, capsys, *reports, compared=False):
    print_result(list(reports), Home(home), as_json=False, compared=compared)
    printed = capsys.readouterr().out.partition("\nnext:\n")[2].splitlines()
    assert [line[:4] for line in printed] == ["  # ", "  an"] * (len(printed) // 2)
    return [shlex.split(line) for line in printed[1::2]]


def test_a_new_release_is_compared_with_the_one_before_and_the_commands_run(home, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANSWERKEY_HOME")
    command_lines = commands(home, capsys, f"faq/{NEW}/v1")
    where = ["--home", str(home)]
    pair = ["faq/steers\u00a0by/v1", f"faq/{NEW}/v1"]
    # The release that was made last has a name that cannot be pasted.
    assert command_lines == [["answerkey", "report", f"faq/{NEW}/v1", "--html", "report.html", *where]]
    assert pair[0] not in str(command_lines)
    assert [main(words[1:]) for words in command_lines] == [0]
    several = commands(home, capsys, "faq/old/v1", f"faq/{NEW}/v1")
    assert several == [
        ["answerkey", "compare", "faq/old/v1", f"faq/{NEW}/v1", "--samples", "5", *where],
        [
            "answerkey", "gate", "faq/old/v1", f"faq/{NEW}/v1", "--primary", "exact_match.match", "--margin", "0.02",
            *where,
        ],
        ["answerkey", "report", "faq/old/v1", f"faq/{NEW}/v1", "--html", "report.html", *where],
    ]  # fmt: skip
    assert [main(words[1:]) for words in several] == [0, 3, 0]
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_home_is_named_where_a_shell_would_take_another(home, capsys, monkeypatch):
    monkeypatch.setenv("ANSWERKEY_HOME", str(home))
    [first, *_] = commands(home, capsys, "faq/first/v1", "faq/old/v1")
    assert first == ["answerkey", "compare", "faq/first/v1", "faq/old/v1", "--samples", "5"]
    monkeypatch.delenv("ANSWERKEY_HOME")
    [first, *_] = commands(home, capsys, "faq/first/v1", "faq/old/v1")
    assert first[-2:] == ["--home", str(home)]


def test_what_was_compared_is_not_compared_again(home, capsys):
    print_result(["faq/old/v1"], Home(home), as_json=False, compared=True)
    assert "answerkey compare" not in capsys.readouterr().out
    print_result(["faq/old/v1"], Home(home), as_json=True)
    assert capsys.readouterr().out.startswith('[{"report_id":"faq/old/v1"')
