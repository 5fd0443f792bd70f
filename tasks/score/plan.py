"""Plan what is still to be scored: the rows of a run, less what the warehouse has already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.check import JudgeCheck, questions_for
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.known_answer import KnownAnswer
from answerkey.metrics_core.judges.votes import ANSWERED_BY
from answerkey.metrics_core.metric import Metric, Workload
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.tasks.score.shard import Shard, part_schema, portable, samples_of
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import row_bytes
from answerkey.tasks.warehouse.warehouse import one_file, scratch, write_parquet

if TYPE_CHECKING:
    import duckdb

TODO = "todo.parquet"
"""The file with the rows that any metric of a run needs, in the folder of the run."""

MAX_SHARDS = 40
"""Shards of all metrics together. A server handles 50 task runs per flow run well; bursts over 100 stall it."""

_SHARD_ROWS: Mapping[Workload, int] = {"lexical": 5_000, "semantic": 2_000, "offline": 1_000, "judge": 500}
"""Fewer, where an answer takes longer: microseconds for words, milliseconds for a model, seconds for a judge."""

_MAX_LEXICAL_ROWS = 20_000

_BATCH_ROWS = 5_000
"""What a judge gets as a batch: of many shards only some are waited for at once, each up to a day, and every question
that waits takes up to 80 KB."""

_SQL = statements(__name__)
_MAX_REFERENCES = 2_000
"""Questions with references that questions for the judges are made from."""
_GROUP_ROWS = 2_048
"""The fewest that DuckDB writes."""
_BUCKET_BYTES = 32 * 2**20
_MAX_ROWS = 100_000
"""Of the texts that are sorted at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The shards to score, and what each metric can take from earlier runs: pairs of its name and a number of rows.

    Attributes:
        known_answers: by metric, the questions that its judges are to be checked with.
        checks: of the judges, once they were made.
    """

    shards: tuple[Shard, ...]
    metrics: tuple[Metric, ...]
    n_samples: int
    n_known: tuple[tuple[str, int], ...]
    n_todo: tuple[tuple[str, int], ...]
    known_answers: Mapping[str, tuple[KnownAnswer, ...]]
    checks: tuple[JudgeCheck, ...] = ()


def plan(
    accepted: str,
    home: Home,
    out: Path,
    metrics: Sequence[Metric],
    *,
    only_failed: bool,
    most: int = MAX_SHARDS,
    key_from: str = "",
) -> Plan:
    """Anti-join the accepted rows with the measurements of every metric's signature.

    Failed and skipped measurements count as not known, so a rerun tries them again; with `only_failed` nothing
    but failed ones is scored. What a fallback judged counts as failed: the named judge is asked again. Equal answers
    (one `sample_key`) are scored once. `out` is a folder of this run alone, in the scratch folder of the home.
    `most` is the number of shards that all metrics together may have, `key_from` where the key of their judges is kept.

    Raises:
        UserError: a judge is not PROVIDER/MODEL.
        ValueError: a metric holds a judge's key, which would travel with every shard.
    """
    if any(isinstance(metric, JudgeMetric) and metric.access.api_key is not None for metric in metrics):
        raise ValueError("a judge's key does not travel: give score() the name of the place where it is kept")
    needs, n_samples = _needs(accepted, home, out, [metric.signature for metric in metrics], only_failed=only_failed)
    max_shards = max(1, most // len(metrics))
    shards: list[Shard] = []
    planned: list[Metric] = []
    for metric, need in zip(metrics, needs, strict=True):
        all_rows = Shard(
            metric,
            home.address,
            home.shared_name(out / TODO),
            first=0,
            n_rows=need.n_todo,
            part="",
            places=need.positions,
            key_from=key_from,
        )
        # The trial of a cascade, in which the cheap judge must agree with the dear one, is drawn from all rows
        if isinstance(metric, JudgeMetric):
            planned.append(metric.with_trial(chain.from_iterable(samples_of(all_rows))))
        else:
            planned.append(metric)
        scored = portable(planned[-1])

        # At least so many rows a shard, if there are so many, and no more shards than its share
        min_rows = _BATCH_ROWS if scored.all_at_once else _min_rows(metric.workload, need.n_todo)
        size = max(1, -(-need.n_todo // max(1, min(max_shards, need.n_todo // min_rows))))
        # What judges said is in the ledger. A part would only stand in the way of a rerun with more budget.
        # Parts that an older release left behind have other columns.
        folder = f"parts/{content_hash([metric.signature, need.contents, str(part_schema())])}"
        if metric.workload == "judge":
            folder = home.shared_name(out / folder)
        for start in range(0, need.n_todo, size):
            n_rows = min(size, need.n_todo - start)
            part = f"{folder}/{start}-{start + n_rows}.parquet"
            shard = replace(all_rows, metric=scored, first=start, n_rows=n_rows, part=part)
            # A shard travels, so it has only those answers of other releases that its own rows need
            if isinstance(scored, Preference):
                keys = {sample.sample_id for sample in chain.from_iterable(samples_of(shard))}
                answers = {key: answer for key, answer in scored.baseline_answers.items() if key in keys}
                shard = replace(shard, metric=replace(scored, baseline_answers=answers))
            shards.append(shard)
    return Plan(
        shards=tuple(shards),
        metrics=tuple(planned),
        n_samples=n_samples,
        n_known=tuple((metric.name, need.n_known) for metric, need in zip(metrics, needs, strict=True)),
        n_todo=tuple((metric.name, need.n_todo) for metric, need in zip(metrics, needs, strict=True)),
        known_answers=_known_answers(planned, needs, accepted, out),
    )


def _known_answers(
    metrics: Sequence[Metric], needs: Sequence[_Need], accepted: str, out: Path
) -> dict[str, tuple[KnownAnswer, ...]]:
    """The questions for the judges of each metric, made from all accepted rows.

    Those that have a score already count too: a run that goes on with the rest asks the same questions.
    """
    # Judges that will be asked something
    asking = [
        (metric, need)
        for metric, need in zip(metrics, needs, strict=True)
        if isinstance(metric, JudgeMetric) and metric.workload == "judge" and need.n_todo
    ]
    if not asking:
        return {}
    with scratch(out) as connection:
        rows = connection.execute(_SQL["references"], {"accepted": one_file(accepted), "most": _MAX_REFERENCES})
        samples = [Sample("", "", references, question) for question, references in rows.fetchall()]
    questions = {metric.name: questions_for(metric, samples, need.n_todo) for metric, need in asking}
    return {name: metric_questions for name, metric_questions in questions.items() if metric_questions}


def check_baseline_answers(metrics: Sequence[Metric], baseline: str) -> None:
    """Find out before anything is loaded whether there is a baseline to compare answers with.

    Raises:
        UserError: a metric needs one, and none is named.
    """
    for metric in metrics:
        if isinstance(metric, Preference) and not baseline:
            raise UserError(
                f"{metric.name}: it compares with the answers of a baseline; evaluate both releases in one run and "
                "name one of them (--baseline). A run of one release, such as a rerun, goes without it: name the other "
                "metrics (--metrics)"
            )


def with_baseline_answers(metrics: Sequence[Metric], accepted: str, baseline: str) -> list[Metric]:
    """The metrics, with the answers in the file `accepted` of the releases that they compare with.

    Of several answers of a release to a question, the first counts.

    Raises:
        UserError: the file has no answers of the release `baseline`.
    """
    # Most runs compare no answers with those of another release
    if not any(isinstance(metric, Preference) for metric in metrics):
        return list(metrics)
    parameters = {"accepted": one_file(accepted), "baseline": baseline}
    with closing(scratch(Path(accepted).parent)) as connection:
        answers = connection.execute(_SQL["answers"], parameters).fetchall()
        pairs = connection.execute(_SQL["baseline_answers"], parameters).fetchall()
    if not answers:
        raise UserError(
            f"{baseline}: no answers of it in this source, and `preference` shows a judge both; evaluate both releases "
            "in one run, from one source"
        )
    answers_hash = content_hash(answers)[:12]
    with_answers: list[Metric] = []
    for metric in metrics:
        if isinstance(metric, Preference):
            with_answers.append(replace(metric, baseline_answers=dict(pairs), against=answers_hash))
        else:
            with_answers.append(metric)
    return with_answers


@dataclass(frozen=True, slots=True)
class _Need:
    """The rows of the to-do file that one metric needs: `positions` as the places of a shard, `contents` a hash."""

    n_known: int
    n_todo: int
    contents: str
    positions: str | None


def _needs(
    accepted: str, home: Home, out: Path, signatures: Sequence[str], *, only_failed: bool
) -> tuple[list[_Need], int]:
    """Write the to-do file of all metrics, and a list of places in it for each that does not need all of it.

    Returns:
        What each of the signatures needs, and how many different samples there are.
    """
    out.mkdir(parents=True, exist_ok=True)
    measured_file = out / "measured.parquet"
    with scratch(out) as connection:
        # What was measured, through a file: two DuckDB sessions share nothing else, and the lock is held for a moment
        if home.warehouse.exists():
            with home.warehouse.reading() as warehouse:
                parameters = {"signatures": list(signatures), "answered_by": ANSWERED_BY}
                write_parquet(warehouse, _SQL["measured"], measured_file, parameters)
        else:
            write_parquet(connection, "SELECT '' AS signature, '' AS sample_key, '' AS status LIMIT 0", measured_file)
        measured = {"measured": one_file(measured_file)}

        # What any metric needs
        connection.execute(_SQL["wanted"], {"accepted": one_file(accepted)})
        connection.execute(_SQL["needs"])
        for metric, signature in enumerate(signatures):
            need = {**measured, "metric": metric, "signature": signature, "only_failed": only_failed}
            connection.execute(_SQL["add_needs"], need)
        connection.execute(_SQL["todo"])
        with home.store.atomic_write(home.shared_name(out / TODO)) as file:
            _write_texts(connection, accepted, file, out)

        # What each of them needs of that
        n_todo = _count(connection, "FROM todo")
        needs = []
        for metric, signature in enumerate(signatures):
            n_known = _count(connection, _SQL["known"], {**measured, "signature": signature})
            [(count, *sums)] = connection.execute(_SQL["contents"], {"metric": metric}).fetchall()
            positions = None
            if count < n_todo:
                positions = home.shared_name(out / f"todo-{metric}.parquet")
                with home.store.atomic_write(positions) as file:
                    write_parquet(connection, _SQL["places"], file, {"metric": metric}, group_rows=_GROUP_ROWS)
            needs.append(_Need(n_known, count, f"{count} {sums}", positions))
        return needs, _count(connection, "FROM wanted")


def _write_texts(connection: duckdb.DuckDBPyConnection, accepted: str, file: Path, out: Path) -> None:
    """Write the to-do file, whose rows are in the order of their places.

    They are put into buckets of neighbours on disk first, and then sorted a bucket at a time.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    # As many rows a bucket as may be sorted in memory
    light = pa.ipc.IpcWriteOptions(compression="lz4")
    bytes_of_row = row_bytes(accepted)
    size = max(_BUCKET_BYTES // bytes_of_row // _GROUP_ROWS, 1) * _GROUP_ROWS
    texts = connection.execute(_SQL["texts"], {"accepted": one_file(accepted)})
    reader = texts.to_arrow_reader(min(_BUCKET_BYTES // bytes_of_row + 1, _MAX_ROWS))
    with TemporaryDirectory(dir=out, prefix="buckets-") as folder, ExitStack() as open_files:
        buckets: dict[int, pa.RecordBatchStreamWriter] = {}
        for batch in reader:
            numbers = batch.column("place").to_numpy() // size
            order = np.argsort(numbers, kind="stable")
            bucket_numbers, starts = np.unique(numbers[order], return_index=True)
            sorted_rows = batch.take(pa.array(order))
            for number, start, end in zip(bucket_numbers.tolist(), starts, [*starts[1:], len(order)], strict=True):
                if number not in buckets:
                    bucket = pa.ipc.new_stream(os.path.join(folder, str(number)), reader.schema, options=light)
                    buckets[number] = open_files.enter_context(bucket)
                buckets[number].write_batch(sorted_rows.slice(start, end - start))
        open_files.close()
        schema = reader.schema.remove(reader.schema.get_field_index("place"))
        # Keys and answers hardly repeat.
        with pq.ParquetWriter(file, schema, use_dictionary=["question", "references.list.element"]) as writer:
            for number in sorted(buckets):
                rows = pa.ipc.open_stream(os.path.join(folder, str(number))).read_all()
                rows = rows.sort_by("place").drop_columns("place")
                writer.write_table(rows, row_group_size=_GROUP_ROWS)


def _min_rows(kind: Workload, rows: int) -> int:
    """The fewest rows of a shard, if there are so many in all.

    A part costs the driver of a cluster as much however many rows it has, so shards of words grow with the run.

    >>> [_min_rows("lexical", rows) for rows in (1, 200_000, 400_000, 10_000_000)]
    [5000, 5000, 10000, 20000]
    """
    if kind == "lexical":
        return max(_SHARD_ROWS[kind], min(rows // MAX_SHARDS, _MAX_LEXICAL_ROWS))
    return _SHARD_ROWS[kind]


def _count(connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None = None) -> int:
    """The number of rows of a query."""
    [(count,)] = connection.execute(f"SELECT count(*) FROM ({query})", parameters or {}).fetchall()
    return int(count)
