"""Whether Prefect takes part in what is done here, found out without importing Prefect, which takes a second."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

NOTE = "prefect/address"
"""In the folder of a home: the API address of the server that `answerkey serve` keeps for it."""

_LOOPBACK = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/api")


def has_server() -> bool:
    """Whether the environment, or the active one of the user's Prefect profiles, names a server."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    try:
        found = tomllib.loads((folder / "profiles.toml").read_text(encoding="utf-8"))
        active = found["profiles"][os.environ.get("PREFECT_PROFILE") or found["active"]]
        return bool(active.get("PREFECT_API_URL"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # None, or none that Prefect could use.
        return False


def kept_server(folder: Path) -> str:
    """The API address of the server that `answerkey serve` keeps for the home in `folder`; empty where none answers."""
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
    import httpx

    try:
        # Of another server on that port, or of one that wants a password, nothing is expected.
        told = httpx.get(f"{address}/admin/settings", timeout=5.0, trust_env=False)
        keeps = told.status_code == httpx.codes.OK and told.json()["home"] == str(note.parent.resolve())
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
        keeps = False
    return address if keeps else ""


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
