"""Traces from every kind of source: which are taken, by which paths, and rows that are not traces."""

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.load.columns import value
from answerkey.tasks.traces.select import followed_paths, in_sample, make_macros
from answerkey.tasks.traces.source import absolute, check_source, path_problem, traces_in
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
    assert said.startswith("https://…@host/traces.csv?…: is of an unknown kind")


def test_rows_that_are_no_json_keep_their_text_and_their_line(tmp_path, read):
    (tmp_path / "a.jsonl").write_text('{"id": "1"}\n')
    (tmp_path / "b.jsonl").write_bytes(b'{"id": "2"}\n\nnot json\n{"id": "3"\n[1, 2]\n{"id": "4"}')
    rows, unread = read(tmp_path / "*.jsonl")
    assert rows == [("a.jsonl", 1, "1"), ("b.jsonl", 2, "2"), ("b.jsonl", 5, None), ("b.jsonl", 6, "4")]
    assert unread == [
        ("b.jsonl", 3, "line 3 is not JSON", "not json"), ("b.jsonl", 4, "line 4 is not JSON", '{"id": "3"'),
    ]  # fmt: skip


@pytest.mark.parametrize("blank", ["\u2028", "\x1c", "\ufeff"])
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


# Paths in DuckDB lead where the loader's paths lead in Python, instants are read, and samples are taken by hash.


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        make_macros(opened)
        opened.execute("CREATE TABLE traces (trace JSON)")
        yield opened


def found(connection, trace, *paths):
    connection.execute("DELETE FROM traces")
    connection.execute("INSERT INTO traces VALUES (?)", [trace if isinstance(trace, str) else json.dumps(trace)])
    query, bound = followed_paths(paths, "traces")
    columns = ", ".join(f"h{n}" for n in range(len(paths)))
    [row] = connection.execute(f"SELECT {columns} FROM ({query})", bound).fetchall()
    return [None if one is None else json.loads(one) for one in row]


NAMES = st.sampled_from(["a", "b", "a.b", "b.c", "c", "x/y", "~", "0", "$", 'q"', "ü", "a b"])
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text('a{}[]"1 ', max_size=4)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4) | inner.map(json.dumps),
    max_leaves=12,
)
STEPS = st.sampled_from(["a", "b", "c", "x/y", "~", "0", "1", 'q"', "ü", "a b", '"a.b"', '"b.c"'])
WAYS = st.lists(st.lists(STEPS, min_size=1, max_size=4).map(".".join), min_size=1, max_size=4)


@given(st.dictionaries(NAMES, TREES, max_size=4), WAYS)
def test_a_path_leads_where_it_leads_in_python(connection, trace, paths):
    assert found(connection, trace, *paths) == [value(trace, path) for path in paths]


def test_the_forms_of_a_path(connection):
    trace = {"output": [{"name": "n"}], "flat.key": 1, "$.odd": 2, "metadata": '{"refs": ["r", "s"], "a.b": 3}'}
    trace["info"] = {"mlflow.traceInputs": '{"question": "q"}', "llm.input.messages": [{"message.content": "m"}]}
    paths = {
        "output[0].name": "n", "$.output.0.name": "n", "output.[0].name": "n", "flat.key": 1, "$.odd": 2,
        "metadata.refs[1]": "s", "metadata.a.b": 3, "info.mlflow.traceInputs.question": "q",
        'info."mlflow.traceInputs".question': "q", "info.llm.input.messages.0.message.content": "m",
    }  # fmt: skip
    assert dict(zip(paths, found(connection, trace, *paths), strict=True)) == paths
    assert {path: value(trace, path) for path in paths} == paths


@pytest.mark.parametrize("trace", ["[1, 2]", '"text"', "null"])
def test_what_is_no_object_has_nothing_anywhere(connection, trace):
    assert found(connection, trace, "0", "a.b") == [None, None]


TEN = datetime(2026, 11, 1, 10, tzinfo=UTC)
INSTANTS = {
    "2026-11-01T10:00:00Z": TEN, "2026-11-01 12:00:00.25+02:00": TEN.replace(microsecond=250_000),
    "2026-11-01T10:00:00": TEN, "2026-11-01": TEN.replace(hour=0), "2026-11-01T10:00Z": TEN,
    "2026-11-01T12:00+02:00": TEN, "2026-11-01T10:00:00.123456789Z": TEN.replace(microsecond=123_456),
    **{f"1793500000{zeros}": datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC) for zeros in ("", "000", "000000", 9 * "0")},
    **dict.fromkeys(("", "soon", "infinity", "5", "1e300", "nan", "2026-13-01", "9999-12-31", "-1793500000")),
}  # fmt: skip


@pytest.mark.parametrize("text", INSTANTS)
def test_what_an_instant_is(connection, text):
    [(microseconds,)] = connection.execute("SELECT epoch_us(instant_in($text))", {"text": text}).fetchall()
    expected = INSTANTS[text]
    assert microseconds == (None if expected is None else int(expected.timestamp() * 1_000_000))


@pytest.mark.parametrize("path", ["a", "$.a.b[0]", "a[0][1]", "a b.c", "output.[0].name"])
def test_valid_paths(path):
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "a path is a text"), (5, "a path is a text"), ("$..name", "names several"),
        ("a[*].b", "names several"), ("a[", "is not a path"), ("a[b]", "is not a path"), ("$", "is not a path"),
        ("[0]", "is not a path"), ("a.", "is not a path"), ("a]b", "is not a path"),
    ],
)  # fmt: skip
def test_invalid_paths(path, said):
    assert said in path_problem(path)


IDS = [f"trace-{n}" for n in range(20_000)]


def taken(connection, rate, rule="r", ids=IDS):
    held, bound = in_sample("trace_id", rule, rate)
    query = f"SELECT trace_id FROM (SELECT unnest($ids) AS trace_id) WHERE {held}"
    return {trace_id for (trace_id,) in connection.execute(query, {"ids": ids, **bound}).fetchall()}


def test_two_rules_take_different_tenths(connection):
    both = taken(connection, 0.1, "one") & taken(connection, 0.1, "other")
    assert abs(len(both) - 200) < 3 * 15


@given(st.text(), st.lists(st.text(), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_no_id_breaks_the_order(connection, rule, ids, one, other):
    rule, *ids = (text.encode("utf-8", "replace").decode() for text in (rule, *ids))
    low, high = sorted((one, other))
    assert taken(connection, low, rule, ids) <= taken(connection, high, rule, ids)
    assert (taken(connection, 0.0, rule, ids), taken(connection, 1.0, rule, ids)) == (set(), set(ids))
