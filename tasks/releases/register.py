"""The registry of releases to evaluate: answers in the warehouse that wait for a report, claimed by one run at a time.

An event that is lost costs nothing, because the nightly run finds what has no report; one that comes twice does
nothing, because only one run at a time has a registration, and it looks first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.load import Loaded, Source, dataset_name, load
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.events import RELEASE_REGISTERED, emit
from answerkey.tasks.releases.export import stored_answers, stored_references
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.reports.commit import commit, record_validation
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

ADDRESS = "registered:"
"""With the id of a registration behind it, this is what the form of an evaluation names as its answers."""

_SQL = statements(__name__)

_log = logging.getLogger("answerkey")


@dataclass(frozen=True, slots=True)
class Registration:
    """A row of the table `registered`; see schema.sql."""

    registration: str
    dataset: str
    dataset_version: str
    release: str
    answers_version: str
    source: str
    generation: dict[str, Any] | None
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

    @property
    def address(self) -> str:
        """What the form of an evaluation names as its answers."""
        return f"{ADDRESS}{self.registration}"


def register(home: Home, source: Source, run_id: str, work: Path) -> Registration:
    """Commit the answers of a release without scoring them, and notify the Prefect server, if there is one.

    The same content under the same name is the same registration, however often it comes. Where the answers bring
    no references and the source names none, those of the data set's newest version in the warehouse are taken.
    Where there are none either, the log says so: then only metrics that need no references can score it.

    Args:
        source: with the names of the release and of the data set.
        run_id: the run that quarantined rows are recorded under.
        work: a folder for files that are needed meanwhile.

    Raises:
        UserError: a name is missing, the source cannot be loaded, its rows break the contract, or they are answers of
            several releases.
    """
    if not source.release.strip():
        raise UserError("a registered release needs a name")
    loaded = _loaded(home, replace(source, dataset=dataset_name(source)), work)
    if len(loaded.releases) > 1:
        names = ", ".join(loaded.releases[:3]) + (", ..." if len(loaded.releases) > 3 else "")
        raise UserError(
            f"{called(source.answers)}: these are answers of several releases ({names}); give each a file of its own, "
            "or name another release column with --map release=COLUMN"
        )
    # Which metrics will score it is not known yet: perhaps they need no references.
    validation = validate(loaded.staged, loaded.rejects, str(work), Contract(references="unused"), home=home.local)
    record_validation(home, run_id, source.answers, loaded, validation)
    if validation.broken:
        raise UserError(f"{called(source.answers)}: {validation.broken}")
    committed = commit(home, run_id, source.answers, loaded, validation.accepted, ())
    [release] = committed.releases
    key = [committed.dataset, committed.dataset_version, release.release, release.answers_version]
    about = {
        "registration": content_hash(key)[:12],
        "dataset": committed.dataset,
        "dataset_version": committed.dataset_version,
        "release": release.release,
        "answers_version": release.answers_version,
        "source": without_secrets(source.answers),
        "generation": json.dumps(generation_of(source.answers)),
    }
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["add"], about)
        [row] = warehouse.execute(_SQL["registrations"], {"name": about["registration"]}).fetchall()
    made = _registration(row)
    payload = {name: getattr(made, name) for name in ("registration", "dataset", "release")} | {"home": home.address}
    emit(RELEASE_REGISTERED, f"answerkey.release.{made.dataset}.{made.registration}", payload)
    return made


def _loaded(home: Home, source: Source, work: Path) -> Loaded:
    try:
        return load(source, work)
    except UserError as error:
        if source.references is not None:
            raise
        file = work / "known.jsonl"
        if home.warehouse.exists() and (known := stored_references(home, source.dataset, file)):
            paths, slices = known
            return load(
                replace(source, references=str(file), reference_paths=paths, slices=source.slices or slices), work
            )
        loaded = load(replace(source, needs_references=False), work)
        _log.warning(f"registered without references, for metrics that need none: {error}")
        return loaded


def registered_source(home: Home, registration: Registration, folder: Path) -> Source:
    """Write the answers of a registration, and their references, into `folder`."""
    return stored_answers(
        home, registration.dataset, registration.dataset_version, registration.release, registration.answers_version,
        folder,
    )  # fmt: skip


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
    rows = home.rows(_SQL["registrations"], {"name": name}) if home.warehouse.exists() else []
    if name and not rows:
        raise UserError(f"{name}: no such registered release in {home}; `answerkey register-release` makes one")
    return [_registration(row) for row in rows]


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
        # The report of a run that was killed before it could write down that it had made it.
        if current.report_id is None and (made := home.rows(_SQL["made_before"], {"address": current.address})):
            note_attempt(home, current, report_id=made[0][0], message=None)
            current = replace(current, report_id=made[0][0])
        yield current


def note_attempt(home: Home, registration: Registration, *, report_id: str | None, message: str | None) -> None:
    """Record the result of an evaluation: a report, or why there is none."""
    with home.warehouse.writing() as warehouse:
        about = {"message": message, "report_id": report_id, "registration": registration.registration}
        warehouse.execute(_SQL["note_attempt"], about)


def _registration(row: tuple[Any, ...]) -> Registration:
    made = Registration(*row)
    return replace(made, generation=json.loads(str(made.generation)))
