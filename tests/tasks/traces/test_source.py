"""Traces from every kind of source, and rows that are not traces."""

from pathlib import Path

import duckdb
import pytest

from answerkey.tasks.traces.source import absolute, check_source, traces_in
from tests.tasks.staging_help import refusal, served


@pytest.fixture
def read(tmp_path_factory):
    """Reads a source: file name, row and id of every trace, and the rows that are not traces."""

    def read(source):
        with duckdb.connect() as connection:
            relation = traces_in(connection, str(source), tmp_path_factory.mktemp("out"))
            columns = "parse_filename(file), \"row\", json_extract_string(trace, '$.id')"
            rows = connection.execute(
                f"SELECT {columns} FROM ({relation.query}) ORDER BY ALL", relation.bound
            ).fetchall()
            unread = "SELECT parse_filename(file), \"row\", split_part(why, ':', 1), text FROM read_parquet(?) "
            unread += "WHERE why IS NOT NULL ORDER BY ALL"
            return rows, connection.execute(unread, [relation.unread]).fetchall() if relation.unread else []

    return read


@pytest.fixture
def ids(read):
    """Reads a source of which every row is a trace: their ids."""

    def ids(source):
        rows, unread = read(source)
        assert unread == []
        return [trace_id for *_, trace_id in rows]

    return ids


@pytest.fixture
def logs(tmp_path):
    """A folder with a file of each kind, one in a folder of its own, and one of no kind."""
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"id": "a1"}\n{"id": "a2"}\n')
    (folder / "c.jsonl").write_text('\n{"id": "c1"}\n\n  \n{"id": "c2"}\n')
    (folder / "deep" / "b.ndjson").write_text('{"id": "b1"}')
    (folder / "notes.txt").write_text("no traces")
    for name, more in (("p", "1 AS t"), ("q", "{'x': [1, NULL]} AS other")):
        duckdb.sql(f"COPY (SELECT '{name}1' AS id, {more}) TO '{folder}/{name}.parquet' (FORMAT parquet)")
    return folder


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.jsonl", ["a1", "a2"]), ("p.parquet", ["p1"]), ("*.parquet", ["p1", "q1"]), ("**/*.ndjson", ["b1"]),
        ("", ["a1", "a2", "b1", "c1", "c2", "p1", "q1"]),
    ],
)  # fmt: skip
def test_files_folders_and_patterns(logs, ids, source, expected):
    assert ids(logs / source) == expected


def test_rows_count_through_all_files_in_the_order_of_their_names(logs, read):
    assert read(logs / "*.jsonl")[0] == [
        ("a.jsonl", 1, "a1"), ("a.jsonl", 2, "a2"), ("c.jsonl", 3, "c1"), ("c.jsonl", 4, "c2"),
    ]  # fmt: skip


def test_a_duckdb_table_with_a_column_of_any_name(tmp_path, ids, read):
    file = tmp_path / "log's.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA s")
        columns = "'x' AS id, 1.5 AS t, '{\"a\": 1}'::JSON AS \"the whole\""
        connection.execute(f'CREATE TABLE s."tra""ces" AS SELECT {columns}')
    assert ids(f'{file}::s.tra"ces') == ["x"]
    with pytest.raises(duckdb.Error, match="nowhere"):
        read(f"{file}::nowhere")
    missing = f"{tmp_path}/other.duckdb"
    assert refusal(check_source, f"{missing}::t") == f"{missing}: there is no such DuckDB file"


def test_an_address_is_downloaded_and_its_token_kept_nowhere(logs, ids, read):
    (logs / "bad.jsonl").write_text('{"id": "x"}\nno\n')
    with served(logs) as site:
        assert ids(f"{site}/a.jsonl") == ["a1", "a2"]
        assert ids(f"{site}/p.parquet") == ["p1"]
        bad = ([("bad.jsonl?…", 1, "x")], [("bad.jsonl?…", 2, "line 2 is not JSON", "no")])
        assert read(f"{site}/bad.jsonl?sig=canary") == bad
        said = refusal(read, f"{site}/nowhere.jsonl?sig=canary")
    assert said.startswith(f"{site}/nowhere.jsonl?…: could not be read: HTTP Error: 404")
    said = refusal(check_source, "https://me:canary@host/traces.csv?sig=canary")
    assert said.startswith("https://…@host/traces.csv?…: is of no known kind")


def test_rows_that_are_no_json_keep_their_text_and_their_line(tmp_path, read):
    (tmp_path / "a.jsonl").write_text('{"id": "1"}\n')
    (tmp_path / "b.jsonl").write_bytes(b'{"id": "2"}\n\nnot json\n{"id": "3"\n[1, 2]\n{"id": "4"}')
    rows, unread = read(tmp_path / "*.jsonl")
    assert rows == [("a.jsonl", 1, "1"), ("b.jsonl", 2, "2"), ("b.jsonl", 5, None), ("b.jsonl", 6, "4")]
    assert unread == [
        ("b.jsonl", 3, "line 3 is not JSON", "not json"), ("b.jsonl", 4, "line 4 is not JSON", '{"id": "3"'),
    ]  # fmt: skip


@pytest.mark.parametrize("blank", ["\u00a0", "\u2028", "\x1c", "\u3000", "\ufeff"])
def test_a_line_that_only_python_takes_for_a_blank_one_shifts_no_other(tmp_path, read, blank):
    (tmp_path / "a.jsonl").write_text(f'{blank}\n\v\n{{"id": "2"}}\nno json\n', encoding="utf-8")
    rows, unread = read(tmp_path / "a.jsonl")
    assert [trace_id for *_, trace_id in rows] == ["2"]
    assert [(row, text) for _, row, _, text in unread] == [(1, blank), (3, "no json")]


def test_what_python_can_read_is_mended(tmp_path, ids):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"id": "bom"}\r\n{"id": "byte\xff"}\r\n{"id": "half\\ud800"}\r\n{"id": "ok"}\r\n')
    assert sorted(ids(file)) == ["bom", "byte\ufffd", "half\ufffd", "ok"]


def test_names_of_files_are_no_patterns(tmp_path, ids):
    names = ["it's.jsonl", "x1.jsonl", "x[1].jsonl"]
    for name in names:
        (tmp_path / name).write_text(f'{{"id": "{name}"}}\n')
    assert [ids(tmp_path / name) for name in names] == [[name] for name in names]
    assert ids(tmp_path) == names


def test_a_folder_without_logs_has_no_traces_yet(tmp_path, ids):
    assert ids(tmp_path) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.jsonl", "there is no such file or folder"),
        ("*.jsonl", "there is no file; give JSONL or Parquet files, a folder"),
        ("a.csv", "is of an unknown kind; give JSONL or Parquet files, a folder"),
    ],
)
def test_invalid_sources(tmp_path, source, said):
    (tmp_path / "a.csv").write_text("id\n1\n")
    assert refusal(check_source, f"{tmp_path}/{source}").startswith(f"{tmp_path}/{source}: {said}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("../logs/*.jsonl", "/home/logs/*.jsonl"), ("/var/logs", "/var/logs"),
        ("s3://bucket/logs/*.parquet", "s3://bucket/logs/*.parquet"),
        ("log.duckdb::traces", "/home/rules/log.duckdb::traces"),
    ],
)  # fmt: skip
def test_paths_are_those_of_the_rule_and_not_of_the_run(source, expected):
    assert absolute(source, Path("/home/rules")) == expected
