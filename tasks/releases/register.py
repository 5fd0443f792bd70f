"""Take a release in to be evaluated: keep its answers, and what its evaluation needs, under hashes of their content."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import Key, complete
from answerkey.tasks.load.load import LOOK_AHEAD, Source, dataset_name, load
from answerkey.tasks.load.sources import read
from answerkey.tasks.releases.export import stored_references
from answerkey.tasks.releases.generated import keep_manifest
from answerkey.tasks.releases.registered import FOLDER, Registration, announce, insert
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file, scratch


def register(home: Home, source: Source) -> Registration:
    """Keep the answers of a release, and what its evaluation needs, and say so to a Prefect server if there is one.

    The same content under the same name is the same registration, however often it comes. Where the answers bring
    no references and the source names none, those of the data set's newest version in the warehouse are kept with it.

    Args:
        source: with the names of the release and of the data set.

    Raises:
        UserError: a name is missing, or an evaluation of these files would stop at once.
    """
    dataset = dataset_name(source)
    if not source.release.strip() or "\n" in source.release:
        raise UserError("a registered release needs a name, in one line")
    folder = home.folder / FOLDER
    work = folder / f"new-{uuid.uuid4().hex}"
    work.mkdir(parents=True)
    try:
        kept = _kept(home, replace(source, dataset=dataset), work)
        _try(kept, work / "tried")
        answers, references = _store(kept.answers, folder), kept.references and _store(kept.references, folder)
        keep_manifest(source.answers, folder / answers)
    finally:
        shutil.rmtree(work)
    made = Registration(
        "", dataset, source.release, answers, references, _pairs(kept.paths), _pairs(kept.reference_paths),
        tuple(kept.slices), source.answers, "", 0, None, None,
    )  # fmt: skip
    made = insert(home, replace(made, registration=_identity(made)))
    announce(home, made)
    return made


def _kept(home: Home, source: Source, work: Path) -> Source:
    """The source as files that can be kept."""
    answers = _as_file(source.answers, work, "answers")
    references = _as_file(source.references, work, "references") if source.references else None
    kept = replace(source, answers=answers, references=references)
    if references or not home.warehouse.exists() or _brings_references(kept, work):
        return kept
    file = work / "known.jsonl"
    if (known := stored_references(home, source.dataset, file)) is None:
        return kept
    return replace(kept, references=str(file), reference_paths=known[0], slices=source.slices or known[1])


def _brings_references(source: Source, work: Path) -> bool:
    head = itertools.islice(read(source.answers, work), LOOK_AHEAD)
    records = [raw.record for raw in head if raw.record is not None]
    return "references" in complete(source.paths, (), records, source.answers).paths


def _try(source: Source, work: Path) -> None:
    """Find out now what an evaluation would stop at.

    Raises:
        UserError: likewise, or the answers are of several releases.
    """
    loaded = load(replace(source, release=""), work)
    with closing(scratch(work)) as connection:
        rows = connection.execute(
            "SELECT DISTINCT release FROM read_parquet(?) ORDER BY ALL LIMIT 4", [one_file(loaded.staged)]
        ).fetchall()
    if len(rows) > 1:
        names = ", ".join(str(name) for (name,) in rows[:3]) + (", ..." if len(rows) > 3 else "")
        raise UserError(
            f"{source.answers}: these are answers of several releases ({names}); give each a file of its own, or name "
            "another release column with --map release=COLUMN"
        )


def _as_file(source: str, work: Path, name: str) -> str:
    """A file as it is; a table or a URL as a file of JSON Lines, because it may be another one tomorrow."""
    if "://" not in source and "::" not in source:
        return source
    file = work / f"{name}.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for raw in read(source, work):
            # A row that could not be read stays one, so that its place and text are in the quarantine.
            out.write((raw.text or "" if raw.record is None else json.dumps(raw.record, default=str)) + "\n")
    return str(file)


def _store(file: str, folder: Path) -> str:
    """Copy a file into `folder` under a hash of its content, once, and return its name there."""
    with open(file, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()[:20]
    name = f"{digest}{Path(file).suffix.lower()}"
    if not (folder / name).exists():
        unfinished = folder / f"{name}.{os.getpid()}.part"
        shutil.copyfile(file, unfinished)
        os.replace(unfinished, folder / name)
    return name


def _identity(made: Registration) -> str:
    return content_hash(
        [
            made.dataset, made.release, made.answers, made.references, made.columns, made.reference_columns,
            made.slices,
        ]
    )[:12]  # fmt: skip


def _pairs(paths: Mapping[Key, str]) -> tuple[str, ...]:
    return tuple(f"{key}={path}" for key, path in paths.items())
