"""Human labels, or the scores of another judge, from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import NO_LABEL, truth
from answerkey.tasks.load.columns import as_text, repeat_of, value
from answerkey.tasks.load.formats.registry import AS_IT_STANDS
from answerkey.tasks.load.given import as_number
from answerkey.tasks.load.sources import read

KEYS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "sample_id", "question_id"),
    "release": ("release", "model"),
    "label": ("label", "human_label", "correct"),
    "second": ("second", "second_label", "label_2"),
    "score": ("score", "verdict"),
    "cluster": ("cluster",),
    "repeat": ("repeat",),
}
"""What a row may have, and the columns in which it is looked for where nothing is mapped."""


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One labelled answer.

    `release` is empty where the file names none; `cluster` is the id where it has none, and `repeat`, which of several
    answers to the question it is, 1.
    """

    sample_id: str
    release: str
    label: bool
    second: bool | None
    score: float | None
    cluster: str
    repeat: int


def read_labels(source: str, mapping: Sequence[str] = ()) -> tuple[list[LabelRow], int]:
    """Read the labelled rows of a file, in any format that answers can have; also returns how many have no label.

    Args:
        mapping: KEY=PATH pairs, for instance label=meta.annotators.0; a path as for answers.

    Raises:
        UserError: the file or a row of it cannot be read, a row has no id or an odd label, or two rows are about the
            same answer.
    """
    paths = {}
    for pair in mapping:
        key, _, path = pair.partition("=")
        if key not in KEYS or not path:
            raise UserError(f"--map {pair}: write KEY=PATH, where KEY is one of {', '.join(KEYS)}")
        paths[key] = path
    with TemporaryDirectory() as folder:
        raw_rows = list(AS_IT_STANDS.rows(read(source, Path(folder))))
    labels: dict[tuple[str, str, int], LabelRow] = {}
    n_unlabelled = 0
    for raw in raw_rows:
        position = f"{source}, row {raw.row}"
        try:
            if raw.record is None:
                raise ValueError(raw.error)
            row = _row(raw.record, paths)
        except ValueError as error:
            raise UserError(f"{position}: {error}") from error
        if row is None:
            n_unlabelled += 1
        # Which of two labels of one answer is right, the file does not say
        elif labels.setdefault((row.release, row.sample_id, row.repeat), row) is not row:
            raise UserError(
                f"{position}: a second label for {row.sample_id} of {row.release or 'all releases'}; keep one"
            )
    if not labels:
        raise UserError(f"{source}: no row has a label; name the column with --map label=COLUMN")
    return list(labels.values()), n_unlabelled


def _row(record: Mapping[str, Any], paths: Mapping[str, str]) -> LabelRow | None:
    """Return what a row says; None if it has no label.

    Raises:
        ValueError: it has no id, or a cell that is not what its column has.
    """
    # The text of each cell; the first known column counts where none is mapped
    texts = {}
    for key, names in KEYS.items():
        path = paths.get(key) or next((name for name in names if name in record), None)
        try:
            texts[key] = (as_text(value(record, path)) or "").strip()
            if key in ("label", "second"):
                truth(texts[key])
        except ValueError as error:
            raise ValueError(f"{key} {error}") from error
    if not texts["id"]:
        raise ValueError("no id; name the column with --map id=COLUMN")
    label = truth(texts["label"])
    if label is None:
        return None

    # A score is a number or a word for one; blank cells have none
    score = as_number(texts["score"])
    if score is None and texts["score"].lower() not in NO_LABEL:
        raise ValueError(f"score {texts['score'][:40]!r} is neither a number nor true or false")
    repeat = repeat_of(texts["repeat"])
    if not repeat.isdecimal():
        raise ValueError(f"repeat {repeat[:40]!r} is not a number from 1, as reports have it")
    cluster = texts["cluster"] or texts["id"]
    return LabelRow(
        sample_id=texts["id"],
        release=texts["release"],
        label=label,
        second=truth(texts["second"]),
        score=score,
        cluster=cluster,
        repeat=int(repeat),
    )
