"""What goes wrong outside of the program, or is written wrongly: one line, the exit code, and nothing is lost."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from answerkey.flows.cli.main import _outside, main
from answerkey.flows.environment import PrintableLines
from answerkey.tasks.load.load import Source
from tests.flows.conftest import ROOT, command
from tests.kit.processes import finished
from tests.raw_server import RawServer, ok
from tests.tasks.staging_help import jsonl, run

BLOCK = 262_144
HEADERS = 3 * 4_096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A warehouse with reports on two releases."""
    folder = tmp_path_factory.mktemp("whole")
    rows = [
        {"id": f"q{n}", "release": release, "question": "Q?", "answer": answer, "reference": "Paris"}
        for n in range(6)
        for release, answer in (("old", "Paris"), ("new", "Parisé" if n % 3 else "Rome"))
    ]
    run(folder / "home", Source(jsonl(folder / "faq.jsonl", rows)), ("rouge_l", "exact_match"))
    return (folder / "home" / "answerkey.duckdb").read_bytes()


@pytest.fixture
def home(tmp_path, whole):
    """A home with that warehouse."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "answerkey.duckdb").write_bytes(whole)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nope"], "nope: no such report or release in {home}; `answerkey report --list` shows them"),
        (["report", "--lst"], "--lst: there is no such option; did you mean --list?"),
        (["evaluate", "no\x1b[2J.csv"], None),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(home, capsys, arguments, message):
    code = main([*arguments, "--json"])
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["exit_code"] == code == 2
    if message:
        assert error["message"] == message.format(home=home)
    assert "\x1b" not in printed.out + printed.err
    # Whoever reads standard error finds the line there as before.
    assert len(printed.err.splitlines()) == 1


# ----------------------------------------------------------------------------------------------------------------
# The exit code is that of the verdict
# ----------------------------------------------------------------------------------------------------------------
UNDECIDED = ["gate", "old", "new", "--primary", "exact_match.match", "--margin", "0.1"]


@pytest.mark.parametrize(
    ("script", "arguments", "code"),
    [
        ('trap "" PIPE; "$@" | true', UNDECIDED, 3),
        ('trap "" PIPE; "$@" >&-', UNDECIDED, 3),
        ('trap "" PIPE; "$@" >/dev/full', UNDECIDED, 3),
        ('"$@" | true', ["report", "--list"], 0),
    ],
    ids=["reader gone", "closed", "full", "no verdict"],
)
@pytest.mark.real
def test_the_exit_code_is_the_verdict_whatever_becomes_of_its_output(home, script, arguments, code):
    process = finished(
        ["bash", "-c", f"set -o pipefail; {script}", "bash", *command(*arguments)],
        cwd=ROOT,
        env={**os.environ, "ANSWERKEY_HOME": str(home)},
    )

    assert process.returncode == code, process.stderr
    assert "Traceback" not in process.stderr
    assert code or not process.stderr


def test_an_error_of_the_program_has_a_code_that_is_no_verdict(home, monkeypatch, capsys):
    def broken(*_arguments, **_options):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("answerkey.flows.cli.gate.gated", broken)

    assert main(UNDECIDED) == 70
    assert "ZeroDivisionError: a fault" in capsys.readouterr().err


def test_gate_prints_an_error_as_json_only_where_the_verdict_is_printed(home, tmp_path, capsys):
    rules = ["gate", "old", "nope", "--primary", "rouge_l.f1", "--margin", "0.1"]
    file = str(tmp_path / "v.json")
    for words, printed in (["--json"], True), (["--output", file], False), (["--json", "--output", file], True):
        assert main([*rules, *words]) == 2
        assert capsys.readouterr().out.startswith('{"error":{"message":"nope: ') == printed


DAMAGED: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("first block", lambda content: content[:HEADERS] + bytes(BLOCK) + content[HEADERS + BLOCK :], "Corrupt database"),
    ("text", lambda _: b"these are notes\n" * 900, "not a valid DuckDB database file"),
]


@pytest.mark.parametrize(("damage", "what"), [one[1:] for one in DAMAGED], ids=[one[0] for one in DAMAGED])
def test_what_duckdb_says_of_a_damaged_warehouse_is_one_line(home, whole, damage, what, refusal):
    file = home / "answerkey.duckdb"
    file.write_bytes(damage(whole))
    for asked in (["report"], ["warehouse", "maintain"]):
        line = refusal(*asked)
        assert line.startswith(f"{file}: ") and what in line
        assert line.endswith("; `answerkey warehouse backup` copies can take its place")
    file.write_bytes(whole)
    assert main(["report"]) == 0


def test_homes_that_cannot_be(tmp_path, answers, refusal):
    file = tmp_path / "file"
    file.write_text("x")
    for asked in (["report"], ["evaluate", answers]):
        line = refusal(*asked, "--home", file)
        assert line == f"{file}: this is a file; the home is a folder, in which the warehouse is"
    assert refusal("evaluate", answers, "--home", "/proc/nothing/home") == (
        "/proc/nothing/home: the folder cannot be made: No such file or directory; name another one with --home"
    )
    named = tmp_path / "release=v1" / "home"
    assert refusal("evaluate", answers, "--home", named) == (
        f"{named}: the home cannot be in 'release=v1', a folder called NAME=VALUE; name another with --home"
    )
    assert not named.parent.exists()


CODE = "@pd.io.common.os.system('touch ran')"
PANDAS = (
    "row_condition: a condition in the language of pandas can run any code, so it is refused; "
    'write row_condition: {type: comparison, column: {name: release}, operator: "==", parameter: new}'
)
UNFIT = " cannot stand in a condition: write numbers, and texts without backticks and backslashes"
COMPUTED = "$PARAMETER: there are no parameters of suites here; write the value itself"
BROKEN_OUT = f"question`.str.len() > {CODE} or `question"
IN_PANDAS = {"type": "pass_through", "pass_through_filter": f"question.str.len() > {CODE}"}


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ({"row_condition": f"question.str.len() > {CODE}", "condition_parser": "pandas"}, PANDAS),
        ({"row_condition": f"question.str.len() > {CODE}"}, PANDAS),
        ({"row_condition": IN_PANDAS}, PANDAS),
        ({"row_condition": {"type": "or", "conditions": [{"type": "and", "conditions": [IN_PANDAS]}]}}, PANDAS),
        (
            {"row_condition": {"type": "nullity", "column": {"name": BROKEN_OUT}, "is_null": False}},
            f"row_condition: {BROKEN_OUT!r}{UNFIT}",
        ),
        (
            {"row_condition": f'col("{BROKEN_OUT}") == "x"', "condition_parser": "great_expectations"},
            f"row_condition: {BROKEN_OUT!r}{UNFIT}",
        ),
        (
            {"row_condition": {"type": "comparison", "column": {"name": "question"}, "operator": "IN",
                               "parameter": ["a", "b\\"]}},
            f"row_condition: {'b' + chr(92)!r}{UNFIT}",
        ),
        (
            {"row_condition": {"type": "comparison", "column": {"name": "question"}, "operator": "==",
                               "parameter": {"$PARAMETER": "x", "$PARAMETER.x": CODE}}},
            COMPUTED,
        ),
        ({"min_value": {"$PARAMETER": CODE}}, COMPUTED),
        ({"max_value": {"$PARAMETER": "now()"}}, COMPUTED),
    ],
)  # fmt: skip
def test_a_suite_of_expectations_runs_no_code(
    tmp_path,
    answers,
    condition,
    why,
    refusal,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    kind = "expect_column_value_lengths_to_be_between"
    one = {"type": kind, "kwargs": {"column": "question", "min_value": 1, **condition}}
    (tmp_path / "suite.json").write_text(json.dumps({"expectations": [one]}))
    command = ["evaluate", answers, "--metrics", "exact_match", "--expectations", "suite.json", "--home", "home"]
    assert refusal(*command) == f"{tmp_path}/suite.json: expectation 1 ({kind}): {why}"
    assert not (tmp_path / "ran").exists() and not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("schema", "leads"),
    [
        ({"$ref": "{url}/schema"}, "$ref '{url}/schema'"),
        ({"properties": {"a": {"$dynamicRef": "{url}/schema"}}}, "$dynamicRef '{url}/schema'"),
        ({"$id": "{url}/", "anyOf": [{"$ref": "schema"}]}, "$ref 'schema'"),
        (
            {"$ref": "#/kept", "kept": {"properties": {"a": {"$id": "{url}/schema", "$ref": "#/b"}}}},
            "$ref '#/b'",
        ),
    ],
)
def test_no_part_of_a_json_schema_is_fetched(tmp_path, schema, leads, refusal, home):
    kind = "expect_column_values_to_match_json_schema"
    data = jsonl(tmp_path / "a.jsonl", [{"id": 1, "answer": '{"a": 1}', "reference": "x"}])
    with RawServer(ok({})) as server:
        kwargs = json.dumps({"column": "answer", "json_schema": schema}).replace("{url}", server.url)
        suite = f'{{"expectations": [{{"type": "{kind}", "kwargs": {kwargs}}}]}}'
        command = ["evaluate", data, "--metrics", "exact_match", "--expectations", suite]
        assert refusal(*command) == (
            f"expectations: expectation 1 ({kind}): json_schema: {leads.replace('{url}', server.url)} leads out of the "
            "schema, and nothing is fetched; write what it names under $defs, without an $id, and refer to it as "
            "#/$defs/NAME"
        )
        assert server.requests == []


def test_names_from_data_send_no_control_sequences(tmp_path, refusal, home):
    file = tmp_path / "answers.csv"
    file.write_text("id,question\x1b[2J,\u202eanswre\n1,a,b\n")
    line = refusal("evaluate", file)
    assert "among id, question[U+001B][2J, [RLO]answre; name it" in line
    record = logging.makeLogRecord({"msg": "read as\x1b]0;x\x07\n  one\xa0می\u200cشود"})
    assert PrintableLines("%(message)s").format(record) == "read as[U+001B]]0;x[U+0007]\n  one می\u200cشود"


def test_a_field_that_reports_merely_lack_is_incomplete(home, capsys):
    arguments = ["gate", "old", "new", "--primary", "rouge_l.f1", "--margin", ".1"]
    assert main(arguments) in (0, 1, 3)
    assert main([*arguments[:4], "token_overlap.f1", *arguments[5:]]) == 4


@pytest.mark.real
def test_a_terminal_that_knows_ascii_alone(bare_cli, home):
    process = bare_cli("report", PYTHONIOENCODING="ascii")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.isascii() and "exact_match" in process.stdout


@pytest.mark.real
def test_a_server_that_is_down(bare_cli, home, answers):
    process = bare_cli("evaluate", answers, "--metrics", "exact_match",
                     PREFECT_API_URL="http://name:secret@127.0.0.1:9/api", code=1)  # fmt: skip
    assert "Traceback" not in process.stderr and "secret" not in process.stderr
    assert process.stderr.splitlines()[-1] == (
        "answerkey: the Prefect server 127.0.0.1:9/api does not answer; run again once it works (what was scored is "
        "kept), or unset PREFECT_API_URL"
    )


def test_a_full_disk_and_a_folder_that_nobody_may_write():
    full = "the disk is full; free some space and run the same command again: what was scored is kept"
    for error in (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"),
        duckdb.IOException("IO Error: Could not write file: No space left on device"),
    ):
        try:
            raise RuntimeError("the task failed") from error
        except RuntimeError as outer:
            assert _outside(outer) == full
    for read in (Path.read_bytes, pq.read_metadata, lambda file: duckdb.connect(str(file))):
        with pytest.raises(Exception) as removed:
            read(Path("/no/home/runs/a"))
        assert _outside(removed.value) == (
            "/no/home/runs: the folder was removed while this worked; run the same command again"
        )
    assert _outside(PermissionError(errno.EACCES, "Permission denied", "/x")) == "/x: Permission denied"
    assert _outside(PermissionError(errno.EACCES, "Permission denied")) == ""
    assert _outside(ValueError("a mistake of ours")) == ""
    assert _outside(OSError(errno.EFBIG, "File too large")).startswith("a file would exceed the limit on its size")


def test_a_name_that_no_file_can_have(bare_cli, home):
    name = "x" * 300
    assert bare_cli("gate", name, "y", code=2).stderr == f"answerkey: {name}: File name too long\n"


@pytest.mark.real
def test_a_quota_ends_in_one_line_and_what_was_scored_is_kept(bare_cli, home, answers):
    arguments = ("evaluate", answers, "--metrics", "exact_match", "--no-page")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    process = finished(command(*arguments), cwd=ROOT, preexec_fn=limit)
    assert (process.returncode, process.stderr.splitlines()[-1]) == (
        1,
        "answerkey: a file would exceed the limit on its size (see `ulimit -f`, or the user's quota); raise the limit "
        "and run the same command again: what was scored is kept",
    )
    assert "Traceback" not in process.stderr
    bare_cli(*arguments, code=0)


def test_data_docs_that_cannot_be_written_are_one_line(bare_cli, answers, tmp_path):
    there = tmp_path / "home" / "pages" / "_data-docs" / "validations"
    there.parent.mkdir(parents=True)
    there.write_text("a file where the pages should be")
    process = bare_cli("evaluate", answers, "--metrics", "exact_match", "--home", tmp_path / "home", page=True)
    assert (process.returncode, "Traceback" in process.stderr) == (0, False), process.stderr
    [line] = [line for line in process.stderr.splitlines() if "Data Docs" in line]
    assert line == (
        f"the Data Docs could not be made: {there.parent}: a page cannot be written here; is the disk full?; the "
        "checks are in the warehouse"
    )


@pytest.fixture
def unprivileged():
    """What stands before a command, so that the permissions of files hold for it even if root runs the tests."""
    if os.geteuid():
        return []
    prefix = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"]
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("root may do anything, and there is no setpriv here that could give that up")
    return prefix


def _without_privileges(prefix, *arguments):
    return finished([*prefix, *command(*arguments)], cwd=ROOT)


@pytest.mark.real
def test_a_file_that_may_not_be_read(answers, home, unprivileged):
    answers.chmod(0)
    found = _without_privileges(unprivileged, "evaluate", answers)
    assert (found.returncode, found.stderr) == (
        2, f"answerkey: {answers}: the file cannot be read: Permission denied\n"
    )  # fmt: skip


@pytest.mark.nightly
def test_a_home_that_may_only_be_read_is_reported_on(bare_cli, answers, tmp_path, unprivileged):
    home = tmp_path / "theirs"
    bare_cli("evaluate", answers, "--metrics", "exact_match", "--home", home, code=0)
    files = [home, *home.rglob("*")]
    for file in files:
        file.chmod(file.stat().st_mode & ~0o222)
    try:
        for arguments in (["report", "--list"], ["warehouse", "export", tmp_path / "tables"]):
            found = _without_privileges(unprivileged, *arguments, "--home", home)
            assert (found.returncode, found.stderr) == (0, "")
        for arguments in (["evaluate", answers], ["compare", "old", "new"]):
            found = _without_privileges(unprivileged, *arguments, "--home", home)
            assert (found.returncode, found.stderr) == (
                2, f"answerkey: {home}: you may not write to this folder; name another one with --home\n"
            )  # fmt: skip
    finally:
        for file in files:
            file.chmod(file.stat().st_mode | 0o200)


INTERRUPTED = """
import os, signal, sys

class Importing:
    @staticmethod
    def find_spec(name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Importing)
from answerkey.flows.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "module",
    ["answerkey.flows.cli.evaluate", "great_expectations"],
)
@pytest.mark.real
def test_a_command_that_is_stopped_while_it_imports_says_so(module, answers, tmp_path, home):
    words = ("evaluate", answers, "--metrics", "contains", "--no-page")
    process = finished([sys.executable, "-c", INTERRUPTED, module, *words])
    assert (process.returncode, process.stdout, process.stderr.splitlines()) == (
        130, "", ["answerkey: stopped; what was scored so far is kept, run the same command again"],
    )  # fmt: skip
