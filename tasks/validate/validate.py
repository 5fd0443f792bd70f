"""Validation: each staged row is accepted, or goes to quarantine with the rule it broke and the reason.

DuckDB measures the texts (`measures.sql`) and makes a column of flags for each rule of `contract.py`, Great
Expectations checks the flags (`expectations.py`), and the rows are then split in one pass over the file, a batch at a
time.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.tasks.load.rows import quarantine_schema, staged_schema
from answerkey.tasks.validate.contract import (
    LENGTH_TOLERANCE,
    MISSING_TOLERANCE,
    RELEASE_RULES,
    Contract,
    Rule,
    Severity,
    quarantined,
    row_rules,
    without_answer,
)
from answerkey.tasks.validate.expectations import Suite, breaking, check_rows, read_suite, text_frames
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import parquet_writer, row_bytes, row_groups
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

_SQL = statements(__name__)
_MEASURES = statements("answerkey.tasks.validate.measures")
"""Statements that measure staged rows: each on its own, and all together."""
_VECTOR_ROWS = 2_048  # that one thread of DuckDB has in work
_BATCH_BYTES = 32 * 2**20
_MAX_BATCH_ROWS = 50_000
_REFUSED_ROWS = 5_000  # at once as Python objects, which weigh many times more
_WHY_CHARS = 200
_MAX_RELEASES = 100  # more are usually a wrong mapping, and one line each would drown the report


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one rule. `n_failed` of `n_checked` rows, samples or releases break it.

    A row that breaks several rules counts in each, so the counts of the checks can add up to more than the
    rows in quarantine. `release` is set where the check is about one release.
    """

    rule: str
    severity: Severity
    success: bool
    n_checked: int
    n_failed: int
    message: str
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Validation:
    """Where the rows went: `n_rows` = `n_accepted` + `n_quarantined`, rows that could not be read included.

    `broken` is one line where the contract is broken and nothing may be scored, else None. `expectations` is the text
    of the user's suite, empty if there is none.
    """

    accepted: str
    quarantine: str
    n_rows: int
    n_accepted: int
    n_quarantined: int
    checks: tuple[Check, ...]
    broken: str | None
    expectations: str = ""


Location = Mapping[str, Any]
"""`file`, None where there is but one, and `row`, the number of a row in it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows in quarantine under one rule: how many, the first three, and what is wrong (one line)."""

    rule: str
    count: int
    rows: Sequence[Location]
    why: str


def validate(
    staged: str,
    rejects: str | None,
    out_dir: str,
    contract: Contract,
    home: Path | None = None,
) -> Validation:
    """Split the rows of `staged` into `accepted.parquet` and `quarantine.parquet` under `out_dir`.

    Where every row is accepted as it is, the accepted rows are `staged` itself.

    Args:
        staged: Parquet file with the columns of `staged_schema()`.
        rejects: Parquet file with the columns of `quarantine_schema()`: rows that could not be read.
            They go first into the quarantine, under the rules that they bring.
        out_dir: folder of the two files; created if it does not exist. Files of these names are replaced.
        contract: the thresholds.
        home: the folder of a home, which keeps what Great Expectations has found for the next run; None: nothing is.

    The accepted rows keep their order, with `correct` filled from `label`. Data of any kind are a result, no exception.

    Raises:
        RuntimeError: a check could not be run.
    """
    import pyarrow.parquet as pq

    os.makedirs(out_dir, exist_ok=True)
    accepted = os.path.join(out_dir, "accepted.parquet")
    quarantine = os.path.join(out_dir, "quarantine.parquet")
    suite = read_suite(contract.expectations) if contract.expectations else None
    n_read = pq.read_metadata(staged).num_rows
    with _measured(staged, out_dir) as db:
        # Which rows and releases break which rules
        rules = row_rules(contract)
        broken = list(map(_Broken, rules, breaking(db, "frame", rules, home)))
        own_breaches, own_checks = _check_own_suite(suite, db, _batch_rows(staged)) if suite else ([], [])
        broken += own_breaches
        row_checks = _row_checks(db, broken, n_read)
        releases = db.execute(_SQL["releases"]).to_arrow_table().to_pylist()
        failing = [set(positions) for positions in breaking(db, "releases", RELEASE_RULES, home)]
        release_checks = [*_release_checks(releases, failing)]

        # Where the rows go
        quarantining = {breach.rule.name: breach.rule.breaks for breach in broken if breach.rule.reason}
        has_refused = any(breach.positions for breach in broken if breach.rule.reason)
        with parquet_writer(quarantine, quarantine_schema()) as out:
            for batch in _batches(rejects) if rejects else ():
                out.write_batch(batch.select(out.schema.names))
            [(labelled,)] = db.execute("SELECT count(*) > 0 FROM frame WHERE label_value >= 0").fetchall()
            is_staged = pq.read_schema(staged).equals(staged_schema())
            if has_refused or labelled or not is_staged:
                with parquet_writer(accepted, staged_schema()) as good:
                    _split(staged, db, [breach.rule for breach in broken], good, out)
            else:
                accepted = staged

        # What is in quarantine under each rule
        groups = []
        parameters = {"quarantine": one_file(quarantine), "rules": list(quarantining)}
        for rule, count, rows, reason in db.execute(_SQL["in_quarantine"], parameters).fetchall():
            why = quarantining.get(rule) or textwrap.shorten(reason, _WHY_CHARS, placeholder="...")
            groups.append(Group(rule, count, rows, why))
        unread = [group for group in groups if group.rule not in quarantining]
        if groups:
            # Releases of which every row is in quarantine will have no report
            files = {"quarantine": one_file(quarantine), "accepted": one_file(accepted)}
            for release, count in db.execute(_SQL["releases_without_rows"], files).fetchall():
                message = f"release {release!r}: all its rows ({count:,}) are in quarantine, so it gets no report"
                release_checks.append(Check("release_scored", "warning", False, count, count, message, release))

    n_rows = n_read + sum(group.count for group in unread)
    n_quarantined = sum(group.count for group in groups)
    table = _table_checks(n_rows, n_quarantined, groups, contract.max_quarantined)
    unread_checks = []
    for group in unread:
        rows = f"{_count(group.count, 'row')} could not be read ({_row_numbers(group.rows, group.count)})"
        unread_checks.append(
            Check(
                group.rule,
                "critical",
                success=False,
                n_checked=n_rows,
                n_failed=group.count,
                message=f"{rows}: {group.why}",
            )
        )
    stops = [check.message for check in (*table, *own_checks) if check.severity == "critical" and not check.success]
    # However many rows may be in quarantine: with none left, there is nothing to report
    if n_quarantined == n_rows:
        stops.append(table[-1].message)
    return Validation(
        accepted=accepted,
        quarantine=quarantine,
        n_rows=n_rows,
        n_accepted=n_rows - n_quarantined,
        n_quarantined=n_quarantined,
        checks=(*table, *unread_checks, *row_checks, *own_checks, *release_checks),
        broken=stops[0] if stops else None,
        expectations=suite.text if suite else "",
    )


@contextmanager
def _measured(staged: str, scratch: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session with the tables of `measures.sql`: numbers for each staged row, and for each release."""
    # A row group is read by one thread, and each thread compiles all regular expressions for itself.
    threads = min(4, os.cpu_count() or 1, row_groups(staged))
    # Room for the hash tables, which spill, and for a few copies of the texts in work, which cannot.
    memory = 256 * 2**20 + 8 * threads * _VECTOR_ROWS * row_bytes(staged)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="duckdb-") as spill:
        limits = {
            "memory_limit": f"{memory // 2**20}MiB", "threads": threads, "temp_directory": spill,
        }  # fmt: skip
        with session(config=limits) as db:
            db.read_parquet(one_file(staged), file_row_number=True).create_view("staged_file")
            for statement in ("of_rows", "among_rows"):
                db.execute(_MEASURES[statement])
            yield db


class _Broken(NamedTuple):
    """A rule, and the positions of the rows that break it.

    `tolerated` says that they are no more than the `mostly` of a user's expectation allows.
    """

    rule: Rule
    positions: Sequence[int]
    tolerated: bool = False


def _check_own_suite(suite: Suite, db: duckdb.DuckDBPyConnection, n_rows: int) -> tuple[list[_Broken], list[Check]]:
    """Check the expectations of the user; return what breaks those about rows, and the checks of those about all."""
    breaches = []
    checks = []
    frames = text_frames(suite, db, n_rows)
    for expectation, outcome in zip(suite.expectations, check_rows(suite, frames), strict=True):
        name = expectation.name
        holds = expectation.sentence
        statement = f"`{name}`: {holds}"
        severity: Severity = "critical" if expectation.severity == "critical" else "warning"
        if expectation.rows:
            is_quarantined = severity == "critical" and not outcome.success
            reason = (lambda _row, _marks, statement=statement: f"breaks {statement}") if is_quarantined else None
            rule = Rule(name, severity, "", holds, f"in breach of {statement}", reason=reason)
            breaches.append(_Broken(rule, outcome.positions, outcome.success))
            continue
        message = holds
        if not outcome.success:
            message = f"the data break {statement}"
            # Numbers and the names of columns, but no text of a row
            if isinstance(outcome.observed, int | float) or (outcome.observed is not None and not expectation.columns):
                message += f"; observed: {textwrap.shorten(str(outcome.observed), _WHY_CHARS, placeholder='...')}"
        checks.append(Check(name, severity, outcome.success, outcome.n_rows, 0, message))
    return breaches, checks


def _row_checks(db: duckdb.DuckDBPyConnection, broken: Sequence[_Broken], n_rows: int) -> list[Check]:
    """Return the checks of all rules for rows.

    Leaves the table `refused` in the session, for `_split`.
    """
    import numpy as np
    import pyarrow as pa

    # A row for each rule that a row breaks
    sizes = [len(breach.positions) for breach in broken]
    columns = {
        "position": np.concatenate([np.array(breach.positions, dtype=np.int64) for breach in broken]),
        "number": np.repeat(np.arange(len(broken)), sizes),
        "quarantines": np.repeat([breach.rule.reason is not None for breach in broken], sizes),
    }
    db.register("broken", pa.table(columns))
    db.execute(_SQL["refused"])

    # How many there are, and where
    counted = {number: counts for number, *counts in db.execute(_SQL["broken"]).fetchall()}
    checks = []
    for number, breach in enumerate(broken):
        rule = breach.rule
        n_broken, locations = counted.get(number, (0, []))
        message = rule.holds
        breaks = rule.breaks
        if n_broken and rule.texts:
            # Which texts they are, and how often each occurs if there are several
            occurring = f"FROM frame WHERE {rule.column} > 0 GROUP BY ALL ORDER BY count(*) DESC, min(position)"
            counts = db.execute(f"SELECT {rule.column}, count(*) {occurring}").fetchall()
            texts = [f"{rule.texts[text - 1]!r} ({n:,})" for text, n in counts]
            if len(counts) == 1:
                texts = [repr(rule.texts[counts[0][0] - 1])]
            breaks = breaks.format(detail=" or ".join(texts))
        if n_broken:
            message = f"{_count(n_broken, 'row')} {breaks} ({_row_numbers(locations, n_broken)})"
        if n_broken and breach.tolerated:
            message += ", which is no more than the expectation allows"
        success = breach.tolerated or n_broken == 0
        checks.append(Check(rule.name, rule.severity, success, n_rows, n_broken, message))
    return checks


def _table_checks(n_rows: int, n_quarantined: int, groups: Sequence[Group], allowed: float) -> list[Check]:
    """Return the outcomes of the rules for a data set as a whole."""
    share = n_quarantined / max(n_rows, 1)
    is_allowed = share <= allowed
    has_rows = n_rows > 0
    rows = _count(n_rows, "row") if has_rows else "there are no rows: check the file and its mapping"
    message = f"{_percent(share)} of the rows ({n_quarantined:,} of {n_rows:,}) are in quarantine"
    is_all = has_rows and n_quarantined == n_rows
    if is_all or not is_allowed:
        # What is wrong with most of them, and what to do
        top = max(groups, key=lambda group: group.count)
        consequence = "so there is nothing to score" if is_allowed else f"{_percent(allowed)} are allowed"
        remedy = "Correct the data or the mapping"
        if not is_all:
            remedy += ", or raise --max-quarantined"
        if top.rule == "id_unique":
            remedy = (
                "If these are answers of several releases, evaluate each file with a --release of its own, or leave "
                f"--release out where a column names the release (--map release=COLUMN). {remedy}"
            )
        top_rows = f"{_count(top.count, 'row')} ({_row_numbers(top.rows, top.count)})"
        message += f", {consequence}; most often `{top.rule}`: {top_rows}: {top.why}. {remedy}"
    return [
        Check("not_empty", "critical", has_rows, n_rows, 0, rows),
        Check("quarantined_share", "critical", is_allowed, n_rows, n_quarantined, message),
    ]


def _release_checks(releases: Sequence[Mapping[str, Any]], failing: Sequence[set[int]]) -> Iterator[Check]:
    """Yield the outcomes of `RELEASE_RULES`: one for each release, or for some of those that fail if there are many."""
    for rule, failed in zip(RELEASE_RULES, failing, strict=True):
        listed = range(len(releases)) if len(releases) <= _MAX_RELEASES else sorted(failed)[:_MAX_RELEASES]
        for index in listed:
            row = releases[index]
            release = row["release"]
            success = index not in failed
            if rule.name == "same_samples":
                n_checked = int(row["samples_of_all"])
                n_failed = int(row["missing"])
                message = f"release {release!r} has all {_count(n_checked, 'sample')}"
                if n_failed:
                    message = (
                        f"release {release!r} lacks {n_failed:,} of the {n_checked:,} samples that the releases have "
                        f"together ({_percent(row['missing_share'])}, {_percent(MISSING_TOLERANCE)} are tolerated)"
                    )
                if not success:
                    message += ": compare it with the others only on the samples that both have"
            else:
                n_checked = 1
                n_failed = int(not success)
                median = row["median_chars"]
                first_median = row["first_median"]
                message = f"release {release!r}: median answer length {_chars(median)}"
                if release != row["first_release"]:
                    message += f", against {_chars(first_median)} in {row['first_release']!r}"
                if not success:
                    direction = "longer" if median > first_median else "shorter"
                    ratio = f"{row['drift']:.3g} times {direction}, {LENGTH_TOLERANCE:g} times is tolerated"
                    message += f" ({ratio}): length alone moves many scores"
            yield Check(rule.name, rule.severity, success, n_checked, n_failed, message, release)
        if len(failed) > len(listed):
            message = (
                f"{len(failed):,} of {len(releases):,} releases fail this check, not all of them listed: "
                "is the release mapped to the right column?"
            )
            yield Check(rule.name, rule.severity, False, len(releases), len(failed), message)


def _chars(median: float | None) -> str:
    return "unknown, no answers" if median is None else f"{median:,.6g} characters"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _row_numbers(locations: Sequence[Location], total: int) -> str:
    """Say where to look: the first of `total` rows."""
    if not locations:
        return "row numbers unknown"
    by_file = []
    for file, in_file in groupby(locations, key=lambda location: location["file"]):
        rows = [str(location["row"]) for location in in_file]
        is_single = len(rows) == 1 if file else total == 1
        noun = "row" if is_single else "rows"
        by_file.append(f"{file or ''} {noun} {', '.join(rows)}".strip())
    return ", ".join([*by_file, "..."] if total > len(locations) else by_file)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _batch_rows(path: str) -> int:
    """Return how many rows of a Parquet file are worked on at once: those of a bounded number of bytes."""
    return min(max(_BATCH_BYTES // row_bytes(path), 64), _MAX_BATCH_ROWS)


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of a bounded number of bytes."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        yield from file.iter_batches(batch_size=_batch_rows(path), use_threads=False)


def _split(
    staged: str, db: duckdb.DuckDBPyConnection, rules: Sequence[Rule], good: pq.ParquetWriter, out: pq.ParquetWriter
) -> None:
    """Write each staged row to `good` or, with its first rule and all its reasons, to `out`.

    What a refused row asked goes to `good` all the same, as a question without an answer. `correct` is filled from what
    the label was understood as.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    n_rows = 0
    for batch in _batches(staged):
        window = {"first": n_rows, "end": n_rows + batch.num_rows}
        marks = db.execute(_SQL["window"], window).to_arrow_table()
        if marks.num_rows != batch.num_rows:
            raise RuntimeError(f"of {batch.num_rows:,} rows only {marks.num_rows:,} were measured")
        n_rows += batch.num_rows

        # The accepted rows
        labels = marks["label_value"].to_numpy()
        correct = pa.array(labels == 1, mask=labels < 0)
        rows = pa.Table.from_batches([batch.select(good.schema.names)])
        rows = rows.set_column(rows.schema.get_field_index("correct"), "correct", correct)
        accepted = [rows.filter(pc.is_null(marks["rules"]))]

        # The others, and the questions that they leave open
        refused = pc.indices_nonzero(pc.is_valid(marks["rules"]))
        for start in range(0, len(refused), _REFUSED_ROWS):
            part = refused.slice(start, _REFUSED_ROWS)
            lines = []
            open_questions = []
            for row, row_marks in zip(batch.take(part).to_pylist(), marks.take(part).to_pylist(), strict=True):
                broken = [rules[number] for number in row_marks["rules"]]
                lines.append(quarantined(dict(row), row_marks, broken))
                if question := without_answer(row, row_marks, lines[-1], [rule.name for rule in broken]):
                    open_questions.append(question)
            out.write_batch(pa.RecordBatch.from_pylist(lines, schema=out.schema))
            accepted.append(pa.Table.from_pylist(open_questions, good.schema))
        good.write_table(pa.concat_tables(accepted).sort_by("row"))
