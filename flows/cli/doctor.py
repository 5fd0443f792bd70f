"""`answerkey doctor`: check everything that a run needs. Each finding says what was seen, and how to fix it."""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
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
    from answerkey.metrics_core.embeddings.models import EMBEDDED

    environment.use_kept_server(home)
    installed = versions()
    missing = [name for name, version in installed.items() if version == "not installed" and name not in OF_EXTRAS]
    text = ", ".join(f"{name} {version}" for name, version in installed.items())
    if missing:
        text = f"not installed: {', '.join(missing)}; run `make evaluate`, or pip install answerkey again"
    findings = [DoctorCheck("versions", not missing, text)]

    # What comes with an extra may be missing; what is there must be right
    for name, package in EMBEDDED.items():
        try:
            package.folder()
            ok = True
            text = f"found, checksum right, revision {package.revision}"
        except UserError as error:
            ok = bool(package.extra) and importlib.util.find_spec(package.module) is None
            text = str(error)
        findings.append(DoctorCheck(f"model {name}", ok, text))
    findings += (_judge(), _warehouse(home))

    # A shared home has a catalog, a bucket, a lock and a clock of its own
    if home.warning:
        findings.append(DoctorCheck("catalog", False, home.warning))
    if home.shared:
        findings += _bucket(home)
    findings.append(_server())
    for check in findings:
        mark = "[green]ok[/green]  " if check.ok else "[red]fail[/red]"
        show(f"{mark}  {check.name:<22} {escape(check.text)}")
    return int(not all(check.ok for check in findings))


def _judge() -> DoctorCheck:
    """Whether the judge named by the environment or Prefect could be asked. No call is made."""
    from answerkey.flows.parameters import Judging, preflight
    from answerkey.metrics_core.offline_judge.matcher import about
    from answerkey.tasks.score.keys import settings

    try:
        if not settings((), "")[0]:
            return DoctorCheck("judge", True, f"{about()}; ANSWERKEY_JUDGE or --judge names another")
        options = Judging().options()
        # The same check that a run makes before its first call
        preflight(options, "")
    except UserError as error:
        return DoctorCheck("judge", False, str(error))
    text = f"{', '.join(options.labels)}: provider known, key set or none needed; the judge was not called"
    return DoctorCheck("judge", True, about() if options.offline else text)


def _bucket(home: Home) -> list[DoctorCheck]:
    """Whether this machine can do with a shared home what a run does: lock, write, read, remove; and has its time."""
    name = f"doctor/{uuid.uuid4().hex}"

    # The lock that keeps two runs apart
    try:
        with home.warehouse.claimed(name) as is_claimed:
            lock = DoctorCheck(
                "lock",
                is_claimed,
                "acquired and released"
                if is_claimed
                else "another process holds it; run this again once that has ended",
            )
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
    files = "written, read and removed" if is_same else "read other bytes than were written; check the bucket's storage"
    clock = f"{difference:.0f} s off the bucket's clock" if difference else "agrees with the bucket's clock"
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
    n_datasets = len({dataset for dataset, _ in rows})
    text = f"{path}, {size / 1e6:.1f} MB, {len(rows)} reports on {n_datasets} data sets"
    return DoctorCheck("warehouse", True, text)


def _server() -> DoctorCheck:
    if not has_server():
        return DoctorCheck("server", True, "none; none is needed (`answerkey serve` starts one)")
    import httpx
    from prefect.settings import get_current_settings

    url = os.environ.get("PREFECT_API_URL") or str(get_current_settings().api.url)
    try:
        healthy = httpx.get(f"{url.rstrip('/')}/health", timeout=5.0).status_code == httpx.codes.OK
        text = (
            f"{url} answers"
            if healthy
            else f"{url} answers, but is not healthy; read its log, or unset PREFECT_API_URL"
        )
    except httpx.HTTPError as error:
        healthy = False
        text = f"{url} does not answer ({error}); start it, or unset PREFECT_API_URL"
    return DoctorCheck("server", healthy, without_secrets(text))
