"""Results of promptfoo: JSON, JSON Lines, and the tables that it writes as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.format import (
    NOTED,
    Convert,
    Format,
    Row,
    Unreadable,
    all_have,
    each,
    has,
    items,
    mapping,
    row,
)
from answerkey.tasks.load.given import given
from answerkey.tasks.load.rows import Record

_RIGHT = (
    "equals",
    "similar",
    "factuality",
    "model-graded-factuality",
    "answer-equals",
    "levenshtein",
    "bleu",
    "rouge-n",
)
"""Assertions whose value is the right answer; those whose value is a part of it count where there is none of these."""
_PART_OF_RIGHT = ("icontains", "contains", "icontains-any", "contains-any", "starts-with")
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OUTPUT = re.compile(r"^\[(?P<provider>[^\]]+)\] ?(?P<label>.*)$", re.DOTALL)
"""The head of a column with the outputs of a provider for a prompt."""
_CELL = re.compile(r"^\[(?P<state>PASS|FAIL|ERROR)\](?: \((?P<scores>[^)\n]*)\))?\s*(?P<text>.*)$", re.DOTALL)
_STATES = ("PASS", "FAIL", "ERROR")
_SCORED = re.compile(r"Metric: |(?:Status|Score|Named Scores|Latency \(ms\)|Cost)$")
"""Columns beside an output with scores of it."""
_BESIDE = {"score": "Score", "namedScores": "Named Scores", "latencyMs": "Latency (ms)", "cost": "Cost"}
_REASON = re.compile(r"\n\s*\n *(Pass|Fail) Reason: .*$", re.DOTALL)


def _recognise(records: Sequence[Record]) -> Convert | None:
    if all(_is_document(record) for record in records):
        return _document
    if all_have(records, "promptIdx", "testIdx", "provider", "prompt", "vars"):
        return partial(_result, by_prompt=_several_prompts(records))
    heads = [_OUTPUT.match(name) for name in records[0]]
    cells = [str(record.get(head[0]) or "") for head in heads if head for record in records]
    if cells and (any(_CELL.match(cell) for cell in cells) or all(one.get("Status") in _STATES for one in records)):
        return _table_row
    return None


def _is_document(record: Record) -> bool:
    results = record.get("results")
    return has(results, "results", "stats") or (has(record, "results", "stats", "version") and bool(items(results)))


def _document(document: Record) -> Iterator[Row | Unreadable]:
    results = document["results"]
    results = results["results"] if has(results, "results") else results
    return each(results, partial(_result, by_prompt=_several_prompts(items(results))))


def _several_prompts(results: Sequence[Record]) -> bool:
    """Whether a provider was given more than one prompt, so that its name alone is no release."""
    pairs = {(_provider(result), result.get("promptIdx")) for result in results}
    return len(pairs) > len({provider for provider, _ in pairs})


def _provider(result: Record) -> str:
    provider = result.get("provider")
    if isinstance(provider, Mapping):
        provider = provider.get("label") or provider.get("id")
    return str(provider)


def _result(result: Record, by_prompt: bool) -> Iterator[Row]:
    test, prompt = mapping(result.get("testCase")), mapping(result.get("prompt"))
    variables = mapping(result.get("vars") or test.get("vars"))
    response = mapping(result.get("response"))
    release, prompt_number = _provider(result), result.get("promptIdx")
    if by_prompt:
        release += f" {prompt.get('label') or prompt_number}"
    answer = response.get("output")
    yield row(
        id=result.get("testIdx"),
        question=_question(variables, prompt.get("raw")),
        answer=answer,
        references=_references(test, variables),
        release=release,
        # Results come in the order in which they were done
        release_order=prompt_number if isinstance(prompt_number, int) else None,
        missing_because=(result.get("error") or response.get("error")) if answer is None else None,
        finish_reason=response.get("finishReason"),
        scores=given(result),
        extra={**variables, **mapping(test.get("metadata")), "description": test.get("description")},
    )


def _question(variables: Record, prompt: Any) -> Any:
    named = [variables[name] for name in usual_names("question") if name in variables]
    others = [value for name, value in variables.items() if name not in (*NOTED, *usual_names("context"))]
    if named or len(others) == 1:
        return (named or others)[0]
    return prompt


def _references(test: Record, variables: Record) -> list[Any]:
    asserted = [
        one for any_of in items(test.get("assert")) for one in (items(any_of.get("assert")) or [any_of])
    ]  # fmt: skip
    for types in (_RIGHT, _PART_OF_RIGHT):
        values = [one.get("value") for one in asserted if one.get("type") in types]
        texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
        if texts:
            return [_filled_in(text, variables) for text in texts]
    return [variables[name] for name in NOTED if name in variables]


def _filled_in(text: Any, variables: Record) -> Any:
    """An expected value with its variables, which promptfoo keeps as they were written: `{{answer}}`."""
    if not isinstance(text, str):
        return text
    return _PLACE.sub(lambda place: str(variables.get(place[1], place[0])), text)


def _table_row(record: Record) -> Iterator[Row]:
    """One row of a table: a test, with the outputs of each provider in a column."""
    columns = [head for name in record if (head := _OUTPUT.match(name))]
    names = list(record)
    starts = [names.index(head[0]) for head in columns]
    variables = {name: record[name] for name in names[: starts[0]]}
    providers = [head["provider"] for head in columns]
    asked = _question({name: cell for name, cell in variables.items() if not name.startswith("__")}, None)
    expected = next((variables[name] for name in ("__expected", "__expected1", *NOTED)
                     if variables.get(name)), None)  # fmt: skip
    for head, start, end in zip(columns, starts, [*starts[1:], None], strict=True):
        # The names of what stands beside a later output are numbered.
        beside = {re.sub(r"_\d+$", "", name): record[name] for name in names[start + 1 : end]}
        cell = _CELL.match(str(record[head[0]] or ""))
        text = _REASON.sub("", cell["text"]).strip() if cell else record[head[0]]
        failed = (cell["state"] if cell else beside.get("Status")) == "ERROR"
        state = beside.get("Status") or (cell["state"] if cell else None)
        several = providers.count(head["provider"]) > 1
        yield row(
            question=asked,
            answer=None if failed else text,
            references=expected,
            release=f"{head['provider']} {head['label']}" if several else head["provider"],
            missing_because=(text or "the provider failed") if failed else None,
            scores=given({**{ours: beside.get(theirs) for ours, theirs in _BESIDE.items()}, "status": state}),
            extra={**variables, **{name: cell for name, cell in beside.items() if not _SCORED.match(name)}},
        )


PROMPTFOO = Format("promptfoo", "promptfoo results", _recognise, "providers")
