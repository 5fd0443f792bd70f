"""Versions of the tables, and the migrations from older ones.

`schema.sql` is what the tables are now. `migrations/NNN_*.sql` does to tables of version NNN - 1 what `schema.sql`,
which is run afterwards, would not do to tables that exist: new columns, and their values.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.sql import text

if TYPE_CHECKING:
    import duckdb

VERSION = 5
"""Of the tables as in `schema.sql`. Any change of that file needs the next one, and a migration to it."""

_PACKAGE = "answerkey.tasks.warehouse"


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
    """Bring the tables to `VERSION` within the caller's transaction; nothing is done if they have it already."""
    version = version_of(connection)
    if version == VERSION:
        return
    for number in range(version + 1, VERSION + 1) if version else ():
        connection.execute(_migration(number))
    connection.execute(text(_PACKAGE, "schema.sql"))
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version (version, applied_at) VALUES (?, now())", [VERSION])


def _migration(number: int) -> str:
    folder = resources.files(_PACKAGE) / "migrations"
    [file] = [file for file in folder.iterdir() if file.name.startswith(f"{number:03}_")]
    return file.read_text(encoding="utf-8")
