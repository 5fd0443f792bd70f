"""Files that exist whole or not at all: what one step publishes and another, perhaps in another process, reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

UNFINISHED = ".part"
"""The end of the name of a file that is being written. One that a killed process left is removed by `prune`."""


@dataclass(frozen=True, slots=True)
class Store:
    """The files of a home, by names relative to it: `pages/data/v1.html`."""

    folder: Path

    def address(self, name: str) -> str:
        """Where DuckDB finds a file."""
        return str(self.folder / name)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.folder / name).is_file()

    def read(self, name: str) -> BinaryIO:
        """The open file.

        Raises:
            FileNotFoundError: there is no file of this name.
        """
        return (self.folder / name).open("rb")

    @contextmanager
    def whole(self, name: str) -> Iterator[Path]:
        """As the function `whole`, for a file of the store."""
        with whole(self.folder / name) as unfinished:
            yield unfinished

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it. Nothing happens if it does not exist."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def parquet_writer(path: str | Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer whose file is published at `path` when it is whole; see `whole`."""
    import pyarrow.parquet as pq

    with whole(path) as unfinished, pq.ParquetWriter(unfinished, schema) as writer:
        yield writer


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Write a file at the path that is yielded; at the end it is published at `path` in one step.

    After an error there is no trace of it, and an earlier file at `path` is as it was. Several processes may write
    the same file at once: each writes a file of its own, and the last one to finish wins.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
