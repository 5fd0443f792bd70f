"""Scores of another tool, in two files or in one, as reports in a home: ids and numbers suffice for a decision."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.gate.labels import read_labels
from answerkey.tasks.load.columns import ColumnMap, check_units, complete, parse_map, text_at
from answerkey.tasks.load.given import as_number, given_at
from answerkey.tasks.load.ids import by_plain_id, respelled
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
    home: Home, old: str, new: str = "", mapped: Sequence[str] = (), labels: str = "", dataset: str = ""
) -> tuple[list[Report], str]:
    """Commit the scores in one or two files to a home; return the reports of the old and the new release, and a doubt.

    A file has a row for each question, with a column of ids. Every other column of numbers, or of words such as
    `passed`, is a score, but for `cluster`, `label` with the verdicts of people, and `repeat`, which numbers several
    answers to a question. Each of two files is a release, called as the file is. A single file has a column of scores
    for each of two releases, or a column with their names; if only their order tells the old one, the doubt says so.

    Args:
        mapped: columns whose names do not say what they are: KEY=COLUMN.
        labels: a file with the verdicts of people, in place of a column: id and a column for each release, or id,
            release, label.
        dataset: the data set that the reports are on; empty: `results`.

    Raises:
        UserError: a file cannot be read, a row has no id or that of another row, no column has scores, a single file
            is not about two releases, or a label is about no score.
    """
    with TemporaryDirectory() as folder:
        work, doubt = Path(folder), ""
        if new:
            releases = [(Path(file).stem, _read(file, work, mapped, single=False)[""]) for file in (old, new)]
            # One spelling of the ids, since tools write 7, 007 and 7.0
            old_ids, new_ids = (by_plain_id(sample.sample_id for sample in samples) for _, samples in releases)
            in_old = respelled(new_ids, old_ids)
            for index, sample in enumerate(releases[1][1]):
                releases[1][1][index] = replace(sample, sample_id=in_old.get(sample.sample_id, sample.sample_id))
        else:
            releases = list(_read(old, work, mapped).items())
            if len(releases) != 2:
                names = ", ".join(name for name, _ in releases)
                raise UserError(f"{old}: {len(releases)} releases ({names}); keep the rows of two of them")
            if (first := _old_one(*(name for name, _ in releases))) is None:
                doubt = f"{old}: {releases[0][0]} comes first, so it is taken as the old release"
            elif first:
                releases.reverse()
        if labels:
            _add_labels(releases, labels, work)
    return [
        add_report(home, name, samples, scores=_scores(samples), dataset=dataset or DATASET)
        for name, samples in releases
    ], doubt


def _add_labels(releases: Sequence[tuple[str, list[Sample]]], file: str, work: Path) -> None:
    """Give samples the labels of a file.

    Raises:
        UserError: it cannot be read, or a label is about no score.
    """
    names = [name for name, _ in releases]
    columns = {column for raw in read(file, work) for column in raw.record or ()}
    if columns.issuperset(names):
        rows = [replace(row, release=name) for name in names for row in read_labels(file, [f"label={name}"])[0]]
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


def _scores(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """Return the scores of each sample by METRIC.FIELD, from the columns of scores that it has taken along."""
    return [
        {field: number for name in sample.columns for field, number in given_at(sample.columns, name).items()}
        for sample in samples
    ]


def _old_one(*names: str) -> int | None:
    """Return which of two releases is the old one by their names, 0 or 1; None if these do not tell.

    >>> _old_one("new_score", "Old score"), _old_one("before", "after"), _old_one("gpt-4", "gpt-5")
    (1, 0, None)
    """
    first, second = (set(re.split(r"[\W\d_]+", name.casefold())) for name in names)
    for old, new in _OLD_AND_NEW:
        if old in first and new in second:
            return 0
        if new in first and old in second:
            return 1
    return None


def _columns_of_scores(rows: Sequence[Raw], columns: ColumnMap, file: str) -> list[str]:
    """Return the columns of which every cell is a number or says that there is none, but for those that have a key.

    Raises:
        UserError: a cell among numbers is none, or no column has numbers.
    """
    others = {path for key, paths in columns.paths.items() if key != "scores" for path in paths.split("\n")}
    cells: dict[str, list[tuple[int, object]]] = {}
    for raw in rows:
        for name, cell in (raw.record or {}).items():
            if name not in others and str(cell).strip().casefold() not in _NO_NUMBER:
                cells.setdefault(name, []).append((raw.row, cell))
    scores, mixed, nearly = [], [], []
    for name, filled in cells.items():
        texts = [(row, cell) for row, cell in filled if as_number(cell) is None]
        if not texts:
            scores.append(name)
            continue
        row, cell = texts[0]
        problem = f"row {row}: {name} is {cell!r}, which is no number"
        if len(texts) * 2 < len(filled):
            mixed.append(problem)
        elif _NEARLY_A_NUMBER.fullmatch(str(cell)):
            nearly.append(problem)
    if problems := mixed or (nearly if not scores else []):
        remedy = "correct it, leave the cell empty, or name the columns of scores with --map scores=COLUMN"
        raise UserError(f"{file}, {problems[0]}; {remedy}")
    if not scores:
        names = dict.fromkeys(name for raw in rows for name in raw.record or ())
        raise UserError(f"{file}: no column of scores among {', '.join(names)}; write a number beside each id")
    return scores


def _read(file: str, work: Path, mapped: Sequence[str], *, single: bool = True) -> dict[str, list[Sample]]:
    """Return the samples of a file by release, with its scores as columns; if it is not the `single` file, all of "".

    Raises:
        UserError: as `add_scores`.
    """
    rows = list(read(file, work))
    records = [raw.record or {} for raw in rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    named = parse_map(mapped)
    if "label" in names:
        named.setdefault("label", "label")
    columns = complete(named, (), records, file)
    paths = {key: columns.paths[key] for key in _NO_SCORES if key in columns.paths}
    if "id" not in paths:
        raise UserError(f"{file}: no column of ids was recognised among {', '.join(names)}; name it: --map id=COLUMN")
    for raw, record in zip(rows, records, strict=True):
        if raw.record is None or not text_at(record, paths, "id"):
            problem = raw.error or f"the id ({paths['id']}) is missing"
            raise UserError(f"{file}, row {raw.row}: {problem}; correct or remove the row")

    scores = named["scores"].split("\n") if "scores" in named else _columns_of_scores(rows, columns, file)
    check_units(scores, file)

    numbered = [(raw.row, record) for raw, record in zip(rows, records, strict=True)]
    if not single:
        paths.pop("release", None)
    elif "release" not in paths:
        # A row for each release, in place of a column for each
        if len(scores) != 2 or "label" in paths:
            remedy = "name two with --map scores=COLUMN each, or the release of each row in a column `release`"
            what = "one column of labels" if len(scores) == 2 else f"scores in {', '.join(scores)}"
            raise UserError(f"{file}: {what}, and two releases are compared: {remedy}")
        numbered = [
            (row, {**record, "release": name, "score": record.get(name)}) for name in scores for row, record in numbered
        ]
        paths["release"] = "release"
        scores = ["score"]
    return samples_by_release(numbered, replace(columns, paths=paths), scores, file)
