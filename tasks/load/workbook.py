"""Excel workbooks: the rows of a sheet, whose cells are the texts that Excel shows."""

from __future__ import annotations

import itertools
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.cells import SHOWN_OTHERWISE, UnreadableCell, UnshownError, shown_number, shown_text
from answerkey.tasks.load.columns import column_name, header_at, is_row
from answerkey.tasks.load.remote import first_line
from answerkey.tasks.load.rows import Raw, check_names, left_out

_MOST_TITLES = 10
"""Rows in which the names of the columns are looked for."""


def sheet_rows(file: Path, notes: list[str], sheet: str = "") -> Iterator[Raw]:
    """The rows of a sheet of a workbook: of the one with anything in it, unless one is named.

    The first row that is not blank, or the first below a title, has the names of the columns. Blank rows are left out,
    and counted. A merged cell has its value in each of its rows. What was left out or repeated is added to the `notes`.

    Raises:
        UserError: it is no workbook, or damaged; the sheet is not there, or must be named; columns share a name.
    """
    import openpyxl

    try:
        with warnings.catch_warnings():
            # Of styles and extensions, which do not matter here.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            # Dates stay the numbers that they are in the file, for their format is applied here
            book._date_formats = set()
            try:
                sheets = {worksheet.title: worksheet for worksheet in book.worksheets}
                visible = [title for title in sheets if sheets[title].sheet_state == "visible"]
                filled = [] if sheet else [title for title in visible if _first_row(sheets[title])]
                if sheet and sheet not in sheets:
                    raise UserError(f"{file}: there is no sheet {sheet!r}; the sheets are {', '.join(sheets)}")
                if not sheet and not filled:
                    raise UserError(f"{file}: no rows in the sheets {', '.join(sheets)}; it needs at least one")
                if len(filled) > 1:
                    raise UserError(f"{file}: the sheets {', '.join(filled)} have rows; name one, {file}::{filled[0]}")
                title = sheet or filled[0]
                merged = []
                if _occurs(file, "xl/worksheets/", b"<mergeCell "):
                    # To know merged cells, openpyxl has to read all of a workbook
                    merged = list(openpyxl.load_workbook(file, data_only=True)[title].merged_cells.ranges)
                yield from _rows(file, sheets[title], merged, notes)
            finally:
                book.close()
    except UserError:
        raise
    except Exception as error:
        # Of a damaged file, openpyxl raises whatever its parts stumble on
        problem = first_line(error) or type(error).__name__
        raise UserError(f"{file}: not a workbook, or cut off or damaged ({problem}); save it again") from error


def _first_row(sheet: Any) -> int:
    """Return the number of the first row that is not blank, from 1; 0 if there is none."""
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        if any(value is not None for value in row):
            return number
    return 0


def _occurs(file: Path, folder: str, mark: bytes) -> bool:
    """Tell whether a pattern is in a part of a workbook."""
    with zipfile.ZipFile(file) as archive:
        parts = (name for name in archive.namelist() if name.startswith(folder))
        return any(re.search(mark, archive.read(name)) for name in parts)


def _header(file: Path, sheet: Any, notes: list[str]) -> tuple[int, list[str]]:
    """Return the number of the row with the names of the columns, and those, empty where there is none.

    Raises:
        UserError: there is no row, or columns share a name.
    """
    header_row = _first_row(sheet)
    if not header_row:
        raise UserError(f"{file}: no rows in the sheet {sheet.title!r}; it needs at least one")
    top = []
    for row in sheet.iter_rows(min_row=header_row, max_row=header_row + _MOST_TITLES, values_only=True):
        top.append(["" if value is None else str(value) for value in row])
    if n_titles := header_at(top):
        notes.append(left_out(" ".join(itertools.chain(*top[:n_titles]))))
    header_row += n_titles
    header = next(sheet.iter_rows(min_row=header_row))
    names = ["" if cell.value is None else column_name(str(_shown_cell(cell))) for cell in header]
    check_names([name for name in names if name], f"{file}::{sheet.title}")
    return header_row, names


def _rows(file: Path, sheet: Any, merged: Sequence[Any], notes: list[str]) -> Iterator[Raw]:
    header_row, names = _header(file, sheet, notes)
    columns = [name for name in names if name]
    # pandas writes the numbers of rows in a first column without a name
    names[0] = names[0] or "column0"
    merged = [area for area in merged if area.min_row > header_row and area.max_row > area.min_row]
    if merged:
        notes.append("a merged cell has its value in each of its rows")
    carried = {}
    formulas = _formulas(file, sheet.title, header_row + 1)
    # A program that asks Excel to compute all anew on opening has written 0 where it knows no value
    is_stale = _occurs(file, "xl/workbook.xml", b'fullCalcOnLoad="(1|true)"')
    has_local_dates = False
    for number, cells in enumerate(sheet.iter_rows(min_row=header_row + 1), start=1):
        # The cells with anything in them, with the formulas of which the value is not known
        unknown = _not_computed(cells, next(formulas, ()), is_stale)
        pairs = [(cell, unknown.get(column)) for column, cell in enumerate(cells, start=1)]
        filled = [(cell, formula) for cell, formula in pairs if cell.value is not None or formula is not None]
        if not filled:
            continue
        for area in merged:
            if area.min_row == header_row + number:
                carried[area] = [pair for pair in filled if pair[0].column == area.min_col]
            elif area.min_row < header_row + number <= area.max_row:
                filled += carried.get(area, [])

        # The record, in which each cell has the name of its column
        nameless = [cell for cell, _ in filled if cell.column > len(names) or not names[cell.column - 1]]
        if nameless:
            error = f"row {number}: cell {nameless[0].coordinate} is in a column without a name"
            yield Raw(number, None, error, error)
            continue
        record = dict.fromkeys(columns)
        for cell, formula in filled:
            record[names[cell.column - 1]] = _shown_cell(cell, formula)
            has_local_dates |= cell.number_format in SHOWN_OTHERWISE
        if is_row([*record.values()], columns, file):
            yield Raw(number, record)
    if _occurs(file, "xl/worksheets/", b'<row [^>]*hidden="(1|true)"'):
        notes.append("rows that are hidden or filtered out are read like all others")
    if has_local_dates:
        notes.append(f"dates that each computer shows in its own order are read as {SHOWN_OTHERWISE[0]}")


def _formulas(file: Path, sheet: str, first_row: int) -> Iterator[Sequence[Any]]:
    """Yield the cells of each row, from a first one on, with formulas in place of values, if there are any."""
    import openpyxl

    if _occurs(file, "xl/worksheets/", b"<f[ >]"):
        book = openpyxl.load_workbook(file, read_only=True)
        try:
            yield from book[sheet].iter_rows(min_row=first_row)
        finally:
            book.close()


def _not_computed(cells: Sequence[Any], with_formulas: Sequence[Any], is_stale: bool) -> dict[int, str]:
    """Return the formulas of a row whose value is not in the file, by column."""
    formulas = {}
    for saved, cell in zip(cells, with_formulas, strict=False):
        is_absent = (saved.value is None and saved.data_type == "n") or (is_stale and saved.value == 0)
        if is_absent and cell.data_type == "f":
            formulas[cell.column] = str(getattr(cell.value, "text", cell.value))
    return formulas


def _shown_cell(cell: Any, formula: str | None = None) -> str | UnreadableCell:
    """Return the text that Excel shows for a cell, or why it is not known."""
    import openpyxl.utils.datetime

    location = f"cell {cell.coordinate} of the sheet {cell.parent.title!r}"
    if formula is not None:
        return UnreadableCell(
            f"{location} has the formula {formula} without its value: save the file in Excel, or write the cell as a "
            "text"
        )
    value = cell.value
    epoch = cell.parent.parent.epoch
    if cell.data_type == "e":
        return UnreadableCell(f"{location} is {value}", error=value)
    try:
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, str):
            return shown_text(value, cell.number_format)
        # Dates that are written as such; elsewhere they are numbers, for the book was told of no formats of dates
        if not isinstance(value, int | float):
            value = openpyxl.utils.datetime.to_excel(value, epoch)
        return shown_number(value, cell.number_format, is_1904=epoch.year == 1904)
    except UnshownError as error:
        reason = str(error).replace("{}", cell.number_format)
        return UnreadableCell(f"{location} cannot be read: {reason}; save it as a text")
