"""What `schema.sql` says of the tables, comments and keys included, for the database and for the docs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.sql import text

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""Of the tables as in `schema.sql`."""

_PACKAGE = "answerkey.tasks.warehouse"
_CREATE = re.compile(r"CREATE (?:TABLE IF NOT EXISTS|OR REPLACE (VIEW)) (\w+)")
_COLUMN = re.compile(r'^    "?(\w+)"? +(\S.*?),? *-- (.*)$', re.MULTILINE)
_CONSTRAINT = re.compile(r"^    (--)?, (PRIMARY KEY|CHECK) \(([^;]*?)\)\n(?=    (?:--)?, |\);)", re.MULTILINE)
_COLUMNS = (
    "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE database_name = current_database() GROUP BY 1"
)
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
    keeps_key: bool
    """Whether DuckDB itself looks after the key."""


@cache
def relations() -> Mapping[str, Relation]:
    """The tables and views by name, in the order of `schema.sql`."""
    relations_by_name: dict[str, Relation] = {}
    for block in text(_PACKAGE, "schema.sql").split("\n\n"):
        created = _CREATE.search(block)
        if not created:
            continue
        comment = block[: created.start()]
        body = block[created.end() :]
        view, name = created.groups()
        columns: dict[str, str] = {}
        types: dict[str, str] = {}
        key: tuple[str, ...] = ()
        keeps_key = False
        if view:
            # Its own columns, and those of the tables that it reads
            for source in re.findall(r"(?:FROM|JOIN) (\w+)", body):
                if source in relations_by_name:
                    columns = {**relations_by_name[source].columns, **columns}
            columns |= dict(_NOTE.findall(comment))
            comment = _NOTE.sub("", comment)
        else:
            # A key that is a comment is not looked after by DuckDB
            for left_out, kind, rule in _CONSTRAINT.findall(body):
                if kind == "PRIMARY KEY":
                    key = tuple(rule.split(", "))
                    keeps_key = not left_out
            for column, type_, comment_of_column in _COLUMN.findall(body):
                types[column] = type_
                columns[column] = comment_of_column
        words = " ".join(line.removeprefix("--").strip() for line in comment.splitlines()).strip()
        relations_by_name[name] = Relation(
            name=name,
            is_view=bool(view),
            comment=words,
            columns=columns,
            types=types,
            key=key,
            keeps_key=keeps_key,
        )
    return relations_by_name


def definitions(*, constraints: bool) -> str:
    """The statements of `schema.sql`, with or without keys and checks."""
    statements = text(_PACKAGE, "schema.sql")
    return statements if constraints else _CONSTRAINT.sub("", statements)


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The version of the tables in a database: 0 if it has none of answerkey's."""
    import duckdb

    try:
        [(version,)] = connection.execute("SELECT version FROM schema_version").fetchall()
    except duckdb.CatalogException:
        return 0
    return int(version)


def check_version(home: object, version: int) -> None:
    """Check that this answerkey knows the tables of `home`: they have its version, or there are none.

    Raises:
        UserError: another version made them.
    """
    if version not in (0, VERSION):
        raise UserError(
            f"{home}: written by another version of answerkey (its tables have version {version}, this one supports "
            f"{VERSION}); install that one, or give another --home"
        )


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Make all tables and views in an empty database, with their comments."""
    kind = "SELECT type FROM duckdb_databases() WHERE database_name = current_database()"
    # DuckDB knows keys and checks, a lake does not
    is_file = connection.execute(kind).fetchall() == [("duckdb",)]
    connection.execute(definitions(constraints=is_file))
    # On a lake a comment costs as much as a table: it has those on tables and views
    columns: dict[str, list[str]] = {}
    if is_file:
        columns.update(connection.execute(_COLUMNS).fetchall())
    comments = []
    for name, relation in relations().items():
        kind = "VIEW" if relation.is_view else "TABLE"
        comments.append(f"COMMENT ON {kind} {name} IS {_literal(relation.comment)}")
        for column in columns.get(name, []):
            if comment := relation.columns.get(column):
                comments.append(f'COMMENT ON COLUMN {name}."{column}" IS {_literal(comment)}')
    connection.execute(";\n".join(comments))
    connection.execute("INSERT INTO schema_version (version, applied_at) VALUES (?, now())", [VERSION])


def _literal(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"
