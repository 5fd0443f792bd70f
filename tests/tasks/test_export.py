"""Tables as files: of one state, with all rows, and harmless in a spreadsheet."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answerkey.tasks.export import export
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.schema import relations
from tests.tasks.staging_help import refusal, run, source_of

ANSWERS = ["=HYPERLINK(1)", "+1", "-1 degree", "@here", "\t=1", " = 2", "＝1", 'plain, "quoted"\nand broken', "a=b"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    rows = [{"id": str(i), "answer": answer, "reference": "x", "release": "r"} for i, answer in enumerate(ANSWERS)]
    run(Home(folder / "home"), source_of(folder, rows), ["exact_match"])
    return Home(folder / "home")


def test_parquet_has_all_tables_with_all_rows(home, tmp_path):
    rows = export(home, tmp_path / "out")
    assert set(rows) == {name for name, relation in relations().items() if not relation.is_view}
    assert {file.name for file in (tmp_path / "out").iterdir()} == {f"{name}.parquet" for name in rows}
    assert pq.read_table(tmp_path / "out/answers.parquet").column("answer").to_pylist() == ANSWERS
    assert rows["answers"] == len(ANSWERS)


def test_csv_has_no_formulas_and_loses_nothing(home, tmp_path):
    assert export(home, tmp_path / "out", ["answers", "report_metrics"], format="csv")["answers"] == len(ANSWERS)
    with (tmp_path / "out/answers.csv").open(encoding="utf-8", newline="") as file:
        answers = [row["answer"] for row in csv.DictReader(file)]
    assert answers == [*(f"'{text}" for text in ANSWERS[:7]), *ANSWERS[7:]]
    with (tmp_path / "out/report_metrics.csv").open(encoding="utf-8", newline="") as file:
        [row] = [row for row in csv.DictReader(file) if row["field"] == "match"]
    assert (row["report_id"], float(row["mean"]), row["n_scored"]) == ("d/r/v1", 0.0, "9")


def test_what_cannot_be_exported_is_said(home, tmp_path):
    for folder, names, why in (
        (tmp_path / "out", ["answrs"], "answrs: no such table or view"),
        (tmp_path, [], f"{tmp_path}: this is there already; name a folder that is not"),
        (Path(str(home)) / "out", [], "name a folder outside of the home"),
    ):
        assert why in refusal(export, home, folder, names)
    assert not (tmp_path / "out").exists()
