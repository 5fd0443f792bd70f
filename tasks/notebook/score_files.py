"""Two files of scores that another tool made, as reports in a home: ids and numbers suffice for a decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.sample import Sample, truth
from answerkey.tasks.load.columns import complete, repeat_of, text_at
from answerkey.tasks.load.given import as_number, given_at
from answerkey.tasks.load.sources import read
from answerkey.tasks.notebook.reports import add_report
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home

_NO_SCORES: tuple[Key, ...] = ("id", "cluster", "label", "repeat")
"""The keys whose columns are no scores."""


@contextmanager
def reports_of_scores(old: str, new: str) -> Iterator[tuple[Home, Report, Report]]:
    """A home in a temporary folder with a report of each file, called as the file is.

    A file has a row for each question, with a column of ids. Every other column of numbers, or of words such as
    `passed`, is a score, but for `cluster`, `label` with the verdicts of people, and `repeat`, which numbers several
    answers to a question.

    Raises:
        UserError: a file cannot be read, a row has no id or that of another row, or no column has scores.
    """
    with TemporaryDirectory(prefix="answerkey-") as folder:
        home = Home(Path(folder))
        before, after = (_report(home, file, Path(folder) / "read") for file in (old, new))
        yield home, before, after


def _report(home: Home, file: str, work: Path) -> Report:
    rows = list(read(file, work))
    records = [raw.record or {} for raw in rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = complete({"label": "label"} if "label" in names else {}, (), records, file)
    paths = {key: columns.paths[key] for key in _NO_SCORES if key in columns.paths}
    if "id" not in paths:
        raise UserError(f"{file}: no column of ids was recognised among {', '.join(names)}; call one of them id")

    # A column is a score if every cell with something in it is a number.
    cells = {name: [record.get(name) for record in records] for name in names if name not in paths.values()}
    filled = {name: [cell for cell in column if cell not in (None, "")] for name, column in cells.items()}
    named = [name for name, column in filled.items() if column and None not in map(as_number, column)]
    if not named:
        raise UserError(f"{file}: no column of scores among {', '.join(names)}; write a number beside each id")

    samples, first_rows = [], dict[tuple[str, str], int]()
    for raw, record in zip(rows, records, strict=True):
        try:
            sample_id, cluster, label, repeat = (text_at(record, paths, key) for key in _NO_SCORES)
            if raw.record is None or not sample_id:
                raise ValueError(raw.error or f"the id ({paths['id']}) is missing")
            if (first := first_rows.setdefault((sample_id, repeat_of(repeat)), raw.row)) != raw.row:
                raise ValueError(f"the id {sample_id!r} is that of row {first} (a column `repeat` may number answers)")
            samples.append(Sample(sample_id, None, cluster=cluster, label=None if label is None else truth(label)))
        except ValueError as error:
            raise UserError(f"{file}, row {raw.row}: {error}; correct or remove the row") from error
    scores = [{k: v for name in named for k, v in given_at(record, name).items()} for record in records]
    return add_report(home, Path(file).stem, samples, scores=scores)
