"""Bring a Prefect server up to date with the folder deployments/: work pool, deployments, automations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.releases.register import pending
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

POOL = "answerkey"
PoolKind = Literal["process", "docker", "kubernetes"]

_ROOT = Path(__file__).resolve().parents[2]
"""Has `flows`, `deployments` and `examples`: a checkout, or the installed package."""

_IS_CHECKOUT = (_ROOT / "pyproject.toml").is_file()

_NOTIFY = "00000000-0000-0000-0000-000000000000"
"""Stands in deployments/automations for the block that notifies people."""
_AT_ONCE = 50
"""Registered releases that one run evaluates."""
_EVALUATE_NEW = "00000000-0000-0000-0000-000000000001"
"""Stands there for the deployment evaluate-new."""


def project_folder() -> Path:
    """Where runs work, and what paths in their parameters start from: the checkout, or for an installed package the
    current folder, which is the user's own project."""
    return _ROOT if _IS_CHECKOUT else Path.cwd()


ALL = "all"
"""For `--reset`: every deployment and automation."""


def check_reset(names: Collection[str]) -> None:
    """Raise UserError for the name of something that is not deployed from deployments/."""
    automations = [content for file in _automation_files() for content in _read(file)["automations"]]
    known = [ALL, *(str(content["name"]) for content in [*_read("prefect.yaml")["deployments"], *automations])]
    for name in names:
        if name not in known:
            raise UserError(f"--reset {name}: nothing of that name is deployed; choose from {'; '.join(known)}")


def _is_kept(name: str, reset: Collection[str]) -> bool:
    return name not in reset and ALL not in reset


def _automation_files() -> list[str]:
    return [f"automations/{file.name}" for file in sorted((_ROOT / "deployments" / "automations").glob("*.yaml"))]


def deploy_all(home: Home, environment: Mapping[str, str], pool: str = POOL, reset: Collection[str] = ()) -> list[str]:
    """Create each deployment of deployments/prefect.yaml, for the work pool `pool` and the home `home`.

    One that exists gets the entry point, the form and the version of this installation. All else may have been set on
    the server, and stays, unless `reset` names the deployment.

    Returns:
        The names of the deployments that stayed as they are on the server.

    Raises:
        UserError: Prefect refused; its words are in the message.
    """
    from prefect.client.orchestration import get_client

    content = _read("prefect.yaml")
    with get_client(sync_client=True) as client:
        on_server, kept = _deployments(client), []
        for index, deployment in enumerate(content["deployments"]):
            wanted = _completed(deployment, home, pool)
            present = on_server.get(_function(wanted))
            if present and _is_kept(wanted["name"], reset):
                kept.append(str(wanted["name"]))
                wanted = _as_on_server(wanted, present)
            content["deployments"][index] = wanted
    _prefect_deploy(content, environment)
    return kept


def _as_on_server(deployment: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """A deployment of prefect.yaml with its settings on the server, where `prefect deploy` leaves its schedules."""
    limit, options = present["global_concurrency_limit"], present["concurrency_options"]
    number = limit["limit"] if limit else None
    return {
        "name": deployment["name"],
        "entrypoint": deployment["entrypoint"],
        **{key: present[key] for key in ("description", "tags", "paused", "parameters")},
        # A limit that was set in a browser may have no strategy, which Prefect takes for no value of it.
        "concurrency_limit": {"limit": number, **options} if number and options else number,
        "work_pool": {
            "name": present["work_pool_name"],
            "work_queue_name": present["work_queue_name"],
            "job_variables": present["job_variables"],
        },
    }


def _completed(deployment: dict[str, Any], home: Home, pool: str) -> dict[str, Any]:
    entrypoint = deployment["entrypoint"]
    if not _IS_CHECKOUT:
        # Files there would be loaded beside packages of the user's own that are called `flows` and `tasks` too.
        module, function = entrypoint.split(".py:")
        entrypoint = f"answerkey.{module.replace('/', '.')}.{function}"
    return {
        # A reset takes away a limit that was set in a browser.
        "concurrency_limit": None,
        **deployment,
        "parameters": {**deployment["parameters"], "home": home.address},
        "work_pool": {**deployment["work_pool"], "name": pool},
        "entrypoint": entrypoint,
    }


def _deployments(client: SyncPrefectClient) -> dict[tuple[str, str], dict[str, Any]]:
    """What the server has under the names of ours, by name and function: others may have such names too."""
    names = [one["name"] for one in _read("prefect.yaml")["deployments"]]
    reply = client.request("POST", "/deployments/filter", json={"deployments": {"name": {"any_": names}}})
    return {_function(one): one for one in reply.json()}


def _function(deployment: Mapping[str, Any]) -> tuple[str, str]:
    return deployment["name"], re.split(r"[:.]", deployment["entrypoint"] or "")[-1]


def _prefect_deploy(content: dict[str, Any], environment: Mapping[str, str]) -> None:
    import yaml

    folder = project_folder()
    path = os.pathsep.join(filter(None, (str(folder), environment.get("PYTHONPATH"))))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(content, file, sort_keys=False)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", file.name],
            check=False, cwd=folder, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise UserError(f"Prefect refused the deployments:\n{(done.stdout + done.stderr).strip()[-2000:]}")


def make_pool(kind: PoolKind = "process") -> str:
    """Make the work pool, or bring one that is described in deployments/ up to date; return its name.

    Where runs share a machine, its queue `default`, if it has no limit, gets one of a run at a time.

    Args:
        kind: process, for runs on the worker's machine, or docker or kubernetes, for one container per run.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists

    wanted = {"name": POOL, "type": kind} if kind == "process" else _read(f"{kind}/pool.yaml")
    pool = WorkPoolCreate.model_validate(wanted)
    with get_client(sync_client=True) as client:
        try:
            client.create_work_pool(pool)
        except ObjectAlreadyExists:
            if template := wanted.get("base_job_template"):
                client.update_work_pool(pool.name, WorkPoolUpdate(base_job_template=template))
        queue = client.read_work_queue_by_name("default", pool.name)
        if kind != "kubernetes" and queue.concurrency_limit is None:
            client.update_work_queue(queue.id, concurrency_limit=1)
    return pool.name


def make_automations(notify: str = "", reset: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Create the automations of deployments/automations. One that exists stays as it is, unless `reset` names it.

    Args:
        notify: TYPE/NAME of the Prefect block that sends notifications. Empty: automations that need one are left out.

    Returns:
        The names of all, and of those that stayed as they are on the server.

    Raises:
        UserError: there is no such block.
    """
    from prefect.client.orchestration import get_client

    made, kept = [], []
    with get_client(sync_client=True) as client:
        deployments = {name: one["id"] for (name, _), one in _deployments(client).items()}
        ids = {_NOTIFY: str(_block(client, notify)) if notify else None, _EVALUATE_NEW: deployments["evaluate-new"]}
        for file in _automation_files():
            for content in _read(file)["automations"]:
                if not _with_ids(content["actions"], ids):
                    continue
                name = str(content["name"])
                made.append(name)
                if not _put(client, content, reset):
                    kept.append(name)
    return made, kept


class PendingReleases:
    """The registered releases that wait though no run has been started for them: of events that the server missed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._waited: set[str] = set()
        """Those that waited at the last look: the event of a new one may be on its way."""
        self._started: set[str] = set()
        """Those for which a run was started. One that failed is tried again when somebody asks for it."""

    def start(self) -> None:
        """Start `evaluate-new` for those that have waited since the last look, unless such a run is at work already."""
        from prefect.client.orchestration import get_client
        from prefect.deployments import run_deployment

        names = {one.registration for one in pending(self._home, limit=_AT_ONCE) if not one.attempts}
        waiting, self._waited = names & self._waited - self._started, names
        if not waiting:
            return
        with get_client(sync_client=True) as client:
            [one] = [one for (name, _), one in _deployments(client).items() if name == "evaluate-new"]
            at_work = {
                "deployments": {"id": {"any_": [one["id"]]}},
                "flow_runs": {
                    "state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"]}},
                    "expected_start_time": {"before_": datetime.now(UTC).isoformat()},
                },
            }
            if client.request("POST", "/flow_runs/count", json=at_work).json():
                return
            parameters = {"waiting": {"release": "", "at_most": _AT_ONCE, "retry_failed": False}}
            run_deployment(UUID(one["id"]), parameters=parameters, timeout=0, as_subflow=False)
            self._started |= waiting


def _with_ids(actions: list[dict[str, Any]], ids: Mapping[str, str | None]) -> bool:
    """Put the ids of the server into actions; false where there is none for one of them."""
    for action in actions:
        for key in ("block_document_id", "deployment_id"):
            if key in action:
                action[key] = ids[action[key]]
                if action[key] is None:
                    return False
    return True


def _read(name: str) -> dict[str, Any]:
    import yaml

    text = (_ROOT / "deployments" / name).read_text(encoding="utf-8")
    if not _IS_CHECKOUT:
        text = re.sub(r"\bexamples/", f"{_ROOT}/examples/", text)
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def _block(client: SyncPrefectClient, name: str) -> UUID:
    from prefect.exceptions import ObjectNotFound

    kind, _, own = name.partition("/")
    try:
        return client.read_block_document_by_name(own, kind, include_secrets=False).id
    except (ObjectNotFound, ValueError) as error:
        raise UserError(f"--notify {name}: no such block in Prefect; give the TYPE/NAME of an existing one") from error


def _put(client: SyncPrefectClient, content: Mapping[str, Any], reset: Collection[str]) -> bool:
    """Create an automation, or replace one that is to be reset; False where it stays as it is."""
    same_name = {"automations": {"name": {"any_": [content["name"]]}}}
    present = client.request("POST", "/automations/filter", json=same_name).json()
    if not present:
        client.request("POST", "/automations/", json=content)
    elif _is_kept(content["name"], reset):
        return False
    else:
        client.request("PUT", "/automations/{id}", path_params={"id": present[0]["id"]}, json=content)
    return True
