"""Versions of the tables, and the migrations from older ones.

`schema.sql` is what the tables are now. Each of `MIGRATIONS` does to the tables of one version what `schema.sql`, which
is run afterwards, would not do to tables that exist: new columns, and their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.content import write_all_checksums
from answerkey.tasks.warehouse.schema import comments, definitions

if TYPE_CHECKING:
    import duckdb

MIGRATIONS: tuple[str, ...] = ()
"""SQL that makes the next version of the tables, the first statement from version 1 to 2. Any change of `schema.sql`
after a release needs one more."""
VERSION = 1 + len(MIGRATIONS)
"""Of the tables as in `schema.sql`."""

_COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_catalog = current_database()"


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The version of the tables in a database: 0 if it has none of answerkey's."""
    import duckdb

    with suppress(duckdb.CatalogException):
        [(version,)] = connection.execute("SELECT version FROM schema_version").fetchall()
        return int(version)
    return 0


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


def migrate(connection: duckdb.DuckDBPyConnection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring the tables to the version after the last of `migrations`, within the caller's transaction.

    Nothing is done where they have that version already.
    """
    version, newest = version_of(connection), 1 + len(migrations)
    if version == newest:
        return
    kind = "SELECT type FROM duckdb_databases() WHERE database_name = current_database()"
    # DuckDB knows keys and checks, a lake does not.
    constraints = connection.execute(kind).fetchall() == [("duckdb",)]
    for statements in migrations[version - 1 :] if version else ():
        connection.execute(statements)
    connection.execute(definitions(constraints=constraints))
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(_COLUMNS).fetchall():
        columns.setdefault(table, []).append(column)
    # On a lake a comment costs as much as a table: it has those on tables and views.
    connection.execute(comments(columns if constraints else {}))
    if version:
        # The hashes name the columns, so those of rows from before a column hold no longer.
        write_all_checksums(connection)
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version (version, applied_at) VALUES (?, now())", [newest])
