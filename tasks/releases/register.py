"""The registry of releases to evaluate: a table, and a claim that only one run at a time can hold.

An event that is lost costs nothing, because the nightly run finds what has no report; one that comes twice does
nothing, because only one run at a time has a registration, and it looks first.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.frame import Key
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.columns import complete, complete_made, parse_map
from answerkey.tasks.load.formats.registry import PLAIN, read_as
from answerkey.tasks.load.load import LOOK_AHEAD, Source, dataset_name, load, records_of
from answerkey.tasks.load.plain import COMPRESSED, kind_of
from answerkey.tasks.load.remote import URL, without_secrets
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.load.sources import called, read
from answerkey.tasks.publish.events import RELEASE_REGISTERED, emit
from answerkey.tasks.releases.export import stored_references
from answerkey.tasks.releases.provenance import keep_manifest, manifest_file
from answerkey.tasks.warehouse.content import seal
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import Store
from answerkey.tasks.warehouse.warehouse import one_file, scratch

FOLDER = "registered"
_SQL = statements(__name__)

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Registration:
    """A row of the table `registered`; see schema.sql."""

    registration: str
    dataset: str
    release: str
    answers: str
    references: str | None
    columns: tuple[str, ...]
    reference_columns: tuple[str, ...]
    slices: tuple[str, ...]
    source: str
    registered_at: str
    attempts: int
    message: str | None
    report_id: str | None
    superseded: bool = False
    """Whether newer answers of the release are registered, or were evaluated, since."""

    @property
    def name(self) -> str:
        """DATASET/RELEASE."""
        return f"{self.dataset}/{self.release}"


def register(home: Home, source: Source) -> Registration:
    """Keep the answers of a release, and what its evaluation needs, and notify the Prefect server, if there is one.

    The same content under the same name is the same registration, however often it comes. Where the answers bring
    no references and the source names none, those of the data set's newest version in the warehouse are kept with it.
    Where there are none either, the log says so: then only metrics that need no references can score it.

    Args:
        source: with the names of the release and of the data set.

    Raises:
        UserError: a name is missing, or an evaluation of these files would stop at once.
    """
    dataset = dataset_name(source)
    if not source.release.strip():
        raise UserError("a registered release needs a name")
    work = home.local / FOLDER / f"new-{uuid.uuid4().hex}"
    work.mkdir(parents=True)
    try:
        kept = _kept(home, replace(source, dataset=dataset), work)
        try:
            _check(kept, work / "tried")
        except UserError as error:
            # What is kept may be a copy, which is gone.
            raise UserError(str(error).replace(kept.answers, called(source.answers))) from error
        store = home.store
        answers, references = _keep(kept.answers, store), kept.references and _keep(kept.references, store)
        keep_manifest(source.answers, store, f"{FOLDER}/{answers}")
    finally:
        shutil.rmtree(work)
    made = Registration(
        "", dataset, source.release, answers, references, _pairs(kept.paths), _pairs(kept.reference_paths),
        tuple(kept.slices), without_secrets(source.answers), "", 0, None, None,
    )  # fmt: skip
    made = _insert(home, replace(made, registration=_identity(made)))
    _announce(home, made)
    return made


def _kept(home: Home, source: Source, work: Path) -> Source:
    """The source as files that can be kept, and need nothing said about them but their columns."""
    if source.format == PLAIN.name and source.chosen != replace(source, format="").chosen:
        raise UserError("--format plain is not kept; name the columns instead: --map answer=COLUMN")
    answers = _as_file(source, work)
    references = (
        _as_file(Source(source.references, encoding=source.encoding), work, "references") if source.references else None
    )
    kept = replace(source, answers=answers, references=references, encoding="", format="")
    if references or not home.warehouse.exists() or _brings_references(kept, work):
        return kept
    file = work / "known.jsonl"
    if (known := stored_references(home, source.dataset, file)) is None:
        return kept
    return replace(kept, references=str(file), reference_paths=known[0], slices=source.slices or known[1])


def _brings_references(source: Source, work: Path) -> bool:
    reading, raws = read_as(read(source.answers, work), source.answers, source.chosen)
    records = records_of(itertools.islice(reading.rows(raws), LOOK_AHEAD))
    fill_in = complete_made if reading.convert else complete
    return "references" in fill_in(source.paths, (), records, source.answers).paths


def _check(source: Source, work: Path) -> None:
    """Find out now whether an evaluation would stop.

    Raises:
        UserError: likewise, or the answers are of several releases.
    """
    try:
        loaded = load(replace(source, release=""), work)
    except UserError as error:
        if source.references is not None:
            raise
        # Which metrics will score it is not known yet: perhaps they need no references.
        loaded = load(replace(source, release="", needs_references=False), work)
        why = str(error).replace(source.answers, source.dataset)
        _log.warning(f"registered without references, for metrics that need none: {why}")
    with closing(scratch(work)) as connection:
        rows = connection.execute(
            "SELECT DISTINCT release FROM read_parquet(?) ORDER BY ALL LIMIT 4", [one_file(loaded.staged)]
        ).fetchall()
    if len(rows) > 1:
        names = ", ".join(str(name) for (name,) in rows[:3]) + (", ..." if len(rows) > 3 else "")
        raise UserError(
            f"{source.answers}: these are answers of several releases ({names}); give each a file of its own, "
            "or name another release column with --map release=COLUMN"
        )


def _as_file(source: Source, work: Path, name: str = "answers") -> str:
    """A file of rows as it is; a table, a URL or several files as one of JSON Lines, because their content may change.

    So is a file that is to be read in another way than as it stands: an export of a tool, or one in a given encoding.
    """
    answers, file = source.answers, work / f"{name}.jsonl"
    reading, raws = read_as(read(answers, work, encoding=source.encoding), answers, source.chosen)
    one = "\n" not in answers and not URL.match(answers) and Path(answers).is_file()
    if one and not source.encoding and reading.convert is None:
        return answers
    made = reading.convert is not None
    with file.open("w", encoding="utf-8") as out:
        for raw in reading.rows(raws):
            out.write(_line(raw, made=made) + "\n")
    return str(file)


def _line(raw: Raw, *, made: bool) -> str:
    """A row as a line of JSON Lines; one that could not be read stays one, so that its text is in the quarantine."""
    if not made:
        return raw.text or "" if raw.record is None else json.dumps(raw.record, default=str)
    # Its text may be an object, and is in no format any more. What a format has not found is no column either.
    kept = [raw.text] if raw.record is None else {key: one for key, one in raw.record.items() if one is not None}
    return json.dumps(kept, default=str)


def _keep(file: str, store: Store) -> str:
    """Copy a file into the folder of registered ones under a hash of its content, once; return its name there."""
    with open(file, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()[:20]
    compressed = Path(file).suffix.lower()
    name = f"{digest}{kind_of(file)}{compressed if compressed in COMPRESSED else ''}"
    if not store.exists(f"{FOLDER}/{name}"):
        with store.whole(f"{FOLDER}/{name}") as unfinished:
            shutil.copyfile(file, unfinished)
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


def _announce(home: Home, registration: Registration) -> bool:
    """Emit the event of a registration, and return whether a server has it."""
    payload = {
        "registration": registration.registration,
        "dataset": registration.dataset,
        "release": registration.release,
        "home": home.address,
    }
    return emit(RELEASE_REGISTERED, f"answerkey.release.{registration.dataset}.{registration.registration}", payload)


def source_of(home: Home, registration: Registration) -> Source:
    """What to load to evaluate it."""
    store, answers = Home.parse(home.address).store, f"{FOLDER}/{registration.answers}"
    if store.exists(manifest := str(manifest_file(answers))):
        store.copy(manifest)
    return Source(
        answers=str(store.copy(answers)),
        references=str(store.copy(f"{FOLDER}/{registration.references}")) if registration.references else None,
        dataset=registration.dataset,
        release=registration.release,
        paths=parse_map(registration.columns),
        reference_paths=parse_map(registration.reference_columns),
        slices=registration.slices,
    )


def pending(home: Home, name: str = "", limit: int | None = None) -> list[Registration]:
    """The registrations without a report, the least tried first; at most `limit`.

    Older answers of a release that has newer ones are evaluated only if their registration is named: their report
    would be the newest of the release.

    Args:
        name: a registration, a release or DATASET/RELEASE: no others. Empty: all.
    """
    waiting = [one for one in registrations(home, name) if one.report_id is None]
    return [one for one in waiting if not one.superseded or one.registration == name][:limit]


def registrations(home: Home, name: str = "") -> list[Registration]:
    """All registrations, with a report or without; see `pending`.

    Raises:
        UserError: there is no registration called `name`.
    """
    if not home.warehouse.exists():
        rows = []
    else:
        with home.warehouse.reading() as warehouse:
            rows = warehouse.execute(_SQL["registrations"], {"name": name}).fetchall()
    if name and not rows:
        raise UserError(f"{name}: no such registered release in {home}; `answerkey register-release` makes one")
    return [_registration(row) for row in rows]


def _insert(home: Home, made: Registration) -> Registration:
    """Write a new registration, unless it is there already, and return it as it is there."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            _SQL["add"],
            {
                "registration": made.registration, "dataset": made.dataset, "release": made.release,
                "answers": made.answers, "references": made.references, "columns": list(made.columns),
                "reference_columns": list(made.reference_columns), "slices": list(made.slices),
                "source": made.source,
            },
        )  # fmt: skip
        seal(warehouse, {"registered": [made.registration]})
        [row] = warehouse.execute(_SQL["registrations"], {"name": made.registration}).fetchall()
    return _registration(row)


@contextmanager
def claimed(home: Home, registration: Registration) -> Iterator[Registration | None]:
    """Claim a registration for this process; yields it as it is now, or None where another process has claimed it.

    The claim ends with the process, even if it is killed.
    """
    with home.warehouse.claimed(f"registration-{registration.registration}") as mine:
        if not mine:
            yield None
            return
        current = registrations(home, registration.registration)[0]
        if current.report_id is None and (report_id := _made_before(home, current)):
            note_attempt(home, current, report_id=report_id, message=None)
            current = replace(current, report_id=report_id)
        yield current


def note_attempt(home: Home, registration: Registration, *, report_id: str | None, message: str | None) -> None:
    """Record the result of an evaluation: a report, or why there is none."""
    with home.warehouse.writing() as warehouse:
        about = {"message": message, "report_id": report_id, "registration": registration.registration}
        warehouse.execute(_SQL["note_attempt"], about)
        seal(warehouse, {"registered": [registration.registration]})


def _made_before(home: Home, registration: Registration) -> str | None:
    """The report of a run that was killed before it could write down that it had made it."""
    with home.warehouse.reading() as warehouse:
        ending = f"/{FOLDER}/{registration.answers}"
        about = {"dataset": registration.dataset, "release": registration.release, "ending": ending}
        found = warehouse.execute(_SQL["made_before"], about).fetchone()
    return found[0] if found else None


def _registration(row: tuple[Any, ...]) -> Registration:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return Registration(*values)
