"""Traces from every kind of source, and rows that are not traces."""

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.traces.source import absolute, check_source, traces_in
from tests.tasks.staging_help import served


def read(source):
    """File name, row and id of every trace, and the rows that are not traces."""
    with duckdb.connect() as connection, TemporaryDirectory() as out:
        relation = traces_in(connection, source, Path(out))
        columns = "parse_filename(file), \"row\", json_extract_string(trace, '$.id')"
        query = f"SELECT {columns} FROM ({relation.query}) ORDER BY ALL"
        rows = connection.execute(query, relation.bound).fetchall()
        query = 'SELECT parse_filename(file), "row", why, text FROM read_parquet(?) WHERE why IS NOT NULL ORDER BY ALL'
        return rows, connection.execute(query, [relation.unread]).fetchall() if relation.unread else []


def ids(source):
    rows, unread = read(str(source))
    assert unread == []
    return [trace_id for _, _, trace_id in rows]


@pytest.fixture
def logs(tmp_path):
    """A folder with a file of each kind, one in a folder of its own, and one of no kind."""
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "a.jsonl").write_text('{"id": "a1"}\n{"id": "a2"}\n')
    (tmp_path / "logs" / "deep" / "b.ndjson").write_text('{"id": "b1"}')
    (tmp_path / "logs" / "notes.txt").write_text("no traces")
    with duckdb.connect() as connection:
        for name, more in (("p", "1 AS t"), ("q", "{'x': [1, NULL]} AS other")):
            file = tmp_path / "logs" / f"{name}.parquet"
            connection.execute(f"COPY (SELECT '{name}1' AS id, {more}) TO '{file}' (FORMAT parquet)")
    return tmp_path / "logs"


def test_files_folders_and_patterns(logs):
    assert ids(logs / "a.jsonl") == ["a1", "a2"]
    assert ids(logs / "p.parquet") == ["p1"]
    assert ids(logs / "*.jsonl") == ["a1", "a2"]
    assert ids(logs / "*.parquet") == ["p1", "q1"]
    assert sorted(ids(logs / "**" / "*.ndjson")) == ["b1"]
    assert sorted(ids(logs)) == ["a1", "a2", "b1", "p1", "q1"]


def test_rows_count_through_all_files_in_the_order_of_their_names(logs):
    (logs / "c.jsonl").write_text('\n{"id": "c1"}\n\n  \n{"id": "c2"}\n')
    assert read(str(logs / "*.jsonl"))[0] == [
        ("a.jsonl", 1, "a1"), ("a.jsonl", 2, "a2"), ("c.jsonl", 3, "c1"), ("c.jsonl", 4, "c2"),
    ]  # fmt: skip


def test_a_duckdb_table_with_a_column_of_any_name(tmp_path):
    file = tmp_path / "log's.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA s")
        connection.execute(
            'CREATE TABLE s."tra""ces" AS SELECT \'x\' AS id, 1.5 AS t, \'{"a": 1}\'::JSON AS "the whole"'
        )
    assert ids(f'{file}::s.tra"ces') == ["x"]
    with pytest.raises(duckdb.Error, match="nowhere"):
        read(f"{file}::nowhere")
    with pytest.raises(UserError, match="there is no such DuckDB file"):
        check_source(f"{tmp_path}/other.duckdb::t")


@pytest.fixture
def site(logs):
    """The folder behind an address."""
    with served(logs) as address:
        yield address


def test_an_address(site, logs):
    assert ids(f"{site}/a.jsonl") == ["a1", "a2"]
    assert ids(f"{site}/p.parquet") == ["p1"]
    (logs / "bad.jsonl").write_text('{"id": "x"}\nno\n')
    rows, unread = read(f"{site}/bad.jsonl")
    assert [row[2] for row in rows] == ["x"]
    assert unread == [("bad.jsonl", 2, "row 2 is not JSON", f"row 2 of {site}/bad.jsonl")]
    with pytest.raises(duckdb.Error, match="404"):
        read(f"{site}/nowhere.jsonl")


def test_a_token_in_an_address_is_kept_nowhere(site, logs):
    (logs / "bad.jsonl").write_text('{"id": "x"}\nno\n')
    secret = f"{site}/bad.jsonl?sig=canary"
    rows, unread = read(secret)
    assert [row[2] for row in rows] == ["x"]
    assert rows[0][0] == unread[0][0] == "bad.jsonl?…"
    assert unread[0][3] == f"row 2 of {site}/bad.jsonl?…"
    with pytest.raises(UserError) as error:
        check_source("https://me:canary@host/traces.csv?sig=canary")
    assert str(error.value).startswith("https://…@host/traces.csv?…: is of no known kind")


def test_rows_that_are_no_json_keep_their_text_and_their_line(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": "1"}\n')
    second.write_bytes(b'{"id": "2"}\n\nnot json\n{"id": "3"\n[1, 2]\n{"id": "4"}')
    rows, unread = read(str(tmp_path / "*.jsonl"))
    assert rows == [("a.jsonl", 1, "1"), ("b.jsonl", 2, "2"), ("b.jsonl", 5, None), ("b.jsonl", 6, "4")]
    assert [(file, row, text) for file, row, _, text in unread] == [
        ("b.jsonl", 3, "not json"),
        ("b.jsonl", 4, '{"id": "3"'),
    ]
    assert [why.split(":")[0] for _, _, why, _ in unread] == ["line 3 is not JSON", "line 4 is not JSON"]


@pytest.mark.parametrize("blank", ["\u00a0", "\u2028", "\x1c", "\u3000"])
def test_a_line_that_only_python_takes_for_a_blank_one_shifts_no_other(tmp_path, blank):
    file = tmp_path / "a.jsonl"
    file.write_text(f'{blank}\n\v\n{{"id": "2"}}\nno json\n', encoding="utf-8")
    rows, unread = read(str(file))
    assert [row[2] for row in rows] == ["2"]
    assert [(row, text) for _, row, _, text in unread] == [(1, blank), (3, "no json")]


def test_a_mark_of_the_byte_order_alone_in_its_line_shifts_no_other(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf\n{"id": "2"}\nno json\n')
    rows, unread = read(str(file))
    assert [row[2] for row in rows] == ["2"]
    assert [(row, text) for _, row, _, text in unread] == [(1, "\ufeff"), (3, "no json")]


def test_what_python_can_read_is_mended(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"id": "bom"}\r\n{"id": "byte\xff"}\r\n{"id": "half\\ud800"}\r\n{"id": "ok"}\r\n')
    assert sorted(ids(file)) == sorted(["bom", "byte\ufffd", "half\ufffd", "ok"])


def test_names_of_files_are_no_patterns(tmp_path):
    for name in ("x[1].jsonl", "x1.jsonl", "it's.jsonl"):
        (tmp_path / name).write_text(f'{{"id": "{name}"}}\n')
    assert ids(tmp_path / "x[1].jsonl") == ["x[1].jsonl"]
    assert ids(tmp_path / "it's.jsonl") == ["it's.jsonl"]
    assert sorted(ids(tmp_path)) == ["it's.jsonl", "x1.jsonl", "x[1].jsonl"]


def test_a_folder_without_logs_has_no_traces_yet(tmp_path):
    assert ids(tmp_path) == []


def test_invalid_sources(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    for source, said in (
        (tmp_path / "nowhere.jsonl", "there is no such file or folder, and no file fits it as a pattern"),
        (tmp_path / "*.jsonl", "there is no such file or folder, and no file fits it as a pattern"),
        (tmp_path / "a.csv", "is of no known kind; give JSONL or Parquet files, a folder"),
        ("https://host/traces.csv", "is of no known kind; give JSONL or Parquet"),
    ):
        with pytest.raises(UserError) as error:
            check_source(str(source))
        assert said in str(error.value)


def test_paths_are_those_of_the_rule_and_not_of_the_run(tmp_path):
    assert absolute("../logs/*.jsonl", tmp_path / "rules") == str(tmp_path / "logs" / "*.jsonl")
    assert absolute("/var/logs", tmp_path) == "/var/logs"
    assert absolute("s3://bucket/logs/*.parquet", tmp_path) == "s3://bucket/logs/*.parquet"
    assert absolute("log.duckdb::traces", tmp_path) == f"{tmp_path}/log.duckdb::traces"
