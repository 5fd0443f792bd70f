"""Whether Prefect takes part in what is done here, found out without importing Prefect, which takes a second."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTE = "prefect/address"
"""In the folder of a home: the API address of the server that `answerkey serve` keeps for it."""

LOCK = "prefect/serve.lock"
"""In the folder of a home: held while `answerkey serve` keeps a server for it."""
SERVING = "prefect/serving"
"""In the folder of a home: there once the deployments are on that server, and their runs are started."""
_PATIENCE_S = 60.0
"""For a server that is known to run, and does not answer."""
_REPLY_S = 15.0

_log = logging.getLogger("answerkey")

_LOOPBACK = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/api")


def has_server() -> bool:
    """Whether the user has named a Prefect server."""
    return bool(server_address())


def server_address() -> str:
    """The address of the server that the environment names, or else the active one of the user's profiles.

    Prefect also reads `.env`, `prefect.toml` and `pyproject.toml` of the working folder. That folder may be somebody
    else's data or code, which are not to decide where names, parameters and logs of runs are sent.
    """
    if address := os.environ.get("PREFECT_API_URL"):
        return address
    named = os.environ.get("PREFECT_PROFILES_PATH")
    profiles = _toml(Path(named or Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "profiles.toml"))
    name = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    return str(_within(profiles, "profiles", name, "PREFECT_API_URL") or "")


def _toml(file: Path) -> Mapping[str, object]:
    """What a file says; nothing where it is not there, or Prefect could not use it."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _within(table: object, *names: object) -> Any:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def kept_server(folder: Path) -> str:
    """The API address of the server that `answerkey serve` keeps for the home in `folder`; empty where there is none.

    One that is busy is waited for, a minute at most; then a warning says that it did not answer.
    """
    note = folder / NOTE
    try:
        # In a shared home, others could name a server of theirs, and by its variables a judge.
        if note.stat().st_uid != os.getuid():
            return ""
        address = note.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
    if not _LOOPBACK.fullmatch(address):
        return ""
    from answerkey.tasks.warehouse.store import is_held

    deadline = time.monotonic() + _PATIENCE_S
    while (keeps := _keeps(address, note.parent.resolve())) is None and is_held(folder / LOCK):
        if time.monotonic() > deadline:
            _log.warning(
                f"the Prefect server of this home, {address}, does not answer, so this run goes on without it: it is "
                f"not listed there, and registered releases are evaluated once the server is back"
            )
            break
        time.sleep(1.0)
    return address if keeps else ""


def _keeps(address: str, folder: Path) -> bool | None:
    """Whether the server at `address` is Prefect's with this folder; None where nothing answers in time."""
    import httpx

    try:
        told = httpx.get(f"{address}/admin/settings", timeout=_REPLY_S, trust_env=False)
        if told.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return None
        # Of another server on that port, or of one that wants a password, nothing is expected.
        return told.status_code == httpx.codes.OK and bool(told.json()["home"] == str(folder))
    except httpx.TransportError:
        return None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
        return False


def within_run() -> bool:
    """Whether this is part of a run of Prefect, which has a server, if only a temporary one."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return bool(FlowRunContext.get() or TaskRunContext.get())


def on_server() -> bool:
    """Whether a server is configured, or this is part of a run. Else whatever asks Prefect would start a server."""
    if "prefect" not in sys.modules and not has_server():
        return False
    from prefect.settings import get_current_settings

    return bool(get_current_settings().api.url) or within_run()


def is_away(error: Exception) -> bool:
    """Whether an error says that the Prefect server is not there, or cannot answer."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return isinstance(error, httpx.TransportError)
