"""Releases that are registered: a table that is the record, and a claim that one run at a time has.

An event that is lost costs nothing, because the nightly run finds what has no report; one that comes twice does
nothing, because only one run at a time has a registration, and it looks first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish.events import RELEASE_REGISTERED, emit
from answerkey.tasks.warehouse.home import Home

FOLDER = "registered"
_COLUMNS = (
    'registration, dataset, release, answers, "references", columns, reference_columns, slices, source, '
    "strftime(registered_at, '%Y-%m-%d %H:%M'), attempts, message, report_id"
)


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

    @property
    def name(self) -> str:
        """DATASET/RELEASE."""
        return f"{self.dataset}/{self.release}"


def announce(home: Home, registration: Registration) -> bool:
    """Emit the event of a registration, and return whether a server has it."""
    payload = {
        "registration": registration.registration,
        "dataset": registration.dataset,
        "release": registration.release,
        "home": str(home.folder.resolve()),
    }
    return emit(RELEASE_REGISTERED, f"answerkey.release.{registration.dataset}.{registration.registration}", payload)


def source_of(home: Home, registration: Registration) -> Source:
    """What to load to evaluate it."""
    folder = (home.folder / FOLDER).resolve()
    return Source(
        answers=str(folder / registration.answers),
        references=str(folder / registration.references) if registration.references else None,
        dataset=registration.dataset,
        release=registration.release,
        paths=parse_map(registration.columns),
        reference_paths=parse_map(registration.reference_columns),
        slices=registration.slices,
    )


def pending(home: Home, name: str = "", limit: int | None = None) -> list[Registration]:
    """The registrations without a report, those first that were tried least; at most `limit`.

    Args:
        name: a registration, a release or DATASET/RELEASE: no others. Empty: all.
    """
    return [one for one in registrations(home, name) if one.report_id is None][:limit]


def registrations(home: Home, name: str = "") -> list[Registration]:
    """All registrations, with a report or without; see `pending`.

    Raises:
        UserError: `name` is given, and there is none.
    """
    if not home.warehouse.exists():
        rows = []
    else:
        with home.warehouse.reading() as warehouse:
            rows = warehouse.execute(
                f"SELECT {_COLUMNS} FROM registered "
                "WHERE $name IN ('', registration, release, dataset || '/' || release) "
                "ORDER BY attempts, registered_at, registration",
                {"name": name},
            ).fetchall()
    if name and not rows:
        raise UserError(f"{name}: no such registered release in {home}; `answerkey register-release` makes one")
    return [_registration(row) for row in rows]


def insert(home: Home, made: Registration) -> Registration:
    """Write a new registration down, unless it is there already, and return it as it is there."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            "INSERT INTO registered BY NAME SELECT $registration AS registration, $dataset AS dataset, "
            "$release AS release, $answers AS answers, $references AS references, $columns AS columns, "
            "$reference_columns AS reference_columns, $slices AS slices, $source AS source, now() AS registered_at, "
            "0 AS attempts "
            "WHERE NOT EXISTS (FROM registered WHERE registration = $registration)",
            {
                "registration": made.registration, "dataset": made.dataset, "release": made.release,
                "answers": made.answers, "references": made.references, "columns": list(made.columns),
                "reference_columns": list(made.reference_columns), "slices": list(made.slices),
                "source": made.source,
            },
        )  # fmt: skip
        [row] = warehouse.execute(
            f"SELECT {_COLUMNS} FROM registered WHERE registration = ?", [made.registration]
        ).fetchall()
    return _registration(row)


@contextmanager
def claimed(home: Home, registration: Registration) -> Iterator[Registration | None]:
    """Have a registration for oneself; it comes as it is now. None where another process has it.

    The claim ends with the process, however that ends.
    """
    lock = os.open(home.folder / FOLDER / f"{registration.registration}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        current = registrations(home, registration.registration)[0]
        if current.report_id is None and (report_id := _made_before(home, current)):
            note_attempt(home, current, report_id=report_id, message=None)
            current = replace(current, report_id=report_id)
        yield current
    finally:
        os.close(lock)


def note_attempt(home: Home, registration: Registration, *, report_id: str | None, message: str | None) -> None:
    """Write down what came of an evaluation: a report, or why there is none."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            "UPDATE registered SET attempts = attempts + 1, message = ?, report_id = coalesce(report_id, ?) "
            "WHERE registration = ?",
            [message, report_id, registration.registration],
        )


def _made_before(home: Home, registration: Registration) -> str | None:
    """The report of a run that was killed before it could write down that it had made it."""
    with home.warehouse.reading() as warehouse:
        found = warehouse.execute(
            "SELECT report_id FROM reports WHERE dataset = ? AND release = ? "
            "AND ends_with(json_extract_string(manifest, '$.parameters.data.answers'), ?) ORDER BY version LIMIT 1",
            [registration.dataset, registration.release, f"/{FOLDER}/{registration.answers}"],
        ).fetchone()
    return found[0] if found else None


def _registration(row: tuple[Any, ...]) -> Registration:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return Registration(*values)
