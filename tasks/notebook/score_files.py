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
from answerkey.tasks.load.columns import check_units, complete, parse_map, text_at
from answerkey.tasks.load.given import as_number, given_at
from answerkey.tasks.load.sources import read
from answerkey.tasks.notebook.frames import samples_by_release
from answerkey.tasks.notebook.reports import DATASET, add_report
from answerkey.tasks.reports.report import Report
from answerkey.tasks.warehouse.home import Home

_NO_SCORES: tuple[Key, ...] = ("id", "cluster", "label", "repeat", "release")
"""The keys whose columns are no scores."""
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

    # A column is a score if every cell with something in it is a number
    scores = named["scores"].split("\n") if "scores" in named else []
    for name in names if not scores else ():
        filled = [cell for record in records if (cell := record.get(name)) not in (None, "")]
        if name not in paths.values() and filled and None not in map(as_number, filled):
            scores.append(name)
    if not scores:
        raise UserError(f"{file}: no column of scores among {', '.join(names)}; write a number beside each id")

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
