"""Whether Prefect takes part in what is done here, found out without importing Prefect, which takes a second."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NOTE = "prefect/address"
"""In the folder of a home: the API address of the server that `answerkey serve` keeps for it."""

LOCK = "prefect/serve.lock"
"""In the folder of a home: held while `answerkey serve` keeps a server for it."""
_PATIENCE_S = 60.0
"""For a server that is known to run, and does not answer."""
_REPLY_S = 15.0

_log = logging.getLogger("answerkey")

_LOOPBACK = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/api")


def has_server() -> bool:
    """Whether Prefect finds the address of a server.

    It looks into the environment, into `.env`, `prefect.toml` and `pyproject.toml` of the working folder, and into the
    active one of the user's profiles; the first that has an address decides, also if that is empty.
    """
    if os.environ.get("PREFECT_API_URL"):
        return True
    variables, tables = _variables(Path(".env")), [_toml(Path("prefect.toml"))]
    tables.append(_within(_toml(Path("pyproject.toml")), "tool", "prefect") or {})
    active: object = None
    profiles = _toml(
        _profiles([variables.get("PREFECT_PROFILES_PATH"), *(_within(one, "profiles_path") for one in tables)])
    )
    if name := os.environ.get("PREFECT_PROFILE") or profiles.get("active"):
        active = _within(profiles, "profiles", name, "PREFECT_API_URL")
    named = [variables.get("PREFECT_API_URL"), *(_within(one, "api", "url") for one in tables), active]
    return bool(next((address for address in named if address is not None), None))


def _profiles(named: Iterable[object]) -> Path:
    """The file of the user's profiles, for which the files of the working folder may have `named` another place."""
    for place in (os.environ.get("PREFECT_PROFILES_PATH"), *named):
        if place:
            return Path(str(place))
    return Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "profiles.toml"


def _variables(file: Path) -> Mapping[str, str | None]:
    if not file.is_file():
        return {}
    import dotenv

    try:
        return {name.upper(): value for name, value in dotenv.dotenv_values(file).items()}
    except (OSError, ValueError):
        return {}


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
    deadline = time.monotonic() + _PATIENCE_S
    while (keeps := _keeps(address, note.parent.resolve())) is None and _is_held(folder / LOCK):
        if time.monotonic() > deadline:
            _log.warning(
                f"the Prefect server of this home, {address}, does not answer: this goes on without it. Runs are then "
                "not in its list, and what is registered is evaluated when it answers again"
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


def _is_held(lock: Path) -> bool:
    """Whether `answerkey serve` runs: its lock ends with it, even if it is killed."""
    from filelock import FileLock, Timeout

    if not lock.exists():
        return False
    try:
        with FileLock(lock, blocking=False):
            return False
    except Timeout:
        return True
    except OSError:
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
