"""From the traces that a rule takes to rows that are scored like any others: mapped, joined, validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import ColumnMap, value
from answerkey.tasks.load.sources import Raw, parse_line
from answerkey.tasks.load.stage import Reference, Stager, refused
from answerkey.tasks.load.staging import quarantine_schema, staged_schema
from answerkey.tasks.traces.rules import MAPPED, Rule
from answerkey.tasks.traces.select import Selection
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.quarantine import writing
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

_BATCH = 5_000
_CONTRACT = Contract(max_quarantined=1.0, require_references=False)
"""Each trace stands for itself: many bad ones are counted, and stop nothing. One without a reference is undefined."""

_KEYS = {"key": "id"}
"""What the loader calls the things that a rule maps, where it has another name for them."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The sampled traces of a rule after validation.

    `accepted` is a Parquet file with the columns of `staged_schema()`, None where nothing is left to score;
    `quarantine` one with those of `quarantine_schema()`.
    """

    accepted: str | None
    quarantine: str
    notes: tuple[str, ...]


def stage(rule: Rule, home: Home, selection: Selection, out: Path) -> Staged:
    """Map the sampled traces, join their references, and validate them.

    Raises:
        UserError: there is no data set of the name in the rule.
    """
    staged, rejects = out / "staged.parquet", out / "rejects.parquet"
    stager = _stager(rule, home)
    found: dict[str, int] = dict.fromkeys(rule.mapping, 0)
    n_staged = 0
    with writing(str(staged), staged_schema()) as good, writing(str(rejects), quarantine_schema()) as bad:
        for batch in _batches(selection.taken):
            rows, refusals = _parted(stager, rule, batch, found)
            n_staged += len(rows)
            _write(good, rows)
            _write(bad, refusals)
    notes = list(_nowhere(rule, found, selection.sampled))
    if not n_staged:
        return Staged(None, str(rejects), tuple(notes))
    validation = validate(str(staged), str(rejects), str(out), _CONTRACT)
    notes += [
        f"{rule.name}: {check.message}"
        for check in validation.checks
        if not check.success and check.release is None and check.rule != "unreadable"
    ]
    return Staged(validation.accepted if validation.n_accepted else None, validation.quarantine, tuple(notes))


def _stager(rule: Rule, home: Home) -> Stager:
    paths = {_KEYS.get(key, key): path for key, path in rule.mapping.items()}
    columns = ColumnMap(paths, (), ())  # type: ignore[arg-type]
    return Stager(columns, rule.name, _references(rule, home) if rule.dataset else None)


def _references(rule: Rule, home: Home) -> dict[str, Reference]:
    """The newest version of the rule's data set, by sample id."""
    with home.warehouse.reading() as warehouse:
        version = newest_version(warehouse, rule)
        rows = warehouse.execute(
            'SELECT sample_id, question, "references", facts FROM samples WHERE dataset = ? AND dataset_version = ?',
            [rule.dataset, version],
        ).fetchall()
    return {
        sample_id: Reference(sample_id, question, tuple(references or ()), tuple(facts or ()), None)
        for sample_id, question, references, facts in rows
    }


def newest_version(warehouse: duckdb.DuckDBPyConnection, rule: Rule) -> str:
    """The newest version of the data set that has the references of a rule.

    Raises:
        UserError: there is no such data set.
    """
    newest = "SELECT dataset, arg_max(version, created_at) FROM datasets GROUP BY dataset"
    known = dict(warehouse.execute(newest).fetchall())
    if rule.dataset not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "there is none yet: answerkey evaluate makes them"
        raise UserError(f"{rule.located.where('dataset')}: dataset: there is no data set {rule.dataset!r}; {there}")
    return str(known[rule.dataset])


def _batches(taken: str) -> Iterator[list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(taken) as file:
        for batch in file.iter_batches(batch_size=_BATCH):
            yield batch.to_pylist()


def _parted(
    stager: Stager, rule: Rule, batch: list[dict[str, Any]], found: dict[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows to score, and rows for the quarantine. `found` counts the traces with something at each mapped path."""
    rows, refusals = [], []
    for trace in batch:
        raw = Raw(trace["row"], None, trace["reason"], trace["trace"])
        if trace["bucket"] == "sampled":
            # What DuckDB takes for JSON can be too deep, or have numbers too long, for Python.
            raw = parse_line(trace["row"], trace["trace"])
            for key, path in rule.mapping.items():
                found[key] += value(raw.record or {}, path) is not None
        try:
            # The trace is what is scored, also where several are about one question of a data set.
            rows.append({**stager.stage(raw), "sample_id": trace["trace_id"]})
        except ValueError as error:
            refusals.append({**refused(raw, f"{Path(trace['file']).name}: {error}"), "sample_id": trace["trace_id"]})
    return rows, refusals


def _nowhere(rule: Rule, found: Mapping[str, int], sampled: int) -> Iterator[str]:
    for key in MAPPED:
        if sampled and found.get(key) == 0:
            yield (
                f"{rule.located.where(f'mapping.{key}')}: none of the {sampled:,} sampled traces has anything at "
                f"{rule.mapping[key]!r}, which is mapped to {key}"
            )


def _write(writer: Any, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa

    if rows:
        writer.write_table(pa.Table.from_pylist(rows, schema=writer.schema))
