"""Experiments and data sets of Braintrust, as CSV, JSON or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

_ONLY_HERE = (
    "span_id",
    "root_span_id",
    "_xact_id",
    "experiment_id",
    "scores",
    "metrics",
    "_pagination_key",
    "dataset_id",
)


def _recognise(records: Sequence[Record]) -> Convert | None:
    fits = all(has(one, "input", "expected") and any(name in one for name in _ONLY_HERE) for one in records)
    return _event if fits or all(has(one, "input", "output", "expected") for one in records) else None


def _event(event: Record) -> Iterator[Row]:
    if mapping(event.get("span_attributes")).get("type") not in (None, "eval"):
        return
    answer = answer_in(event.get("output"))
    metadata = mapping(event.get("metadata"))
    yield row(
        id=mapping(event.get("origin")).get("id") or event.get("id"),
        question=question_in(event["input"]),
        answer=answer,
        references=references_in(event["expected"]),
        release=event.get("experiment_name") or event.get("experiment") or event.get("experiment_id"),
        missing_because=event.get("error") if answer is None else None,
        extra=metadata,
    )


BRAINTRUST = Format("braintrust", "an export of Braintrust", _recognise, "experiments")
