"""Every deployment of deployments/prefect.yaml, served by this process: `python -m answerkey.flows.serving HOME`.

`answerkey serve` starts it beside a server. A team deploys to a work pool in its place, with `prefect deploy --all`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import yaml

from answerkey.tasks.server import SERVING
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import PROCESS, is_held

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner

_ROOT = Path(__file__).resolve().parents[1]
"""Has `deployments` and `examples`: a checkout, or the installed package."""


def main(home: Home) -> None:
    """Put the deployments and automations on the server, and start runs until this process is ended."""
    from prefect.client.orchestration import get_client
    from prefect.events import AutomationCore
    from prefect.runner import Runner

    # The automations that the server does not have. Those that notify people need a block, and are created by hand
    with get_client(sync_client=True) as client:
        for name in ("crashed", "dead-runs"):
            for content in _read_yaml(f"automations/{name}.yaml")["automations"]:
                if not client.read_automations_by_name(content["name"]):
                    client.create_automation(AutomationCore.model_validate(content))
    reschedule_dead_runs(home)
    # As `prefect.serve` does. A comparison need not wait for evaluations that use every core.
    runner = Runner(query_seconds=1, limit=1 + (os.cpu_count() or 1), pause_on_shutdown=False)
    for deployment in deployments(home):
        runner.add_deployment(deployment)
    Thread(target=_say_once_it_looks, args=[runner, home.local / SERVING], daemon=True).start()
    asyncio.run(runner.start())


def _say_once_it_looks(runner: Runner, file: Path) -> None:
    while not runner.last_polled:
        time.sleep(0.1)
    file.touch()


def deployments(home: Home) -> list[RunnerDeployment]:
    """What deployments/prefect.yaml lists, for `home`.

    Parameters and schedules of a deployment that is on the server already may have been set there, and stay.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.deployments.runner import RunnerDeployment
    from prefect.exceptions import ObjectNotFound

    listed = []
    with get_client(sync_client=True) as client:
        for entry in _read_yaml("prefect.yaml")["deployments"]:
            # As the file has it
            limit = entry.get("concurrency_limit")
            schedules = [
                DeploymentScheduleCreate(
                    slug=schedule["slug"],
                    schedule=CronSchedule(cron=schedule["cron"], timezone=schedule["timezone"]),
                    active=schedule["active"],
                    parameters=schedule.get("parameters", {}),
                )
                for schedule in entry.get("schedules", [])
            ]
            deployment = RunnerDeployment.from_entrypoint(
                entry["entrypoint"],
                entry["name"],
                description=entry["description"],
                tags=entry["tags"],
                parameters=entry["parameters"],
                schedules=schedules,
                triggers=entry.get("triggers"),
                concurrency_limit=ConcurrencyLimitConfig.model_validate(limit) if limit else None,
            )

            # As somebody has set it on the server
            with suppress(ObjectNotFound):
                on_server = client.read_deployment_by_name(deployment.full_name)
                deployment.parameters = on_server.parameters
                deployment.schedules = [
                    DeploymentScheduleCreate(**schedule.model_dump(include={*DeploymentScheduleCreate.model_fields}))
                    for schedule in on_server.schedules
                ]
            deployment.parameters["home"] = home.address
            listed.append(deployment)
    return listed


def reschedule_dead_runs(home: Home) -> None:
    """Start again, once, the runs whose process ended without a word; a second time they have crashed.

    Nothing else starts runs of these deployments, and nothing has yet since this process started: a run that says it
    works, and whose folder no process holds, is dead.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.states import AwaitingRetry, Crashed

    at_work = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}, "tags": {"all_": ["answerkey"]}}
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(at_work)):
            # A run that the command line has started is the business of the person who did.
            if run.deployment_id is None or is_held(home.scratch / str(run.id) / PROCESS):
                continue
            if run.run_count <= 1 and not (run.state and run.state.is_cancelling()):
                state: State[Any] = AwaitingRetry(
                    message="its process is gone; it goes on, once, and nothing is paid for twice"
                )
            else:
                state = Crashed(message="its process is gone")
            client.set_flow_run_state(run.id, state, force=True)


def _read_yaml(name: str) -> dict[str, Any]:
    text = (_ROOT / "deployments" / name).read_text(encoding="utf-8")
    # Paths start from the folder in which the person works.
    if Path.cwd() != _ROOT:
        text = re.sub(r"\bexamples/", f"{_ROOT}/examples/", text)
    content: dict[str, Any] = yaml.safe_load(text)
    return content


if __name__ == "__main__":
    main(Home.parse(sys.argv[1]))
