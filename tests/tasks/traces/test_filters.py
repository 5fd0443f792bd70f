"""Conditions on traces: how they are written, and which traces fit, as DuckDB sees it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.traces.filters import OPERATORS, Filter, condition, first_broken, parse_filter
from answerkey.tasks.traces.select import make_macros


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        make_macros(opened)
        yield opened


NOTHING = object()


def fits(connection: duckdb.DuckDBPyConnection, text: str, value: Any) -> bool:
    """Whether a value at the path of the filter fits it."""
    held, bound = condition(parse_filter(text), "j", "v")
    given = "NULL::JSON" if value is NOTHING else "$j::JSON"
    values = {} if value is NOTHING else {"j": json.dumps(value)}
    [(found,)] = connection.execute(f"SELECT {held} FROM (SELECT {given} AS j)", {**bound, **values}).fetchall()
    assert found in (True, False)
    return bool(found)


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        ("a = x", ["x"], ["X", "xy", 1, None, NOTHING, ["x"]]),
        ('a = "5"', ["5", 5], ["5.0", 5.5]),
        ("a = 5", [5, 5.0, "5", "5.0"], ["x", None, NOTHING, "nan"]),
        ("a = 9007199254740993", [9007199254740993, "9007199254740993"], [9007199254740992, 9007199254740994]),
        ("a != 9007199254740993", [9007199254740992], [9007199254740993]),
        ("a = true", [True, "true"], [False, 1]),
        ('a = ""', ["", None, NOTHING], ["x", 0, False]),
        ("a != x", ["y", None, NOTHING, 5], ["x"]),
        ("a != 5", [4, "x", None, NOTHING], [5, "5.0"]),
        ("a contains Bill", ["billing", "my BILL", ["x", "Billing"], {"k": "bill"}], ["x", None, NOTHING, ["x"], []]),
        ("a contains ','", ["a,b"], [["a", "b"]]),
        ("a not contains x", ["y", None, NOTHING, [], ["y"]], ["ax", ["y", "X"]]),
        ("a starts with Ab", ["abc", "AB"], ["cab", None, NOTHING]),
        ("a ends with yz", ["xyz", "XYZ"], ["yza", None, NOTHING]),
        ("a > 5", [5.1, "6", 1e9], [5, "x", None, NOTHING, True, "inf", [9]]),
        ("a >= 5", [5, "5.0"], [4.9]),
        ("a < 5", [-1, "4"], [5, "", None, NOTHING, "nan"]),
        ("a <= 0.5", [0.5], [0.51]),
        ("a > 2026-11-01", ["2026-11-01T00:00:01Z", 1893456000], ["2026-11-01", "2026-10-31T23:59:59Z", "soon", None]),
        ("a < 2026-11-01T02:00:00+02:00", ["2026-10-31T23:59:59Z"], ["2026-11-01T00:00:00Z", NOTHING]),
        ("a is empty", ["", "  ", None, NOTHING, [], {}], ["x", 0, False, [None]]),
        ("a is not empty", ["x", 0, ["x"]], ["", None, NOTHING, []]),
    ],
)  # fmt: skip
def test_what_fits(connection: duckdb.DuckDBPyConnection, text: str, fitting: list[Any], others: list[Any]) -> None:
    assert [value for value in fitting if not fits(connection, text, value)] == []
    assert [value for value in others if fits(connection, text, value)] == []


def test_every_operator_is_tested_above() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [one for one in OPERATORS if f"a {one}" not in text] == []


@given(st.text(min_size=1).map(str.strip).filter(bool))
def test_a_value_is_a_value_whatever_it_says(connection: duckdb.DuckDBPyConnection, value: str) -> None:
    quoted = parse_filter(f"a = '{' '.join(value.split()) or 'x'}'")
    held, bound = condition(quoted, "j", "v")
    assert list(bound) == ["v"] and "j" in held
    text = str(quoted.value)
    [(found,)] = connection.execute(
        f"SELECT {held} FROM (SELECT $j::JSON AS j)",
        {**bound, "j": json.dumps(text.encode("utf-8", "replace").decode())},
    ).fetchall()
    assert found is (text == text.encode("utf-8", "replace").decode())


def test_sql_in_a_value_is_no_sql(connection: duckdb.DuckDBPyConnection) -> None:
    evil = "x' OR 1=1; DROP TABLE t; --"
    assert fits(connection, f"a = {evil}", evil)
    assert not fits(connection, f"a = {evil}", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.env = production", Filter("metadata.env", "=", "production")),
        ("a b.c  !=  two words ", Filter("a b.c", "!=", "two words")),
        ("n >= 1e3", Filter("n", ">=", 1000.0)),
        ("n = '1e3'", Filter("n", "=", "1e3")),
        ("n contains 5", Filter("n", "contains", "5")),
        ("t > 2026-11-01", Filter("t", ">", datetime(2026, 11, 1, tzinfo=UTC))),
        ("t not contains x = y", Filter("t", "not contains", "x = y")),
        ("t is not empty", Filter("t", "is not empty")),
    ],
)
def test_how_a_filter_is_read(text: str, expected: Filter) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (5, "a filter is one text, PATH OPERATOR VALUE, like metadata.env = production"),
        ("metadata.env", "no operator between spaces is known here: choose from <, >, =, "),
        ("metadata.env=production", "no operator between spaces is known here: choose from"),
        ("metadata.env == production", 'did you mean "="?'),
        ("tags containz billing", 'did you mean "contains"?'),
        ("a = ", '"=" needs a value after it'),
        ("a is empty now", '"is empty" takes no value'),
        ("a > soon", "> compares numbers and times; write 5000 or 2026-11-01T00:00:00Z"),
        ("a > 2026-13-01", "2026-13-01 is no time"),
        ("a[*].b = 1", "names several values"),
    ],
)
def test_what_is_no_filter(text: object, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_filter(text)
    assert said in str(error.value)


def test_the_first_filter_that_is_broken_is_named(connection: duckdb.DuckDBPyConnection) -> None:
    filters = [parse_filter("a = x"), parse_filter("b > 5")]
    broken, bound = first_broken(filters, {"a": "ja", "b": "jb"})
    rows = [("x", 6), ("y", 6), ("x", 5), ("y", 5)]
    found = [
        connection.execute(
            f"SELECT {broken} FROM (SELECT $ja::JSON AS ja, $jb::JSON AS jb)",
            {**bound, "ja": json.dumps(a), "jb": json.dumps(b)},
        ).fetchall()[0][0]
        for a, b in rows
    ]  # fmt: skip
    assert found == [None, "a = x", "b > 5.0", "a = x"]
