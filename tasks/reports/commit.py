"""Commit what a run loaded and measured to the warehouse, each in one short transaction."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.llm.ledger import COLUMNS, ledger_exists, open_ledger
from answerkey.tasks.load.remote import kept_parameters, without_secrets
from answerkey.tasks.reports.commit_shard import EVERY_ROW, ROWS, TABLES, CommitShard
from answerkey.tasks.warehouse.content import (
    Checksum,
    has_checksum,
    refresh_checksums,
    store_checksums,
    write_checksums,
)
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import duplicate
from answerkey.tasks.warehouse.warehouse import one_file, scratch

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

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
_SHARD_ROWS = 100_000
_MOST_SHARDS = 16
_FILES = ("samples.parquet", "answers.parquet", "hashed.json")


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
        about = {"run_id": run_id, "flow": flow, "dataset": dataset}
        about["parameters"] = json.dumps(kept_parameters(parameters), ensure_ascii=False)
        # A run that is started again keeps its row: see `write_checksums`.
        for name in ("start_again", "start_run"):
            warehouse.execute(_SQL[name], about)
        write_checksums(warehouse, {"runs": [run_id]})


def finish_run(home: Home, run_id: str, status: str, message: str | None = None) -> None:
    """Close a run as `complete` or `stopped`, and let readers see what it has made."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["finish_run"], {"run_id": run_id, "status": status, "message": message})
        write_checksums(warehouse, {"runs": [run_id]})
    publish(home)


def publish(home: Home) -> None:
    """Let programs that keep the tables open see what was committed; without room for it, they see what was before."""
    try:
        home.warehouse.publish()
    except OSError as error:
        # What was committed is safe.
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
        for table in ("quarantine", "validations"):
            warehouse.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        about = {"run_id": run_id, "dataset": loaded.dataset, "source": called(source)}
        warehouse.execute(_SQL["add_quarantine"], {**about, "file": one_file(validation.quarantine)})
        # All at once: each statement on a lake asks its catalog.
        names = ("rule", "severity", "release", "success", "n_checked", "n_failed", "message")
        checks = {name: [getattr(check, name) for check in validation.checks] for name in names}
        warehouse.execute(_SQL["add_validations"], {"run_id": run_id, "dataset": loaded.dataset, **checks})
        write_checksums(warehouse, {"quarantine": [run_id], "validations": [run_id]})


@dataclass(frozen=True, slots=True)
class SplitCommit:
    """The shards of a commit, with `inputs`, the files in the store that they are made from."""

    versions: Committed
    shards: tuple[CommitShard, ...]
    inputs: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """What there is in the store of it, once it is written."""
        return [*self.inputs, *(file for one in self.shards for file in (one.samples, one.answers, one.hashed))]


def split_commit(
    home: Home, run_id: str, loaded: Loaded, accepted: str, parts: Sequence[str], out: Path
) -> SplitCommit | None:
    """Split the commit of a run into shards; None where inserting the rows is better.

    `out` is a folder of this run alone, in the scratch folder of the home. A run that was killed and begins again may
    find files of its own there, which were hashed with another time in them, so names are new ones.
    """
    import pyarrow.parquet as pq

    n_rows, least = pq.read_metadata(accepted).num_rows, home.warehouse.adopts_from
    if least is None or n_rows < least:
        return None
    name = out / f"commit-{uuid.uuid4().hex}"
    inputs = []
    for number, file in enumerate(filter(None, [accepted, loaded.references])):
        inputs.append(home.shared_name(Path(f"{name}-{number}.parquet")))
        with home.store.atomic_write(inputs[-1]) as copy:
            duplicate(Path(file), copy)
    with scratch(out) as connection:
        versions = _versions(connection, loaded, accepted)
    releases = tuple((one.release, one.answers_version) for one in versions.releases)
    of, shards, now = min(_MOST_SHARDS, max(1, n_rows // _SHARD_ROWS)), list[CommitShard](), str(datetime.now(UTC))
    for share in range(of):
        samples, answers, hashed = (home.shared_name(Path(f"{name}-{share}-{what}")) for what in _FILES)
        shards.append(
            CommitShard(
                home.address, inputs[0], inputs[1] if loaded.references else "", loaded.dataset,
                versions.dataset_version, releases, share, of, tuple(parts[share::of]), run_id, now, samples, answers,
                hashed,
            )
        )  # fmt: skip
    return SplitCommit(versions, tuple(shards), tuple(inputs))


def commit(
    home: Home,
    run_id: str,
    source: str,
    loaded: Loaded,
    accepted: str,
    parts: Sequence[str],
    cut: SplitCommit | None = None,
) -> Committed:
    """Commit the data set, the answers, the finished parts and the calls to judges behind them.

    Afterwards the parts are dropped. Everything is keyed by content, so committing twice changes nothing.

    Args:
        cut: what `split_commit` made of this run, once each of its shards is written; None: rows are inserted here.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    calls = collect_calls(home, parts, home.scratch / run_id)
    made = _Made.of(home, cut) if cut else None
    with home.warehouse.writing(taken_in=[*parts, *(cut.files if cut else ())]) as warehouse:
        versions = cut.versions if cut else _versions(warehouse, loaded, accepted)
        new = _commit_samples(warehouse, home, loaded, accepted, source, versions, made)
        new |= _commit_answers(warehouse, home, accepted, versions, made)
        if made:
            store_checksums(warehouse, {table: made.sums[table] for table in new if table in made.sums})
        write_checksums(warehouse, {table: named for table, named in new.items() if not made or table not in made.sums})
        commit_measurements(warehouse, home, run_id, parts, made)
        if calls:
            insert_calls(warehouse, calls)
    return versions


def _versions(connection: duckdb.DuckDBPyConnection, loaded: Loaded, accepted: str) -> Committed:
    """With a references file the data set is that file, answered or not. Otherwise it is what was answered."""
    samples = {"samples": one_file(loaded.references or accepted)}
    connection.execute(ROWS["new_samples"], {**samples, **EVERY_ROW})
    # Hashed as they come, in order: a text of all of them would have to fit into memory.
    digest, count = md5(usedforsecurity=False), 0
    for batch in connection.execute(_SQL["sample_hashes"], samples).to_arrow_reader(_HASHES):
        digest.update("".join(batch.column(0).to_pylist()).encode())
        count += batch.num_rows
    connection.execute("DROP TABLE new_samples")
    answers = {"accepted": one_file(accepted)}
    releases = connection.execute(_SQL["releases"], {**answers, "staged": one_file(loaded.staged)}).fetchall()
    digests = {release: md5(usedforsecurity=False) for release, *_ in releases}
    hashes = connection.execute(f"{ROWS['new_answers']}\n{_SQL['answer_hashes']}", {**answers, **EVERY_ROW})
    for batch in hashes.to_arrow_reader(_HASHES):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for release, of_release in groupby(rows, key=itemgetter(0)):
            digests[release].update("".join(text for _, text in of_release).encode())
    versions = {release: found.hexdigest()[:_DIGITS] for release, found in digests.items()}
    of_releases = tuple(ReleaseVersion(release, versions[release], *counts) for release, *counts in releases)
    return Committed(loaded.dataset, digest.hexdigest()[:_DIGITS], of_releases, count)


@dataclass(frozen=True, slots=True)
class _Made:
    """The rows of a commit that others have written, and what they have hashed: sums by table and by part of it."""

    samples: list[str]
    answers: list[str]
    parts: Collection[str]
    of_measurements: Mapping[str, str]
    sums: Mapping[str, Mapping[str, Checksum]]

    @classmethod
    def of(cls, home: Home, cut: SplitCommit) -> _Made:
        """What the shards of a commit have become."""
        whole: dict[str, dict[str, Checksum]] = {table: {} for table in TABLES}
        for shard in cut.shards:
            with home.store.read(shard.hashed) as file:
                found = json.loads(file.read())
            for table, of_table in whole.items():
                for part, sums in found[table].items():
                    of_table[part] = of_table.get(part, Checksum()) + Checksum(*sums)
        samples, answers = ([getattr(shard, name) for shard in cut.shards] for name in ("samples", "answers"))
        parts = {part for shard in cut.shards for part in shard.parts}
        return cls(samples, answers, parts, cut.shards[0].of_measurements, whole)


def _commit_samples(
    warehouse: duckdb.DuckDBPyConnection,
    home: Home,
    loaded: Loaded,
    accepted: str,
    source: str,
    versions: Committed,
    made: _Made | None,
) -> dict[str, list[str]]:
    """Add the data set, if it is new; returns the parts of tables that have new rows."""
    key = {"dataset": loaded.dataset, "version": versions.dataset_version}
    [(known,)] = warehouse.execute(_SQL["is_known"], key).fetchall()
    if known:
        return {}
    warehouse.execute(_SQL["add_dataset"], {**key, "n_samples": versions.n_samples, "source": without_secrets(source)})
    if made:
        home.warehouse.adopt(warehouse, "samples", made.samples, {})
    else:
        samples = {"samples": one_file(loaded.references or accepted), **EVERY_ROW}
        warehouse.execute(ROWS["new_samples"], samples)
        asked = {"accepted": one_file(accepted)} if loaded.references else {}
        rows = ROWS["asked_samples" if loaded.references else "samples"]
        warehouse.execute(f"INSERT INTO samples BY NAME {rows}", {**key, **samples, **asked})
        warehouse.execute("DROP TABLE new_samples")
    part = [f"{loaded.dataset}/{versions.dataset_version}"]
    return {"datasets": part, "samples": part}


def _commit_answers(
    warehouse: duckdb.DuckDBPyConnection,
    home: Home,
    accepted: str,
    run: Committed,
    made: _Made | None,
) -> dict[str, list[str]]:
    """Add the answers, in place of equal ones; returns the parts of tables that have new rows."""
    named = [one.release for one in run.releases], [one.answers_version for one in run.releases]
    new = {"dataset": run.dataset, "releases": named[0], "versions": named[1]}
    warehouse.execute(_SQL["forget_answers"], new)
    if made:
        home.warehouse.adopt(warehouse, "answers", made.answers, {})
    else:
        rows = f"{ROWS['new_answers']}\n{ROWS['answers']}"
        warehouse.execute(f"INSERT INTO answers BY NAME {rows}", {**new, "accepted": one_file(accepted), **EVERY_ROW})
    return {"answers": [f"{run.dataset}/{release}/{version}" for release, version in zip(*named, strict=True)]}


def commit_measurements(
    warehouse: duckdb.DuckDBPyConnection, home: Home, run_id: str, parts: Sequence[str], made: _Made | None = None
) -> None:
    """Bring finished parts in, within the caller's transaction."""
    # A part that is gone was brought in by another run on the same rows.
    there = [part for part in parts if home.store.exists(part)]
    if not there:
        return
    files = {"parts": [one_file(home.store.address(part)) for part in there]}
    # Usually nothing is, and then the parts, which may lie far away, are not read again.
    [(n_known,)] = warehouse.execute(_SQL["n_known"], files).fetchall()
    if n_known:
        [(replaced,)] = warehouse.execute(_SQL["replace_measurements"], files).fetchall()
        if replaced:
            refresh_checksums(warehouse, "measurements")
            [(n_known,)] = warehouse.execute(_SQL["n_known"], files).fetchall()
    if n_known == 0 and _large(warehouse, home, files, made):
        # Another part of the run may be there already, and has its share in the hash.
        hashed = (
            made if made and made.parts == set(there) and not has_checksum(warehouse, "measurements", run_id) else None
        )
        others = hashed.of_measurements if hashed else {"run_id": run_id, "created_at": str(datetime.now(UTC))}
        home.warehouse.adopt(warehouse, "measurements", there, others)
        if hashed:
            store_checksums(warehouse, {"measurements": hashed.sums["measurements"]})
            return
    else:
        warehouse.execute(_SQL["add_measurements"], {**files, "run_id": run_id})
    write_checksums(warehouse, {"measurements": [run_id]})


def _large(warehouse: duckdb.DuckDBPyConnection, home: Home, files: Mapping[str, Any], made: _Made | None) -> bool:
    """Whether parts are large enough to be adopted as they are."""
    least = home.warehouse.adopts_from
    if made or least is None:
        return made is not None
    [(n_rows,)] = warehouse.execute(_SQL["n_measured"], files).fetchall()
    return bool(n_rows >= least)


def collect_calls(home: Home, parts: Sequence[str], out: Path) -> str | None:
    """Write the calls behind the measurements in `parts` to a Parquet file in the folder `out`, and return its path.

    None if no judge was asked. The warehouse is not locked meanwhile.

    Raises:
        LedgerError: the ledger in `home` cannot be read.
    """
    if not ledger_exists(home.ledger):
        return None
    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        if not _gather_keys(connection, home, parts):
            return None
        ledger = open_ledger(home.ledger)
        try:
            keys = connection.execute("SELECT DISTINCT request_key FROM keys")
            pages = iter(lambda: keys.fetchmany(_CALLS), [])
            calls = (call for page in pages for call in ledger.calls([key for (key,) in page]))
            return write_calls(out / "judge_calls.parquet", calls)
        finally:
            ledger.close()


def _gather_keys(connection: duckdb.DuckDBPyConnection, home: Home, parts: Sequence[str]) -> int:
    """Fill the table `keys` with every request in the parts; return how many there are, repeated ones included."""
    import pyarrow.parquet as pq

    connection.execute("CREATE TABLE keys (request_key VARCHAR)")
    for part in parts:
        # A part that is gone was brought in by another run on the same rows.
        with suppress(FileNotFoundError), home.store.read(part) as source, pq.ParquetFile(source) as file:
            for group in range(file.num_row_groups):
                requests = file.read_row_group(group, columns=["requests"])
                connection.register("requests", requests)
                connection.execute("INSERT INTO keys SELECT unnest(requests) FROM requests")
                connection.unregister("requests")
    [(count,)] = connection.execute("SELECT count(*) FROM keys").fetchall()
    return int(count)


def write_calls(file: Path, calls: Iterable[tuple[Any, ...]]) -> str:
    """Write calls, as `Ledger.calls` gives them, to a Parquet file with the columns of `judge_calls`; its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, rest = _calls_schema(), iter(calls)
    place = COLUMNS.index("started_at")
    with pq.ParquetWriter(file, schema) as writer:
        while rows := list(islice(rest, _CALLS)):
            columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
            columns[place] = [datetime.fromtimestamp(seconds, UTC) for seconds in columns[place]]
            writer.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema))
    return str(file)


def _calls_schema() -> pa.Schema:
    import pyarrow as pa

    others = {
        "started_at": pa.timestamp("us", tz="UTC"), "attempt": pa.int64(), "tokens_in": pa.int64(),
        "tokens_out": pa.int64(), "seconds": pa.float64(), "cost_usd": pa.float64(),
    }  # fmt: skip
    return pa.schema([(name, others.get(name, pa.string())) for name in COLUMNS])


def insert_calls(warehouse: duckdb.DuckDBPyConnection, file: str) -> None:
    """Bring a file of `collect_calls` in. Calls that are there already stay, but for those that had no end yet."""
    for name in ("replace_calls", "add_calls"):
        warehouse.execute(_SQL[name], {"file": one_file(file)})
    runs = warehouse.execute("SELECT DISTINCT run FROM read_parquet(?)", [one_file(file)]).fetchall()
    write_checksums(warehouse, {"judge_calls": [run for (run,) in runs]})
