"""Load answers, and their references, into one staged Parquet file with the same columns for every source."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    names_in,
    notes_on,
    release_name,
    repeat_of,
    suggested,
    tells_questions_apart,
    text_at,
    texts_of,
    value,
    wide_columns,
    wide_option,
    with_other_columns,
)
from answerkey.tasks.load.formats.registry import LOOK_AHEAD, PLAIN, Opened, Reading, opened
from answerkey.tasks.load.given import as_number, given_at
from answerkey.tasks.load.plain import Record
from answerkey.tasks.load.references import (
    Reference,
    ReferenceTable,
    references_of,
)
from answerkey.tasks.load.remote import URL
from answerkey.tasks.load.rows import Raw, quarantine_schema, staged_schema
from answerkey.tasks.load.sources import Contents, called, files_of, read, releases_of, several, stem
from answerkey.tasks.warehouse.store import parquet_writer

if TYPE_CHECKING:
    import pyarrow as pa

STAGED = "staged.parquet"
REJECTS = "rejects.parquet"
"""The files with the rows that could be read, and with those that could not, in the folder of a run."""

_BATCH = 5_000
_RESERVED_NAMES = (".", "..", "index.html", "_data-docs")
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
        column_paths = {name: name for name in self.columns}
        if COLUMN in self.paths:
            column_paths[COLUMN] = self.paths[COLUMN]
        return column_paths

    @property
    def other_paths(self) -> tuple[str, ...]:
        """Paths that no key is for: of slices and of other columns."""
        return (*self.slices, *self.column_paths.values())

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
    file = source.references or source.answers
    if not source.dataset and len(several(file)) > 1:
        raise UserError(f"{_name(file)}: name the data set of several files with --dataset")
    # What a file is called may hold blanks, which report ids cannot
    name = source.dataset or re.sub(r"[^\w.-]+", "-", stem(file)).strip("-") or "data"
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(f"--dataset {name!r}: use letters, digits, dots, dashes and underscores")
    if name in _RESERVED_NAMES:
        raise UserError(f"--dataset {name!r}: a page or folder of the site has this name; choose another one")
    return name


def load(source: Source, out: Path) -> Loaded:
    """Read a source into `out`/staged.parquet; rows that cannot be read go to `out`/rejects.parquet.

    Raises:
        UserError: a source is missing or not readable, or a needed column is in none of the rows.
    """
    out.mkdir(parents=True, exist_ok=True)
    dataset = dataset_name(source)
    name = _name(source.answers)
    notes: list[str] = []
    answer_files = Contents()
    reference_files = Contents()

    # The references, then the answers: their format, their columns, their rows
    references = _load_references(source, out, reference_files, notes)
    rows = read(source.answers, out, answer_files, source.encoding)
    mapped = (*source.paths.values(), *source.other_paths)
    answers = opened(rows, source.answers, source.chosen, source.wide, mapped)

    def read_again() -> Iterator[Raw]:
        return answers.reading.rows(read(source.answers, out / "again", encoding=source.encoding))

    stager = _stager_of(source, answers, notes, references, read_again)
    staged = out / STAGED
    rejects = out / REJECTS
    n_rows = stage_rows(answers.rows, stager, staged, rejects)
    if answers.reading.is_converted and len(stager.releases) == 1:
        _name_unanswered(staged, *stager.releases)

    # What was read, and what was not
    if answers.reading.is_converted:
        format = answers.reading.format
        title = f"recognised as {format.title}"
        if format.releases and not source.release:
            title += f" (its {format.releases} are the releases)"
        if n_rows:
            title += f", {n_rows:,} answers"
        notes.insert(0, f"{name}: {title}")
    for path, text in stager.no_numbers.items():
        notes.append(f"{name}: {path} is left out where it is no number, such as {text[:40]!r}")
    notes += [*reference_files.notes(), *answer_files.notes()]
    contents = {"answers": answer_files.about()}
    if references:
        notes += references.notes(name, _name(source.references or ""))
        references.close()
        contents["references"] = reference_files.about()
    return Loaded(
        dataset=dataset,
        staged=str(staged),
        rejects=str(rejects),
        references=str(references.file) if references else None,
        n_rows=n_rows,
        notes=tuple(notes),
        contents=contents,
        releases=tuple(sorted(stager.releases)),
    )


def _name_unanswered(staged: Path, release: str) -> None:
    """Give rows without an answer the one release of their source: a request that failed does not name its model."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(staged, columns=["release", "missing_because"])
    is_unnamed = pc.and_(pc.is_null(table["release"]), pc.is_valid(table["missing_because"]))
    if not pc.any(is_unnamed).as_py():
        return
    table = pq.read_table(staged)
    names = pc.if_else(is_unnamed, release, table["release"])
    table = table.set_column(table.column_names.index("release"), "release", names)
    with parquet_writer(staged, staged_schema()) as writer:
        for start in range(0, table.num_rows, _BATCH):
            writer.write_table(table.slice(start, _BATCH))


def _stager_of(
    source: Source,
    answers: Opened,
    notes: list[str],
    references: ReferenceTable | None,
    read_again: Callable[[], Iterator[Raw]],
) -> Stager:
    """Make the stager for the rows of a source, and add to the `notes`.

    `read_again` reads all rows once more: the first ones may lack columns, and do not tell all that is among them.

    Raises:
        UserError: a needed column is in none of the rows.
    """
    reading = answers.reading
    name = _name(source.answers)

    # The columns; if the first rows lack some of them, later ones may have them
    try:
        columns = _columns_of(source, answers.records, references, reading)
    except UserError:
        later_records = (raw.record for raw in read_again() if raw.record is not None)
        more_records = with_other_columns(later_records, (*source.paths.values(), *source.other_paths))
        columns = _columns_of(source, [*answers.records, *more_records], references, reading)
    if source.wide:
        notes.append(f"{name}: one release per column: {', '.join(source.wide)}")
    if unread := [column for column in reading.unread if column not in source.other_paths]:
        notes.append(f"{name}: not read: {listed(unread, 40)}")
    # With --wide each row became a record for each release, of which one is enough here
    records = answers.records[:: len(source.wide) or 1]

    # The release. The column of a plain table is believed. The log of a tool names the model, which may have written
    # several files: then each file is a release
    has_release = source.release or ("release" in columns.paths and not reading.is_converted)
    about_release = []
    by_file = {} if has_release else _releases_by_file(source, columns, read_again())
    if by_file:
        about_release.append(f"each file is a release: {listed(list(by_file.values()))}")
    default_release = ""
    if not (source.release or by_file or "release" in columns.paths):
        default_release = _release_called_after(source.answers)
        about_release.append(f"the release is called {default_release!r} after the file")
    lines = notes_on(columns, records, "--map", more=about_release, converted=reading.is_converted)
    notes += [f"{name}: {line}" for line in lines]
    if source.release and "release" in columns.guessed:
        cells = [value(record, columns.paths["release"]) for record in records]
        releases = dict.fromkeys(str(cell) for cell in cells if cell)
        if len(releases) > 1:
            notes.append(
                f"{name}: --release {source.release} stands for all of {listed(list(releases))} in the "
                f"column {columns.paths['release']}; without it, each is a release"
            )
    lm_eval_rows = read_again() if reading.format.name == "lm-eval" else ()
    filters = dict.fromkeys(str(raw.record["response_filter"]) for raw in lm_eval_rows if raw.record)
    if len(filters) > 1:
        notes.append(f"{name}: the filters {listed(list(filters))} read the same outputs: each is a release")

    # An id is made of all that tells questions apart
    has_id = "id" in columns.paths
    id_columns = () if has_id or reading.is_converted else _columns_of_ids(columns, read_again())
    if not has_id:
        hashed = " and ".join(["question", "references", *id_columns])
        notes.append(f"{name}: no id column; a hash of {hashed} serves as the id")

    def answer_ids() -> Iterator[tuple[str | None, str]]:
        for raw in read_again():
            with suppress(ValueError):
                sample_id = text_at(raw.record or {}, columns.paths, "id")
                if sample_id is not None:
                    yield raw.file, sample_id

    if references:
        references.answer_ids = answer_ids
    return Stager(
        columns=replace(columns, slices=tuple(dict.fromkeys(source.slices))),
        release=source.release,
        find_reference=references.find if references else None,
        default_release=default_release,
        by_file=by_file,
        own_columns=not reading.is_converted,
        id_columns=id_columns,
        others=source.column_paths,
        by_filter=len(filters) > 1,
    )


def _release_called_after(answers: str) -> str:
    """Name the release after the file, where nothing else does.

    Raises:
        UserError: there are several files, or the name of the file is none for a release.
    """
    if len(several(answers)) > 1:
        raise UserError(
            f"{_name(answers)}: no column says which release answered; name it with --release, or evaluate the files "
            "of each release on their own"
        )
    try:
        return release_name(stem(answers))
    except ValueError as error:
        raise UserError(f"{_name(answers)}: {error}, or name it with --release") from error


def _columns_of_ids(columns: ColumnMap, rows: Iterator[Raw]) -> tuple[str, ...]:
    """Return the columns that tell questions apart where question and references do not: all that no answer made.

    Without an id column, rows of one release that have the same question and references may be about different texts,
    which stand in a column of another name.
    """
    first_hashes: dict[str, str] = {}
    names: dict[str, None] = {}
    differ = False
    for raw in rows:
        record = raw.record or {}
        cells = {name: str(record[name]) for name in record if tells_questions_apart(name, columns)}
        names |= dict.fromkeys(cells)
        with suppress(ValueError):
            [reference] = references_of([record], columns)
            release, repeat = (str(value(record, columns.paths.get(key))) for key in ("release", "repeat"))
            question = content_hash([reference.question, reference.references, raw.file, release, repeat])
            cells_hash = content_hash([*cells.items()])
            differ = differ or first_hashes.setdefault(question, cells_hash) != cells_hash
    return tuple(names) if differ else ()


def _name(source: str) -> str:
    """Return the names of files and URLs, for messages."""
    # What follows the question mark of a URL may be a key
    paths = [path.split("?", 1)[0] if URL.match(path) else path for path in several(source)]
    return listed([path.rstrip("/").rsplit("/", 1)[-1] for path in paths])


_MISSING_PARTS: Mapping[Key, str] = {
    "answer": "answers: it goes with --references beside a file of answers, or to `answerkey generate`",
    "references": "right answers: give those with --references FILE",
    "id": "ids or questions, which tell answers apart",
}


def _columns_of(
    source: Source, records: Sequence[Record], references: ReferenceTable | None, reading: Reading
) -> ColumnMap:
    """Return the columns of the answers, as far as these records show them.

    Raises:
        UserError: a needed column is in none of them.
    """
    # Those that are mapped, and those that are known by their names
    in_references = references.sliced if references else ()
    paths = {**source.paths, **(WIDE if source.wide else {})}
    columns = complete(
        paths, source.other_paths, records, called(source.answers), in_references, converted=reading.is_converted
    )
    if reading.format.name not in ("plain", "chat", "alpaca") and not (source.release or "release" in columns.paths):
        raise UserError(
            f"{_name(source.answers)}: it does not say which release answered ({reading.format.title}); name it with "
            "--release"
        )

    # Those that must be there; the message says which column is likely meant
    needed: tuple[Key, ...] = ("answer", "references") if source.needs_references and not references else ("answer",)
    if not references and columns.paths.keys().isdisjoint(("id", "question", "references")):
        needed = (*needed, "id")
    for key in needed:
        if key in columns.paths:
            continue
        if reading.is_converted:
            raise UserError(f"{_name(source.answers)}: {reading.format.title} without {_MISSING_PARTS[key]}")
        used = columns.paths.values()
        names, likely = suggested(key, records, used)
        if key == "references" and "answer" in columns.guessed:
            # Of two columns of answers, the first has the right ones
            mapped = {**paths, "references": columns.paths["answer"]}
            has_other_answer = "answer" in complete(mapped, (), records, called(source.answers)).paths
            likely = columns.paths["answer"] if has_other_answer else likely
        remedy = f"name it with --map {key}={likely}"
        if key == "references":
            remedy += " or give --references FILE"
        has_no_likely_answer = key == "answer" and likely == "COLUMN"
        wide = wide_columns(records, used, by_texts=has_no_likely_answer)
        if wide and not source.wide:
            # What has been taken for the answer is the right one then
            option = f" --map references={columns.paths['answer']}" if key == "references" else ""
            remedy = f"if {', '.join(wide)} are the answers of one release each, give {wide_option(wide)}{option}"
        unused = [name for name in names_in(records) if name not in used]
        cells = [str(record.get(name)) for record in records for name in unused]
        if key == "answer" and cells and None not in map(as_number, cells):
            remedy += "; scores without answers go to `answerkey compare` and `answerkey gate`"
        raise UserError(f"{called(source.answers)}: no column for {key} was recognised among {names}; {remedy}")
    if references and "id" not in columns.paths:
        raise UserError(
            f"{called(source.answers)}: --references are joined by id; name the column with --map id=COLUMN; the "
            f"columns are {', '.join(names_in(records))}"
        )
    return columns


def _releases_by_file(source: Source, columns: ColumnMap, rows: Iterator[Raw]) -> dict[str, str]:
    """Name the release of each of several files, where no column does and two of them answer the same questions.

    Raises:
        UserError: they do in the name of one release, and another column tells them apart.
    """
    files = files_of(source.answers) or []
    if len(files) < 2:
        return {}
    # The first rows of two files, and the questions that they answer
    question_key: Key = "id" if "id" in columns.paths else "question"
    question_paths = [columns.paths.get(key) for key in (question_key, "release", "repeat")]
    records_by_file = {}
    questions = []
    for file, group in itertools.islice(itertools.groupby(rows, key=lambda raw: raw.file), 2):
        records = [raw.record for raw in itertools.islice(group, LOOK_AHEAD) if raw.record is not None]
        records_by_file[file] = records
        questions.append({tuple(str(value(record, path)) for path in question_paths) for record in records})
    if len(questions) < 2 or len(questions[0] & questions[1]) * 2 < min(map(len, questions)):
        return {}
    if "release" not in columns.paths:
        return releases_of(files)

    # Columns that have one value in each file, and not the same one
    distinguishing = []
    for name in next(iter(records_by_file.values()))[0]:
        cells, other_cells = ({str(record.get(name)) for record in records} for records in records_by_file.values())
        if len(cells) == len(other_cells) == 1 and cells != other_cells and name not in columns.paths.values():
            distinguishing.append(name)
    if distinguishing:
        column, *alternatives = distinguishing
        or_columns = f" (or {', '.join(alternatives)})" if alternatives else ""
        raise UserError(
            f"{listed([str(file) for file in records_by_file])}: both have the answers of "
            f"{min(questions[0] & questions[1])[1]} to the same questions; what tells them apart is the release: "
            f"--map release={column}{or_columns}"
        )
    return {}


def _load_references(source: Source, out: Path, contents: Contents, notes: list[str]) -> ReferenceTable | None:
    """Load the references of a file of their own, and add to the `notes`. None where they are beside the answers.

    Raises:
        UserError: as `load`.
    """
    if source.references is None:
        return None
    import pyarrow as pa

    # Recognise the columns
    name = called(source.references)
    rows = opened(read(source.references, out, contents, source.encoding), source.references)
    is_converted = rows.reading.is_converted
    columns = complete(source.reference_paths, (), rows.records, name, converted=is_converted)
    if "references" not in columns.paths and "answer" in columns.paths:
        # A file of right answers may call them just answers
        answers = columns.paths["answer"]
        paths = {**source.reference_paths, "references": answers}
        columns = complete(paths, (), rows.records, name, converted=is_converted)
        notes.append(f"{_name(source.references)}: {answers} has the right answers")
    columns = replace(columns, slices=source.slices)
    needed: tuple[Key, ...] = ("id", "references") if source.needs_references else ("id",)
    for key in needed:
        if key not in columns.paths:
            names, likely = suggested(key, rows.records, columns.paths.values())
            raise UserError(f"{name}: no column for {key} among {names}; name it with --map-references {key}={likely}")
    notes += [f"{_name(source.references)}: {line}" for line in notes_on(columns, rows.records, "--map-references")]

    # Keep one row per id
    table = ReferenceTable(out)
    stored = ("sample_id", "question", "references", "facts", "cluster", "incorrect_references", "sample_hash")
    schema = pa.schema([staged_schema().field(column) for column in stored])
    with parquet_writer(table.file, schema) as writer:
        while batch := list(itertools.islice(rows.rows, _BATCH)):
            staged = []
            for raw in batch:
                reference = Reference.of(raw, columns, name)
                if table.add(reference, raw, name):
                    staged.append({**reference._asdict(), "sample_hash": reference.hash})
            writer.write_table(pa.Table.from_pylist(staged, schema=schema))
    return table


def stage_rows(rows: Iterator[Raw], stager: Stager, staged: Path, rejects: Path) -> int:
    """Write rows to two Parquet files, as staged or as refused; return how many there were of both."""
    import pyarrow as pa

    n_rows = 0
    with (
        ExitStack() as stack,
        parquet_writer(rejects, quarantine_schema()) as reject_writer,
        parquet_writer(staged, staged_schema()) as staged_writer,
    ):
        # The millions of objects to come make no cycles, and looking for some would take a third of the time
        gc.disable()
        stack.callback(gc.enable)
        while batch := list(itertools.islice(rows, _BATCH)):
            n_rows += len(batch)
            tell(Advance("load rows", n_rows))
            tables, rejected = stager.stage(batch)
            for table in tables:
                staged_writer.write_table(table)
            if rejected:
                reject_writer.write_table(pa.Table.from_pylist(rejected, schema=quarantine_schema()))
    return n_rows


def _without_errors(records: Sequence[Record], columns: ColumnMap) -> tuple[Sequence[Record], Sequence[str | None]]:
    """Return records in which no answer or right answer is an error of a sheet (`#N/A`), and the first error of each.

    Such a question has no score: neither what was answered nor what is right is known. It counts nevertheless.
    """
    paths = columns.paths_of("answer", "references")
    reasons: list[str | None] = [None] * len(records)
    if UnreadableCell not in {type(record.get(path)) for path in paths for record in records}:
        return records, reasons
    sound_records = list(records)
    for index, record in enumerate(records):
        cells = {path: cell for path in paths if isinstance(cell := record.get(path), UnreadableCell) and cell.error}
        if cells:
            error_texts = {path: cell.error for path, cell in cells.items()}
            sound_records[index] = {**record, **error_texts, columns.paths["answer"]: None}
            reasons[index] = next(iter(cells.values())).reason
    return sound_records, reasons


@dataclass(slots=True)
class Stager:
    """Turns rows as they are read into staged rows, all rows that have the same columns at once."""

    columns: ColumnMap
    release: str
    find_reference: Callable[[str | None, str | None, str | None], Reference | None] | None
    """Finds the reference of an answer by its id, its file and its question; None if it is beside the answer."""
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
    _columns_in: Callable[[tuple[str, ...]], ColumnMap] = field(init=False, compare=False, repr=False)
    """The columns of a record, by the names in it."""

    def __post_init__(self) -> None:
        """Keep the columns of the last sets of names, since the records of most sources have the same ones."""
        self._columns_in = lru_cache(_SHAPES)(lambda names: columns_in(names, self.columns))

    def stage(self, rows: Sequence[Raw]) -> tuple[list[pa.Table], list[dict[str, Any]]]:
        """Return rows as they are staged; and, as the quarantine keeps them, those that cannot be staged, since they
        have no record, or a column that is not a text. Both are in the order of the rows.
        """
        tables = []
        rejected = []
        groups = [list(group) for _, group in itertools.groupby(rows, key=lambda raw: raw.record and [*raw.record])]
        groups.reverse()
        while groups:
            group = groups.pop()
            try:
                tables.append(self._staged(group))
            except ValueError as error:
                if len(group) > 1:
                    # Halving finds the row
                    middle = len(group) // 2
                    groups += [group[middle:], group[:middle]]
                    continue
                [raw] = group
                location = {"file": raw.file, "row": raw.row if raw.file_row is None else raw.file_row}
                why = {"rule": "unreadable", "reason": clean(str(error)), "raw": clean(raw.content())}
                rejected.append({**location, **why})
        return tables, rejected

    def _staged(self, rows: Sequence[Raw]) -> pa.Table:
        """Return rows that have the same columns as they are staged.

        Raises:
            ValueError: a row has no record, or a column that is not a text.
        """
        import pyarrow as pa

        if rows[0].record is None:
            raise ValueError(rows[0].error)
        columns = self._columns_in(tuple(rows[0].record)) if self.own_columns else self.columns
        paths = columns.paths
        records, shown_errors = _without_errors([raw.record or {} for raw in rows], columns)

        # What may be no text comes first: below, rows are counted, and each of them once
        own_references = references_of(records, columns)
        answers = texts_of(records, paths, "answer")
        releases = [text and release_name(text) for text in texts_of(records, paths, "release")]
        missing = list(shown_errors)
        if "missing_because" in paths:
            for index, record in enumerate(records):
                if is_blank(answers[index]):
                    missing[index] = text_at(record, paths, "missing_because") or missing[index]
        missing = [None if text is None or is_blank(text) else text for text in missing]
        column_texts = list(map(self._column_texts, records))
        finish_reasons, repeats, labels = (
            texts_of(records, paths, key) for key in ("finish_reason", "repeat", "label")
        )

        # The question and what is right: beside the answer, or in a file of references, joined by the id
        samples = []
        hashes = []
        slices = []
        for raw, record, own in zip(rows, records, own_references, strict=True):
            sample = own
            if self.find_reference is not None:
                # An id that it lacks has no references, and validation says so
                joined = self.find_reference(own.sample_id, raw.file, own.question)
                sample = joined or own._replace(references=(), facts=(), incorrect_references=())
            if not sample.sample_id and "id" not in paths:
                others = [[name, str(record.get(name))] for name in self.id_columns]
                sample = own._replace(sample_id=content_hash([own.question, own.references, *others]))
            hashes.append(sample.hash)
            if sample is not own:
                # A references file may hold references only; what was asked then stands beside the answer
                question = own.question if sample.question is None else sample.question
                sample = sample._replace(question=question, context=own.context or sample.context)
            samples.append(sample)
            joined_slices = dict(sample.slices)
            cells = [(path, joined_slices.get(path) if text is None else text) for path, text in own.slices]
            slices.append([(path, "(none)" if text is None else text) for path, text in cells])

        # An answer that is not there is no blank one: it has no measurement, and takes none from another release
        keys = []
        for sample, answer, texts, because in zip(samples, answers, column_texts, missing, strict=True):
            _, question, references, facts, _, _, context, incorrect = sample
            key = sample_key(question, answer, references, facts, context, incorrect, texts)
            keys.append(key if because is None else content_hash([key, "missing"]))
        of_samples = {name: [getattr(sample, name) for sample in samples] for name in Reference._fields}
        return pa.Table.from_pydict(
            {
                **of_samples,
                "row": [raw.row for raw in rows],
                "file": [raw.file for raw in rows],
                "file_row": [raw.file_row for raw in rows],
                "release": self._releases(rows, releases, records),
                # Only formats give it: a column of a user's own may have that name
                "release_order": [None if self.own_columns else record.get("release_order") for record in records],
                "answer": answers,
                "missing_because": missing,
                "finish_reason": finish_reasons,
                "repeat": list(map(repeat_of, repeats)),
                "columns": [[*texts.items()] or None for texts in column_texts],
                "given": self._given_scores(records, columns),
                "label": labels,
                "correct": [None] * len(rows),
                "slices": slices,
                "sample_key": keys,
                "sample_hash": hashes,
            },
            schema=staged_schema(),
        )

    def _releases(
        self, rows: Sequence[Raw], names: Sequence[str | None], records: Sequence[Record]
    ) -> list[str | None]:
        """Return the release of each row, and keep the `names` of releases that rows have."""
        self.releases.update(list(filter(None, dict.fromkeys(names)))[: _MOST_RELEASES - len(self.releases)])
        releases = []
        for raw, name, record in zip(rows, names, records, strict=True):
            unnamed = self.by_file.get(raw.file or "") or self.default_release or None
            release = self.release or (unnamed if name is None else name)
            releases.append(f"{release} {record['response_filter']}" if self.by_filter else release)
        return releases

    def _given_scores(self, records: Sequence[Record], columns: ColumnMap) -> list[list[tuple[str, float]] | None]:
        """Return the scores of other tools in each record, and keep the first text of each column that is none."""
        paths = columns.paths_of("scores")
        if not paths:
            return [None] * len(records)
        scores = []
        for record in records:
            numbers: dict[str, float] = {}
            for path in paths:
                at_path = given_at(record, path)
                if not at_path and isinstance(cell := value(record, path), str) and not is_blank(cell):
                    self.no_numbers.setdefault(path, cell)
                numbers |= at_path
            scores.append(sorted(numbers.items()) or None)
        return scores

    def _column_texts(self, record: Record) -> dict[str, str]:
        """Return the columns that rubrics are about, as texts.

        Raises:
            ValueError: the conversation is none.
        """
        texts = {}
        for name, path in self.others.items():
            if (cell := value(record, path)) is None:
                continue
            if name == COLUMN:
                try:
                    cell = turns(cell)
                except ValueError as error:
                    mapped_path = "" if path == name else f" ({path})"
                    raise ValueError(f"{name}{mapped_path} {error}") from error
            try:
                text = column_text(cell) if isinstance(cell, list | dict) else as_text(cell)
            except TypeError as error:
                raise ValueError(f"{name} holds what JSON cannot: {error}") from error
            if text is not None:
                texts[name] = clean(text) or ""
        return texts
