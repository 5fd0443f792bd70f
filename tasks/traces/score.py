"""A run of a rule: stage its traces, plan their scoring, preview it, and commit the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.statistics.intervals import Interval
from answerkey.tasks.load.columns import ColumnMap, is_there, value
from answerkey.tasks.load.load import Stager
from answerkey.tasks.load.plain import as_json
from answerkey.tasks.load.references import Reference
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.load.rows import Raw, Record, parse_line
from answerkey.tasks.load.staged import quarantine_schema, refused, staged_schema
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import NONE, count, dollars
from answerkey.tasks.reports.commit import collect_calls, commit_measurements, insert_calls
from answerkey.tasks.score.estimate import estimate_costs
from answerkey.tasks.score.plan import MAX_SHARDS, Plan, plan
from answerkey.tasks.traces.rules import MAPPED, Rule
from answerkey.tasks.traces.select import Selection, Window, select
from answerkey.tasks.traces.summary import (
    BUCKETS,
    Funnel,
    Selected,
    by_rule,
    counts_by_rule,
    estimate_of,
    field_of,
    main_field,
)
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import parquet_writer
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_BATCH = 5_000
_CONTRACT = Contract(max_quarantined=1.0, references="wanted")
"""Each trace stands for itself: many bad ones are counted, and stop nothing. One without a reference is undefined."""

_KEYS = {"key": "id"}
"""What the loader calls the things that a rule maps, where it has another name for them."""

MOST_SHOWN = 1_000


@contextmanager
def alone(home: Home, rules: Sequence[str], say: Callable[[str], object]) -> Iterator[None]:
    """Allow one run of these rules on this home at a time; a second run waits, and `say` is called once.

    A process that dies releases its locks.
    """
    with ExitStack() as stack:
        # In one order everywhere, so that no two runs wait for each other.
        for rule in sorted(set(rules)):
            if not stack.enter_context(home.warehouse.claimed(f"rule-{rule}")):
                say(f"{rule}: another run is at work on this rule; waiting until it is done")
                stack.enter_context(home.warehouse.claimed(f"rule-{rule}", wait=True))
        yield


@dataclass(frozen=True, slots=True)
class Staged:
    """The sampled traces of a rule after validation.

    `accepted` is a Parquet file with the columns of `staged_schema()`, None where nothing is left to score;
    `quarantine` one with those of `quarantine_schema()`.
    """

    accepted: str | None
    quarantine: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of a rule's run before anything is scored. `plan` is None where no trace is to be scored."""

    rule: Rule
    window: Window
    signature: str
    selection: Selection
    staged: Staged
    plan: Plan | None

    @property
    def todo(self) -> int:
        """Measurements to make: those known are not among them, and equal answers count once."""
        return sum(rows for _, rows in self.plan.n_todo) if self.plan else 0


def prepare(
    rule: Rule, metric: Metric, home: Home, out: Path, window: Window, *, most: int = MAX_SHARDS, key_from: str = ""
) -> Prepared:
    """Select the traces of a rule, stage them, and plan their scoring. Nothing in the warehouse changes.

    Args:
        metric: that of the rule, without a judge's key.
        out: a folder for this rule in this run alone.
        most: shards that the rule may have.
        key_from: where the key of its judges is kept.

    Raises:
        UserError: the source cannot be read, an id or a time stands nowhere, or a data set or a judge is missing.
    """
    selection = select(rule, home, out, window)
    staged = stage(rule, home, selection, out)
    planned = None
    if staged.accepted:
        planned = plan(staged.accepted, home, out, [metric], only_failed=False, most=most, key_from=key_from)
    return Prepared(rule, window, metric.signature, selection, staged, planned)


def stage(rule: Rule, home: Home, selection: Selection, out: Path) -> Staged:
    """Map the sampled traces, join their references, and validate them.

    Raises:
        UserError: there is no data set of the name in the rule.
    """
    staged, rejects = out / "staged.parquet", out / "rejects.parquet"
    stager = _stager(rule, home)
    quoted = _quoted(rule, selection)
    found: dict[str, int] = dict.fromkeys(rule.mapping, 0)
    n_staged = 0
    with parquet_writer(str(staged), staged_schema()) as good, parquet_writer(str(rejects), quarantine_schema()) as bad:
        for batch in _batches(selection.taken):
            rows, refusals = _parted(stager, rule, batch, found, quoted)
            n_staged += len(rows)
            _write(good, rows)
            _write(bad, refusals)
    notes = list(_nowhere(rule, found, selection.sampled))
    notes += [
        f"{rule.name}: the texts at {path!r} are JSON in quotes, and are read as what they say" for path in quoted
    ]
    if selection.sampled and not found["answer"]:
        _check_answer(rule, selection)
    if not n_staged:
        return Staged(None, str(rejects), tuple(notes))
    validation = validate(str(staged), str(rejects), str(out), _CONTRACT, home=home.local)
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
        rows = warehouse.execute(_SQL["references"], {"dataset": rule.dataset, "version": version}).fetchall()
    return {row[0]: Reference.stored(row) for row in rows}


def newest_version(warehouse: duckdb.DuckDBPyConnection, rule: Rule) -> str:
    """The newest version of the data set that has the references of a rule.

    Raises:
        UserError: there is no such data set.
    """
    known = dict(warehouse.execute(_SQL["newest_versions"]).fetchall())
    if rule.dataset not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "there is none yet: answerkey evaluate makes them"
        raise UserError(f"{rule.located.where('dataset')}: dataset: there is no data set {rule.dataset!r}; {there}")
    return str(known[rule.dataset])


def _batches(taken: str) -> Iterator[list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(taken) as file:
        for batch in file.iter_batches(batch_size=_BATCH):
            yield batch.to_pylist()


def _quoted(rule: Rule, selection: Selection) -> list[str]:
    """The mapped paths at which the texts of all first traces, of which there are several, have the quotes of JSON."""
    batch = next(_batches(selection.taken), [])
    records = [parse_line(one["row"], one["trace"]).record or {} for one in batch if one["bucket"] == "sampled"]
    return [path for path in dict.fromkeys(rule.mapping.values()) if _all_quoted(records, path)]


def _all_quoted(records: Iterable[Record], path: str) -> bool:
    found = []
    for record in records:
        # What has a key twice is refused where it is staged.
        with suppress(ValueError):
            if isinstance(text := value(record, path), str):
                found.append(text[:1] == '"' and isinstance(as_json(text), str) and as_json(text) != text)
    return len(found) > 1 and all(found)


def _parted(
    stager: Stager, rule: Rule, batch: list[dict[str, Any]], found: dict[str, int], quoted: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows to score, and rows for the quarantine.

    `found` counts the traces with something at each mapped path; at the `quoted` ones are texts in the quotes of JSON.
    """
    rows, refusals = [], []
    for trace in batch:
        raw = Raw(trace["row"], None, trace["reason"], trace["trace"])
        if trace["bucket"] == "sampled":
            # What DuckDB takes for JSON can be too deep, or have numbers too long, for Python.
            raw = parse_line(trace["row"], trace["trace"])
            for key, path in rule.mapping.items():
                found[key] += is_there(raw.record or {}, path, but_null=True)
        try:
            if raw.record is not None and quoted:
                texts = {path: text for path in quoted if isinstance(text := value(raw.record, path), str)}
                raw = raw._replace(record={**raw.record, **{path: as_json(text) for path, text in texts.items()}})
            # The trace is what is scored, also where several are about one question of a data set.
            rows.append({**stager.stage(raw), "sample_id": trace["trace_id"]})
        except ValueError as error:
            refusals.append({**refused(raw, f"{Path(trace['file']).name}: {error}"), "sample_id": trace["trace_id"]})
    return rows, refusals


def _check_answer(rule: Rule, selection: Selection) -> None:
    """A path to the answer that leads nowhere in any trace is a mistake in the rule: all would be scored as blank.

    It is none where traces were scored by the same mapping before: these few have no answer, then.

    Raises:
        UserError: that is so.
    """
    before = selection.last_run
    if before.scored and before.definition.get("mapping") == rule.definition["mapping"]:
        return
    path = rule.mapping["answer"]
    taken = (trace for batch in _batches(selection.taken) for trace in batch if trace["bucket"] == "sampled")
    if not any(is_there(parse_line(trace["row"], trace["trace"]).record or {}, path) for trace in taken):
        raise UserError(
            f"{rule.located.where('mapping.answer')}: mapping.answer: none of the {selection.sampled:,} sampled traces "
            f"has anything at {path!r}; write where the answer of a trace is"
        )


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


@dataclass(frozen=True, slots=True)
class Shown:
    """A trace that would be scored."""

    trace_id: str
    time: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Preview(Selected):
    """The counts of a rule before anything is scored: seen = disabled + filtered + sampled_out + quarantined + taken.

    `measured` measurements would be made for the traces taken; the others are known, or equal each other. `estimate`
    is None where the metric asks no judge. `traces` are the first `MOST_SHOWN` of those taken, by time.
    """

    taken: int
    measured: int
    estimate: Cost | None
    traces: tuple[Shown, ...]


def preview_table(previews: Sequence[Preview]) -> Table:
    """A column a rule: what a run would do with its traces, and what it would ask judges."""
    about = {
        "seen": "",
        **{name: BUCKETS[name] for name in ("disabled", "filtered", "sampled_out", "quarantined")},
        "taken": "would have a score",
        "measured": "of them: measurements to make",
    }
    rows = counts_by_rule(about, previews)
    estimates = [one.estimate for one in previews]
    if any(estimates):
        rows.append(("calls", *(count(one.calls if one else None) for one in estimates), "to judges"))
        rows.append(("cost", *(dollars(one.cost_usd) if one else NONE for one in estimates), ""))
    groups = [*("traces" for _ in about), *("judges" for _ in rows[len(about) :])]
    return by_rule([one.rule for one in previews], rows, groups)


def preview(prepared: Prepared) -> Preview:
    """What a run would do; no judge is asked, and nothing changes.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    selection = prepared.selection
    taken, shown = _taken(prepared)
    estimates = estimate_costs(prepared.plan) if prepared.plan else ()
    return Preview(
        rule=prepared.rule.name,
        metric=prepared.rule.metric,
        signature=prepared.signature,
        seen=selection.seen,
        **selection.left_out,
        quarantined=selection.seen - sum(selection.left_out.values()) - taken,
        taken=taken,
        measured=prepared.todo,
        estimate=next(iter(estimates), None),
        traces=shown,
    )


def _taken(prepared: Prepared) -> tuple[int, tuple[Shown, ...]]:
    """How many traces would be scored, and the first of them by time."""
    if prepared.staged.accepted is None:
        return 0, ()
    with session() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = {"accepted": one_file(prepared.staged.accepted), "decided": one_file(prepared.selection.decided)}
        rows = connection.execute(_SQL["shown"], {**files, "most": MOST_SHOWN}).fetchall()
    return rows[0][0], tuple(Shown(*row) for _, *row in rows)


def commit(home: Home, run_id: str, prepared: Prepared, parts: Sequence[str], out: Path) -> Funnel:
    """Commit the results of a run for the traces of a rule, and count where the traces ended.

    A process that dies before the end leaves everything as it was: the next run looks at the same traces, and finds
    the finished parts and the replies of the judges. Committing twice changes nothing.

    Args:
        parts: of the plan's shards; they are dropped afterwards.
        out: the folder of the rule in this run.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    calls = collect_calls(home, parts, out)
    with home.warehouse.writing(taken_in=parts) as warehouse:
        commit_measurements(warehouse, home, run_id, parts)
        if calls:
            insert_calls(warehouse, calls)
        counts, mean, ends = _commit_outcomes(warehouse, run_id, prepared)
        _insert_quarantine(warehouse, run_id, prepared)
        watermark = _set_watermark(warehouse, run_id, prepared)
        _forget(warehouse, prepared.rule, watermark)
        funnel = _funnel(warehouse, prepared, counts, mean, ends, watermark)
        _insert_funnel(warehouse, run_id, prepared, funnel, watermark)
    return funnel


def _commit_outcomes(
    warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared
) -> tuple[Mapping[str, int], float | None, Interval | None]:
    """Write one row per trace. Of several rows about one trace, one that was scored counts.

    Returns:
        How many of the traces that a run took have which status, and the mean of the main field with its interval, as
        they hold for all that should have a number.
    """
    rule, signature = prepared.rule, prepared.signature
    warehouse.execute(_SQL["taken"])
    if accepted := prepared.staged.accepted:
        warehouse.execute(_SQL["add_taken"], {"accepted": one_file(accepted)})
    about = {
        "rule": rule.name,
        # A rule may name a metric by its import path; its signature begins with its name.
        "metric": signature.partition("|")[0],
        "signature": signature,
        "run_id": run_id,
        "decided": one_file(prepared.selection.decided),
    }
    warehouse.execute(_SQL["new_outcomes"], about)
    warehouse.execute(_SQL["replace_outcomes"])
    warehouse.execute(_SQL["add_outcomes"])
    counts = dict(warehouse.execute(_SQL["counts"], {"signature": signature}).fetchall())
    name = main_field(rule.metric)
    [(_, mean, histogram)] = warehouse.execute(_SQL["mean"], {"field": name}).fetchall()
    n_scored, wanted = counts.get("scored", 0), sum(n for status, n in counts.items() if status != "undefined")
    return counts, *estimate_of(field_of(rule.metric, name), mean, histogram, n_scored / max(1, wanted))


def _insert_quarantine(warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared) -> None:
    about = {"run_id": run_id, "rule": prepared.rule.name}
    warehouse.execute(_SQL["forget_quarantine"], about)
    files = {"quarantine": one_file(prepared.staged.quarantine), "taken": one_file(prepared.selection.taken)}
    warehouse.execute(_SQL["add_quarantine"], {**about, **files, "source": without_secrets(prepared.rule.source)})


def _set_watermark(warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared) -> datetime | None:
    rule, selection = prepared.rule, prepared.selection
    known = [selection.last_run.watermark, None if prepared.window.backfill else selection.newest]
    watermark = max(filter(None, known), default=None)
    about = {"rule": rule.name, "watermark": watermark, "metric": rule.metric, "run_id": run_id}
    about["definition"] = json.dumps(rule.definition, ensure_ascii=False)
    for name in ("replace_rule", "add_rule"):
        warehouse.execute(_SQL[name], about)
    return watermark


def _forget(warehouse: duckdb.DuckDBPyConnection, rule: Rule, watermark: datetime | None) -> None:
    # Only a backfill looks at these again, and it decides anew. Without this the outcomes would grow with the log.
    if rule.late_days is not None and watermark is not None:
        begin = watermark - timedelta(days=rule.late_days)
        warehouse.execute(_SQL["forget_outcomes"], {"rule": rule.name, "begin": begin})


def _funnel(
    warehouse: duckdb.DuckDBPyConnection,
    prepared: Prepared,
    counts: Mapping[str, int],
    mean: float | None,
    ends: Interval | None,
    watermark: datetime | None,
) -> Funnel:
    rule, selection = prepared.rule, prepared.selection
    [(quarantined,)] = warehouse.execute(
        _SQL["n_quarantined"], {"quarantine": one_file(prepared.staged.quarantine)}
    ).fetchall()
    return Funnel(
        rule=rule.name,
        metric=rule.metric,
        signature=prepared.signature,
        seen=selection.seen,
        **selection.left_out,
        quarantined=quarantined,
        **{status: counts.get(status, 0) for status in ("scored", "undefined", "failed", "skipped")},
        again=selection.again,
        measured=prepared.todo,
        field=main_field(rule.metric),
        mean=mean,
        low=ends and ends.low,
        high=ends and ends.high,
        watermark=watermark.isoformat() if watermark else None,
    )


def _insert_funnel(
    warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared, funnel: Funnel, watermark: datetime | None
) -> None:
    warehouse.execute(_SQL["forget_funnel"], {"run_id": run_id, "rule": funnel.rule})
    counts = {column: getattr(funnel, column) for column in ("seen", *BUCKETS, "again", "measured")}
    about = {"run_id": run_id, "since": prepared.window.since, "until": prepared.window.until}
    method = {"sampling": prepared.rule.sampling, "metric": funnel.metric, "signature": funnel.signature}
    warehouse.execute(_SQL["add_funnel"], {**about, "rule": funnel.rule, **counts, **method, "watermark": watermark})
