"""Scores of another tool, in two files or in one, as reports in a home: ids and numbers suffice for a decision."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.gate.labels import read_labels
from answerkey.tasks.load.columns import ColumnMap, check_units, complete, parse_map, text_at
from answerkey.tasks.load.given import as_number, given_at
from answerkey.tasks.load.references import by_plain_id, respelled
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import read
from answerkey.tasks.notebook.frames import samples_by_release
from answerkey.tasks.notebook.reports import DATASET, add_report
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home

_NO_SCORES: tuple[Key, ...] = ("id", "cluster", "label", "repeat", "release")
"""The keys whose columns are no scores."""
_NO_NUMBER = ("", "none", "nan", "null", "n/a", "na", "-")
"""Cells that say that an answer has no score."""
_NEARLY_A_NUMBER = re.compile(r"\s*[+-]?\d+(?:[.,]\d+)?\s*%?\s*")
"""Percent and decimal commas."""
_OLD_AND_NEW = (("old", "new"), ("baseline", "candidate"), ("before", "after"))
"""Words in the names of two releases, or of their columns, that tell the old one from the new one."""


def add_scores(
    home: Home, old: str, new: str = "", mapping: Sequence[str] = (), labels: str = "", dataset: str = ""
) -> tuple[list[Report], str]:
    """Commit the scores in one or two files to a home; return the reports of the old and the new release, and a doubt.

    A file has a row for each question, with a column of ids. Every other column of numbers, or of words such as
    `passed`, is a score, but for `cluster`, `label` with the verdicts of people, and `repeat`, which numbers several
    answers to a question. Each of two files is a release, called as the file is. A single file has a column of scores
    for each of two releases, or a column with their names; if only their order tells the old one, the doubt says so.

    Args:
        mapping: columns whose names do not say what they are: KEY=COLUMN.
        labels: a file with the verdicts of people, in place of a column: id and a column for each release, or id,
            release, label.
        dataset: the data set that the reports are on; empty: `results`.

    Raises:
        UserError: a file cannot be read, a row has no id or that of another row, no column has scores, a single file
            is not about two releases, or a label is about no score.
    """
    doubt = ""
    with TemporaryDirectory() as folder:
        work = Path(folder)
        if new:
            releases = [(Path(file).stem, _read_scores(file, work, mapping, single=False)[""]) for file in (old, new)]
            # One spelling of the ids, since tools write 7, 007 and 7.0
            (_, old_samples), (_, new_samples) = releases
            old_ids = by_plain_id(sample.sample_id for sample in old_samples)
            spellings = respelled(by_plain_id(sample.sample_id for sample in new_samples), old_ids)
            for index, sample in enumerate(new_samples):
                new_samples[index] = replace(sample, sample_id=spellings.get(sample.sample_id, sample.sample_id))
        else:
            releases = list(_read_scores(old, work, mapping).items())
            if len(releases) != 2:
                names = ", ".join(name for name, _ in releases)
                raise UserError(f"{old}: {len(releases)} releases ({names}); keep the rows of two of them")
            old_index = _index_of_old(*(name for name, _ in releases))
            if old_index is None:
                doubt = f"{old}: {releases[0][0]} comes first, so it is taken as the old release"
            elif old_index == 1:
                releases.reverse()
        if labels:
            _add_labels(releases, labels, work)

    # The scores of each sample by METRIC.FIELD are in the columns of scores that it has taken along
    reports = []
    for name, samples in releases:
        scores: list[dict[str, float]] = []
        for sample in samples:
            scores.append({})
            for column in sample.columns:
                scores[-1] |= given_at(sample.columns, column)
        reports.append(add_report(home, name, samples, scores=scores, dataset=dataset or DATASET))
    return reports, doubt


def _add_labels(releases: Sequence[tuple[str, list[Sample]]], file: str, work: Path) -> None:
    """Give samples the labels of a file.

    Raises:
        UserError: it cannot be read, or a label is about no score.
    """
    # A file has a column for each release, or one with their names
    names = [name for name, _ in releases]
    columns = set(chain.from_iterable(raw.record or () for raw in read(file, work)))
    if columns.issuperset(names):
        # A column for each release
        rows = []
        for name in names:
            rows += [replace(row, release=name) for row in read_labels(file, [f"label={name}"])[0]]
    else:
        rows = read_labels(file)[0]
    labels = {(row.release, row.sample_id, row.repeat): row.label for row in rows}

    for name, samples in releases:
        n_answers = Counter[str]()
        for index, sample in enumerate(samples):
            n_answers[sample.sample_id] += 1
            answer = (name, sample.sample_id, n_answers[sample.sample_id])
            samples[index] = replace(sample, label=labels.pop(answer, None))
    for release, sample_id, _ in labels:
        raise UserError(
            f"{file}: {sample_id} of {release or 'no release'} has a label and no score; the scores are of "
            f"{' and '.join(names)}"
        )


def _index_of_old(*names: str) -> int | None:
    """Return which of two releases is the old one by their names, 0 or 1; None if these do not tell.

    >>> _index_of_old("new_score", "Old score"), _index_of_old("before", "after"), _index_of_old("gpt-4", "gpt-5")
    (1, 0, None)
    """
    # Whole words, so that `golden` is not old
    words = [set(re.split(r"[\W\d_]+", name.casefold())) for name in names]
    for old, new in _OLD_AND_NEW:
        if old in words[0] and new in words[1]:
            return 0
        if new in words[0] and old in words[1]:
            return 1
    return None


def _columns_of_scores(rows: Sequence[Raw], columns: ColumnMap, file: str) -> list[str]:
    """Return the columns of which every cell is a number or says that there is none, but for those that have a key.

    Raises:
        UserError: a cell among numbers is none, or no column has numbers.
    """
    with_keys = set(chain.from_iterable(paths.split("\n") for key, paths in columns.paths.items() if key != "scores"))
    # The cells of each other column, without those that say that there is no number
    cells: dict[str, list[tuple[int, object]]] = {}
    for raw in rows:
        for name, cell in (raw.record or {}).items():
            if name not in with_keys and str(cell).strip().casefold() not in _NO_NUMBER:
                cells.setdefault(name, []).append((raw.row, cell))

    # Columns of numbers, and the first cell of each other column that spoils it
    scores = []
    mixed = []
    nearly = []
    for name, numbered_cells in cells.items():
        texts = [(row, cell) for row, cell in numbered_cells if as_number(cell) is None]
        if not texts:
            scores.append(name)
            continue
        row, cell = texts[0]
        problem = f"row {row}: {name} is {cell!r}, which is no number"
        if len(texts) * 2 < len(numbered_cells):
            mixed.append(problem)
        elif _NEARLY_A_NUMBER.fullmatch(str(cell)):
            nearly.append(problem)
    if problems := mixed or (nearly if not scores else []):
        remedy = "correct it, leave the cell empty, or name the columns of scores with --map scores=COLUMN"
        raise UserError(f"{file}, {problems[0]}; {remedy}")
    if not scores:
        names = dict.fromkeys(chain.from_iterable(raw.record or () for raw in rows))
        raise UserError(f"{file}: no column of scores among {', '.join(names)}; write a number beside each id")
    return scores


def _read_scores(file: str, work: Path, mapping: Sequence[str], *, single: bool = True) -> dict[str, list[Sample]]:
    """Return the samples of a file by release, with its scores as columns; if it is not the `single` file, all of "".

    Raises:
        UserError: as `add_scores`.
    """
    rows = list(read(file, work))
    records = [raw.record or {} for raw in rows]
    names = list(dict.fromkeys(chain.from_iterable(records)))
    column_of_key = parse_map(mapping)
    if "label" in names:
        column_of_key.setdefault("label", "label")
    columns = complete(column_of_key, (), records, file)
    paths = {key: columns.paths[key] for key in _NO_SCORES if key in columns.paths}
    if "id" not in paths:
        raise UserError(f"{file}: no column of ids was recognised among {', '.join(names)}; name it: --map id=COLUMN")
    for raw, record in zip(rows, records, strict=True):
        if raw.record is None or not text_at(record, paths, "id"):
            problem = raw.error or f"the id ({paths['id']}) is missing"
            raise UserError(f"{file}, row {raw.row}: {problem}; correct or remove the row")

    if "scores" in column_of_key:
        scores = column_of_key["scores"].split("\n")
    else:
        scores = _columns_of_scores(rows, columns, file)
    check_units(scores, file)

    numbered: list[tuple[int, Mapping[str, Any]]] = [
        (raw.row, record) for raw, record in zip(rows, records, strict=True)
    ]
    if not single:
        paths.pop("release", None)
    elif "release" not in paths:
        # A row for each release, in place of a column for each
        if len(scores) != 2 or "label" in paths:
            remedy = "name two with --map scores=COLUMN each, or the release of each row in a column `release`"
            problem = "one column of labels" if len(scores) == 2 else f"scores in {', '.join(scores)}"
            raise UserError(f"{file}: {problem}, and two releases are compared: {remedy}")
        without_release = numbered
        numbered = []
        for name in scores:
            numbered += [
                (row, {**record, "release": name, "score": record.get(name)}) for row, record in without_release
            ]
        paths["release"] = "release"
        scores = ["score"]
    return samples_by_release(numbered, replace(columns, paths=paths), scores, file)
