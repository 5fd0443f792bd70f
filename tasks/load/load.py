"""Load answers, and their references, into one staged Parquet file with the same columns for every source."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from answerkey.metrics_core.conversation import COLUMN, turns
from answerkey.metrics_core.errors import UserError, listed
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.progress import Advance, tell
from answerkey.metrics_core.sample import column_text, content_hash, sample_key
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.cells import UnreadableCell
from answerkey.tasks.load.columns import (
    WIDE,
    ColumnMap,
    as_text,
    clean,
    columns_in,
    complete,
    notes_on,
    release_name,
    repeat_of,
    suggested,
    tells_questions_apart,
    text_at,
    value,
    wide_columns,
    wide_option,
    with_other_columns,
)
from answerkey.tasks.load.formats.registry import LOOK_AHEAD, PLAIN, Opened, Reading, opened
from answerkey.tasks.load.given import given_at
from answerkey.tasks.load.references import (
    Reference,
    ReferenceJoin,
    ReferenceTable,
    sample_fields,
)
from answerkey.tasks.load.remote import URL
from answerkey.tasks.load.rows import Raw, Record
from answerkey.tasks.load.sources import Contents, called, files_of, read, releases_of, several, stem
from answerkey.tasks.load.staged import quarantine_schema, reference_schema, refused, staged_schema
from answerkey.tasks.warehouse.store import parquet_writer

STAGED, REJECTS = "staged.parquet", "rejects.parquet"
"""The files with the rows that could be read, and with those that could not, in the folder of a run."""

_BATCH = 5_000
_TAKEN = (".", "..", "index.html", "_data-docs")
"""What no data set may be called: its pages have a folder of its name."""
_MOST_RELEASES = 1_000
"""Names of releases that are kept in memory."""
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
    columns: tuple[str, ...] = ()
    """Other columns of the answers to take along, for the rubrics that are about them; `messages` is a conversation."""
    encoding: str = ""
    """The encoding of text files; empty: it is detected."""
    format: str = ""
    """The format of the answers, a name in `FORMATS`; empty: it is recognised."""
    needs_references: bool = True
    """Whether a source without references is refused."""
    wide: tuple[str, ...] = ()
    """Columns that each have the answers of one release, which is called like the column."""

    def __post_init__(self) -> None:
        """Raise UserError if `release` is not written as it will be called, or `wide` says it as well."""
        if self.wide and (self.release or self.format or {"answer", "release"} & self.paths.keys()):
            raise UserError(
                "--wide already says where answers and releases are; leave out --release, --format and --map for these"
            )
        try:
            name = release_name(self.release)
        except ValueError as error:
            raise UserError(f"--release: {error}") from error
        if name and name != self.release:
            raise UserError(f"--release {self.release!r}: write {name!r}, composed and without blanks around it")

    @property
    def column_paths(self) -> Mapping[str, str]:
        """Where the other columns are, by name."""
        names = (*self.columns, *([COLUMN] if COLUMN in self.paths else []))
        return {name: self.paths.get(COLUMN, name) if name == COLUMN else name for name in names}

    @property
    def chosen(self) -> str:
        """The format, if it need not be recognised: who says where answers and references are has said it too."""
        return self.format or (PLAIN.name if self.wide or {"answer", "references"} <= self.paths.keys() else "")


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
    """What was in the files of the answers, and of the references if they are apart, as `Contents.about` says."""
    releases: tuple[str, ...] = ()
    """The first releases that a column of the answers names."""


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
        raise UserError(f"--dataset {name!r}: a page or folder of the site has this name; choose another one")
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
    known = _load_references(source, out, references, notes)
    rows = read(source.answers, out, answers, source.encoding)
    mapped = [*source.paths.values(), *source.slices, *source.column_paths.values()]
    found = opened(rows, source.answers, source.chosen, source.wide, mapped)
    stager = _stager_of(
        source,
        found,
        notes,
        known,
        again=lambda: found.reading.rows(read(source.answers, out / "again", encoding=source.encoding)),
    )
    staged, rejects = out / STAGED, out / REJECTS
    n_rows = stage_rows(found.rows, stager, staged, rejects)
    if found.reading.is_made:
        format, n_releases = found.reading.format, len(stager.releases)
        noun = format.releases if n_releases > 1 else format.releases[:-1]
        releases = f" ({n_releases:,} {noun}: releases)" if noun and n_releases else ""
        answers_there = f", {n_rows:,} answers" if n_rows else ""
        notes.insert(0, f"{_name(source.answers)}: recognised as {format.title}{releases}{answers_there}")
    notes += [
        f"{_name(source.answers)}: {path} is left out where it is no number, such as {text[:40]!r}"
        for path, text in stager.no_numbers.items()
    ]
    notes += [*references.notes(), *answers.notes()]
    contents = {"answers": answers.about()}
    if known:
        if isinstance(stager.known, ReferenceJoin):
            notes += stager.known.notes(_name(source.answers), _name(source.references or ""))
        known.close()
        contents["references"] = references.about()
    joined = str(known.file) if known else None
    named = tuple(sorted(stager.releases))
    return Loaded(dataset, str(staged), str(rejects), joined, n_rows, tuple(notes), contents, named)


def _stager_of(
    source: Source,
    found: Opened,
    notes: list[str],
    known: ReferenceTable | None,
    again: Callable[[], Iterator[Raw]],
) -> Stager:
    """The stager for the rows of a source; adds to the `notes`.

    `again` reads all rows once more: the first ones may lack columns, and do not tell all that is among them.

    Raises:
        UserError: a needed column is in none of the rows.
    """
    reading, name = found.reading, _name(source.answers)
    try:
        columns = _columns_of(source, found.records, known, reading)
    except UserError:
        later = (raw.record for raw in again() if raw.record is not None)
        asked = {*source.paths.values(), *source.slices, *source.column_paths.values()}
        others = with_other_columns(later, asked)
        columns = _columns_of(source, [*found.records, *others], known, reading)
    if source.wide:
        notes.append(f"{name}: one release per column: {', '.join(source.wide)}")
    if reading.unread:
        notes.append(f"{name}: not read: {listed(reading.unread, 40)}")
    # Of a row with several releases, the first stands for all.
    records = found.records[:: len(source.wide) or 1]
    used = replace(columns, slices=(*columns.slices, *source.column_paths.values()))
    said = notes_on(used, records, "--map", reading.is_made)
    notes += [f"{name}: {note}" for note in said]
    # A table that names releases is believed; logs of a tool name models, of which one may have answered twice.
    told = source.release or ("release" in columns.paths and not reading.is_made)
    by_file = {} if told else _releases_by_file(source, columns, again(), notes)
    default_release = ""
    if not (source.release or by_file or "release" in columns.paths):
        if len(several(source.answers)) > 1:
            raise UserError(
                f"{name}: no column says which release answered; name it with --release, or evaluate the files of each "
                "release on their own"
            )
        try:
            default_release = release_name(stem(source.answers))
        except ValueError as error:
            raise UserError(f"{name}: {error}, or name it with --release") from error
        notes.append(f"no release column and no --release: the release is called {default_release!r} after the file")
    if source.release and "release" in columns.guessed:
        named = dict.fromkeys(str(one) for record in records if (one := value(record, columns.paths["release"])))
        if len(named) > 1:
            notes.append(
                f"{name}: --release {source.release} stands for all of {listed(list(named))} in the "
                f"column {columns.paths['release']}; without it, each is a release"
            )
    filters = dict.fromkeys(
        str(raw.record["response_filter"])
        for raw in (again() if reading.format.name == "lm-eval" else ())
        if raw.record
    )
    if len(filters) > 1:
        notes.append(f"{name}: the filters {listed(list(filters))} read the same outputs: each is a release")
    id_columns: tuple[str, ...] = ()
    if "id" not in columns.paths:
        if not reading.is_made:
            id_columns = _columns_of_ids(columns, again())
        hashed = " and ".join(["question", "references", *id_columns])
        notes.append(f"{name}: no id column; a hash of {hashed} serves as the id")

    def answer_ids() -> Iterator[tuple[str | None, str]]:
        for raw in again():
            with suppress(ValueError):
                sample_id = text_at(raw.record or {}, columns.paths, "id")
                if sample_id is not None:
                    yield raw.file, sample_id

    return Stager(
        columns=columns,
        release=source.release,
        known=None if known is None else ReferenceJoin(known, answer_ids),
        default_release=default_release,
        by_file=by_file,
        own_columns=not reading.is_made,
        id_columns=id_columns,
        others=source.column_paths,
        by_filter=len(filters) > 1,
    )


def _columns_of_ids(columns: ColumnMap, rows: Iterator[Raw]) -> tuple[str, ...]:
    """Return the columns that tell questions apart where question and references do not: all that no answer made.

    Without an id column, rows of one release that have the same question and references may be about different texts,
    which stand in a column of another name.
    """
    first_others: dict[str, str] = {}
    names: dict[str, None] = {}
    differ = False
    for raw in rows:
        record = raw.record or {}
        others = {name: str(record[name]) for name in record if tells_questions_apart(name, columns)}
        names |= dict.fromkeys(others)
        with suppress(ValueError):
            fields = sample_fields(record, columns)
            release, repeat = (str(value(record, columns.paths.get(key))) for key in ("release", "repeat"))
            question = content_hash([fields["question"], fields["references"], raw.file, release, repeat])
            hashed_others = content_hash([*others.items()])
            differ = differ or first_others.setdefault(question, hashed_others) != hashed_others
    return tuple(names) if differ else ()


def _name(source: str) -> str:
    # What follows the question mark of a URL may be a key.
    without_keys = (one.split("?", 1)[0] if URL.match(one) else one for one in several(source))
    return listed([one.rstrip("/").rsplit("/", 1)[-1] for one in without_keys])


_WITHOUT: Mapping[Key, str] = {
    "answer": "answers: it goes with --references beside a file of answers, or to `answerkey generate`",
    "references": "right answers: give those with --references FILE",
    "id": "ids or questions, which tell answers apart",
}


def _columns_of(source: Source, records: Sequence[Record], known: ReferenceTable | None, reading: Reading) -> ColumnMap:
    """The columns of the answers, as far as these records show them.

    Raises:
        UserError: a needed column is in none of them.
    """
    elsewhere = known.sliced if known else ()
    taken = (*source.slices, *source.column_paths.values())
    paths = {**source.paths, **(WIDE if source.wide else {})}
    columns = complete(paths, taken, records, called(source.answers), elsewhere, made=reading.is_made)
    columns = replace(columns, slices=tuple(dict.fromkeys(source.slices)))
    if reading.format.name not in ("plain", "chat") and not (source.release or "release" in columns.paths):
        raise UserError(
            f"{_name(source.answers)}: it does not say which release answered ({reading.format.title}); name it with "
            "--release"
        )
    needed: tuple[Key, ...] = ("answer", "references") if source.needs_references and not known else ("answer",)
    if not known and columns.paths.keys().isdisjoint(("id", "question", "references")):
        needed = (*needed, "id")
    for key in needed:
        if key not in columns.paths:
            if reading.is_made:
                raise UserError(f"{_name(source.answers)}: {reading.format.title} without {_WITHOUT[key]}")
            names, best = suggested(key, records, list(columns.paths.values()))
            remedy = f"name it with --map {key}={best}" + (" or give --references FILE" if key == "references" else "")
            unnamed = key == "answer" and best == "COLUMN"
            wide = wide_columns(records, list(columns.paths.values()), by_texts=unnamed)
            if wide and not source.wide:
                # What has been taken for the answer is the right one then.
                right = f" --map references={columns.paths['answer']}" if key == "references" else ""
                remedy = f"if {', '.join(wide)} are the answers of one release each, give {wide_option(wide)}{right}"
            raise UserError(f"{called(source.answers)}: no column for {key} was recognised among {names}; {remedy}")
    if known and "id" not in columns.paths:
        raise UserError(
            f"{called(source.answers)}: --references are joined by id; name the column with --map id=COLUMN; the "
            f"columns are {', '.join(dict.fromkeys(name for record in records for name in record))}"
        )
    return columns


def _releases_by_file(source: Source, columns: ColumnMap, rows: Iterator[Raw], notes: list[str]) -> dict[str, str]:
    """The release of each of several files, where no column names it and two of them answer the same questions.

    Raises:
        UserError: they do in the name of one release, and another column tells them apart.
    """
    files = files_of(source.answers) or []
    if len(files) < 2:
        return {}
    heads: dict[str | None, list[Record]] = {}
    for file, group in itertools.groupby(rows, key=lambda raw: raw.file):
        heads[file] = [raw.record for raw in itertools.islice(group, LOOK_AHEAD) if raw.record is not None]
        if len(heads) == 2:
            break
    asked: Key = "id" if "id" in columns.paths else "question"
    keys = [
        {
            tuple(str(value(record, columns.paths.get(key))) for key in (asked, "release", "repeat"))
            for record in records
        }
        for records in heads.values()
    ]
    if len(keys) < 2 or len(keys[0] & keys[1]) * 2 < min(map(len, keys)):
        return {}
    if "release" not in columns.paths:
        names = releases_of(files)
        notes.append(f"no release column and no --release: each file is a release: {listed(list(names.values()))}")
        return names
    # Columns that have one value in each file, and not the same one
    apart = []
    for name in next(iter(heads.values()))[0]:
        first, second = ({str(record.get(name)) for record in records} for records in heads.values())
        if len(first) == len(second) == 1 and first != second and name not in columns.paths.values():
            apart.append(name)
    if apart:
        raise UserError(
            f"{listed([str(file) for file in heads])}: both have the answers of {min(keys[0] & keys[1])[1]} to the "
            f"same questions; what tells them apart is the release: --map release={apart[0]}"
            + (f" (or {', '.join(apart[1:])})" if apart[1:] else "")
        )
    return {}


def _load_references(source: Source, out: Path, contents: Contents, notes: list[str]) -> ReferenceTable | None:
    """The references in a file of their own; None where they are beside the answers. Adds to the `notes`.

    Raises:
        UserError: as `load`.
    """
    if source.references is None:
        return None
    import pyarrow as pa

    # Recognise the columns
    name = called(source.references)
    found = opened(read(source.references, out, contents, source.encoding), source.references)
    columns = complete(source.reference_paths, (), found.records, name, made=found.reading.is_made)
    columns = replace(columns, slices=source.slices)
    needed: tuple[Key, ...] = ("id", "references") if source.needs_references else ("id",)
    for key in needed:
        if key not in columns.paths:
            names, best = suggested(key, found.records, list(columns.paths.values()))
            raise UserError(f"{name}: no column for {key} among {names}; name it with --map-references {key}={best}")
    said = notes_on(columns, found.records, "--map-references")
    notes += [f"{_name(source.references)}: {note}" for note in said]

    # Keep one row per id
    known = ReferenceTable(out)
    with parquet_writer(known.file, reference_schema()) as writer:
        while batch := list(itertools.islice(found.rows, _BATCH)):
            staged = []
            for raw in batch:
                reference = Reference.of(raw, columns, name)
                if known.add(reference, raw, name):
                    staged.append({**reference._asdict(), "sample_hash": reference.hash})
            writer.write_table(pa.Table.from_pylist(staged, schema=reference_schema()))
    return known


def stage_rows(rows: Iterator[Raw], stager: Stager, staged: Path, rejects: Path) -> int:
    """Write rows to two Parquet files, as staged or as refused; return how many there were of both."""
    import pyarrow as pa

    n_rows = 0
    with (
        _old_objects_frozen(),
        parquet_writer(rejects, quarantine_schema()) as bad,
        parquet_writer(staged, staged_schema()) as good,
    ):
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


@contextmanager
def _old_objects_frozen() -> Iterator[None]:
    """Around work that makes millions of objects: cycles are looked for among these alone, for a third of the time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _without_errors(record: Record, paths: Mapping[Key, str]) -> tuple[Record, str | None]:
    """Return a record in which an answer or right answer is no error of a sheet (`#N/A`), and the first such error.

    Such a question has no score: neither what was answered nor what is right is known. It counts nevertheless.
    """
    cells = {
        path: cell
        for key in ("answer", "references")
        for path in paths.get(key, "").split("\n")
        if isinstance(cell := record.get(path), UnreadableCell) and cell.error
    }
    if not cells:
        return record, None
    record = {**record, **{path: cell.error for path, cell in cells.items()}, paths["answer"]: None}
    return record, next(iter(cells.values())).reason


@dataclass(frozen=True, slots=True)
class Stager:
    """Turns one raw row into one staged row."""

    columns: ColumnMap
    release: str
    known: ReferenceJoin | Mapping[str, Reference] | None
    default_release: str = ""
    """The release of rows that name none."""
    by_file: Mapping[str, str] = field(default_factory=dict)
    """The release of rows that name none, by their file."""
    own_columns: bool = True
    """Whether a record may have other columns than those before it; the rows that a format makes have not."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Paths of the columns that rubrics are about, by name."""
    id_columns: tuple[str, ...] = ()
    """Columns that an id which is made has, besides question and references."""
    by_filter: bool = False
    """Whether each filter that read the outputs is a release, called after the one that wrote them."""
    releases: set[str] = field(default_factory=set, compare=False)
    """The first `_MOST_RELEASES` releases that rows name."""
    no_numbers: dict[str, str] = field(default_factory=dict, compare=False)
    """The first texts where a score is expected that are none, by path."""
    _shapes: dict[tuple[str, ...], ColumnMap] = field(default_factory=dict, compare=False, repr=False)
    """The columns of records, by the names in them."""

    def stage(self, raw: Raw) -> dict[str, Any]:
        """The staged row.

        Raises:
            ValueError: the row has no record, or a column of it is not a text.
        """
        if raw.record is None:
            raise ValueError(raw.error)
        columns = self.columns
        if self.own_columns:
            names = tuple(raw.record)
            if names not in self._shapes:
                if len(self._shapes) >= _SHAPES:
                    self._shapes.clear()
                self._shapes[names] = columns_in(raw.record, columns)
            columns = self._shapes[names]
        record, paths = raw.record, columns.paths
        record, shown_error = _without_errors(record, paths)
        own = Reference(**sample_fields(record, columns))
        reference = own
        if self.known is not None:
            if isinstance(self.known, ReferenceJoin):
                known = self.known.find(own.sample_id, raw.file, own.question)
            else:
                known = self.known.get(own.sample_id or "")
            # An id that it lacks has no references, and validation says so
            reference = known or own._replace(references=(), facts=(), incorrect_references=())
        if not reference.sample_id and "id" not in paths:
            cells = [[name, str(record.get(name))] for name in self.id_columns]
            reference = own._replace(sample_id=content_hash([own.question, own.references, *cells]))
        # A references file may hold references only; what was asked then stands beside the answer.
        question = own.question if reference.question is None else reference.question
        answer, release = (text_at(record, paths, key) for key in ("answer", "release"))
        release = None if release is None else release_name(release)
        unnamed = self.by_file.get(raw.file or "") or self.default_release or None
        if release and len(self.releases) < _MOST_RELEASES:
            self.releases.add(release)
        named = self.release or (unnamed if release is None else release)
        missing = text_at(record, paths, "missing_because") if is_blank(answer) else None
        missing = missing or shown_error
        missing = None if is_blank(missing) else missing
        context = own.context or reference.context
        wrong = reference.incorrect_references
        given: dict[str, float] = {}
        for path in paths["scores"].split("\n") if "scores" in paths else ():
            numbers = given_at(record, path)
            if not numbers and isinstance(cell := value(record, path), str) and not is_blank(cell):
                self.no_numbers.setdefault(path, cell)
            given |= numbers
        slices = []
        of_reference = dict(reference.slices)
        for path in self.columns.slices:
            text = clean(as_text(value(record, path)))
            text = of_reference.get(path) if text is None else text
            slices.append((path, "(none)" if text is None else text))
        others = self._others(record)
        key = sample_key(question, answer, reference.references, reference.facts, context, wrong, others)
        return {
            "row": raw.row,
            "file": raw.file,
            "file_row": raw.file_row,
            "sample_id": reference.sample_id,
            "release": f"{named} {record['response_filter']}" if self.by_filter else named,
            # Only formats give it: a column of a user's own may have that name
            "release_order": None if self.own_columns else record.get("release_order"),
            "question": question,
            "answer": answer,
            "missing_because": missing,
            "finish_reason": text_at(record, paths, "finish_reason"),
            "repeat": repeat_of(text_at(record, paths, "repeat")),
            "references": reference.references,
            "facts": reference.facts,
            "context": context,
            "incorrect_references": wrong,
            "columns": [*others.items()] or None,
            "given": sorted(given.items()) or None,
            "cluster": reference.cluster,
            "label": text_at(record, paths, "label"),
            "correct": None,
            "slices": slices,
            # An answer that is not there is no blank one: it has no measurement, and takes none from another release.
            "sample_key": key if missing is None else content_hash([key, "missing"]),
            "sample_hash": reference.hash,
        }

    def _others(self, record: Record) -> dict[str, str]:
        """The columns that rubrics are about, as texts.

        Raises:
            ValueError: the conversation is none.
        """
        texts = {}
        for name, path in self.others.items():
            if (found := value(record, path)) is None:
                continue
            if name == COLUMN:
                try:
                    found = turns(found)
                except ValueError as error:
                    raise ValueError(f"{name}{'' if path == name else f' ({path})'} {error}") from error
            try:
                text = column_text(found) if isinstance(found, list | dict) else as_text(found)
            except TypeError as error:
                raise ValueError(f"{name} holds what JSON cannot: {error}") from error
            if text is not None:
                texts[name] = clean(text) or ""
        return texts
