"""Which format a file has is seen from its first rows; what two formats read differently is not guessed."""

import csv
import json
from typing import Any

import openpyxl
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.tasks.load.formats.registry import AS_IT_STANDS, FORMATS, recognise
from answerkey.tasks.load.load import Source, load
from answerkey.tasks.load.rows import Raw
from tests.tasks.staging_help import rows_of


def document(folder, content):
    file = folder / "answers.json"
    file.write_text(json.dumps(content))
    return load(Source(str(file)), folder / "work")


def test_an_object_with_one_list_is_its_items(tmp_path):
    items = [{"id": 1, "answer": "a", "references": "a"}, [2], {"id": 3, "answer": "a", "references": "a"}]
    found = list(AS_IT_STANDS.rows([Raw(1, {"version": 2, "data": items}, document=True), Raw(2, {"id": 4})]))
    assert found == [
        Raw(1, items[0]),
        Raw(2, None, "item 2 is a JSON list, not an object", "[2]"),
        Raw(3, items[2]),
        Raw(4, {"id": 4}),
    ]


@pytest.mark.parametrize(("content", "has"), [({"a": [1], "b": [2]}, "a, b"), ({"a": 1}, "a"), ({}, "nothing")])
def test_an_object_of_no_known_format_says_what_is_in_it(tmp_path, content, has):
    with pytest.raises(UserError) as error:
        document(tmp_path, content)
    assert str(error.value).startswith(
        f"{tmp_path}/answers.json: none of the first 1 rows can be read: expected a list of objects, or an object with "
        f"one list of them; it has {has}, which is none of the formats known here: promptfoo, "
    )


def test_a_format_that_does_not_fit_is_refused():
    with pytest.raises(UserError) as error:
        recognise([{"id": 1, "answer": "a"}], "answers.jsonl", "promptfoo")
    assert str(error.value) == "answers.jsonl: this is not promptfoo results; leave --format out"


def test_what_two_formats_read_differently_is_not_guessed():
    rows = [{"inputs": {"question": "How many?"}, "outputs": {"answer": "Two"}}]
    with pytest.raises(UserError) as error:
        recognise(rows, "table.jsonl")
    assert str(error.value) == (
        "table.jsonl: fits an export of LangSmith and an evaluation table of MLflow; say which with "
        "--format langsmith or --format mlflow"
    )
    assert recognise(rows, "table.jsonl", "mlflow").format.name == "mlflow"
    assert recognise(rows, "table.jsonl", "plain") == AS_IT_STANDS


@pytest.mark.parametrize("broken", [None, {"id": "a", "inputs": {"question": "q"}, "reference_outputs": {}}])
def test_an_item_of_a_document_that_cannot_be_read_takes_no_other_with_it(tmp_path, broken):
    runs: list[Any] = [
        {"id": n, "inputs": {"question": "q"}, "outputs": {"answer": "a"}, "reference_outputs": {"answer": "r"},
         "experiment": "e"}
        for n in range(1, 121)
    ]  # fmt: skip
    runs[109] = broken
    loaded = document(tmp_path, {"runs": runs, "total": 120})
    assert loaded.n_rows == 120
    assert [row["row"] for row in rows_of(loaded.staged)] == [n for n in range(1, 121) if n != 110]
    [refused] = rows_of(loaded.rejects)
    assert (refused["row"], json.loads(refused["raw"])) == (110, broken)
    assert refused["reason"] == "is not what is in a row of an export of LangSmith"


def test_a_row_of_an_mlflow_table_with_another_number_of_values_is_refused(tmp_path):
    table = {"columns": ["inputs", 7, "outputs", "targets", "model"], "data": [["q", 0, "a", "r", "m"], ["q", "a"]]}
    loaded = document(tmp_path, table)
    [row] = rows_of(loaded.staged)
    assert (row["question"], row["answer"], row["references"], row["release"]) == ("q", "a", ["r"], "m")
    assert [row["reason"] for row in rows_of(loaded.rejects)] == ["has 2 values, and the table 5 columns"]


def test_data_without_answers_are_not_scored(tmp_path):
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


def test_plain_rows_are_no_format():
    rows = [{"id": 1, "question": "q", "answer": "a", "references": ["r"], "release": "one"}]
    assert recognise(rows, "answers.jsonl") == AS_IT_STANDS
    assert list(FORMATS)[-1] == "plain"


TWICE = "an object has the key 'a' twice; keep one of them"
CHAT = """[{"content": "q", "role": "user"}, {"content": "x", "role": "assistant"%s}]"""
CELLS: dict[str, tuple[dict[str, str], tuple[str, str], dict[Key, str], str]] = {
    "mapped": ({"meta": '{"a": "1"%s}'}, ("", ', "a": "2"'), {"label": "meta.a"}, f"label (meta.a) {TWICE}"),
    "JSON": ({"reference": '["x", {"a": "1"%s}]'}, ("", ', "a": "1"'), {}, f"references (reference) {TWICE}"),
    "Python": ({"reference": "['x', {'a': '1'%s}]"}, ("", ", 'a': '2'"), {}, f"references (reference) {TWICE}"),
    "chat": ({"question": CHAT}, (', "a": 1', ', "a": 1, "a": 2'), {}, TWICE),
    "ragas": ({"user_input": CHAT, "reference": "x"}, (', "a": 1', ', "a": 1, "a": 2'), {}, TWICE),
}
"""Cells of a row, what stands at the %s of sound ones and of others, what is mapped, and why the others are refused."""


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("name", CELLS)
def test_a_key_twice_in_a_cell_refuses_its_row(tmp_path, name, kind):
    cells, ends, mapped, reason = CELLS[name]
    plain = {} if name == "ragas" else {"answer": "x", "reference": "x"}
    rows = [
        {"id": str(n), **plain, **{column: cell.replace("%s", ends[n in (0, 2)]) for column, cell in cells.items()}}
        for n in range(4)
    ]
    file = tmp_path / f"t.{kind}"
    table([[*rows[0]], *([*row.values()] for row in rows)], file)
    loaded = load(Source(str(file), release="r", paths=mapped), tmp_path / "work")
    refused = [(row["row"], row["reason"]) for row in rows_of(loaded.rejects)]
    assert (refused, loaded.n_rows) == ([(1, reason), (3, reason)], 4)


def table(rows, file):
    if file.suffix == ".csv":
        with file.open("w", newline="") as out:
            csv.writer(out).writerows(rows)
        return
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    book.save(file)


def test_a_text_that_only_begins_like_json_is_a_text(tmp_path):
    text = '[{"a": 1, "a": 2}] is what it said'
    file = tmp_path / "t.csv"
    table([["id", "answer", "reference"], ["1", text, text]], file)
    [row] = rows_of(load(Source(str(file), release="r"), tmp_path / "work").staged)
    assert (row["answer"], row["references"]) == (text, [text])


def test_a_log_in_which_nothing_can_be_scored_says_so(tmp_path):
    spec = {"spec": {"completion_fns": ["m"], "eval_name": "graded"}}
    event = {"run_id": "r", "event_id": 0, "sample_id": "g.0", "type": "metrics", "data": {"choice": "Y", "score": 1.0}}
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (spec, event)))
    with pytest.raises(UserError) as error:
        load(Source(str(file)), tmp_path / "staged")
    assert str(error.value) == f"{file}: a log of OpenAI evals, in which is no answer beside what was expected"


def test_an_answer_that_spells_an_object_stays_a_text_in_a_column_for_one_part(tmp_path):
    answers = ['{"a": 1}', '{"content": "Paris"}', '"Paris"', "[1, 2]", "1.10"]
    with (tmp_path / "exp.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "inputs.question", "outputs.answer", "reference_outputs.answer"])
        table.writerows([number, "Which?", answer, answer] for number, answer in enumerate(answers))
    loaded = load(Source(str(tmp_path / "exp.csv"), release="r"), tmp_path / "work")
    assert [(row["answer"], row["references"]) for row in rows_of(loaded.staged)] == [(one, [one]) for one in answers]
