"""The references of a data set, by the id that joins them to answers.

Ids are joined as people spell them: `1`, `001`, `1.0` and ` 1 ` are one id, unless one file has two of these.
"""

from __future__ import annotations

import marshal
import re
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import ColumnMap, as_text, clean, lists_of, texts_of, value
from answerkey.tasks.load.plain import Record
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.warehouse.sql import statements

_BLANKS = "\ufeff\u200b"
"""What cannot be seen around an id, besides white space."""


def plain_id(text: str) -> str:
    """Return an id without blanks around it; a whole number without leading zeros and decimals.

    >>> plain_id(" 007 "), plain_id("7.0"), plain_id("q-1\\r\\n"), plain_id("1.10")
    ('7', '7', 'q-1', '1.10')
    """
    text = unicodedata.normalize("NFC", text).strip().strip(_BLANKS).strip()
    number = re.fullmatch(r"0*([0-9]+)(?:\.0+)?", text)
    return number[1] if number else text


def by_plain_id(ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of a file by their plain spelling."""
    spellings = defaultdict(set)
    for spelling in ids:
        spellings[plain_id(spelling)].add(spelling)
    return dict(spellings)


def respelled(ids: Mapping[str, set[str]], known_ids: Mapping[str, set[str]]) -> dict[str, str]:
    """Return which known id is meant by each id that is none, but is spelled like one.

    An id is left out if two ids of one of the sides are spelled alike: nobody could tell which is meant.

    Args:
        ids: by their plain spelling, as `by_plain_id` has them.
        known_ids: the same of the other file.

    >>> respelled(by_plain_id(["1", "2", "3", "03"]), by_plain_id(["1.0", "2", "3.0"]))
    {'1': '1.0'}
    """
    matches = {}
    for plain, spellings in ids.items():
        known_spellings = known_ids.get(plain, set())
        if len(spellings) == 1 and len(known_spellings) == 1 and spellings != known_spellings:
            matches[next(iter(spellings))] = next(iter(known_spellings))
    return matches


class ReferenceTable:
    """The references of a data set by id, also where the answers spell an id differently.

    They are in SQLite, since all of them may not fit into memory.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "references.parquet"
        self.sliced: set[str] = set()
        """The slice columns that have a value in any of them."""
        self.answer_ids: Callable[[], Iterable[tuple[str | None, str]]] = tuple
        """Yields the file and the id of each answer; called once, if an id is in no reference as it stands."""
        self._database = folder / "references.sqlite"
        self._rows = sqlite3.connect(self._database, isolation_level=None)
        self._rows.executescript(statements(__name__)["known"])
        # Ids by their plain spelling, and the id that is meant by another spelling in a file of answers
        self._known_ids: dict[str, set[str]] = {}
        self._meant: dict[str | None, dict[str, str]] | None = None
        # What there is to say of the join
        self._n_exact = 0
        self._n_other_questions = 0
        self._other_question = ""
        self._joined: dict[str, str] = {}
        self._unjoined: dict[str, None] = {}

    def add(self, reference: Reference, raw: Raw, source: str) -> bool:
        """Keep the reference of a row; returns whether its id is new.

        Raises:
            UserError: the id is there already, with other content.
        """
        content = marshal.dumps(tuple(reference))
        inserted = self._rows.execute("INSERT OR IGNORE INTO known VALUES (?, ?)", (reference.sample_id, content))
        if inserted.rowcount:
            self.sliced.update(path for path, text in reference.slices if text is not None)
            return True
        if self._get(reference.sample_id) != reference:
            file, row = (source, raw.row) if raw.file is None else (raw.file, raw.file_row)
            raise UserError(
                f"{file}: id {reference.sample_id!r} occurs again in row {row} with different content; keep one row "
                "per id"
            )
        return False

    def _get(self, sample_id: str | None) -> Reference | None:
        row = self._rows.execute("SELECT content FROM known WHERE id = ?", (sample_id,)).fetchone()
        return Reference(*marshal.loads(row[0])) if row else None

    def find(self, sample_id: str | None, file: str | None, question: str | None) -> Reference | None:
        """Return the reference of an id of one of the files of answers, which may have the question as well."""
        if sample_id is None:
            return None
        reference = self._get(sample_id)
        self._n_exact += reference is not None
        if reference is None:
            if self._meant is None:
                # The ids of all answers, since one that two of them are spelled like joins neither
                ids_by_file = defaultdict[str | None, set[str]](set)
                for name, answer_id in self.answer_ids():
                    ids_by_file[name].add(answer_id)
                self._known_ids = by_plain_id(known for (known,) in self._rows.execute("SELECT id FROM known"))
                self._meant = {name: respelled(by_plain_id(ids), self._known_ids) for name, ids in ids_by_file.items()}
            spelling = self._meant.get(file, {}).get(sample_id)
            reference = self._get(spelling)
            if spelling is None:
                self._unjoined[sample_id] = None
            else:
                self._joined[sample_id] = spelling
        known = (reference and reference.question) or ""
        if question and question != known:
            # One of two questions may have the other within it, as a prompt has
            letters, known_letters = (re.sub(r"\W+", "", text).casefold() for text in (question, known))
            if letters not in known_letters and known_letters not in letters:
                self._n_other_questions += 1
                self._other_question = (
                    self._other_question or f"{sample_id!r} is {question[:60]!r}, and there {known[:60]!r}"
                )
        return reference

    def close(self) -> None:
        """Remove what was only needed to look references up."""
        self._rows.close()
        self._database.unlink(missing_ok=True)

    def notes(self, answers: str, references: str) -> list[str]:
        """Say which ids were joined though they are spelled otherwise, and which were not."""
        notes = []
        for spelling, reference_id in [*self._joined.items()][:1]:
            n_ids = f"{len(self._joined):,} ids are"
            notes.append(f"{n_ids} spelled otherwise in {references}, and joined: {spelling!r} is {reference_id!r}")
        similar = [name for name in self._unjoined if plain_id(name) in self._known_ids]
        if similar:
            known_ids = ", ".join(map(repr, sorted(self._known_ids[plain_id(similar[0])])))
            notes.append(
                f"id {similar[0]!r} is not joined with {known_ids} of {references}, since one of the files has several "
                "ids that are spelled like it; spell each id in one way"
            )
        elif self._unjoined and not self._joined and not self._n_exact:
            unjoined = next(iter(self._unjoined))
            known_id = min(self._known_ids, default="")
            notes.append(
                f"none of its ids is in {references}: {unjoined!r} for instance, and there {known_id!r}; name the "
                "column that both files have with --map id= and --map-references id="
            )
        if self._other_question:
            notes.append(
                f"{self._n_other_questions:,} answers have another question than {references} has under their id, so "
                f"that ids may be mixed up: {self._other_question}"
            )
        return [f"{answers}: {note}" for note in notes]


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

    @staticmethod
    def of(raw: Raw, columns: ColumnMap, source: str) -> Reference:
        """The reference of one row of a references file.

        Raises:
            UserError: the row cannot be read or has no id.
        """
        try:
            if raw.record is None:
                raise ValueError(raw.error)
            [reference] = references_of([raw.record], columns)
        except ValueError as error:
            # A data set with a hole would silently shrink every release; better to stop.
            raise UserError(f"{source}, row {raw.row}: {error}; correct or remove the row") from error
        if not reference.sample_id:
            raise UserError(f"{source}, row {raw.row}: the id is missing; give every row an id")
        return reference

    @classmethod
    def stored(cls, row: Sequence[Any]) -> Reference:
        """The reference of a row of `samples`: id, question, references, facts, cluster and wrong answers."""
        sample_id, question, references, facts, cluster, incorrect = row
        return cls(
            sample_id, question, tuple(references or ()), tuple(facts or ()), cluster, (), (), tuple(incorrect or ())
        )

    @property
    def hash(self) -> str:
        """`sample_hash`: what the data set version is made of."""
        incorrect = [self.incorrect_references] if self.incorrect_references else []
        return content_hash([self.sample_id, self.question, self.references, self.facts, self.cluster, *incorrect])


def references_of(records: Sequence[Record], columns: ColumnMap) -> list[Reference]:
    """The reference in each record.

    Raises:
        ValueError: a column is not a text, or not a list of texts.
    """
    paths = columns.paths
    fields = {
        "sample_id": texts_of(records, paths, "id"),
        "question": texts_of(records, paths, "question"),
        "references": lists_of(records, columns, "references"),
        "facts": lists_of(records, columns, "facts"),
        "cluster": texts_of(records, paths, "cluster"),
        "slices": [tuple((path, _slice_text(record, path)) for path in columns.slices) for record in records],
        "context": lists_of(records, columns, "context"),
        "incorrect_references": lists_of(records, columns, "incorrect_references"),
    }
    return list(map(Reference._make, zip(*fields.values(), strict=True)))


def _slice_text(record: Record, path: str) -> str | None:
    try:
        return clean(as_text(value(record, path)))
    except ValueError as error:
        raise ValueError(f"slice ({path}) {error}") from error
