"""Conditions on traces: which are accepted, and which traces fit, as DuckDB sees it."""

import json
import random
import sys

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.traces.condition import parse_condition
from tests.kit.processes import finished
from tests.tasks.staging_help import refusal


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        yield opened


NOTHING = object()


def fitting(connection, text, traces):
    """Whether each trace fits a condition; None where that cannot be evaluated."""
    condition = parse_condition(text)
    rows = json.dumps([{key: value for key, value in trace.items() if value is not NOTHING} for trace in traces])
    values = ", ".join(f"(j -> '$.{path}')::VARIANT AS {name}" for path, name in condition.columns.items())
    query = f"SELECT {condition.sql} FROM (SELECT {values} FROM (SELECT unnest($rows::JSON[]) AS j))"
    return [fits for (fits,) in connection.execute(query, {"rows": rows}).fetchall()]


FITTING = {
    # condition: what fits, what does not, what it cannot be evaluated for
    "a = 'x'": (["x"], ["X", "xy", None, NOTHING], [1, ["x"], True]),
    "a = 5": ([5, 5.0], [5.5, None, NOTHING], ["x", [5]]),
    "a = 9007199254740993": ([9007199254740993], [9007199254740992, 9007199254740994], []),
    "a": ([True], [False, None, NOTHING], ["x"]),
    "a > 5": ([5.1, 1e9], [5, None, NOTHING], ["x", "6", [9]]),
    "a::DOUBLE > 5": ([5.1, "6"], [5, "5.0", None, NOTHING], ["x", [9]]),
    "a BETWEEN 1 AND 2": ([1, 1.5, 2], [0, 3, None], ["x"]),
    "a IS NULL": ([None, NOTHING], ["x", 0, [], {}], []),
    "a[2].c = 'x'": ([[{}, {"c": "x"}]], [[{"c": "x"}], [], None, NOTHING], []),
    "list_contains(a::VARCHAR[], 'x')": ([["x", "y"]], [["y"], [], None, NOTHING], ["x"]),
    "a::TIMESTAMPTZ >= '2026-11-01'": (["2026-11-01T00:00:00Z"], ["2026-10-31T23:59:59Z", None], ["soon"]),
}


@pytest.mark.parametrize("text", FITTING)
def test_what_fits(connection, text):
    for expected, values in zip((True, False, None), FITTING[text], strict=True):
        assert fitting(connection, text, [{"a": value} for value in values]) == [expected] * len(values)


OPERATORS = {
    # condition: its meaning where None is NULL: what is not true does not fit
    "lang IS DISTINCT FROM 'ru'": "lang != 'ru'",
    "lang IS NOT DISTINCT FROM 'ru'": "lang == 'ru'",
    "NOT lang IS DISTINCT FROM 'ru'": "lang == 'ru'",
    "ms IS DISTINCT FROM 700": "ms != 700",
    "lang IS DISTINCT FROM NULL": "lang is not None",
    "(lang IS DISTINCT FROM 'ru') IS DISTINCT FROM (ms IS DISTINCT FROM 700)": "(lang != 'ru') != (ms != 700)",
    "lang <> env": "lang and env and lang != env",
    "coalesce(lang <> 'ru', true)": "lang != 'ru'",
    "lang NOT IN ('ru', 'de')": "lang not in (None, 'ru', 'de')",
    "nullif(lang, 'ru') IS NULL": "lang in (None, 'ru')",
    "coalesce(lang, env) = 'de'": "(lang or env) == 'de'",
    "CASE lang WHEN 'ru' THEN true ELSE env = 'de' END": "lang == 'ru' or env == 'de'",
    "ms > 600.5": "ms is not None and ms > 600.5",
    "ms NOT BETWEEN 200 AND 700": "ms is not None and not 200 <= ms <= 700",
    "tags[1] = 'ru'": "tags[:1] == ['ru']",
    "NOT (lang = 'ru' AND env = 'de')": "(lang and lang != 'ru') or (env and env != 'de')",
}


@pytest.fixture(scope="module")
def many():
    """6,000 traces, in which values are missing and null."""
    chance = random.Random(7)
    langs, numbers = ["ru", "de", "en", None, NOTHING], [700, 100, 650.5, None, NOTHING]
    traces = []
    for _ in range(6_000):
        drawn = {"lang": chance.choice(langs), "env": chance.choice(langs), "ms": chance.choice(numbers)}
        tags = [chance.choice(langs[:3]) for _ in range(chance.randrange(4))]
        traces.append({"tags": tags} | drawn)
    return traces


@pytest.mark.parametrize("text", OPERATORS)
def test_every_operator_on_thousands_of_traces(connection, many, text):
    meaning = compile(OPERATORS[text], text, "eval")
    values = [{key: None if value is NOTHING else value for key, value in trace.items()} for trace in many]
    assert fitting(connection, text, many) == [bool(eval(meaning, {}, of_trace)) for of_trace in values]


@pytest.mark.nightly
@given(st.text(min_size=1))
def test_a_value_is_a_value_whatever_it_says(connection, value):
    value = value.encode("utf-8", "replace").decode().replace("\0", "0")
    literal = "'" + value.replace("'", "''") + "'"
    assert fitting(connection, f"a = {literal}", [{"a": value}, {"a": value + "x"}]) == [True, False]


def test_a_name_is_a_key_of_the_trace_and_nothing_else():
    # Columns of the statement around it, its own struct, functions without brackets, and letters of two bytes.
    text = "file = 'ж' AND logged.trace = 1 AND \"two words\" = 'file' AND ключ.имя = 2 -- x"
    columns = parse_condition(text).columns
    assert [*columns] == ["file", "logged.trace", "two words", "ключ.имя"]
    assert all(column == f"v{path.encode().hex()}" for path, column in columns.items())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (5, "5 must be a condition in SQL, like metadata.environment = 'production'"),
        (" ", "must be a condition in SQL"),
        ("metadata.env = ", "syntax error at or near"),
        ("a = 1; DROP TABLE t", "syntax error at or near"),
        ("a = 1) OR (SELECT true", "subquery is not allowed"),
        ("a = 1) GROUP BY (b", "must be one condition, like a = 1 AND b = 2"),
        ("a = 1) UNION SELECT * FROM t WHERE (true", "must be one condition"),
        ("EXISTS (FROM '/etc/passwd')", "subquery is not allowed in a condition on a trace"),
        ("row_number() OVER () < 5", "window is not allowed"),
        ("COLUMNS(*) = 5", "star is not allowed"),
        ("now() = a", "now() is not allowed"),
        ("lowr(a) = 'x'", "lowr() is not allowed in a condition on a trace; did you mean lower()?"),
        ("getenv('HOME') = 'x'", "getenv() is not allowed"),
        ("a.lower() = 'x'", "write lower(a) in place of a.lower()"),
        ("len(system.main.RANGE(a)) > 5", "range() is not allowed"),
        ("len([i FOR i IN a IF sin(i) > 2]) = 0", "list_apply() is not allowed"),
        ("a LIKE b", "the pattern of LIKE must be a text; or write contains()"),
        ("a ILIKE '%b%c%'", "'%b%c%' has more than 2 wildcards; write regexp_matches() in place of it"),
        ("a->>'$..*' = 'x'", "->>() is not allowed"),
        ("NULL::INT[100000][100000] IS NULL", "a cast to a type of fixed length is not allowed; write a list"),
        ("a IN (" + "'x', " * 3000 + "'y')", "a condition has 10,000 characters at most, and this one 15,010"),
        (" + ".join("a" * 20) + " = 3", "more than 16 functions and casts are nested"),
        ("(" * 800 + "a" + " = 1)" * 800, "is nested too deep"),
        (
            "((a IS DISTINCT FROM b) IS DISTINCT FROM c) IS DISTINCT FROM d",
            "IS DISTINCT FROM stands in itself more than",
        ),
    ],
)
def test_what_is_no_condition(text, said):
    assert said in refusal(parse_condition, text)


LONG = "a" * 4_000
# The peak of this program alone: the one that `getrusage` gives starts at that of the program which started it.
CHILDREN = """
import json, os, re, sys
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.traces.condition import parse_condition

for text in json.load(sys.stdin):
    if not os.fork():
        try:
            parse_condition(text)
            said = "accepted"
        except UserError as error:
            said = str(error)
        kilobytes = re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())[1]
        print(json.dumps([int(kilobytes) // 1024, said]), flush=True)
        os._exit(0)
    os.wait()
"""
COSTLY = [
    ("len(" + "replace(" * 5 + f"'{'a' * 60}'" + f", 'a', '{'a' * 60}')" * 5 + ") > 1", "replace() is not allowed"),
    (
        f"len([1 FOR i IN string_split('{LONG}', '') IF len([1 FOR j IN string_split('{LONG}', '')]) > 1]) > 1",
        "list_apply() is not allowed",
    ),
    (f"'{LONG}' LIKE '%a%a%a%_b'", "has more than 2 wildcards"),
    (f"'{LONG}' ILIKE '%a%b'", "accepted"),
    (f"'{LONG}' LIKE '{'%a' * 50}%b'", "accepted"),
    ("len(" + "[" * 7 + "'" + "''" * 4_000 + "'" + "]::VARCHAR" * 7 + ") > 0", "accepted"),
    (f"regexp_matches('{LONG}', '{'a?' * 2_000}b')", "accepted"),
    (" AND ".join(["a = 1"] * 1_000), "accepted"),
]
"""Conditions, and what is said of them."""


@pytest.mark.nightly
def test_no_condition_takes_long_or_much_memory_however_it_is_made():
    done = finished([sys.executable, "-c", CHILDREN], input=json.dumps([text for text, _ in COSTLY]), check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (_, end), (megabytes, said) in zip(COSTLY, found, strict=True):
        assert end in said
        assert megabytes < 700, end
