"""Which format a file has is seen from its first rows; what two formats read differently is not guessed."""

import json
from pathlib import Path
from typing import Any

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.formats.registry import AS_IT_STANDS, FORMATS, recognise
from answerkey.tasks.load.load import Loaded, Source, load
from answerkey.tasks.load.sources import Raw


def document(folder: Path, content: Any) -> Loaded:
    file = folder / "answers.json"
    file.write_text(json.dumps(content))
    return load(Source(str(file)), folder / "work")


def test_an_object_with_one_list_is_its_items(tmp_path: Path) -> None:
    items = [{"id": 1, "answer": "a", "references": "a"}, [2], {"id": 3, "answer": "a", "references": "a"}]
    found = list(AS_IT_STANDS.rows([Raw(1, {"version": 2, "data": items}, document=True), Raw(2, {"id": 4})]))
    assert found == [
        Raw(1, items[0]),  # type: ignore[arg-type]
        Raw(2, None, "item 2 is a JSON list, not an object", "[2]"),
        Raw(3, items[2]),  # type: ignore[arg-type]
        Raw(4, {"id": 4}),
    ]


@pytest.mark.parametrize(("content", "has"), [({"a": [1], "b": [2]}, "a, b"), ({"a": 1}, "a"), ({}, "nothing")])
def test_an_object_of_no_known_format_says_what_is_in_it(tmp_path: Path, content: Any, has: str) -> None:
    with pytest.raises(UserError) as error:
        document(tmp_path, content)
    assert str(error.value).startswith(
        f"{tmp_path}/answers.json: none of the first 1 rows can be read: expected a list of objects, or an object with "
        f"one list of them; it has {has}, which is none of the formats known here: promptfoo, "
    )


def test_a_format_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError) as error:
        recognise([{"id": 1, "answer": "a"}], "answers.jsonl", "promptfoo")
    assert str(error.value) == "answers.jsonl: this is not promptfoo results; leave --format out"


def test_what_two_formats_read_differently_is_not_guessed() -> None:
    rows = [{"inputs": {"question": "How many?"}, "outputs": {"answer": "Two"}}]
    with pytest.raises(UserError) as error:
        recognise(rows, "table.jsonl")
    assert str(error.value) == (
        "table.jsonl: fits an export of LangSmith and an evaluation table of MLflow; say which with "
        "--format langsmith or --format mlflow"
    )
    assert recognise(rows, "table.jsonl", "mlflow").format.name == "mlflow"
    assert recognise(rows, "table.jsonl", "plain") == AS_IT_STANDS


def test_data_without_answers_are_not_scored(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        document(tmp_path, [{"id": "1", "input": "How many?", "datasetId": "d", "expectedOutput": "Two"}])
    assert str(error.value) == (
        "answers.json: it is not said which release answered (an export of Langfuse); name it with --release"
    )
    with pytest.raises(UserError) as error:
        load(Source(str(tmp_path / "answers.json"), release="r"), tmp_path / "work")
    assert str(error.value) == (
        "answers.json: an export of Langfuse without answers: it goes with --references beside a file of answers, or "
        "to `answerkey generate`"
    )


def test_plain_rows_are_no_format() -> None:
    rows = [{"id": 1, "question": "q", "answer": "a", "references": ["r"], "release": "one"}]
    assert recognise(rows, "answers.jsonl") == AS_IT_STANDS
    assert list(FORMATS)[-1] == "plain"
