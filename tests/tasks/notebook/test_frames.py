"""Data frames are scored as samples are."""

import importlib
import re

import numpy as np
import pandas as pd
import pytest

from answerkey import Sample, evaluate
from answerkey.metrics_core.errors import UserError

COLUMNS = {
    "id": ["q1", "q2", None],
    "response": ["It is Paris.", None, "7"],
    "ground_truth": [["Paris", "the city of Paris"], ["x"], ["7"]],
}
SAMPLES = [
    Sample("q1", "It is Paris.", ["Paris", "the city of Paris"]),
    Sample("q2", None, ["x"]),
    Sample("2", "7", ["7"]),
]


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_a_frame_of_any_library(library):
    module = importlib.import_module(library)
    frame = module.table(COLUMNS) if library == "pyarrow" else module.DataFrame(COLUMNS)
    assert evaluate(frame, ["contains", "token_overlap"]) == evaluate(SAMPLES, ["contains", "token_overlap"])


def test_rows_without_an_answer_are_named():
    frame = pd.DataFrame({"answer": ["Rome", None, float("nan"), " "], "reference": "Rome"})
    with pytest.warns(UserWarning, match="3 of 4 rows of the data frame have no answer, and count as blank: 1, 2, 3"):
        result = evaluate(frame, ["exact_match"])
    assert [one.values["match"] for one in result] == [1.0, 0.0, 0.0, 0.0]


def test_numbers_of_frames_are_texts_as_people_write_them():
    # One missing number makes floats of a column, and others have been stored in 32 bits
    frame = pd.DataFrame({"answer": ["5", "x"], "reference": [5, None], "other": np.array([0.1, 0.2], "float32")})
    assert evaluate(frame, ["exact_match"])[0].values["match"] == 1.0
    assert evaluate(frame.assign(answer="0.1"), ["contains"], references="other")[0].values["match"] == 1.0


def test_numbers_are_texts_and_a_text_is_one_reference():
    frame = pd.DataFrame({"answer": [7, 8], "reference": ["7", None]})
    made = evaluate(frame, ["exact_match"])
    assert [(m.sample_id, m.status) for m in made] == [("0", "scored"), ("1", "undefined")]


@pytest.mark.parametrize(
    ("given", "metrics", "message"),
    [
        (
            pd.DataFrame({"a": [1], "reference": ["x"]}), ["contains"],
            r"the data frame has no column for answer among a, reference; name it: answer=COLUMN",
        ),
        (
            pd.DataFrame([[1, 2]], columns=["x", "x"]), ["contains"],
            r"the data frame has several columns called x; rename all but one",
        ),
        (
            pd.DataFrame({"answer": [{"a": 1}], "reference": ["x"]}), ["contains"],
            r"the data frame, row 0: answer \(answer\) is an object with a; map a path into it",
        ),
        (
            pd.DataFrame({"answer": ["x"], "reference": [{"text": ["x"]}]}), ["contains"],
            r"the data frame, row 0: references \(reference\) is an object with text; map a path into it",
        ),
        (
            pd.DataFrame({"id": list("aba"), "answer": "x", "reference": "x", "model": ["old", "old", None]}),
            ["contains"],
            r"the data frame, row 2: no release in model; fill it in, or drop the row",
        ),
        (
            pd.DataFrame({"id": ["a", "b", "a"], "answer": list("xyz"), "reference": "x"}), ["contains"],
            r"the data frame, row 2: the id 'a' is that of row 0; drop one of them, or number several answers to a "
            r"question in a column `repeat`",
        ),
        (SAMPLES, "contains", r"metrics is the text 'contains'; give a list: metrics=\['contains'\]"),
        (SAMPLES[0], ["contains"], r"a single sample; give a list of samples, or a data frame"),
        ([7], ["bleu"], r"evaluate\(\) takes a list of answerkey\.Sample or a data frame, not int"),
    ],
)  # fmt: skip
def test_the_usual_mistakes(given, metrics, message):
    with pytest.raises(UserError) as error:
        evaluate(given, metrics)
    assert re.fullmatch(message, str(error.value)), str(error.value)


def test_cells_are_read_as_those_of_a_file():
    frame = pd.DataFrame({
        "Answer": ["Rome", "Rome", {"content": "Rome"}], "expected": ["['Rome', 'Roma']", ["Rome", None], "Rome"],
        "model": [" v1", "v1", "v1 "], "context": ["A city.", ["A city.", " "], None],
    })  # fmt: skip
    [(release, result)] = evaluate(frame, ["exact_match"]).items()
    assert (release, [one.values["match"] for one in result]) == ("v1", [1.0, 1.0, 1.0])
    assert [sample.references for sample in result.samples] == [("Rome", "Roma"), ("Rome",), ("Rome",)]
    assert [sample.context for sample in result.samples] == [("A city.",), ("A city.",), ()]


def test_columns_with_other_names_are_named_and_rows_may_be_dicts():
    rows = [{"a": "Rome", "truth": "Rome", "n": 1}, {"a": "Oslo", "truth": "Rome", "n": 2}]
    for table in (rows, pd.DataFrame(rows)):
        result = evaluate(table, ["exact_match"], answer="a", references="truth", id="n")
        assert [(one.sample_id, one.values["match"]) for one in result] == [("1", 1.0), ("2", 0.0)]
    with pytest.raises(UserError, match="answer='a' names a column of a data frame; a sample has its own answer"):
        evaluate(SAMPLES, ["exact_match"], answer="a")


def test_several_answers_to_a_question_are_numbered():
    frame = pd.DataFrame({"id": ["a", "a"], "repeat": [1, 2], "answer": ["x", "y"], "reference": "x", "model": "old"})
    assert [one.values["match"] for one in evaluate(frame, ["contains"])["old"]] == [1.0, 0.0]


def test_labels_are_a_column_that_is_named():
    frame = pd.DataFrame({"answer": list("abcd"), "reference": "a", "right": ["yes", 0, None, "n/a"]})
    frame["reference_"] = "a"
    result = evaluate(frame, ["exact_match"], label="right")
    assert [sample.label for sample in result.samples] == [True, False, None, None]
    assert [(one.status, one.values.get("correct")) for one in result.of("label")] == [
        ("scored", 1.0), ("scored", 0.0), ("undefined", None), ("undefined", None),
    ]  # fmt: skip
    assert "label.correct" not in evaluate(frame, ["exact_match"]).fields
    with pytest.raises(UserError, match="the data frame, row 0: the label 'a' is neither true nor false"):
        evaluate(frame, ["exact_match"], label="reference_")
    with pytest.raises(UserError, match=r"the data frame: no column 'rihgt' \(for label\); did you mean 'right'"):
        evaluate(frame, ["exact_match"], label="rihgt")
