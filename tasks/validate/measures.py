"""What validation measures of staged rows: of each on its own, and of all together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import row_bytes, row_groups
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_VECTOR_ROWS = 2_048  # that one thread of DuckDB has in work


@contextmanager
def measured(staged: str, scratch: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session with the tables of `measures.sql`: numbers for each staged row, and for each release."""
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
            for statement in ("of_rows", "measure", "among_rows"):
                db.execute(_SQL[statement])
            yield db
