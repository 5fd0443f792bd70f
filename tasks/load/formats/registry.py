"""All formats: which one a file has, seen from its first rows, and its rows as that format reads them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.tasks.load.columns import (
    WIDE,
    ColumnMap,
    complete,
    is_there,
    is_usual,
    usual_names,
    value,
)
from answerkey.tasks.load.formats.format import (
    UNREADABLE,
    Convert,
    Document,
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
from answerkey.tasks.load.formats.promptfoo import EXPECTED, PROMPTFOO, expected_in
from answerkey.tasks.load.formats.tools import TOOLS
from answerkey.tasks.load.plain import CSV, EXCEL, KeyTwice, kind_of
from answerkey.tasks.load.rows import Raw, Record, item_row
from answerkey.tasks.load.sources import called


def _nothing(_records: Sequence[Record]) -> None:
    return None


PLAIN = Format("plain", "rows with columns", _nothing)
"""Whatever no other format is: columns are recognised by their names."""

FORMATS = {one.name: one for one in (PROMPTFOO, *TOOLS, PLAIN)}
"""By the name that the option `--format` takes."""

_LOOKED_AT = 3
"""Records, or items of a document, in which fields that are not read are looked for."""
_EMPTY: tuple[Any, ...] = (None, "", {}, [])
LOOK_AHEAD = 100
"""Rows from which format and columns are recognised: the first row alone may lack some."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of a source are read: `convert` is None where they are taken as they stand."""

    format: Format
    convert: Convert | None = None
    cells: tuple[tuple[str, Callable[[Any], Any]], ...] = ()
    """Columns of plain rows whose cells hold JSON or chat messages, and what reads them."""
    wide: tuple[str, ...] = ()
    """Columns of plain rows that each have the answers of one release, which is called like the column."""

    def rows(self, rows: Iterable[Raw]) -> Iterator[Raw]:
        """The rows of a source as the format reads them.

        The rows of a JSON document are numbered through; those of any other row have its number.
        """
        shift = 0
        for raw in rows:
            if self.convert is None and not self.cells and not self.wide and not raw.document:
                # Nearly all rows are such, and there may be millions.
                yield raw if not shift else raw._replace(row=raw.row + shift)
                continue
            number = raw.row + shift
            made = [raw] if raw.record is None else list(self._made(raw, raw.record))
            for place, one in enumerate(made):
                of_file = None if raw.file_row is None else raw.file_row + place * raw.document
                yield Raw(number + place * raw.document, one.record, one.error, one.text, False, raw.file, of_file)
            shift += (max(len(made), 1) - 1) * raw.document

    def _decoded(self, record: Record) -> Record:
        return {**record, **{name: read(record[name]) for name, read in self.cells if name in record}}

    def _made(self, raw: Raw, record: Record) -> Iterator[Raw]:
        if self.convert is None:
            for one in _items(raw, record) if raw.document else [raw]:
                try:
                    decoded = one._replace(record=self._decoded(one.record)) if self.cells and one.record else one
                except ValueError as error:
                    yield self._refused(one, one.record, error)
                else:
                    yield from self._by_release(decoded) if self.wide else [decoded]
            return
        try:
            for made in self.convert(record):
                if isinstance(made, Unreadable):
                    yield self._refused(raw, made.item, made.error)
                else:
                    yield Raw(raw.row, self._with_scores(made))
        except UNREADABLE as error:
            yield self._refused(raw, record, error)

    def _with_scores(self, made: Row) -> Row:
        """A row whose scores are METRIC.FIELD, also as columns, so that they can be labels or slices."""
        if not isinstance(made.get("scores"), Mapping):
            return made
        tool = self.format.name.replace("-", "_")
        named = {name if "." in name else f"{tool}.{name}": one for name, one in made["scores"].items()}
        return {**made, **named, "scores": named} if named else made

    def _by_release(self, raw: Raw) -> Iterator[Raw]:
        """The rows that a row with one column per release becomes; one that cannot be read stays as it is."""
        if raw.record is None:
            yield raw
            return
        others = {name: cell for name, cell in raw.record.items() if name not in self.wide}
        for name in self.wide:
            found = {WIDE["answer"]: value(raw.record, name), WIDE["release"]: name}
            yield raw._replace(record={**others, **found})

    def _refused(self, raw: Raw, item: Any, error: Exception) -> Raw:
        why = str(error) if isinstance(error, ValueError) else f"is not what is in a row of {self.format.title}"
        return Raw(raw.row, None, why, json.dumps(item, ensure_ascii=False, default=str))

    def columns(
        self,
        given: Mapping[Key, str],
        slices: Sequence[str],
        records: Sequence[Record],
        source: str,
        elsewhere: Collection[str] = (),
    ) -> ColumnMap:
        """The columns of the rows, as far as the first records show them; see `columns.complete`."""
        return complete(given, slices, records, source, elsewhere, made=self.convert is not None)


AS_IT_STANDS = Reading(PLAIN)


@dataclass(frozen=True, slots=True)
class Opened:
    """The rows of a source as they are read, with the first of them."""

    reading: Reading
    head: Sequence[Raw]
    rows: Iterator[Raw]
    unread: Sequence[str] = ()
    """The fields that the format does not read, each of which has something in one of the first rows."""

    @property
    def records(self) -> list[Record]:
        """The records among the first rows, from which columns are recognised."""
        return records_of(self.head)


def opened(rows: Iterator[Raw], source: str, chosen: str = "", wide: Sequence[str] = ()) -> Opened:
    """Read the rows of a source in their format, and look at the first of them.

    Args:
        source: what it is called in messages.
        chosen: the name of the format, where the user gave one.
        wide: the columns that each have the answers of one release.

    Raises:
        UserError: there is no row, or none that can be read; two formats fit, or the chosen one does not; a column of
            `wide` is not there.
    """
    first = list(itertools.islice(rows, 1))
    if first and not first[0].document:
        first += itertools.islice(rows, LOOK_AHEAD - 1)
    records = [Document(raw.record) if raw.document else raw.record for raw in first if raw.record is not None]
    reading = replace(recognise(records, source, chosen), wide=tuple(wide))
    if reading.convert and kind_of(((first[0].file if first else None) or source).split("?", 1)[0]) in (*CSV, *EXCEL):
        reading = replace(reading, convert=partial(_of_cells, reading.convert))
    read = reading.rows(itertools.chain(first, rows))
    head = list(itertools.islice(read, LOOK_AHEAD))
    if not head and reading.format is not PLAIN:
        raise UserError(f"{called(source)}: {reading.format.title}, which has no answers besides the expected ones")
    if not head:
        raise UserError(f"{called(source)}: no rows; it needs at least one")
    there = list(
        itertools.chain.from_iterable(_items(raw, raw.record) if raw.document else [raw] for raw in first if raw.record)
    )
    if missing := [name for name in wide if not any(is_there(record, name) for record in records_of(there))]:
        names = dict.fromkeys(name for record in records_of(there) for name in record)
        raise UserError(f"{called(source)}: no column {missing[0]!r} (for --wide); the columns are {', '.join(names)}")
    if not records_of(head):
        none = f"none of the first {len(head)} rows can be read: " if len(head) > 1 else ""
        raise UserError(f"{called(source)}: {none}{head[0].error}")
    unread = _unread(reading.convert, records[:_LOOKED_AT]) if reading.convert else []
    return Opened(reading, head, itertools.chain(head, read), unread)


def _unread(convert: Convert, records: Sequence[Record]) -> list[str]:
    """The fields of records, or of the first items of a document, whose content makes no difference to the rows."""
    rows: Sequence[Record] = records
    build: Callable[[list[Record]], list[Record]] = list
    if isinstance(records[0], Document) and (path := _path_of_items(records[0])):
        rows, build = _at(records[0], path)[:_LOOKED_AT], partial(_with_items, records[0], path)
    made = _rows_of(convert, build(list(rows)))

    def matters(*names: str) -> bool:
        return _rows_of(convert, build([_changed_at(one, names) for one in rows])) != made

    found = list[str]()
    for name in _fields(rows):
        inner = [one[name] for one in rows if isinstance(one.get(name), Mapping)]
        found += [f"{name}.{key}" for key in _fields(inner) if not matters(name, key)] if matters(name) else [name]
    return found


def _changed_at(cell: Any, names: Sequence[str]) -> Any:
    """A record with other content at a path of names, where it has any."""
    if not names:
        return _changed(cell)
    if not isinstance(cell, Mapping) or names[0] not in cell:
        return cell
    return {**cell, names[0]: _changed_at(cell[names[0]], names[1:])}


def _fields(records: Sequence[Record]) -> list[str]:
    """The names in records with anything in them."""
    return list(dict.fromkeys(name for one in records for name, cell in one.items() if cell not in _EMPTY))


def _changed(cell: Any) -> Any:
    """A cell of the same shape with other content."""
    if isinstance(cell, Mapping):
        return {name: _changed(one) for name, one in cell.items()}
    if isinstance(cell, list):
        return list(map(_changed, cell))
    if isinstance(cell, str):
        found = cell if _has_key_twice(decoded, cell) else decoded(cell)
        return f"{cell.swapcase()} ~" if isinstance(found, str) else json.dumps(_changed(found))
    if cell is None or isinstance(cell, bool):
        return None if cell is None else not cell
    return cell + 1 if isinstance(cell, int | float) else f"{cell} ~"


def _rows_of(convert: Convert, records: Iterable[Record]) -> list[Any]:
    """What a format makes of records; of one that it cannot read, None."""
    rows = list[Any]()
    for record in records:
        try:
            rows += [one.item if isinstance(one, Unreadable) else one for one in convert(record)]
        except UNREADABLE:
            rows.append(None)
    return rows


def _path_of_items(document: Record, depth: int = 3) -> tuple[str, ...]:
    """The keys that lead to the longest list of objects in a document."""
    paths: list[tuple[str, ...]] = [(name,) for name, cell in document.items() if items(cell)]
    if depth:
        for name, cell in document.items():
            if isinstance(cell, Mapping) and (inner := _path_of_items(cell, depth - 1)):
                paths.append((name, *inner))
    return max(paths, key=lambda path: len(_at(document, path)), default=())


def _at(document: Record, path: Sequence[str]) -> Any:
    return reduce(lambda here, name: here[name], path, document)


def _with_items(document: Record, path: Sequence[str], found: list[Record]) -> list[Record]:
    """A document with other items in place of its own."""
    name, *rest = path
    inner = _with_items(document[name], rest, found)[0] if rest else found
    return [Document({**document, name: inner})]


def records_of(rows: Iterable[Raw]) -> list[Record]:
    """The records of the rows that can be read."""
    return [raw.record for raw in rows if raw.record is not None]


def _of_cells(convert: Convert, record: Record) -> Iterable[Row | Unreadable]:
    """The rows of a record whose cells hold objects and lists as JSON, for tables have nothing but texts."""
    return convert({name: _of_cell(name, cell) for name, cell in record.items()})


def _of_cell(name: str, cell: Any) -> Any:
    """What a cell holds as JSON; a list of anything else than texts and objects may be an answer, and stays a text.

    So does an object in a column such as `outputs.answer`, which has one part of an object already.
    """
    found = decoded(cell)
    if "." in name and not isinstance(found, list):
        return cell
    return found if not isinstance(found, list) or all(isinstance(one, str | dict) for one in found) else cell


def recognise(records: Sequence[Record], source: str, chosen: str = "") -> Reading:
    """How to read the rows of a source, from its first records.

    Raises:
        UserError: two formats fit, or the chosen one does not.
    """
    if chosen:
        convert = _fit(FORMATS[chosen], records)
        if convert is None and chosen != PLAIN.name:
            raise UserError(f"{called(source)}: this is not {FORMATS[chosen].title}; leave --format out")
        return Reading(FORMATS[chosen], convert)
    fitting = [Reading(one, convert) for one in FORMATS.values() if records and (convert := _fit(one, records))]
    if len(fitting) > 1 and len({json.dumps(_first(one, records), default=str) for one in fitting}) > 1:
        titles = " and ".join(one.format.title for one in fitting)
        options = " or ".join(f"--format {one.format.name}" for one in fitting)
        raise UserError(f"{called(source)}: fits {titles}; say which with {options}")
    return fitting[0] if fitting else replace(AS_IT_STANDS, cells=tuple(_cells(records)))


def _cells(records: Sequence[Record]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The columns in which every cell is a chat, or a text in the quotes of JSON; one cell alone may be a quotation."""
    chats = {name: question_in for name in usual_names("question")} | {
        name: _answer_in_cell for name in usual_names("answer")
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


def _answer_in_cell(cell: Any) -> Any:
    return answer_in(decoded(cell))


def _fit(format: Format, records: Sequence[Record]) -> Convert | None:
    """How a format reads these records: as they are, or as a document with one list of them."""
    if convert := _recognised(format, records):
        return convert
    inner = items(_list_in(records[0]))[:LOOK_AHEAD] if len(records) == 1 else []
    convert = _recognised(format, inner) if inner else None
    return partial(_each, convert) if convert else None


def _recognised(format: Format, records: Sequence[Record]) -> Convert | None:
    try:
        return format.recognise(records)
    except KeyTwice:
        # The rows of such cells are refused where they are read; the others say what the file is.
        sound = [one for one in records if not _has_key_twice(format.recognise, [one])]
        return format.recognise(sound) if sound else None


def _has_key_twice(read: Callable[[Any], object], what: Any) -> bool:
    try:
        read(what)
    except KeyTwice:
        return True
    return False


def _each(convert: Convert, document: Record) -> Iterator[Row | Unreadable]:
    return each(_list_in(document), convert)


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
