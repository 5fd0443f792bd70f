"""The questions of a data set, from a file or from the warehouse, and what of each a prompt shows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.llm.generate import placeholders
from answerkey.metrics_core.text import is_blank
from answerkey.tasks.load.columns import (
    ColumnMap,
    as_text,
    clean,
    complete,
    is_there,
    steps,
    usual_names,
    value,
)
from answerkey.tasks.load.formats.registry import opened
from answerkey.tasks.load.load import Source, dataset_name
from answerkey.tasks.load.plain import Record
from answerkey.tasks.load.references import Reference
from answerkey.tasks.load.remote import URL, without_secrets
from answerkey.tasks.load.sources import DUCKDB_TABLE, SHEET, read
from answerkey.tasks.releases.export import stored_references
from answerkey.tasks.warehouse.home import Home

_LONGEST_NAME = 256
_HIDDEN: tuple[Key, ...] = ("references", "facts", "label", "incorrect_references")
"""What a model under test must not be shown."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Where the questions of a data set are.

    `known` names the file in which its right answers are: None where the warehouse has them. `paths` are those that
    the user gave, or where they are in a file that was written from the warehouse.
    """

    dataset: str
    source: str
    known: str | None
    paths: Mapping[Key, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One sample, and the values of the template's placeholders; `blank` where there is nothing to ask."""

    sample_id: str
    text: str | None
    values: Mapping[str, str]
    blank: bool


def text_or_file(prompt: str) -> str:
    """A prompt that was given as a text, or as the path of a text file; without the file's last line break.

    Raises:
        UserError: it looks like the name of a text file that does not exist; or the file is not text.
    """
    # What cannot be the name of a file is the prompt itself
    name = prompt.strip()
    if "\n" in name or not 0 < len(name) < _LONGEST_NAME:
        return prompt
    if Path(name).is_file():
        try:
            return Path(name).read_text(encoding="utf-8").rstrip("\n")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}: not a text in UTF-8 ({error})") from error
    if re.fullmatch(r"\S+\.(txt|md)", name):
        raise UserError(f"{name}: there is no such file")
    return prompt


def find_questions(
    home: Home,
    dataset: str,
    work: Path,
    *,
    name: str = "",
    paths: Mapping[Key, str] | None = None,
    slices: Sequence[str] = (),
) -> QuestionSet:
    """The data set in a file, or the one that the warehouse in `home` knows by this name.

    Args:
        dataset: a file, table or URL as `answerkey evaluate` takes it, or a name.
        work: a folder for the questions of a data set in the warehouse.
        name: of the data set in a file; empty: the file's.
        paths, slices: of a file.

    Raises:
        UserError: there is neither, or no usable name.
    """
    if any(kind.match(dataset) for kind in (URL, DUCKDB_TABLE, SHEET)) or Path(dataset).is_file():
        dataset_of_file = dataset_name(Source(dataset, dataset=name))
        return QuestionSet(dataset_of_file, dataset, dataset, dict(paths or {}), tuple(slices))
    # A data set of the warehouse, whose columns and slices are known
    rows = []
    if home.warehouse.exists():
        rows = home.rows("SELECT DISTINCT dataset FROM datasets ORDER BY dataset")
    names = [str(dataset_of_row) for (dataset_of_row,) in rows]
    if dataset not in names:
        choices = f"there are {', '.join(names)}" if names else "there is none yet"
        raise UserError(f"{dataset}: no such file, and no data set of this name in {home} ({choices})")
    if name or paths or slices:
        raise UserError(f"{dataset}: a data set of the warehouse has its own name, columns and slices; give none")
    work.mkdir(parents=True, exist_ok=True)
    file = work / "questions.jsonl"
    stored = stored_references(home, dataset, file, questions=True)
    assert stored is not None
    return QuestionSet(dataset, str(file), None, stored[0])


def questions(question_set: QuestionSet, template: str, work: Path) -> Iterator[Question]:
    """The questions in the order of their source, each id once.

    Raises:
        UserError: the template names no column, or one that is not there or must not be shown; ids, or the right
            answers, are not there; a row cannot be read.
    """
    source = opened(read(question_set.source, work), question_set.source)
    columns = complete(
        question_set.paths,
        question_set.slices,
        source.records,
        _source_name(question_set),
        converted=source.reading.is_converted,
    )
    needed: tuple[Key, ...] = ("id", "references") if question_set.known else ("id",)
    for key in needed:
        if key not in columns.paths:
            raise UserError(
                f"{_source_name(question_set)}: no column for {key} was recognised; name it with --map {key}=COLUMN"
            )

    # A question for each id, with what the template shows of it
    paths = _placeholder_paths(question_set, template, columns, source.records)
    hash_by_id: dict[str, str] = {}
    for raw in source.rows:
        sample = Reference.of(raw, replace(columns, slices=()), _source_name(question_set))
        content = sample.hash
        first_hash = hash_by_id.setdefault(sample.sample_id, content)
        if first_hash != content:
            raise UserError(
                f"{_source_name(question_set)}: id {sample.sample_id!r} occurs again in row {raw.row} with different "
                f"content; keep one row per id"
            )
        if first_hash is not content:
            continue
        values = {name: _text(raw.record or {}, path, question_set, raw.row) for name, path in paths.items()}
        # A language or a topic asks nothing by itself.
        asking_texts = [values["question"]] if "question" in values else values.values()
        yield Question(sample.sample_id, sample.question, values, all(map(is_blank, asking_texts)))


def _placeholder_paths(
    question_set: QuestionSet, template: str, columns: ColumnMap, records: Sequence[Record]
) -> dict[str, str]:
    """Return where the value of each placeholder is.

    Raises:
        UserError: a placeholder has no column, or one with what a model under test must not be shown.
    """
    if not (names := placeholders(template)):
        raise UserError("template: it names no column, so every question would be the same; write {question} into it")

    # What a model under test must not be shown, by mapping or by its usual names. What stands beside one item of a list
    # of references is another reference
    hidden_paths = [[name] for name in usual_names("references", "facts", "incorrect_references")]
    for key in _HIDDEN:
        if key in columns.paths:
            key_steps = steps(columns.paths[key])
            unnumbered = itertools.takewhile(lambda step: not step.isdecimal(), key_steps[1:])
            hidden_paths.append([*key_steps[:1], *unnumbered])
    paths = {}
    for name in names:
        # A key stands for its column, whatever that is called.
        path = columns.paths.get(name, name)  # type: ignore[call-overload]
        path_steps = steps(path)
        if any(path_steps[: len(hidden_path)] == hidden_path[: len(path_steps)] for hidden_path in hidden_paths):
            raise UserError(f"template: {{{name}}} has what answers are measured by, which the model must not see")
        if not any(is_there(record, path, but_null=True) for record in records):
            # Of a data set in the warehouse, all fields but the slices are in one column without a name of its own
            columns_of_records = dict.fromkeys(("question", *itertools.chain.from_iterable(records)))
            choices = [
                column
                for column in columns_of_records
                if not column.startswith("_") and steps(column) not in hidden_paths
            ]
            raise UserError(
                f"template: {_source_name(question_set)} has no column {name!r} with a text; there are "
                f"{', '.join(choices)}"
            )
        paths[name] = path
    return paths


def _text(record: Record, path: str, question_set: QuestionSet, row: int) -> str:
    try:
        return clean(as_text(value(record, path))) or ""
    except ValueError as error:
        raise UserError(
            f"{_source_name(question_set)}, row {row}: {path} {error}; correct the row or template"
        ) from error


def _source_name(question_set: QuestionSet) -> str:
    """The source as messages name it."""
    return without_secrets(question_set.source) if question_set.known else f"the data set {question_set.dataset}"
