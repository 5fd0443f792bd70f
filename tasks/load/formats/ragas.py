"""Conversations of ragas: data sets whose question is a list of messages. Its other data sets have usual columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    answer_in,
    decoded,
    is_chat,
    question_in,
    row,
)


def _recognise(records: Sequence[Record]) -> Convert | None:
    return _sample if all(is_chat(decoded(record.get("user_input"))) for record in records) else None


def _sample(sample: Record) -> Iterator[Row]:
    yield row(
        id=sample.get("id"),
        question=question_in(sample["user_input"]),
        answer=sample.get("response") or answer_in(sample["user_input"]),
        references=sample.get("reference"),
        context=sample.get("retrieved_contexts"),
        release=sample.get("release") or sample.get("model"),
        extra={name: value for name, value in sample.items() if name != "user_input"},
    )


RAGAS = Format("ragas", "conversations of ragas", _recognise, "models")
