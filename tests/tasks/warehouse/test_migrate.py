"""A warehouse of an older version is migrated, whole or not at all, and reads the same."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import latest_run, list_reports, read_reports
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse import migrate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.migrate import VERSION, version_of
from answerkey.tasks.warehouse.sql import text
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.staging_help import jsonl, query, run

# As they stood before judges: these two tables have got columns since.
OLD_TABLES = """
CREATE TABLE measurements (
    sample_key  VARCHAR NOT NULL,
    signature   VARCHAR NOT NULL,
    metric      VARCHAR NOT NULL,
    status      VARCHAR NOT NULL,
    "values"    MAP(VARCHAR, DOUBLE),
    reason      VARCHAR,
    details     JSON,
    attempts    INTEGER NOT NULL,
    seconds     DOUBLE NOT NULL,
    tokens_in   BIGINT NOT NULL,
    tokens_out  BIGINT NOT NULL,
    cost_usd    DOUBLE,
    run_id      VARCHAR NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL
);
CREATE TABLE reports (
    report_id       VARCHAR NOT NULL,
    dataset         VARCHAR NOT NULL,
    dataset_version VARCHAR NOT NULL,
    release         VARCHAR NOT NULL,
    version         INTEGER NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    status          VARCHAR NOT NULL,
    manifest        JSON NOT NULL
);
CREATE VIEW latest_reports AS
SELECT * FROM reports QUALIFY row_number() OVER (PARTITION BY dataset, release ORDER BY version DESC) = 1;
"""
ROWS = [{"id": str(i), "answer": f"a {i}", "reference": f"a {i} b", "release": "r"} for i in range(4)]


COPY = "answerkey.version-1.duckdb"
OLD = """
DROP TABLE content_hashes; DROP TABLE removals; ALTER TABLE reports DROP content_hash;
ALTER TABLE reports DROP answers_version; ALTER TABLE reports DROP run_id; DROP TABLE schema_version;
ALTER TABLE report_scores DROP n_clusters; ALTER TABLE comparisons DROP n_clusters;
ALTER TABLE comparisons DROP n_candidates; ALTER TABLE comparisons DROP mde_note;
ALTER TABLE comparisons DROP n_unanswered; ALTER TABLE comparisons DROP low_with_unanswered;
ALTER TABLE comparisons DROP family; ALTER TABLE answers DROP context; ALTER TABLE samples DROP incorrect_references;
ALTER TABLE report_scores DROP n_questions; ALTER TABLE report_scores DROP within_variance;
ALTER TABLE verdicts DROP look; ALTER TABLE verdicts DROP n_candidates; ALTER TABLE verdicts DROP level;
"""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A home with a report, in tables of the first version."""
    run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", ROWS[:3])), ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        without_keys(connection)
        connection.execute("DROP VIEW report_answers; DROP VIEW latest_reports; DROP VIEW sample_scores;" + OLD)
    return tmp_path


def without_keys(connection: duckdb.DuckDBPyConnection) -> None:
    """Make all tables again, without their keys and checks."""
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(
            f"CREATE TABLE plain AS FROM {table}; DROP TABLE {table}; ALTER TABLE plain RENAME TO {table}"
        )


@pytest.fixture
def old(first: Path) -> Path:
    """As `first`, in the tables of a release of the first version that had no judges."""
    with duckdb.connect(str(first / FILE)) as connection:
        connection.execute(
            "ALTER TABLE measurements RENAME TO new_measurements; ALTER TABLE reports RENAME TO new_reports"
        )
        connection.execute("DROP VIEW facts; DROP VIEW report_facts; DROP TABLE judge_calls")
        connection.execute(OLD_TABLES)
        connection.execute("INSERT INTO measurements SELECT * EXCLUDE (requests, from_ledger) FROM new_measurements")
        connection.execute("INSERT INTO reports SELECT * EXCLUDE message FROM new_reports")
        connection.execute("DROP TABLE new_measurements; DROP TABLE new_reports")
    return first


def columns(home: Path, table: str) -> list[str]:
    return [name for (name,) in query(home, f"SELECT column_name FROM (DESCRIBE {table})")]


def state(home: Path) -> list[tuple[Any, ...]]:
    """Every table and view with its columns, in order."""
    return query(
        home, "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL"
    ) + query(home, "SELECT table_name, column_name FROM information_schema.columns ORDER BY 1, ordinal_position")


def version(home: Path) -> int:
    [(found,)] = query(home, "SELECT version FROM schema_version")
    return int(found)


def test_a_reader_migrates_and_a_copy_stays_as_it_was(old: Path) -> None:
    assert "message" not in columns(old, "reports")
    [report] = read_reports(Home(old), ["d/r/v1"])
    assert (report.status, report.message, report.n_total) == ("COMPLETE", None, 3)
    assert (report.answers_version, report.run_id) == (report.manifest["answers_version"], report.manifest["run_id"])
    assert [report_id for report_id, *_ in list_reports(Home(old))] == ["d/r/v1"]
    assert version(old) == VERSION
    with duckdb.connect(str(old / COPY), read_only=True) as connection:
        assert connection.execute("SELECT report_id FROM reports").fetchall() == [("d/r/v1",)]
        assert version_of(connection) == 1


def test_a_writer_adds_the_columns_and_keeps_the_rows(old: Path) -> None:
    with Home(old).warehouse.writing():
        pass
    # Old rows have NULL there, which means neither "no requests" nor "no message".
    assert columns(old, "measurements")[-3:] == ["created_at", "requests", "from_ledger"]
    assert (
        columns(old, "reports")[-3:]
        == columns(old, "latest_reports")[-3:]
        == ["answers_version", "run_id", "content_hash"]
    )
    assert query(old, "SELECT requests, from_ledger FROM measurements") == [(None, None)] * 3
    assert query(old, "SELECT count(*) FROM judge_calls") == query(old, "SELECT count(*) FROM report_facts") == [(0,)]


@pytest.mark.parametrize("home", ["first", "old"])
def test_a_migrated_home_has_the_tables_of_a_new_one(home: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    migrated, new = request.getfixturevalue(home), tmp_path / "new"
    for one in (migrated, new):
        with Home(one).warehouse.writing():
            pass
    assert state(migrated) == state(new)


def test_a_migrated_home_has_keys_comments_and_hashes(first: Path) -> None:
    latest_run(Home(first))
    assert query(first, "SELECT count(*) FROM duckdb_columns() WHERE NOT internal AND comment IS NULL") == [(0,)]
    assert query(first, "SELECT count(*) FROM duckdb_tables() WHERE comment IS NULL") == [(0,)]
    assert query(first, "SELECT count(*) FROM duckdb_views() WHERE NOT internal AND comment IS NULL") == [(0,)]
    said = "SELECT comment FROM duckdb_columns() WHERE column_name = 'coverage' AND table_name = "
    assert (
        query(first, f"{said} 'report_metrics'") == query(first, f"{said} 'report_scores'") == [("n_scored / n_total",)]
    )
    [(hashed,)] = query(first, "SELECT content_hash FROM reports")
    assert re.fullmatch("[0-9a-f]{32}", hashed)
    parts = query(first, "SELECT table_name, n_rows FROM content_hashes ORDER BY ALL")
    expected = {"answers": 3, "datasets": 1, "measurements": 3, "report_scores": 3, "reports": 1, "samples": 3}
    assert set((expected | {"scores": 9}).items()) <= set(parts)
    for wrong, why in (
        ("INSERT INTO report_scores SELECT * FROM report_scores", "Duplicate key"),
        ("UPDATE scores SET status = 'unknown'", "CHECK constraint"),
        ("UPDATE report_scores SET n_total = 5", "CHECK constraint"),
    ):
        with pytest.raises(duckdb.ConstraintException, match=why), Home(first).warehouse.writing() as warehouse:
            warehouse.execute(wrong)


@pytest.mark.parametrize(
    ("table", "why"),
    [("report_scores", "Constraint Error: "), ("reports", "d/r/v1 is there 2 times; remove them with")],
)
def test_rows_that_contradict_themselves_are_named_and_stay(first: Path, table: str, why: str) -> None:
    with duckdb.connect(str(first / FILE)) as connection:
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table}")
    before = state(first)
    with pytest.raises(UserError) as error:
        latest_run(Home(first))
    assert str(error.value).startswith(
        f"the table {table} has rows that contradict themselves, so it cannot become version {VERSION}, and was left "
        f"as it is: {why}"
    )
    assert state(first) == before


def test_one_copy_and_no_second_migration(first: Path) -> None:
    latest_run(Home(first))
    (first / COPY).unlink()
    assert latest_run(Home(first)) == ["d/r/v1"]
    with Home(first).warehouse.writing():
        pass
    assert not (first / COPY).exists()


def test_hashes_of_scores_that_had_the_id_of_the_report_in_them_are_made_again(tmp_path: Path) -> None:
    run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", ROWS)), ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        connection.execute("UPDATE content_hashes SET content_hash = md5(part) WHERE table_name = 'scores'")
        connection.execute("UPDATE schema_version SET version = 7")
    assert verify(Home(tmp_path)).findings == ()
    assert version(tmp_path) == VERSION


def test_a_migration_that_fails_leaves_the_home_as_it_was(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(first)
    monkeypatch.setattr(migrate, "_migration", lambda number: "ALTER TABLE reports ADD COLUMN x INT; SELECT nothing")
    with pytest.raises(duckdb.BinderException), Home(first).warehouse.writing():
        pass
    assert state(first) == before
    monkeypatch.undo()
    assert latest_run(Home(first)) == ["d/r/v1"]


def test_killed_within_a_migration_the_next_session_does_it_again(first: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from answerkey.tasks.warehouse import migrate, warehouse\n"
        "from answerkey.tasks.warehouse.home import Home\n"
        "def killed(connection): migrate.migrate(connection); os.kill(os.getpid(), 9)\n"
        "warehouse.migrate = killed\n"
        "with Home(Path(sys.argv[1])).warehouse.writing(): pass"
    )
    assert subprocess.run([sys.executable, "-c", script, str(first)], check=False).returncode == -9
    with duckdb.connect(str(first / FILE), read_only=True) as connection:
        assert version_of(connection) == 1
    assert (first / COPY).exists()
    assert latest_run(Home(first)) == ["d/r/v1"]


def test_several_processes_migrate_once(first: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from answerkey.tasks.reports.report import latest_run\n"
        "from answerkey.tasks.warehouse.home import Home\n"
        "sys.stdin.readline(); print(latest_run(Home(Path(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", script, str(first)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate("go\n", timeout=250)[0] for process in processes] == ["['d/r/v1']\n"] * 3
    assert version(first) == VERSION


def test_a_home_of_a_newer_version_is_refused(first: Path) -> None:
    latest_run(Home(first))
    with duckdb.connect(str(first / FILE)) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for session in (Home(first).warehouse.reading, Home(first).warehouse.writing):
        with pytest.raises(UserError) as error, session():
            pass
        assert str(error.value) == (
            f"{first}: written by a newer answerkey (its tables have version 99, this one supports {VERSION}); "
            "install the newer one, or give another --home"
        )


def test_a_change_of_the_tables_needs_a_new_version() -> None:
    statements = re.sub(r"\s*--.*", "", text("answerkey.tasks.warehouse", "schema.sql"))
    digest = hashlib.sha256(" ".join(statements.split()).encode()).hexdigest()
    assert (VERSION, digest[:16]) == (8, "68d270c90fa281c6")


@pytest.mark.parametrize("failing", [set(), {"rouge_l"}])
def test_the_first_run_after_the_upgrade_goes_on_where_the_old_one_ended(old: Path, failing: set[str]) -> None:
    done = run(old, Source(jsonl(old / "d.jsonl", ROWS)), ["rouge_l"], failing=failing)
    assert dict(done.plan.n_known) == {"rouge_l": 3}
    assert done.ids == ["d/r/v2"]
    found = query(old, "SELECT status, requests, from_ledger FROM measurements ORDER BY created_at, sample_key")
    assert found == [("scored", None, None)] * 3 + [("failed" if failing else "scored", [], False)]
    message = "rouge_l: 1 of 4 not scored: 1 task" if failing else None
    assert query(old, "SELECT version, message FROM latest_reports") == [(2, message)]
    assert query(old, "SELECT version, status, message FROM reports WHERE version = 1") == [(1, "COMPLETE", None)]
