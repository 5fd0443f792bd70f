"""A row that was changed in any table is found and named, and so is a call that differs from the ledger."""

import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pytest

from answerkey.tasks.forget import forget
from answerkey.tasks.verify import verify
from answerkey.tasks.warehouse.content import PARTITIONS, write_checksums
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.warehouse import FILE
from tests.judge_server import JudgeServer
from tests.tasks.judging_help import judged, judged_home, wordy
from tests.tasks.staging_help import query, run, source_of

pytestmark = pytest.mark.nightly

NUMBERS = ("DOUBLE", "INTEGER", "BIGINT", "TIMESTAMPTZ", "BOOLEAN", "VARCHAR", "JSON")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A home with old reports and new ones: slices, clusters, labels, several answers to a question, corpus BLEU."""
    folder = tmp_path_factory.mktemp("verify") / "home"
    judged_home(folder)
    rows = [
        {
            "id": str(i), "answer": f"it is {i % 7} of {i}", "reference": f"it is {i} of {i}", "release": "several",
            "repeat": repeat, "lang": "de" if i % 2 else "en", "doc": str(i // 3), "label": i % 3 == 0,
        }
        for i in range(12) for repeat in (1, 2)
    ]  # fmt: skip
    paths = {"cluster": "doc", "label": "label"}
    source = source_of(folder, rows, paths=paths, slices=("lang",))
    run(Home(folder), source, ["exact_match", "bleu"])
    return folder


@pytest.fixture
def home(whole, tmp_path):
    return Home(shutil.copytree(whole, tmp_path / "home"))


def test_what_nobody_has_changed_is_as_it_was(whole):
    done = verify(Home(whole))
    assert [str(finding) for finding in done.findings] == []
    assert [(done.parts, done.reports)] == query(
        whole, "SELECT (SELECT count(*) FROM content_hashes), (SELECT count(*) FROM reports)"
    )
    fields = query(whole, "SELECT DISTINCT field FROM report_scores WHERE report_id = 'd/several/v1'")
    assert {"corpus_bleu", "match_pass@2", "match_pass^2", "correct"} <= {field for (field,) in fields}


def changed(connection, table, rng):
    """Change a value of one row at random, past all keys and checks; returns what."""
    connection.execute(f"CREATE TEMP TABLE plain AS FROM {table}")
    [(n,)] = connection.execute("SELECT count(*) FROM plain").fetchall()
    row = rng.randrange(n)
    for column, type_ in rng.sample(sorted(relations()[table].types.items()), len(relations()[table].types)):
        kind = next((one for one in NUMBERS if type_.startswith(one) and "[" not in type_), "")
        other = {
            "DOUBLE": f'"{column}" + 0.25', "INTEGER": f'"{column}" + 1', "BIGINT": f'"{column}" + 1',
            "TIMESTAMPTZ": f'"{column}" + INTERVAL 1 SECOND', "BOOLEAN": f'NOT "{column}"',
            "VARCHAR": f"""'x' || "{column}\"""", "JSON": """'{"x": 1}'""",
        }.get(kind)  # fmt: skip
        if not other:
            continue
        connection.execute(f'UPDATE plain SET "{column}" = {other} WHERE rowid = {row} AND "{column}" IS NOT NULL')
        if connection.execute(f"SELECT count(*) FROM (FROM plain EXCEPT ALL FROM {table})").fetchall() == [(1,)]:
            connection.execute(f"DROP TABLE {table}; CREATE TABLE {table} AS FROM plain; DROP TABLE plain")
            return f"{table}.{column} of row {row}"
    raise AssertionError(table)


def test_one_changed_value_in_any_table_is_found_and_named(home):
    rng, before = random.Random(), {table for (table,) in query(home, "SELECT DISTINCT table_name FROM content_hashes")}
    assert len(before) >= 14
    with duckdb.connect(str(home.local / FILE)) as connection:
        what = [changed(connection, table, rng) for table in PARTITIONS if table in before]
    found = {finding.table for finding in verify(home).findings}
    assert before - found == set(), what


def test_the_report_whose_number_was_changed_is_named(home):
    with duckdb.connect(str(home.local / FILE)) as connection:
        connection.execute(
            "UPDATE report_scores SET mean = 0.99 "
            "WHERE report_id = 'd/several/v1' AND metric = 'bleu' AND field = 'corpus_bleu' AND slice = 'lang=de'"
        )
        connection.execute(
            "UPDATE scores SET \"value\" = 0.5 WHERE report_id = 'd/several/v1' AND sample_id = '7' AND repeat = 2 "
            "AND metric = 'exact_match' AND field = 'match'"
        )
    scores, aggregates = (str(finding) for finding in verify(home).findings)
    for line, table in ((scores, "scores"), (aggregates, "report_scores")):
        assert re.fullmatch(rf"{table}: d/several/v1: of \d+ rows at least one was changed", line)


def test_a_report_that_was_signed_for_other_rows_is_named(home):
    with home.warehouse.writing() as connection:
        connection.execute("UPDATE report_scores SET mean = 0.99 WHERE report_id = 'd/several/v1'")
        write_checksums(connection, {"report_scores": ["d/several/v1"]})
    [finding] = verify(home).findings
    assert str(finding) == (
        "reports: d/several/v1: its content hash is not that of its row, scores, aggregates, answers and samples"
    )


def test_rows_that_come_go_or_are_doubled_are_found(home):
    with duckdb.connect(str(home.local / FILE)) as connection:
        connection.execute("DELETE FROM answers WHERE release = 'several' AND sample_id = '3' AND repeat = 1")
        connection.execute("INSERT INTO samples SELECT * FROM samples WHERE sample_id = '3' AND dataset = 'd'")
        connection.execute("INSERT INTO validations SELECT * REPLACE ('mine' AS run_id) FROM validations LIMIT 1")
    lines = [str(finding) for finding in verify(home).findings]
    assert any(
        line.startswith("answers: d/several/") and line.endswith(": 23 rows, and 24 were written") for line in lines
    )
    assert any(line.startswith("samples: d/") and line.endswith(": 13 rows, and 12 were written") for line in lines)
    assert "validations: mine: 1 rows that answerkey has not written" in lines
    assert "samples: dataset, dataset_version, sample_id: 1 rows have the key of another one" in lines


CHANGES = {
    "CREATE OR REPLACE VIEW report_metrics AS SELECT report_id, * REPLACE (0.999 AS mean) FROM report_scores":
        "report_metrics: view: it is not defined as answerkey defines it",
    "CREATE TABLE mine AS SELECT 1 AS n": "mine: table: answerkey does not make it",
    "CREATE SCHEMA x; CREATE VIEW x.reports AS SELECT 1 AS n": "x.reports: view: answerkey does not make it",
    "CREATE MACRO twice(a) AS a + a": "twice: macro: answerkey does not make it",
    "DROP VIEW latest_reports": "latest_reports: view: it is missing",
    "DROP VIEW facts; CREATE TABLE facts(n INT)": "facts: table: it is not defined as answerkey defines it",
    "DROP TABLE verdicts": "verdicts: table: it is missing",
    "ALTER TABLE reports DROP COLUMN message": "reports: table: it is not defined as answerkey defines it",
}  # fmt: skip


def test_what_is_defined_in_another_way_is_found(home):
    with duckdb.connect(str(home.local / FILE)) as connection:
        for change in CHANGES:
            connection.execute(change)
    assert sorted(str(finding) for finding in verify(home).findings) == sorted(CHANGES.values())


def test_a_lake_is_verified_and_forgets(lake, tmp_path):
    rows = [{"id": str(i), "answer": f"a {i}", "reference": f"a {i} b", "release": "r"} for i in range(4)]
    home = Home.parse(lake)
    run(home, source_of(tmp_path, rows), ["rouge_l"])
    assert verify(home).findings == ()
    with home.store.atomic_write("runs/dead/commit-0-answers.parquet") as of_killed_run:
        of_killed_run.write_text("a 2", encoding="utf-8")
    done = forget(home, "d", sample="2")
    assert list(home.store.files("runs")) == []
    assert (done.rows["answers"], done.rows["scores"], done.reports) == (1, 3, ("d/r/v1",))
    assert verify(home).findings == ()
    with home.warehouse.writing() as warehouse:
        warehouse.execute("CREATE OR REPLACE VIEW latest_reports AS SELECT * FROM reports")
        warehouse.execute("INSERT INTO reports SELECT * FROM reports")
        warehouse.execute("UPDATE report_scores SET mean = 0.5 WHERE field = 'f1'")
    lines = [str(finding) for finding in verify(home).findings]
    assert lines[0] == "latest_reports: view: it is not defined as answerkey defines it"
    assert "reports: d/r/v1: 2 rows, and 1 were written" in lines
    assert "reports: report_id: 1 rows have the key of another one" in lines
    assert "report_scores: d/r/v1: of 3 rows at least one was changed" in lines


@pytest.mark.parametrize("any_home", ["folder", pytest.param("lake", marks=pytest.mark.nightly)], indirect=True)
def test_a_call_that_is_another_one_in_the_ledger_is_named(any_home, tmp_path):
    rows = [
        {"id": str(i), "answer": f"a {i} {'wrong' if i else ''}", "reference": f"b {i}", "release": "r"} for i in (0, 1)
    ]
    source = source_of(tmp_path, rows)
    with JudgeServer(wordy) as server:
        options = judged(server.url, run="r", ledger=any_home.ledger)
        run(any_home, source, ["meaning_match"], options=options)
    done = verify(any_home)
    assert (done.findings, done.calls) == ((), 2)
    [(call_id, run_id), (other, _)] = query(
        any_home, "SELECT call_id, run FROM judge_calls ORDER BY started_at, call_id"
    )
    with any_home.warehouse.writing() as warehouse:
        warehouse.execute("UPDATE judge_calls SET tokens_in = tokens_in + 1 WHERE call_id = ?", [call_id])
        write_checksums(warehouse, {"judge_calls": [run_id]})
    spoil(any_home, other)
    tokens, reply = map(str, verify(any_home).findings)
    assert tokens.startswith(f"judge_calls: {run_id} call {call_id}: tokens_in is ")
    assert reply.startswith(f"judge_calls: {run_id} call {other}: reply is ")
    assert reply.endswith(", and 'other' there")


def test_calls_that_are_not_in_the_ledger_or_were_put_there_are_named(tmp_path):
    home = Home(tmp_path / "home")
    rows = [{"id": str(i), "answer": f"a {i} wrong", "reference": f"b {i}", "release": "r"} for i in range(5)]
    with JudgeServer(wordy) as server:
        options = judged(server.url, run="r", ledger=home.ledger)
        run(home, source_of(tmp_path, rows), ["meaning_match"], options=options)
    calls = [call for (call,) in query(home, "SELECT call_id FROM judge_calls ORDER BY started_at, call_id")]
    [(run_id,)] = query(home, "SELECT DISTINCT run FROM judge_calls")
    file = Path(home.ledger) / "judge.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM answerkey_calls WHERE call_id IN (?, ?)", calls[:2])
        connection.execute("CREATE TEMP TABLE forged AS SELECT * FROM answerkey_calls WHERE call_id = ?", calls[2:3])
        connection.execute("UPDATE forged SET call_id = 'forged', reply = 'yes', number = NULL")
        connection.execute("INSERT INTO answerkey_calls SELECT * FROM forged")
    assert [str(one) for one in verify(home).findings] == [
        f"ledger: {run_id}: 2 of its {len(calls)} calls are missing",
        f"ledger: {run_id}: call forged has a second reply to a request that had one",
    ]
    for part in Path(home.ledger).glob("judge*"):
        part.rename(tmp_path / part.name)
    done = verify(home)
    assert (done.findings, done.calls, done.uncompared) == ((), 0, len(calls))


def spoil(home, call_id):
    """Change a reply in the ledger itself."""
    if home.shared:
        with psycopg.connect(home.ledger.removeprefix("postgresql:")) as database:
            database.execute("UPDATE answerkey_calls SET reply = 'other' WHERE call_id = %s", [call_id])
        return
    with closing(sqlite3.connect(Path(home.ledger) / "judge.sqlite")) as connection, connection:
        connection.execute("UPDATE answerkey_calls SET reply = 'other' WHERE call_id = ?", [call_id])
