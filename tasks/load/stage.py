"""One row of a source becomes one staged row: texts cleaned, references joined, keys computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import Sample, content_hash
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.columns import ColumnMap, Key, as_text, as_texts, value
from answerkey.tasks.load.sources import Raw


@dataclass(frozen=True, slots=True)
class Reference:
    """The part of a sample that does not depend on any release."""

    sample_id: str
    question: str | None
    references: tuple[str, ...]
    facts: tuple[str, ...]
    cluster: str | None
    slices: tuple[tuple[str, str | None], ...] = ()

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
            raise UserError(f"{source}, row {raw.row}: {error}; mend or remove the row") from error
        if not fields["sample_id"]:
            raise UserError(f"{source}, row {raw.row}: the id is missing; give every row one")
        return cls(**fields, slices=slices)

    @property
    def hash(self) -> str:
        """`sample_hash`: what the data set version is made of."""
        return content_hash([self.sample_id, self.question, self.references, self.facts, self.cluster])


def sample_fields(record: Mapping[str, Any], columns: ColumnMap) -> dict[str, Any]:
    """The fields of `Reference` found in a record.

    Raises:
        ValueError: a column is not a text, or not a list of texts.
    """
    paths = columns.paths
    return {
        "sample_id": clean(_text(record, paths, "id")),
        "question": clean(_text(record, paths, "question")),
        "references": _texts(record, paths, "references"),
        "facts": _texts(record, paths, "facts"),
        "cluster": clean(_text(record, paths, "cluster")),
    }


def _text(record: Mapping[str, Any], paths: Mapping[Key, str], key: Key) -> str | None:
    try:
        return as_text(value(record, paths.get(key)))
    except ValueError as error:
        raise ValueError(f"{key} ({paths[key]}) {error}") from error


def _texts(record: Mapping[str, Any], paths: Mapping[Key, str], key: Key) -> tuple[str, ...]:
    try:
        return tuple(clean(text) or "" for text in as_texts(value(record, paths.get(key))))
    except ValueError as error:
        raise ValueError(f"{key} ({paths[key]}) {error}") from error


def clean(text: str | None) -> str | None:
    """Lone surrogates, which no file format can hold, become U+FFFD for validation to find."""
    if text is None or text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Stager:
    """Turns one raw row into one staged row."""

    columns: ColumnMap
    release: str
    known: Mapping[str, Reference] | None

    def stage(self, raw: Raw) -> dict[str, Any]:
        """The staged row.

        Raises:
            ValueError: the row has no record, or a column of it is not a text.
        """
        if raw.record is None:
            raise ValueError(raw.error)
        record, paths = raw.record, self.columns.paths
        own = Reference(**sample_fields(record, self.columns))
        reference = self._joined(own)
        if not reference.sample_id and "id" not in paths:
            reference = replace(own, sample_id=content_hash([own.question, own.references]))
        # A references file may hold references only; what was asked then stands beside the answer.
        question = own.question if reference.question is None else reference.question
        answer = clean(_text(record, paths, "answer"))
        missing = clean(_text(record, paths, "missing_because")) if is_blank(answer) else None
        missing = None if is_blank(missing) else missing
        key = Sample(reference.sample_id, answer, reference.references, question, reference.facts).key
        return {
            "row": raw.row,
            "sample_id": reference.sample_id,
            "release": self.release or clean(_text(record, paths, "release")),
            "question": question,
            "answer": answer,
            "missing_because": missing,
            "references": reference.references,
            "facts": reference.facts,
            "cluster": reference.cluster,
            "label": clean(_text(record, paths, "label")),
            "correct": None,
            "slices": self._slices(record, reference),
            # An answer that is not there is no blank one: it has no measurement, and takes none from another release.
            "sample_key": key if missing is None else content_hash([key, "missing"]),
            "sample_hash": reference.hash,
        }

    def _joined(self, own: Reference) -> Reference:
        """The row of the references file. An id that it lacks has no references, and validation says so."""
        if self.known is None:
            return own
        return self.known.get(own.sample_id) or replace(own, references=(), facts=())

    def _slices(self, record: Mapping[str, Any], reference: Reference) -> list[tuple[str, str]]:
        known = dict(reference.slices)
        found = []
        for path in self.columns.slices:
            text = clean(as_text(value(record, path)))
            text = known.get(path) if text is None else text
            found.append((path, "(none)" if text is None else text))
        return found


def refused(raw: Raw, reason: str) -> dict[str, Any]:
    """The quarantine row of a raw row that could not be staged."""
    text = raw.text if raw.record is None else json.dumps(raw.record, ensure_ascii=False, default=str)
    return {
        "row": raw.row,
        "sample_id": None,
        "release": None,
        "rule": "unreadable",
        "reason": clean(reason),
        "raw": clean(text),
    }
