"""Opik: the items of experiments, also of several that are compared, and traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    answer_in,
    has,
    items,
    mapping,
    question_in,
    references_in,
    row,
)

_RIGHT = (*usual_names("references"), "expected_model_output", "expected")
_TRACE = ("project_id", "feedback_scores", "thread_id", "span_count", "start_time")


def _recognise(records: Sequence[Record]) -> Convert | None:
    if all(has(record, "dataset_item_data", "evaluation_task_output") for record in records):
        return _item
    if all(has(record, "data", "experiment_items") for record in records):
        return _compared
    if all(has(one, "input", "output", "name") and sum(name in one for name in _TRACE) > 1 for one in records):
        return _trace
    return None


def _asked(data: Record, id: object, answer: object, **more: object) -> Row:
    right = next((data[name] for name in _RIGHT if data.get(name) is not None), None)
    question = next((data[name] for name in usual_names("question") if data.get(name) is not None), None)
    context = next((data[name] for name in usual_names("context") if data.get(name) is not None), None)
    return row(
        id=id,
        question=question_in(question),
        answer=answer_in(answer),
        references=references_in(right),
        context=context,
        extra={name: value for name, value in data.items() if name != "id"},
        **more,
    )


def _item(item: Record) -> Iterator[Row]:
    data, release = mapping(item["dataset_item_data"]), item.get("experiment_name")
    yield _asked(data, item.get("dataset_item_id"), item["evaluation_task_output"], release=release)


def _compared(record: Record) -> Iterator[Row]:
    """An item of a data set, with what each of the experiments that are compared made of it."""
    for item in items(record["experiment_items"]):
        release = item.get("experiment_name") or item.get("experiment_id")
        yield _asked(mapping(record["data"]), record.get("id"), item.get("output"), release=release)


def _trace(trace: Record) -> Iterator[Row]:
    metadata = mapping(trace.get("metadata"))
    question = question_in(trace["input"])
    yield _asked({**metadata, "input": question}, trace.get("id"), trace["output"], release=metadata.get("release"))


OPIK = Format("opik", "items or traces of Opik", _recognise, "experiments")
