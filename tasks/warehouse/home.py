"""Where answerkey keeps everything: the warehouse, the ledger, the pages, the files of runs."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.bucket import PREFIX, BucketStore, bucket_address
from answerkey.tasks.warehouse.lake import CATALOG, Lake, catalog
from answerkey.tasks.warehouse.store import FolderStore
from answerkey.tasks.warehouse.warehouse import WarehouseFile

SCRATCH = "ANSWERKEY_SCRATCH"
"""The variable that names another folder than ~/.cache/answerkey for what a home in a bucket keeps on a machine."""

Warehouse = WarehouseFile | Lake
"""The tables of a home."""
Store = FolderStore | BucketStore
"""The files of a home. Every process of every machine that works with it sees them."""


@dataclass(frozen=True, slots=True)
class Home:
    """A place, and what is kept there. Flows and the command line make it once, from the text that users give.

    It holds no connection and no key, so it can be sent anywhere: each machine brings its own.

    >>> str(Home.parse("evaluations"))
    'evaluations'
    """

    place: Path | str
    """A folder on a disk of this machine; or, as text, the address s3://BUCKET/PREFIX, which machines share."""
    published: bool = False
    """Whether the tables are read from the snapshot, if there is one: as they were when the last run published it."""

    @classmethod
    def parse(cls, place: str | Path) -> Home:
        """The home that users write as the path of a folder or as s3://BUCKET/PREFIX.

        Raises:
            UserError: it is a file, or another address, or in a folder called NAME=VALUE; or it is in a bucket, and
                there is no catalog, or none that can be used.
        """
        if not isinstance(place, str) or "://" not in place:
            if Path(place).is_file():
                raise UserError(f"{place}: this is a file; the home is a folder, in which the warehouse is")
            home = cls(Path(place))
            location = str(Path(place).absolute())
        else:
            if not place.startswith(PREFIX):
                raise UserError(f"{place}: the home must be a folder on a disk of this machine, or s3://BUCKET/PREFIX")
            location = bucket_address(place)
            home = cls(location)

        # DuckDB would read the name of such a folder as a column of the files in it
        for folder in location.split("/"):
            if "=" in folder.strip("="):
                raise UserError(
                    f"{location}: the home cannot be in {folder!r}, a folder called NAME=VALUE; name another with "
                    "--home"
                )
        if home.shared:
            catalog(location)
        return home

    def __str__(self) -> str:
        return str(self.place)

    @property
    def address(self) -> str:
        """The home as a process with another working folder, or on another machine, parses it."""
        return str(self.place.resolve()) if isinstance(self.place, Path) else self.place

    @property
    def shared(self) -> bool:
        """Whether other machines can use it too."""
        return not isinstance(self.place, Path)

    def as_published(self) -> Home:
        """The same home for who only reads and must keep no run waiting."""
        return replace(self, published=True)

    @property
    def warning(self) -> str:
        """What is set in the environment beside this home and has no effect on it, in one line; empty: nothing."""
        if self.shared or not os.environ.get(CATALOG):
            return ""
        return f"{CATALOG} has no effect on the home {self}, which is a folder; a lake is --home s3://BUCKET/PREFIX"

    @property
    def local(self) -> Path:
        """The folder for what is of this machine alone; of a home in a folder, that folder."""
        if isinstance(self.place, Path):
            return self.place
        digest = hashlib.sha256(self.place.encode()).hexdigest()[:16]
        return Path(os.environ.get(SCRATCH) or Path.home() / ".cache" / "answerkey") / digest

    @property
    def warehouse(self) -> Warehouse:
        """The tables."""
        if isinstance(self.place, Path):
            return WarehouseFile(self.place, published=self.published)
        return Lake(self.place, self.local)

    def rows(self, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """The rows of one statement, read in a session of its own."""
        with self.warehouse.reading() as warehouse:
            return warehouse.execute(sql, parameters).fetchall()

    @property
    def store(self) -> Store:
        """The files that outlive a run: pages, registered answers, parts that a later run takes up."""
        return FolderStore(self.place) if isinstance(self.place, Path) else BucketStore(self.place, self.local)

    @property
    def ledger(self) -> str:
        """Where the ledger of the calls to models is kept, as `open_ledger` takes it."""
        if isinstance(self.place, Path):
            return str(self.place)
        database = catalog(self.place)
        if "://" in database:
            database = database.partition(":")[2]
        return f"postgresql:{database}"

    @property
    def embeddings(self) -> str:
        """The folder for the embeddings of earlier runs, which every machine keeps for itself."""
        return str(self.local / "embeddings")

    @property
    def scratch(self) -> Path:
        """The folder of the working files of runs, in a folder for each; of this machine alone."""
        return self.local / "runs"

    def shared_name(self, file: Path) -> str:
        """What a file of a run is called in the store, once other processes are to read it there.

        >>> Home.parse("evaluations").shared_name(Path("evaluations/runs/7/todo.parquet"))
        'runs/7/todo.parquet'
        """
        return f"runs/{file.relative_to(self.scratch).as_posix()}"


def is_work_folder(name: str) -> bool:
    """Whether a folder has the name of one that a run or a command works in; a user of the home may have a `runs` too.

    >>> is_work_folder("0b5e3b0e-8a52-4c0f-9d57-3f1a4a7c1d11"), is_work_folder("experiment-1")
    (True, False)
    """
    return bool(re.fullmatch(r"(tried-)?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}|lake-\d+", name))
