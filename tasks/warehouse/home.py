"""Where answerkey keeps everything: the warehouse, the ledger, the pages, the files of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.warehouse.store import Store
from answerkey.tasks.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Home:
    """A place, and what is kept there. Flows and the command line make it once, from the text that users give.

    >>> str(Home.parse("evaluations"))
    'evaluations'
    """

    folder: Path
    """Always on a disk of this machine."""

    @classmethod
    def parse(cls, place: str | Path) -> Home:
        """The home at the path `place`.

        Raises:
            UserError: it is an address, not a path.
        """
        if isinstance(place, str) and "://" in place:
            raise UserError(f"{place}: the home must be a folder on a disk of this machine")
        return cls(Path(place))

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def address(self) -> str:
        """The home as a process with another working folder, or on another machine, parses it."""
        return str(self.folder.resolve())

    @property
    def warehouse(self) -> Warehouse:
        """The tables."""
        return Warehouse(self.folder)

    @property
    def store(self) -> Store:
        """The files that outlive a run: pages, registered answers, parts that a later run takes up."""
        return Store(self.folder)

    @property
    def ledger(self) -> str:
        """Where the ledger of the calls to models is kept."""
        return str(self.folder)

    @property
    def embeddings(self) -> str:
        """The folder for the embeddings of earlier runs, which every machine keeps for itself."""
        return str(self.folder / "embeddings")

    @property
    def scratch(self) -> Path:
        """The folder of the working files of runs, in a folder for each."""
        return self.folder / "runs"

    def shared_name(self, file: Path) -> str:
        """What a file of a run is called in the store, once other processes are to read it there.

        >>> Home.parse("evaluations").shared_name(Path("evaluations/runs/7/todo.parquet"))
        'runs/7/todo.parquet'
        """
        return f"runs/{file.relative_to(self.scratch).as_posix()}"
