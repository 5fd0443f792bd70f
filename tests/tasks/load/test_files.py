"""What becomes of files as people have them: every row of the table in files.md is loaded, and true."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from answerkey.flows.parameters import Data
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import load
from tests.tasks.staging_help import rows_of

HERE = Path(__file__).parent
PAGE = HERE / "files.md"
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \| (?:`(?P<options>.*?)`)? ?\|", re.MULTILINE)
FIELDS = {
    "--map": "columns", "--map-references": "reference_columns", "--wide": "wide", "--references": "references",
    "--release": "release", "--slice": "slices",
}  # fmt: skip
LISTS = ("columns", "reference_columns", "wide", "slices")
TABLE = [(found["file"], (found["options"] or "").replace("\\|", "|")) for found in ROW.finditer(PAGE.read_text())]


def loaded(file, options, folder):
    """What the loader makes of a file with options as they are typed."""
    words, given = iter(shlex.split(options)), {"answers": str(HERE / file)}
    for word in words:
        name, text = FIELDS[word], next(words)
        text = str(HERE / text) if name == "references" else text
        given[name] = (
            [*given.get(name, []), *(text.split(",") if name == "wide" else [text])] if name in LISTS else text
        )
    return load(Data(**given).source(), folder)


def line(file, options, folder):
    """The row of the table for a file, with what was done, or the message that refuses it."""
    shown = f" `{options}`".replace("|", "\\|") if options else ""
    first = f"| `{file}` |{shown} |"
    try:
        done = loaded(file, options, folder)
    except UserError as error:
        said = str(error).replace(f"{HERE / file}/", "").replace(f"{HERE / file}", Path(file).name)
        return f"{first} | | | {_cell(f'`{said}`')} |"
    rows = rows_of(done.staged)
    named = re.compile(
        ": (not used|not read|left out|--release .* stands for|.* look like the answers|references that (may|look)"
        "|rows that)"
    )
    # Without the columns that are used, and how the release is called, which the first line of a file says as well
    notes = [
        re.sub(": columns [^;]*; ", ": ", re.sub("; (the release|each file) is .*", "", text)) for text in done.notes
    ]
    rest = "; ".join(text.split(": ", 1)[1] for text in notes if named.search(text))
    counts = len(rows), len({row["release"] for row in rows}), sum(any(row["references"]) for row in rows)
    assert rows_of(done.rejects) == []
    # Each column of a table that no tool wrote is used, or named as not used.
    said = " ".join(done.notes) + options
    assert "recognised as" in said or [name for name in columns_of(HERE / file) if name not in said] == []
    return f"{first} {' | '.join(map(str, counts))} |{_cell(rest and f' {rest}')} |"


def columns_of(file):
    """The names of the columns of a CSV in which anything is; none of another file."""
    if file.suffix != ".csv":
        return []
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    mark = ";" if any(";" in line and "," not in line for line in lines) else ","
    rows = [row for row in csv.reader(lines, delimiter=mark) if len(list(filter(None, row))) > 1]
    return [name for name, *cells in zip(*(row for row in rows if len(row) == len(rows[0])), strict=True) if any(cells)]


def _cell(text):
    return text.replace("|", "\\|")


@pytest.mark.parametrize(("file", "options"), TABLE, ids=lambda part: part or "no options")
def test_a_file_becomes_what_the_page_says(file, options, tmp_path):
    assert line(file, options, tmp_path) in PAGE.read_text().splitlines()


def test_the_page_has_every_file():
    beside = {path for _, options in TABLE for path in re.findall(r"--references (\S+)", options)}
    listed = {file for file, _ in TABLE} | beside
    files = [
        path.relative_to(HERE)
        for folder in ("files", "formats/exports")
        for path in (HERE / folder).rglob("*.*")
        if path.is_file()
    ]
    assert len(files) > 100
    missing = [
        file for file in files if not {str(file), *map(str, file.parents)} & listed and file.name != "index.yaml"
    ]
    assert missing == []
