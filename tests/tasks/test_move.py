"""Homes are moved between a folder and a bucket; what is there afterwards is what was there before."""

import gzip
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger_place import open_ledger
from answerkey.tasks.move import _content, _tables, move
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/fixtures/home_v1"


@pytest.fixture
def source(tmp_path: Path) -> Home:
    """A home with rows in most tables, registered answers, a page, a part and a ledger."""
    folder = tmp_path / "source"
    folder.mkdir()
    for packed in FIXTURE.glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    shutil.copytree(FIXTURE / "registered", folder / "registered")
    for name, content in {
        "pages/faq/страница 1.html": "<p>5 > 4</p>",
        "parts/00/x.parquet": "\x00\xff" * 70_000,
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "parts/00/y.parquet.123.part").write_text("unfinished")
    home = Home.parse(folder)
    with home.warehouse.writing():
        pass
    return home


def contents(home: Home) -> dict[str, tuple[int, int, int]]:
    with home.warehouse.reading() as connection:
        return {table: _content(table, connection) for table in _tables(connection)}


def files(home: Home) -> dict[str, bytes]:
    names = [file.name for folder in ("pages", "parts", "registered") for file in home.store.files(folder)]
    return {name: home.store.read(name).read() for name in names if not name.endswith((".part", ".lock"))}


def calls(home: Home) -> list[object]:
    with closing(open_ledger(home.ledger)) as ledger:
        return [*ledger.calls(), *ledger.budgets()]


def same(one: Home, other: Home) -> None:
    assert contents(one) == contents(other)
    assert files(one) == files(other)
    assert calls(one) == calls(other)


@pytest.mark.slow
def test_a_home_goes_to_a_bucket_and_comes_back(source: Home, lake: str, tmp_path: Path) -> None:
    before, target, back = contents(source), Home.parse(lake), Home.parse(tmp_path / "back")
    # Of the version of now: what an earlier one has left in flight is settled when it is first opened.
    open_ledger(source.ledger).close()
    with sqlite3.connect(Path(source.ledger) / "judge.sqlite") as ledger:
        # One that was in flight when its process died, and one with a character that PostgreSQL does not have.
        ledger.execute("UPDATE calls SET status = 'sent', reserved = 0.5, reply = NULL WHERE rowid = 1")
        ledger.execute("UPDATE budgets SET in_flight = 1, reserved = 0.5")
        ledger.execute("UPDATE calls SET message = 'a' || char(0) || 'b' WHERE rowid = 2")
    moved = move(source, target)
    assert {table: rows for table, (rows, _, _) in before.items()} == moved.tables
    assert sum(moved.tables.values()) > 100
    assert moved.files == len(files(source)) >= 4
    assert (contents(source), contents(target), files(target)) == (before, before, files(source))
    assert moved.calls == len([row for row in calls(source) if len(row) > 2]) > 5  # type: ignore[arg-type]
    with source.warehouse.reading() as rows:
        ids = [one for (one,) in rows.execute("SELECT report_id FROM reports ORDER BY ALL").fetchall()]
    assert read_reports(target, ids) == read_reports(source, ids) != []
    assert move(target, back) == moved
    same(target, back)
    # The call in flight counts as spent in the copy, with the most that it may cost.
    with closing(open_ledger(source.ledger)) as mine, closing(open_ledger(back.ledger)) as theirs:
        for run, spent in theirs.budgets():
            assert spent == replace(mine.spent(run), cost_usd=mine.spent(run).cost_usd + 0.5)
        pairs = list(zip(mine.calls(), theirs.calls(), strict=True))
        assert [(old, new) for old, new in pairs if old != new] == [
            (old, tuple("a\ufffdb" if value == "a\0b" else value for value in old)) for old, _ in pairs if "a\0b" in old
        ]


def test_what_is_in_the_way_is_said(source: Home, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this is the home itself"):
        move(source, source)
    with pytest.raises(UserError, match="no warehouse here yet"):
        move(Home.parse(tmp_path / "nothing"), Home.parse(tmp_path / "target"))
    assert not (tmp_path / "target").exists()
    target = Home.parse(tmp_path / "used")
    page = target.store.whole("pages/mine.html")
    with page as file:
        file.write_text("mine")
    with pytest.raises(
        UserError, match=r"there is the file pages/mine\.html already; move to a home with nothing in it"
    ):
        move(source, target)
    target.store.remove("pages/mine.html")
    with target.warehouse.writing():
        pass
    with pytest.raises(UserError, match="there is tables already"):
        move(source, target)
    with target.warehouse.claimed("move"), pytest.raises(UserError, match="another process moves a home to it"):
        move(source, target)


@pytest.mark.slow
def test_a_move_that_was_killed_goes_on_with_the_same_source_only(source: Home, lake: str, tmp_path: Path) -> None:
    with Home.parse(source.address).store.whole("pages/large.html") as file:
        file.write_bytes(os.urandom(30_000_000))
    script = "import sys; from answerkey.tasks.move import move; from answerkey.tasks.warehouse.home import Home\n"
    script += "move(Home.parse(sys.argv[1]), Home.parse(sys.argv[2]))"
    target = Home.parse(lake)
    with subprocess.Popen([sys.executable, "-c", script, source.address, lake], cwd=ROOT) as process:
        while not any(rows for rows, _, _ in (contents(target) if target.warehouse.exists() else {}).values()):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert target.store.exists("moving.json")
    other = Home.parse(tmp_path / "other")
    with other.warehouse.writing():
        pass
    with pytest.raises(UserError, match=f"a move from {source.address} was begun and not finished"):
        move(other, target)
    move(source, target)
    assert not target.store.exists("moving.json")
    same(source, target)
    with pytest.raises(UserError, match="already; move to a home with nothing in it"):
        move(source, target)


def test_a_table_that_changed_is_copied_again(source: Home, tmp_path: Path) -> None:
    target = Home.parse(tmp_path / "target")
    move(source, target)
    with target.warehouse.writing() as connection:
        connection.execute("UPDATE reports SET message = 'another'")
    with target.store.whole("moving.json") as mark:
        mark.write_text(f'{{"from": "{source.address}"}}')
    with target.store.whole("pages/faq/страница 1.html") as page:
        page.write_text("other")
    move(source, target)
    same(source, target)
