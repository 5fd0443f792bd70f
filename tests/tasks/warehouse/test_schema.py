"""What schema.sql says is what the database and the documentation say."""

from pathlib import Path

import duckdb
import pytest

from answerkey.tasks.warehouse.schema import definitions, relations

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
