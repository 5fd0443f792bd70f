"""The conditions of a rule on its traces: SQL expressions over what a trace holds, evaluated by DuckDB."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.warehouse import session, time_limit

if TYPE_CHECKING:
    import duckdb

_CHECK_S = 10.0
"""DuckDB evaluates constant expressions when it plans a statement, which may take as long as they do."""

_ROW = "logged"
"""The struct with what a condition asks for. Each name in the condition gets it as a prefix, so that none can mean
anything else that is in scope where the condition is evaluated."""

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
    """One condition: as it was written, and as it is evaluated, with each name as a field of the struct `logged`.

    `names` are the names in it, each as the keys that lead to the value: ("metadata", "environment").
    """

    text: str
    sql: str
    names: tuple[tuple[str, ...], ...]


def parse_condition(text: object) -> Condition:
    """A condition as people write it, checked by DuckDB in a session without access to files, network or extensions.

    >>> parse_condition("metadata.ms > 500 AND lang = 'ru'").names
    (('metadata', 'ms'), ('lang',))

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

    offline = {name: "false" for name in ("enable_external_access", "autoload_known_extensions")}
    with session(config={**offline, "memory_limit": "256MB"}) as connection:
        try:
            with time_limit(connection, _CHECK_S):
                plain = _statement(connection, "true")
                clause = _clause(_statement(connection, text), text, plain)
                if problem := next(_problems(clause), ""):
                    raise UserError(f"{text!r}: {problem}")
                names: list[tuple[str, ...]] = []
                plain["statements"][0]["node"]["where_clause"] = _rewritten(clause, names)
                asked = {"tree": json.dumps(plain)}
                [(sql,)] = connection.execute("SELECT json_deserialize_sql($tree::JSON)", asked).fetchall()
                condition = Condition(
                    text, sql.removeprefix(_SELECT), names_in([Condition("", "", tuple(dict.fromkeys(names)))])
                )
                row = struct([condition], ["NULL"] * len(condition.names))
                connection.execute(f"EXPLAIN SELECT 1 FROM (SELECT {row} AS {_ROW}) WHERE {verdict(condition)}")
        except duckdb.Error as error:
            raise UserError(f"{text!r}: {_said(error)}") from error
        except RecursionError as error:
            raise UserError(f"{text!r}: is nested too deep") from error
    return condition


def verdict(condition: Condition) -> str:
    """An expression: true or false, NULL where the condition cannot be evaluated for a trace."""
    return f"TRY(coalesce(({condition.sql}\n)::BOOLEAN, false))"


def names_in(conditions: Sequence[Condition]) -> tuple[tuple[str, ...], ...]:
    """The names in all conditions, each once. A name that is the beginning of another one stands for both.

    Raises:
        UserError: two of them differ only in upper and lower case, which DuckDB does not tell apart.
    """
    names = dict.fromkeys(name for condition in conditions for name in condition.names)
    shortest = tuple(name for name in names if not any(name[:n] in names for n in range(1, len(name))))
    folded: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name in shortest:
        for n in range(1, len(name) + 1):
            other = folded.setdefault(tuple(part.casefold() for part in name[:n]), name[:n])
            if other != name[:n]:
                raise UserError(f"{'.'.join(other)} and {'.'.join(name[:n])} differ only in case; keep one")
    return shortest


def struct(conditions: Sequence[Condition], values: Sequence[str]) -> str:
    """The expression that makes the struct `logged`; `values` are expressions, one for each of `names_in`."""
    tree: dict[str, Any] = {}
    for name, value in zip(names_in(conditions), values, strict=False):
        inner = tree
        for part in name[:-1]:
            inner = inner.setdefault(part, {})
        inner[name[-1]] = f"({value})::VARIANT"
    return _packed(tree) if tree else "NULL"


def _packed(tree: dict[str, Any]) -> str:
    fields = (
        f"{_quoted(name)} := {_packed(inner) if isinstance(inner, dict) else inner}" for name, inner in tree.items()
    )
    return f"struct_pack({', '.join(fields)})"


def _statement(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    """The syntax tree of a statement whose WHERE clause is a condition, as DuckDB writes it in JSON."""
    query = {"query": text.join(_AROUND)}
    [(written,)] = connection.execute("SELECT json_serialize_sql($query)", query).fetchall()
    tree = json.loads(written)
    if tree["error"]:
        raise UserError(f"{text!r}: {tree['error_message']}; write SQL, like metadata.environment = 'production'")
    return tree


def _clause(statement: Any, text: str, plain: Any) -> Any:
    """The tree of the condition alone; `plain` is the same statement with another condition."""
    nodes = [one["node"] for one in statement["statements"]]
    if [{**node, "where_clause": None} for node in nodes] != [
        {**one["node"], "where_clause": None} for one in plain["statements"]
    ]:
        raise UserError(f"{text!r}: must be one condition, like a = 1 AND b = 2")
    return nodes[0]["where_clause"]


def _rewritten(node: Any, names: list[tuple[str, ...]]) -> Any:
    """A tree in which each name is a field of `logged`; the names are added to `names`."""
    if isinstance(node, list):
        return [_rewritten(one, names) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF":
        names.append(tuple(node["column_names"]))
        return {**node, "column_names": [_ROW, *node["column_names"]]}
    inside = {key: _rewritten(value, names) for key, value in node.items()}
    return _compared(inside) if node.get("class") == "COMPARISON" else inside


def _problems(node: Any, around: tuple[str, ...] = ()) -> Iterator[str]:
    """What a tree has that is not allowed; `around` are the calls, casts and comparisons that it stands in."""
    if isinstance(node, list):
        for one in node:
            yield from _problems(one, around)
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
            # Each one doubles what stands in it: see `_compared`.
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
        near = difflib.get_close_matches(name, _FUNCTIONS, n=1, cutoff=0.8)
        yield f"{name}() is not allowed in a condition on a trace" + (f"; did you mean {near[0]}()?" if near else "")
    elif name in _LIKE:
        pattern = node["children"][1].get("value") or {}
        text = pattern.get("value")
        if not isinstance(text, str):
            yield "the pattern of LIKE must be a text; or write contains(), starts_with() or regexp_matches()"
        elif text.count("%") > _MOST_WILDCARDS and ("_" in text or name not in ("~~", "!~~")):
            yield f"{text!r} has more than {_MOST_WILDCARDS} wildcards; write regexp_matches() in place of it"


def _compared(node: dict[str, Any]) -> dict[str, Any]:
    """`a IS DISTINCT FROM b` as `coalesce(a <> b, (a IS NULL) <> (b IS NULL))`, and its opposite with `=`.

    DuckDB 1.5 evaluates the operators themselves wrongly for a VARIANT where some of the rows are NULL.
    """
    if node["type"] not in _DISTINCT:
        return node
    compared = {**node, "type": _DISTINCT[node["type"]]}
    about = {"class": "OPERATOR", "alias": "", "query_location": node["query_location"]}
    missing = {side: {**about, "type": "OPERATOR_IS_NULL", "children": [node[side]]} for side in ("left", "right")}
    return {**about, "type": "OPERATOR_COALESCE", "children": [compared, {**compared, **missing}]}


def _said(error: duckdb.Error) -> str:
    said = str(error).strip().splitlines()[0].rstrip(".!").replace(f"{_ROW}.", "")
    return re.sub("^[A-Z][a-z]+ Error: ", "", said)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
