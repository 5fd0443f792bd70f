"""The names of columns, and results as data frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

Key = Literal[
    "id", "question", "answer", "references", "facts", "context", "release", "label", "cluster", "missing_because",
    "repeat", "finish_reason", "incorrect_references", "messages", "references-as", "scores",
]  # fmt: skip

USUAL_NAMES: Mapping[Key, Sequence[str]] = json.loads(
    Path(__file__).with_name("columns.json").read_text(encoding="utf-8")
)
"""The names that tools, data sets and spreadsheets give their columns, the most telling first.

A label is never guessed: a column called "label" may mean anything. Nor is a number of rows an id: a second release
would have other numbers.
"""


def to_frame(columns: Mapping[str, Any], index: str = "") -> Any:
    """Columns of the same length as a pandas data frame. A lone surrogate, as in JSON that was cut off, becomes `?`.

    Args:
        index: the column whose values name the rows.
    """
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(list(values))
        except UnicodeEncodeError:
            arrays[name] = pa.array(_encodable(list(values)))
    frame = pa.table(arrays).to_pandas()
    return frame.set_index(index) if index else frame


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return [_encodable(element) for element in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
