"""All formats: which one a file has, seen from its first rows, and its rows as that format reads them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import WIDE, is_there, is_usual, names_in, usual_names, value
from answerkey.tasks.load.formats.format import (
    UNREADABLE,
    Convert,
    Document,
    Fit,
    Format,
    Row,
    Unreadable,
    answer_in,
    decoded,
    each,
    has,
    is_chat,
    items,
    question_in,
)
from answerkey.tasks.load.formats.from_yaml import YAML_FORMATS
from answerkey.tasks.load.formats.promptfoo import EXPECTED, expected_in
from answerkey.tasks.load.formats.promptfoo import recognise as recognise_promptfoo
from answerkey.tasks.load.plain import CSV, EXCEL, KeyTwice, kind_of
from answerkey.tasks.load.rows import Raw, Record, item_row
from answerkey.tasks.load.sources import called

PLAIN = Format("plain", "rows with columns", lambda _records, _mapped: None)
"""Whatever no other format is: columns are recognised by their names."""

PROMPTFOO = replace(YAML_FORMATS["promptfoo"], recognise=recognise_promptfoo)
FORMATS = {**YAML_FORMATS, "promptfoo": PROMPTFOO, "plain": PLAIN}
"""By the name that the option `--format` takes."""

LOOK_AHEAD = 100
"""Rows from which format and columns are recognised: the first row alone may lack some."""


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
            # Only a document becomes several rows, which are numbered
            step = 1 if raw.document else 0
            number = raw.row + shift
            converted = [raw] if raw.record is None else list(self._convert(raw, raw.record))
            for index, row in enumerate(converted):
                position = index * step
                file_row = None if raw.file_row is None else raw.file_row + position
                yield row._replace(row=number + position, document=False, file=raw.file, file_row=file_row)
            shift += (max(len(converted), 1) - 1) * step

    def _convert(self, raw: Raw, record: Record) -> Iterator[Raw]:
        # Each item of a document that is of no format is a row
        for item in _document_rows(raw, record) if raw.document and not self.is_converted else [raw]:
            if item.record is None or self.convert is None:
                yield item
                continue
            try:
                for row in self.convert(item.record):
                    if isinstance(row, Unreadable):
                        yield self._unreadable_row(raw, row.item, row.error)
                    else:
                        yield Raw(raw.row, self._with_scores(row) if self.is_converted else row)
            except UNREADABLE as error:
                yield self._unreadable_row(raw, item.record, error)

    def _with_scores(self, row: Row) -> Row:
        """A row whose scores are METRIC.FIELD, also as columns, so that they can be labels or slices."""
        if not isinstance(row.get("scores"), Mapping):
            return row
        tool = self.format.name.replace("-", "_")
        scores = {name if "." in name else f"{tool}.{name}": score for name, score in row["scores"].items()}
        return {**row, **scores, "scores": scores} if scores else row

    def _unreadable_row(self, raw: Raw, item: Any, error: Exception) -> Raw:
        reason = str(error) if isinstance(error, ValueError) else f"is not what is in a row of {self.format.title}"
        return Raw(raw.row, None, reason, json.dumps(item, ensure_ascii=False, default=str))


AS_IT_STANDS = Reading(PLAIN)


@dataclass(frozen=True, slots=True)
class Opened:
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


def _read_columns(readers: Mapping[str, Callable[[Any], Any]], record: Record) -> Iterator[Row]:
    """Yield a row whose cells are read as the JSON or the chats that they hold."""
    yield {**record, **{name: read_cell(record[name]) for name, read_cell in readers.items() if name in record}}


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
    if chosen:
        reading = _reading(FORMATS[chosen], records, mapped)
        if reading is None and chosen != PLAIN.name:
            raise UserError(f"{called(source)}: this is not {FORMATS[chosen].title}; leave --format out")
        return reading or AS_IT_STANDS
    # Two formats that read the same rows are no doubt
    readings = [_reading(format, records, mapped) for format in FORMATS.values() if records]
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
    readers = dict(_columns_of_json(records))
    return Reading(PLAIN, partial(_read_columns, readers) if readers else None)


def _columns_of_json(records: Sequence[Record]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the columns whose cells are all chats, or texts in the quotes of JSON; a single cell may be a quotation."""
    chats: dict[str, Callable[[Any], Any]] = dict.fromkeys(usual_names("question"), question_in)
    chats |= dict.fromkeys(usual_names("answer"), lambda cell: answer_in(decoded(cell)))
    for name in records[0] if records else ():
        if EXPECTED.fullmatch(name):
            yield name, expected_in
            continue
        cells = [record[name] for record in records if record.get(name) not in (None, "")]
        contents = [decoded(cell) for cell in cells if not _has_key_twice(decoded, cell)]
        are_chats = [is_chat(content) or (has(content, "messages") and len(content) == 1) for content in contents]
        if name in chats and are_chats and all(are_chats):
            yield name, chats[name]
        quoted = [cell for cell in cells if isinstance(cell, str) and cell[:1] == '"' and decoded(cell) != cell]
        if len(cells) > 1 and quoted == cells:
            yield name, decoded


def _reading(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Reading | None:
    """Return how a format reads these records: as they are, or as a document with one list of them."""
    if fit := _recognised(format, records, mapped):
        return Reading(format, fit.convert, fit.unread)
    inner = items(_list_in(records[0]))[:LOOK_AHEAD] if len(records) == 1 else []
    fit = _recognised(format, inner, mapped) if inner else None
    return Reading(format, lambda document: each(_list_in(document), fit.convert), fit.unread) if fit else None


def _recognised(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Fit | None:
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


def _document_rows(raw: Raw, document: Record) -> Iterator[Raw]:
    """The objects in the only list of a JSON document."""
    if (rows := _list_in(document)) is None:
        formats = ", ".join(name for name in FORMATS if name != PLAIN.name)
        yield Raw(
            raw.row,
            None,
            "expected a list of objects, an object with one list of them, or objects by their ids; it has "
            f"{', '.join(document) or 'nothing'}, which is none of the formats known here: {formats}",
            json.dumps(document, ensure_ascii=False, default=str),
        )
        return
    for number, item in enumerate(rows, start=1):
        yield item_row(number, item)
