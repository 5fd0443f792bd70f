"""What `schema.sql` says of the tables: comments, keys and checks, for the database, for `verify` and for the docs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from answerkey.tasks.warehouse.sql import text

_PACKAGE = "answerkey.tasks.warehouse"
_CREATE = re.compile(r"CREATE (?:TABLE IF NOT EXISTS|OR REPLACE (VIEW)) (\w+)")
_COLUMN = re.compile(r'^    "?(\w+)"? +(\S.*?),? *-- (.*)$', re.MULTILINE)
_CONSTRAINT = re.compile(r"^    (--)?, (PRIMARY KEY|CHECK) \(([^;]*?)\)\n(?=    (?:--)?, |\);)", re.MULTILINE)
_NOTE = re.compile(r"^--   (\w+): (.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view of the warehouse, as `schema.sql` describes it."""

    name: str
    is_view: bool
    comment: str
    columns: Mapping[str, str]
    """Comments by column. Of a view those of its own; it has the others from the tables that it reads."""
    types: Mapping[str, str]
    """By column of a table."""
    key: tuple[str, ...]
    """The columns of which no two rows have the same values; none where rows have no key."""
    checks: tuple[str, ...]
    """Conditions that hold for every row, in SQL."""
    keeps_key: bool
    """Whether DuckDB itself looks after the key; otherwise `verify` does."""


@cache
def relations() -> Mapping[str, Relation]:
    """The tables and views by name, in the order of `schema.sql`."""
    found: dict[str, Relation] = {}
    for block in text(_PACKAGE, "schema.sql").split("\n\n"):
        if created := _CREATE.search(block):
            comment, body = block[: created.start()], block[created.end() :]
            view, name = created.groups()
            found[name] = _view(name, comment, body, found) if view else _table(name, comment, body)
    return found


def _table(name: str, comment: str, body: str) -> Relation:
    key: tuple[str, ...] = ()
    keeps_key, checks, types, columns = False, [], {}, {}
    for left_out, kind, rule in _CONSTRAINT.findall(body):
        if kind == "CHECK":
            checks.append(" ".join(rule.split()))
        else:
            key, keeps_key = tuple(rule.split(", ")), not left_out
    for column, type_, said in _COLUMN.findall(body):
        types[column], columns[column] = type_, said
    return Relation(name, False, _plain(comment), columns, types, key, tuple(checks), keeps_key)


def _view(name: str, comment: str, body: str, known: Mapping[str, Relation]) -> Relation:
    columns: dict[str, str] = {}
    for read in re.findall(r"(?:FROM|JOIN) (\w+)", body):
        columns = {**(known[read].columns if read in known else {}), **columns}
    columns |= dict(_NOTE.findall(comment))
    return Relation(name, True, _plain(_NOTE.sub("", comment)), columns, {}, (), (), False)


def _plain(comment: str) -> str:
    return " ".join(line.removeprefix("--").strip() for line in comment.splitlines()).strip()


def definitions(*, constraints: bool) -> str:
    """The statements of `schema.sql`, with or without keys and checks."""
    whole = text(_PACKAGE, "schema.sql")
    return whole if constraints else _CONSTRAINT.sub("", whole)


def comments(columns: Mapping[str, list[str]]) -> str:
    """`COMMENT ON` for everything in `columns`, which has the columns of every table and view."""
    lines = []
    for name, relation in relations().items():
        lines.append(f"COMMENT ON {'VIEW' if relation.is_view else 'TABLE'} {name} IS {_literal(relation.comment)}")
        for column in columns.get(name, []):
            if said := relation.columns.get(column):
                lines.append(f'COMMENT ON COLUMN {name}."{column}" IS {_literal(said)}')
    return ";\n".join(lines)


def _literal(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"
