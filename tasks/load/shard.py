"""Split a large source into ranges of rows, which any process can stage, without Prefect.

The staged rows are those that `load` makes of the same source, row for row.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Kind
from answerkey.tasks.load.formats.registry import Reading, opened
from answerkey.tasks.load.load import (
    REJECTS,
    STAGED,
    Loaded,
    Source,
    Stager,
    dataset_name,
    load_references,
    recognised,
    reference_stager,
    stage_rows,
    stager_of,
)
from answerkey.tasks.load.plain import CSV, JSON_LINES, PARQUET, kind_of
from answerkey.tasks.load.references import ReferenceStager, ReferenceTable, looked_up, stage_references
from answerkey.tasks.load.remote import S3, URL, first_line, object_size
from answerkey.tasks.load.rows import Raw, read_lines
from answerkey.tasks.load.sources import Contents, among_others, are_texts, files_of, local
from answerkey.tasks.load.staged import reference_part_schema, reference_schema
from answerkey.tasks.load.tables import parsed_csv, read_parquet
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import parquet_writer
from answerkey.tasks.warehouse.warehouse import one_file, scratch, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

LARGE_BYTES = 32 * 2**20
"""A source with less is loaded where the run is: to start other processes would take longer."""
SHARD_BYTES = 4 * 2**20
"""Fewest bytes of the rows of a shard."""

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows of a file of a source, as a file of their own in the store: `name`.

    They come after `before` lines or rows of the same file, and after `before_file` rows of other files.
    `file` is what the source calls the file, if there are others. Rows of a CSV that cannot be read, whose numbers are
    `skipping`, are not in it but in a last file of their own, which is `rejected`.
    """

    name: str
    before: int
    before_file: int
    file: str | None
    skipping: tuple[int, ...] = ()
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class SourceShard:
    """Rows of a source, and the names of the two files in the store for the staged and the refused ones.

    Rows of a references file become one file, since a row that cannot be read ends the run. The shard is sent to other
    processes and machines, which find the files in the store of the home at the address `home`.
    """

    home: str
    rows: RowRange
    reading: Reading
    stager: Stager | ReferenceStager
    part: str
    rejects: str = ""
    known: str = ""
    """The file in the store with the references; empty where they are beside the answers."""

    workload: ClassVar[Kind] = "lexical"
    name: ClassVar[str] = "load"


@dataclass(frozen=True, slots=True)
class Cut:
    """A source that was cut into shards: its answers, or its references before them."""

    shards: tuple[SourceShard, ...]
    notes: tuple[str, ...]
    contents: Mapping[str, Contents]
    dataset: str = ""
    references: str | None = None
    """The Parquet file with the references, where they are in a file of their own."""


def shard_bytes(given: str, most: int) -> int:
    """Bytes of a shard if answers or references are cut into `most` shards at the most; 0 where they stay in one piece.

    They are cut where they are large, of JSON Lines, CSV or Parquet, in files or in S3.
    """
    files = files_of(given) or [given]
    if are_texts(files):
        return 0
    readable = all(not URL.match(one) or (S3.match(one) and os.environ.get("AWS_ACCESS_KEY_ID")) for one in files)
    if not readable:
        return 0
    # Each file becomes a shard at least.
    if len(files) > most or not all(kind_of(file) in (*JSON_LINES, *CSV, *PARQUET) for file in files):
        return 0
    try:
        sizes = [object_size(file) if URL.match(file) else Path(file).stat().st_size for file in files]
    except OSError:
        # It is said where the source is read.
        return 0
    # What is wrong with an empty file is said where it is read.
    return max(SHARD_BYTES, sum(sizes) // most) if all(sizes) and sum(sizes) >= LARGE_BYTES else 0


def split_references(source: Source, home: Home, out: Path, size: int) -> Cut:
    """Cut the references of a source into shards, before its answers.

    Raises:
        UserError: as `load`.
    """
    assert source.references is not None
    out.mkdir(parents=True, exist_ok=True)
    notes, contents = list[str](), {"references": Contents()}
    ranges = list(_ranges(source.references, source.encoding, home, out / "references", contents["references"], size))
    every = itertools.chain.from_iterable(_rows(home, rows) for rows in ranges)
    _, reading, stager = reference_stager(source, every, notes)
    parts = (home.shared_name(out / "references" / f"{number}.parquet") for number in itertools.count())
    shards = (SourceShard(home.address, rows, reading, stager, part) for rows, part in zip(ranges, parts, strict=False))
    return Cut(tuple(shards), tuple(notes), contents)


def gather_references(cut: Cut, home: Home, out: Path) -> ReferenceTable:
    """Put the references of all shards together, and remove the files of the shards.

    Raises:
        UserError: as `load`.
    """
    known = ReferenceTable(out)
    with parquet_writer(known.file, reference_schema()) as writer:
        for rows in _row_groups(home, [shard.part for shard in cut.shards]):
            writer.write_table(known.take(rows))
    for shard in cut.shards:
        for name in (shard.rows.name, shard.part):
            home.store.remove(name)
    return known


def cut(source: Source, home: Home, out: Path, size: int, cut_before: Cut | None = None) -> Cut:
    """Cut a source into shards of about `size` bytes, and put their rows into the store.

    `out` is a folder of this run alone, in the scratch folder of the home. References that were `cut_before` are there
    already; others are read here.

    Raises:
        UserError: as `load`.
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset, contents, notes = dataset_name(source), {"answers": Contents()}, list[str]()
    # In the order of `load`.
    references = cut_before.contents["references"] if cut_before else Contents()
    if cut_before:
        notes += cut_before.notes
        known: ReferenceTable | None = gather_references(cut_before, home, out)
    else:
        known = load_references(source, out, references, notes)
    ranges = list(_ranges(source.answers, source.encoding, home, out, contents["answers"], size))

    def again() -> Iterator[Raw]:
        return itertools.chain.from_iterable(_rows(home, rows) for rows in ranges)

    found = opened(again(), source.answers, source.chosen, source.wide)
    reading = found.reading
    stager = stager_of(source, found, notes, known, again)
    shared = ""
    if known:
        contents["references"] = references
        shared = home.shared_name(out / "known.sqlite")
        with home.store.atomic_write(shared) as target:
            known.copy(target)
        known.close()
    if reading.convert:
        notes.insert(0, recognised(source, reading.format))
    shards = []
    for number, rows in enumerate(ranges):
        staged, rejects = (home.shared_name(out / f"{number}-{name}") for name in (STAGED, REJECTS))
        shards.append(SourceShard(home.address, rows, reading, replace(stager, known=None), staged, rejects, shared))
    notes += [*references.notes(), *contents["answers"].notes()]
    return Cut(tuple(shards), tuple(notes), contents, dataset, str(known.file) if known else None)


def stage_shard(shard: SourceShard) -> str:
    """Stage the rows of a shard, and return the name of its part; one that is there already is kept."""
    home = Home.parse(shard.home)
    if isinstance(shard.stager, ReferenceStager):
        _stage_references(home, shard, shard.stager)
    elif not home.store.exists(shard.part):
        # The refused rows are published first, so that a part that exists always has them.
        with (
            home.store.atomic_write(shard.part) as staged,
            home.store.atomic_write(shard.rejects) as rejects,
            ExitStack() as opened,
        ):
            stager = shard.stager
            if shard.known:
                file = opened.enter_context(home.store.local(shard.known))
                stager = replace(stager, known=opened.enter_context(looked_up(file)))
            stage_rows(shard.reading.rows(_rows(home, shard.rows)), stager, staged, rejects)
    return shard.part


def _stage_references(home: Home, shard: SourceShard, stager: ReferenceStager) -> None:
    if home.store.exists(shard.part):
        return
    rows = shard.reading.rows(_rows(home, shard.rows))
    with home.store.atomic_write(shard.part) as target, parquet_writer(target, reference_part_schema()) as writer:
        for batch in stage_references(rows, stager):
            writer.write_table(batch)


def gather(cut: Cut, home: Home, out: Path) -> Loaded:
    """Put the staged rows of all shards into the two files that `load` writes, and remove the files of the shards."""
    staged, rejects = out / STAGED, out / REJECTS
    n_rows = merge_parts(home, [shard.part for shard in cut.shards], staged)
    n_rows += merge_parts(home, [shard.rejects for shard in cut.shards], rejects)
    for shard in cut.shards:
        for name in (shard.rows.name, shard.part, shard.rejects):
            home.store.remove(name)
    if cut.references:
        home.store.remove(cut.shards[0].known)
    contents = {of: held.about() for of, held in cut.contents.items()}
    return Loaded(cut.dataset, str(staged), str(rejects), cut.references, n_rows, cut.notes, contents)


def merge_parts(home: Home, names: Sequence[str], target: Path) -> int:
    """Put Parquet files of the store, which have one schema, into one file; return the number of rows."""
    import pyarrow.parquet as pq

    n_rows = 0
    with home.store.read(names[0]) as first:
        schema = pq.read_schema(first)
    with parquet_writer(target, schema) as writer:
        for rows in _row_groups(home, names):
            n_rows += rows.num_rows
            writer.write_table(rows)
    return n_rows


def _row_groups(home: Home, names: Iterable[str]) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    for name in names:
        with home.store.read(name) as source, pq.ParquetFile(source) as part:
            yield from map(part.read_row_group, range(part.num_row_groups))


def _rows(home: Home, rows: RowRange) -> Iterator[Raw]:
    with home.store.local(rows.name) as file:
        if _is_lines(file):
            read = read_lines(file, rows.before)
        elif rows.rejected:
            read = _rejected_rows(file)
        else:
            read = read_parquet(file, file.parent, rows.before, frozenset(rows.skipping))
        yield from read if rows.file is None else among_others(read, rows.file, rows.before_file)


def _is_lines(file: Path) -> bool:
    return file.suffix.lower() in JSON_LINES


@dataclass(frozen=True, slots=True)
class _Range:
    """Rows of one file: what writes them to a path, how many are before them, and the number of the last of them."""

    before: int
    last: int
    write: Callable[[Path], object]
    skipping: tuple[int, ...] = ()
    rejected: bool = False


def _ranges(given: str, encoding: str, home: Home, out: Path, contents: Contents, size: int) -> Iterator[RowRange]:
    """Cut the files of answers or references into ranges of rows, each a file in the store."""
    files, last, number = files_of(given), 0, itertools.count()
    for file in files or [given]:
        before_file = last
        with local(file, out, contents, encoding) as here:
            lines, table = _is_lines(here), here.suffix.lower() in CSV
            cut_up = _line_ranges(here, size) if lines else (_csv_ranges if table else _parquet_ranges)(here, size, out)
            for one in cut_up:
                last = max(last, before_file + one.last)
                name = home.shared_name(out / f"{next(number)}-rows{'.parquet' if table else here.suffix.lower()}")
                with home.store.atomic_write(name) as target:
                    one.write(target)
                yield RowRange(name, one.before, before_file, file if files else None, one.skipping, one.rejected)


def _line_ranges(file: Path, size: int) -> Iterator[_Range]:
    before = last = 0
    with file.open("rb") as lines:
        while content := lines.read(size) + lines.readline():
            n = content.count(b"\n") + (not content.endswith(b"\n"))
            # A line without anything is no row.
            last = max(last, before + n - _blank_at_end(content))
            yield _Range(before, last, partial(_write_bytes, content))
            before += n


def _write_bytes(content: bytes, target: Path) -> None:
    target.write_bytes(content)


def _blank_at_end(content: bytes) -> int:
    r"""How many of the last lines are blank.

    >>> _blank_at_end(b"{}\n\n \n"), _blank_at_end(b"\n\n"), _blank_at_end(b"{}")
    (2, 2, 0)
    """
    n, end = 0, len(content) - content.endswith(b"\n")
    while end >= 0:
        start = content.rfind(b"\n", 0, end) + 1
        if content[start:end].decode(errors="replace").strip():
            break
        n, end = n + 1, start - 1
    return n


def _csv_ranges(file: Path, size: int, work: Path) -> Iterator[_Range]:
    """Ranges of the rows of a CSV, as Parquet: where one begins cannot be seen without reading all before it."""
    with parsed_csv(file, work) as (connection, rejected):
        [(n_rows,)] = connection.execute("SELECT count(*) FROM parsed").fetchall()
        none = [raw.row for raw in rejected]
        # Each row that is none makes the numbers of those behind it greater.
        numbers = itertools.filterfalse(set(none).__contains__, itertools.count(1))
        step = max(n_rows * size // file.stat().st_size, 1)
        for batch in connection.execute("SELECT * FROM parsed").to_arrow_reader(step):
            of_batch = list(itertools.islice(numbers, batch.num_rows))
            first, last = of_batch[0], of_batch[-1]
            skipping = tuple(number for number in none if first < number < last)
            yield _Range(first - 1, last, partial(_write_batch, batch), skipping)
        if rejected:
            yield _Range(0, max(none), partial(_write_rejected, rejected), rejected=True)


def _write_batch(batch: pa.RecordBatch, target: Path) -> None:
    with parquet_writer(target, batch.schema) as writer:
        writer.write_batch(batch)


def _write_rejected(rejected: Sequence[Raw], target: Path) -> None:
    import pyarrow as pa

    schema = pa.schema([("row", pa.int64()), ("error", pa.string()), ("text", pa.string())])
    rows = [{"row": raw.row, "error": raw.error, "text": raw.text} for raw in rejected]
    with parquet_writer(target, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _rejected_rows(file: Path) -> Iterator[Raw]:
    import pyarrow.parquet as pq

    for one in pq.read_table(file).to_pylist():
        yield Raw(one["row"], None, one["error"], one["text"])


def _parquet_ranges(file: Path, size: int, work: Path) -> Iterator[_Range]:
    """Ranges of the rows of a Parquet file. Only the row groups that a range needs are read for it."""
    import duckdb

    source = {"file": one_file(file)}
    with scratch(work) as connection:
        try:
            [(n_rows,)] = connection.execute(_SQL["n_rows"], source).fetchall()
            [(has_file_row_number,)] = connection.execute(_SQL["has_file_row_number"], source).fetchall()
            if has_file_row_number:
                # DuckDB cannot number the rows of a file that has a column of this name.
                yield _Range(0, n_rows, partial(write_parquet, connection, _SQL["all_rows"], parameters=source))
                return
            step = max(n_rows * size // file.stat().st_size, 1)
            for first in range(0, n_rows, step):
                end = min(first + step, n_rows)
                about = {**source, "first": first, "end": end}
                yield _Range(first, end, partial(write_parquet, connection, _SQL["rows"], parameters=about))
        except duckdb.Error as error:
            raise UserError(f"{file}: {first_line(error)}") from error
