"""Write what the warehouse holds back into files that can be loaded again, with the same content and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.frame import Key
from answerkey.tasks.load.load import Source
from answerkey.tasks.load.references import Reference
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

# Apart from the columns of slices, which may be called anything.
_FIELDS = "_sample"
_REFERENCE_KEYS: tuple[Key, ...] = ("id", "question", "references", "facts", "cluster", "incorrect_references")
_REFERENCE_PATHS = {key: f"{_FIELDS}.{key}" for key in _REFERENCE_KEYS}
_ANSWER_KEYS: tuple[Key, ...] = (
    "id", "question", "answer", "label", "missing_because", "repeat", "context", "scores",
)  # fmt: skip
_ANSWER_PATHS = {key: f"{_FIELDS}.{key}" for key in _ANSWER_KEYS}
_BATCH = 2_000
_SQL = statements(__name__)


def stored_references(
    home: Home, dataset: str, file: Path, *, questions: bool = False
) -> tuple[dict[Key, str], tuple[str, ...]] | None:
    """Write the newest version of a data set to `file`, with the slices that any release's answers have.

    Args:
        questions: whether questions that stood beside answers are written too.

    Returns:
        Where its columns are, and the slices; None where there is no such data set.
    """
    with home.warehouse.reading() as warehouse:
        newest = warehouse.execute(_SQL["newest_version"], {"dataset": dataset}).fetchone()
        if newest is None:
            return None
        version = {"dataset": dataset, "version": str(newest[0]), "release": None, "answers_version": None}
        _write_references(warehouse, version, file, questions=questions)
        slices = warehouse.execute(_SQL["slices"], {"dataset": dataset}).fetchall()
    return dict(_REFERENCE_PATHS), tuple(str(name) for (name,) in slices)


def stored_answers(home: Home, dataset: str, version: str, release: str, answers_version: str, folder: Path) -> Source:
    """Write the answers of a release, and the version of the data set that they answer, into `folder`.

    Loaded again they make the same data set version, answers version and sample keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answers = folder / "stored-answers.jsonl"
    references = folder / "stored-references.jsonl"
    parameters = {"dataset": dataset, "version": version, "release": release, "answers_version": answers_version}
    # One line for each answer; slices and columns are found on the way
    slices: set[str] = set()
    columns: set[str] = set()
    with home.warehouse.reading() as warehouse:
        with answers.open("w", encoding="utf-8") as out:
            for *texts, slice_values, own_columns in _fetch(warehouse, "answers", parameters):
                slices |= set(slice_values or {})
                columns |= set(own_columns or {})
                row = {**(slice_values or {}), **(own_columns or {})}
                row[_FIELDS] = dict(zip(_ANSWER_PATHS, texts, strict=True))
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        _write_references(warehouse, parameters, references)
    return Source(
        answers=str(answers),
        references=str(references),
        dataset=dataset,
        release=release,
        paths=_ANSWER_PATHS,
        reference_paths=_REFERENCE_PATHS,
        slices=tuple(sorted(slices)),
        columns=tuple(sorted(columns)),
    )


def _write_references(
    warehouse: duckdb.DuckDBPyConnection, parameters: Mapping[str, str | None], file: Path, *, questions: bool = False
) -> None:
    """Write a data set version, with the slices that its samples have in the answers that `parameters` name."""
    # Whether the questions came with the references: those that stood beside the answers are in no version
    with_questions = questions
    if not questions:
        digest = hashlib.md5(usedforsecurity=False)
        for *row, _ in _fetch(warehouse, "samples", parameters):
            digest.update(Reference.stored(row)._replace(question=None).hash.encode())
        with_questions = digest.hexdigest()[:12] != parameters["version"]

    # One line for each sample
    with file.open("w", encoding="utf-8") as out:
        for sample_id, question, references, facts, cluster, incorrect, slices in _fetch(
            warehouse, "samples", parameters
        ):
            fields = {"id": sample_id, "references": references, "facts": facts, "cluster": cluster}
            fields["incorrect_references"] = incorrect
            fields["question"] = question if with_questions else None
            out.write(json.dumps({**(slices or {}), _FIELDS: fields}, ensure_ascii=False) + "\n")


def _fetch(
    warehouse: duckdb.DuckDBPyConnection, name: str, parameters: Mapping[str, str | None]
) -> Iterator[tuple[Any, ...]]:
    rows = warehouse.execute(_SQL[name], parameters)
    while batch := rows.fetchmany(_BATCH):
        yield from batch
