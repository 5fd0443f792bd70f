"""Excel workbooks: the rows of a sheet, with numbers and dates as people see them."""

from __future__ import annotations

import datetime as dt
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import IO, Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import header_at

Row = tuple[int, Mapping[str, Any] | None, str | None]
"""The number of a row below the header, from 1, and its record, or why it cannot be read."""


_PIECE = 1 << 20
_MOST_TITLES = 10
"""Rows in which the names of the columns are looked for."""
_DIGITS = Context(prec=400)
"""Precision for any number that a cell can hold, with its decimals."""


def left_out(title: str) -> str:
    """The note on what stands above the names of the columns."""
    return f"left out above the names of the columns: {' '.join(title.split())!r}"


def sheet_rows(file: Path, notes: list[str], sheet: str = "") -> Iterator[Row]:
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
            try:
                chosen = _chosen(file, book, sheet)
                yield from _rows(file, chosen, _merged(file, chosen.title), notes)
            finally:
                book.close()
    except UserError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
        EOFError,
        SyntaxError,
    ) as error:
        why = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise UserError(f"{file}: not a workbook, or cut off or damaged ({why}); save it again") from error


def _chosen(file: Path, book: Any, sheet: str) -> Any:
    sheets = {one.title: one for one in book.worksheets}
    if sheet:
        if sheet not in sheets:
            raise UserError(f"{file}: there is no sheet {sheet!r}; the sheets are {', '.join(sheets)}")
        return sheets[sheet]
    filled = [one for one in sheets.values() if one.sheet_state == "visible" and _first(one) is not None]
    if not filled:
        raise UserError(f"{file}: no rows in the sheets {', '.join(sheets)}; it needs at least one")
    if len(filled) > 1:
        names = ", ".join(one.title for one in filled)
        raise UserError(f"{file}: the sheets {names} have rows; name one, {file}::{filled[0].title}")
    return filled[0]


def _first(sheet: Any) -> int | None:
    """The number of the first row that is not blank, from 1."""
    rows = enumerate(sheet.iter_rows(values_only=True), start=1)
    return next((number for number, row in rows if any(value is not None for value in row)), None)


def _merged(file: Path, sheet: str) -> list[Any]:
    """The ranges of merged cells in a sheet. To know them, openpyxl has to read all of a workbook."""
    import openpyxl

    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/"):
                with archive.open(name) as content:
                    if _has(content, b"<mergeCell "):
                        return list(openpyxl.load_workbook(file, data_only=True)[sheet].merged_cells.ranges)
    return []


def _has(content: IO[bytes], mark: bytes) -> bool:
    end = b""
    while piece := content.read(_PIECE):
        if mark in end + piece:
            return True
        end = piece[-len(mark) :]
    return False


def _rows(file: Path, sheet: Any, merged: Sequence[Any], notes: list[str]) -> Iterator[Row]:
    first = _first(sheet)
    if first is None:
        raise UserError(f"{file}: no rows in the sheet {sheet.title!r}; it needs at least one")
    top = sheet.iter_rows(min_row=first, max_row=first + _MOST_TITLES, values_only=True)
    above = [["" if value is None else str(value) for value in row] for row in top]
    if header := header_at(above):
        notes.append(left_out(" ".join(" ".join(cells) for cells in above[:header])))
    rows = sheet.iter_rows(min_row=first + header)
    names = [None if cell.value is None else str(_seen(cell)).strip() for cell in next(rows)]
    given = [name for name in names if name]
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise UserError(
            f"{file}: several columns of the sheet {sheet.title!r} are called {', '.join(twice)}; rename all but one"
        )
    first += header
    merged = [one for one in merged if one.min_row > first and one.max_row > one.min_row]
    if merged:
        notes.append("a merged cell has its value in each of its rows")
    carried: dict[Any, Any] = {}
    for number, cells in enumerate(rows, start=1):
        filled = [cell for cell in cells if cell.value is not None]
        if not filled:
            continue
        for area in merged:
            if area.min_row == first + number:
                carried[area] = next((cell for cell in filled if cell.column == area.min_col), None)
            elif area.min_row < first + number <= area.max_row and carried.get(area):
                filled.append(carried[area])
        if wrong := next((cell for cell in filled if cell.data_type == "e"), None):
            yield number, None, f"row {number}: cell {wrong.coordinate} of the sheet {sheet.title!r} is {wrong.value}"
            continue
        if beyond := next((cell for cell in filled if cell.column > len(names) or not names[cell.column - 1]), None):
            yield number, None, f"row {number}: cell {beyond.coordinate} is in a column without a name"
            continue
        record = dict.fromkeys(given)
        record.update((names[cell.column - 1], _seen(cell)) for cell in filled)
        yield number, record, None


def _seen(cell: Any) -> Any:
    """The value of a cell as a text that is close to what Excel shows; texts and truth values as they are."""
    value, shape = cell.value, str(cell.number_format or "General")
    if isinstance(value, bool | str):
        return value
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time(0)
        return str(value.date()) if midnight and not re.search("[hs]", shape) else value.isoformat(" ", "seconds")
    if isinstance(value, int | float):
        return _number(value, shape.split(";", 1)[0])
    return str(value)


def _number(value: float, shape: str) -> str:
    r"""A number in the decimals of its cell: a percentage as one, and else with up to 15 digits, as Excel has them.

    >>> _number(0.5, "0%"), _number(1.5, "0.00"), _number(0.1 + 0.2, "General"), _number(3.0, "General")
    ('50%', '1.50', '0.3', '3')
    >>> _number(2.675, "0.00"), _number(0.285, "0%")
    ('2.68', '29%')
    """
    plain = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", shape)
    percent = "%" in plain
    decimals = re.search(r"[0#?]\.(0+)(?![#?])", plain)
    if not re.search("[Ee]", plain) and (decimals or percent):
        exact = Decimal(f"{value:.15g}").scaleb(2 if percent else 0)
        shown = exact.quantize(Decimal(1).scaleb(-len(decimals[1]) if decimals else 0), ROUND_HALF_UP, _DIGITS)
        return f"{shown:f}{'%' if percent else ''}"
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"
