"""Tables are those of schema.sql, older ones are migrated, newer ones refused; and the hashes of their content."""

import json
import re
from hashlib import md5
from pathlib import Path

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.content import (
    PARTITIONS,
    reports_with_other_checksums,
    write_checksums,
    write_report_checksums,
)
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.migrate import VERSION, migrate, version_of
from answerkey.tasks.warehouse.schema import definitions, relations
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.staging_help import run

ROOT = Path(__file__).resolve().parents[3]
COMMENTED = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"


def test_everything_has_a_comment(home):
    with home.warehouse.writing() as warehouse:
        columns = warehouse.execute(COMMENTED).fetchall()
        tables = warehouse.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall()
        views = warehouse.execute("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall()
    assert {name for name, _ in [*tables, *views]} == set(relations())
    assert [row for row in [*columns, *tables, *views] if not row[-1]] == []
    said = {(name, column): comment for name, column, comment in columns}
    assert said["reports", "report_id"] == "dataset/release/vN"
    assert said["report_slices", "unit"] == "what is independent: the cluster, or the question itself"


@pytest.mark.parametrize("constraints", [True, False])
def test_keys_and_checks_are_those_of_the_database_or_of_none(constraints):
    with duckdb.connect() as connection:
        connection.execute(definitions(constraints=constraints))
        query = "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints()"
        rows = [row for row in connection.execute(query).fetchall() if row[1] != "NOT NULL"]
    keys = {table: tuple(columns) for table, kind, columns in rows if kind == "PRIMARY KEY"}
    kept = {name: relation.key for name, relation in relations().items() if relation.keeps_key}
    assert keys == (kept if constraints else {})
    checks = sum(len(relation.checks) for relation in relations().values())
    assert len(rows) - len(keys) == (checks if constraints else 0)
    assert set(kept) >= {"report_scores", "comparisons", "runs"}
    # A row per answer: the index would take longer than the rest of the commit. Reports keep the order of their rows.
    assert {name for name, relation in relations().items() if relation.key and not relation.keeps_key} == {
        "samples", "answers", "measurements", "judge_calls", "reports", "scores", "trace_outcomes",
    }  # fmt: skip


ROWS = [{"id": str(i), "answer": f"a {i}", "reference": f"a {i} b", "release": "r"} for i in range(4)]
NEXT = "ALTER TABLE reports ADD COLUMN owner VARCHAR; UPDATE reports SET owner = 'team'"


def test_a_migration_is_whole_or_not_at_all(home, tmp_path):
    run(home, ROWS, ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        connection.execute("BEGIN")
        with pytest.raises(duckdb.BinderException):
            migrate(connection, [NEXT, "SELECT nothing"])
        connection.execute("ROLLBACK")
        assert version_of(connection) == 1
        assert "owner" not in [row[0] for row in connection.execute("DESCRIBE reports").fetchall()]
    assert verify(home).findings == ()
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        hashes = "SELECT table_name, part, n_rows, content_hash FROM content_hashes ORDER BY ALL"
        before = connection.execute(hashes).fetchall()
        connection.execute("DELETE FROM content_hashes")
        migrate(connection, [NEXT])
        migrate(connection, ["SELECT nothing"])
        assert version_of(connection) == 2
        assert connection.execute("SELECT report_id, owner FROM reports").fetchall() == [("d/r/v1", "team")]
        # Hashes of rows from before a column are made again.
        assert len(before) > 5
        assert connection.execute(hashes).fetchall() == before


def test_a_home_of_a_newer_version_is_refused(any_home):
    with any_home.warehouse.writing() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for session in (any_home.warehouse.reading, any_home.warehouse.writing):
        with pytest.raises(UserError) as error, session():
            pass
        assert str(error.value) == (
            f"{any_home}: written by a newer answerkey (its tables have version 99, this one supports {VERSION}); "
            "install the newer one, or give another --home"
        )


def test_the_tables_refuse_what_contradicts_their_keys_and_checks(tmp_path):
    run(tmp_path, ROWS, ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        for wrong, why in (
            ("INSERT INTO report_scores SELECT * FROM report_scores", "Duplicate key"),
            ("UPDATE scores SET status = 'unknown'", "CHECK constraint"),
            ("UPDATE report_scores SET n_total = 5", "CHECK constraint"),
        ):
            with pytest.raises(duckdb.ConstraintException, match=why):
                connection.execute(wrong)


# Content hashes: those of reports are made of their parts', and of no others.


REPORTS = """
INSERT INTO reports BY NAME
SELECT concat('d/r', i, '/v1') AS report_id, 'd' AS dataset, '1' AS dataset_version, concat('r', i) AS release,
       1 AS version, now() AS created_at, 'COMPLETE' AS status, '{}' AS manifest, 'a' AS answers_version,
       concat('run', i) AS run_id
FROM range(40) t(i)
"""
ANSWERS = """
INSERT INTO answers BY NAME
SELECT 'd' AS dataset, concat('r', i) AS release, 'a' AS answers_version, concat('s', i) AS sample_id, 1 AS repeat,
       concat('k', i) AS sample_key, 'It is.' AS answer
FROM range(40) t(i)
"""


def test_a_report_is_signed_from_its_own_parts_alone(tmp_path):
    home, profile = Home(tmp_path / "home"), tmp_path / "profile.json"
    with home.warehouse.writing() as warehouse:
        warehouse.execute(REPORTS)
        warehouse.execute(ANSWERS)
        write_checksums(warehouse, {"answers": [f"d/r{i}/a" for i in range(40)]})
        warehouse.execute(f"PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '{profile}'")
        write_report_checksums(warehouse, ["d/r5/v1", "d/r7/v1"])
        warehouse.execute("PRAGMA disable_profiling")
        signed = warehouse.execute("SELECT report_id, content_hash FROM reports WHERE content_hash IS NOT NULL")
        found = dict(signed.fetchall())
        assert len(reports_with_other_checksums(warehouse)) == 38
        lines = warehouse.execute(
            "SELECT concat_ws(' ', table_name, n_rows, content_hash) FROM content_hashes "
            "WHERE part IN ('d/r5/v1', 'd/r5/a') ORDER BY table_name"
        ).fetchall()
    assert sorted(found) == ["d/r5/v1", "d/r7/v1"] and PARTITIONS["scores"] == "report_id"
    assert [line.split()[0] for (line,) in lines] == ["answers", "reports"]
    assert found["d/r5/v1"] == md5("\n".join(line for (line,) in lines).encode()).hexdigest()
    # The last statement signed: no join compares every report with every hash, and each finds those of two reports.
    plan = profile.read_text()
    joins = set(re.findall(r'"(?:operator_type|operator_name)": "(\w*(?:JOIN|PRODUCT))\s*"', plan))
    assert joins == {"HASH_JOIN"}, json.loads(plan)
