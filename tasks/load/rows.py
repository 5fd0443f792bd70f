"""One row of a source, and the rows of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from answerkey.tasks.load.plain import JSON, KeyTwice


class Raw(NamedTuple):
    """One row as read: its 1-based number in the source, and the record, or why it could not be read.

    A `document` is the object that a whole JSON file consists of; the rows in it depend on its format. Of several
    files, `file` is the one that the row is in, and `file_row` its number there.
    """

    row: int
    record: Mapping[str, Any] | None
    error: str | None = None
    text: str | None = None
    document: bool = False
    file: str | None = None
    file_row: int | None = None


def read_lines(file: Path, before: int = 0) -> Iterator[Raw]:
    """The rows of JSON Lines, after `before` lines of the same file that are kept elsewhere."""
    # Undecodable bytes become U+FFFD, which validation finds and quarantines by row.
    with file.open(encoding="utf-8" if before else "utf-8-sig", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=before + 1):
            if text := line.strip():
                yield parse_line(number, text)


def parse_line(number: int, line: str) -> Raw:
    """One line of a JSONL file, counted from 1."""
    try:
        record = JSON.decode(line)
    except KeyTwice as error:
        return Raw(number, None, f"line {number}: {error}", line)
    except (ValueError, RecursionError) as error:
        return Raw(number, None, f"line {number} is not JSON: {error}", line)
    if not isinstance(record, dict):
        return Raw(number, None, f"line {number} is a JSON {type(record).__name__}, not an object", line)
    return Raw(number, record)


def item_row(number: int, item: Any) -> Raw:
    """One item of a list in a JSON file, counted from 1."""
    if isinstance(item, dict):
        return Raw(number, item)
    return Raw(number, None, f"item {number} is a JSON {type(item).__name__}, not an object", json.dumps(item))
