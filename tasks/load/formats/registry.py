"""All formats: which one a file has, seen from its first rows, and its rows as that format reads them.

`formats.yaml` describes the formats of other tools, and this module reads it; `special.py` has what it cannot say.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import WIDE, is_there, is_usual, names_in, usual_names, value
from answerkey.tasks.load.formats import promptfoo, special
from answerkey.tasks.load.formats.special import (
    NOTED,
    UNREADABLE,
    Convert,
    Document,
    Row,
    Unreadable,
    answer_in,
    decoded,
    each,
    has,
    is_chat,
    items,
    question_in,
    references_in,
    row,
    seconds,
)
from answerkey.tasks.load.given import given, is_given, names_of_scores
from answerkey.tasks.load.plain import CSV, EXCEL, KeyTwice, Record, kind_of
from answerkey.tasks.load.rows import Raw, item_row
from answerkey.tasks.load.sources import called

LOOK_AHEAD = 100
"""Rows from which format and columns are recognised: the first row alone may lack some."""
_CELL_READERS = {
    "question": question_in,
    "answer": answer_in,
    "references": references_in,
    "release": decoded,
    "release_order": seconds,
}
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of records, with the fields that the head of `formats.yaml` explains."""

    items: Sequence[str] = ()
    within: Sequence[str] = ()
    names: str = ""
    has: Sequence[str] = ()
    two_of: Sequence[str] = ()
    never: Sequence[str] = ()
    at_most: Sequence[str] = ()
    first: Sequence[str] = ()
    chat: str = ""
    condition: str = ""
    nest: Sequence[str] | None = None
    only: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    extra: Sequence[str] = ()
    unlisted: Sequence[str] = ()
    scores: Mapping[str, str] = field(default_factory=dict)
    then: str = ""

    def fits(self, record: Record) -> bool:
        """Tell whether a record has this shape."""
        if not all(_has(record, names) for names in self.has):
            return False
        if self.two_of and sum(name in record for name in self.two_of) < 2:
            return False
        if self.at_most and not record.keys() <= set(self.at_most):
            return False
        if self.chat and not is_chat(decoded(value(record, self.chat))):
            return False
        return not any(name in record for name in self.never)

    def prepared(self, item: Any, document: Record) -> Record:
        """Return an item as an object: its values get their names, and its columns are put together.

        Raises:
            ValueError: it has more or fewer values than there are names.
            TypeError: it is no object.
        """
        if self.names:
            names = list(map(str, value(document, self.names)))
            if not isinstance(item, list):
                raise TypeError("no list of values")
            if len(item) != len(names):
                raise ValueError(f"has {len(item)} values, and the table {len(names)} columns")
            item = dict(zip(names, item, strict=True))
        if not isinstance(item, Mapping):
            raise TypeError("no object")
        if self.nest is None:
            return item
        record: dict[str, Any] = {name.lower(): cell for name, cell in item.items()}
        for name in self.nest:
            prefix = f"{name}."
            inner = {column.removeprefix(prefix): record[column] for column in record if column.startswith(prefix)}
            if inner:
                record[name] = inner
        return record

    def rows(self, item: Any, document: Record, mapped: Sequence[str] = ()) -> Iterator[Row | Unreadable]:
        """Yield the rows of an item, with what is at the `mapped` paths; none where it is no answer.

        Raises:
            KeyError: it lacks a name that all have.
            TypeError, ValueError: as `prepared`.
        """
        record = self.prepared(item, document)
        if not all(_matches_any(value(record, path), patterns) for path, patterns in self.only.items()):
            return
        for name in self.has:
            # A KeyError here makes the row unreadable
            if not re.search(r"[|*$]", name):
                record[name]

        # The columns
        cells = {}
        for key, paths in self.columns.items():
            # A blank text only where that is all
            candidates = [_cell_at(record, document, path) for path in paths]
            cell = next((cell for cell in candidates if cell not in _EMPTY), "" if "" in candidates else None)
            cells[key] = _CELL_READERS[key](cell) if key in _CELL_READERS else cell

        # What is beside them
        extra: dict[str, Any] = {}
        for alternatives in self.extra:
            if alternatives == "*":
                unread = record.keys() - set(self.unlisted)
                extra |= {name: record[name] for name in record if name in unread and not is_given(name)}
                continue
            # What stands at the first path that is there, also if it is empty
            paths = alternatives.split("|")
            cells_there = [cell for path in paths if (cell := _cell_at(record, document, path)) is not None]
            beside = decoded(cells_there[0]) if cells_there else None
            if isinstance(beside, Mapping):
                extra |= beside
            elif beside is not None:
                extra[paths[0].rsplit(".", 1)[-1]] = beside
        scores = {name: value(record, path) for name, path in self.scores.items()}
        base_row = row(**cells, scores=given({**record, "scores": scores} if scores else record), extra=extra)

        mapped_cells = {path: value(record, path) for path in mapped if is_there(record, path)}
        for finished_row in getattr(special, self.then)(base_row, record) if self.then else [base_row]:
            yield {**mapped_cells, **finished_row}

    def items_of(self, document: Record) -> list[Any]:
        """Return the items of a document."""
        return next((cell for path in self.items if isinstance(cell := value(document, path), list)), [])

    def document_rows(self, document: Record, mapped: Sequence[str]) -> Iterator[Row | Unreadable]:
        """Return the rows of all items of a document."""
        return each(self.items_of(document), partial(self.rows, document=document, mapped=mapped))

    def unread(self, records: Sequence[Record]) -> tuple[str, ...]:
        """Return the names in the first records with anything in them that no column and no score is read from."""
        if "*" in self.extra or not self.columns:
            return ()
        beside = (alternatives.split("|") for alternatives in self.extra)
        paths = list(itertools.chain(*self.columns.values(), *beside))
        used = {*self.only, *self.scores.values(), *paths, self.chat}
        used |= {path.split(".", 1)[0].split("[", 1)[0] for path in used}
        inner = tuple(f"{path}." for path in paths)
        unread: dict[str, None] = {}
        for record in records[:3]:
            used_here = used | names_of_scores(record)
            filled = [name for name, cell in record.items() if cell not in _EMPTY]
            unread |= dict.fromkeys(name for name in filled if name not in used_here and not name.startswith(inner))
        return tuple(unread)


def _has(record: Record, names: str) -> bool:
    """Tell whether a record has one of several names, as `has` in the table is written."""
    for name in names.split("|"):
        if name.startswith("$"):
            if is_there(record, name):
                return True
        elif name in record or ("*" in name and any(fnmatchcase(column, name) for column in record)):
            return True
    return False


def _matches_any(cell: Any, patterns: Sequence[str | None]) -> bool:
    if cell is None:
        return None in patterns
    return any(pattern is not None and fnmatchcase(str(cell), pattern) for pattern in patterns)


def _cell_at(record: Record, document: Record, path: str) -> Any:
    return value(document, path[1:]) if path.startswith("/") else value(record, path)


class Format(NamedTuple):
    """A kind of file that a tool writes, as the head of `formats.yaml` explains it.

    `releases` says in the plural what of the tool becomes a release (`models`); where it is empty, the files do not
    tell which release answered.
    """

    name: str
    title: str
    releases: str = ""
    shapes: Sequence[Shape] = ()

    def recognise(self, records: Sequence[Record], mapped: Sequence[str]) -> Reading | None:
        """Return how the first shape that fits reads these records, None where none does.

        Args:
            records: the first ones of a file, or the `Document` that a JSON file consists of.
            mapped: paths that a user gave.
        """
        if self.name == "promptfoo":
            convert = promptfoo.recognise(records)
            return Reading(self, convert) if convert else None
        for shape in self.shapes:
            if not all(_has(records[0], name) for name in shape.first):
                continue
            if shape.condition and not getattr(special, shape.condition)(records):
                continue
            if not all(_has(record, name) for name in shape.within for record in records):
                continue
            # Each record is a document with items, or all of them are items
            documents: list[tuple[Record, Sequence[Any]]] = [(records[0], records)]
            if shape.items:
                documents = [(record, shape.items_of(record)) for record in records]
            prepared = []
            for document, entries in documents:
                for entry in entries:
                    # What is no item of this shape says nothing of the others
                    with suppress(TypeError, ValueError):
                        prepared.append(shape.prepared(entry, document))
            is_filled = bool(prepared) and all(entries for _, entries in documents)
            if (is_filled or shape.within) and all(map(shape.fits, prepared)):
                convert = partial(shape.rows, document=records[0], mapped=mapped)
                if shape.items:
                    convert = partial(shape.document_rows, mapped=mapped)
                return Reading(self, convert, shape.unread(prepared))
        return None


PLAIN = Format("plain", "rows with columns")
"""Whatever no other format is: columns are recognised by their names."""


def _expanded(paths: Sequence[str]) -> list[str]:
    """Paths with each of the usual names in place of `{question}` and the like.

    >>> _expanded(["metadata.{id}"])[:2]
    ['metadata.id', 'metadata.sample_id']
    """
    expanded = []
    for path in paths:
        start, brace, end = path.partition("{")
        key, _, end = end.partition("}")
        names: Sequence[str] = [""]
        if brace:
            names = NOTED if key == "noted" else usual_names(key)  # type: ignore[arg-type]
        expanded += [f"{start}{name}{end}" for name in names]
    return expanded


def _format(name: str, entry: Mapping[str, Any]) -> Format:
    """Return an entry of `formats.yaml` as a format."""
    shapes = []
    for shape in entry.get("shapes", ()):
        columns = {key: _expanded(paths) for key, paths in shape.get("columns", {}).items()}
        alternatives = ["|".join(_expanded(names.split("|"))) for names in shape.get("has", ())]
        never = _expanded(shape.get("never", ()))
        shapes.append(Shape(**{**shape, "columns": columns, "has": alternatives, "never": never}))
    return Format(name=name, title=entry["title"], releases=entry.get("releases", ""), shapes=shapes)


_ENTRIES = yaml.safe_load(Path(__file__).with_name("formats.yaml").read_text(encoding="utf-8"))
FORMATS = {**{name: _format(name, entry) for name, entry in _ENTRIES.items()}, "plain": PLAIN}
"""By the name that the option `--format` takes."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of a source are read: `convert` is None where they are taken as they stand."""

    format: Format
    convert: Convert | None = None
    unread: tuple[str, ...] = ()
    """The names in the first rows that the format does not read."""

    @property
    def is_converted(self) -> bool:
        """Whether the format of another tool makes the rows, so that their columns have the names of our keys."""
        return self.format is not PLAIN

    def rows(self, rows: Iterable[Raw]) -> Iterator[Raw]:
        """Yield the rows of a source as the format reads them.

        The rows of a JSON document are numbered through; those of any other row have its number.
        """
        # How many rows more than the file has came of its documents so far
        shift = 0
        for raw in rows:
            if self.convert is None and not raw.document:
                # Nearly all rows are such, and there may be millions.
                yield raw if not shift else raw._replace(row=raw.row + shift)
                continue
            converted = [raw] if raw.record is None else list(self._convert(raw, raw.record))
            for index, row_of_item in enumerate(converted):
                # Only a document becomes several rows, which are numbered
                position = index if raw.document else 0
                number = raw.row + shift + position
                file_row = raw.file_row and raw.file_row + position
                yield row_of_item._replace(row=number, document=False, file=raw.file, file_row=file_row)
            if raw.document and converted:
                shift += len(converted) - 1

    def _convert(self, raw: Raw, record: Record) -> Iterator[Raw]:
        # Each item of a document that is of no format is a row
        entries: Iterable[Raw] = [raw]
        if raw.document and not self.is_converted:
            listed = _list_in(record)
            if listed is None:
                formats = ", ".join(name for name in FORMATS if name != PLAIN.name)
                error = (
                    "expected a list of objects, an object with one list of them, or objects by their ids; it has "
                    f"{', '.join(record) or 'nothing'}, which is none of the formats known here: {formats}"
                )
                yield Raw(raw.row, None, error, json.dumps(record, ensure_ascii=False, default=str))
                return
            entries = itertools.starmap(item_row, enumerate(listed, start=1))
        for entry in entries:
            if entry.record is None or self.convert is None:
                yield entry
                continue
            try:
                for cells in self.convert(entry.record):
                    if isinstance(cells, Unreadable):
                        yield self._unreadable_row(raw, cells.item, cells.error)
                        continue
                    # Scores are METRIC.FIELD, also as columns, so that they can be labels or slices
                    scores = cells.get("scores") if self.is_converted else None
                    named_scores = {}
                    if isinstance(scores, Mapping) and scores:
                        tool = self.format.name.replace("-", "_")
                        scores = {name if "." in name else f"{tool}.{name}": score for name, score in scores.items()}
                        named_scores = {**scores, "scores": scores}
                    yield Raw(raw.row, {**cells, **named_scores})
            except UNREADABLE as error:
                yield self._unreadable_row(raw, entry.record, error)

    def _unreadable_row(self, raw: Raw, item: Any, error: Exception) -> Raw:
        reason = str(error) if isinstance(error, ValueError) else f"is not what is in a row of {self.format.title}"
        return Raw(raw.row, None, reason, json.dumps(item, ensure_ascii=False, default=str))


AS_IT_STANDS = Reading(PLAIN)


class Opened(NamedTuple):
    """The rows of a source as they are read, with the records among the first, from which columns are recognised."""

    reading: Reading
    records: Sequence[Record]
    rows: Iterator[Raw]


def opened(
    rows: Iterator[Raw], source: str, chosen: str = "", wide: Sequence[str] = (), mapped: Sequence[str] = ()
) -> Opened:
    """Read the rows of a source in their format, and look at the first of them.

    Args:
        source: what it is called in messages.
        chosen: the name of the format, where the user gave one.
        wide: the columns that each have the answers of one release.
        mapped: paths that the user gave, which are read also where the format does not read them.

    Raises:
        UserError: there is no row, or none that can be read; two formats fit, or the chosen one does not; a column of
            `wide` is not there.
    """
    # The format shows in the first rows; a document is one row, with all of them in it
    first_rows = list(itertools.islice(rows, 1))
    if first_rows and not first_rows[0].document:
        first_rows += itertools.islice(rows, LOOK_AHEAD - 1)
    records = [Document(raw.record) if raw.document else raw.record for raw in first_rows if raw.record is not None]
    reading = recognise(records, source, chosen, mapped)
    file = (first_rows[0].file if first_rows else None) or source
    if reading.convert and reading.is_converted and kind_of(file.split("?", 1)[0]) in (*CSV, *EXCEL):
        reading = replace(reading, convert=partial(_convert_cells, reading.convert))

    # A column for each release becomes a row for each
    if first_rows and wide:
        first_records = _records_of(reading.rows(first_rows))
        if missing := [name for name in wide if not any(is_there(record, name) for record in first_records)]:
            names = ", ".join(names_in(first_records))
            raise UserError(f"{called(source)}: no column {missing[0]!r} (for --wide); the columns are {names}")
        reading = replace(reading, convert=partial(_split_releases, wide))

    # Columns are recognised in the rows as they are converted
    converted = reading.rows(itertools.chain(first_rows, rows))
    head = list(itertools.islice(converted, LOOK_AHEAD))
    if not head and reading.is_converted:
        raise UserError(f"{called(source)}: {reading.format.title}, which has no answers besides the expected ones")
    if not head:
        raise UserError(f"{called(source)}: no rows; it needs at least one")
    records = _records_of(head)
    if not records:
        unreadable = f"none of the first {len(head)} rows can be read: " if len(head) > 1 else ""
        raise UserError(f"{called(source)}: {unreadable}{head[0].error}")
    return Opened(reading, records, itertools.chain(head, converted))


def _records_of(rows: Iterable[Raw]) -> list[Record]:
    """Return the records of the first rows that can be read."""
    records = (raw.record for raw in rows if raw.record is not None)
    return list(itertools.islice(records, LOOK_AHEAD))


def _split_releases(wide: Sequence[str], record: Record) -> Iterator[Row]:
    """Yield a row for each release, of a row with a column for each."""
    shared_cells = {name: cell for name, cell in record.items() if name not in wide}
    for name in wide:
        yield {**shared_cells, WIDE["answer"]: value(record, name), WIDE["release"]: name}


def _convert_cells(convert: Convert, record: Record) -> Iterable[Row | Unreadable]:
    """Convert a record whose cells hold objects and lists as JSON, for tables have nothing but texts.

    A list of anything else than texts and objects may be an answer, and stays a text; so does an object in a column
    such as `outputs.answer`, which has one part of an object already.
    """
    cells = {}
    for name, cell in record.items():
        content = decoded(cell)
        is_part = "." in name and not isinstance(content, list)
        is_answer = isinstance(content, list) and not all(isinstance(item, str | dict) for item in content)
        cells[name] = cell if is_part or is_answer else content
    return convert(cells)


def recognise(records: Sequence[Record], source: str, chosen: str = "", mapped: Sequence[str] = ()) -> Reading:
    """Choose how to read the rows of a source, from its first records.

    Raises:
        UserError: two formats fit, or the chosen one does not.
    """
    if not records:
        return AS_IT_STANDS
    if chosen:
        reading = _reading(FORMATS[chosen], records, mapped)
        if reading is None and chosen != PLAIN.name:
            raise UserError(f"{called(source)}: this is not {FORMATS[chosen].title}; leave --format out")
        return reading or AS_IT_STANDS
    # Two formats that read the same rows are no doubt
    readings = [_reading(format, records, mapped) for format in FORMATS.values()]
    fitting = [reading for reading in readings if reading]
    contents = set()
    for reading in fitting if len(fitting) > 1 else ():
        rows = itertools.islice(reading.rows(Raw(1, record) for record in records), LOOK_AHEAD)
        contents.add(json.dumps([row.record for row in rows], default=str))
    if len(contents) > 1:
        titles = " and ".join(reading.format.title for reading in fitting)
        options = " or ".join(f"--format {reading.format.name}" for reading in fitting)
        raise UserError(f"{called(source)}: fits {titles}; say which with {options}")
    if fitting:
        return fitting[0]
    # Columns whose cells are all chats, or texts in the quotes of JSON, are read as what these hold; a single cell may
    # be a quotation
    chats: dict[str, Callable[[Any], Any]] = dict.fromkeys(usual_names("question"), question_in)
    chats |= dict.fromkeys(usual_names("answer"), lambda cell: answer_in(decoded(cell)))
    readers: dict[str, Callable[[Any], Any]] = {}
    for name in records[0]:
        if promptfoo.EXPECTED.fullmatch(name):
            readers[name] = promptfoo.expected_in
            continue
        cells = [record[name] for record in records if record.get(name) not in (None, "")]
        payloads = [decoded(cell) for cell in cells if not _has_key_twice(decoded, cell)]
        are_chats = [is_chat(payload) or (has(payload, "messages") and len(payload) == 1) for payload in payloads]
        if name in chats and are_chats and all(are_chats):
            readers[name] = chats[name]
        quoted = [cell for cell in cells if isinstance(cell, str) and cell[:1] == '"' and decoded(cell) != cell]
        if len(cells) > 1 and quoted == cells:
            readers[name] = decoded
    if not readers:
        return AS_IT_STANDS

    def read_columns(record: Record) -> Iterator[Row]:
        yield {**record, **{name: read_cell(record[name]) for name, read_cell in readers.items() if name in record}}

    return Reading(PLAIN, read_columns)


def _reading(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Reading | None:
    """Return how a format reads these records: as they are, or as a document with one list of them."""
    if reading := _recognised(format, records, mapped):
        return reading
    inner = items(_list_in(records[0]))[:LOOK_AHEAD] if len(records) == 1 else []
    reading = _recognised(format, inner, mapped) if inner else None
    if reading and (convert := reading.convert):
        return replace(reading, convert=lambda document: each(_list_in(document), convert))
    return None


def _recognised(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Reading | None:
    try:
        return format.recognise(records, mapped)
    except KeyTwice:
        # The rows of such cells are refused where they are read; the others say what the file is.
        sound = [record for record in records if not _has_key_twice(format.recognise, [record], mapped)]
        return format.recognise(sound, mapped) if sound else None


def _has_key_twice(parse: Callable[..., object], *arguments: Any) -> bool:
    try:
        parse(*arguments)
    except KeyTwice:
        return True
    return False


def _list_in(document: Record) -> list[Any] | None:
    """Return the rows of a JSON document: its only list, its columns, or its objects by their ids; None of others."""
    cells = list(document.values())
    lists = [cell for cell in cells if isinstance(cell, list)]
    if len(lists) == 1:
        return lists[0]
    if document.keys() == {"columns", "index", "data"}:
        # `DataFrame.to_json(orient="split")`
        with suppress(TypeError, ValueError):
            return [dict(zip(document["columns"], row, strict=True)) for row in document["data"]]
    is_table = any(map(is_usual, document))
    if is_table and len(lists) == len(cells) and len({len(cell) for cell in lists}) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    if not cells or not all(isinstance(cell, Mapping) for cell in cells):
        return None
    if is_table:
        # `DataFrame.to_json` numbers the cells of each column.
        numbers = names_in(cells)
        return [{name: column.get(number) for name, column in document.items()} for number in numbers]
    return [{"key" if "id" in cell else "id": key, **cell} for key, cell in document.items()]
