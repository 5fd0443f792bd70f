"""The files of a home in a bucket: S3, or what speaks its protocol, through pyarrow.

Address and keys of the server come from the variables that all clients of S3 read: AWS_ENDPOINT_URL, AWS_REGION,
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. They are looked up where they are used, and are in nothing
that is written or sent.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.store import StoredFile, Unreachable

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

PREFIX = "s3://"
# No character that DuckDB's readers, a URL or SQL take for something else.
_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_=+.-]+)+")
_ATTEMPTS = 8
"""Of a request, further and further apart: about 50 seconds until a server counts as gone."""


def bucket_address(text: str) -> str:
    """An address of the form s3://BUCKET/PREFIX, without a slash at its end.

    >>> bucket_address("s3://team/evaluations/")
    's3://team/evaluations'

    Raises:
        UserError: it is written in another way.
    """
    address = text.rstrip("/")
    if not _ADDRESS.fullmatch(address) or "/../" in f"{address}/" or "/./" in f"{address}/":
        raise UserError(f"{text}: write the home as s3://BUCKET/PREFIX, of letters, digits and any of . _ - = +")
    return address


@dataclass(frozen=True, slots=True)
class BucketStore:
    """The files below an address, by names relative to it. `folder`, on this machine, takes copies meanwhile."""

    root: str
    folder: Path

    def address(self, name: str) -> str:
        """Where DuckDB finds a file."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        from pyarrow.fs import FileType

        with self._reached():
            return bool(self._files.get_file_info(self._key(name)).type == FileType.File)

    def read(self, name: str) -> BinaryIO:
        """The open file.

        Raises:
            FileNotFoundError: there is no file of this name.
        """
        with self._reached():
            return cast(BinaryIO, self._files.open_input_file(self._key(name)))

    @contextmanager
    def atomic_write(self, name: str) -> Iterator[Path]:
        """Write a file at the local path that is yielded; at the end it is published under its name in one step."""
        from pyarrow.fs import LocalFileSystem, copy_files

        with self._copy() as folder:
            # Not a stream to the bucket: one that is left by an error publishes what was written so far.
            unfinished = folder / PurePosixPath(name).name
            yield unfinished
            with self._reached():
                copy_files(
                    str(unfinished), self._key(name), source_filesystem=LocalFileSystem(),
                    destination_filesystem=self._files,
                )  # fmt: skip

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """The file at a path of this machine: a copy, which is there as long as the context is open.

        Raises:
            FileNotFoundError: there is no file of this name.
        """
        with self._copy() as folder:
            copy = folder / PurePosixPath(name).name
            with self._reached(), self.read(name) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            yield copy

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="copy-") as folder:
            yield Path(folder)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it. Nothing happens if it does not exist."""
        from pyarrow.fs import FileType

        with self._reached():
            kind = self._files.get_file_info(self._key(name)).type
            if kind == FileType.File:
                self._files.delete_file(self._key(name))
            elif kind == FileType.Directory:
                self._files.delete_dir(self._key(name))

    def files(self, folder: str) -> Iterator[StoredFile]:
        """All files in a folder and those in it."""
        from pyarrow.fs import FileSelector, FileType

        with self._reached():
            listed = self._files.get_file_info(FileSelector(self._key(folder), allow_not_found=True, recursive=True))
        skip = len(self._key(""))
        for entry in listed:
            if entry.type == FileType.File:
                yield StoredFile(entry.path[skip:], entry.size, entry.mtime.timestamp())

    def _key(self, name: str) -> str:
        return f"{self.root.removeprefix(PREFIX)}/{name}"

    @property
    def _files(self) -> S3FileSystem:
        return _file_system(os.getpid(), **s3_settings())

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreachable(f"{self.root}: {str(error).splitlines()[0]}") from error


def s3_settings() -> Mapping[str, str]:
    """Endpoint, region and keys as the environment has them; empty where it has none.

    Raises:
        UserError: there are no keys.
    """
    names = {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "key_id": ("AWS_ACCESS_KEY_ID",),
        "secret": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN",),
    }
    # The first of the variables that is set
    settings = {}
    for setting, variables in names.items():
        settings[setting] = next(filter(None, map(os.environ.get, variables)), "")
    if not settings["key_id"] or not settings["secret"]:
        raise UserError("a home in a bucket needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return {**settings, "region": settings["region"] or "us-east-1"}


@cache
def _file_system(
    _process: int, endpoint: str, region: str, key_id: str, secret: str, session_token: str
) -> S3FileSystem:
    """One for each process and its settings: a copy that came with a fork has threads that are not there."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        access_key=key_id,
        secret_key=secret,
        session_token=session_token or None,
        endpoint_override=endpoint or None,
        region=region,
        connect_timeout=10,
        request_timeout=60,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
