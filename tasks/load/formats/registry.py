"""All formats: which one a file has, seen from its first rows, and its rows as that format reads them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import WIDE, is_there, is_usual, usual_names, value
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
from answerkey.tasks.load.formats.promptfoo import EXPECTED, expected_in
from answerkey.tasks.load.formats.promptfoo import recognise as recognise_promptfoo
from answerkey.tasks.load.formats.table import TABLE
from answerkey.tasks.load.plain import CSV, EXCEL, KeyTwice, kind_of
from answerkey.tasks.load.rows import Raw, Record, item_row
from answerkey.tasks.load.sources import called

PLAIN = Format("plain", "rows with columns", lambda _records, _mapped: None)
"""Whatever no other format is: columns are recognised by their names."""

PROMPTFOO = replace(TABLE["promptfoo"], recognise=recognise_promptfoo)
FORMATS = {**TABLE, "promptfoo": PROMPTFOO, "plain": PLAIN}
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
    def is_made(self) -> bool:
        """Whether a format makes the rows, so that their columns have the names of our keys."""
        return self.format is not PLAIN

    def rows(self, rows: Iterable[Raw]) -> Iterator[Raw]:
        """The rows of a source as the format reads them.

        The rows of a JSON document are numbered through; those of any other row have its number.
        """
        shift = 0
        for raw in rows:
            if self.convert is None and not raw.document:
                # Nearly all rows are such, and there may be millions.
                yield raw if not shift else raw._replace(row=raw.row + shift)
                continue
            number = raw.row + shift
            made = [raw] if raw.record is None else list(self._made(raw, raw.record))
            for place, one in enumerate(made):
                of_file = None if raw.file_row is None else raw.file_row + place * raw.document
                yield Raw(number + place * raw.document, one.record, one.error, one.text, False, raw.file, of_file)
            shift += (max(len(made), 1) - 1) * raw.document

    def _made(self, raw: Raw, record: Record) -> Iterator[Raw]:
        # Each item of a document that is of no format is a row
        for item in _items(raw, record) if raw.document and not self.is_made else [raw]:
            if item.record is None or self.convert is None:
                yield item
                continue
            try:
                for made in self.convert(item.record):
                    if isinstance(made, Unreadable):
                        yield self._refused(raw, made.item, made.error)
                    else:
                        yield Raw(raw.row, self._with_scores(made) if self.is_made else made)
            except UNREADABLE as error:
                yield self._refused(raw, item.record, error)

    def _with_scores(self, made: Row) -> Row:
        """A row whose scores are METRIC.FIELD, also as columns, so that they can be labels or slices."""
        if not isinstance(made.get("scores"), Mapping):
            return made
        tool = self.format.name.replace("-", "_")
        named = {name if "." in name else f"{tool}.{name}": one for name, one in made["scores"].items()}
        return {**made, **named, "scores": named} if named else made

    def _refused(self, raw: Raw, item: Any, error: Exception) -> Raw:
        why = str(error) if isinstance(error, ValueError) else f"is not what is in a row of {self.format.title}"
        return Raw(raw.row, None, why, json.dumps(item, ensure_ascii=False, default=str))


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
    first = list(itertools.islice(rows, 1))
    if first and not first[0].document:
        first += itertools.islice(rows, LOOK_AHEAD - 1)
    records = [Document(raw.record) if raw.document else raw.record for raw in first if raw.record is not None]
    reading = recognise(records, source, chosen, mapped)
    if (
        reading.convert
        and reading.is_made
        and kind_of(((first[0].file if first else None) or source).split("?", 1)[0]) in (*CSV, *EXCEL)
    ):
        reading = replace(reading, convert=partial(_of_cells, reading.convert))
    if first and wide:
        there = list(itertools.islice(_records_of(reading.rows(first)), LOOK_AHEAD))
        if missing := [name for name in wide if not any(is_there(record, name) for record in there)]:
            names = ", ".join(dict.fromkeys(name for record in there for name in record))
            raise UserError(f"{called(source)}: no column {missing[0]!r} (for --wide); the columns are {names}")
        reading = replace(reading, convert=partial(_by_release, wide))
    read = reading.rows(itertools.chain(first, rows))
    head = list(itertools.islice(read, LOOK_AHEAD))
    if not head and reading.is_made:
        raise UserError(f"{called(source)}: {reading.format.title}, which has no answers besides the expected ones")
    if not head:
        raise UserError(f"{called(source)}: no rows; it needs at least one")
    records = list(_records_of(head))
    if not records:
        none = f"none of the first {len(head)} rows can be read: " if len(head) > 1 else ""
        raise UserError(f"{called(source)}: {none}{head[0].error}")
    return Opened(reading, records, itertools.chain(head, read))


def _records_of(rows: Iterable[Raw]) -> Iterator[Record]:
    """The records of the rows that can be read."""
    return (raw.record for raw in rows if raw.record is not None)


def _by_release(wide: Sequence[str], record: Record) -> Iterator[Row]:
    """The rows that a row with one column per release becomes."""
    others = {name: cell for name, cell in record.items() if name not in wide}
    for name in wide:
        yield {**others, WIDE["answer"]: value(record, name), WIDE["release"]: name}


def _with_cells(readers: Mapping[str, Callable[[Any], Any]], record: Record) -> Iterator[Row]:
    """A row whose cells are read as the JSON or the chats that they hold."""
    yield {**record, **{name: read(record[name]) for name, read in readers.items() if name in record}}


def _of_cells(convert: Convert, record: Record) -> Iterable[Row | Unreadable]:
    """The rows of a record whose cells hold objects and lists as JSON, for tables have nothing but texts.

    A list of anything else than texts and objects may be an answer, and stays a text; so does an object in a column
    such as `outputs.answer`, which has one part of an object already.
    """
    cells = {}
    for name, cell in record.items():
        found = decoded(cell)
        is_part = "." in name and not isinstance(found, list)
        is_answer = isinstance(found, list) and not all(isinstance(one, str | dict) for one in found)
        cells[name] = cell if is_part or is_answer else found
    return convert(cells)


def recognise(records: Sequence[Record], source: str, chosen: str = "", mapped: Sequence[str] = ()) -> Reading:
    """How to read the rows of a source, from its first records.

    Raises:
        UserError: two formats fit, or the chosen one does not.
    """
    if chosen:
        fit = _fit(FORMATS[chosen], records, mapped)
        if fit is None and chosen != PLAIN.name:
            raise UserError(f"{called(source)}: this is not {FORMATS[chosen].title}; leave --format out")
        return Reading(FORMATS[chosen], fit.convert, fit.unread) if fit else Reading(PLAIN)
    fitting = []
    for format in FORMATS.values():
        if records and (fit := _fit(format, records, mapped)):
            fitting.append(Reading(format, fit.convert, fit.unread))
    if len(fitting) > 1 and len({json.dumps(_first(reading, records), default=str) for reading in fitting}) > 1:
        titles = " and ".join(reading.format.title for reading in fitting)
        options = " or ".join(f"--format {reading.format.name}" for reading in fitting)
        raise UserError(f"{called(source)}: fits {titles}; say which with {options}")
    if fitting:
        return fitting[0]
    readers = dict(_cells(records))
    return Reading(PLAIN, partial(_with_cells, readers) if readers else None)


def _cells(records: Sequence[Record]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The columns in which every cell is a chat, or a text in the quotes of JSON; one cell alone may be a quotation."""
    chats = {name: question_in for name in usual_names("question")} | {
        name: lambda cell: answer_in(decoded(cell)) for name in usual_names("answer")
    }
    for name in records[0] if records else ():
        if EXPECTED.fullmatch(name):
            yield name, expected_in
            continue
        cells = [cell for one in records if (cell := one.get(name)) not in (None, "")]
        found = [decoded(cell) for cell in cells if not _has_key_twice(decoded, cell)]
        if found and name in chats and all(is_chat(one) or (has(one, "messages") and len(one) == 1) for one in found):
            yield name, chats[name]
        if len(cells) > 1 and all(isinstance(one, str) and one[:1] == '"' and decoded(one) != one for one in cells):
            yield name, decoded


def _fit(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Fit | None:
    """How a format reads these records: as they are, or as a document with one list of them."""
    if fit := _recognised(format, records, mapped):
        return fit
    inner = items(_list_in(records[0]))[:LOOK_AHEAD] if len(records) == 1 else []
    fit = _recognised(format, inner, mapped) if inner else None
    return replace(fit, convert=lambda document: each(_list_in(document), fit.convert)) if fit else None


def _recognised(format: Format, records: Sequence[Record], mapped: Sequence[str]) -> Fit | None:
    try:
        return format.recognise(records, mapped)
    except KeyTwice:
        # The rows of such cells are refused where they are read; the others say what the file is.
        sound = [
            record
            for record in records
            if not _has_key_twice(lambda record: format.recognise([record], mapped), record)
        ]
        return format.recognise(sound, mapped) if sound else None


def _has_key_twice(read: Callable[[Any], object], what: Any) -> bool:
    try:
        read(what)
    except KeyTwice:
        return True
    return False


def _list_in(document: Record) -> list[Any] | None:
    """The rows of a JSON document: its only list, its columns, or its objects by their ids; None of any other."""
    cells = list(document.values())
    lists = [one for one in cells if isinstance(one, list)]
    if len(lists) == 1:
        return lists[0]
    of_columns = any(map(is_usual, document))
    if of_columns and len(lists) == len(cells) and len({len(one) for one in lists}) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    if not cells or not all(isinstance(one, Mapping) for one in cells):
        return None
    if of_columns:
        # `DataFrame.to_json` numbers the cells of each column.
        numbers = dict.fromkeys(number for column in cells for number in column)
        return [{name: column.get(number) for name, column in document.items()} for number in numbers]
    return [{"key" if "id" in one else "id": key, **one} for key, one in document.items()]


def _first(reading: Reading, records: Sequence[Record]) -> list[Row]:
    """The first rows, by which two readings are told apart."""
    rows = reading.rows(Raw(1, record) for record in records)
    return [dict(raw.record or {}) for raw in itertools.islice(rows, LOOK_AHEAD)]


def _items(raw: Raw, document: Record) -> Iterator[Raw]:
    """The objects in the only list of a JSON document."""
    if (rows := _list_in(document)) is None:
        known = ", ".join(name for name in FORMATS if name != PLAIN.name)
        yield Raw(
            raw.row,
            None,
            "expected a list of objects, an object with one list of them, or objects by their ids; it has "
            f"{', '.join(document) or 'nothing'}, which is none of the formats known here: {known}",
            json.dumps(document, ensure_ascii=False, default=str),
        )
        return
    for number, item in enumerate(rows, start=1):
        yield item_row(number, item)
