"""`answerkey doctor`: check everything that a run needs. Each finding says what was seen, and how to fix it."""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
from collections import Counter
from dataclasses import dataclass

from rich.markup import escape

from answerkey.flows import environment
from answerkey.flows.cli.layout import show
from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.reports.manifest import OF_EXTRAS, versions
from answerkey.tasks.server import has_server
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Unreachable

_APART_S = 60.0
"""Clocks that differ by more make files look older or newer than they are to what removes old ones."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One finding."""

    name: str
    ok: bool
    text: str


def doctor(*, home: HomeOption = HOME) -> int:
    """Check versions, models, the judge, the warehouse and the server.

    Examples:
        answerkey doctor
    """
    environment.use_kept_server(home)
    findings = examine(home)
    marks = {True: "[green]ok[/green]  ", False: "[red]fail[/red]"}
    show(*(f"{marks[check.ok]}  {check.name:<22} {escape(check.text)}" for check in findings))
    return 0 if all(check.ok for check in findings) else 1


def examine(home: Home) -> list[DoctorCheck]:
    """Look at versions, the models, the warehouse and the server."""
    installed = versions()
    missing = [name for name, version in installed.items() if version == "not installed" and name not in OF_EXTRAS]

    # A shared home has a bucket, a lock and a clock of its own
    return [
        DoctorCheck(
            "versions",
            not missing,
            ", ".join(f"{name} {version}" for name, version in installed.items())
            if not missing
            else f"not installed: {', '.join(missing)}; run `make evaluate`, or pip install answerkey again",
        ),
        *_models(),
        _judge(),
        _warehouse(home),
        *([DoctorCheck("catalog", False, home.warning)] if home.warning else ()),
        *(_bucket(home) if home.shared else ()),
        _server(),
    ]


def _models() -> list[DoctorCheck]:
    from answerkey.metrics_core.embeddings.models import EMBEDDED

    findings = []
    for name, package in EMBEDDED.items():
        try:
            package.folder()
        except UserError as error:
            # What comes with an extra may be missing; what is there must be right.
            absent = bool(package.extra) and importlib.util.find_spec(package.module) is None
            findings.append(DoctorCheck(f"model {name}", absent, str(error)))
        else:
            findings.append(DoctorCheck(f"model {name}", True, f"found, checksum right, revision {package.revision}"))
    return findings


def _judge() -> DoctorCheck:
    """Whether the judge named by the environment or Prefect could be asked. No call is made."""
    from answerkey.flows.parameters import Judging, preflight
    from answerkey.metrics_core.offline_judge.matcher import about
    from answerkey.tasks.score.keys import settings

    try:
        if not settings((), "")[0]:
            return DoctorCheck("judge", True, f"{about()}; ANSWERKEY_JUDGE or --judge names another")

        # The same check that a run makes before its first call
        options = Judging().options()
        preflight(options, "")
    except UserError as error:
        return DoctorCheck("judge", False, str(error))
    if options.offline:
        return DoctorCheck("judge", True, about())
    return DoctorCheck(
        "judge", True, f"{', '.join(options.labels)}: provider known, key there or none needed; not asked"
    )


def _bucket(home: Home) -> list[DoctorCheck]:
    """Whether this machine can do with a shared home what a run does: lock, write, read, remove; and has its time."""
    name = f"doctor/{uuid.uuid4().hex}"

    # The lock that keeps two runs apart
    try:
        with home.warehouse.claimed(name) as is_claimed:
            lock = DoctorCheck("lock", is_claimed, "acquired and released" if is_claimed else "another process has it")
    except (UserError, Unreachable) as error:
        lock = DoctorCheck("lock", False, str(error))

    # A file there and back
    try:
        written_at = time.time()
        with home.store.atomic_write(name) as file:
            file.write_text(name, encoding="utf-8")
        with home.store.read(name) as stored:
            is_same = stored.read() == name.encode()
        [file_info] = home.store.files("doctor")
        home.store.remove("doctor")
    except (UserError, Unreachable) as error:
        return [lock, DoctorCheck("files", False, str(error))]
    # Times of a bucket are whole seconds.
    difference = max(0.0, written_at - 1 - file_info.written, file_info.written - time.time())
    files = "written, read and removed" if is_same else "what was read is not what was written"
    clock = f"{difference:.0f} s from the bucket's" if difference else "that of the bucket"
    remedy = "" if difference < _APART_S else "; synchronise this machine's clock (NTP)"
    return [lock, DoctorCheck("files", is_same, files), DoctorCheck("clock", difference < _APART_S, clock + remedy)]


def _warehouse(home: Home) -> DoctorCheck:
    try:
        if not home.warehouse.exists():
            return DoctorCheck("warehouse", True, f"none yet in {home}; the first evaluation makes it")
        with home.warehouse.reading(wait_s=2.0) as warehouse:
            rows = warehouse.execute("SELECT dataset, release FROM reports").fetchall()
        path, size = home.warehouse.size()
    except (UserError, Unreachable) as error:
        return DoctorCheck("warehouse", False, str(error))
    datasets = Counter(dataset for dataset, _ in rows)
    return DoctorCheck(
        "warehouse", True, f"{path}, {size / 1e6:.1f} MB, {len(rows)} reports on {len(datasets)} data sets"
    )


def _server() -> DoctorCheck:
    if not has_server():
        return DoctorCheck("server", True, "none; none is needed (`answerkey serve` starts one)")
    import httpx
    from prefect.settings import get_current_settings

    url = os.environ.get("PREFECT_API_URL") or str(get_current_settings().api.url)
    try:
        healthy = httpx.get(f"{url.rstrip('/')}/health", timeout=5.0).status_code == httpx.codes.OK
    except httpx.HTTPError as error:
        said = without_secrets(f"{url} does not answer ({error}); start it, or unset PREFECT_API_URL")
        return DoctorCheck("server", False, said)
    shown = without_secrets(url)
    return DoctorCheck("server", healthy, f"{shown} answers" if healthy else f"{shown} answers, but is not healthy")
