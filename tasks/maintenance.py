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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from answerkey.tasks.server import on_server
from answerkey.tasks.warehouse.content import write_checksums
from answerkey.tasks.warehouse.home import Home, is_work_folder
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.store import PROCESS, StoredFile, is_held

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

TAG = "answerkey"
"""What every flow run of this product has; no others are looked at."""
PATIENCE = timedelta(days=7)
"""Between the end of a run's wait for labels, and its time-out on the server, after which it could only fail."""

_SQL = statements(__name__)
_PAGE = 200
_LEFT_CRASHED = timedelta(hours=6)
"""A run that crashed before that is left as it is: whoever needs it has seen it by now."""
_LONGEST_DAYS = 30
"""No run takes longer."""


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A flow run that was marked, and why."""

    run_id: str
    name: str
    reason: str


def mark_dead_runs(silent: timedelta, starting: timedelta, *, but: Collection[str] = ()) -> list[DeadRun]:
    """Mark as crashed what has run without a heartbeat for `silent`, or has been starting for longer than `starting`.

    Without a server there is nothing to mark.

    Args:
        but: ids of flow runs to leave alone, such as the caller's.
    """
    if not on_server():
        return []
    from prefect.client.orchestration import get_client
    from prefect.states import Crashed

    dead = []
    with get_client(sync_client=True) as client:
        for run in _runs(client, "RUNNING", "PENDING"):
            reason = None if str(run.id) in but else _reason(client, run, silent, starting)
            if reason:
                client.set_flow_run_state(run.id, Crashed(message=reason), force=True)
                dead.append(DeadRun(str(run.id), run.name, reason))
    return dead


def restart_crashed(after: timedelta = timedelta(minutes=2)) -> list[str]:
    """Restart runs of deployments that crashed for the first time, between `after` and six hours ago.

    The automation in crashed.yaml does so within a minute; but Prefect's server drops events while its SQLite is
    locked.

    Returns:
        The names of the runs.
    """
    if not on_server():
        return []
    from prefect.client.orchestration import get_client
    from prefect.states import AwaitingRetry

    restarted, now = [], datetime.now(UTC)
    with get_client(sync_client=True) as client:
        for run in _runs(client, "CRASHED"):
            is_recent = run.state and now - _LEFT_CRASHED < run.state.timestamp <= now - after
            if is_recent and run.run_count == 1 and run.deployment_id and not run.parent_task_run_id:
                message = "it has crashed, and goes on by itself, once; nothing is paid for twice"
                client.set_flow_run_state(run.id, AwaitingRetry(message=message))
                restarted.append(run.name)
    return restarted


def waiting_key(queue: str) -> str:
    """The key under which a run is suspended that waits for the labels of a queue."""
    return f"labels-{queue}"


def resume_waiting(queue: str = "") -> list[str]:
    """Resume the runs that wait for the labels of a queue; without one, those whose wait has ended.

    A run finds out by itself what the labels say by now.

    Returns:
        The names of the runs.
    """
    if not on_server():
        return []
    from prefect.client.orchestration import get_client

    resumed = []
    with get_client(sync_client=True) as client:
        for run in _runs(client, "PAUSED"):
            details = run.state.state_details if run.state else None
            if details is None or not (details.pause_key or "").startswith(waiting_key(queue)):
                continue
            if queue or (details.pause_timeout and details.pause_timeout - PATIENCE < datetime.now(UTC)):
                client.resume_flow_run(run.id)
                resumed.append(run.name)
    return resumed


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
        write_checksums(warehouse, {"runs": [run_id for _, run_id in ended]})
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


def _runs(client: SyncPrefectClient, *states: str) -> list[FlowRun]:
    from prefect.client.schemas.filters import FlowRunFilter

    wanted = FlowRunFilter.model_validate({"state": {"type": {"any_": states}}, "tags": {"all_": [TAG]}})
    found: list[FlowRun] = []
    while page := client.read_flow_runs(flow_run_filter=wanted, limit=_PAGE, offset=len(found)):
        found += page
    return found


def _reason(client: SyncPrefectClient, run: FlowRun, silent: timedelta, starting: timedelta) -> str | None:
    state, now = run.state, datetime.now(UTC)
    if state is None:
        return None
    since = now - state.timestamp
    if state.is_pending():
        return f"{state.name} for {_minutes(since)}: its worker is gone; run it again" if since > starting else None
    if since <= silent or _beats(client, run, now - silent):
        return None
    return f"no heartbeat for {_minutes(silent)}: its process is gone; run it again, nothing is paid for twice"


def _beats(client: SyncPrefectClient, run: FlowRun, since: datetime) -> bool:
    """Whether there was a heartbeat after `since`."""
    wanted: dict[str, Any] = {
        "event": {"name": ["prefect.flow-run.heartbeat"]},
        "resource": {"id": [f"prefect.flow-run.{run.id}"]},
        "occurred": {"since": since.isoformat()},
    }
    reply = client.request("POST", "/events/filter", json={"filter": wanted, "limit": 1})
    return bool(reply.json()["events"])


def _minutes(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 60:.0f} minutes"


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
        if folder.is_dir() and is_work_folder(folder.name) and folder.name not in running and _newest(folder) < before
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


def _newest(folder: Path) -> float:
    return max(file.stat().st_mtime for file in [folder, *folder.rglob("*")])
