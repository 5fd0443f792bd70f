"""Numbers, choices, JSON and patterns, as models write them."""

import json

import pytest

from answerkey import Sample, create
from tests.metrics_core.metrics_help import scored


@pytest.mark.parametrize(
    ("metric", "answer", "reference", "expected"),
    [
        ("number", "It is 1,234.50 dollars.", "1234.5", 1),
        ("number", "two dozen, which is 24", "24", 1),
        ("number", "about 1 000 people", "1000", 1),
        ("number", "1 000", "0", 0),
        ("number", "3/4", "0.75", 1),
        ("number", "5 × 10³", "5000", 1),
        ("number", "minus seven", "-7", 1),
        ("number", "no idea", "7", 0),
        ("number(within=0.1)", "110", "100", 1),
        ("number(within=0.1)", "111", "100", 0),
        ("number", "7", "many", "no reference has a value for number"),
        ("choice", "(b)", "B) Paris", 1),
        ("choice", "A is wrong. The answer is **C**.", "C", 1),
        ("choice", r"So \boxed{D}", "D", 1),
        ("choice", "B, because A is wrong", "B", 1),
        ("choice", "Either option A or option B", "B", 0),
        ("choice", "The answer is a city", "A", 0),
        ("choice", "C++", "C", 0),
        ("json_equal", 'Here:\n```json\n{"b": [1], "a": true}\n```', '{"a": true, "b": [1.0]}', 1),
        ("json_equal", "[true]", "[1]", 0),
        ("json_equal", "12345678901234567", "12345678901234568", 0),
        ("json_equal", "{a: 1}", '{"a": 1}', 0),
        ("pattern", "Order 4711 is on its way.", r"(?i)order \d{4}\b", 1),
        ("pattern", "Order 47 is on its way.", r"(?i)order \d{4}\b", 0),
        (
            "pattern",
            "(",
            "(",
            "pattern: a reference is no regular expression that can be searched for: missing ) at position 1",
        ),
    ],
)
def test_an_answer_has_the_value_of_its_reference(metric, answer, reference, expected):
    measurement = scored(metric, answer, [reference])
    assert measurement.values.get("match", measurement.reason) == expected


FIND, ASK = {"name": "find", "arguments": {"id": 7}}, {"name": "ask", "args": {}}
BY_API = [{"type": "function", "id": "c", "function": {"name": "find", "arguments": '{"id": 7.0}'}}, {"name": "ask"}]
TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [FIND]}, {"role": "tool"}]
OF_PROVIDERS = [
    [{"role": "assistant", "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", **FIND}]}],
    [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "7"}]}]}, FIND],
    [
        {"role": "assistant", "content": None, "function_call": FIND},
        {"role": "function", "name": "find", "content": "7"},
    ],
    [{"role": "model", "parts": [{"functionCall": FIND}]}, {"parts": [{"functionResponse": {"name": "find"}}]}],
    [{"role": "assistant", "content": [{"toolUse": {"name": "find", "input": {"id": 7}}}]}],
    [{"type": "reasoning"}, {"type": "function_call", **FIND}, {"type": "function_call_output", "output": "7"}],
    {"messages": [{"type": "ai", "data": {"content": [{"type": "tool_use", **FIND}], "tool_calls": [FIND]}}]},
    [{"tool": "find", "tool_input": {"id": 7}}],
]


@pytest.mark.parametrize(
    ("called", "expected", "values"),
    [
        (BY_API, [ASK, FIND], (1, 1, 1)),
        (TURNS, [FIND], (1, 1, 1)),
        (json.dumps(TURNS), ["find"], (1, 1, 1)),
        *((called, [FIND], (1, 1, 1)) for called in OF_PROVIDERS),
        ([{"name": "find", "input": {"id": 8}}], [FIND], (0, 1, 0)),
        # The open call takes the one that no other needs
        ([FIND, {"name": "find", "input": {"id": 8}}], ["find", FIND], (1, 1, 1)),
        (None, ["find"], (0, 0, 0)),
        (" ", [], (1, 1, 1)),
        ([FIND], None, "no column expected_tool_calls: it is missing or blank"),
        ([{"id": 7}], [FIND], 'tool_calls: the column tool_calls holds a call without the name of a tool: {"id": 7}'),
        ("I called find.", [FIND], "tool_calls: the column tool_calls is no JSON list of calls"),
    ],
)  # fmt: skip
def test_calls_of_tools_are_those_that_were_expected(called, expected, values):
    sample = Sample("1", None, columns={"tool_calls": called, "expected_tool_calls": expected})
    [measurement] = create(["tool_calls"])[0].measure([sample])
    assert (tuple(measurement.values.values()) or measurement.reason) == pytest.approx(values)


def test_the_order_of_calls_counts_where_that_is_asked_for():
    [metric] = create(["tool_calls(in_order=True)"])
    samples = [
        Sample("1", None, columns={"tool_calls": BY_API, "expected_tool_calls": e}) for e in ([FIND, ASK], [ASK, FIND])
    ]
    assert [measurement.values["match"] for measurement in metric.measure(samples)] == [1, 0]
