"""Start a run for each registered release that waits for a report or a verdict: by a schedule, or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.flows.prefect_or_local import flow
from answerkey.flows.runs import completed
from answerkey.tasks.releases.register import Registration, never_gated, pending
from answerkey.tasks.warehouse.home import Home


@flow(
    name="evaluate-new",
    description="Start a run for each registered release that has no report, or no verdict by the gate that is kept.",
)
def evaluate_new(home: str = ".answerkey") -> list[str]:
    """Start the runs, and return what each is about: a release, or a report that lacks its verdict.

    Starting it twice starts nothing twice. A run that has failed is not repeated: *Retry* on its page does that.

    Args:
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
    """
    parsed_home = Home.parse(home)
    waiting = _without_run(pending(parsed_home))
    for registration in waiting:
        parameters = {"data": {"answers": registration.address}, "home": home}
        _start("evaluate-release/evaluate", parameters, f"{registration.address} at {registration.registered_at}")

    # The gate of a data set may be kept after its newest release was evaluated
    undecided = never_gated(parsed_home)
    for report_id, baseline, policy, gate_time in undecided:
        parameters = {"comparing": {"old": baseline, "new": report_id}, "policy": policy, "home": home}
        _start("compare-releases/compare", parameters, f"{report_id} by the gate of {gate_time}")

    started = [registration.name for registration in waiting] + [report_id for report_id, *_ in undecided]
    if not started:
        return completed(started, "nothing new: every registered release has a report, or a run")
    return completed(started, f"started {len(started)}: {', '.join(started)}")


def _without_run(waiting: list[Registration]) -> list[Registration]:
    """Leave out what an event has started a run for: an automation starts it without our idempotency key."""
    if not waiting:
        return []
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter
    from prefect.client.schemas.sorting import FlowRunSort

    evaluate = DeploymentFilter.model_validate({"name": {"any_": ["evaluate"]}})
    with get_client(sync_client=True) as client:
        newest = client.read_flow_runs(deployment_filter=evaluate, sort=FlowRunSort.EXPECTED_START_TIME_DESC)
    # What was forgotten and registered again has the same address, and an older run
    started = {}
    for run in reversed(newest):
        started[run.parameters.get("data", {}).get("answers")] = str(run.expected_start_time).replace("T", " ")
    return [
        registration for registration in waiting if started.get(registration.address, "") < registration.registered_at
    ]


def _start(deployment: str, parameters: Mapping[str, Any], key: str) -> None:
    from prefect.deployments import run_deployment

    run_deployment(deployment, parameters=dict(parameters), idempotency_key=key, timeout=0, as_subflow=False)
