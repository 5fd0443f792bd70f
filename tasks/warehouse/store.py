"""Files that are published atomically by one step and read by another, perhaps in another process."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from answerkey.metrics_core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

UNFINISHED = ".part"
"""The end of the name of a file that is being written. One that a killed process left is removed by `prune`."""


PROCESS = "process"
"""The lock file in a working folder, held by the process that works there so that the folder is not removed."""

_OTHER_HOST_S = 900.0
"""Seconds without use after which another machine counts as gone."""


@contextmanager
def locked(file: Path, mode: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Hold the advisory lock on a file, which is made if it is missing; yields its descriptor. The lock ends with the
    process at the latest.

    Args:
        mode: as `fcntl.flock` takes it.

    Raises:
        BlockingIOError: with `LOCK_NB`, the lock is held, be it by this process.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, mode)
        yield lock
    finally:
        os.close(lock)


def is_held(lock: Path) -> bool | None:
    """Whether a living process of this machine holds the lock on a file; None: there is no such file."""
    # To probe a lock makes its file.
    if not lock.exists():
        return None
    try:
        with locked(lock, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


class Unreachable(Exception):
    """A server that a home needs does not answer, or was lost. The message is one line.

    Nothing is wrong with what was asked for: the same run, started again, goes on where this one ended.
    """


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store: its name, its size in bytes, and when it was written, in seconds since 1970."""

    name: str
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class FolderStore:
    """The files of a home in its folder, by names relative to it: `pages/data/v1.html`."""

    folder: Path

    def address(self, name: str) -> str:
        """Where DuckDB finds a file, and people do."""
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
    def atomic_write(self, name: str) -> Iterator[Path]:
        """Write a file of the store as the function `atomic_write` does."""
        with atomic_write(self.folder / name) as unfinished:
            yield unfinished

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """A file at a path of this machine, to be read while the context is open.

        Raises:
            FileNotFoundError: there is no file of this name.
        """
        if not self.exists(name):
            raise FileNotFoundError(name)
        yield self.folder / name

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it. Nothing happens if it does not exist."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.exists():
            path.unlink(missing_ok=True)
            if path.parent != self.folder:
                # Folders without files are nothing that other stores have.
                with suppress(OSError):
                    path.parent.rmdir()

    def files(self, folder: str) -> Iterator[StoredFile]:
        """All files in a folder and in those in it."""
        for path in sorted((self.folder / folder).rglob("*")):
            # One that another process removes meanwhile is no file of this store any more.
            with suppress(FileNotFoundError):
                if path.is_file():
                    status = path.stat()
                    yield StoredFile(path.relative_to(self.folder).as_posix(), status.st_size, status.st_mtime)


@contextmanager
def parquet_writer(path: str | Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer whose file is published at `path` when it is whole; see `atomic_write`."""
    import pyarrow.parquet as pq

    # A dictionary would be made of every column, for nothing, and would hide from `row_bytes` what a row takes.
    with atomic_write(path) as unfinished, pq.ParquetWriter(unfinished, schema, use_dictionary=False) as writer:
        yield writer


def row_groups(path: str) -> int:
    """Row groups of a Parquet file, at least 1."""
    import pyarrow.parquet as pq

    return max(1, int(pq.read_metadata(path).num_row_groups))


def row_bytes(path: str) -> int:
    """Bytes of a row, at least 1: the mean of that row group of a Parquet file where the mean is largest."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(path)
    groups = (meta.row_group(i) for i in range(meta.num_row_groups))
    return max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0) + 1


def duplicate(source: Path, target: Path) -> None:
    """Copy a file within a folder. File systems that can let both share their blocks: it costs nothing there."""
    with source.open("rb") as old, target.open("wb") as new:
        try:
            while os.copy_file_range(old.fileno(), new.fileno(), 1 << 30):
                pass
        except (AttributeError, OSError):
            pass  # The system, or the file system, knows no such copies.
        # Some file systems do not say so, and copy nothing.
        if os.fstat(new.fileno()).st_size == os.fstat(old.fileno()).st_size:
            return
    shutil.copyfile(source, target)


def mark(file: Path) -> None:
    """Make an empty file that is there after a failure of the power too."""
    file.touch()
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
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


def check_host(lock: int, file: Path) -> None:
    """Write into the open lock file which machine uses the folder; its time is that of the last use.

    A lock on a shared folder does not keep machines apart everywhere, and DuckDB does not at all. What has the host
    name or the boot of the last user is the same machine: containers share the latter, a restart keeps the former.

    Raises:
        UserError: another machine has used the folder just now.
    """
    # Who used the folder last, by host and boot
    host = os.uname().nodename
    boot = _boot()
    last_user = os.pread(lock, 300, 0).decode("utf-8", "replace").split()
    is_this_machine = not last_user or last_user[0] == host or (bool(boot) and boot in last_user[1:])
    if not is_this_machine and time.time() - os.fstat(lock).st_mtime < _OTHER_HOST_S:
        raise UserError(
            f"{file.parent}: the machine {last_user[0]} works with this folder too, which only one can; use a home "
            f"that machines share (s3://BUCKET/PREFIX, see docs/lake.md), or, if {last_user[0]} is done for good, "
            f"remove {file}"
        )

    # This machine is the last user from now on
    if last_user != [host, *filter(None, [boot])]:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{host} {boot}\n".encode(), 0)
    os.utime(lock)


@cache
def _boot() -> str:
    """What this boot of this machine is called; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
