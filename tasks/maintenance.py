"""Runs that died without a word: find them on the Prefect server, and mark them as crashed.

A run whose machine went down stays `Running` for ever, and one whose worker died while it was starting it stays
`Submitting`; both keep their place under every limit of concurrency.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

TAG = "answerkey"
"""What every flow run of this product has; no others are looked at."""

_PAGE = 200


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A flow run that was marked, and why."""

    run_id: str
    name: str
    reason: str


def mark_dead_runs(silent: timedelta, starting: timedelta, *, but: Collection[str] = ()) -> list[DeadRun]:
    """Mark as crashed what has run without a heartbeat for `silent`, or has been starting for longer than `starting`.

    Args:
        but: ids of flow runs to leave alone, such as one's own.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Crashed

    dead = []
    with get_client(sync_client=True) as client:
        for run in _unfinished(client):
            reason = None if str(run.id) in but else _reason(client, run, silent, starting)
            if reason:
                client.set_flow_run_state(run.id, Crashed(message=reason), force=True)
                dead.append(DeadRun(str(run.id), run.name, reason))
    return dead


def close_runs(home: Home) -> int:
    """Close the rows of `runs` that still say running while the server knows better; return how many."""
    if not home.warehouse.exists():
        return 0
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with home.warehouse.writing() as warehouse:
        rows = warehouse.execute("SELECT run_id FROM runs WHERE status = 'running'").fetchall()
    ended: list[tuple[str, str]] = []
    with get_client(sync_client=True) as client:
        for (run_id,) in rows:
            try:
                state = client.read_flow_run(run_id).state
            except ObjectNotFound:
                # A run of a temporary server, or one without any.
                continue
            if state and state.is_final():
                ended.append((f"{state.name}: {state.message or 'the process ended without a word'}", run_id))
    with home.warehouse.writing() as warehouse:
        for message, run_id in ended:
            warehouse.execute(
                "UPDATE runs SET status = 'stopped', finished_at = now(), message = ? "
                "WHERE run_id = ? AND status = 'running'",
                [message, run_id],
            )
    return len(ended)


def _unfinished(client: SyncPrefectClient) -> list[FlowRun]:
    from prefect.client.schemas.filters import FlowRunFilter

    wanted = FlowRunFilter.model_validate(
        {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "tags": {"all_": [TAG]}}
    )
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


def _minutes(time: timedelta) -> str:
    return f"{time.total_seconds() / 60:.0f} minutes"
