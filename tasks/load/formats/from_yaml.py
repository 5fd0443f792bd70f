"""The interpreter of `formats.yaml`: which shape records have, and the rows that they become."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from answerkey.tasks.load.columns import is_there, usual_names, value
from answerkey.tasks.load.formats import special
from answerkey.tasks.load.formats.format import (
    NOTED,
    Convert,
    Fit,
    Format,
    Row,
    Unreadable,
    answer_in,
    decoded,
    each,
    is_chat,
    question_in,
    references_in,
    row,
    seconds,
)
from answerkey.tasks.load.given import given, is_given, names_of_scores
from answerkey.tasks.load.rows import Record

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
            cell = _first_filled(record, document, paths)
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


def _first_filled(record: Record, document: Record, paths: Sequence[str]) -> Any:
    """What stands at the first path that leads to anything; a blank text only where that is all."""
    cells = [_cell_at(record, document, path) for path in paths]
    return next((cell for cell in cells if cell not in _EMPTY), "" if "" in cells else None)


def _cell_at(record: Record, document: Record, path: str) -> Any:
    return value(document, path[1:]) if path.startswith("/") else value(record, path)


def _items_of(document: Record, paths: Sequence[str]) -> list[Any]:
    """The items of a document."""
    return next((cell for path in paths if isinstance(cell := value(document, path), list)), [])


def recognise(shapes: Sequence[Shape], records: Sequence[Record], mapped: Sequence[str] = ()) -> Fit | None:
    """Return how the first shape that fits reads these records, None where none does."""
    for shape in shapes:
        if not all(_has(records[0], name) for name in shape.first):
            continue
        if shape.condition and not getattr(special, shape.condition)(records):
            continue
        if not all(_has(record, name) for name in shape.within for record in records):
            continue
        # Each record is a document with items, or all of them are items
        documents: list[tuple[Record, Sequence[Any]]] = [(records[0], records)]
        if shape.items:
            documents = [(record, _items_of(record, shape.items)) for record in records]
        prepared = []
        for document, entries in documents:
            for entry in entries:
                # What is no item of this shape says nothing of the others
                with suppress(TypeError, ValueError):
                    prepared.append(shape.prepared(entry, document))
        is_filled = bool(prepared) and all(entries for _, entries in documents)
        if (is_filled or shape.within) and all(map(shape.fits, prepared)):
            convert: Convert = partial(shape.rows, document=records[0], mapped=mapped)
            return Fit(partial(_document_rows, shape, mapped) if shape.items else convert, shape.unread(prepared))
    return None


def _document_rows(shape: Shape, mapped: Sequence[str], document: Record) -> Iterator[Row | Unreadable]:
    return each(_items_of(document, shape.items), partial(shape.rows, document=document, mapped=mapped))


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


def _shape(entry: Mapping[str, Any]) -> Shape:
    columns = {key: _expanded(paths) for key, paths in entry.get("columns", {}).items()}
    has = ["|".join(_expanded(names.split("|"))) for names in entry.get("has", ())]
    return Shape(**{**entry, "columns": columns, "has": has, "never": _expanded(entry.get("never", ()))})


_ENTRIES = yaml.safe_load(Path(__file__).with_name("formats.yaml").read_text(encoding="utf-8"))
YAML_FORMATS = {
    name: Format(
        name=name,
        title=entry["title"],
        recognise=partial(recognise, tuple(map(_shape, entry.get("shapes", ())))),
        releases=entry.get("releases", ""),
    )
    for name, entry in _ENTRIES.items()
}
"""By name; promptfoo, which has a module, is recognised by nothing here."""
