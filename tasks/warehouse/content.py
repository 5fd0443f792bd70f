"""Hashes of the rows of tables, written together with the rows: `answerkey warehouse verify` compares them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)

PARTITIONS: Mapping[str, str] = {
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
    "label_queues": "queue",
    "label_questions": "queue",
    "labels": "coalesce(queue, 'imported')",
    "verdicts": "concat_ws(' against ', new_report, old_report)",
    "trace_rules": "rule",
    "trace_outcomes": "run_id",
    "trace_funnels": "run_id",
    "removals": "removal::VARCHAR",
}
"""What tells the parts of each table that are hashed, in SQL: rows that are written together."""

_UNHASHED = {"reports": ("content_hash",), "scores": ("report_id",)}
"""Columns that are in no hash: a report's own, and of scores what names their part: workers, who hash them, cannot know
the id of the report yet."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The sums behind a content hash. Sums of disjoint sets of rows add up to that of their union.

    >>> (Sums(1, 0b01, 2**64 - 1) + Sums(2, 0b11, 2)).content_hash
    '00000000000000020000000000000001'
    """

    n_rows: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(self.n_rows + other.n_rows, self.low ^ other.low, (self.high + other.high) % 2**64)

    @property
    def content_hash(self) -> str:
        """32 hex digits, as the statement `hashes` makes them."""
        return f"{self.low:016x}{self.high:016x}"


@dataclass(frozen=True, slots=True)
class ScoreChecksums:
    """Hashes of the rows of `scores` of some fields (`metric.field`), by report."""

    fields: tuple[str, ...]
    sums: Mapping[str, Checksum]


def write_checksums(connection: duckdb.DuckDBPyConnection, parts: Mapping[str, Collection[str]]) -> None:
    """Write the hashes of parts of tables, by table, in the transaction that has written their rows.

    The hash of a part without rows is removed.
    """
    found = []
    for table, named in parts.items():
        # IN (SELECT ...) is a join, and DuckDB would hold the rows that are not committed yet in memory for it.
        query = hashes(table, "list_contains($parts, PART)")
        hashed = connection.execute(query, {"parts": sorted(named)}).fetchall() if named else []
        if gone := sorted(set(named) - {part for part, *_ in hashed}):
            connection.execute(_SQL["forget"], {"table": table, "parts": gone})
        found += [(table, *of_part) for of_part in hashed]
    _write_down(connection, found)


def _write_down(connection: duckdb.DuckDBPyConnection, hashed: Sequence[tuple[Any, ...]]) -> None:
    """Keep the hashes of parts: each its table and its name, the number of its rows, and its content hash.

    All at once: on a lake a statement asks the catalog, whatever it does.
    """
    if not hashed:
        return
    names = ("tables", "parts", "counts", "hashes")
    about = dict(zip(names, (list(column) for column in zip(*hashed, strict=True)), strict=True))
    # Not deleted and inserted: where the commit finds the disk full, DuckDB cannot take that back for a row with a
    # key, and ends the process.
    for name in ("replace", "add"):
        connection.execute(_SQL[name], about)


def refresh_checksums(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """The same of those parts of a table that rows were just deleted from."""
    query = _SQL["thinned"].replace("PART", PARTITIONS[table]).replace("HASHED_TABLE", table)
    write_checksums(connection, {table: [part for (part,) in connection.execute(query, {"table": table}).fetchall()]})


def write_report_checksums(
    connection: duckdb.DuckDBPyConnection, report_ids: Sequence[str], scores: ScoreChecksums | None = None
) -> None:
    """The same of new reports, whose samples and answers are sealed already, and perhaps some of their `scores`."""
    write_checksums(connection, dict.fromkeys(("reports", "report_scores"), report_ids))
    if scores is None:
        write_checksums(connection, {"scores": report_ids})
    else:
        _seal_scores(connection, scores)
    sign = _SQL["sign"].replace("REPORT_HASHES", _report_hashes("report_id IN (SELECT unnest($reports))"))
    connection.execute(sign, {"reports": list(report_ids)})


def _seal_scores(connection: duckdb.DuckDBPyConnection, scores: ScoreChecksums) -> None:
    """Hash the rows of the other fields, and add them up."""
    others = "list_contains($parts, PART) AND NOT list_contains($fields, concat_ws('.', metric, field))"
    found = connection.execute(_sums("scores", others), {"parts": list(scores.sums), "fields": list(scores.fields)})
    rest = {part: Checksum(*of_part) for part, *of_part in found.fetchall()}
    whole = {report_id: sums + rest.get(report_id, Checksum()) for report_id, sums in scores.sums.items()}
    store_checksums(connection, {"scores": whole})


def store_checksums(connection: duckdb.DuckDBPyConnection, sums: Mapping[str, Mapping[str, Checksum]]) -> None:
    """As `write_checksums`, of parts of tables of which every row was hashed elsewhere."""
    every = [(table, part, one) for table, of_table in sums.items() for part, one in of_table.items()]
    _write_down(connection, [(table, part, one.n_rows, one.content_hash) for table, part, one in every])


def has_checksum(connection: duckdb.DuckDBPyConnection, table: str, part: str) -> bool:
    """Whether a table has rows of this part already."""
    return bool(connection.execute(_SQL["is_sealed"], {"table": table, "part": part}).fetchall())


def checksums_of_files(
    connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[str], others: Mapping[str, str]
) -> dict[str, Checksum]:
    """By part, of the rows of a table in Parquet files, which are escaped as `one_file` does it.

    `others` are columns that the files lack, with the value of all rows.
    """
    types = {column: type_.removesuffix(" NOT NULL") for column, type_ in relations()[table].types.items()}
    constants = "".join(f', ${column}::{types[column]} AS "{column}"' for column in others)
    query = _sums(table, "true", f"(SELECT *{constants} FROM read_parquet($files))")
    found = connection.execute(query, {"files": list(files), **others}).fetchall()
    return {part: Checksum(*of_part) for part, *of_part in found}


def reports_with_other_checksums(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The reports whose content hash is not that of their parts."""
    query = _SQL["wrongly_signed"].replace("REPORT_HASHES", _report_hashes("true"))
    return [report_id for (report_id,) in connection.execute(query).fetchall()]


def _report_hashes(condition: str) -> str:
    return _SQL["report_hashes"].replace("IN_QUESTION", condition)


def write_all_checksums(connection: duckdb.DuckDBPyConnection) -> None:
    """The same of everything there is: of rows from before there were hashes."""
    for table, part in PARTITIONS.items():
        query = _SQL["parts"].replace("PART", part).replace("HASHED_TABLE", table)
        write_checksums(connection, {table: [one for (one,) in connection.execute(query).fetchall()]})
    write_report_checksums(
        connection, [one for (one,) in connection.execute("SELECT report_id FROM reports").fetchall()]
    )


def hashes(table: str, condition: str = "true") -> str:
    """The query for the parts of a table, with the number of their rows and their content hash.

    Only rows for which the SQL `condition` holds are read, in which PART is the part that a row belongs to.
    """
    return _SQL["hashes"].replace("SUMS", _sums(table, condition))


def _sums(table: str, condition: str, rows: str = "") -> str:
    """The query for the `Checksum` of the parts of a table, or of such `rows`."""
    columns = sorted(column for column in relations()[table].columns if column not in _UNHASHED.get(table, ()))
    # Columns are named: another order of them is no other content.
    named = ", ".join(f'"{column}" := "{column}"' for column in columns)
    query = _SQL["sums"].replace("IN_QUESTION", condition).replace("PART", PARTITIONS[table])
    return query.replace("COLUMNS_BY_NAME", named).replace("HASHED_ROWS", rows or table)
