"""Paths in DuckDB lead where the loader's paths lead in Python, instants are read, and samples are taken by hash."""

import json
from datetime import UTC, datetime
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.load.columns import value
from answerkey.tasks.traces.select import followed_paths, in_sample, make_macros
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


@pytest.mark.parametrize("trace", ["[1, 2]", "5", '"text"', "null"])
def test_what_is_no_object_has_nothing_anywhere(connection, trace):
    assert found(connection, trace, "0", "a.b") == [None, None]


TEN = datetime(2026, 11, 1, 10, tzinfo=UTC)
INSTANTS = {
    "2026-11-01T10:00:00Z": TEN, "2026-11-01 12:00:00.25+02:00": TEN.replace(microsecond=250_000),
    "2026-11-01T10:00:00": TEN, "2026-11-01": TEN.replace(hour=0), "2026-11-01T10:00Z": TEN, "2026-11-01 10:00": TEN,
    "2026-11-01T12:00+02:00": TEN, "2026-11-01T10:00:00.123456789Z": TEN.replace(microsecond=123_456),
    **{f"1793500000{zeros}": datetime(2026, 11, 1, 2, 26, 40, tzinfo=UTC) for zeros in ("", "000", "000000", 9 * "0")},
    **dict.fromkeys(("", "soon", "infinity", "5", "1e300", "nan", "2026-13-01", "9999-12-31", "-1793500000")),
}  # fmt: skip


@pytest.mark.parametrize("text", INSTANTS)
def test_what_an_instant_is(connection, text):
    [(microseconds,)] = connection.execute("SELECT epoch_us(instant_in($text))", {"text": text}).fetchall()
    expected = INSTANTS[text]
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
    assert said in path_problem(path)


IDS = [f"trace-{n}" for n in range(20_000)]


def taken(connection, rate, rule="r", ids=IDS):
    held, bound = in_sample("trace_id", rule, rate)
    query = f"SELECT trace_id FROM (SELECT unnest($ids) AS trace_id) WHERE {held}"
    return {trace_id for (trace_id,) in connection.execute(query, {"ids": ids, **bound}).fetchall()}


def test_a_higher_rate_keeps_what_a_lower_one_took(connection):
    samples = [taken(connection, rate) for rate in (0.0, 0.01, 0.1, 0.2, 0.5, 1.0)]
    assert all(lower <= higher for lower, higher in pairwise(samples))
    assert samples[0] == set() and samples[-1] == set(IDS)
    # Three standard deviations of 20,000 throws.
    assert abs(len(samples[2]) - 2_000) < 3 * 43 and abs(len(samples[3]) - 4_000) < 3 * 57


def test_two_rules_take_different_tenths(connection):
    both = taken(connection, 0.1, "one") & taken(connection, 0.1, "other")
    assert abs(len(both) - 200) < 3 * 15


@given(st.text(), st.lists(st.text(), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_no_id_breaks_the_order(connection, rule, ids, one, other):
    rule, *ids = (text.encode("utf-8", "replace").decode() for text in (rule, *ids))
    low, high = sorted((one, other))
    assert taken(connection, low, rule, ids) <= taken(connection, high, rule, ids)
    assert (taken(connection, 0.0, rule, ids), taken(connection, 1.0, rule, ids)) == (set(), set(ids))
