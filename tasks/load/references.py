"""The references of a data set, by the id that joins them to answers."""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import ColumnMap, as_text, clean, context_of, text_at, texts_at, value
from answerkey.tasks.load.rows import Raw, Record
from answerkey.tasks.warehouse.sql import statements


class ReferenceTable:
    """The references of a data set by id, as they are read: in SQLite, since all of them may not fit into memory."""

    def __init__(self, folder: Path) -> None:
        self.file, self._database = folder / "references.parquet", folder / "references.sqlite"
        self.sliced: set[str] = set()
        """The slice columns that have a value in any of them."""
        self._rows = sqlite3.connect(self._database, isolation_level=None)
        self._rows.executescript(statements(__name__)["known"])

    def get(self, sample_id: str) -> Reference | None:
        """The reference of this id."""
        found = self._rows.execute("SELECT content FROM known WHERE id = ?", (sample_id,)).fetchone()
        return Reference(*marshal.loads(found[0])) if found else None

    def add(self, reference: Reference, raw: Raw, source: str) -> bool:
        """Keep the reference of a row; returns whether its id is new.

        Raises:
            UserError: the id is there already, with other content.
        """
        content = marshal.dumps(tuple(reference))
        done = self._rows.execute("INSERT OR IGNORE INTO known VALUES (?, ?)", (reference.sample_id, content))
        if done.rowcount:
            self.sliced.update(path for path, text in reference.slices if text is not None)
            return True
        if self.get(reference.sample_id) != reference:
            place, row = (source, raw.row) if raw.file is None else (raw.file, raw.file_row)
            raise UserError(
                f"{place}: id {reference.sample_id!r} occurs again in row {row} with different content; keep one row "
                "per id"
            )
        return False

    def close(self) -> None:
        """Remove what was only needed to look references up."""
        self._rows.close()
        self._database.unlink(missing_ok=True)


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
