"""Columns are found by the path that the user gave or by their usual names, and values become texts."""

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import KEYS, as_text, as_texts, complete, parse_map, value


def test_a_map_as_the_user_writes_it():
    pairs = ["id=meta.question_id", "answer=a=b", "references=$.refs[0]"]
    assert parse_map(pairs) == {"id": "meta.question_id", "answer": "a=b", "references": "$.refs[0]"}
    assert parse_map([]) == {}


@pytest.mark.parametrize("pair", ["id", "id=", "=", ""])
def test_an_invalid_pair(pair):
    with pytest.raises(UserError) as error:
        parse_map([pair])
    assert str(error.value) == f"--map {pair}: write KEY=PATH, for instance id=meta.question_id"


def test_a_key_that_is_not_known():
    with pytest.raises(UserError) as error:
        parse_map(["anwser=text"])
    assert str(error.value) == (
        "--map anwser=text: 'anwser' is not a key; "
        "choose from id, question, answer, references, facts, context, release, label, cluster, missing_because, "
        "repeat, finish_reason, incorrect_references, references-as"
    )


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["references-as=json"], "--map references-as=json: references that spell a list are read as text or as list"),
        (["id=a", "id=b"], "--map id=b: id is mapped twice, also to a; keep one of them"),
    ],
)
def test_what_cannot_be_mapped(pairs, message):
    with pytest.raises(UserError) as error:
        parse_map(pairs)
    assert str(error.value) == message


RECORD: dict[str, Any] = {
    "a.b": "literal",
    "a": {"b": "nested", "c": [{"d": 1}, {"d": None}]},
    "$x": "dollar",
    "json": '{"refs": ["one", "two"], "deep": "{\\"n\\": 5}"}',
    "text": "not JSON",
    "list": ["zero", ["one"]],
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.b", "literal"),
        ("$.a.b", "nested"),
        ("a.c.0.d", 1),
        ("a.c[0].d", 1),
        ("$.a.c[0].d", 1),
        ("a.c.1.d", None),
        ("$x", "dollar"),
        ("json.refs.1", "two"),
        ("json.deep.n", 5),
        ("list[1][0]", "one"),
        ("none", None),
    ],
)
def test_a_path_into_a_record(path, expected):
    assert value(RECORD, path) == expected
    # Something is there, so it counts as a column.
    assert complete({"id": path}, (), [RECORD], "file").paths["id"] == path


@pytest.mark.parametrize(
    "path", ["b", "a.x", "a.c.2", "a.c.-1", "a.c.d", "text.x", "list.zero", "none.x", "", ".", "$", "json.deep.n.m"]
)
def test_a_path_to_nothing(path):
    assert value(RECORD, path) is None
    with pytest.raises(UserError, match="no column"):
        complete({"id": path}, (), [RECORD], "file")


def test_the_message_for_a_missing_column_lists_the_columns():
    rows = [{"id": 1, "text": "x"}, {"id": 2, "meta": {}}]
    with pytest.raises(UserError) as error:
        complete({"answer": "output"}, (), rows, "runs/a.jsonl")
    assert str(error.value) == ("runs/a.jsonl: no column 'output' (for answer); the columns are id, meta, text")
    with pytest.raises(UserError) as error:
        complete({}, ("lang",), rows, "a.jsonl")
    assert str(error.value) == "a.jsonl: no column 'lang' (for slice); the columns are id, meta, text"


def test_a_column_need_not_be_in_every_row_nor_a_slice_in_this_file():
    rows = [{"id": 1}, {"id": 2, "meta": {"lang": "ru"}}]
    assert complete({"cluster": "meta.lang"}, (), rows, "f").paths["cluster"] == "meta.lang"
    assert complete({}, ("kind", "kind"), rows, "f", elsewhere={"kind"}).slices == ("kind",)


FRAMEWORKS: dict[str, tuple[dict[str, Any], str]] = {
    "ragas": (
        {"user_input": "Q", "retrieved_contexts": [], "response": "A", "reference": "R"},
        "question=user_input, answer=response, references=reference, context=retrieved_contexts",
    ),
    "DeepEval": (
        {"input": "Q", "actual_output": "A", "expected_output": "R", "context": []},
        "question=input, answer=actual_output, references=expected_output, context",
    ),
    "continuous-eval": (
        {"question": "Q", "answer": "A", "ground_truths": ["R"], "retrieved_contexts": []},
        "question, answer, references=ground_truths, context=retrieved_contexts",
    ),
    "continuous-eval with its own names": (
        {"question": "Q", "generated_answer": "A", "ground_truth_answers": ["R"]},
        "question, answer=generated_answer, references=ground_truth_answers",
    ),
    "Opik": (
        {"id": "1", "input": "Q", "output": "A", "ground_truth": "R"},
        "id, question=input, answer=output, references=ground_truth",
    ),
    "Opik with expected_output": (
        {"dataset_item_id": "1", "input": "Q", "output": "A", "expected_output": "R"},
        "id=dataset_item_id, question=input, answer=output, references=expected_output",
    ),
    "Langfuse": (
        {"datasetItemId": "1", "input": "Q", "output": "A", "expectedOutput": "R", "metadata": None},
        "id=datasetItemId, question=input, answer=output, references=expectedOutput",
    ),
    "answerkey": (
        {"id": "1", "question": "Q", "answer": "A", "references": ["R"], "facts": ["F"]}
        | {"release": "r", "cluster": "c"},
        "id, question, answer, references, facts, release, cluster",
    ),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_usual_names_are_recognised(framework):
    row, description = FRAMEWORKS[framework]
    found = complete({}, (), [row], "file")
    assert found.description == description
    assert [value(row, found.paths[key]) for key in ("question", "answer")] == ["Q", "A"]
    assert as_texts(value(row, found.paths["references"])) == ["R"]


def test_a_given_column_is_not_guessed_for_another_key():
    row = {"input": "what was asked", "output": "A", "model": "m", "reference": "R", "label": "true"}
    found = complete({"answer": "input", "release": "model"}, (), [row], "file")
    assert found.paths == {"answer": "input", "release": "model", "references": "reference"}
    assert found.guessed == ("references",)
    assert "label" not in complete({}, (), [row], "file").paths, "a label is never guessed"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, None),
        ("", ""),
        (" Paris ", " Paris "),
        ("nan", "nan"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-5, "-5"),
        (3.14, "3.14"),
        (2.0, "2.0"),
        (math.nan, None),
        (math.inf, "inf"),
        (Decimal("1.50"), "1.50"),
        ({"content": "Paris"}, "Paris"),
    ],
)
def test_a_value_as_one_text(found, text):
    assert as_text(found) == text


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"a": "x", "b": "y"}, "is an object with a, b; map a path into it"),
        ({"n": 1}, "is an object with n; map a path into it"),
        ({}, "is an object with nothing; map a path into it"),
        (["a"], "is a list; map one item of it"),
        ([], "is a list; map one item of it"),
        (b"Paris", "is binary data; write it as text"),
    ],
)
def test_a_value_that_is_not_one_text(found, message):
    with pytest.raises(ValueError) as error:
        as_text(found)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        (None, []),
        (math.nan, []),
        ("Paris", ["Paris"]),
        ("", [""]),
        (42, ["42"]),
        (["a", "b"], ["a", "b"]),
        (("a", "b"), ["a", "b"]),
        (["a", None, math.nan, 1, True], ["a", "1", "true"]),
        ([], []),
        ('["a", "b, c"]', ["a", "b, c"]),
        (' ["é", null, 2] ', ["é", "2"]),
        ("['it''s', \"it's\", None]", ["its", "it's"]),
        ("['a', 'b']", ["a", "b"]),
        ("[]", []),
        ("[1] Smith 2020", ["[1] Smith 2020"]),
        ("[sic]", ["[sic]"]),
        ("['a'", ["['a'"]),
        ("['a'].pop()", ["['a'].pop()"]),
        ("[{[]: 1}]", ["[{[]: 1}]"]),
        ('{"a": 1}', ['{"a": 1}']),
        ([{"text": "a"}, {"text": "b"}], ["a", "b"]),
        ({"text": "a"}, ["a"]),
    ],
)
def test_a_value_as_texts(found, texts):
    assert as_texts(found) == texts


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
def test_a_text_of_brackets_is_a_text(depth):
    assert as_texts("[" * depth) == ["[" * depth]


@pytest.mark.parametrize("found", [[["a"]], [{"a": 1, "b": 2}], "[[1]]"])
def test_items_that_are_no_texts(found):
    with pytest.raises(ValueError, match=r"^is "):
        as_texts(found)


@given(st.text())
def test_any_single_text_is_itself_or_a_list_that_it_spells(text):
    try:
        texts = as_texts(text)
    except ValueError:
        assert text.lstrip().startswith("[")
    else:
        assert texts == [text] or text.lstrip().startswith("[")


@given(st.dictionaries(st.text(), st.text() | st.none()), st.text())
def test_any_path_into_any_record_gives_something_or_nothing(record, path):
    found = value(record, path)
    assert found is None or found == record.get(path, found)


def test_every_key_but_the_label_has_usual_names():
    names = set(KEYS) - {"label", "references-as"}
    assert set(complete({}, (), [dict.fromkeys(KEYS, "x")], "file").paths) == names
