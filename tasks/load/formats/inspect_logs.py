"""Logs of Inspect, as JSON or as they are read from its archives, `.eval`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    Unreadable,
    answer_in,
    each,
    has,
    items,
    mapping,
    question_in,
    row,
)


def _recognise(records: Sequence[Record]) -> Convert | None:
    fits = all(has(record, "eval", "samples") and has(record["eval"], "model", "task") for record in records)
    return _log if fits else None


def _log(log: Record) -> Iterator[Row | Unreadable]:
    return each(log["samples"] or [], partial(_sample, release=log["eval"]["model"]))


def _sample(sample: Record, release: str) -> Iterator[Row]:
    output = mapping(sample.get("output"))
    choice = next(iter(items(output.get("choices"))), {})
    answer = output.get("completion") or (answer_in(output) if choice else None)
    error = mapping(sample.get("error")).get("message") or output.get("error")
    yield row(
        id=sample.get("id"),
        question=question_in(sample.get("input")),
        answer=answer,
        references=sample.get("target"),
        release=release,
        repeat=sample.get("epoch"),
        missing_because=None if answer else error,
        finish_reason=choice.get("stop_reason"),
        extra=mapping(sample.get("metadata")),
    )


INSPECT = Format("inspect", "logs of Inspect", _recognise, "models")
