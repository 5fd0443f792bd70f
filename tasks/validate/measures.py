"""What validation measures of staged rows: of each on its own, which any process can do, and of all together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from answerkey.metrics_core.metric import Kind
from answerkey.tasks.load.shard import SourceShard, merge_parts, stage_shard
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import row_bytes, row_groups
from answerkey.tasks.warehouse.warehouse import one_file, session, write_parquet

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_VECTOR_ROWS = 2_048  # that one thread of DuckDB has in work


@dataclass(frozen=True, slots=True)
class MeasuredShard:
    """Rows of a source that are staged and then measured, which spares validation from measuring them."""

    source: SourceShard

    workload: ClassVar[Kind] = "lexical"
    name: ClassVar[str] = "load"

    @property
    def part(self) -> str:
        """The file in the store with the staged rows."""
        return self.source.part

    @property
    def measures(self) -> str:
        """The file in the store with what is measured of them, in the same order."""
        return f"{self.source.part.removesuffix('.parquet')}-measures.parquet"


def measure_shard(shard: MeasuredShard) -> str:
    """Stage and measure the rows of a shard, and return the name of its part; files that are there are kept."""
    home, part = Home.parse(shard.source.home), stage_shard(shard.source)
    if not home.store.exists(shard.measures):
        with (
            home.store.local(part) as staged,
            home.store.atomic_write(shard.measures) as file,
            _session(str(staged), str(file.parent)) as db,
        ):
            write_parquet(db, _SQL["to_keep"], file)
    return part


def merge_measures(shards: Sequence[MeasuredShard], home: Home, out: Path) -> str:
    """Put the measures of all shards into one file in the folder `out`, and remove theirs."""
    file, names = out / "measures.parquet", [shard.measures for shard in shards]
    merge_parts(home, names, file)
    for name in names:
        home.store.remove(name)
    return str(file)


@contextmanager
def measured(staged: str, scratch: str, measures: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session with the tables of `measures.sql`: numbers for each staged row, and for each release.

    `measures` is a file of `merge_measures`; None: the rows were not measured yet.
    """
    with _session(staged, scratch) as db:
        if measures is None:
            db.execute(_SQL["measure"])
        else:
            db.execute(_SQL["take"], {"measures": one_file(measures)})
        db.execute(_SQL["among_rows"])
        yield db


@contextmanager
def _session(staged: str, scratch: str) -> Iterator[duckdb.DuckDBPyConnection]:
    # A row group is read by one thread, and each thread compiles all regular expressions for itself.
    threads = min(4, os.cpu_count() or 1, row_groups(staged))
    # Room for the hash tables, which spill, and for a few copies of the texts in work, which cannot.
    memory = 256 * 2**20 + 8 * threads * _VECTOR_ROWS * row_bytes(staged)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="duckdb-") as spill:
        limits = {
            "memory_limit": f"{memory // 2**20}MiB", "threads": threads, "temp_directory": spill,
            "autoinstall_known_extensions": False,
        }  # fmt: skip
        with session(config=limits) as db:
            db.read_parquet(one_file(staged), file_row_number=True).create_view("staged_file")
            db.execute(_SQL["of_rows"])
            yield db
