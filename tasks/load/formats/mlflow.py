"""Tables of evaluations of MLflow: `eval_results_table.json`, and as CSV or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    Unreadable,
    answer_in,
    decoded,
    each,
    has,
    items,
    mapping,
    question_in,
    references_in,
    row,
)

_OUTPUTS = ("outputs", "predictions", "prediction", "response")
_INPUTS = ("inputs", "question", "request", "input")
_TARGETS = (
    "expected_response/value", "expectations/expected_response", "ground_truth", "targets", "target", "expectations",
    "expected_response",
)  # fmt: skip


def _recognise(records: Sequence[Record]) -> Convert | None:
    if all(has(one, "columns", "data") and {*_OUTPUTS} & {*_names(one)} for one in records):
        return _table
    if all(_is_row(one) for one in records):
        return _row
    return None


def _names(table: Record) -> list[str]:
    return [str(name) for name in table["columns"]] if isinstance(table["columns"], list) else []


def _is_row(record: Record) -> bool:
    """Whether a row has the scores that MLflow writes beside it, or the names that only it uses."""
    endings = ("/v1/score", "/v1/justification", "/value", "/rationale")
    scored = bool(_expected(record)) or any(name.endswith(endings) for name in record)
    named = "inputs" in record and any(name in record for name in ("outputs", "predictions"))
    return (
        any(name in record for name in _OUTPUTS)
        and any(name in record for name in _INPUTS)
        and (scored or (named and (any(name in record for name in _TARGETS) or len(record) == 2)))
    )


def _expected(record: Record) -> Record:
    """The right answers that people have written to a trace, by their names."""
    noted = items(decoded(record.get("assessments"))) if "trace_id" in record else []
    return {
        str(one.get("assessment_name") or one.get("name")): mapping(one["expectation"]).get("value")
        for one in noted
        if one.get("expectation")
    }


def _table(table: Record) -> Iterator[Row | Unreadable]:
    return each(table["data"], partial(_listed, names=_names(table)))


def _listed(values: Any, names: Sequence[str]) -> Iterator[Row]:
    if len(values) != len(names):
        raise ValueError(f"has {len(values)} values, and the table {len(names)} columns")
    return _row(dict(zip(names, values, strict=True)))


def _row(record: Record) -> Iterator[Row]:
    inputs = next((record[name] for name in _INPUTS if name in record), None)
    said = {**_expected(record), **record}
    target = next((said[name] for name in _TARGETS if said.get(name) not in (None, "")), None)
    used = (*_OUTPUTS, *_INPUTS, *_TARGETS, "assessments", "spans", "trace")
    yield row(
        id=mapping(inputs).get("id") or record.get("id"),
        question=question_in(inputs),
        answer=answer_in(next((record[name] for name in _OUTPUTS if name in record), None)),
        references=references_in(mapping(target).get("expected_response") or target),
        context=record.get("retrieved_context") or record.get("context"),
        release=record.get("model") or record.get("run_id"),
        extra={name: value for name, value in record.items() if name not in used},
    )


MLFLOW = Format("mlflow", "an evaluation table of MLflow", _recognise, "models")
