"""A lake of an older version is migrated, whole or not at all, and the state before can be read, or brought back."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import latest_run, read_reports
from answerkey.tasks.warehouse import lake as lakes
from answerkey.tasks.warehouse import migrate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.lake import CATALOG
from answerkey.tasks.warehouse.migrate import VERSION
from tests.cluster_servers import Postgres, postgres_binaries
from tests.tasks.staging_help import jsonl, query, run
from tests.tasks.warehouse.test_migrate import OLD, ROWS

MIGRATIONS = "SELECT snapshot_id, commit_message FROM ducklake_snapshots('lake') WHERE commit_message IS NOT NULL"


@pytest.fixture
def old(lake: str, tmp_path: Path) -> Home:
    """A lake with a report, in tables of the first version."""
    home = Home.parse(lake)
    run(home, Source(jsonl(tmp_path / "d.jsonl", ROWS[:3])), ["rouge_l"])
    with home.warehouse.writing() as warehouse:
        warehouse.execute("DROP VIEW report_answers; DROP VIEW latest_reports; DROP VIEW sample_scores;" + OLD)
    return home


def test_a_reader_migrates_and_the_state_before_can_be_read(old: Home, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "answerkey"):
        [report] = read_reports(old, ["d/r/v1"])
    assert (report.status, report.n_total) == ("COMPLETE", 3)
    assert (report.answers_version, report.run_id) == (report.manifest["answers_version"], report.manifest["run_id"])
    assert query(old, "SELECT version FROM schema_version") == [(VERSION,)]
    [(now, said)] = query(old, MIGRATIONS)
    assert said == f"tables of version 1 become version {VERSION}; the state before is number {now - 1}"
    assert caplog.messages == [f"{old}: {said}, which can be read for 30 days"]
    before = {name for name, *_ in query(old, f"DESCRIBE SELECT * FROM reports AT (VERSION => {now - 1})")}
    after = {name for name, *_ in query(old, "DESCRIBE reports")}
    assert after - before == {"answers_version", "run_id", "content_hash"} and before < after
    assert query(old, f"SELECT report_id FROM reports AT (VERSION => {now - 1})") == [("d/r/v1",)]


def test_a_migrated_lake_has_the_tables_of_a_new_one(old: Home, tmp_path: Path) -> None:
    run(old, Source(jsonl(tmp_path / "d.jsonl", ROWS)), ["rouge_l"])
    new = Home(tmp_path / "new")
    with new.warehouse.writing():
        pass
    columns = (
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_catalog = current_catalog() ORDER BY ALL"
    )
    of_a_file = query(new, columns)
    assert of_a_file and query(old, columns) == of_a_file
    assert query(old, "SELECT report_id, version FROM latest_reports") == [("d/r/v2", 2)]
    # The rows of the old version are known, and only the new one is scored.
    assert query(old, "SELECT count(*), count(DISTINCT run_id) FROM measurements") == [(4, 2)]


def test_a_migration_that_fails_leaves_the_lake_as_it_was(old: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_migration", lambda number: "ALTER TABLE reports ADD COLUMN x INT; SELECT nothing")
    with pytest.raises(duckdb.BinderException), old.warehouse.writing():
        pass
    monkeypatch.undo()
    assert latest_run(old) == ["d/r/v1"]
    assert "x" not in {name for name, *_ in query(old, "DESCRIBE reports")}


def test_killed_within_a_migration_the_next_session_does_it_again(old: Home) -> None:
    script = (
        "import os, sys; from answerkey.tasks.warehouse import migrate, lake\n"
        "from answerkey.tasks.warehouse.home import Home\n"
        "def killed(connection): migrate.migrate(connection); os.kill(os.getpid(), 9)\n"
        "lake.migrate = killed\n"
        "with Home.parse(sys.argv[1]).warehouse.writing(): pass"
    )
    assert subprocess.run([sys.executable, "-c", script, old.address], check=False).returncode == -9
    assert latest_run(old) == ["d/r/v1"]
    assert len(query(old, MIGRATIONS)) == 1


@pytest.mark.slow
def test_several_processes_migrate_once(old: Home) -> None:
    script = (
        "import sys; from answerkey.tasks.reports.report import latest_run\n"
        "from answerkey.tasks.warehouse.home import Home\n"
        "sys.stdin.readline(); print(latest_run(Home.parse(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, old.address]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate("go\n", timeout=250)[0] for process in processes] == ["['d/r/v1']\n"] * 3
    assert len(query(old, MIGRATIONS)) == 1


@pytest.mark.slow
def test_a_dump_of_the_catalog_brings_the_old_version_back(
    old: Home, postgres_server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(name: str, *arguments: object) -> None:
        subprocess.run([postgres_binaries() / name, *map(str, arguments)], check=True, env=dict(os.environ))

    dump = tmp_path / "catalog"
    program("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={os.environ[CATALOG].removeprefix('postgres:')}")
    with monkeypatch.context() as older, postgres_server.database() as restored:
        run(old, Source(jsonl(tmp_path / "d.jsonl", ROWS)), ["rouge_l"])
        program("pg_restore", "--no-owner", f"--dbname={restored}", dump)
        older.setenv(CATALOG, f"postgres:{restored}")
        older.setattr(lakes, "VERSION", 1)
        assert query(old, "SELECT report_id FROM reports") == [("d/r/v1",)]
        assert "run_id" not in {name for name, *_ in query(old, "DESCRIBE reports")}
        assert query(old, "SELECT count(*) FROM measurements") == [(3,)]
        lakes._open.clear()
