"""LangSmith: experiments as tables, runs, and the examples of data sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    answer_in,
    has,
    mapping,
    question_in,
    references_in,
    row,
)

_REFERENCE = ("reference_outputs", "reference outputs", "reference", "expected_outputs")
_EXPERIMENT = ("experiment", "experiment_name", "session_name")


_REFERENCES = ("reference.", "reference_outputs.")


def _recognise(records: Sequence[Record]) -> Convert | None:
    convert = _as_named([_in_lower_case(one) for one in records])
    return convert and (lambda record: convert(_in_lower_case(record)))


def _in_lower_case(record: Record) -> Record:
    """A record with the names of its columns as the API has them; tables may say "Reference Outputs"."""
    return {name.lower(): value for name, value in record.items()}


def _as_named(records: Sequence[Record]) -> Convert | None:
    first = records[0]
    known = "example_id" in first or any(_part(first, prefix) for prefix in _REFERENCES)
    if known and _part(first, "inputs.") and _part(first, "outputs."):
        return _flat
    if all(has(one, "inputs", "outputs") and any(name in one for name in _REFERENCE) for one in records):
        return _result
    if all(has(one, "inputs", "outputs") and len(one.keys() - _EXAMPLE) == 0 for one in records):
        return _example
    return None


_EXAMPLE = {
    "id", "inputs", "outputs", "metadata", "dataset_id", "created_at", "modified_at", "split", "source_run_id", "name",
    "attachments", "dataset_name",
}  # fmt: skip
"""What an example of a data set can have: its outputs are the right ones."""


def _part(record: Record, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in record.items() if name.startswith(prefix)}


def _flat(record: Record) -> Iterator[Row]:
    """A row of a table whose columns are called `inputs.question`, `outputs.answer`, `reference.answer`."""
    reference = next(filter(None, (_part(record, prefix) for prefix in _REFERENCES)), {})
    parts = {"inputs": _part(record, "inputs."), "outputs": _part(record, "outputs."), "reference": reference}
    yield from _result({**record, **parts, "id": record.get("example_id") or record.get("id")})


def _result(record: Record) -> Iterator[Row]:
    reference = next((record[name] for name in _REFERENCE if record.get(name) not in (None, "", {})), None)
    answer = record["outputs"] or None
    inputs = mapping(record["inputs"])
    yield row(
        id=record.get("reference_example_id") or record.get("example_id") or record.get("id"),
        question=_only(question_in(record["inputs"])),
        answer=_only(answer_in(answer)),
        references=_only(references_in(reference)),
        context=inputs.get("contexts") or inputs.get("context"),
        release=next((record[name] for name in _EXPERIMENT if record.get(name)), None),
        missing_because=record.get("error") if answer is None else None,
        extra=mapping(record.get("metadata")),
    )


def _example(record: Record) -> Iterator[Row]:
    yield row(
        id=record.get("id"),
        question=_only(question_in(record["inputs"])),
        answer=None,
        references=_only(references_in(record["outputs"])),
        extra=mapping(record.get("metadata")),
    )


def _only(found: Any) -> Any:
    """The value of an object with a single one."""
    return next(iter(found.values())) if isinstance(found, dict) and len(found) == 1 else found


LANGSMITH = Format("langsmith", "an export of LangSmith", _recognise, "experiments")
