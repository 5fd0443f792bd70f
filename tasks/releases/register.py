"""The registry of releases to evaluate, and the gate of a data set that decides where a run names none.

A registration is answers in the warehouse that wait for a report, claimed by one run at a time.

An event that is lost costs nothing, because a schedule finds what has no report; one that comes twice does nothing,
because only one run at a time has a registration, and it looks first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.load.load import Loaded, Source, dataset_name, load
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.events import RELEASE_REGISTERED, emit
from answerkey.tasks.releases.export import stored_answers, stored_references
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.reports.commit import commit, record_validation
from answerkey.tasks.reports.report import Report
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
    """A row of the view `registrations`; see schema.sql."""

    registration: str
    dataset: str
    dataset_version: str
    release: str
    answers_version: str
    source: str
    generation: dict[str, Any] | None
    registered_at: str
    report_id: str | None
    superseded: bool

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
    # The answers, of one release, and which of them can be scored
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
    record_validation(home, run_id, source.answers, loaded=loaded, validation=validation)
    if validation.broken:
        raise UserError(f"{called(source.answers)}: {validation.broken}")
    committed = commit(home, run_id, source.answers, loaded=loaded, accepted=validation.accepted, parts=())
    [release] = committed.releases

    # The registration is named after the content, so the same content is the same registration
    columns = {
        "dataset": committed.dataset,
        "dataset_version": committed.dataset_version,
        "release": release.release,
        "answers_version": release.answers_version,
    }
    columns["registration"] = content_hash([*columns.values()])[:12]
    columns["source"] = without_secrets(source.answers)
    columns["generation"] = json.dumps(generation_of(source.answers))
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["add"], columns)
    registration = registration_named(home, columns["registration"])

    # An automation may start its evaluation
    payload = {name: getattr(registration, name) for name in ("registration", "dataset", "release")} | {
        "home": home.address
    }
    emit(RELEASE_REGISTERED, f"answerkey.release.{registration.dataset}.{registration.registration}", payload)
    return registration


def _loaded(home: Home, source: Source, work: Path) -> Loaded:
    try:
        return load(source, work)
    except UserError as error:
        if source.references is not None:
            raise
        # The references of the data set's newest version, if there is one
        file = work / "known.jsonl"
        if home.warehouse.exists() and (stored := stored_references(home, source.dataset, file)):
            paths, slices = stored
            return load(
                replace(source, references=str(file), reference_paths=paths, slices=source.slices or slices), work
            )
        loaded = load(replace(source, needs_references=False), work)
        _log.warning(f"registered without references, for metrics that need none: {error}")
        return loaded


def stored_source(home: Home, origin: Registration | Report, folder: Path) -> Source:
    """Write the answers of a registration or a report, and their references, into `folder`."""
    return stored_answers(
        home, origin.dataset, origin.dataset_version, origin.release, answers_version=origin.answers_version,
        folder=folder,
    )  # fmt: skip


def registration_named(home: Home, name: str) -> Registration:
    """The registration with this id, else the newest one of a release, called RELEASE or DATASET/RELEASE.

    Raises:
        UserError: there is none.
    """
    matching = [
        registration
        for registration in registrations(home)
        if name in (registration.registration, registration.release, registration.name)
    ]
    if not matching:
        raise UserError(f"{name}: no such registered release in {home}; `answerkey register-release` makes one")
    return matching[-1]


def pending(home: Home) -> list[Registration]:
    """The registrations that wait for a report, in their order.

    Older answers of a release that has newer ones do not: their report would be the newest of the release.
    """
    return [
        registration
        for registration in registrations(home)
        if registration.report_id is None and not registration.superseded
    ]


def registrations(home: Home) -> list[Registration]:
    """All registrations, with a report or without, in their order."""
    rows = home.rows(_SQL["registrations"]) if home.warehouse.exists() else []
    stored = [Registration(*row) for row in rows]
    return [replace(registration, generation=json.loads(str(registration.generation))) for registration in stored]


@contextmanager
def claimed(home: Home, answers: str) -> Iterator[tuple[list[str], str]]:
    """Claim the registered release that `answers` names, for as long as this process evaluates it.

    Yields the report that it has, and why nothing is left to do; both are empty where this process is to evaluate it,
    and for answers from elsewhere. The claim ends with the process, even if it is killed.

    Raises:
        UserError: there is no such registration.
    """
    if not answers.startswith(ADDRESS):
        yield [], ""
        return
    name = registration_named(home, answers.removeprefix(ADDRESS)).registration
    with home.warehouse.claimed(f"registration-{name}") as is_claimed:
        registration = registration_named(home, name)
        if registration.report_id:
            yield [registration.report_id], f"nothing new: {registration.name} has the report {registration.report_id}"
        elif registration.superseded:
            yield [], f"{registration.name}: {name} is left out, since the release has newer answers"
        elif not is_claimed:
            yield [], f"{registration.name}: another run is evaluating it"
        else:
            yield [], ""


def keep_gate(home: Home, dataset: str, baseline: str, policy: Policy) -> None:
    """Keep the gate of a data set. It holds until another is kept; its policy says what a PASS makes of the baseline.

    Args:
        baseline: a release, of which always the newest report counts, or the id of a report, which stays the same.
    """
    columns = {"dataset": dataset, "baseline": baseline, "policy": json.dumps(policy.as_dict())}
    with home.warehouse.writing() as warehouse:
        warehouse.execute(_SQL["keep_gate"], columns)


def kept_gate(home: Home, dataset: str) -> tuple[str, str]:
    """The baseline of a data set, and the text of its policy; both empty where no gate is kept.

    >>> from answerkey.tasks.warehouse.home import Home
    >>> kept_gate(Home.parse("no such home"), "faq")
    ('', '')
    """
    rows = home.rows(_SQL["kept_gate"], {"dataset": dataset}) if home.warehouse.exists() else []
    return (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")


def never_gated(home: Home) -> list[tuple[str, str, str, str]]:
    """Report, baseline, policy and time of the gate of each newest registered release that it has not decided on.

    A gate may be kept only after a release was evaluated, or changed since.
    """
    return home.rows(_SQL["never_gated"]) if home.warehouse.exists() else []
