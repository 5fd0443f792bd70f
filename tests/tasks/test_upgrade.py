"""A warehouse that an older release made is read as it is, and gets the new columns when it is written to."""

import hashlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answerkey.metrics_core.registry import create
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.report import list_reports, read_reports
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.staging_help import jsonl, query, rows_of, run, stage

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


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A home with a report, in the tables of the older release."""
    run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", ROWS[:3])), ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        connection.execute(
            "ALTER TABLE measurements RENAME TO new_measurements; ALTER TABLE reports RENAME TO new_reports"
        )
        connection.execute("DROP VIEW latest_reports; DROP VIEW facts; DROP VIEW report_facts; DROP TABLE judge_calls")
        connection.execute(OLD_TABLES)
        connection.execute("INSERT INTO measurements SELECT * EXCLUDE (requests, from_ledger) FROM new_measurements")
        connection.execute("INSERT INTO reports SELECT * EXCLUDE message FROM new_reports")
        connection.execute("DROP TABLE new_measurements; DROP TABLE new_reports")
    return tmp_path


def columns(home: Path, table: str) -> list[str]:
    return [name for (name,) in query(home, f"SELECT column_name FROM (DESCRIBE {table})")]


def test_an_old_report_is_read_before_anything_is_written(old: Path) -> None:
    assert "message" not in columns(old, "reports")
    [report] = read_reports(Home(old), ["d/r/v1"])
    assert (report.status, report.message, report.n_total) == ("COMPLETE", None, 3)
    assert [report_id for report_id, *_ in list_reports(Home(old))] == ["d/r/v1"]


def test_a_run_adds_the_columns_and_keeps_the_rows(old: Path) -> None:
    with Home(old).warehouse.writing():
        pass
    # What stood there has nothing in them, which is neither no requests nor no message.
    assert columns(old, "measurements")[-3:] == ["created_at", "requests", "from_ledger"]
    assert columns(old, "reports")[-1] == columns(old, "latest_reports")[-1] == "message"
    assert query(old, "SELECT requests, from_ledger FROM measurements") == [(None, None)] * 3
    assert query(old, "SELECT count(*) FROM judge_calls") == query(old, "SELECT count(*) FROM report_facts") == [(0,)]


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


def test_a_part_that_an_older_release_left_is_not_taken(tmp_path: Path) -> None:
    """A run of it was killed: the part lies where that release put it, and has fewer columns."""
    loaded = stage(tmp_path / "staged", ROWS)
    [metric] = create(["rouge_l"])
    keys = [row["sample_key"] for row in sorted(rows_of(loaded.staged), key=lambda row: str(row["sample_id"]))]
    fingerprint = hashlib.md5("".join(keys).encode()).hexdigest()
    part = tmp_path / "parts" / content_hash([metric.signature, fingerprint]) / "0-4.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.table({"sample_key": keys, "signature": [metric.signature] * 4}), part)
    done = run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", ROWS)), ["rouge_l"])
    assert [(report.status, report.message) for report in done.reports] == [("COMPLETE", None)]
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(4,)]
