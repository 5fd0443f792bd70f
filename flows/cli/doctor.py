"""`answerkey doctor`: check everything that a run needs. Each finding says what was seen, and how to fix it."""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.markup import escape

from answerkey.flows.cli.layout import show
from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.flows.environment import use_kept_server
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.publish.text import counted
from answerkey.tasks.reports.manifest import OF_EXTRAS, versions
from answerkey.tasks.server import has_server
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Unreachable

if TYPE_CHECKING:
    from answerkey.metrics_core.embeddings.models import ModelPackage

_APART_S = 60.0
"""Clocks that differ by more make files look older or newer than they are to what removes old ones."""


def doctor(*, home: HomeOption = HOME) -> int:
    """Check versions, models, the judge, the warehouse and the server.

    Examples:
        answerkey doctor
    """
    from answerkey.metrics_core.embeddings.models import EMBEDDED

    use_kept_server(home)
    is_well = [_finds("versions", _versions)]
    is_well += [_finds(f"model {name}", _model, package) for name, package in EMBEDDED.items()]
    is_well += [_finds("judge", _judge), _finds("warehouse", _warehouse, home)]
    if home.warning:
        is_well.append(_finds("catalog", _catalog, home))
    # A shared home has a bucket, a lock and a clock of its own
    if home.shared:
        is_well += [_finds("lock", _lock, home), _finds("files", _files, home), _finds("clock", _clock, home)]
    is_well.append(_finds("server", _server))
    return int(not all(is_well))


def _finds(name: str, check: Callable[..., str], *about: object) -> bool:
    """Print what a check saw, or raised because it is wrong; return whether all is well."""
    mark = "[green]ok[/green]  "
    try:
        text = check(*about)
    except (UserError, Unreachable) as error:
        mark = "[red]fail[/red]"
        text = str(error)
    show(f"{mark}  {name:<22} {escape(without_secrets(text))}")
    return "ok" in mark


def _versions() -> str:
    installed = versions()
    missing = [name for name, version in installed.items() if version == "not installed" and name not in OF_EXTRAS]
    if missing:
        raise UserError(f"not installed: {', '.join(missing)}; run `make evaluate`, or pip install answerkey again")
    return ", ".join(f"{name} {version}" for name, version in installed.items())


def _model(package: ModelPackage) -> str:
    try:
        package.folder()
    except UserError as error:
        # What comes with an extra may be missing; what is there must be right
        if package.extra and importlib.util.find_spec(package.module) is None:
            return str(error)
        raise
    return f"found, checksum right, revision {package.revision}"


def _judge() -> str:
    """Whether the judge named by the environment or Prefect could be asked. No call is made."""
    from answerkey.flows.parameters import Judging, preflight
    from answerkey.metrics_core.offline_judge.matcher import about
    from answerkey.tasks.score.keys import settings

    if not settings((), "")[0]:
        return f"{about()}; ANSWERKEY_JUDGE or --judge names another"
    options = Judging().options()
    # The same check that a run makes before its first call
    preflight(options, "")
    if options.offline:
        return about()
    return f"{', '.join(options.labels)}: provider known, key set or none needed; the judge was not called"


def _catalog(home: Home) -> str:
    raise UserError(home.warning)


def _lock(home: Home) -> str:
    """Whether the lock that keeps two runs apart works."""
    with home.warehouse.claimed(f"doctor/{uuid.uuid4().hex}") as is_claimed:
        if not is_claimed:
            raise UserError("another process holds it; run this again once that has ended")
    return "acquired and released"


def _files(home: Home) -> str:
    """Whether a file comes back from the bucket as it was written."""
    name = f"doctor/{uuid.uuid4().hex}"
    with home.store.atomic_write(name) as file:
        file.write_text(name, encoding="utf-8")
    with home.store.read(name) as stored:
        is_same = stored.read() == name.encode()
    home.store.remove("doctor")
    if not is_same:
        raise UserError("read other bytes than were written; check the bucket's storage")
    return "written, read and removed"


def _clock(home: Home) -> str:
    """Whether this machine has the time of the bucket."""
    written_at = time.time()
    with home.store.atomic_write(f"doctor/{uuid.uuid4().hex}") as file:
        file.touch()
    [file_info] = home.store.files("doctor")
    home.store.remove("doctor")
    # Times of a bucket are whole seconds.
    difference = max(0.0, written_at - 1 - file_info.written, file_info.written - time.time())
    clock = f"{difference:.0f} s off the bucket's clock" if difference else "agrees with the bucket's clock"
    if difference >= _APART_S:
        raise UserError(f"{clock}; synchronise this machine's clock (NTP)")
    return clock


def _warehouse(home: Home) -> str:
    if not home.warehouse.exists():
        return f"none yet in {home}; the first evaluation makes it"
    with home.warehouse.reading(wait_s=2.0) as warehouse:
        [(n_reports, n_datasets)] = warehouse.execute(
            "SELECT count(*), count(DISTINCT dataset) FROM reports"
        ).fetchall()
    path, size = home.warehouse.size()
    return f"{path}, {size / 1e6:.1f} MB, {counted(n_reports, 'report')} on {counted(n_datasets, 'data set')}"


def _server() -> str:
    if not has_server():
        return "none; none is needed (`answerkey serve` starts one)"
    import httpx
    from prefect.settings import get_current_settings

    url = os.environ.get("PREFECT_API_URL") or str(get_current_settings().api.url)
    try:
        status = httpx.get(f"{url.rstrip('/')}/health", timeout=5.0).status_code
    except httpx.HTTPError as error:
        raise UserError(f"{url} does not answer ({error}); start it, or unset PREFECT_API_URL") from error
    if status != httpx.codes.OK:
        raise UserError(f"{url} answers, but is not healthy; read its log, or unset PREFECT_API_URL")
    return f"{url} answers"
