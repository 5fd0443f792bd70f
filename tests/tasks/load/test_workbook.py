"""Cells of Excel workbooks are read as people see them."""

import datetime as dt

import openpyxl
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import read


def book(file, **sheets):
    """Write a workbook; a cell may be a value with its number format."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for r, row in enumerate(rows, start=1):
            for c, value in enumerate(row, start=1):
                cell = sheet.cell(r, c, value[0] if isinstance(value, tuple) else value)
                if isinstance(value, tuple):
                    cell.number_format = value[1]
    made.save(file)
    return str(file)


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        ("Paris", "Paris"), (" 007", " 007"), (True, True), (42, "42"), (3.0, "3"), (0.1 + 0.2, "0.3"), (1e20, "1e+20"),
        ((0.5, "0%"), "50%"), ((0.1234, "0.0%"), "12.3%"), ((1.5, "0.00"), "1.50"), ((-2, "0.00;[Red]-0.00"), "-2.00"),
        ((1234.5, '#,##0.00 "EUR"'), "1234.50"), ((1234567, "#,##0"), "1234567"), ((7, "@"), "7"),
        (dt.date(1969, 7, 20), "1969-07-20"), (dt.datetime(1969, 7, 20, 20, 17), "1969-07-20 20:17:00"),
        ((dt.datetime(1969, 7, 20), "yyyy-mm-dd hh:mm"), "1969-07-20 00:00:00"), (dt.time(8, 30), "08:30:00"),
        (None, None),
    ],
)  # fmt: skip
def test_a_cell(tmp_path, cell, seen):
    file = book(tmp_path / "a.xlsx", Answers=[["id", "answer"], ["q1", cell]])
    assert list(read(file, tmp_path / "work")) == [Raw(1, {"id": "q1", "answer": seen})]


def test_blank_rows_and_a_title_above_the_names_of_the_columns(tmp_path):
    rows = [
        [],
        [None, "id", "answer"],
        [None, "q1", "x"],
        [],
        [None, "q2", "=1/0"],
        [None, "q3", "y", "note"],
        [None, "q4"],
    ]
    file = book(tmp_path / "a.xlsx", Notes=[], Answers=rows)
    # What a formula is worth is in the file only once a program has computed it.
    found = list(read(file, tmp_path / "work"))
    assert [(raw.row, raw.record or raw.error) for raw in found] == [
        (1, {"id": "q1", "answer": "x"}),
        (3, {"id": "q2", "answer": None}),
        (4, "row 4: cell D6 is in a column without a name"),
        (5, {"id": "q4", "answer": None}),
    ]


def test_which_sheet_is_meant(tmp_path):
    file = book(tmp_path / "a.xlsx", One=[["answer"], ["x"]], Two=[["answer"], ["y"]], Empty=[])
    with pytest.raises(UserError) as error:
        list(read(file, tmp_path / "work"))
    assert str(error.value) == f"{file}: the sheets One, Two have rows; name one, {file}::One"
    assert list(read(f"{file}::Two", tmp_path / "work")) == [Raw(1, {"answer": "y"})]
    for sheet, said in {
        "Three": "there is no sheet 'Three'; the sheets are One, Two, Empty",
        "Empty": "no rows in the sheet",
    }.items():
        with pytest.raises(UserError) as error:
            list(read(f"{file}::{sheet}", tmp_path / "work"))
        assert said in str(error.value)
