"""Results of promptfoo: JSON, JSON Lines, and the tables that it writes as CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from answerkey.tasks.load.columns import usual_names
from answerkey.tasks.load.formats.special import (
    NOTED,
    Convert,
    Row,
    Unreadable,
    each,
    has,
    items,
    mapping,
    row,
)
from answerkey.tasks.load.given import given
from answerkey.tasks.load.plain import Record

_KINDS = json.loads(Path(__file__).with_name("promptfoo_assertions.json").read_text(encoding="utf-8"))
"""What the value of each kind of assertion is: a `right` answer, a `part` of one, or neither (`other`)."""
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_PREFIX = re.compile(
    r"(?P<negated>not-)?(?P<kind>(?:similar:)?[a-z]+(?:-[a-z-]+|(?=[(:])))(?:\([\d.]+\))?(?::(?!//)\s*(?P<value>.*))?$",
    re.DOTALL,
)
"""An assertion as one text: its kind, a threshold in parentheses, its value. One word alone is a right answer."""
EXPECTED = re.compile(r"__expected\d*")
"""Columns of a table of tests whose cells are assertions: `icontains: Paris`, or a right answer."""
_OUTPUT = re.compile(r"^\[(?P<provider>[^\]]+)\] ?(?P<label>.*)$", re.DOTALL)
"""The head of a column with the outputs of a provider for a prompt."""
_CELL = re.compile(r"^\[(?P<state>PASS|FAIL|ERROR)\](?: \((?P<scores>[^)\n]*)\))?\s*(?P<text>.*)$", re.DOTALL)
_STATES = ("PASS", "FAIL", "ERROR")
_SCORED = re.compile(r"Metric: |(?:Status|Score|Named Scores|Latency \(ms\)|Cost)$")
"""Columns beside an output with scores of it."""
_BESIDE = {"score": "Score", "namedScores": "Named Scores", "latencyMs": "Latency (ms)", "cost": "Cost"}
_REASON = re.compile(r"\n\s*\n *(Pass|Fail) Reason: .*$", re.DOTALL)


def recognise(records: Sequence[Record]) -> Convert | None:
    """Return how results of promptfoo are read, None where these are none."""
    if all(
        has(record.get("results"), "results", "stats")
        or (has(record, "stats", "version") and items(record.get("results")))
        for record in records
    ):
        return _document
    if all(has(record, "promptIdx", "testIdx", "provider", "prompt", "vars") for record in records):
        return partial(_result, by_prompt=_several_prompts(records))
    outputs = list(filter(_OUTPUT.match, records[0]))
    is_marked = any(_CELL.match(str(record.get(name) or "")) for record in records for name in outputs)
    if outputs and (is_marked or all(record.get("Status") in _STATES for record in records)):
        return _table_row
    return None


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
    """Yield the row of a result.

    Raises:
        ValueError: as `_rendered`.
    """
    test = mapping(result.get("testCase"))
    prompt = mapping(result.get("prompt"))
    variables = mapping(result.get("vars") or test.get("vars"))
    response = mapping(result.get("response"))
    release = _provider(result)
    prompt_number = result.get("promptIdx")
    if by_prompt:
        release += f" {prompt.get('label') or prompt_number}"
    answer = response.get("output")

    # What became of the variables in the values of assertions
    rendered = {}
    for component in items(mapping(result.get("gradingResult")).get("componentResults")):
        if has(component.get("metadata"), "renderedAssertionValue"):
            template = str(mapping(component.get("assertion")).get("value"))
            rendered[template] = component["metadata"]["renderedAssertionValue"]

    # The right answers by the role of their assertion, some of which are in groups
    references = {"usual": [variables[name] for name in NOTED if name in variables]}
    for group in items(test.get("assert")):
        for assertion in items(group.get("assert")) or [group]:
            expected = assertion.get("value")
            role = _KINDS.get(assertion.get("type"))
            if role in ("right", "part"):
                alternatives = _alternatives(assertion["type"], rendered.get(str(expected), expected))
                references.setdefault(role, []).extend(alternatives)
    expected_texts = references.get("right") or references.get("part") or references["usual"]
    yield row(
        id=result.get("testIdx"),
        question=_question(variables, prompt.get("raw")),
        answer=answer,
        references=[_rendered(text, variables) for text in expected_texts],
        release=release,
        # Results come in the order in which they were done
        release_order=prompt_number if isinstance(prompt_number, int) else None,
        missing_because=(result.get("error") or response.get("error")) if answer is None else None,
        finish_reason=response.get("finishReason"),
        scores=given(result),
        extra={**variables, **mapping(test.get("metadata")), "description": test.get("description")},
    )


def _question(variables: Record, prompt: Any) -> Any:
    usual = [variables[name] for name in usual_names("question") if name in variables]
    variable_values = [value for name, value in variables.items() if name not in (*NOTED, *usual_names("context"))]
    if usual or len(variable_values) == 1:
        return (usual or variable_values)[0]
    return prompt


def _alternatives(kind: str, expected: Any) -> list[Any]:
    if kind.endswith("-any") and isinstance(expected, str):
        return [text.strip() for text in expected.split(",")]
    return expected if isinstance(expected, list) else [expected]


def _rendered(text: Any, variables: Record) -> Any:
    """An expected value with its variables, which promptfoo keeps as they were written: `{{answer}}`.

    Raises:
        ValueError: it is a template or a file whose content is not there.
    """
    if not isinstance(text, str):
        return text
    filled = _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), text)
    if filled.startswith("file:/") or "{{" in filled or "{%" in filled:
        raise ValueError(f"the right answer {text!r} is not in the file: write it in place of the template or file")
    return filled


def expected_in(cell: Any) -> list[Any] | None:
    """The right answers in a cell of `__expected`; None where it asserts something else.

    >>> expected_in("contains-any: Paris, Lutetia"), expected_in("similar(0.8): Rome"), expected_in("llm-rubric: kind")
    (['Paris', 'Lutetia'], ['Rome'], None)
    >>> expected_in("Madrid"), expected_in("note: see above"), expected_in("not-equals: Rome"), expected_in("is-json")
    (['Madrid'], ['note: see above'], None, None)

    Raises:
        ValueError: as `_rendered`.
    """
    if cell is None:
        return None
    match = _PREFIX.match(str(cell).strip())
    role = match and _KINDS.get(match["kind"])
    if not match or not role:
        return [_rendered(cell, {})]
    if match["negated"] or role == "other":
        return None
    return [_rendered(text, {}) for text in _alternatives(match["kind"], match["value"])]


def _table_row(record: Record) -> Iterator[Row]:
    """One row of a table: a test, with the outputs of each provider in a column."""
    # The variables of the test, then its outputs, each with what stands beside it
    heads = list(filter(None, map(_OUTPUT.match, record)))
    names = list(record)
    starts = [names.index(head[0]) for head in heads]
    variables = {name: record[name] for name in names[: starts[0]]}
    providers = [head["provider"] for head in heads]

    # The question, and what is right: an assertion, or a variable with a usual name
    question = _question({name: cell for name, cell in variables.items() if not name.startswith("__")}, None)
    asserted = [cell for name, cell in variables.items() if EXPECTED.fullmatch(name) and cell]
    expected: Any = [text for cell in asserted for text in expected_in(cell) or ()]
    if not asserted:
        expected = next((_rendered(variables[name], variables) for name in NOTED if variables.get(name)), None)
    for head, start, end in zip(heads, starts, [*starts[1:], None], strict=True):
        # The names of what stands beside a later output are numbered
        beside = {re.sub(r"_\d+$", "", name): record[name] for name in names[start + 1 : end]}
        text = record[head[0]]
        status = state = beside.get("Status")
        if cell := _CELL.match(str(text or "")):
            text = _REASON.sub("", cell["text"]).strip()
            state = cell["state"]
        has_failed = state == "ERROR"
        is_repeated = providers.count(head["provider"]) > 1
        scores = {name: beside.get(column) for name, column in _BESIDE.items()}
        yield row(
            question=question,
            answer=None if has_failed else text,
            references=expected,
            release=f"{head['provider']} {head['label']}" if is_repeated else head["provider"],
            missing_because=(text or "the provider failed") if has_failed else None,
            scores=given({**scores, "status": status or state}),
            extra={**variables, **{name: cell for name, cell in beside.items() if not _SCORED.match(name)}},
        )
