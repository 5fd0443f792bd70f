"""A warehouse of an older version is migrated, whole or not at all; one of a newer version is refused."""

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.migrate import VERSION, migrate, version_of
from answerkey.tasks.warehouse.warehouse import FILE
from tests.tasks.staging_help import run

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


def test_a_home_of_a_newer_version_is_refused(home, tmp_path):
    with home.warehouse.writing() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for session in (home.warehouse.reading, home.warehouse.writing):
        with pytest.raises(UserError) as error, session():
            pass
        assert str(error.value) == (
            f"{tmp_path}: written by a newer answerkey (its tables have version 99, this one supports {VERSION}); "
            "install the newer one, or give another --home"
        )


def test_the_tables_have_comments_and_keys(tmp_path):
    run(tmp_path, ROWS, ["rouge_l"])
    with duckdb.connect(str(tmp_path / FILE)) as connection:
        for what in ("columns", "views", "tables"):
            bare = f"SELECT count(*) FROM duckdb_{what}() WHERE NOT internal AND comment IS NULL"
            assert connection.execute(bare).fetchall() == [(0,)], what
        for wrong, why in (
            ("INSERT INTO report_scores SELECT * FROM report_scores", "Duplicate key"),
            ("UPDATE scores SET status = 'unknown'", "CHECK constraint"),
            ("UPDATE report_scores SET n_total = 5", "CHECK constraint"),
        ):
            with pytest.raises(duckdb.ConstraintException, match=why):
                connection.execute(wrong)
