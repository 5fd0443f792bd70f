"""Files of other tools through the command: what was recognised is said, and the reports are there."""

import gzip
import json
import os
import sys

import pytest

from answerkey.flows.cli.main import STANDARD_INPUT
from answerkey.flows.cli.options import with_files
from answerkey.flows.parameters import Data
from answerkey.metrics_core.errors import UserError
from tests.tasks.load.formats.exports import EXPORTS
from tests.tasks.staging_help import query

BY_NAME = {export.name: export for export in EXPORTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["promptfoo 3", "inspect zstandard", "langfuse cells"])
def test_an_export_is_evaluated_without_an_option(name, cli, tmp_path, home):
    export = BY_NAME[name]
    file = tmp_path / export.file
    file.write_bytes(export.content)
    done = cli("evaluate", file, "--metrics", "contains", "--json")
    assert done.returncode == 0, done.stderr
    assert export.says in done.stderr
    assert [report["release"] for report in json.loads(done.stdout)] == sorted(export.releases)


def test_several_files_of_one_data_set(cli, tmp_path):
    first, second, home = tmp_path / "old.jsonl", tmp_path / "new.csv", tmp_path / "home"
    first.write_text('{"id": 1, "response": "It is Paris", "reference": "Paris", "release": "old"}\n')
    second.write_text("id,output,reference,release\n1,Rome,Paris,new\n")
    done = cli("evaluate", first, second, "--dataset", "d", "--home", home, "--metrics", "contains", "--json")
    assert done.returncode == 0, done.stderr
    means = {one["report_id"]: one["scores"][0]["mean"] for one in json.loads(done.stdout)}
    assert means == {"d/old/v1": 1.0, "d/new/v1": 0.0}
    assert "old.jsonl, new.csv: columns recognised by name: " in done.stderr


@pytest.mark.slow
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
    done = warm_command.run("answerkey.flows.cli", words, tmp_path, environment, 240, given)
    assert done.returncode == 0, done.stderr
    [report] = json.loads(done.stdout)
    assert (report["report_id"], report["scores"][0]["n_scored"]) == ("d/r/v1", 4)
    assert "other.jsonl, stdin.jsonl: columns recognised by name: id, answer, " in done.stderr
    # The file that it was put into is gone.
    reason = "-: line 4 is a JSON list, not an object"
    assert query(home, 'SELECT source, "row", reason FROM quarantine') == [("-", 4, reason)]


def test_several_files_that_cannot_be_used_are_named_in_one_line(bare_cli, tmp_path, home):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for n, file in enumerate(files):
        file.write_text(json.dumps({"id": n, "answer": "x", "reference": "", "release": "r"}))
    done = bare_cli("evaluate", *files, "--dataset", "d", PREFECT_API_URL="")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"answerkey: {files[0]}, {files[1]}: 100 % of the rows (2 of 2) are in quarantine, "), last


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match=r"^-: standard input is closed; send the answers to it, or name a file$"):
        with_files(Data(answers=STANDARD_INPUT))


def test_a_release_is_asked_for_before_a_server_is_started(bare_cli, tmp_path, home):
    export = BY_NAME["langsmith table"]
    file = tmp_path / export.file
    file.write_bytes(export.content)
    done = bare_cli("evaluate", file, PREFECT_API_URL="")
    assert done.returncode == 2
    assert done.stderr == (
        "answerkey: exp.csv: it is not said which release answered (an export of LangSmith); name it with --release\n"
    )
