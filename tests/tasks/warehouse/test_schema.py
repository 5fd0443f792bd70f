"""Tables are those of schema.sql, and those of another version are refused."""

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.schema import VERSION, definitions, relations
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.staging_help import run

COMMENTED = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"


def test_everything_has_a_comment(home):
    with home.warehouse.writing() as warehouse:
        columns = warehouse.execute(COMMENTED).fetchall()
        tables = warehouse.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall()
        views = warehouse.execute("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall()
    assert {name for name, _ in [*tables, *views]} == set(relations())
    assert [row for row in [*columns, *tables, *views] if not row[-1]] == []
    comment_by_column = {(name, column): comment for name, column, comment in columns}
    assert comment_by_column["reports", "report_id"] == "dataset/release/vN"
    assert comment_by_column["report_slices", "unit"] == "what is independent: the cluster, or the question itself"


@pytest.mark.parametrize("constraints", [True, False])
def test_keys_and_checks_are_those_of_the_database_or_of_none(constraints):
    with duckdb.connect() as connection:
        connection.execute(definitions(constraints=constraints))
        query = "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints()"
        rows = [row for row in connection.execute(query).fetchall() if row[1] != "NOT NULL"]
    keys = {table: tuple(columns) for table, kind, columns in rows if kind == "PRIMARY KEY"}
    declared_keys = {name: relation.key for name, relation in relations().items() if relation.keeps_key}
    assert keys == (declared_keys if constraints else {})
    assert (len(rows) > len(keys)) is constraints
    assert set(declared_keys) >= {"report_scores", "comparisons", "runs"}
    # A row per answer: the index would take longer than the rest of the commit. Reports keep the order of their rows.
    assert {name for name, relation in relations().items() if relation.key and not relation.keeps_key} == {
        "samples", "answers", "measurements", "judge_calls", "reports", "scores", "trace_outcomes",
    }  # fmt: skip


ROWS = [{"id": str(i), "answer": f"a {i}", "reference": f"a {i} b", "release": "r"} for i in range(4)]


def test_a_home_of_another_version_is_refused(any_home):
    with any_home.warehouse.writing() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for session in (any_home.warehouse.reading, any_home.warehouse.writing):
        with pytest.raises(UserError) as error, session():
            pass
        assert str(error.value) == (
            f"{any_home}: written by another version of answerkey (its tables have version 99, this one supports "
            f"{VERSION}); install that one, or give another --home"
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
