"""Maintenance of a home and its Prefect server: mark runs that died, close their rows, remove what they left behind.

A run whose machine went down stays `Running` for ever, and one whose worker died while it was starting it stays
`Submitting`; both keep their place under every limit of concurrency. The automation in deployments/automations marks
the first kind at once, where it is deployed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from answerkey.tasks.server import on_server
from answerkey.tasks.warehouse.home import Home, is_work_folder
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import PROCESS, StoredFile, is_held

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

TAG = "answerkey"
"""What every flow run of this product has; no others are looked at."""
_SQL = statements(__name__)
_LONGEST_DAYS = 30
"""No run takes longer."""


def close_runs(home: Home) -> int:
    """Close the rows of `runs` that still say running while the server knows better; return how many.

    A run that no server knows, as after the loss of its database, is closed once its process on this machine is gone;
    that of another machine, which cannot be seen from here, 30 days after its start.
    """
    if not home.warehouse.exists():
        return 0
    with home.warehouse.writing() as warehouse:
        rows = warehouse.execute(_SQL["unfinished"], {"days": _LONGEST_DAYS}).fetchall()
    states = _states([run_id for run_id, _ in rows])
    ended: list[tuple[str, str]] = []
    for run_id, long_ago in rows:
        state = states.get(run_id)
        if state and state.is_final():
            ended.append((f"{state.name}: {state.message or 'the process ended without a message'}", run_id))
        elif run_id not in states and is_held(home.scratch / run_id / PROCESS) is False:
            ended.append(("no server knows it, and its process is gone", run_id))
        elif run_id not in states and long_ago:
            ended.append((f"no word for {_LONGEST_DAYS} days, and no server knows it: its process is gone", run_id))
    with home.warehouse.writing() as warehouse:
        for message, run_id in ended:
            warehouse.execute(_SQL["stop"], {"message": message, "run_id": run_id})
    return len(ended)


def _states(run_ids: Collection[str]) -> dict[str, State[Any] | None]:
    """The states of the flow runs that the server knows; none without a server."""
    if not on_server():
        return {}
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    found: dict[str, State[Any] | None] = {}
    with get_client(sync_client=True) as client:
        for run_id in run_ids:
            # A run of another server, or one without any.
            with suppress(ObjectNotFound):
                found[run_id] = client.read_flow_run(UUID(run_id)).state
    return found


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many folders and files were removed, and their size in bytes."""

    folders: int
    files: int
    size: int


def prune(home: Home, days: float) -> Pruned:
    """Remove work folders and finished parts that nothing has touched for `days` days.

    Reports, the ledger and generated answers are never touched.

    A part is what a killed run had finished scoring; the same evaluation, started again in time, takes it up.
    """
    before = time.time() - days * 86_400
    running = set[str]()
    if home.warehouse.exists():
        with home.warehouse.writing() as warehouse:
            running = {run_id for (run_id,) in warehouse.execute(_SQL["running"]).fetchall()}
    folders = [
        folder
        for folder in home.local.glob("runs/*")
        if folder.is_dir() and is_work_folder(folder.name) and folder.name not in running
        if max(file.stat().st_mtime for file in [folder, *folder.rglob("*")]) < before
    ]
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    old = [file for file in home.store.files("parts") if file.written < before]
    shared = _shared_by_run(home)
    dead = [run for run, files in shared.items() if run not in running and max(one.written for one in files) < before]
    size += sum(file.size for file in old) + sum(file.size for run in dead for file in shared[run])
    for file in old:
        home.store.remove(file.name)
    for run in dead:
        home.store.remove(f"runs/{run}")
    return Pruned(len(folders) + len(dead), len(old), size)


def _shared_by_run(home: Home) -> dict[str, list[StoredFile]]:
    """What runs put into the store for their workers. It goes with the run, if that is not killed."""
    found: dict[str, list[StoredFile]] = {}
    for file in home.store.files("runs"):
        if is_work_folder(run := file.name.split("/")[1]):
            found.setdefault(run, []).append(file)
    return found
