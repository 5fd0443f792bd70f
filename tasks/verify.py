"""Check that the warehouse says what was measured: hashes of all rows, keys, and every number computed again.

The numbers are those of reports, comparisons and verdicts. Calls of judges are compared with the ledger, wherever it
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import COLUMNS, DAMAGED
from answerkey.metrics_core.llm.ledger_place import ledger_exists, open_ledger
from answerkey.tasks.compare.compare import ComparedTogether, by_column, compared_again, stored_together
from answerkey.tasks.gate.gate import decided_again
from answerkey.tasks.gate.verdicts import verdicts_given
from answerkey.tasks.reports.aggregate import summarise_again
from answerkey.tasks.reports.commit import write_calls
from answerkey.tasks.reports.manifest import is_of_this_code
from answerkey.tasks.reports.report import Report, Score, list_reports, read_report, scores_of
from answerkey.tasks.warehouse.content import PARTS, hashes, wrongly_signed
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import definitions, relations
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_ROWS = 20
"""Rows of a report that are named."""
_TOLERANCE = 1e-9
"""Relative, between a stored number and the same one computed again: sums of floats depend on their order."""
_INTERVALS = ("ci_low", "ci_high", "ci_method", "n_clusters", "n_questions", "within_variance")
"""What another version of the code may compute in another way. Counts and means are what they are."""
_OF_CODE = (
    "ci_low", "ci_high", "low_with_unanswered", "people", "people_low", "people_high", "test", "warnings", "note",
    "not_comparable", "n_clusters", "n_labelled", "n_unanswered",
)  # fmt: skip
"""The same of a comparison, besides `_OF_FAMILY`; some of it earlier versions did not write down at all."""
_OF_FAMILY = ("p", "p_adjusted", "mde", "mde_note", "needed", "finding")
"""What of a comparison depends on the others that were made with it."""


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

    parts: int = 0
    """Parts of tables whose rows were hashed again."""
    reports: int = 0
    """Reports whose numbers were computed again."""
    numbers: int = 0
    """Rows of `report_scores` that they have."""
    older: int = 0
    """Reports that another version of the code made: their counts and means were computed again, and no intervals."""
    comparisons: int = 0
    """Comparisons whose numbers were computed again."""
    apart: int = 0
    """Those of them without some that they were made with: their p-values were not computed again."""
    verdicts: int = 0
    """Verdicts that were given again, from the scores and from what was calibrated until then."""
    outdated: int = 0
    """Comparisons and verdicts that were not: answers were removed since, a report or a metric of it is not there, or
    another version of the code made the reports of a verdict."""
    calls: int = 0
    """Calls of judges that were compared with the ledger."""
    uncompared: int = 0
    """Calls of judges that were not, since there is no ledger."""
    findings: tuple[Finding, ...] = ()


def verify(home: Home) -> Verified:
    """Look for rows that were changed, added or removed by other means than answerkey's.

    Every row is hashed again; keys and checks that the database does not look after are tested; and the aggregates of
    every report, corpus BLEU and pass@k among them, are computed again from its scores, with the code that made them.
    So are comparisons and verdicts. Whoever wants to write waits for one table or report at a time, not for all of it:
    what is forgotten meanwhile may be among the findings.

    Raises:
        UserError: there is no warehouse yet.
        LedgerError: the ledger cannot be read.
    """
    with home.warehouse.reading() as warehouse:
        found = _other_relations(warehouse)
        if any(finding.part == "table" and finding.table in relations() for finding in found):
            # What needs the columns that should be there would end in an error.
            return Verified(findings=tuple(found))
        parts, changed = _changed_parts(warehouse)
        found += changed
        found += _changed_reports(warehouse)
        found += _broken_rules(warehouse)
    # What a report says of itself is needed to compute it again.
    unreadable = {finding.part for finding in found if finding.table == "reports"}
    reports, differing = _readable(home, [one for one, *_ in list_reports(home) if one not in unreadable])
    found += differing
    with _session(home) as warehouse:
        numbers = 0
        for _, group in groupby(reports, key=lambda one: one.made_with):
            n, differing = _computed_again(warehouse, list(group))
            numbers += n
            found += differing
        for report in reports:
            found += _unmeasured(warehouse, report)
    older = sum(map(_is_older, reports))
    about = _About(home, {report.report_id: report for report in reports if report.is_readable})
    compared = _compared_again(about)
    given = _decided_again(about)
    calls, uncompared, differing = _other_calls(home)
    return Verified(
        parts, len(reports), numbers, older, compared.n, compared.apart, given.n, compared.outdated + given.outdated,
        calls, uncompared, (*found, *compared.findings, *given.findings, *differing),
    )  # fmt: skip


def _readable(home: Home, report_ids: Sequence[str]) -> tuple[list[Report], list[Finding]]:
    """The reports whose manifests say what those of answerkey do, and the others as findings."""
    reports, found = [], []
    with home.warehouse.reading() as warehouse:
        for report_id in report_ids:
            try:
                report = read_report(warehouse, report_id, home)
                whole = report.is_readable in (True, False) and report.n_total >= report.n_questions
            except (AttributeError, KeyError, TypeError, ValueError):
                whole = False
            if whole:
                reports.append(report)
            else:
                found.append(Finding("reports", report_id, "its manifest is none that answerkey writes"))
    return reports, found


def _is_older(report: Report) -> bool:
    return not is_of_this_code(report.manifest)


@contextmanager
def _session(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session in which only temporary tables are made."""
    # A transaction of a lake that only reads has no temporary tables.
    with home.warehouse.writing() if home.shared else home.warehouse.reading() as warehouse:
        yield warehouse


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
        left_out = _INTERVALS if _is_older(report) else ()
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


class _About:
    """A home, the reports in it that can be read, and when answers of them were removed."""

    def __init__(self, home: Home, reports: Mapping[str, Report]) -> None:
        self.home = home
        self.reports = reports
        with home.warehouse.reading() as warehouse:
            rows = warehouse.execute(_SQL["removed"]).fetchall()
        self.last_removal: datetime | None = max((moment for moment, _ in rows), default=None)
        self._removed = {report_id: moment for moment, ids in sorted(rows) for report_id in ids}

    def can_be_made_again(self, report_ids: Sequence[str], moment: datetime) -> bool:
        """Whether what was said of reports at a moment follows from what they are now."""
        return all(
            one in self.reports and (one not in self._removed or self._removed[one] < moment) for one in report_ids
        )

    def older(self, report_ids: Sequence[str]) -> bool:
        return any(_is_older(self.reports[one]) for one in report_ids)


@dataclass(slots=True)
class _Again:
    """What was made again, and what differs."""

    n: int = 0
    apart: int = 0
    outdated: int = 0
    findings: list[Finding] = field(default_factory=list)


def _compared_again(about: _About) -> _Again:
    done = _Again()
    for group in stored_together(about.home):
        known = tuple(
            rows
            for rows, pair in zip(group.rows, group.pairs, strict=True)
            if about.can_be_made_again(pair, rows[0]["created_at"])
        )
        done.outdated += len(group.rows) - len(known)
        if not known:
            continue
        made = ComparedTogether(known)
        done.n += len(known)
        done.apart += 0 if made.is_whole else len(known)
        try:
            found = compared_again(about.home, made)
        except (UserError, ValueError) as error:
            # Nobody can compare a report with itself, or with a seed below 0.
            places = (f"{new} against {old}" for old, new in made.pairs)
            done.findings += [Finding("comparisons", place, str(error)) for place in places]
            continue
        for rows, pair, again in zip(made.rows, made.pairs, found, strict=True):
            left_out = () if made.is_whole else _OF_FAMILY
            done.findings += _differing_rows(rows, again, (*_OF_FAMILY, *_OF_CODE) if about.older(pair) else left_out)
    return done


def _differing_rows(rows: Sequence[Mapping[str, Any]], again: Comparison, left_out: Sequence[str]) -> Iterator[Finding]:
    about, own = f"{again.new} against {again.old}", {_place(row): row for row in by_column(again)}
    for row in rows:
        place = f"{about} {_place(row)}"
        if found := own.pop(_place(row), None):
            yield from _other_values("comparisons", place, {name: row[name] for name in found}, found, left_out)
        else:
            yield Finding("comparisons", place, "the scores have nothing to make it of")
    for one in own:
        yield Finding("comparisons", f"{about} {one}", "it is missing")


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['metric']}.{row['field']}, {row['slice']}"


def _decided_again(about: _About) -> _Again:
    done = _Again()
    for given in verdicts_given(about.home):
        ids, place, stored = [given.old, given.new], f"{given.new} against {given.old}", given.stored
        if stored is None:
            done.findings.append(Finding("verdicts", place, "its rules are no rules"))
            continue
        removed_since = about.last_removal is not None and about.last_removal > given.moment
        # Earlier looks and calibrations may have been removed too.
        if removed_since or not about.can_be_made_again(ids, given.moment) or about.older(ids):
            done.outdated += 1
            continue
        done.n += 1
        try:
            again = decided_again(about.home, stored, given.moment)
        except (UserError, ValueError) as error:
            done.findings.append(Finding("verdicts", place, str(error)))
            continue
        said, own = stored.as_dict(), again.as_dict()
        # Rules that were added or are missing are in `policy` too.
        for rule, own_rule in zip(said.pop("rules"), own.pop("rules"), strict=False):
            done.findings += _other_values("verdicts", f"{place} {rule['rule']}", rule, own_rule)
        done.findings += _other_values("verdicts", place, said, own)
    return done


def _other_values(
    table: str, place: str, stored: Mapping[str, Any], own: Mapping[str, Any], left_out: Sequence[str] = ()
) -> list[Finding]:
    return [
        Finding(table, place, f"{name} is {value}, and {own[name]} from the scores")
        for name, value in stored.items()
        if name not in left_out and not _equal(value, own[name])
    ]


def _other_calls(home: Home) -> tuple[int, int, list[Finding]]:
    """Calls that the ledger lacks, that are other ones there, or that it alone has for a request with a reply.

    Returns how many were compared, how many were not for want of a ledger, and the findings.
    """
    if not ledger_exists(home.ledger):
        with home.warehouse.reading() as warehouse:
            [(n,)] = warehouse.execute("SELECT count(*) FROM judge_calls").fetchall()
        return 0, int(n), []
    columns = [name for name in COLUMNS if name != "call_id"]
    differs = " OR ".join(f'c."{name}" IS DISTINCT FROM l."{name}"' for name in columns)
    with TemporaryDirectory(prefix="answerkey-verify-") as folder, closing(open_ledger(home.ledger)) as ledger:
        about = {"file": one_file(Path(write_calls(Path(folder) / "calls.parquet", ledger.calls())))}
        with home.warehouse.reading() as warehouse:
            [(n,)] = warehouse.execute(_SQL["n_calls"], about).fetchall()
            missing = warehouse.execute(_SQL["missing_calls"], about).fetchall()
            added = warehouse.execute(_SQL["added_calls"], {**about, "most": _MOST_ROWS}).fetchall()
            damaged = warehouse.execute(_SQL["damaged"], {**about, "code": DAMAGED}).fetchall()
            query = _SQL["other_calls"].replace("CALL_DIFFERS", differs)
            rows = warehouse.execute(query, {**about, "code": DAMAGED, "most": _MOST_ROWS}).fetchall()
    found = [Finding("ledger", run, f"{n:,} of its {n_all:,} calls are missing") for run, n, n_all in missing]
    found += [
        Finding("ledger", run, f"call {call_id} has a second reply to a request that had one") for run, call_id in added
    ]
    found += [
        Finding("ledger", run, f"the reply to call {call_id} is not the one that was written")
        for run, call_id in damaged
    ]
    found += [
        Finding(
            "judge_calls", f"{call['run']} call {call['call_id']}", f"{name} is {call[name]!r}, and {own[name]!r} there"
        )
        for call, own in rows
        for name in columns
        if not _equal(call[name], own[name])
    ]
    return int(n), 0, found
