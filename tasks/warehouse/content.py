"""Hashes of what tables hold, written with the rows: `answerkey verify` finds by them what was changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)

PARTS: Mapping[str, str] = {
    "datasets": "concat_ws('/', dataset, version)",
    "samples": "concat_ws('/', dataset, dataset_version)",
    "answers": "concat_ws('/', dataset, release, answers_version)",
    "runs": "run_id",
    "registered": "registration",
    "quarantine": "run_id",
    "validations": "run_id",
    "measurements": "run_id",
    "judge_calls": "run",
    "reports": "report_id",
    "scores": "report_id",
    "report_scores": "report_id",
    "calibrations": "created_at::VARCHAR",
    "comparisons": "concat_ws(' against ', new_report, old_report)",
    "verdicts": "concat_ws(' against ', new_report, old_report)",
    "trace_rules": "rule",
    "trace_outcomes": "run_id",
    "trace_funnels": "run_id",
    "removals": "removal::VARCHAR",
}
"""What tells the parts of each table that are hashed, in SQL: rows that are written together."""

_UNHASHED = {"reports": ("content_hash",)}


def seal(connection: duckdb.DuckDBPyConnection, parts: Mapping[str, Collection[str]]) -> None:
    """Write down the hashes of parts of tables, by table, in the transaction that has written their rows.

    A part that has no rows any more has no hash.
    """
    for table, named in parts.items():
        # IN (SELECT ...) is a join, and DuckDB would hold the rows that are not committed yet in memory for it.
        query = hashes(table, "list_contains($parts, PART)")
        hashed = connection.execute(query, {"parts": sorted(named)}).fetchall() if named else []
        if gone := sorted(set(named) - {part for part, *_ in hashed}):
            connection.execute(_SQL["forget"], {"table": table, "parts": gone})
        if hashed:
            of_parts, counts, found = (list(column) for column in zip(*hashed, strict=True))
            about = {"table": table, "parts": of_parts, "counts": counts, "hashes": found}
            # Not deleted and inserted: where the commit finds the disk full, DuckDB cannot take that back for a row
            # with a key, and ends the process.
            for name in ("replace", "add"):
                connection.execute(_SQL[name], about)


def seal_thinned(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """The same of those parts of a table that rows were just deleted from."""
    query = _SQL["thinned"].replace("PART", PARTS[table]).replace("HASHED_TABLE", table)
    seal(connection, {table: [part for (part,) in connection.execute(query, {"table": table}).fetchall()]})


def seal_reports(connection: duckdb.DuckDBPyConnection, report_ids: Sequence[str]) -> None:
    """The same of new reports, whose samples and answers are sealed already."""
    seal(connection, dict.fromkeys(("reports", "scores", "report_scores"), report_ids))
    sign = _SQL["sign"].replace("REPORT_HASHES", _SQL["report_hashes"])
    connection.execute(sign, {"reports": list(report_ids)})


def wrongly_signed(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The reports whose content hash is not that of their parts."""
    query = _SQL["wrongly_signed"].replace("REPORT_HASHES", _SQL["report_hashes"])
    return [report_id for (report_id,) in connection.execute(query).fetchall()]


def seal_all(connection: duckdb.DuckDBPyConnection) -> None:
    """The same of everything there is: of rows from before there were hashes."""
    for table, part in PARTS.items():
        query = _SQL["parts"].replace("PART", part).replace("HASHED_TABLE", table)
        seal(connection, {table: [one for (one,) in connection.execute(query).fetchall()]})
    seal_reports(connection, [one for (one,) in connection.execute("SELECT report_id FROM reports").fetchall()])


def hashes(table: str, condition: str = "true") -> str:
    """The query for the parts of a table, with the number of their rows and their content hash.

    Only rows for which the SQL `condition` holds are read, in which PART is the part that a row belongs to.
    """
    columns = sorted(column for column in relations()[table].columns if column not in _UNHASHED.get(table, ()))
    # Columns are named: another order of them is no other content.
    named = ", ".join(f'"{column}" := "{column}"' for column in columns)
    query = (
        _SQL["hashes"].replace("IN_QUESTION", condition).replace("PART", PARTS[table]).replace("COLUMNS_BY_NAME", named)
    )
    return query.replace("HASHED_TABLE", table)
