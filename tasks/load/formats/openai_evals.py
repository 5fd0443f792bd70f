"""OpenAI: logs and samples of its package `evals`, and the output items of evaluations on its platform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    answer_in,
    decoded,
    has,
    items,
    mapping,
    question_in,
    row,
)

_RIGHT = (*usual_names("references"), "ideal", "correct_label", "expected", "label", "target")


def _recognise(records: Sequence[Record]) -> Convert | None:
    if has(records[0].get("spec"), "completion_fns") or all(has(one, "sample_id", "type", "data") for one in records):
        models = mapping(records[0].get("spec")).get("completion_fns") or [None]
        return partial(_event, release=models[0])
    if all(has(one, "datasource_item", "sample") for one in records):
        return _output_item
    if all(has(one, "input", "ideal") for one in records):
        return _sample
    return None


def _event(event: Record, release: str | None) -> Iterator[Row]:
    """An event of a log; only those that compare an answer become rows, and they do not say what was asked."""
    data = mapping(event.get("data"))
    if event.get("type") != "match" or "expected" not in data:
        return
    answer = data.get("sampled")
    yield row(
        id=event["sample_id"],
        question=None,
        answer=answer[0] if isinstance(answer, list) and len(answer) == 1 else answer,
        references=data["expected"],
        release=release,
    )


def _output_item(item: Record) -> Iterator[Row]:
    sample, asked = mapping(item["sample"]), mapping(item["datasource_item"])
    asked = mapping(asked.get("item")) or asked
    error = mapping(sample.get("error")).get("message")
    answer = answer_in(sample.get("output")) if items(sample.get("output")) else sample.get("output_text")
    named = next((asked[name] for name in usual_names("question") if name in asked), None)
    yield row(
        id=item.get("datasource_item_id"),
        question=question_in(named or sample.get("input")),
        answer=answer,
        references=decoded(next((asked[name] for name in _RIGHT if name in asked), None)),
        release=sample.get("model"),
        missing_because=None if answer else error,
        finish_reason=sample.get("finish_reason"),
        extra=asked,
    )


def _sample(sample: Record) -> Iterator[Row]:
    yield row(
        id=sample.get("id"),
        question=question_in(sample["input"]),
        answer=None,
        references=decoded(sample["ideal"]),
        extra=mapping(sample.get("metadata")),
    )


OPENAI_EVALS = Format("openai-evals", "a log of OpenAI evals", _recognise, "models")
