"""Check that the warehouse holds what was written: hashes of all rows, keys and checks, and the ledger of judge calls.

Whether the numbers of a report follow from its measurements is shown by `answerkey rerun`, which makes them again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from answerkey.metrics_core.llm.ledger import COLUMNS, ledger_exists, open_ledger
from answerkey.tasks.reports.commit import write_calls
from answerkey.tasks.warehouse.content import PARTITIONS, hashes, reports_with_other_checksums
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import definitions, relations
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_CALLS = 20
"""Calls that differ from the ledger, of which so many are named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference between what the warehouse holds and what was written.

    Attributes:
        part: which rows of the table; see `PARTITIONS`.
    """

    table: str
    part: str
    what: str

    def __str__(self) -> str:
        return f"{self.table}: {self.part}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared, and what differs.

    Attributes:
        parts: parts of tables whose rows were hashed.
        reports: reports whose content hash was compared.
        calls: calls of judges that were compared with the ledger.
        uncompared: calls that were not compared, because there is no ledger.
    """

    parts: int = 0
    reports: int = 0
    calls: int = 0
    uncompared: int = 0
    findings: tuple[Finding, ...] = ()


def verify(home: Home) -> Verified:
    """Find rows that were changed, added or removed by other means than answerkey's.

    Every row is hashed, every report's content hash is compared with that of its parts, keys and checks that the
    database does not enforce are tested, and the calls of judges are compared with the ledger.

    Raises:
        UserError: there is no warehouse yet.
        LedgerError: the ledger cannot be read.
    """
    with home.warehouse.reading() as warehouse:
        found = _other_relations(warehouse)
        if any(finding.part == "table" and finding.table in relations() for finding in found):
            # The next checks need the columns that should be there.
            return Verified(findings=tuple(found))
        parts, changed = _changed_parts(warehouse)
        [(reports,)] = warehouse.execute("SELECT count(*) FROM reports").fetchall()
        what = "its content hash is not that of its row, scores, aggregates, answers and samples"
        others = [Finding("reports", report_id, what) for report_id in reports_with_other_checksums(warehouse)]
        found += [*changed, *others, *_broken_rules(warehouse)]
    calls, uncompared, differing = _other_calls(home)
    return Verified(parts, int(reports), calls, uncompared, (*found, *differing))


def _other_relations(warehouse: duckdb.DuckDBPyConnection) -> list[Finding]:
    """Tables and views that are not defined as answerkey defines them, and what it does not make at all."""
    defined, found = _definitions(), []
    for name, kind, definition in warehouse.execute(_SQL["relations"]).fetchall():
        if name not in defined:
            found.append(Finding(name, kind, "answerkey does not make it"))
        elif (kind, definition) not in defined.pop(name):
            found.append(Finding(name, kind, "it is not defined as answerkey defines it"))
    missing = ((name, min(defined[name])[0]) for name in defined)
    return found + [Finding(name, kind, "it is missing") for name, kind in missing]


def _definitions() -> dict[str, set[tuple[str, str]]]:
    """The tables and views of answerkey, each with its kind and its columns or SQL.

    That is as DuckDB gives it before and after it has stored it, which is not the same.
    """
    defined: dict[str, set[tuple[str, str]]] = {}
    with TemporaryDirectory(prefix="answerkey-verify-") as folder:
        for script in (definitions(constraints=False), ""):
            with session(str(Path(folder) / "new.duckdb")) as new:
                new.execute(script)
                for name, kind, definition in new.execute(_SQL["relations"]).fetchall():
                    defined.setdefault(name, set()).add((kind, definition))
    return defined


def _changed_parts(warehouse: duckdb.DuckDBPyConnection) -> tuple[int, list[Finding]]:
    """Hash everything again. Returns the number of parts, and those that differ."""
    parts, found = 0, []
    for table in PARTITIONS:
        rows = warehouse.execute(_SQL["parts"].replace("HASHES", hashes(table)), {"table": table}).fetchall()
        for part, n_rows, content_hash, n_written, written in rows:
            parts += 1
            if content_hash == written:
                continue
            if written is None:
                # Parts that a lake has adopted as they were are compared with the scores alone.
                if table != "measurements":
                    found.append(Finding(table, part, f"{n_rows:,} rows that answerkey has not written"))
            elif n_rows != n_written:
                found.append(Finding(table, part, f"{n_rows or 0:,} rows, and {n_written:,} were written"))
            else:
                found.append(Finding(table, part, f"of {n_rows:,} rows at least one was changed"))
    return parts, found


def _broken_rules(warehouse: duckdb.DuckDBPyConnection) -> list[Finding]:
    """Keys and checks. What DuckDB looks after by itself holds, unless somebody has made its table again."""
    found = []
    for table, relation in relations().items():
        if relation.key:
            key = ", ".join(relation.key)
            query = _SQL["doubled"].replace("UNIQUE_COLUMNS", key).replace("CHECKED_TABLE", table)
            [(n,)] = warehouse.execute(query).fetchall()
            if n:
                found.append(Finding(table, key, f"{n:,} rows have the key of another one"))
        for check in relation.checks:
            [(n,)] = warehouse.execute(f"SELECT count(*) FROM {table} WHERE NOT ({check})").fetchall()
            if n:
                found.append(Finding(table, check, f"{n:,} rows for which this does not hold"))
    return found


def _other_calls(home: Home) -> tuple[int, int, list[Finding]]:
    """Calls that the ledger lacks, that are other ones there, or that it alone has for a request with a reply.

    Returns how many were compared, how many were not for want of a ledger, and the findings.
    """
    if not ledger_exists(home.ledger):
        [(n,)] = home.rows("SELECT count(*) FROM judge_calls")
        return 0, int(n), []
    columns = [name for name in COLUMNS if name != "call_id"]
    differs = " OR ".join(f'c."{name}" IS DISTINCT FROM l."{name}"' for name in columns)
    with TemporaryDirectory(prefix="answerkey-verify-") as folder, closing(open_ledger(home.ledger)) as ledger:
        about = {"file": one_file(Path(write_calls(Path(folder) / "calls.parquet", ledger.calls())))}
        with home.warehouse.reading() as warehouse:
            [(n,)] = warehouse.execute(_SQL["n_calls"], about).fetchall()
            missing = warehouse.execute(_SQL["missing_calls"], about).fetchall()
            added = warehouse.execute(_SQL["added_calls"], {**about, "most": _MOST_CALLS}).fetchall()
            query = _SQL["other_calls"].replace("CALL_DIFFERS", differs)
            rows = warehouse.execute(query, {**about, "most": _MOST_CALLS}).fetchall()
    found = [Finding("ledger", run, f"{n:,} of its {n_all:,} calls are missing") for run, n, n_all in missing]
    found += [
        Finding("ledger", run, f"call {call_id} has a second reply to a request that had one") for run, call_id in added
    ]
    found += [
        Finding(
            "judge_calls", f"{call['run']} call {call['call_id']}", f"{name} is {call[name]!r}, and {own[name]!r} there"
        )
        for call, own in rows
        for name in columns
        if call[name] != own[name]
    ]
    return int(n), 0, found
