"""Check that the warehouse says what was measured: hashes of all rows, keys, and every number computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from answerkey.tasks.reports.aggregate import summarise_again
from answerkey.tasks.reports.manifest import code_revision
from answerkey.tasks.reports.report import Report, Score, list_reports, read_reports, scores_of
from answerkey.tasks.warehouse.content import PARTS, hashes, wrongly_signed
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_ROWS = 20
"""Rows of a report that are named."""
_TOLERANCE = 1e-9
"""Relative, between a stored number and the same one computed again: sums of floats depend on their order."""
_INTERVALS = ("ci_low", "ci_high", "ci_method", "n_clusters", "n_questions", "within_variance")
"""What another version of the code may compute in another way. Counts and means are what they are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in the warehouse that is not what was written, or does not follow from what is."""

    table: str
    part: str
    """Which of its rows; see `PARTS`."""
    what: str

    def __str__(self) -> str:
        return f"{self.table}: {self.part}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and what was found."""

    parts: int
    """Parts of tables whose rows were hashed again."""
    reports: int
    """Reports whose numbers were computed again."""
    numbers: int
    """Rows of `report_scores` that they have."""
    older: int
    """Reports that another version of the code made: their counts and means were computed again, and no intervals."""
    findings: tuple[Finding, ...]


def verify(home: Home) -> Verified:
    """Look for rows that were changed, added or removed by other means than answerkey's.

    Every row is hashed again; keys and checks that the database does not look after are tested; and the aggregates of
    every report, corpus BLEU and pass@k among them, are computed again from its scores, with the code that made them.
    Whoever wants to write waits meanwhile.

    Raises:
        UserError: there is no warehouse yet.
    """
    with home.warehouse.reading() as warehouse:
        parts, found = _changed_parts(warehouse)
        found += _changed_reports(warehouse)
        found += _broken_rules(warehouse)
    # What a report says of itself is needed to compute it again.
    unreadable = {finding.part for finding in found if finding.table == "reports"}
    reports = read_reports(home, [report_id for report_id, *_ in list_reports(home) if report_id not in unreadable])
    with _session(home) as warehouse:
        numbers = 0
        for _, group in groupby(reports, key=lambda one: one.made_with):
            n, differing = _computed_again(warehouse, list(group))
            numbers += n
            found += differing
        for report in reports:
            found += _unmeasured(warehouse, report)
    older = sum(report.manifest.get("code") != code_revision() for report in reports)
    return Verified(parts, len(reports), numbers, older, tuple(found))


@contextmanager
def _session(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session in which only temporary tables are made."""
    # A transaction of a lake that only reads has no temporary tables.
    with home.warehouse.writing() if home.shared else home.warehouse.reading() as warehouse:
        yield warehouse


def _changed_parts(warehouse: duckdb.DuckDBPyConnection) -> tuple[int, list[Finding]]:
    """Hash everything again. Returns the number of parts, and those that differ."""
    parts, found = 0, []
    for table in PARTS:
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


def _changed_reports(warehouse: duckdb.DuckDBPyConnection) -> list[Finding]:
    what = "its content hash is not that of its row, scores, aggregates, answers and samples"
    return [Finding("reports", report_id, what) for report_id in wrongly_signed(warehouse)]


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


def _computed_again(warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report]) -> tuple[int, list[Finding]]:
    """Compute the aggregates of the reports of one run again, in temporary tables of the same names."""
    known = [one for one in reports if one.is_readable]
    if not known:
        return 0, []
    ids = [report.report_id for report in known]
    if any("repeats" in one.manifest for one in known):
        warehouse.execute(_SQL["own_scores"], {"reports": ids})
    warehouse.execute(_SQL["own_aggregates"])
    try:
        summarise_again(warehouse, known)
        again = {report_id: scores_of(warehouse, report_id) for report_id in ids}
    finally:
        warehouse.execute(_SQL["forget"])
    found = []
    for report in known:
        left_out = _INTERVALS if report.manifest.get("code") != code_revision() else ()
        found += _differences(report, again[report.report_id], left_out)
    return sum(len(report.scores) for report in known), found


def _differences(report: Report, again: Sequence[Score], left_out: Sequence[str]) -> list[Finding]:
    computed = {(score.name, score.slice): asdict(score) for score in again}
    found = []
    for score in report.scores:
        place = f"{report.report_id} {score.name}, {score.slice}"
        own = computed.pop((score.name, score.slice), None)
        if own is None:
            # Reports of the first version do not say which fields their metrics had.
            if not left_out:
                found.append(Finding("report_scores", place, "the scores have nothing to make it of"))
            continue
        for name, value in asdict(score).items():
            if name not in left_out and not _equal(value, own[name]):
                found.append(Finding("report_scores", place, f"{name} is {value}, and {own[name]} from the scores"))
    for name, slice_ in computed:
        found.append(Finding("report_scores", f"{report.report_id} {name}, {slice_}", "it is missing"))
    return found


def _equal(stored: Any, computed: Any) -> bool:
    if isinstance(stored, float) and isinstance(computed, float):
        return math.isclose(stored, computed, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(stored == computed)


def _unmeasured(warehouse: duckdb.DuckDBPyConnection, report: Report) -> list[Finding]:
    """Scores of a report that are not the measurement that they were made of."""
    rows = warehouse.execute(_SQL["unmeasured"], {"report_id": report.report_id, "most": _MOST_ROWS}).fetchall()
    return [
        Finding(
            "scores", f"{report.report_id} sample {sample_id}, {metric}.{field}", f"{score}, and measured was {value}"
        )
        for sample_id, metric, field, score, value in rows
    ]
