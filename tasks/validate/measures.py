"""What validation measures of staged rows: of each on its own, and of all together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from answerkey.tasks.validate.contract import Rule
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import row_bytes, row_groups
from answerkey.tasks.warehouse.warehouse import one_file, session

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_SQL = statements(__name__)
_VECTOR_ROWS = 2_048  # that one thread of DuckDB has in work
_FLAGGED_ROWS = 1_000_000  # of a data frame with the flags of all rules


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


def flags_of(db: duckdb.DuckDBPyConnection, table: str, rules: Sequence[Rule]) -> tuple[str, Iterator[pd.DataFrame]]:
    """Return the flags of a table of `measures.sql`: a column a rule, 1 in the rows that break it and 0 elsewhere.

    Args:
        table: with a column `position`, from 0 without a gap, and those that the rules are about.

    Returns:
        A fingerprint of the flags that are 1, equal for tables of which the same rows break the same rules; and the
        flags in order, some rows at a time, whose index is the position.
    """
    flags = ", ".join(f"({rule.column} > {rule.limit})::TINYINT AS {rule.name}" for rule in rules)
    db.execute(f"CREATE OR REPLACE TEMP VIEW {table}_flags AS SELECT position, {flags} FROM {table}")
    broken = f"FROM {table}_flags WHERE greatest(*COLUMNS(* EXCLUDE position)) > 0"
    [fingerprint] = db.execute(f"SELECT count(*), sum(hash(*COLUMNS(*))::HUGEINT) {broken}").fetchall()
    [(n_rows,)] = db.execute(f"SELECT count(*) FROM {table}").fetchall()

    def frames() -> Iterator[pd.DataFrame]:
        for first in range(0, max(n_rows, 1), _FLAGGED_ROWS):
            window = {"first": first, "end": first + _FLAGGED_ROWS}
            where = "position >= $first AND position < $end"
            frame = db.execute(f"FROM {table}_flags WHERE {where} ORDER BY position", window).df()
            # An index with a name would make Great Expectations name each row by a mapping
            yield frame.set_index("position").rename_axis(None)

    return str(fingerprint), frames()
