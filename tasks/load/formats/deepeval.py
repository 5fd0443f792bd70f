"""Test runs and evaluation results of DeepEval, with names in camel case or with underscores.

Its data sets have columns with usual names, and need no format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from answerkey.tasks.load.formats.format import (
    Convert,
    Format,
    Record,
    Row,
    Unreadable,
    each,
    items,
    mapping,
    row,
)

_LISTS = ("testCases", "test_cases", "testResults", "test_results")


def _recognise(records: Sequence[Record]) -> Convert | None:
    return _run if all(_cases(record) for record in records) else None


def _inner(run: Record) -> Record:
    """The run itself: the last one, in `.latest_test_run.json`, stands beside the link to its page."""
    return mapping(run.get("testRunData")) or run


def _cases(run: Record) -> list[Record]:
    run = _inner(run)
    cases = next((items(run[name]) for name in _LISTS if items(run.get(name))), [])
    return cases if all(_of(case, "actual_output") is not None or "input" in case for case in cases) else []


def _of(case: Record, name: str) -> object:
    """The value of a name, also in camel case."""
    first, *rest = name.split("_")
    return case.get(name, case.get(first + "".join(word.title() for word in rest)))


def _run(run: Record) -> Iterator[Row | Unreadable]:
    run = _inner(run)
    release = mapping(run.get("hyperparameters")).get("model")
    return each(next(run[name] for name in _LISTS if items(run.get(name))), partial(_case, release=release))


def _case(case: Record, release: object) -> Iterator[Row]:
    yield row(
        question=case.get("input"),
        answer=_of(case, "actual_output"),
        references=_of(case, "expected_output"),
        context=_of(case, "retrieval_context") or case.get("context"),
        release=release,
        extra={**mapping(_of(case, "additional_metadata") or case.get("metadata")), "name": case.get("name")},
    )


DEEPEVAL = Format("deepeval", "a test run of DeepEval", _recognise, "models")
