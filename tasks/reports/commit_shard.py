"""The commit of a large run in shards: any process writes rows of samples and answers, which the lake then adopts.

That process also hashes these rows, and those of finished parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from answerkey.metrics_core.metric import Kind
from answerkey.tasks.warehouse.content import checksums_of_files
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch, write_parquet

if TYPE_CHECKING:
    import duckdb

ROWS = statements(__name__)
"""The statements for the rows of samples and answers, each of a range of rows of a file."""
EVERY_ROW = {"first": 0, "end": 2**62}

TABLES = ("samples", "answers", "measurements")


@dataclass(frozen=True, slots=True)
class CommitShard:
    """One of `of` ranges of the samples and answers of a run, numbered from 0, and as many of its finished parts.

    The rows become two files in the store, `samples` and `answers`. `hashed` is another one, with the `Checksum` of
    both and of the measurements in `parts` as JSON, by table and by part of it. `releases` are pairs (name, version).

    It is sent to other processes and machines, which find the files `accepted`, and `references` where they are apart,
    in the store of the home at the address `home`.
    """

    home: str
    accepted: str
    references: str
    dataset: str
    dataset_version: str
    releases: tuple[tuple[str, str], ...]
    share: int
    of: int
    parts: tuple[str, ...]
    run_id: str
    created_at: str
    samples: str
    answers: str
    hashed: str

    workload: ClassVar[Kind] = "lexical"
    name: ClassVar[str] = "commit"

    @property
    def part(self) -> str:
        """The file that is there once all are."""
        return self.hashed

    @property
    def of_measurements(self) -> Mapping[str, str]:
        """The columns of `measurements` that parts lack."""
        return {"run_id": self.run_id, "created_at": self.created_at}


def write_commit(shard: CommitShard) -> str:
    """Write and hash the rows of a shard, and return the name of its part; one that is there already is kept."""
    home = Home.parse(shard.home)
    if home.store.exists(shard.part):
        return shard.part
    with ExitStack() as opened:
        accepted = opened.enter_context(home.store.local(shard.accepted))
        files = {"accepted": one_file(accepted)}
        references = opened.enter_context(home.store.local(shard.references)) if shard.references else None
        # The rows are published first, so that sums that exist always have them.
        hashed = opened.enter_context(home.store.atomic_write(shard.hashed))
        answers = opened.enter_context(home.store.atomic_write(shard.answers))
        samples = opened.enter_context(home.store.atomic_write(shard.samples))
        connection = opened.enter_context(scratch(samples.parent))
        about = {"dataset": shard.dataset, "version": shard.dataset_version}
        given = {"samples": one_file(references or accepted), **_range(shard, references or accepted)}
        connection.execute(ROWS["new_samples"], given)
        asked = {**about, **given, **(files if references else {})}
        write_parquet(connection, ROWS["asked_samples" if references else "samples"], samples, asked)
        releases, versions = ([*column] for column in zip(*shard.releases, strict=True))
        new = {"dataset": shard.dataset, "releases": releases, "versions": versions}
        rows_of = {**files, **_range(shard, accepted)}
        write_parquet(connection, f"{ROWS['new_answers']}\n{ROWS['answers']}", answers, {**new, **rows_of})
        parts = [one_file(opened.enter_context(home.store.local(part))) for part in shard.parts]
        rows = {"samples": [one_file(samples)], "answers": [one_file(answers)], "measurements": parts}
        hashed.write_text(json.dumps(_hashed(connection, rows, shard.of_measurements)))
    return shard.part


def _range(shard: CommitShard, file: Path) -> dict[str, int]:
    """The rows of a file that belong to a shard."""
    import pyarrow.parquet as pq

    n_rows = pq.read_metadata(file).num_rows
    return {"first": n_rows * shard.share // shard.of, "end": n_rows * (shard.share + 1) // shard.of}


def _hashed(
    connection: duckdb.DuckDBPyConnection, rows: Mapping[str, Sequence[str]], of_measurements: Mapping[str, str]
) -> dict[str, dict[str, tuple[int, int, int]]]:
    found = {}
    for table, files in rows.items():
        others = of_measurements if table == "measurements" else {}
        sums = checksums_of_files(connection, table, files, others) if files else {}
        found[table] = {part: astuple(of_part) for part, of_part in sums.items()}
    return found
