"""Decide which traces of its source a rule scores (new ones that meet its conditions and are sampled); stage them."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import ColumnMap, as_text, clean, is_there, value
from answerkey.tasks.load.formats.registry import AS_IT_STANDS
from answerkey.tasks.load.formats.special import decoded
from answerkey.tasks.load.load import Stager, stage_rows
from answerkey.tasks.load.plain import Record, Spelled, as_json
from answerkey.tasks.load.references import Reference
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import Contents, check_there, files_of, read
from answerkey.tasks.traces.rules import KEYS, Rule, instant
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, quoted, scratch, time_limit, write_parquet

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_BATCH = 10_000
_MAX_ID_CHARS = 1_000
_ID = "#trace id"
"""What the loader finds the id of a trace under."""
_UNKNOWN = "cannot be evaluated: "
_CAST = (
    "give its values a type, like try_cast(metadata.duration_ms AS DOUBLE) < 5000, length(input::VARCHAR) > 20 or "
    "try_cast(start_time::VARCHAR AS DATE) = '2026-11-03'"
)
_OF_NO_TRACE = ("name", "description", "source", "start", "late_days")
"""Keys of a rule that decide nothing about a trace that was looked at."""

_LIMIT_S = 1_800.0
"""For reading a source and evaluating the conditions of a rule."""


@dataclass(frozen=True, slots=True)
class Window:
    """The traces of a backfill: from `since` on and before `until`, None for an open end."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def backfill(self) -> bool:
        """Whether there is one. Otherwise it is the new traces that are looked at."""
        return bool(self.since or self.until)


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the runs of a rule left: its watermark, what the rule said, and whether any trace was scored."""

    watermark: datetime | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule made of the rows that it looked at.

    Attributes:
        decided: a Parquet file of them: row, trace_id, time, bucket, reason.
        staged: the sampled ones as the loader stages answers; `rejects`: those that cannot be scored.
        counts: how many are in each bucket: disabled, filtered, sampled_out, quarantined, sampled.
        again: how many had failed or had been skipped before, or had a condition that could not be evaluated.
        newest: the latest time among them that is not in the future.
        last_run: what is known of the runs before.
    """

    decided: str
    staged: str
    rejects: str
    counts: Counter[str]
    again: int
    newest: datetime | None
    last_run: LastRun
    notes: tuple[str, ...]

    @property
    def seen(self) -> int:
        """How many rows were looked at."""
        return sum(self.counts.values())


def check_source(source: str) -> None:
    """Check a source before anything is read.

    Raises:
        UserError: a file is not there, or of no known kind.
    """
    if files := _files(source):
        check_there("\n".join(files))


def _files(source: str) -> list[str]:
    """Return the files of a source that have content: logs, and folders of them, are empty at first."""
    if Path(source).is_dir() and not any(file.is_file() for file in Path(source).rglob("[!._]*")):
        return []
    files = files_of(source) or [source]
    return [file for file in files if not Path(file).is_file() or Path(file).stat().st_size]


def select(rule: Rule, home: Home, out: Path, window: Window, metric_columns: Sequence[str] = ()) -> Selection:
    """Decide on each trace of a rule's source that is not settled yet, or on each of a backfill, and stage the sampled.

    Args:
        metric_columns: what the metric needs beside the usual parts of a sample, such as a conversation in `messages`.

    Raises:
        UserError: the source cannot be read, none of its rows has an id, a time or an answer where the rule says, a
            condition cannot be evaluated, or there is no data set of the name in the rule.
    """
    out.mkdir(parents=True, exist_ok=True)
    # The trace is what is scored, also where several are about one question of a data set.
    column_paths = {name: rule.mapping.get(name, name) for name in metric_columns}
    paths: dict[Any, str] = {key: path for key, path in rule.mapping.items() if key not in ("key", *metric_columns)}
    paths["id"] = _ID
    staged, rejects, decided = (out / f"{name}.parquet" for name in ("staged", "rejects", "decided"))
    columns: dict[str, str] = {}
    for condition in rule.where:
        columns |= condition.columns
    with scratch(out) as connection:
        # What earlier runs left, and the right answers of a data set
        last_run = _recall(connection, rule, home, out)
        references: dict[str, Reference] = {}
        if rule.dataset:
            rows = home.rows(_SQL["references"], {"dataset": rule.dataset, "version": newest_version(rule, home)})
            references = {row[0]: Reference.stored(row) for row in rows}

        # The statement that decides on a batch
        statement = _SQL["decide"].format(
            values="".join(f", try_cast({column} AS JSON)::VARIANT AS {column}" for column in columns.values()),
            fits=", ".join(condition.sql for condition in rule.where),
        )
        begins = [rule.start] if rule.start else []
        if last_run.watermark and rule.late_days is not None:
            begins.append(last_run.watermark - timedelta(days=rule.late_days))
        parameters = {
            "enabled": rule.enabled,
            "backfill": window.backfill,
            "since": window.since,
            "until": window.until,
            "begin": max(begins, default=None),
            "conditions": [condition.text for condition in rule.where],
            "unknown": _UNKNOWN,
        }

        # Decide on the traces a batch at a time, and stage those that are sampled
        mapping = {**column_paths, **rule.mapping}
        selector = _Selector(connection, rule, references, mapping=mapping, columns=columns)
        find_reference = (lambda trace_id, *_: selector.joined.get(trace_id)) if rule.dataset else None
        stager = Stager(ColumnMap(paths, (), ()), rule.name, find_reference, others=column_paths)
        stage_rows(selector.traces(out, statement, parameters), stager, staged, rejects)
        selector.check(last_run)
        notes = [*selector.notes(), *([] if window.backfill else selector.left_out(last_run))]
        write_parquet(connection, _SQL["looked_at"], decided)
        # A trace that claims to come from the future would make all others late.
        [(again, newest)] = connection.execute(_SQL["newest"], {"now": datetime.now(UTC)}).fetchall()
        counts = Counter(dict(connection.execute(_SQL["counts"]).fetchall()))
    return Selection(str(decided), str(staged), str(rejects), counts, again, instant(newest), last_run, tuple(notes))


def newest_version(rule: Rule, home: Home) -> str:
    """Return the newest version of the data set that has the references of a rule.

    Raises:
        UserError: there is no such data set.
    """
    line = f"{rule.line('dataset')}: dataset:"
    if not home.warehouse.exists():
        raise UserError(
            f"{line} there is no warehouse in {home}; `answerkey evaluate` makes one, --home names another folder"
        )
    versions = dict(home.rows(_SQL["newest_versions"]))
    if rule.dataset not in versions:
        names = ", ".join(sorted(versions))
        hint = f"there are {names}" if versions else "there is none yet: answerkey evaluate makes them"
        raise UserError(f"{line} there is no data set {rule.dataset!r}; {hint}")
    return str(versions[rule.dataset])


def _recall(connection: duckdb.DuckDBPyConnection, rule: Rule, home: Home, out: Path) -> LastRun:
    """Make the tables of what is known of the rule's traces, and of what is decided; then close the session.

    Afterwards it can read and write in the folder `out` only.
    """
    connection.execute(_SQL["tables"])
    last_runs = []
    if home.warehouse.exists():
        file = out / "known.parquet"
        conditions = {"unknown": _UNKNOWN, "conditions": [condition.text for condition in rule.where]}
        with home.warehouse.reading() as warehouse:
            write_parquet(warehouse, _SQL["known"], file, {"rule": rule.name, **conditions})
            last_runs = warehouse.execute(_SQL["last_run"], {"rule": rule.name}).fetchall()
        connection.execute("INSERT INTO known FROM read_parquet($file)", {"file": one_file(file)})
    connection.execute(f"SET allowed_directories = [{quoted(out.absolute())}]; SET enable_external_access = false")
    if not last_runs:
        return LastRun()
    [(watermark, definition, scored)] = last_runs
    return LastRun(instant(watermark), json.loads(definition), scored)


@dataclass(slots=True)
class _Selector:
    """Decides on the rows of a rule's source, and counts what it has seen of them."""

    connection: duckdb.DuckDBPyConnection
    rule: Rule
    references: Mapping[str, Reference]
    """Those of the rule's data set, by sample id."""
    mapping: Mapping[str, str]
    """Where everything that a sample consists of is in a trace."""
    columns: Mapping[str, str]
    """The columns that its conditions look at, by path."""
    joined: dict[str, Reference] = field(default_factory=dict)
    """The reference of each sampled trace, by trace id."""
    contents: Contents = field(default_factory=Contents)
    n_records: int = 0
    n_sampled: int = 0
    at: Counter[str] = field(default_factory=Counter)
    """By path: how many rows that can be read have something there."""
    mapped: Counter[str] = field(default_factory=Counter)
    """By key of the mapping: how many sampled rows have something at its path."""
    quoted: list[str] | None = None
    """The mapped paths whose texts have the quotes of JSON; None before there is a sampled trace."""

    def traces(self, out: Path, statement: str, parameters: Mapping[str, Any]) -> Iterator[Raw]:
        """Yield the sampled rows of the source for the loader, and those that cannot be scored, as unreadable ones."""
        import duckdb
        import pyarrow as pa

        deadline = time.monotonic() + _LIMIT_S
        text = pa.string()
        types = {"row": pa.int64(), "trace_id": text, "time": pa.timestamp("us", tz="UTC"), "sampled": pa.bool_()}
        types |= dict.fromkeys(("problem", *self.columns.values()), text)
        files = _files(self.rule.source)
        rows = AS_IT_STANDS.rows(read("\n".join(files), out, self.contents) if files else iter(()))
        # Only so many rows are in memory, and all batches together have one deadline
        while batch := list(islice(rows, _BATCH)):
            described = [self._described(raw) for raw in batch]
            self.connection.register("batch", pa.Table.from_pylist(described, schema=pa.schema(types)))
            try:
                with time_limit(self.connection, deadline - time.monotonic()):
                    decisions = self.connection.execute(statement, parameters).fetchall()
            except duckdb.InterruptException as error:
                raise UserError(
                    f"{self.rule.line('where')}: where: not done after {_LIMIT_S:,.0f} s; simplify the condition, or "
                    "split the source"
                ) from error
            decision_by_row = {row: decision for row, *decision in decisions}
            # A bucket is empty where a row is not looked at
            yield from self._staged([(raw, *decision_by_row[raw.row]) for raw in batch])

    def _described(self, raw: Raw) -> dict[str, Any]:
        """Return what decides about a row: its id, its time, what is wrong with it, and what its conditions look at."""
        # What stands at the paths of the rule
        rule = self.rule
        problems = [raw.error] if raw.error else []
        cells: dict[str, Any] = {}
        inputs = {}
        if raw.record is not None:
            self.n_records += 1
            try:
                for path in (rule.id, rule.time, *self.columns):
                    cells[path] = value(raw.record, path)
                    self.at[path] += cells[path] is not None or is_there(raw.record, path)
                inputs = {column: clean(_json(cells[path])) for path, column in self.columns.items()}
            except (ValueError, RecursionError) as error:
                problems.append(f"{path}: {error}")

        # Its id and its time; the first problem is the one that is told
        id_cell = cells.get(rule.id)
        trace_id = "" if isinstance(id_cell, bool | Mapping | list | None) else str(id_cell).strip()
        if not 0 < len(trace_id) <= _MAX_ID_CHARS:
            content = raw.text if raw.record is None else json.dumps(raw.record, default=str)
            trace_id = f"#{content_hash([content])}"
            problems.append(f"the id ({rule.id}) is missing, or is no text or number of a usual length")
        trace_id = clean(trace_id) or ""
        moment = instant(cells.get(rule.time))
        if moment is None:
            problems.append(f"the time ({rule.time}) is missing, or is neither ISO 8601 nor seconds since 1970")
        return {
            "row": raw.row,
            "trace_id": trace_id,
            "time": moment,
            "sampled": in_sample(rule.name, trace_id, rule.sampling),
            "problem": problems[0] if problems else None,
            **inputs,
        }

    def _staged(self, batch: Sequence[tuple[Raw, str, str, str]]) -> Iterator[Raw]:
        """Yield what the loader is to stage of rows, each with its trace id, its bucket and the reason."""
        mapping = self.mapping
        sampled = [raw.record for raw, _, bucket, _ in batch if bucket == "sampled" and raw.record is not None]
        self.n_sampled += len(sampled)
        self.mapped.update(key for record in sampled for key, path in mapping.items() if is_there(record, path))
        if self.quoted is None and sampled:
            self.quoted = [path for path in dict.fromkeys(mapping.values()) if _all_quoted(sampled, path)]
        # The record for the loader, with its own id; one that cannot be read is quarantined with the others
        for raw, trace_id, bucket, reason in batch:
            record = None
            error = reason
            if bucket == "sampled" and raw.record is not None:
                try:
                    record = {**raw.record, _ID: trace_id}
                    for path in self.quoted or ():
                        if isinstance(text := value(raw.record, path), str):
                            record[path] = as_json(text)
                    key = clean(as_text(value(record, mapping.get("key")))) or ""
                    if reference := self.references.get(key):
                        self.joined[trace_id] = reference._replace(sample_id=trace_id)
                except ValueError as problem:
                    record = None
                    error = str(problem)
            if record is not None:
                yield raw._replace(record=record)
            elif bucket in ("sampled", "quarantined"):
                yield raw._replace(record=None, error=error, text=raw.content())

    def check(self, last_run: LastRun) -> None:
        """Check that the paths to id, time and answer lead somewhere: otherwise all traces would be scored as blank.

        Where traces were scored by the same mapping before, these few have no answer.

        Raises:
            UserError: one of them leads nowhere in any row.
        """
        rule = self.rule
        for key, path in (("id", rule.id), ("time", rule.time)):
            if self.n_records and not self.at[path]:
                raise UserError(
                    f"{rule.line(key)}: {key}: none of the {self.n_records:,} rows in {without_secrets(rule.source)} "
                    f"has anything at {path!r}; write where the {key} of a trace is"
                )
        has_scored = last_run.scored and last_run.definition.get("mapping") == rule.definition["mapping"]
        if self.n_sampled and not self.mapped["answer"] and not has_scored:
            raise UserError(
                f"{rule.line('mapping.answer')}: mapping.answer: none of the {self.n_sampled:,} sampled traces has "
                f"anything at {rule.mapping['answer']!r}; write where the answer of a trace is"
            )

    def notes(self) -> Iterator[str]:
        """Yield lines about files, and paths that lead nowhere or to something that users may not expect."""
        rule = self.rule
        yield from (f"{rule.name}: {note}" for note in self.contents.notes())
        for path in self.columns:
            # What must be absent is often in no trace at all.
            absent = rf"{re.escape(path)}\s+is\s+null"
            wanted_absent = any(re.search(absent, condition.text, re.IGNORECASE) for condition in rule.where)
            if self.n_records and not self.at[path] and not wanted_absent:
                none = f"none of the {self.n_records:,} rows has anything at {path!r}"
                yield f"{rule.name}: {none}, which a condition looks at"
        for reason, n in self.connection.execute(_SQL["unknown"], {"unknown": _UNKNOWN}).fetchall():
            problem = f"{reason.removeprefix(_UNKNOWN)!r} cannot be evaluated for {n:,} of {self.n_records:,} rows"
            if n == self.n_records:
                raise UserError(f"{rule.line('where')}: where: {problem}; {_CAST}")
            yield f"{rule.name}: {problem}, which are filtered; {_CAST}"
        # What is mapped is usually in some trace
        for key, path in self.mapping.items():
            if self.n_sampled and not self.mapped[key]:
                yield (
                    f"{rule.line(f'mapping.{key}')}: none of the {self.n_sampled:,} sampled traces has anything at "
                    f"{path!r}, which is mapped to {key}"
                )
        for path in self.quoted or ():
            yield f"{rule.name}: the texts at {path!r} are JSON in quotes, and are read as what they say"

    def left_out(self, last_run: LastRun) -> Iterator[str]:
        """Yield lines about traces that only a backfill looks at, where their number may surprise."""
        rule = self.rule
        [(n_late, late, n_settled, settled)] = self.connection.execute(
            _SQL["left_out"], {"start": rule.start}
        ).fetchall()
        if n_late:
            yield (
                f"{rule.name}: {n_late:,} traces are older than the newest one by more than late_days "
                f"({rule.late_days:g}), and were left out; `--since {late or 'DAY'}` scores them"
            )
        definition = rule.definition
        last_definition = last_run.definition
        changed = [key for key in KEYS if definition.get(key) != last_definition.get(key) and key not in _OF_NO_TRACE]
        if last_definition and changed and n_settled:
            yield (
                f"{rule.name}: {', '.join(changed)} changed since the last run; the {n_settled:,} traces that earlier "
                f"runs settled are not looked at again, but with `--since {settled or 'DAY'}`"
            )


def _json(cell: Any) -> str:
    """Return a value as JSON. Numbers are numbers, whatever they were read as."""
    if isinstance(cell, Spelled | Decimal):
        return str(cell)
    if isinstance(cell, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_json(member)}" for key, member in cell.items()) + "}"
    if isinstance(cell, list):
        return "[" + ", ".join(map(_json, cell)) + "]"
    # NaN is how pandas writes "nothing".
    return "null" if cell != cell else json.dumps(cell, ensure_ascii=False, default=str)  # noqa: PLR0124


def in_sample(rule: str, trace_id: str, rate: float) -> bool:
    """Tell whether a rule samples a trace.

    A hash decides, so that every run takes the same traces and a higher rate all those of a lower one. The rule's name
    is part of it: two rules at a tenth do not take the same tenth.

    >>> [in_sample("faq", "t1", rate) for rate in (0, 0.1, 0.9, 1)]
    [False, False, True, True]
    """
    digest = md5(f"{rule}\0{trace_id}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest) < int(rate * 2**128)


def _all_quoted(records: Sequence[Record], path: str) -> bool:
    """Tell whether there are several texts at a path, all in the quotes of JSON."""
    texts = []
    for record in records:
        # What has a key twice is refused where it is staged.
        with suppress(ValueError):
            if isinstance(text := value(record, path), str):
                texts.append(text[:1] == '"' and decoded(text) != text)
    return len(texts) > 1 and all(texts)
