"""Columns are found by the path that the user gave or by their usual names, and values become texts.

Where this loader differs on purpose from the golden cases of variable mapping, the test says how: a text is itself and
keeps no quotes, and what does not resolve is never taken for a literal text or silently left empty everywhere.
"""

import json
import math
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.load.columns import KEYS, as_text, as_texts, complete, parse_map, value
from tests.tasks.staging_help import refusal, staged

FORM = "write KEY=PATH, for instance id=meta.question_id"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["id"], f"--map id: {FORM}"), (["id="], f"--map id=: {FORM}"), (["="], f"--map =: {FORM}"),
        (["anwser=text"], f"--map anwser=text: 'anwser' is not a key; choose from {', '.join(KEYS)}"),
        (["references-as=a"], "--map references-as=a: references are read as text, as list, or split at | or ; or "
         "lines"),
        (["id=a", "id=b"], "--map id=b: id is mapped twice, also to a; keep one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped(pairs, message):
    assert refusal(parse_map, pairs) == message


RECORD = {
    "a.b": "literal",
    "a": {"b": "nested", "c": [{"d": 1}, {"d": None}]},
    "$x": "dollar",
    "json": '{"refs": ["one", "two"], "deep": "{\\"n\\": 5}"}',
    "text": "not JSON",
    "list": ["zero", ["one"]],
    "none": None,
}
PATHS = {
    "a.b": "literal", "$.a.b": "nested", "a.c.0.d": 1, "a.c[0].d": 1, "$.a.c[0].d": 1, "a.c.1.d": None, "$x": "dollar",
    "json.refs.1": "two", "json.deep.n": 5, "list[1][0]": "one", "none": None,
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_into_a_record(path):
    assert value(RECORD, path) == PATHS[path]
    # Something is there, so it counts as a column.
    assert complete({"id": path}, (), [RECORD], "file").paths["id"] == path


@pytest.mark.parametrize(
    "path", ["b", "a.x", "a.c.2", "a.c.-1", "a.c.d", "text.x", "list.zero", "none.x", "", ".", "$", "json.deep.n.m"]
)
def test_a_path_to_nothing(path):
    assert value(RECORD, path) is None
    assert "no column" in refusal(complete, {"id": path}, (), [RECORD], "file")


@pytest.mark.parametrize(
    "columns",
    [
        "question=user_input, answer=response, references=reference, context=retrieved_contexts",
        "question=input, answer=actual_output, references=expected_output, context",
        "question, answer, references=ground_truths, context=retrieved_contexts",
        "question, answer=generated_answer, references=ground_truth_answers",
        "id, question=input, answer=output, references=ground_truth",
        "id=dataset_item_id, question=input, answer=output, references=expected_output",
        "id=datasetItemId, question=input, answer=output, references=expectedOutput",
        "id, question, answer, references, facts, release, cluster",
    ],
    ids=["ragas", "DeepEval", "continuous-eval", "its own", "Opik", "Opik too", "Langfuse", "answerkey"],
)
def test_the_usual_names_are_recognised(columns):
    row = {name.rpartition("=")[2]: "x" for name in columns.split(", ")}
    assert complete({}, (), [row], "file").description == columns


def test_a_given_column_is_not_guessed_for_another_key():
    row = {"input": "what was asked", "output": "A", "model": "m", "reference": "R", "label": "true"}
    found = complete({"answer": "input", "release": "model"}, (), [row], "file")
    assert found.paths == {"answer": "input", "release": "model", "references": "reference"}
    assert found.guessed == ("references",)


def test_keys_are_recognised_by_usual_names_but_for_labels_and_conversations():
    names = set(KEYS) - {"label", "messages", "references-as", "scores"}
    assert set(complete({}, (), [dict.fromkeys(KEYS, "x")], "file").paths) == names


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, None), ("", ""), (" Paris ", " Paris "), ("nan", "nan"), (True, "true"), (False, "false"), (0, "0"),
        (2.0, "2"), (0.10000000149011612, "0.1"),
        (math.nan, None), (datetime(2024, 3, 1), "2024-03-01"),
        (math.inf, "inf"), (Decimal("1.50"), "1.50"), ({"content": "Paris"}, "Paris"),
    ],
)  # fmt: skip
def test_a_value_as_one_text(found, text):
    assert as_text(found) == text


@pytest.mark.parametrize(
    ("read", "found", "message"),
    [
        (as_text, {"a": "x", "b": "y"}, "is an object with a, b; map a path into it"),
        (as_text, {"n": 1}, "is an object with n; map a path into it"),
        (as_text, {}, "is an object with nothing; map a path into it"),
        (as_text, [], "is a list; map one item of it"),
        (as_text, b"Paris", "is binary data; write it as text"),
        (as_texts, [["a"]], "is a list; map one item of it"),
        (as_texts, [{"a": 1, "b": 2}], "is an object with a, b; map a path into it"),
        (as_texts, "[[1]]", "is a list; map one item of it"),
    ],
)
def test_a_value_that_is_no_text(read, found, message):
    with pytest.raises(ValueError) as error:
        read(found)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        (None, []), (math.nan, []), ("", [""]), ({"a"}, ["a"]), (("a", "b"), ["a", "b"]), ({"text": "a"}, ["a"]),
        (["a", None, math.nan, 1, True], ["a", "1", "true"]), ([{"text": "a"}, {"text": "b"}], ["a", "b"]),
        ('["a", "b, c"]', ["a", "b, c"]), (' ["é", null, 2] ', ["é", "2"]),
        ("['it''s', \"it's\", None]", ["its", "it's"]), ("[]", []),
    ],
)  # fmt: skip
def test_a_value_as_texts(found, texts):
    assert as_texts(found) == texts


@pytest.mark.parametrize(
    "text",
    [
        "[1] Smith 2020", "[sic]", "['a'", "['a'].pop()", "[{[]: 1}]", '{"a": 1}',
        *(pytest.param("[" * depth, id=f"{depth} brackets") for depth in (500, 5_000, 100_000)),
    ],
)  # fmt: skip
def test_a_text_that_only_begins_like_a_list_is_a_text(text):
    assert as_texts(text) == [text]


@given(st.text())
def test_any_single_text_is_itself_or_a_list_that_it_spells(text):
    try:
        texts = as_texts(text)
    except ValueError:
        assert text.lstrip()[:1] in "[({"
    else:
        assert texts == [text] or text.lstrip()[:1] in "[({"


@given(st.dictionaries(st.text(), st.text() | st.none()), st.text())
def test_any_path_into_any_record_gives_something_or_nothing(record, path):
    found = value(record, path)
    assert found is None or found == record.get(path, found)


def answers(folder, path, *outputs):
    """The answers of rows with these outputs, mapped from `path`."""
    rows = [{"id": n, "output": output, "expected_output": "right"} for n, output in enumerate(outputs)]
    return [row["answer"] for row in staged(folder, rows, release="r", paths=parse_map([f"answer={path}"]))]


def test_the_golden_cases_of_mapping(shared, tmp_path):
    cases = json.loads((shared / "golden" / "meaning_match.json").read_text("utf-8"))["mapping"]
    assert {case["section"] for case in cases} == {"output"}
    into_a_column = 0
    for case in cases:
        path, output, expected = case["path"], case["json"], case["value"]
        if path == "literal text":
            assert "no column 'literal text'" in refusal(answers, tmp_path, path, output)
        elif expected is None:
            said = refusal(answers, tmp_path, path, output)
            assert said.endswith(f"no column {path!r} (for answer); the columns are expected_output, id, output")
            # Resolved in another row, it is a column; this row then has no answer, and its measurements say so.
            assert answers(tmp_path, path, output, {"answer": "42"}) == [None, "42"]
        elif path == "output":
            assert (answers(tmp_path, path, output), expected) == (["just a string"], '"just a string"')
        else:
            into_a_column += 1
            assert answers(tmp_path, path, output) == [expected]
    assert (len(cases), into_a_column) == (6, 3)


def test_a_nested_value_comes_before_a_name_with_dots(tmp_path):
    both = {"flat": {"key": "nested"}, "flat.key": "flat"}
    found = answers(tmp_path, "output.flat.key", both, {"flat": {}, "flat.key": "flat"}, {"flat.key": "flat"})
    assert found == ["nested", "flat", "flat"]
