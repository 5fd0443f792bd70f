"""The files for containers: they fit each other, tools of their trade accept them, and every command in them exists.

No container is started.
"""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import yaml

from tests.flows.conftest import ROOT
from tests.kit.processes import finished

DEPLOYMENTS = ROOT / "deployments"
COMPOSE_FILE = DEPLOYMENTS / "cluster/compose.yaml"
LAKE = ("--env-file", DEPLOYMENTS / "cluster/lake.env")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
IMAGE = f"answerkey:{VERSION}"


def read(name):
    return yaml.safe_load((DEPLOYMENTS / name).read_text(encoding="utf-8"))


COMPOSE = read("cluster/compose.yaml")


def tool(name, *arguments):
    """Run a program that a package has put beside this Python."""
    program = [str(Path(sys.executable).parent / name), *map(str, arguments)]
    return finished(program, cwd=ROOT)


def services(*options):
    """What Compose itself makes of the file."""
    process = tool("docker-compose", *options, "-f", COMPOSE_FILE, "config", "--format", "json")
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)["services"]


def test_compose_takes_the_file_alone_and_with_a_lake():
    alone, lake = services(), services(*LAKE)
    assert set(alone) == {"database", "broker", "server", "services", "deploy", "worker", "pages"}
    assert set(lake) - set(alone) == {"s3"}
    assert {one["environment"]["ANSWERKEY_HOME"] for one in (alone["worker"], alone["deploy"])} == {"/data"}
    assert lake["worker"]["environment"]["ANSWERKEY_HOME"] == "s3://answerkey/home"
    waits = {name: one.get("depends_on", {}) for name, one in lake.items()}
    assert waits["deploy"].keys() == {"server", "s3"}
    assert all("healthcheck" in lake[name] for names in waits.values() for name in names)
    assert {on["condition"] for one in waits.values() for on in one.values()} == {"service_healthy"}


def test_only_this_machine_can_reach_the_ports():
    ports = [port for service in services(*LAKE).values() for port in service.get("ports", ())]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    assert {port["published"] for port in ports} == {"4200", "4201"}


def test_no_service_is_given_a_password_but_by_a_secret():
    every = services(*LAKE)
    texts = [
        f"{name}={value}" for document in every.values() for name, value in document.get("environment", {}).items()
    ]
    assert [
        text for text in texts if re.match(r".*(PASSWORD|SECRET)[^=]*=", text) and "/run/secrets/" not in text
    ] == []
    assert "postgresql+asyncpg://prefect@database/prefect" in every["server"]["environment"].values()
    assert "deployments/cluster/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_every_server_of_prefect_checks_who_asks_and_has_the_name_by_which_it_is_asked():
    files = sorted(file for file in DEPLOYMENTS.rglob("*") if file.suffix in {".yaml", ".md", ".sh", ".env"})
    assert files
    assert [file.name for file in files if re.search(r"server,? start", file.read_text(encoding="utf-8"))] == []
    command = COMPOSE["services"]["server"]["command"]
    assert command[:3] == ["python", "-m", "answerkey.flows.prefect_server"]
    assert command[command.index("--name") + 1] == "server"
    assert COMPOSE["services"]["worker"]["environment"]["PREFECT_API_URL"] == "http://server:4200/api"
    assert COMPOSE["x-prefect"]["environment"]["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"


def test_the_image_copies_what_is_there_and_what_may_go_in():
    file = DEPLOYMENTS / "docker/Dockerfile"
    process = tool("hadolint", file)
    assert (process.returncode, process.stdout) == (0, "")
    lines = file.read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in shlex.split(line)[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == set(copied)
    assert ignore.index("*") < ignore.index("deployments/cluster/secrets")
    assert (COMPOSE_FILE.parent / COMPOSE["services"]["worker"]["build"]["context"]).resolve() == ROOT
    assert ROOT / COMPOSE["services"]["worker"]["build"]["dockerfile"] == file


def check(document):
    """By the strict schema of Kubernetes: a name that it does not know is refused."""
    kubernetes_validate.validate(document, "1.37", strict=True)


def documents(name):
    text = (DEPLOYMENTS / f"kubernetes/{name}.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def test_what_is_applied_at_once_is_taken_by_the_schema_and_fits_together():
    kustomization = read("kubernetes/kustomization.yaml")
    every = [one for name in kustomization["resources"] for one in documents(name.removesuffix(".yaml"))]
    for one in every:
        check(one)
    [image] = kustomization["images"]
    assert f"{image['name']}:{image['newTag']}" == IMAGE
    of = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in every if "spec" in one}
    pages = of["Deployment", "answerkey-pages"]
    [container] = pages["template"]["spec"]["containers"]
    [port] = of["Service", "answerkey-pages"]["ports"]
    assert (container["image"], port["targetPort"]) == (IMAGE, container["ports"][0]["name"])
    labels = pages["template"]["metadata"]["labels"]
    budget = of["PodDisruptionBudget", "answerkey-pages"]
    assert budget["selector"]["matchLabels"] == of["Service", "answerkey-pages"]["selector"] == labels
    assert budget["minAvailable"] < pages["replicas"]
    server = of["Deployment", "prefect-server"]["template"]
    [container] = server["spec"]["containers"]
    [port] = of["Service", "prefect-server"]["ports"]
    assert (container["image"], port["targetPort"]) == (IMAGE, container["ports"][0]["name"])
    assert of["Service", "prefect-server"]["selector"] == server["metadata"]["labels"]
    called = read("kubernetes/worker.yaml")["worker"]["serverApiConfig"]["apiUrl"]
    assert called == f"http://{container['args'][-1]}:{port['port']}/api"
    assert documents("settings")[0]["data"]["ANSWERKEY_PAGES"].startswith("https://")
