"""The conditions of a rule on a trace: as people write them, and as DuckDB checks them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.traces.source import path_problem

Operator = Literal[
    "is not empty", "is empty", "not contains", "contains", "starts with", "ends with", "!=", ">=", "<=", "=", ">", "<"
]  # fmt: skip
OPERATORS: tuple[Operator, ...] = get_args(Operator)
_ORDER: tuple[Operator, ...] = (">", ">=", "<", "<=")
_ALONE: tuple[Operator, ...] = ("is empty", "is not empty")
_WORDS = re.compile(
    r"(?P<path>\S(?:.*?\S)??)\s+(?P<operator>" + "|".join(map(re.escape, OPERATORS)) + r")(?:\s+(?P<value>.+))?"
)
_EXACT = 10**15
"""A DOUBLE has no more digits: two long ids would be equal."""
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on what stands at `path`. All conditions of a rule must hold.

    What is not there, or null, counts as an empty text. A number is compared as a number; so is an instant, with `>`
    and its like. What cannot be compared does not fit.
    """

    path: str
    operator: Operator
    value: str | float | datetime | None = None

    @property
    def text(self) -> str:
        """The condition as it is written in a rule."""
        value = self.value.isoformat() if isinstance(self.value, datetime) else self.value
        return f"{self.path} {self.operator}" + ("" if value is None else f" {value}")


def parse_filter(text: object) -> Filter:
    """A condition as it is written: `metadata.env = production`, `tags contains billing`, `output is not empty`.

    The value is a number where it looks like one, an instant where `>` and its like need one, else a text; quotes
    make it a text in any case.

    Raises:
        UserError: it cannot be understood; the message says what to write.
    """
    if not isinstance(text, str):
        raise UserError(f"{text!r}: a filter is one text, PATH OPERATOR VALUE, like metadata.env = production")
    found = _WORDS.fullmatch(text.strip())
    if found is None:
        raise UserError(_no_operator(text))
    path, operator, written = found["path"], found["operator"], found["value"]
    if wrong := path_problem(path):
        raise UserError(f"{text!r}: {wrong}")
    assert operator in OPERATORS
    if (operator in _ALONE) != (written is None):
        wanted = "takes no value" if operator in _ALONE else "needs a value after it"
        raise UserError(f'{text!r}: "{operator}" {wanted}')
    return Filter(path, operator, None if written is None else _value(text, operator, written))


def _no_operator(text: str) -> str:
    hint = f"choose from {', '.join(reversed(OPERATORS))}"
    for word in text.split()[1:]:
        spelt = {"==": "=", "is": "=", "<>": "!=", "≠": "!=", "=>": ">=", "≥": ">=", "=<": "<=", "≤": "<="}
        near = [spelt[word]] if word in spelt else difflib.get_close_matches(word, OPERATORS, n=1)
        if near:
            hint = f'did you mean "{near[0]}"?'
            break
    return f"{text!r}: no operator between spaces is known here: {hint}"


def _value(text: str, operator: Operator, written: str) -> str | float | datetime:
    value = written.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    elif (number := _number(value)) is not None and operator in (*_ORDER, "=", "!="):
        return number if operator in _ORDER or abs(number) < _EXACT else value
    if operator not in _ORDER:
        return value
    if not _INSTANT.fullmatch(value):
        raise UserError(f"{text!r}: {operator} compares numbers and times; write 5000 or 2026-11-01T00:00:00Z")
    try:
        instant = datetime.fromisoformat(value)
    except ValueError as error:
        raise UserError(f"{text!r}: {value} is no time: {error}") from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def condition(one: Filter, column: str, name: str) -> tuple[str, dict[str, Any]]:
    """The filter as a condition on a JSON column, never NULL, and its parameter `name` if it has one."""
    held = _condition(one, column, f"${name}")
    return f"coalesce({held}, false)", {} if one.value is None else {name: one.value}


def _condition(one: Filter, column: str, value: str) -> str:
    text, operator = f"text_of({column})", one.operator
    if operator in ("is empty", "is not empty"):
        empty = f"trim({text}) IN ('', '[]', '{{}}')"
        return empty if operator == "is empty" else f"NOT {empty}"
    if operator in ("contains", "not contains"):
        # Any element of a list; the list's own brackets and commas are not part of any.
        inside = (
            f"CASE json_type({column}) WHEN 'ARRAY' THEN len(list_filter(json_extract_string({column}, '$[*]'), "
            f"lambda item: contains(lower(item), lower({value})))) > 0 ELSE contains(lower({text}), lower({value})) END"
        )
        return inside if operator == "contains" else f"NOT coalesce({inside}, false)"
    if operator in ("starts with", "ends with"):
        return f"{operator.replace(' ', '_')}(lower({text}), lower({value}))"
    if isinstance(one.value, str):
        return f"{text} {operator} {value}"
    compared = f"{'instant' if isinstance(one.value, datetime) else 'number'}_in({text})"
    if operator == "!=":
        return f"NOT coalesce({compared} = {value}, false)"
    return f"{compared} {operator} {value}"


def first_broken(filters: Sequence[Filter], columns: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """An expression with the text of the first filter that a trace does not fit, NULL where it fits all of them.

    `columns` has the JSON column of each filter's path.
    """
    cases: list[str] = []
    bound: dict[str, Any] = {}
    for n, one in enumerate(filters):
        held, value = condition(one, columns[one.path], f"f{n}")
        cases.append(f"WHEN NOT {held} THEN $t{n}")
        bound |= {**value, f"t{n}": one.text}
    return f"CASE {' '.join(cases)} END" if cases else "NULL::VARCHAR", bound
