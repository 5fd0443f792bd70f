"""The files for containers fit each other, the work pool's template is whole, and every command in them exists."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from answerkey.flows.cli.main import make_app
from tests.flows.conftest import ROOT

FOLDER = ROOT / "deployments/docker"


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return content


COMPOSE, POOL = _read("compose.yaml"), _read("pool.yaml")


def test_the_pool_finds_the_image_the_network_and_the_home_of_compose() -> None:
    defaults = {name: field.get("default") for name, field in _variables().items()}
    assert defaults["image"] == COMPOSE["services"]["worker"]["image"]
    assert defaults["networks"] == [COMPOSE["networks"]["answerkey"]["name"]]
    assert defaults["volumes"] == [f"{COMPOSE['volumes']['home']['name']}:/data"]
    assert COMPOSE["services"]["worker"]["volumes"] == ["home:/data"]


def test_the_template_takes_each_of_its_variables_once() -> None:
    configuration = POOL["base_job_template"]["job_configuration"]
    assert configuration == {name: f"{{{{ {name} }}}}" for name in _variables()}


def test_every_service_waits_for_one_that_can_be_healthy() -> None:
    services = COMPOSE["services"]
    waits = {name: list(one.get("depends_on", ())) for name, one in services.items()}
    assert waits["server"] == ["database"]
    assert waits["worker"] == waits["deploy"] == waits["docker-worker"] == ["server"]
    assert all("healthcheck" in services[name] for names in waits.values() for name in names)
    # Only this machine can reach what asks nobody for a password.
    assert all(port.startswith("127.0.0.1:") for one in services.values() for port in one.get("ports", ()))


@pytest.mark.parametrize("pool", ["process", "docker"])
def test_the_commands_of_the_services_are_ours(pool: str) -> None:
    commands = [one["command"] for one in COMPOSE["services"].values() if "command" in one]
    ours = [command[1:] for command in commands if command[0] == "answerkey"]
    words = [[re.sub(r"\$\{ANSWERKEY_POOL:-process\}", pool, word) for word in one] for one in ours]
    calls = [make_app().parse_args(one)[:2] for one in words]
    assert [(function.__name__, bound.arguments["pool"]) for function, bound in calls] == [("deploy", pool)]


def test_the_image_copies_what_is_there() -> None:
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in shlex.split(line)[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"answerkey", "flows", "tasks", "metrics_core", "deployments", "examples"} <= set(copied)
    assert (FOLDER / COMPOSE["services"]["worker"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / Path(COMPOSE["services"]["worker"]["build"]["dockerfile"])).is_file()


def _variables() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = POOL["base_job_template"]["variables"]["properties"]
    return found
