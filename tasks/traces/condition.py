"""The conditions of a rule on its traces: SQL expressions over what a trace holds, evaluated by DuckDB."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import path_of
from answerkey.tasks.warehouse.warehouse import session, time_limit

if TYPE_CHECKING:
    import duckdb

_CHECK_S = 10.0
"""DuckDB evaluates constant expressions when it plans a statement, which may take as long as they do."""

_SELECT = "SELECT * FROM t WHERE "
_AROUND = (f"{_SELECT}(\n", "\n)")
# A line break closes a comment at the end of a condition.

_ALLOWED = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR",
}  # fmt: skip
"""Kinds of expressions. Without subqueries a condition can name no table, no file and no table function."""

_DISTINCT = {"COMPARE_DISTINCT_FROM": "COMPARE_NOTEQUAL", "COMPARE_NOT_DISTINCT_FROM": "COMPARE_EQUAL"}

_LONGEST = 10_000
"""Characters of a condition."""

_DEEPEST = 16
"""Functions and casts within each other."""

_LIKE = {"~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
_MOST_WILDCARDS = 2
"""In a pattern: DuckDB takes as long as the length of the text to the power of their number, but for LIKE without _."""

_FUNCTIONS = _LIKE | set(
    """
    + - * / // % ** ^ & | ~ << >> ||
    abs cbrt ceil ceiling exp floor greatest isfinite isinf isnan least ln log log10 log2 mod pow power round sign sqrt
    trunc
    concat concat_ws contains ends_with instr lcase left len length lower ltrim md5 nfc_normalize position prefix
    regexp_extract regexp_full_match regexp_matches reverse right rtrim sha256 split_part starts_with strip_accents
    strlen strpos substr substring suffix translate trim ucase unicode upper
    date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
    dayofweek dayofyear epoch epoch_ms hour isodow isoyear last_day make_date make_timestamp minute month monthname
    quarter second strftime strptime time_bucket timezone to_days to_hours to_minutes to_months to_seconds to_timestamp
    to_weeks to_years try_strptime week weekday weekofyear year yearweek
    array_contains array_extract array_has array_has_all array_has_any array_length array_position cardinality
    element_at list_contains list_element list_extract list_has list_has_all list_has_any list_indexof list_max list_min
    list_position list_sum list_value map_contains map_extract map_keys map_values struct_extract
    nullif typeof variant_extract variant_typeof
    """.split()  # noqa: SIM905
)
"""What a condition may call: functions of the trace alone, whose result is hardly longer than what they are given.

DuckDB cannot be interrupted within a call, and evaluates calls on constants when it plans a statement, so one
`range(100_000_000)`, or a few of `replace` within each other, would outlast any limit of time and memory. Functions of
the session or of the clock would select other traces in another run.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it was written, and as DuckDB evaluates it.

    Attributes:
        sql: an expression that is true, false, or NULL if it cannot be evaluated for a trace.
        columns: by path of a value in a trace, the column in which `sql` expects it, a VARIANT.
    """

    text: str
    sql: str
    columns: Mapping[str, str]


def parse_condition(text: object) -> Condition:
    """Parse a condition in a DuckDB session without access to files, network or extensions.

    >>> list(parse_condition("metadata.ms > 500 AND lang = 'ru'").columns)
    ['metadata.ms', 'lang']

    Raises:
        UserError: DuckDB does not accept it, or it is more than an expression over one trace.
    """
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{text!r} must be a condition in SQL, like metadata.environment = 'production'")
    if len(text) > _LONGEST:
        raise UserError(
            f"{text[:60]!r}...: a condition has {_LONGEST:,} characters at most, and this one {len(text):,}"
        )
    import duckdb

    limits = {"enable_external_access": False, "autoload_known_extensions": False, "memory_limit": "256MB"}
    with session(config=limits) as connection:
        try:
            with time_limit(connection, _CHECK_S):
                # A text that ends the WHERE clause, or begins another statement, gives another tree than `true` does
                plain = _statement(connection, "true")
                statement = _statement(connection, text)
                nodes = [{**entry["node"], "where_clause": None} for entry in statement["statements"]]
                if nodes != [{**entry["node"], "where_clause": None} for entry in plain["statements"]]:
                    raise UserError(f"{text!r}: must be one condition, like a = 1 AND b = 2")
                clause = statement["statements"][0]["node"]["where_clause"]
                if problem := next(_problems(clause), ""):
                    raise UserError(f"{text!r}: {problem}")
                # The clause with values of the trace in place of names, which DuckDB must be able to plan
                columns: dict[str, str] = {}
                plain["statements"][0]["node"]["where_clause"] = _rewritten(clause, columns)
                tree = {"tree": json.dumps(plain)}
                [(sql,)] = connection.execute("SELECT json_deserialize_sql($tree::JSON)", tree).fetchall()
                expression = f"TRY(coalesce(({sql.removeprefix(_SELECT)}\n)::BOOLEAN, false))"
                nulls = ", ".join(f"NULL::VARIANT AS {column}" for column in ("unused", *columns.values()))
                connection.execute(f"EXPLAIN SELECT {expression} FROM (SELECT {nulls})")
        except duckdb.Error as error:
            message = re.sub("^[A-Z][a-z]+ Error: ", "", str(error).strip().splitlines()[0].rstrip(".!"))
            raise UserError(f"{text!r}: {message}") from error
        except RecursionError as error:
            raise UserError(f"{text!r}: is nested too deep") from error
    return Condition(text, expression, columns)


def _statement(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    """The syntax tree of a statement whose WHERE clause is a condition, as DuckDB writes it in JSON."""
    query = {"query": text.join(_AROUND)}
    [(written,)] = connection.execute("SELECT json_serialize_sql($query)", query).fetchall()
    tree = json.loads(written)
    if tree["error"]:
        raise UserError(f"{text!r}: {tree['error_message']}; write SQL, like metadata.environment = 'production'")
    return tree


def _rewritten(node: Any, columns: dict[str, str]) -> Any:
    """Return a tree in which each name is a value of the trace, and nothing else that is in scope.

    Args:
        columns: takes in the column of each path. It is called after the path in hexadecimal digits, since DuckDB does
            not tell upper and lower case apart in names.
    """
    if isinstance(node, list):
        return [_rewritten(child, columns) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF":
        path = path_of(node["column_names"])
        column = columns.setdefault(path, f"v{path.encode().hex()}")
        return {**node, "column_names": [column]}
    inside = {key: _rewritten(value, columns) for key, value in node.items()}
    if node.get("class") != "COMPARISON" or node["type"] not in _DISTINCT:
        return inside
    # DuckDB 1.5 evaluates IS DISTINCT FROM wrongly for a VARIANT where some of the rows are NULL, and its opposite too:
    # `a IS DISTINCT FROM b` becomes `coalesce(a <> b, (a IS NULL) <> (b IS NULL))`
    compared = {**inside, "type": _DISTINCT[node["type"]]}
    operator = {"class": "OPERATOR", "alias": "", "query_location": node["query_location"]}
    is_null = {side: {**operator, "type": "OPERATOR_IS_NULL", "children": [inside[side]]} for side in ("left", "right")}
    return {**operator, "type": "OPERATOR_COALESCE", "children": [compared, {**compared, **is_null}]}


def _problems(node: Any, around: tuple[str, ...] = ()) -> Iterator[str]:
    """What a tree has that is not allowed; `around` are the calls, casts and comparisons that it stands in."""
    if isinstance(node, list):
        for child in node:
            yield from _problems(child, around)
    elif isinstance(node, dict):
        kind = node.get("class")
        if kind is not None and kind not in _ALLOWED:
            yield f"{kind.lower().replace('_', ' ')} is not allowed in a condition on a trace"
        if kind == "FUNCTION":
            yield from _problems_of_call(node)
        if kind == "CAST" and '"ARRAY"' in json.dumps(node["cast_type"]):
            yield "a cast to a type of fixed length is not allowed; write a list, like VARCHAR[]"
        if kind in ("FUNCTION", "CAST"):
            around = (*around, kind)
            if len(around) - around.count("DISTINCT") > _DEEPEST:
                yield f"more than {_DEEPEST} functions and casts are nested"
        elif kind == "COMPARISON" and node["type"] in _DISTINCT:
            # Each one doubles what stands in it: see `_rewritten`.
            if around.count("DISTINCT") > 1:
                yield "IS DISTINCT FROM stands in itself more than once"
            around = (*around, "DISTINCT")
        for value in node.values():
            yield from _problems(value, around)


def _problems_of_call(node: Any) -> Iterator[str]:
    name = node["function_name"].lower()
    if node["schema"] not in ("", "main"):
        yield f"write {name}({node['schema']}) in place of {node['schema']}.{name}()"
    elif name not in _FUNCTIONS:
        matches = difflib.get_close_matches(name, _FUNCTIONS, n=1, cutoff=0.8)
        hint = f"; did you mean {matches[0]}()?" if matches else ""
        yield f"{name}() is not allowed in a condition on a trace{hint}"
    elif name in _LIKE:
        pattern = node["children"][1].get("value") or {}
        text = pattern.get("value")
        if not isinstance(text, str):
            yield "the pattern of LIKE must be a text; or write contains(), starts_with() or regexp_matches()"
        elif text.count("%") > _MOST_WILDCARDS and ("_" in text or name not in ("~~", "!~~")):
            yield f"{text!r} has more than {_MOST_WILDCARDS} wildcards; write regexp_matches() in place of it"
