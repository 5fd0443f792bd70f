"""What is left to score: the rows of a run against what the warehouse knows already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.metric import Kind
from answerkey.metrics_core.registry import Options, create, workload
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.score.shard import Chunk, part_schema
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file, quoted, scratch

if TYPE_CHECKING:
    import duckdb

MAX_CHUNKS = 40
"""Chunks of all metrics together. A server keeps 50 task runs a flow run well; bursts over 100 stall it."""

_CHUNK_ROWS: Mapping[Kind, int] = {"lexical": 5_000, "semantic": 2_000, "judge": 500}
"""Fewer, where an answer takes longer: microseconds for words, milliseconds for a model, seconds for a judge."""

_GROUP_ROWS = 2_048
"""The fewest that DuckDB writes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The chunks to score, and what each metric can take from earlier runs."""

    chunks: tuple[Chunk, ...]
    signatures: tuple[tuple[str, str], ...]
    n_samples: int
    n_known: tuple[tuple[str, int], ...]
    n_todo: tuple[tuple[str, int], ...]


def plan(
    accepted: str,
    home: Home,
    out: Path,
    metrics: Sequence[str],
    options: Options,
    *,
    only_failed: bool,
    most: int = MAX_CHUNKS,
) -> Plan:
    """Anti-join the accepted rows with the measurements of every metric's signature.

    Failed and skipped measurements count as not known, so a rerun tries them again; with `only_failed` nothing
    but failed ones is scored. Equal answers (one `sample_key`) are scored once. `out` is a folder of this run alone.
    `most` is the number of chunks that all metrics together may have.

    Raises:
        UserError: a judge is written in a way that none is.
        ValueError: the options hold a judge's key, which would travel with every chunk.
    """
    if options.access.api_key is not None:
        raise ValueError("a judge's key does not travel: give score() the name of the place where it is kept")
    chunks: list[Chunk] = []
    signatures, known, todo = [], [], []
    share = max(1, most // len(metrics))
    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        n_samples = _distinct(connection, accepted)
        for metric in create(metrics, options):
            kind = workload(metric.name, options)
            options.judge.seats()
            _known_keys(connection, home, metric.signature, out)
            file = out / f"todo-{metric.name}.parquet"
            rows, fingerprint = _todo(connection, file, only_failed=only_failed)
            signatures.append((metric.name, metric.signature))
            known.append((metric.name, _count(connection, "known WHERE status NOT IN ('failed', 'skipped')")))
            todo.append((metric.name, rows))
            # What judges said is in the ledger. A part would only stand in the way of a rerun with more budget.
            folder = _part_folder(out if kind == "judge" else home.folder, metric.signature, fingerprint)
            size = _chunk_size(rows, _CHUNK_ROWS[kind], share)
            chunks += [
                Chunk(metric.name, options, str(file), first, count, str(folder / f"{first}-{first + count}.parquet"))
                for first in range(0, rows, size)
                for count in [min(size, rows - first)]
            ]
    return Plan(tuple(chunks), tuple(signatures), n_samples, tuple(known), tuple(todo))


def _part_folder(root: Path, signature: str, fingerprint: str) -> Path:
    # Parts that an older release left behind have other columns.
    return root / "parts" / content_hash([signature, fingerprint, part_schema().names])


def _chunk_size(rows: int, least: int, share: int) -> int:
    """Rows a chunk: `least` or more where there are as many, and not more chunks than `share`."""
    return max(1, -(-rows // max(1, min(share, rows // least))))


def _distinct(connection: duckdb.DuckDBPyConnection, accepted: str) -> int:
    # Rows in the order of their ids keep the answers to one question together, which the reference caches
    # of the metrics live on, and make the order of the source irrelevant.
    connection.execute(
        """
        CREATE TEMP TABLE wanted AS
        SELECT sample_key, any_value(question) AS question, any_value(answer) AS answer,
               any_value("references") AS "references", any_value(facts) AS facts, min(sample_id) AS sample_id
        FROM read_parquet(?) WHERE missing_because IS NULL GROUP BY sample_key
        """,
        [one_file(accepted)],
    )
    return _count(connection, "wanted")


def _known_keys(connection: duckdb.DuckDBPyConnection, home: Home, signature: str, out: Path) -> None:
    """The table `known` of this metric: keys and status of earlier measurements."""
    connection.execute("CREATE OR REPLACE TEMP TABLE known (sample_key VARCHAR, status VARCHAR)")
    if not home.warehouse.exists():
        return
    file = out / "known.parquet"
    with home.warehouse.reading() as warehouse:
        # Through a file: two DuckDB sessions share nothing else, and the lock is held for a moment only.
        warehouse.execute(
            f"COPY (SELECT sample_key, status FROM measurements WHERE signature = ?) TO {quoted(file)}",
            [signature],
        )
    connection.execute(
        "INSERT INTO known SELECT k.* FROM read_parquet(?) k JOIN wanted USING (sample_key)", [one_file(file)]
    )


def _todo(connection: duckdb.DuckDBPyConnection, file: Path, *, only_failed: bool) -> tuple[int, str]:
    """Write the rows to score; return how many, and a hash of their keys in order."""
    condition = "status = 'failed'" if only_failed else "status IS NULL OR status IN ('failed', 'skipped')"
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE todo AS
        SELECT w.* FROM wanted w LEFT JOIN known k USING (sample_key) WHERE {condition}
        ORDER BY sample_id, sample_key
        """
    )
    unfinished = f"{file}.part"
    connection.execute(f"COPY todo TO {quoted(unfinished)} (FORMAT parquet, ROW_GROUP_SIZE {_GROUP_ROWS})")
    os.replace(unfinished, file)
    [(fingerprint,)] = connection.execute(
        "SELECT md5(coalesce(string_agg(sample_key, '' ORDER BY sample_id, sample_key), '')) FROM todo"
    ).fetchall()
    return _count(connection, "todo"), str(fingerprint)


def _count(connection: Any, table: str) -> int:
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(count)
