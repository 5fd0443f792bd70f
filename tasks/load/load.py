"""Load answers, and their references, into one staged Parquet file with the same columns for every source."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError, listed
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.progress import Advance, tell
from answerkey.metrics_core.sample import content_hash, sample_key
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.columns import (
    ColumnMap,
    as_text,
    clean,
    columns_in,
    complete,
    complete_made,
    notes_on,
    release_name,
    repeat_of,
    suggested,
    text_at,
    value,
    with_other_columns,
)
from answerkey.tasks.load.formats.format import Format, Record
from answerkey.tasks.load.formats.registry import AS_IT_STANDS, PLAIN, Reading, Seen, read_as
from answerkey.tasks.load.references import (
    Known,
    Reference,
    ReferenceStager,
    ReferenceTable,
    sample_fields,
    stage_references,
)
from answerkey.tasks.load.remote import URL
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import Contents, called, quick_to_look_into, read, several, stem
from answerkey.tasks.load.staged import quarantine_schema, reference_schema, refused, staged_schema
from answerkey.tasks.warehouse.store import parquet_writer

LOOK_AHEAD = 100
"""Rows from which columns are recognised: the first row alone may lack some."""

STAGED, REJECTS = "staged.parquet", "rejects.parquet"
"""The files with the rows that could be read, and with those that could not, in the folder of a run."""

_BATCH = 5_000
_TAKEN = (".", "..", "index.html", "_data-docs")
"""What no data set may be called: its pages have a folder of its name."""
_SHAPES = 1_000
"""Sets of columns that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """What to load. `release` names the release where no column does."""

    answers: str
    references: str | None = None
    dataset: str = ""
    release: str = ""
    paths: Mapping[Key, str] = field(default_factory=dict)
    reference_paths: Mapping[Key, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()
    encoding: str = ""
    """Of files of text; empty: it is found out."""
    format: str = ""
    """Of the answers: the name of one of `FORMATS`; empty: as they are recognised."""
    needs_references: bool = True
    """Whether a source without references is refused."""

    def __post_init__(self) -> None:
        """Raise UserError if `release` is not written as it will be called."""
        try:
            name = release_name(self.release)
        except ValueError as error:
            raise UserError(f"--release: {error}") from error
        if name and name != self.release:
            raise UserError(f"--release {self.release!r}: write {name!r}, composed and without blanks around it")

    @property
    def chosen(self) -> str:
        """The format, where it need not be recognised: who says in which columns answers are has said it too."""
        return self.format or (PLAIN.name if {"answer", "references"} & self.paths.keys() else "")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Staged files, and notes for the user on how they were made."""

    dataset: str
    staged: str
    rejects: str
    references: str | None
    n_rows: int
    notes: tuple[str, ...]
    contents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of the answers, and the references where they are apart: what was in their files, as `Contents.about` says."""


def dataset_name(source: Source) -> str:
    """The given name, or the stem of the file that holds the references, with hyphens for what ids cannot hold.

    Raises:
        UserError: the name has characters that report ids cannot hold.
    """
    given = source.references or source.answers
    if not source.dataset and len(several(given)) > 1:
        raise UserError(f"{_name(given)}: name the data set of several files with --dataset")
    # What a file is called may hold blanks, which report ids cannot.
    name = source.dataset or re.sub(r"[^\w.-]+", "-", stem(given)).strip("-") or "data"
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(f"--dataset {name!r}: use letters, digits, dots, dashes and underscores")
    if name in _TAKEN:
        raise UserError(f"--dataset {name!r}: a page or a folder of the site has this name; choose another one")
    return name


def load(source: Source, out: Path) -> Loaded:
    """Read a source into `out`/staged.parquet; rows that cannot be read go to `out`/rejects.parquet.

    Raises:
        UserError: a source is missing or not readable, or a needed column is in none of the rows.
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset = dataset_name(source)
    notes: list[str] = []
    answers, references = Contents(), Contents()
    known = load_references(source, out, references, notes)
    reading, raws = read_as(read(source.answers, out, answers, source.encoding), source.answers, source.chosen)
    seen = Seen() if reading.convert else None
    rows = reading.rows(raws, seen)
    head = first_rows(rows, source.answers, reading.format)
    again = partial(read, source.answers, out / "again", encoding=source.encoding)
    stager = stager_of(source, head, notes, known, reading, lambda: reading.rows(again()))
    staged, rejects = out / STAGED, out / REJECTS
    n_rows = stage_rows(itertools.chain(head, rows), stager, staged, rejects)
    if seen is not None:
        notes.insert(0, recognised(source, reading.format, seen))
    notes += [*references.notes(), *answers.notes()]
    contents = {"answers": answers.about()}
    if known:
        known.close()
        contents["references"] = references.about()
    joined = str(known.file) if known else None
    return Loaded(dataset, str(staged), str(rejects), joined, n_rows, tuple(notes), contents)


def check_columns(source: Source, work: Path) -> None:
    """Find out before anything is loaded whether needed columns are there, as far as that is quick to see.

    That is so for files on this machine whose first rows can be read without the others.

    Raises:
        UserError: as `load`.
    """
    given = [source.answers, *filter(None, [source.references])]
    if not all(map(quick_to_look_into, given)):
        return
    known = load_references(source, work, Contents(), [], LOOK_AHEAD) if source.references else None
    try:
        reading, raws = read_as(read(source.answers, work, encoding=source.encoding), source.answers, source.chosen)
        head = first_rows(reading.rows(raws), source.answers, reading.format)
        # A slice may be in any of the references.
        asked = replace(source, slices=()) if known else source
        again = partial(read, source.answers, work, encoding=source.encoding)
        stager_of(asked, head, [], known, reading, lambda: reading.rows(again()))
    finally:
        if known:
            known.close()


def recognised(source: Source, format: Format, seen: Seen | None = None) -> str:
    """The line that says what the file was taken for."""
    what = f"{_name(source.answers)}: recognised as {format.title}"
    if seen is None:
        return what
    n = len(seen.releases)
    releases = (
        f" ({n:,} {format.releases if n > 1 else format.releases[:-1]}: releases)" if format.releases and n else ""
    )
    return f"{what}{releases}, {seen.n_rows:,} answers"


def stager_of(
    source: Source,
    head: Sequence[Raw],
    notes: list[str],
    known: ReferenceTable | None = None,
    reading: Reading = AS_IT_STANDS,
    rows: Callable[[], Iterator[Raw]] = lambda: iter(()),
) -> Stager:
    """What turns the rows of a source, of which `head` are the first ones, into staged rows; adds to the `notes`.

    `rows` gives all rows again, for columns that are missing in the first ones.

    Raises:
        UserError: a needed column is in none of the rows.
    """
    try:
        columns = _columns_of(source, records_of(head), known, reading)
    except UserError:
        later = (raw.record for raw in rows() if raw.record is not None)
        records = with_other_columns(later, {*source.paths.values(), *source.slices})
        columns = _columns_of(source, [*records_of(head), *records], known, reading)
    notes += [f"{_name(source.answers)}: {note}" for note in notes_on(columns, records_of(head), "--map")]
    default_release = "" if source.release else _default_release(source, columns, notes)
    if "id" not in columns.paths:
        notes.append(f"{_name(source.answers)}: no id column; a hash of question and references serves as the id")
    return Stager(columns, source.release, known, default_release, own_columns=not reading.convert)


def _columns_of(
    source: Source, records: Sequence[Mapping[str, Any]], known: ReferenceTable | None, reading: Reading
) -> ColumnMap:
    fill_in = complete_made if reading.convert else complete
    columns = fill_in(source.paths, source.slices, records, called(source.answers), known.sliced if known else ())
    _require(columns, records, source, known is not None, reading.format)
    return columns


def first_rows(rows: Iterator[Raw], source: str, format: Format = PLAIN) -> list[Raw]:
    """The rows from which the columns of a source are recognised.

    Raises:
        UserError: there is no row, or none that can be read.
    """
    head = list(itertools.islice(rows, LOOK_AHEAD))
    if not head and format is not PLAIN:
        raise UserError(f"{called(source)}: {format.title}, in which is no answer beside what was expected")
    if not head:
        raise UserError(f"{called(source)}: no rows; it needs at least one")
    if not records_of(head):
        raise UserError(f"{called(source)}: none of the first {len(head)} rows can be read: {head[0].error}")
    return head


def records_of(rows: Iterable[Raw]) -> list[Mapping[str, Any]]:
    """The records of the rows that can be read."""
    return [raw.record for raw in rows if raw.record is not None]


def _name(source: str) -> str:
    # What follows the question mark of a URL may be a key.
    without_keys = (one.split("?", 1)[0] if URL.match(one) else one for one in several(source))
    return listed([one.rstrip("/").rsplit("/", 1)[-1] for one in without_keys])


_WITHOUT: Mapping[Key, str] = {
    "answer": "answers: it goes with --references beside a file of answers, or to `answerkey generate`",
    "references": "right answers: give those with --references FILE",
    "id": "ids or questions, which tell answers apart",
}


def _require(columns: ColumnMap, records: Sequence[Record], source: Source, joined: bool, format: Format) -> None:
    if format is not PLAIN and not (source.release or "release" in columns.paths):
        raise UserError(
            f"{_name(source.answers)}: it is not said which release answered ({format.title}); name it with --release"
        )
    needed: tuple[Key, ...] = ("answer", "references") if source.needs_references and not joined else ("answer",)
    if not joined and columns.paths.keys().isdisjoint(("id", "question", "references")):
        needed = (*needed, "id")
    for key in needed:
        if key not in columns.paths:
            if format is not PLAIN:
                raise UserError(f"{_name(source.answers)}: {format.title} without {_WITHOUT[key]}")
            names, best = suggested(key, records, list(columns.paths.values()))
            raise UserError(
                f"{called(source.answers)}: no column for {key} was recognised among {names}; "
                f"name it with --map {key}={best}" + (" or give --references FILE" if key == "references" else "")
            )
    if joined and "id" not in columns.paths:
        raise UserError(
            f"{called(source.answers)}: --references are joined by id; name the column with --map id=COLUMN; the "
            f"columns are {', '.join(dict.fromkeys(name for record in records for name in record))}"
        )


def _default_release(source: Source, columns: ColumnMap, notes: list[str]) -> str:
    if "release" in columns.paths:
        return ""
    if len(several(source.answers)) > 1:
        raise UserError(
            f"{_name(source.answers)}: no column says which release answered; name it with --release, or evaluate the "
            "files of each release on their own"
        )
    try:
        name = release_name(stem(source.answers))
    except ValueError as error:
        raise UserError(f"{_name(source.answers)}: {error}, or name it with --release") from error
    notes.append(f"no release column and no --release: the release is called {name!r} after the file")
    return name


def load_references(
    source: Source, out: Path, contents: Contents, notes: list[str], most: int | None = None
) -> ReferenceTable | None:
    """The references in a file of their own, at most so many; None where they are beside the answers."""
    if source.references is None:
        return None
    rows, _, stager = reference_stager(source, read(source.references, out, contents, source.encoding), notes)
    known = ReferenceTable(out)
    with parquet_writer(known.file, reference_schema()) as writer:
        for batch in stage_references(itertools.islice(rows, most), stager):
            writer.write_table(known.take(batch))
    return known


def reference_stager(
    source: Source, raws: Iterator[Raw], notes: list[str]
) -> tuple[Iterator[Raw], Reading, ReferenceStager]:
    """The rows of a references file as they are read, how they are, and what stages them; adds to the `notes`.

    Raises:
        UserError: as `load`.
    """
    assert source.references is not None
    name = called(source.references)
    reading, raws = read_as(raws, source.references)
    rows = reading.rows(raws)
    head = first_rows(rows, source.references)
    fill_in = complete_made if reading.convert else complete
    columns = fill_in(source.reference_paths, (), records_of(head), name)
    columns = replace(columns, slices=source.slices)
    needed: tuple[Key, ...] = ("id", "references") if source.needs_references else ("id",)
    for key in needed:
        if key not in columns.paths:
            names, best = suggested(key, records_of(head), list(columns.paths.values()))
            raise UserError(f"{name}: no column for {key} among {names}; name it with --map-references {key}={best}")
    said = notes_on(columns, records_of(head), "--map-references")
    notes += [f"{_name(source.references)}: {note}" for note in said]
    return itertools.chain(head, rows), reading, ReferenceStager(columns, name)


def stage_rows(rows: Iterator[Raw], stager: Stager, staged: Path, rejects: Path) -> int:
    """Write rows to two Parquet files, as staged or as refused; return how many there were of both."""
    import pyarrow as pa

    n_rows = 0
    with parquet_writer(rejects, quarantine_schema()) as bad, parquet_writer(staged, staged_schema()) as good:
        while batch := list(itertools.islice(rows, _BATCH)):
            n_rows += len(batch)
            tell(Advance("load rows", n_rows))
            taken, rejected = [], []
            for raw in batch:
                try:
                    taken.append(stager.stage(raw))
                except ValueError as error:
                    rejected.append(refused(raw, str(error)))
            good.write_table(pa.Table.from_pylist(taken, schema=staged_schema()))
            if rejected:
                bad.write_table(pa.Table.from_pylist(rejected, schema=quarantine_schema()))
    return n_rows


@dataclass(frozen=True, slots=True)
class Stager:
    """Turns one raw row into one staged row."""

    columns: ColumnMap
    release: str
    known: Known | None
    default_release: str = ""
    """Of rows that name none."""
    own_columns: bool = True
    """Whether a record may have other columns than those before it; the rows that a format makes have not."""
    _shapes: dict[tuple[str, ...], ColumnMap] = field(default_factory=dict, compare=False, repr=False)
    """The columns of records, by the names in them."""

    def stage(self, raw: Raw) -> dict[str, Any]:
        """The staged row.

        Raises:
            ValueError: the row has no record, or a column of it is not a text.
        """
        if raw.record is None:
            raise ValueError(raw.error)
        columns = self._columns_in(raw.record)
        record, paths = raw.record, columns.paths
        own = Reference(**sample_fields(record, columns))
        reference = self._joined(own)
        if not reference.sample_id and "id" not in paths:
            reference = own._replace(sample_id=content_hash([own.question, own.references]))
        # A references file may hold references only; what was asked then stands beside the answer.
        question = own.question if reference.question is None else reference.question
        answer, release = clean(text_at(record, paths, "answer")), clean(text_at(record, paths, "release"))
        release = None if release is None else release_name(release)
        missing = clean(text_at(record, paths, "missing_because")) if is_blank(answer) else None
        missing = None if is_blank(missing) else missing
        context = own.context or reference.context
        wrong = reference.incorrect_references
        key = sample_key(question, answer, reference.references, reference.facts, context, wrong)
        return {
            "row": raw.row,
            "file": raw.file,
            "file_row": raw.file_row,
            "sample_id": reference.sample_id,
            "release": self.release or (self.default_release or None if release is None else release),
            "question": question,
            "answer": answer,
            "missing_because": missing,
            "finish_reason": clean(text_at(record, paths, "finish_reason")) if "finish_reason" in paths else None,
            "repeat": repeat_of(clean(text_at(record, paths, "repeat"))) if "repeat" in paths else "1",
            "references": reference.references,
            "facts": reference.facts,
            "context": context,
            "incorrect_references": wrong,
            "cluster": reference.cluster,
            "label": clean(text_at(record, paths, "label")) if "label" in paths else None,
            "correct": None,
            "slices": self._slices(record, reference),
            # An answer that is not there is no blank one: it has no measurement, and takes none from another release.
            "sample_key": key if missing is None else content_hash([key, "missing"]),
            "sample_hash": reference.hash,
        }

    def _columns_in(self, record: Mapping[str, Any]) -> ColumnMap:
        if not self.own_columns:
            return self.columns
        names = tuple(record)
        if (columns := self._shapes.get(names)) is None:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            columns = self._shapes[names] = columns_in(record, self.columns)
        return columns

    def _joined(self, own: Reference) -> Reference:
        """The row of the references file. An id that it lacks has no references, and validation says so."""
        if self.known is None:
            return own
        return self.known.get(own.sample_id) or own._replace(references=(), facts=(), incorrect_references=())

    def _slices(self, record: Mapping[str, Any], reference: Reference) -> list[tuple[str, str]]:
        if not self.columns.slices:
            return []
        known = dict(reference.slices)
        found = []
        for path in self.columns.slices:
            text = clean(as_text(value(record, path)))
            text = known.get(path) if text is None else text
            found.append((path, "(none)" if text is None else text))
        return found
