"""The conditions of a rule on its traces: SQL expressions over what a trace holds, evaluated by DuckDB."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import steps
from answerkey.tasks.warehouse.warehouse import session

if TYPE_CHECKING:
    import duckdb

_CHECK_S = 10.0
"""DuckDB evaluates constant expressions when it plans a statement, which may take as long as they do."""

_ROW = "logged"
"""The struct with what a condition asks for. Each name in the condition gets it as a prefix, so that none can mean
anything else that is in scope where the condition is evaluated."""

_AROUND = ("SELECT * FROM t WHERE (\n", "\n)")
# A line break closes a comment at the end of a condition.

_ALLOWED = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA",
    "OPERATOR",
}  # fmt: skip
"""Kinds of expressions. Without subqueries a condition can name no table, no file and no table function."""

_UNBOUNDED = {
    "array_resize", "bitstring", "equi_width_bins", "format", "generate_series", "list_resize", "lpad", "pg_sleep",
    "printf", "range", "repeat", "rpad", "sleep_ms",
}  # fmt: skip
"""Functions that take as long, or make as much, as a number says. DuckDB cannot be interrupted within a call, so one
`range(100_000_000)` would outlast any time limit, and its memory limit does not count such a list."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: as it was written, and with each name as a field of the struct `logged`.

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
    import duckdb

    offline = {name: "false" for name in ("enable_external_access", "autoload_known_extensions")}
    with session(config={**offline, "memory_limit": "256MB"}) as connection, time_limit(connection, _CHECK_S):
        try:
            names = _names(text, *_trees(connection, text))
            condition = Condition(text, _prefixed(text, [place for place, _ in names]), _distinct(names))
            row = struct([condition], ["NULL"] * len(condition.names))
            connection.execute(f"EXPLAIN SELECT 1 FROM (SELECT {row} AS {_ROW}) WHERE {verdict(condition)}")
        except duckdb.Error as error:
            raise UserError(f"{text!r}: {_said(error)}") from error
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


@contextmanager
def time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection does after so long: it raises duckdb.InterruptException then."""
    timer = Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _trees(connection: duckdb.DuckDBPyConnection, text: str) -> tuple[Any, Any]:
    """The syntax tree of a condition, and that of the statement around it without any."""
    nodes = []
    for written in ("true", text):
        query = written.join(_AROUND)
        [(found,)] = connection.execute("SELECT json_serialize_sql($query)", {"query": query}).fetchall()
        tree = json.loads(found)
        if tree["error"]:
            raise UserError(f"{text!r}: {tree['error_message']}; write SQL, like metadata.environment = 'production'")
        nodes.append([statement["node"] for statement in tree["statements"]])
    [plain], given = nodes
    return (given[0], plain) if len(given) == 1 else ({}, plain)


def _names(text: str, tree: Any, plain: Any) -> list[tuple[int, tuple[str, ...]]]:
    """Where in the statement each name stands, in bytes, and its parts."""
    if {**tree, "where_clause": None} != {**plain, "where_clause": None}:
        raise UserError(f"{text!r}: must be one condition, like a = 1 AND b = 2")
    found: list[tuple[int, tuple[str, ...]]] = []
    _walk(text, tree["where_clause"], frozenset(), found)
    return sorted(set(found))


def _walk(text: str, node: Any, bound: frozenset[str], found: list[tuple[int, tuple[str, ...]]]) -> None:
    """Add the names under a node to `found`, but for the parameters of lambdas, which are `bound`."""
    if isinstance(node, list):
        for one in node:
            _walk(text, one, bound, found)
    elif isinstance(node, dict):
        kind = node.get("class")
        if kind is not None and kind not in _ALLOWED:
            raise UserError(f"{text!r}: {kind.lower().replace('_', ' ')} is not allowed in a condition on a trace")
        if kind == "FUNCTION" and node["schema"] not in ("", "main"):
            name = node["function_name"]
            raise UserError(f"{text!r}: write {name}({node['schema']}) in place of {node['schema']}.{name}()")
        if kind == "FUNCTION" and node["function_name"].lower() in _UNBOUNDED:
            name = node["function_name"]
            raise UserError(
                f"{text!r}: {name}() is not allowed in a condition on a trace: it has no limit in size or time"
            )
        if kind == "LAMBDA":
            parameters: list[tuple[int, tuple[str, ...]]] = []
            _walk(text, node["lhs"], frozenset(), parameters)
            _walk(text, node["expr"], bound | {name[0] for _, name in parameters}, found)
        elif kind == "COLUMN_REF":
            if node["column_names"][0] not in bound:
                found.append((node["query_location"], tuple(node["column_names"])))
        else:
            for value in node.values():
                _walk(text, value, bound, found)


def _prefixed(text: str, places: Sequence[int]) -> str:
    written = text.encode()
    for place in sorted(places, reverse=True):
        at = place - len(_AROUND[0].encode())
        written = written[:at] + f"{_ROW}.".encode() + written[at:]
    return written.decode()


def _distinct(names: Sequence[tuple[int, tuple[str, ...]]]) -> tuple[tuple[str, ...], ...]:
    return names_in([Condition("", "", tuple(name for _, name in names))])


def _said(error: duckdb.Error) -> str:
    said = str(error).strip().splitlines()[0].rstrip(".!").replace(f"{_ROW}.", "")
    return re.sub("^[A-Z][a-z]+ Error: ", "", said)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_FILTER = re.compile(
    r"(?P<path>\S(?:.*?\S)??)\s+(?P<operator>is not empty|is empty|not contains|contains|starts with|ends with"
    r"|!=|>=|<=|=|>|<)(?:\s+(?P<value>.+))?"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def of_filter(text: object) -> str:
    """A filter of the first version (`metadata.environment = production`) as a condition; empty if it is not one."""
    found = _FILTER.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return ""
    operator, value = found["operator"], (found["value"] or "").strip()
    # Lists begin with 0 in a path, and with 1 in SQL.
    name = "".join(
        f"[{int(part) + 1}]" if part.isdigit() else f".{part if re.fullmatch('[A-Za-z_]+', part) else _quoted(part)}"
        for part in steps(found["path"])
    ).removeprefix(".")
    bare = value.lower() in ("true", "false") or _NUMBER.fullmatch(value)
    literal = value if bare else "'" + value.strip("\"'").replace("'", "''") + "'"
    lower, lowered = f"lower({name}::VARCHAR)", "'" + value.strip("\"'").lower().replace("'", "''") + "'"
    if operator in (">", ">=", "<", "<=") and not bare:
        return f"{name}::TIMESTAMPTZ {operator} {literal}"
    return {
        "is empty": f"coalesce(trim({name}::VARCHAR), '') IN ('', '[]', '{{}}')",
        "is not empty": f"trim({name}::VARCHAR) NOT IN ('', '[]', '{{}}')",
        "contains": f"contains({lower}, {lowered})",
        "not contains": f"NOT coalesce(contains({lower}, {lowered}), false)",
        "starts with": f"starts_with({lower}, {lowered})",
        "ends with": f"ends_with({lower}, {lowered})",
        "!=": f"{name} IS DISTINCT FROM {literal}",
    }.get(operator, f"{name} {operator} {literal}")
