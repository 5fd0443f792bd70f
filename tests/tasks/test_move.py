"""Homes are moved between a folder and a bucket, and copied while others write: what is there is what was."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import COLUMNS, Budget, Spent, open_ledger
from answerkey.tasks.backup import backup
from answerkey.tasks.move import _SQL, _content, move
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.reports.report import latest_run, read_reports
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.home import Home
from tests.tasks.judging_help import judged_home
from tests.tasks.staging_help import query, refusal

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return judged_home(tmp_path_factory.mktemp("move") / "home").local


@pytest.fixture
def source(made, tmp_path):
    """A home with rows in most tables, generated answers, a page, a part and a ledger."""
    folder = shutil.copytree(made, tmp_path / "source")
    for name, content in {
        "pages/faq/страница 1.html": "<p>5 > 4</p>",
        "parts/00/x.parquet": "\x00\xff" * 70_000,
        "answers/faq/r/answers.jsonl": "{}",
        "answers/faq/r/answers.manifest.json": "{}",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "parts/00/y.parquet.123.part").write_text("unfinished")
    return Home.parse(folder)


def contents(home):
    with home.warehouse.reading() as connection:
        return {table: _content(table, connection) for (table,) in connection.execute(_SQL["tables"]).fetchall()}


def files(home):
    names = [file.name for folder in ("pages", "parts", "answers") for file in home.store.files(folder)]
    return {name: home.store.read(name).read() for name in names if not name.endswith((".part", ".lock"))}


def calls(home):
    with closing(open_ledger(home.ledger)) as ledger:
        found = list(ledger.calls())
        return [*found, *(ledger.spent(run) for run in sorted({row[COLUMNS.index("run")] for row in found}))]


def same(one, other):
    assert contents(one) == contents(other)
    assert files(one) == files(other)
    assert calls(one) == calls(other)


def test_a_home_goes_to_a_bucket_and_comes_back(source, lake, tmp_path):
    before, target, back = contents(source), Home.parse(lake), Home.parse(tmp_path / "back")
    with closing(open_ledger(source.ledger)) as ledger:
        # One that was in flight when its process died, and one with a character that PostgreSQL does not have.
        for key in ("dead", "nul", "other", "another", "one more", "last"):
            assert ledger.claim(key)
            call = {"request_key": key, "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
            _, call_id = ledger.start(Budget(f"run {key}"), call, 0.5)
            if key != "dead":
                ledger.finish(call_id, "error", {"message": "a\0b", "cost_usd": 0.25})
    moved = move(source, target)
    assert {table: rows for table, (rows, _, _) in before.items()} == moved.tables
    assert sum(moved.tables.values()) > 100
    assert moved.files == len(files(source)) >= 4
    assert (contents(source), contents(target), files(target)) == (before, before, files(source))
    assert moved.calls == len([row for row in calls(source) if isinstance(row, tuple)]) > 5
    with source.warehouse.reading() as rows:
        ids = [one for (one,) in rows.execute("SELECT report_id FROM reports ORDER BY ALL").fetchall()]
    assert read_reports(target, ids) == read_reports(source, ids) != []
    assert move(target, back) == moved
    same(target, back)
    same(source, back)
    with closing(open_ledger(back.ledger)) as ledger:
        assert (ledger.spent("run dead"), ledger.spent("run nul")) == (Spent(1, 0.5), Spent(1, 0.25))


def test_what_is_in_the_way_is_said(source, tmp_path):
    assert "this is the home itself" in refusal(move, source, source)
    assert "no warehouse here yet" in refusal(move, Home.parse(tmp_path / "nothing"), Home.parse(tmp_path / "target"))
    assert not (tmp_path / "target").exists()
    target = Home.parse(tmp_path / "used")
    page = target.store.atomic_write("pages/mine.html")
    with page as file:
        file.write_text("mine")
    assert "there is the file pages/mine.html already; move to a home with nothing in it" in refusal(
        move, source, target
    )
    target.store.remove("pages/mine.html")
    with target.warehouse.writing():
        pass
    assert "there is tables already" in refusal(move, source, target)
    with target.warehouse.claimed("move"), pytest.raises(UserError, match="another process is moving a home to it"):
        move(source, target)


HELD_BEFORE_FILES = """
import sys
from answerkey.tasks import move
from answerkey.tasks.warehouse.home import Home

def wait(*_):
    print("the tables are there", flush=True)
    sys.stdin.readline()

move._copy_file = wait
move.move(Home.parse(sys.argv[1]), Home.parse(sys.argv[2]))
"""


def test_a_move_that_was_killed_goes_on_with_the_same_source_only(source, lake, tmp_path):
    with Home.parse(source.address).store.atomic_write("pages/large.html") as file:
        file.write_bytes(os.urandom(30_000_000))
    target = Home.parse(lake)
    command = [sys.executable, "-c", HELD_BEFORE_FILES, source.address, lake]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "the tables are there\n"
        process.send_signal(signal.SIGKILL)
    assert target.store.exists("moving.json")
    other = Home.parse(tmp_path / "other")
    with other.warehouse.writing():
        pass
    assert f"a move from {source.address} was begun and not finished" in refusal(move, other, target)
    move(source, target)
    assert not target.store.exists("moving.json")
    same(source, target)
    assert "already; move to a home with nothing in it" in refusal(move, source, target)


def test_a_table_that_changed_is_copied_again(source, tmp_path):
    target = Home.parse(tmp_path / "target")
    move(source, target)
    with target.warehouse.writing() as connection:
        connection.execute("UPDATE reports SET message = 'another'")
    with target.store.atomic_write("moving.json") as mark:
        mark.write_text(f'{{"from": "{source.address}"}}')
    with target.store.atomic_write("pages/faq/страница 1.html") as page:
        page.write_text("other")
    move(source, target)
    same(source, target)


# A copy that is made while others write is one state, and a home.


def test_a_backup_is_a_home_and_can_be_put_in_place_of_the_other(tmp_path):
    folder = tmp_path / "home"
    home, stop = judged_home(folder), threading.Event()
    (folder / "great_expectations/gx").mkdir(parents=True)
    (folder / "great_expectations/gx/great_expectations.yml").write_text("config_version: 4.0", encoding="utf-8")
    (folder / "answers").mkdir()
    (folder / "answers/unfinished.7.part").touch()
    newest = latest_run(home)

    def write():
        number = 0
        while not stop.is_set():
            start_run(home, f"run-{number}", "flow", "data", {})
            finish_run(home, f"run-{number}", "complete")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = backup(home, tmp_path / "backup")
    finally:
        stop.set()
        writer.join()
    assert (done.reports, done.files) == (2, 2) and done.calls > 0
    assert {file.name for file in (tmp_path / "backup/great_expectations").rglob("*.*")} == {
        "known.json", "great_expectations.yml",
    }  # fmt: skip
    assert not list((tmp_path / "backup").rglob("*.part"))
    assert latest_run(Home(tmp_path / "backup")) == newest
    assert verify(Home(tmp_path / "backup")).findings == ()
    assert not list(tmp_path.glob("*.part"))
    # What was made after it goes when it is put back.
    before = query(tmp_path / "backup", "SELECT count(*) FROM runs")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert query(folder, "SELECT count(*) FROM runs") == before
    start_run(home, "next", "flow", "data", {})
    assert query(folder, "SELECT count(*) FROM runs") == [(before[0][0] + 1,)]


def test_what_cannot_be_backed_up_is_said(tmp_path):
    assert "no warehouse here yet" in refusal(backup, Home(tmp_path / "none"), tmp_path / "backup")
    assert "answerkey warehouse move s3://bucket/home FOLDER" in refusal(
        backup, Home("s3://bucket/home"), tmp_path / "backup"
    )
