"""Versions of the tables, and the migrations from older ones.

`schema.sql` is what the tables are now. `migrations/NNN_*.sql` does to tables of version NNN - 1 what `schema.sql`,
which is run afterwards, would not do to tables that exist: new columns, and their values. Keys and checks come with a
table, so tables from before version 6 are made again where a database has any.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.content import seal_all
from answerkey.tasks.warehouse.schema import comments, definitions, relations

if TYPE_CHECKING:
    import duckdb

VERSION = 8
"""Of the tables as in `schema.sql`. Any change of that file needs the next one, and a migration to it."""

_FIRST_WITH_KEYS = 6
_PACKAGE = "answerkey.tasks.warehouse"
_DOUBLED_REPORTS = "SELECT report_id, count(*) FROM reports GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
_COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_catalog = current_database()"


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The version of the tables in a database: 0 if there are no tables, 1 if no version is recorded."""
    import duckdb

    # The usual case first: on a lake the list of all tables takes longer than everything else in a short session.
    with suppress(duckdb.CatalogException):
        [(version,)] = connection.execute("SELECT version FROM schema_version").fetchall()
        return int(version)
    tables = "SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"
    [(count,)] = connection.execute(tables).fetchall()
    return 1 if count else 0


def check_version(place: object, version: int) -> None:
    """Check that this answerkey knows the tables at `place`.

    Raises:
        UserError: a newer one made them.
    """
    if version > VERSION:
        raise UserError(
            f"{place}: written by a newer answerkey (its tables have version {version}, this one supports {VERSION}); "
            "install the newer one, or give another --home"
        )


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the tables to `VERSION` within the caller's transaction; nothing is done if they have it already.

    Raises:
        UserError: rows of the older version break a key or a check; nothing is changed then.
    """
    version = version_of(connection)
    if version == VERSION:
        return
    constraints = _has_constraints(connection)
    if constraints and version and version < _FIRST_WITH_KEYS:
        _make_again(connection)
    for number in range(version + 1, VERSION + 1) if version else ():
        connection.execute(_migration(number))
    connection.execute(definitions(constraints=constraints))
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(_COLUMNS).fetchall():
        columns.setdefault(table, []).append(column)
    # On a lake a comment costs as much as a table: it has those on tables and views.
    connection.execute(comments(columns if constraints else {}))
    if version:
        # The hashes name the columns, so those of rows from before a column hold no longer.
        seal_all(connection)
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version (version, applied_at) VALUES (?, now())", [VERSION])


def _has_constraints(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database knows keys and checks: DuckDB does, a lake does not."""
    kind = "SELECT type FROM duckdb_databases() WHERE database_name = current_database()"
    [(found,)] = connection.execute(kind).fetchall()
    return bool(found == "duckdb")


def _make_again(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of an older version again, with keys, checks and all columns; before anything else is changed.

    Raises:
        UserError: their rows break a key or a check.
    """
    import duckdb

    rows = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    old = [table for (table,) in rows if table in relations()]
    for table in old:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    connection.execute(definitions(constraints=True))
    for table in old:
        try:
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM old_{table}")
        except duckdb.ConstraintException as error:
            raise _contradictory(table, " ".join(str(error).split())) from error
        connection.execute(f"DROP TABLE old_{table}")
    # DuckDB does not look after their key, and whatever names a report would mean two.
    for report_id, n in connection.execute(_DOUBLED_REPORTS).fetchall():
        raise _contradictory("reports", f"{report_id} is there {n} times")


def _contradictory(table: str, why: str) -> UserError:
    return UserError(
        f"the table {table} has rows that contradict themselves, so it cannot become version {VERSION}, and "
        f"was left as it is: {why}; remove them with DuckDB, or go back to a backup"
    )


def _migration(number: int) -> str:
    folder = resources.files(_PACKAGE) / "migrations"
    [file] = [file for file in folder.iterdir() if file.name.startswith(f"{number:03}_")]
    return file.read_text(encoding="utf-8")
