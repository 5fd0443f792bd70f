"""Bring a Prefect server up to date with the folder deployments/: work pool, deployments, automations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.maintenance import TAG
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient

POOL = "answerkey"
PoolKind = Literal["process", "docker", "kubernetes"]

_ROOT = Path(__file__).resolve().parents[2]
"""Has `flows`, `deployments` and `examples`: a checkout, or the installed package."""

_IS_CHECKOUT = (_ROOT / "pyproject.toml").is_file()

_NOTIFY = "00000000-0000-0000-0000-000000000000"
"""Stands in deployments/automations for the block that notifies people."""


def project_folder() -> Path:
    """Where runs work, and what paths in their parameters start from: the checkout, or for an installed package the
    current folder, which is the user's own project."""
    return _ROOT if _IS_CHECKOUT else Path.cwd()


def deploy_all(home: Home, environment: Mapping[str, str], pool: str = POOL) -> None:
    """Make every deployment of deployments/prefect.yaml, for the work pool `pool` and with `home` as its default home.

    Schedules that the server already has stay switched on or off.

    Raises:
        UserError: Prefect refused; its words are in the message.
    """
    import yaml

    content = _read("prefect.yaml")
    switches = _switches()
    for deployment in content["deployments"]:
        for schedule in deployment.get("schedules", ()):
            schedule["active"] = switches.get((deployment["name"], schedule["slug"]), schedule["active"])
        deployment["parameters"] = {**deployment.get("parameters", {}), "home": home.address}
        deployment["work_pool"] = {**deployment["work_pool"], "name": pool}
        if not _IS_CHECKOUT:
            # Files there would be loaded beside packages of the user's own that are called `flows` and `tasks` too.
            module, function = deployment["entrypoint"].split(".py:")
            deployment["entrypoint"] = f"answerkey.{module.replace('/', '.')}.{function}"
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
    return pool.name


def make_automations(notify: str = "") -> list[str]:
    """Make the automations of deployments/automations, or bring those of the same name up to date.

    Args:
        notify: TYPE/NAME of the Prefect block that sends notifications. Empty: automations that need one are left out.

    Returns:
        The names of those that are there now.

    Raises:
        UserError: there is no such block.
    """
    from prefect.client.orchestration import get_client

    made = []
    with get_client(sync_client=True) as client:
        block = _block(client, notify) if notify else None
        for file in sorted((_ROOT / "deployments" / "automations").glob("*.yaml")):
            for content in _read(f"automations/{file.name}")["automations"]:
                needs_block = any(action.get("block_document_id") == _NOTIFY for action in content["actions"])
                if needs_block and block is None:
                    continue
                for action in content["actions"] if needs_block else []:
                    action["block_document_id"] = str(block)
                _put(client, content)
                made.append(str(content["name"]))
    return made


def _read(name: str) -> dict[str, Any]:
    import yaml

    text = (_ROOT / "deployments" / name).read_text(encoding="utf-8")
    if not _IS_CHECKOUT:
        text = re.sub(r"\bexamples/", f"{_ROOT}/examples/", text)
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def _switches() -> dict[tuple[str, str], bool]:
    """Which schedules are switched on, by the names of the deployment and of the schedule."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        ours = {"deployments": {"tags": {"all_": [TAG]}}}
        deployments = client.request("POST", "/deployments/filter", json=ours).json()
    return {(one["name"], schedule["slug"]): schedule["active"] for one in deployments for schedule in one["schedules"]}


def _block(client: SyncPrefectClient, name: str) -> UUID:
    from prefect.exceptions import ObjectNotFound

    kind, _, own = name.partition("/")
    try:
        return client.read_block_document_by_name(own, kind, include_secrets=False).id
    except (ObjectNotFound, ValueError) as error:
        raise UserError(f"--notify {name}: no such block in Prefect; give the TYPE/NAME of an existing one") from error


def _put(client: SyncPrefectClient, content: dict[str, Any]) -> None:
    wanted = {"automations": {"name": {"any_": [content["name"]]}}}
    found = client.request("POST", "/automations/filter", json=wanted).json()
    if found:
        client.request("PUT", "/automations/{id}", path_params={"id": found[0]["id"]}, json=content)
    else:
        client.request("POST", "/automations/", json=content)
