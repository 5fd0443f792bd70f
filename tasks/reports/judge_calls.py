"""Copy from the ledger to the warehouse what judges were asked for the measurements of a run, and what they said.

The ledger serves runs while they work; people query DuckDB alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.llm.ledger import COLUMNS, FILE, Ledger
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file, scratch

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_ROWS = 500
"""Calls in memory at once; the text of a reply can be long."""


def collect_calls(home: Home, parts: Sequence[str], out: Path) -> str | None:
    """Write the calls behind the measurements in `parts` to a Parquet file in the folder `out`, and return its path.

    None where no judge was asked. The warehouse is not touched, so that nobody waits for it meanwhile.

    Raises:
        LedgerError: the ledger in `home` cannot be read.
    """
    if not (home.folder / FILE).exists():
        return None
    out.mkdir(parents=True, exist_ok=True)
    with scratch(out) as connection:
        if not _gather_keys(connection, parts):
            return None
        ledger = Ledger(home.folder)
        try:
            return _write(out / "judge_calls.parquet", _calls(ledger, connection))
        finally:
            ledger.close()


def _gather_keys(connection: duckdb.DuckDBPyConnection, parts: Sequence[str]) -> int:
    """Fill the table `keys` with every request in the parts; return how many there are, repeated ones included."""
    import pyarrow.parquet as pq

    connection.execute("CREATE TABLE keys (request_key VARCHAR)")
    for part in parts:
        # A part that is gone was brought in by another run on the same rows.
        with suppress(FileNotFoundError), pq.ParquetFile(part) as file:
            for group in range(file.num_row_groups):
                requests = file.read_row_group(group, columns=["requests"])
                connection.register("requests", requests)
                connection.execute("INSERT INTO keys SELECT unnest(requests) FROM requests")
                connection.unregister("requests")
    [(count,)] = connection.execute("SELECT count(*) FROM keys").fetchall()
    return int(count)


def _calls(ledger: Ledger, connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    found = connection.execute("SELECT DISTINCT request_key FROM keys")
    while keys := [key for (key,) in found.fetchmany(_ROWS)]:
        yield from ledger.calls(keys)


def _write(file: Path, calls: Iterable[tuple[Any, ...]]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, rest = _schema(), iter(calls)
    place = COLUMNS.index("started_at")
    with pq.ParquetWriter(file, schema) as writer:
        while rows := list(islice(rest, _ROWS)):
            columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
            columns[place] = [datetime.fromtimestamp(seconds, UTC) for seconds in columns[place]]
            writer.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema))
    return str(file)


def _schema() -> pa.Schema:
    import pyarrow as pa

    others = {
        "started_at": pa.timestamp("us", tz="UTC"), "attempt": pa.int64(), "tokens_in": pa.int64(),
        "tokens_out": pa.int64(), "seconds": pa.float64(), "cost_usd": pa.float64(),
    }  # fmt: skip
    return pa.schema([(name, others.get(name, pa.string())) for name in COLUMNS])


def insert_calls(warehouse: duckdb.DuckDBPyConnection, file: str) -> None:
    """Bring a file of `collect_calls` in. Calls that are there already stay, but for those that had no end yet."""
    new = "read_parquet(?)"
    warehouse.execute(
        f"DELETE FROM judge_calls WHERE status = 'sent' AND call_id IN (SELECT call_id FROM {new})", [one_file(file)]
    )
    warehouse.execute(
        f"INSERT INTO judge_calls BY NAME SELECT * FROM {new} ANTI JOIN judge_calls USING (call_id)", [one_file(file)]
    )
