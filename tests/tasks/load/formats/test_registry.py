"""Which format a file has is seen from its first rows; what two formats read differently is not guessed."""

import json

import pandas as pd
import pytest

from answerkey.tasks.load.formats.registry import AS_IT_STANDS, recognise
from answerkey.tasks.load.load import Source, load
from tests.tasks.staging_help import refusal, rows_of


def document(folder, content):
    file = folder / "answers.json"
    file.write_text(json.dumps(content))
    return load(Source(str(file)), folder / "work")


def table(rows, file, **source):
    frame = pd.DataFrame(rows)
    frame.to_csv(file, index=False) if file.suffix == ".csv" else frame.to_excel(file, index=False)
    return load(Source(str(file), release="r", **source), file.parent / "work")


def test_what_two_formats_read_differently_is_not_guessed():
    rows = [{"inputs": {"question": "How many?"}, "outputs": {"answer": "Two"}}]
    assert refusal(recognise, rows, "table.jsonl") == (
        "table.jsonl: fits an export of LangSmith and an evaluation table of MLflow; say which with "
        "--format langsmith or --format mlflow"
    )
    assert recognise(rows, "table.jsonl", "mlflow").format.name == "mlflow"
    assert recognise(rows, "table.jsonl", "plain") == AS_IT_STANDS


def test_a_table_without_rows_has_none_in_a_chosen_format_either(tmp_path):
    said = refusal(table, [], tmp_path / "t.csv", format="langfuse")
    assert said.endswith("t.csv: no rows; it needs at least one")


@pytest.mark.parametrize("broken", [None, {"id": "a", "inputs": {"question": "q"}, "reference_outputs": {}}])
def test_an_item_of_a_document_that_cannot_be_read_takes_no_other_with_it(tmp_path, broken):
    sound = {"inputs": {"question": "q"}, "outputs": {"answer": "a"}, "reference_outputs": {"answer": "r"}}
    runs = [{"id": n, **sound, "experiment": "e"} for n in range(1, 121)]
    runs[109] = broken
    loaded = document(tmp_path, {"runs": runs, "total": 120})
    assert loaded.n_rows == 120
    assert [row["row"] for row in rows_of(loaded.staged)] == [n for n in range(1, 121) if n != 110]
    [refused] = rows_of(loaded.rejects)
    assert (refused["row"], json.loads(refused["raw"])) == (110, broken)
    assert refused["reason"] == "is not what is in a row of an export of LangSmith"


def test_a_row_of_an_mlflow_table_with_another_number_of_values_is_refused(tmp_path):
    content = {"columns": ["inputs", 7, "outputs", "targets", "model"], "data": [["q", 0, "a", "r", "m"], ["q", "a"]]}
    loaded = document(tmp_path, content)
    [row] = rows_of(loaded.staged)
    assert (row["question"], row["answer"], row["references"], row["release"]) == ("q", "a", ["r"], "m")
    assert [row["reason"] for row in rows_of(loaded.rejects)] == ["has 2 values, and the table 5 columns"]


def test_data_without_answers_are_not_scored(tmp_path):
    said = refusal(document, tmp_path, [{"id": "1", "input": "Why?", "datasetId": "d", "expectedOutput": "So"}])
    assert said.endswith("it does not say which release answered (an export of Langfuse); name it with --release")
    said = refusal(load, Source(str(tmp_path / "answers.json"), release="r"), tmp_path / "work")
    assert said == (
        "answers.json: an export of Langfuse without answers: it goes with --references beside a file of answers, or "
        "to `answerkey generate`"
    )


TWICE = "an object has the key 'a' twice; keep one of them"
CHAT = """[{"content": "q", "role": "user"}, {"content": "x", "role": "assistant"%s}]"""
ONCE_AND_TWICE = (', "a": 1', ', "a": 1, "a": 2')
PLAIN = {"answer": "x", "reference": "x"}
CELLS = {
    "mapped": (PLAIN | {"meta": '{"a": "1"%s}'}, ("", ', "a": "2"'), {"label": "meta.a"}, f"label (meta.a) {TWICE}"),
    "JSON": (PLAIN | {"reference": '["x", {"a": "1"%s}]'}, ("", ', "a": 1'), {}, f"references (reference) {TWICE}"),
    "Python": (PLAIN | {"reference": "['x', {'a': '1'%s}]"}, ("", ", 'a': 2"), {}, f"references (reference) {TWICE}"),
    "chat": (PLAIN | {"question": CHAT}, ONCE_AND_TWICE, {}, TWICE),
    "ragas": ({"user_input": CHAT, "reference": "x"}, ONCE_AND_TWICE, {}, TWICE),
}
"""Cells of a row, what stands at the %s of sound ones and of others, what is mapped, and why the others are refused."""


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("name", CELLS)
def test_a_key_twice_in_a_cell_refuses_its_row(tmp_path, name, kind):
    cells, ends, mapped, reason = CELLS[name]
    rows = [
        {"id": str(n)} | {column: cell.replace("%s", ends[n in (0, 2)]) for column, cell in cells.items()}
        for n in range(4)
    ]
    loaded = table(rows, tmp_path / f"t.{kind}", paths=mapped)
    refused = [(row["row"], row["reason"]) for row in rows_of(loaded.rejects)]
    assert (refused, loaded.n_rows) == ([(1, reason), (3, reason)], 4)


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (("answer", "reference"), ['[{"a": 1, "a": 2}] is what it said']),
        (
            ("outputs.answer", "reference_outputs.answer"),
            ['{"a": 1}', '{"content": "Paris"}', '"Paris"', "[1, 2]", "1.10"],
        ),
    ],
    ids=["only begins like JSON", "in a column for one part of an object"],
)
def test_a_text_that_spells_json_stays_a_text(tmp_path, names, texts):
    rows = [{"id": n, "inputs.question": "Which?", **dict.fromkeys(names, text)} for n, text in enumerate(texts)]
    staged = rows_of(table(rows, tmp_path / "exp.csv").staged)
    assert [(row["answer"], row["references"]) for row in staged] == [(text, [text]) for text in texts]
