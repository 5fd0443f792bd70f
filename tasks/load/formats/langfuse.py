"""Langfuse: traces, observations and items of data sets, as CSV, JSON or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    answer_in,
    decoded,
    has,
    mapping,
    question_in,
    references_in,
    row,
)

_EXPECTED = ("expectedOutput", "expected_output", *usual_names("references"), "expected")
_ONLY_HERE = (
    "projectId", "sessionId", "userId", "traceId", "bookmarked", "environment", "htmlPath", "observations",
    "parentObservationId", "promptName", "completionStartTime", "project_id", "session_id", "user_id", "trace_id",
)  # fmt: skip
_ITEM = ("datasetId", "datasetName", "sourceTraceId", "sourceObservationId", "dataset_id", "dataset_name")


def _recognise(records: Sequence[Record]) -> Convert | None:
    if all(has(one, "id", "input", "output") and _is_export(one) for one in records):
        return _export
    if all(has(one, "id", "input") and "output" not in one and any(name in one for name in _ITEM) for one in records):
        return _item
    return None


def _is_export(record: Record) -> bool:
    timed = any(name in record for name in ("timestamp", "startTime", "start_time"))
    return timed and sum(name in record for name in _ONLY_HERE) > 1


def _export(record: Record) -> Iterator[Row]:
    metadata = mapping(record.get("metadata"))
    places = [(record, name) for name in _EXPECTED] + [(metadata, name) for name in _EXPECTED]
    expected = next((place[name] for place, name in places if place.get(name) not in (None, "")), None)
    yield row(
        id=metadata.get("dataset_item_id") or metadata.get("datasetItemId") or record["id"],
        question=question_in(record["input"]),
        answer=answer_in(record["output"]),
        references=references_in(expected),
        release=decoded(record.get("release")) or record.get("model") or record.get("providedModelName") or None,
        extra={**metadata, "tags": record.get("tags"), "environment": record.get("environment")},
    )


def _item(record: Record) -> Iterator[Row]:
    expected = next((record[name] for name in _EXPECTED if record.get(name) is not None), None)
    yield row(
        id=record["id"],
        question=question_in(record["input"]),
        answer=None,
        references=references_in(expected),
        extra=mapping(record.get("metadata")),
    )


LANGFUSE = Format("langfuse", "an export of Langfuse", _recognise, "releases")
