"""Paths in DuckDB lead where the loader's paths lead in Python."""

import json
from datetime import UTC, datetime

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.load.columns import value
from answerkey.tasks.traces.select import followed_paths, make_macros
from answerkey.tasks.traces.source import path_problem


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
STEPS = st.sampled_from(["a", "b", "c", "x/y", "~", "0", "1", 'q"', "ü", "a b"])


@given(
    st.dictionaries(NAMES, TREES, max_size=4), st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_a_path_leads_where_it_leads_in_python(connection, trace, ways):
    paths = [".".join(way) for way in ways]
    assert found(connection, trace, *paths) == [value(trace, path) for path in paths]


def test_the_forms_of_a_path(connection):
    trace = {"output": [{"name": "n"}], "flat.key": 1, "$.odd": 2, "metadata": '{"refs": ["r", "s"], "a.b": 3}'}
    paths = [
        "output[0].name",
        "$.output.0.name",
        "output.[0].name",
        "flat.key",
        "$.odd",
        "metadata.refs[1]",
        "metadata.a.b",
    ]
    assert found(connection, trace, *paths) == ["n", "n", "n", 1, 2, "s", 3]
    assert [value(trace, path) for path in paths] == ["n", "n", "n", 1, 2, "s", 3]


@pytest.mark.parametrize("trace", ["[1, 2]", "5", '"text"', "null"])
def test_what_is_no_object_has_nothing_anywhere(connection, trace):
    assert found(connection, trace, "0", "a.b") == [None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-01T10:00:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01 10:00:00.25+02:00", datetime(2026, 11, 1, 8, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-11-01T10:00:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01 10:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01T10:00+02:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("2026-11-01T10:00:00.123456789Z", datetime(2026, 11, 1, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("1793500000", datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC)),
        ("1793500000000", datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC)),
        ("1793500000000000", datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC)),
        ("1793500000000000000", datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC)),
        *(
            (text, None)
            for text in ("", "soon", "infinity", "5", "1e300", "nan", "2026-13-01", "9999-12-31", "-1793500000")
        ),
    ],
)
def test_what_an_instant_is(connection, text, expected):
    [(microseconds,)] = connection.execute("SELECT epoch_us(instant_in($text))", {"text": text}).fetchall()
    assert microseconds == (None if expected is None else int(expected.timestamp() * 1_000_000))


@pytest.mark.parametrize("path", ["a", "$.a.b[0]", "a[0][1]", "input.question", "a b.c", "output.[0].name", "tags[12]"])
def test_valid_paths(path):
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "a path is a text"), (5, "a path is a text"), (None, "a path is a text"), ("$..name", "names several"),
        ("a[*].b", "names several"), ("a[", "is no path"), ("a[b]", "is no path"), ("$", "is no path"),
        ("[0]", "is no path"), ("a.", "is no path"), ("a]b", "is no path"),
    ],
)  # fmt: skip
def test_invalid_paths(path, said):
    assert said in str(path_problem(path))
