"""Numbers, choices, JSON and patterns, as models write them."""

import pytest

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
