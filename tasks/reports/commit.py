"""Commit what a run loaded and measured to the warehouse, each in one short transaction."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.llm.ledger import COLUMNS, ledger_exists, open_ledger
from answerkey.tasks.load.remote import kept_parameters, without_secrets
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch

if TYPE_CHECKING:
    import duckdb

    from answerkey.tasks.load.load import Loaded
    from answerkey.tasks.validate.validate import Validation


log = logging.getLogger("answerkey")

_SQL = statements(__name__)
_CALLS = 500
"""Calls to judges in memory at once; the text of a reply can be long."""
_HASHES = 100_000
"""Hashes in memory at once."""
_DIGITS = 12
"""Hex digits of the versions of data sets and answers."""


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """The committed answers of a release: `n_rows` answers to `n_questions` questions, usually `repeats` to each."""

    release: str
    answers_version: str
    n_rows: int
    n_questions: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The data set version of a run with the number of its samples, and its releases."""

    dataset: str
    dataset_version: str
    releases: tuple[ReleaseVersion, ...]
    n_samples: int = 0


def start_run(home: Home, run_id: str, flow: str, dataset: str, parameters: Mapping[str, Any]) -> None:
    """Write down that a run started; `finish_run` says how it ended."""
    if home.warehouse.finish_removal():
        log.info(f"{home}: a removal was stopped before it had rewritten the files; that is done now")
    with home.warehouse.writing() as warehouse:
        columns = {"run_id": run_id, "flow": flow, "dataset": dataset}
        columns["parameters"] = json.dumps(kept_parameters(parameters), ensure_ascii=False)
        # A run that is started again keeps its row
        for name in ("start_again", "start_run"):
            warehouse.execute(_SQL[name], columns)


def finish_run(home: Home, run_id: str, status: str, message: str | None = None) -> None:
    """Close a run as `complete` or `stopped`, and let readers see what it has made."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["finish_run"], {"run_id": run_id, "status": status, "message": message})
    publish(home)


def publish(home: Home) -> None:
    """Let programs that keep the tables open see what was committed; without room for it, they see what was before."""
    try:
        home.warehouse.publish()
    except OSError as error:
        # What was committed is safe
        log.warning(f"readers of the snapshot do not see this run yet: {error.strerror or error}")


def is_complete(home: Home, run_id: str) -> bool:
    """Whether a run has ended, and did all that it was to do."""
    if not home.warehouse.exists():
        return False
    with home.warehouse.writing() as warehouse:
        query = "FROM runs SELECT count(*) WHERE run_id = ? AND status = 'complete'"
        return bool((warehouse.execute(query, [run_id]).fetchone() or (0,))[0])


def record_validation(home: Home, run_id: str, source: str, loaded: Loaded, validation: Validation) -> None:
    """Keep the checks and the quarantined rows, also of a run that stops here."""
    from answerkey.tasks.load.sources import called

    with home.warehouse.writing() as warehouse:
        insert_quarantine(warehouse, run_id, loaded.dataset, source=called(source), file=validation.quarantine)
        warehouse.execute("DELETE FROM validations WHERE run_id = ?", [run_id])
        # All at once: each statement on a lake asks its catalog.
        columns: dict[str, Any] = {"run_id": run_id, "dataset": loaded.dataset}
        for name in ("rule", "severity", "release", "success", "n_checked", "n_failed", "message"):
            columns[name] = [getattr(check, name) for check in validation.checks]
        warehouse.execute(_SQL["add_validations"], columns)


def insert_quarantine(warehouse: duckdb.DuckDBPyConnection, run_id: str, dataset: str, source: str, file: str) -> None:
    """Bring a file of quarantined rows in, within the caller's transaction.

    Args:
        source: what rows that name no file are from.
    """
    run = {"run_id": run_id, "dataset": dataset}
    warehouse.execute(_SQL["forget_quarantine"], run)
    warehouse.execute(_SQL["add_quarantine"], {**run, "source": source, "file": one_file(file)})


def commit(
    home: Home,
    run_id: str,
    source: str,
    loaded: Loaded,
    accepted: str,
    parts: Sequence[str],
) -> Committed:
    """Commit the data set, the answers, the finished parts and the calls to judges behind them.

    Afterwards the parts are dropped. Everything is keyed by content, so committing twice changes nothing.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    calls = collect_calls(home, parts, home.scratch / run_id)
    with home.warehouse.writing(taken_in=parts) as warehouse:
        versions = _versions(warehouse, loaded, accepted)
        _commit_samples(warehouse, loaded, accepted, versions, source=source)
        # Answers take the place of equal ones
        answers = {
            "dataset": versions.dataset,
            "releases": [release.release for release in versions.releases],
            "versions": [release.answers_version for release in versions.releases],
        }
        warehouse.execute(_SQL["forget_answers"], answers)
        rows = f"{_SQL['new_answers']}\n{_SQL['answers']}"
        warehouse.execute(f"INSERT INTO answers BY NAME {rows}", {**answers, "accepted": one_file(accepted)})
        commit_measurements(warehouse, home, run_id, parts)
        if calls:
            insert_calls(warehouse, calls)
    return versions


def _versions(connection: duckdb.DuckDBPyConnection, loaded: Loaded, accepted: str) -> Committed:
    """Find the versions of the data set and of the answers: hashes of their rows.

    With a references file the data set is that file, answered or not. Otherwise it is what was answered.
    """
    samples = {"samples": one_file(loaded.references or accepted)}
    connection.execute(_SQL["new_samples"], samples)
    # Hashed as they come, in order: a text of all of them would have to fit into memory
    digest = md5(usedforsecurity=False)
    count = 0
    for batch in connection.execute(_SQL["sample_hashes"], samples).to_arrow_reader(_HASHES):
        digest.update("".join(batch.column(0).to_pylist()).encode())
        count += batch.num_rows
    connection.execute("DROP TABLE new_samples")

    # The answers of each release likewise
    answers = {"accepted": one_file(accepted)}
    releases = connection.execute(_SQL["releases"], {**answers, "staged": one_file(loaded.staged)}).fetchall()
    digests = {release: md5(usedforsecurity=False) for release, *_ in releases}
    hashes = connection.execute(f"{_SQL['new_answers']}\n{_SQL['answer_hashes']}", answers)
    for batch in hashes.to_arrow_reader(_HASHES):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for release, release_rows in groupby(rows, key=itemgetter(0)):
            digests[release].update("".join(text for _, text in release_rows).encode())
    versions = {release: answers_digest.hexdigest()[:_DIGITS] for release, answers_digest in digests.items()}
    release_versions = tuple(ReleaseVersion(release, versions[release], *counts) for release, *counts in releases)
    return Committed(loaded.dataset, digest.hexdigest()[:_DIGITS], release_versions, count)


def _commit_samples(
    warehouse: duckdb.DuckDBPyConnection, loaded: Loaded, accepted: str, versions: Committed, *, source: str
) -> None:
    """Add the data set, if it is new."""
    # A version is a hash of the rows, so a known one has them already
    key = {"dataset": loaded.dataset, "version": versions.dataset_version}
    [(is_known,)] = warehouse.execute(_SQL["is_known"], key).fetchall()
    if is_known:
        return
    warehouse.execute(_SQL["add_dataset"], {**key, "n_samples": versions.n_samples, "source": without_secrets(source)})
    samples = {"samples": one_file(loaded.references or accepted)}
    warehouse.execute(_SQL["new_samples"], samples)
    rows = _SQL["samples"]
    if loaded.references:
        rows = _SQL["asked_samples"]
        samples["accepted"] = one_file(accepted)
    warehouse.execute(f"INSERT INTO samples BY NAME {rows}", {**key, **samples})
    warehouse.execute("DROP TABLE new_samples")


def commit_measurements(warehouse: duckdb.DuckDBPyConnection, home: Home, run_id: str, parts: Sequence[str]) -> None:
    """Bring finished parts in, within the caller's transaction."""
    # A part that is gone was brought in by another run on the same rows
    parts = [part for part in parts if home.store.exists(part)]
    if not parts:
        return
    files = {"parts": [one_file(home.store.address(part)) for part in parts]}
    warehouse.execute(_SQL["replace_measurements"], files)
    warehouse.execute(_SQL["add_measurements"], {**files, "run_id": run_id})


def collect_calls(home: Home, parts: Sequence[str], out: Path) -> str | None:
    """Write the calls behind the measurements in `parts` to a Parquet file in the folder `out`, and return its path.

    None if no judge was asked. The warehouse is not locked meanwhile.

    Raises:
        LedgerError: the ledger in `home` cannot be read.
    """
    import pyarrow.parquet as pq

    if not ledger_exists(home.ledger):
        return None
    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        # Every request in the parts. A part that is gone was brought in by another run on the same rows
        connection.execute("CREATE TABLE keys (request_key VARCHAR)")
        for part in parts:
            with suppress(FileNotFoundError), home.store.read(part) as source, pq.ParquetFile(source) as file:
                for group in range(file.num_row_groups):
                    requests = file.read_row_group(group, columns=["requests"])
                    connection.register("requests", requests)
                    connection.execute("INSERT INTO keys SELECT unnest(requests) FROM requests")
                    connection.unregister("requests")
        if not connection.execute("FROM keys LIMIT 1").fetchone():
            return None

        # Their calls, a few at a time
        ledger = open_ledger(home.ledger)
        try:
            keys = connection.execute("SELECT DISTINCT request_key FROM keys")
            pages = iter(lambda: keys.fetchmany(_CALLS), [])
            calls = chain.from_iterable(ledger.calls([key for (key,) in page]) for page in pages)
            return _write_calls(out / "judge_calls.parquet", calls)
        finally:
            ledger.close()


def _write_calls(file: Path, calls: Iterator[tuple[Any, ...]]) -> str:
    """Write calls, as `Ledger.calls` gives them, to a Parquet file with the columns of `judge_calls`; its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "started_at": pa.timestamp("us", tz="UTC"), "attempt": pa.int64(), "tokens_in": pa.int64(),
        "tokens_out": pa.int64(), "seconds": pa.float64(), "cost_usd": pa.float64(),
    }  # fmt: skip
    schema = pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
    started_at = COLUMNS.index("started_at")
    with pq.ParquetWriter(file, schema) as writer:
        while rows := list(islice(calls, _CALLS)):
            columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
            columns[started_at] = [datetime.fromtimestamp(seconds, UTC) for seconds in columns[started_at]]
            writer.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema))
    return str(file)


def insert_calls(warehouse: duckdb.DuckDBPyConnection, file: str) -> None:
    """Bring a file of `collect_calls` in. Calls that are there already stay, but for those that had no end yet."""
    for name in ("replace_calls", "add_calls"):
        warehouse.execute(_SQL[name], {"file": one_file(file)})
