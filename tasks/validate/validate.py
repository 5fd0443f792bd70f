"""Validation: each staged row is accepted, or goes to quarantine with the rule it broke and the reason.

DuckDB measures the texts (`measures.sql`) and makes a column of flags for each rule of `contract.py`, Great
Expectations checks the flags (`suite.py`), and the rows are then split in one pass over the file, a batch at a time.
"""

from __future__ import annotations

import os
import textwrap
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.tasks.load.staged import quarantine_schema, staged_schema
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
from answerkey.tasks.validate.expectations import Expectation, Found, Suite, check_rows, read_suite, text_frames
from answerkey.tasks.validate.measures import measured
from answerkey.tasks.validate.suite import breaking
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import parquet_writer, row_bytes
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.parquet as pq

_SQL = statements(__name__)
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


Place = tuple[str | None, int]
"""A file, None where there is but one, and the number of a row in it."""
_PLACE = ("row", "file", "file_row")


@dataclass(slots=True)
class Group:
    """Rows in quarantine under one rule: how many, the first row numbers, and what is wrong (one line)."""

    rule: str
    count: int
    rows: list[Place]
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
    os.makedirs(out_dir, exist_ok=True)
    accepted, quarantine = (os.path.join(out_dir, f"{name}.parquet") for name in ("accepted", "quarantine"))
    suite = read_suite(contract.expectations) if contract.expectations else None
    with measured(staged, out_dir) as db:
        others = [str(name) for (name,) in db.execute(_SQL["other_columns"]).fetchall()] if suite else []
        own_rows, own_whole = _own(suite, staged, others) if suite else ([], [])
        found = db.execute(_SQL["releases"])
        names = [column[0] for column in found.description]
        releases = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        rules = row_rules(contract)
        positions = breaking(db, "frame", rules, home)
        broken = [
            _Broken(rule, Group(rule.name, 0, [], rule.breaks), of_rule)
            for rule, of_rule in zip(rules, positions, strict=True)
        ]
        broken += own_rows
        off = [set(of_rule) for of_rule in breaking(db, "releases", RELEASE_RULES, home)]
        with parquet_writer(quarantine, quarantine_schema()) as out:
            unread = _copy_rejects(rejects, out) if rejects else {}
            stays = _stays(staged, db, broken)
            with nullcontext() if stays else parquet_writer(accepted, staged_schema()) as good:
                n_read = _split(staged, db, broken, good, out)
            accepted = staged if stays else accepted

    n_rows = n_read + sum(group.count for group in unread.values())
    groups = [*unread.values(), *(one.first for one in broken if one.first.count)]
    n_quarantined = sum(group.count for group in groups)
    table = _table_checks(n_rows, n_quarantined, groups, contract.max_quarantined)
    checks = (
        *table,
        *(_unread_check(group, n_rows) for group in unread.values()),
        *(_row_check(one, n_read) for one in broken),
        *own_whole,
        *_release_checks(releases, off),
        *(_lost_releases(accepted, quarantine) if n_quarantined else ()),
    )
    critical = [check for check in (*table, *own_whole) if check.severity == "critical" and not check.success]
    stopped = next((check.message for check in critical), None)
    # However many rows may be in quarantine: with none left, there is nothing to report
    if stopped is None and n_quarantined == n_rows:
        stopped = next(check.message for check in checks if check.rule == "quarantined_share")
    own = suite.text if suite else ""
    return Validation(accepted, quarantine, n_rows, n_rows - n_quarantined, n_quarantined, checks, stopped, own)


def _lost_releases(accepted: str, quarantine: str) -> Iterator[Check]:
    """Releases of which every row is in quarantine: they will have no report."""
    with session() as db:
        files = {"quarantine": one_file(quarantine), "accepted": one_file(accepted)}
        lost = db.execute(_SQL["releases_without_rows"], files).fetchall()
    for release, count in lost:
        message = f"release {release!r}: all its rows ({count:,}) are in quarantine, so it gets no report"
        yield Check("release_scored", "warning", False, count, count, message, release)


@dataclass(slots=True)
class _Broken:
    """A rule, the positions of the rows that break it, and what is counted of them as the rows go by.

    `first` are those rows that break no rule before this one: they are in quarantine under it, if it puts rows there.
    `tolerated` says that they are no more than the `mostly` of a user's expectation allows.
    """

    rule: Rule
    first: Group
    positions: Sequence[int]
    tolerated: bool = False
    count: int = 0
    rows: list[Place] = field(default_factory=list)
    details: Counter[int] = field(default_factory=Counter)


def _own(suite: Suite, staged: str, others: Sequence[str]) -> tuple[list[_Broken], list[Check]]:
    """The expectations of the user: what breaks those about rows, and the checks of those about the data as a whole."""
    rows, whole = [], []
    frames = text_frames(suite, _batches(staged), others)
    for one, found in zip(suite.expectations, check_rows(suite, frames), strict=True):
        if one.rows:
            rule = _own_rule(one, quarantines=not found.success and one.severity == "critical")
            first = Group(one.name, 0, [], rule.breaks.format())
            rows.append(_Broken(rule, first, found.positions, found.success))
        else:
            message = (
                one.sentence if found.success else f"the data break `{one.name}`: {one.sentence}{_observed(one, found)}"
            )
            whole.append(Check(one.name, one.severity, found.success, found.n_rows, 0, message))
    return rows, whole


def _observed(one: Expectation, found: Found) -> str:
    """What the library observed of the data as a whole: numbers, and the names of columns, but no text of a row."""
    if found.observed is None or not (one.columns == () or isinstance(found.observed, int | float)):
        return ""
    return f"; observed: {textwrap.shorten(str(found.observed), _WHY_CHARS, placeholder='...')}"


def _own_rule(one: Expectation, *, quarantines: bool) -> Rule:
    rule = f"`{one.name}`: {one.sentence}"
    # A place for details begins with a brace, and so may what a user writes.
    breaks = f"in breach of {rule}".replace("{", "{{").replace("}", "}}")
    return Rule(
        one.name, one.severity, "", one.sentence, breaks,
        reason=(lambda _row, _marks: f"breaks {rule}") if quarantines else None,
    )  # fmt: skip


def _unread_check(group: Group, n_rows: int) -> Check:
    places = _places(group.rows, group.count)
    message = f"{_count(group.count, 'row')} could not be read ({places}): {group.why}"
    return Check(group.rule, "critical", False, n_rows, group.count, message)


def _row_check(broken: _Broken, n_rows: int) -> Check:
    rule, message = broken.rule, broken.rule.holds
    if broken.count:
        detail = rule.detail(broken.details.elements()) if rule.detail else ""
        places = _places(broken.rows, broken.count)
        message = f"{_count(broken.count, 'row')} {rule.breaks.format(detail=detail)} ({places})"
        if broken.tolerated:
            message += ", which is no more than the expectation allows"
    return Check(rule.name, rule.severity, broken.tolerated or broken.count == 0, n_rows, broken.count, message)


def _table_checks(n_rows: int, n_quarantined: int, groups: Sequence[Group], allowed: float) -> list[Check]:
    """Return the outcomes of the rules for a data set as a whole."""
    share = n_quarantined / max(n_rows, 1)
    empty, too_many = n_rows == 0, share > allowed
    rows = f"{_count(n_rows, 'row')}" if not empty else "there are no rows: check the file and its mapping"
    message = f"{_percent(share)} of the rows ({n_quarantined:,} of {n_rows:,}) are in quarantine"
    nothing_left = n_quarantined == n_rows and not empty
    if too_many or nothing_left:
        top = max(groups, key=lambda group: group.count)
        several = (
            "If these are answers of several releases, evaluate each file with a --release of its own, or leave "
            "--release out where a column names the release (--map release=COLUMN). "
        )
        consequence = f"{_percent(allowed)} are allowed" if too_many else "so there is nothing to score"
        message += (
            f", {consequence}; most often `{top.rule}`: {_count(top.count, 'row')} "
            f"({_places(top.rows, top.count)}): {top.why}. "
            f"{several if top.rule == 'id_unique' else ''}Correct the data or the mapping"
            f"{'' if nothing_left else ', or raise --max-quarantined'}"
        )
    return [
        Check("not_empty", "critical", not empty, n_rows, 0, rows),
        Check("quarantined_share", "critical", not too_many, n_rows, n_quarantined, message),
    ]


def _release_checks(releases: Sequence[Mapping[str, Any]], off: Sequence[set[int]]) -> Iterator[Check]:
    tell: tuple[Callable[[Mapping[Any, Any], bool], Check], ...] = (_same_samples, _length_drift)
    for rule, failed, check in zip(RELEASE_RULES, off, tell, strict=True):
        shown = range(len(releases)) if len(releases) <= _MAX_RELEASES else sorted(failed)[:_MAX_RELEASES]
        yield from (check(releases[i], i not in failed) for i in shown)
        if len(failed) > len(shown):
            said = (
                f"{len(failed):,} of {len(releases):,} releases fail this check, not all of them listed: "
                "is the release mapped to the right column?"
            )
            yield Check(rule.name, rule.severity, False, len(releases), len(failed), said)


def _same_samples(row: Mapping[Any, Any], success: bool) -> Check:
    release, missing, of_all = row["release"], int(row["missing"]), int(row["samples_of_all"])
    message = f"release {release!r} has all {_count(of_all, 'sample')}"
    if missing:
        share, tolerated = _percent(row["missing_share"]), _percent(MISSING_TOLERANCE)
        message = (
            f"release {release!r} lacks {missing:,} of the {of_all:,} samples that the releases have together"
            f" ({share}, {tolerated} are tolerated)"
        )
    if not success:
        message += ": compare it with the others only on the samples that both have"
    return Check("same_samples", "warning", success, of_all, missing, message, release)


def _length_drift(row: Mapping[Any, Any], success: bool) -> Check:
    release, first, chars = row["release"], row["first_release"], row["median_chars"]
    message = f"release {release!r}: median answer length {_chars(chars)}"
    if release != first:
        message += f", against {_chars(row['first_median'])} in {first!r}"
    if not success:
        ratio = f"{row['drift']:.3g} times {'longer' if chars > row['first_median'] else 'shorter'}"
        message += f" ({ratio}, {LENGTH_TOLERANCE:g} times is tolerated): length alone moves many scores"
    return Check("length_drift", "warning", success, 1, 0 if success else 1, message, release)


def _chars(median: float | None) -> str:
    return "unknown, no answers" if median is None else f"{median:,.6g} characters"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _places(first: Sequence[Place], total: int) -> str:
    """Where to look: the first of `total` rows."""
    if not first:
        return "row numbers unknown"
    more = ", ..." if total > len(first) else ""
    named = []
    for file, places in groupby(first, key=lambda place: place[0]):
        rows = [str(row) for _, row in places]
        one = len(rows) == 1 if file else total == 1
        named.append(f"{file or ''} {'row' if one else 'rows'} {', '.join(rows)}".strip())
    return f"{', '.join(named)}{more}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _batches(path: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of a bounded number of bytes."""
    import pyarrow.parquet as pq

    rows = min(max(_BATCH_BYTES // row_bytes(path), 64), _MAX_BATCH_ROWS)
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _copy_rejects(rejects: str, out: pq.ParquetWriter) -> dict[str, Group]:
    """Copy the rows that the reader could not read, under the rule that it named."""
    groups: dict[str, Group] = {}
    for batch in _batches(rejects):
        out.write_batch(batch.select(out.schema.names))
        columns = (batch[name].to_pylist() for name in ("rule", "file", "row", "reason"))
        for rule, file, row, reason in zip(*columns, strict=True):
            if rule not in groups:
                groups[rule] = Group(rule, 0, [], textwrap.shorten(reason, _WHY_CHARS, placeholder="..."))
            group = groups[rule]
            group.count += 1
            if len(group.rows) < 3 and row is not None:
                group.rows.append((file, row))
    return groups


def _stays(staged: str, db: duckdb.DuckDBPyConnection, broken: Sequence[_Broken]) -> bool:
    """Whether every row is accepted as it is: nothing puts one into quarantine, and there is no label to understand."""
    import pyarrow.parquet as pq

    if any(one.positions for one in broken if one.rule.reason):
        return False
    [(labelled,)] = db.execute("SELECT count(*) > 0 FROM frame WHERE label_value >= 0").fetchall()
    return not labelled and bool(pq.read_schema(staged).equals(staged_schema()))


def _split(
    staged: str,
    db: duckdb.DuckDBPyConnection,
    broken: Sequence[_Broken],
    good: pq.ParquetWriter | None,
    out: pq.ParquetWriter,
) -> int:
    """Write each staged row to `good` or, with its first rule and all its reasons, to `out`; return their number.

    What a refused row asked goes to `good` all the same, as a question without an answer.

    `correct` is filled from what the label was understood as. Without `good` they are only counted.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if good is None and not any(one.positions for one in broken):
        return int(pq.read_metadata(staged).num_rows)
    n_rows = 0
    rules = [one.rule for one in broken if one.rule.reason]
    for batch in _batches(staged, None if good else _PLACE):
        window = {"first": n_rows, "end": n_rows + batch.num_rows}
        marks = db.execute(_SQL["window"], window).to_arrow_table()
        if marks.num_rows != batch.num_rows:
            raise RuntimeError(f"of {batch.num_rows:,} rows only {marks.num_rows:,} were measured")
        bits = _bits(marks, batch, broken, n_rows)
        n_rows += batch.num_rows
        if good is None:
            continue
        kept = bits == 0
        labels = marks["label_value"].to_numpy()
        rows = batch.select(good.schema.names)
        correct = pa.array(labels == 1, mask=labels < 0)
        rows = rows.set_column(rows.schema.get_field_index("correct"), "correct", correct)
        refused, open_questions = np.flatnonzero(~kept), []
        for some in (refused[i : i + _REFUSED_ROWS] for i in range(0, len(refused), _REFUSED_ROWS)):
            fields = batch.take(pa.array(some)).to_pylist()
            of_rows = marks.take(pa.array(some)).to_pylist()
            lines = []
            for row, of_row, of_bits in zip(fields, of_rows, bits[some].tolist(), strict=True):
                names = [rule.name for bit, rule in enumerate(rules) if of_bits >> bit & 1]
                lines.append(quarantined(dict(row), of_row, of_bits, rules))
                if question := without_answer(row, of_row, lines[-1], names):
                    open_questions.append(question)
            out.write_batch(pa.RecordBatch.from_pylist(lines, schema=out.schema))
        parts = [
            pa.Table.from_batches([rows.filter(pa.array(kept))]),
            pa.Table.from_pylist(open_questions, good.schema),
        ]
        good.write_table(pa.concat_tables(parts if open_questions else parts[:1]).sort_by("row"))
    return n_rows


def _bits(marks: pa.Table, batch: pa.RecordBatch, broken: Sequence[_Broken], start: int) -> npt.NDArray[np.int64]:
    """For each row of a batch, from position `start` on, the rules that quarantine it: bit i is the i-th of them. What
    breaks any rule is counted."""
    import numpy as np

    bits, bit = np.zeros(marks.num_rows, dtype=np.int64), 0
    for one in broken:
        first, end = (bisect_left(one.positions, position) for position in (start, start + marks.num_rows))
        rows = np.array(one.positions[first:end], dtype=np.int64) - start
        one.count += len(rows)
        one.rows += (_place(batch, row) for row in rows[: 3 - len(one.rows)].tolist())
        if one.rule.detail:
            one.details.update(marks[one.rule.column].to_numpy()[rows].tolist())
        if one.rule.reason:
            first_broken = rows[bits[rows] == 0]
            one.first.count += len(first_broken)
            one.first.rows += (_place(batch, row) for row in first_broken[: 3 - len(one.first.rows)].tolist())
            bits[rows] |= 1 << bit
            bit += 1
    return bits


def _place(batch: pa.RecordBatch, row: int) -> Place:
    number, file, of_file = (batch[name][row].as_py() for name in _PLACE)
    return file, number if file is None else of_file
