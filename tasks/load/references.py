"""The references of a data set, by the id that joins them to answers."""

from __future__ import annotations

import marshal
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import ColumnMap, as_text, clean, context_of, text_at, texts_at, value
from answerkey.tasks.load.rows import Raw, Record
from answerkey.tasks.load.staged import reference_part_schema, reference_schema
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 5_000
_KEPT = ("sample_id", "content", "sliced", "place", "row", "error")
"""What a `ReferenceTable` looks at in each row."""


class Lookup:
    """The references of a data set by id, in SQLite."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows

    def get(self, sample_id: str) -> Reference | None:
        """The reference of this id."""
        found = self._rows.execute("SELECT content FROM known WHERE id = ?", (sample_id,)).fetchone()
        return Reference(*marshal.loads(found[0])) if found else None


class ReferenceTable(Lookup):
    """The references of a data set as they are read. They are kept on disk: all of them may not fit into memory."""

    def __init__(self, folder: Path) -> None:
        self.file, self._database = folder / "references.parquet", folder / "references.sqlite"
        self.sliced: set[str] = set()
        """The slice columns that have a value in any of them."""
        super().__init__(sqlite3.connect(self._database, isolation_level=None))
        self._rows.executescript(statements(__name__)["known"])

    def take(self, rows: pa.Table) -> pa.Table:
        """Keep references, as `stage_references` gives them; return those that were not there, for `self.file`.

        Raises:
            UserError: an id is there already, with other content; or a row is no reference.
        """
        new = [self._keep(row) for row in rows.select(_KEPT).to_pylist()]
        return rows.filter(new).select(reference_schema().names)

    def _keep(self, row: Mapping[str, Any]) -> bool:
        if row["error"]:
            raise UserError(row["error"])
        done = self._rows.execute("INSERT OR IGNORE INTO known VALUES (?, ?)", (row["sample_id"], row["content"]))
        if done.rowcount:
            self.sliced.update(row["sliced"])
        elif self.get(row["sample_id"]) != Reference(*marshal.loads(row["content"])):
            raise UserError(
                f"{row['place']}: id {row['sample_id']!r} occurs again in row {row['row']} with different content; "
                f"keep one row per id"
            )
        return bool(done.rowcount)

    def copy(self, target: Path) -> None:
        """Copy what has been added to a file, in which `looked_up` finds it."""
        self._rows.execute("COMMIT")
        shutil.copyfile(self._database, target)
        self._rows.execute("BEGIN")

    def close(self) -> None:
        """Remove what was only needed to look references up."""
        self._rows.close()
        self._database.unlink(missing_ok=True)


@contextmanager
def looked_up(file: Path) -> Iterator[Lookup]:
    """The references in a file that `ReferenceTable.copy` wrote; any number of processes may read it."""
    rows = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        yield Lookup(rows)
    finally:
        rows.close()


class Reference(NamedTuple):
    """The part of a sample that does not depend on any release, and the context of answers that bring none."""

    sample_id: str
    question: str | None
    references: tuple[str, ...]
    facts: tuple[str, ...]
    cluster: str | None
    slices: tuple[tuple[str, str | None], ...] = ()
    context: tuple[str, ...] = ()
    incorrect_references: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Raw, columns: ColumnMap, source: str) -> Reference:
        """The reference of one row of a references file.

        Raises:
            UserError: the row cannot be read or has no id.
        """
        try:
            if raw.record is None:
                raise ValueError(raw.error)
            fields = sample_fields(raw.record, columns)
            slices = tuple((path, clean(as_text(value(raw.record, path)))) for path in columns.slices)
        except ValueError as error:
            # A data set with a hole would silently shrink every release; better to stop.
            raise UserError(f"{source}, row {raw.row}: {error}; correct or remove the row") from error
        if not fields["sample_id"]:
            raise UserError(f"{source}, row {raw.row}: the id is missing; give every row an id")
        return cls(**fields, slices=slices)

    @classmethod
    def stored(cls, row: Sequence[Any]) -> Reference:
        """The reference of a row of `samples`: id, question, references, facts, cluster and wrong answers."""
        sample_id, question, references, facts, cluster, wrong = row
        return cls(
            sample_id, question, tuple(references or ()), tuple(facts or ()), cluster, (), (), tuple(wrong or ())
        )

    def staged(self) -> dict[str, Any]:
        """As a row of `references.parquet`."""
        names = ("sample_id", "question", "references", "facts", "cluster", "incorrect_references")
        fields = {name: getattr(self, name) for name in names}
        return {**fields, "sample_hash": self.hash}

    @property
    def hash(self) -> str:
        """`sample_hash`: what the data set version is made of."""
        wrong = [self.incorrect_references] if self.incorrect_references else []
        return content_hash([self.sample_id, self.question, self.references, self.facts, self.cluster, *wrong])


@dataclass(frozen=True, slots=True)
class ReferenceStager:
    """Turns one raw row of a references file into a row that a `ReferenceTable` takes."""

    columns: ColumnMap
    source: str
    """What messages call the file."""

    def stage(self, raw: Raw) -> dict[str, Any]:
        """A row of `reference_part_schema`: the reference, the columns of slices in it, and where it stands.

        Raises:
            UserError: as `Reference.of`.
        """
        reference = Reference.of(raw, self.columns, self.source)
        place, row = (self.source, raw.row) if raw.file is None else (raw.file, raw.file_row)
        sliced = [path for path, text in reference.slices if text is not None]
        content = marshal.dumps(tuple(reference))
        return {**reference.staged(), "content": content, "sliced": sliced, "place": place, "row": row}


def stage_references(rows: Iterator[Raw], stager: ReferenceStager) -> Iterator[pa.Table]:
    """Stage the rows of a references file, in batches. One that is no reference is the last, and says so in `error`."""
    import pyarrow as pa

    while batch := list(islice(rows, _BATCH)):
        staged: list[dict[str, Any]] = []
        error = ""
        for raw in batch:
            try:
                staged.append(stager.stage(raw))
            except UserError as why:
                error = str(why)
                staged.append({"error": error})
                break
        yield pa.Table.from_pylist(staged, schema=reference_part_schema())
        if error:
            return


def sample_fields(record: Record, columns: ColumnMap) -> dict[str, Any]:
    """The fields of `Reference` found in a record.

    Raises:
        ValueError: a column is not a text, or not a list of texts.
    """
    paths = columns.paths
    return {
        "sample_id": clean(text_at(record, paths, "id")),
        "question": clean(text_at(record, paths, "question")),
        "references": texts_at(record, columns, "references"),
        "facts": texts_at(record, columns, "facts"),
        "cluster": clean(text_at(record, paths, "cluster")),
        "context": context_of(record, columns),
        "incorrect_references": texts_at(record, columns, "incorrect_references"),
    }
