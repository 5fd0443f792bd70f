"""Data frames (pandas, polars, Arrow) as sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import records


def frame_source(frame: Any, folder: Path, name: str = "answers") -> str:
    """Write a data frame where a `Source` can name it, and return the path. The index of pandas is left out.

    As JSON Lines: a column of a frame may hold lists in some rows and texts in others. NaN, None, NaT and NA
    become null.

    Raises:
        UserError: it is no data frame, or two columns have one name.
    """
    rows = records(frame)
    if rows is None:
        raise UserError(f"a data frame is needed (of pandas, polars or Arrow), not {type(frame).__name__}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, default=_plain) + "\n" for row in rows)
    return str(file)


def _plain(cell: Any) -> Any:
    """A cell that JSON does not know: an array as a list, anything else as Python prints it."""
    return cell.tolist() if hasattr(cell, "tolist") else str(cell)
