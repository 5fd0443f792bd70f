"""Rows, and the readers of files that DuckDB does not read: JSON, Arrow and the archives of Inspect."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.plain import JSON, KeyTwice
from answerkey.tasks.load.remote import first_line

Record = Mapping[str, Any]
"""A row by the names of its columns."""

_ZSTANDARD = 93
"""The number of this compression in zip archives."""


class Raw(NamedTuple):
    """One row as read: its 1-based number in the source, and the record, or why it could not be read.

    A `document` is the object that a whole JSON file consists of; the rows in it depend on its format. Of several
    files, `file` is the one that the row is in, and `file_row` its number there.
    """

    row: int
    record: Record | None
    error: str | None = None
    text: str | None = None
    document: bool = False
    file: str | None = None
    file_row: int | None = None

    def content(self) -> str | None:
        """Return the row as a text, for those who look at a row that cannot be read."""
        return self.text if self.record is None else json.dumps(self.record, ensure_ascii=False, default=str)


def check_names(names: Sequence[str], file: object) -> None:
    """Check that no two columns of a table have one name, whatever its case.

    Raises:
        UserError: two have.
    """
    counts = Counter(map(str.casefold, names))
    if twice := [name for name in dict.fromkeys(names) if counts[name.casefold()] > 1]:
        raise UserError(f"{file}: several columns are called {', '.join(twice)}; rename all but one")


def read_lines(file: Path) -> Iterator[Raw]:
    """The rows of JSON Lines, numbered by their lines from 1."""
    # Undecodable bytes become U+FFFD, which validation finds and quarantines by row.
    with file.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not (text := line.strip()):
                continue
            try:
                record = JSON.decode(text)
                if isinstance(record, dict):
                    yield Raw(number, record)
                    continue
                problem = f" is a JSON {type(record).__name__}, not an object"
            except KeyTwice as error:
                problem = f": {error}"
            except (ValueError, RecursionError) as error:
                problem = f" is not JSON: {error}"
            yield Raw(number, None, f"line {number}{problem}", text)


def item_row(number: int, item: Any) -> Raw:
    """One item of a list in a JSON file, counted from 1."""
    if isinstance(item, dict):
        return Raw(number, item)
    return Raw(number, None, f"item {number} is a JSON {type(item).__name__}, not an object", json.dumps(item))


def read_json(file: Path) -> Iterator[Raw]:
    """The objects of a list in a JSON file, or the one object that it consists of.

    Raises:
        UserError: it is neither, or no JSON, or an object in it has a key twice.
    """
    try:
        content = JSON.decode(file.read_text(encoding="utf-8-sig", errors="replace"))
    except KeyTwice as error:
        raise UserError(f"{file}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: not JSON ({error}); if it has one object per line, name it .jsonl") from error
    if isinstance(content, dict):
        yield Raw(1, content, document=True)
        return
    if not isinstance(content, list):
        raise UserError(f"{file}: expected a list of objects, or an object with one list of them")
    for number, item in enumerate(content, start=1):
        yield item_row(number, item)


def read_arrow(file: Path) -> Iterator[Raw]:
    """The rows of an Arrow file, or of a stream of Arrow data in a file, which `datasets` writes.

    Raises:
        UserError: it is neither, it is cut off, or two columns have one name.
    """
    import pyarrow as pa

    with file.open("rb") as content:
        framed = content.read(6) == b"ARROW1"
    numbers = itertools.count(1)
    try:
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_file(source) if framed else pa.ipc.open_stream(source)
            check_names(reader.schema.names, file)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if framed else reader:
                # Places in a damaged file may lead out of it, and out of the memory of this process.
                batch.validate(full=True)
                yield from (Raw(next(numbers), record) for record in batch.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file}: not an Arrow file, or cut off or damaged ({first_line(error)}); write it again"
        ) from error


def read_archive(file: Path) -> Iterator[Raw]:
    """The log of Inspect in a `.eval` file, a zip file of JSON files, as one document.

    Raises:
        UserError: it is no such archive, or damaged, or an object in it has a key twice.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".json"))
            headers = [name for name in ("header.json", "_journal/start.json") if name in names]
            if not headers:
                raise UserError(f"{file}: there is no Inspect log in it")
            samples = [_decoded(archive, name) for name in names if name.startswith("samples/")]
            log = {**_decoded(archive, headers[0]), "samples": samples}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise UserError(f"{file}: not an Inspect archive, or damaged ({error})") from error
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    yield Raw(1, log, document=True)


def _decoded(archive: zipfile.ZipFile, name: str) -> Any:
    entry = archive.getinfo(name)
    if entry.compress_type != _ZSTANDARD:
        content = archive.read(entry)
    else:
        import pyarrow as pa

        # The standard library learns this compression with Python 3.14 only. The header of an entry has 30 bytes and
        # names.
        file = archive.fp
        assert file is not None
        file.seek(entry.header_offset)
        head = file.read(30)
        file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), io.SEEK_CUR)
        with pa.input_stream(io.BytesIO(file.read(entry.compress_size)), compression="zstd") as stream:
            content = stream.read()
    try:
        return JSON.decode(content.decode("utf-8-sig"))
    except KeyTwice as error:
        raise ValueError(f"{name}: {error}") from error
