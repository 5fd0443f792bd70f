"""A server with everything deployed on it, two workers, and the API as the UI uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import dies_with_its_parent
from tests.flows.conftest import ROOT, Cli
from tests.kit.prefect_api import ask_prefect
from tests.kit.processes import finished
from tests.kit.waiting import AGAIN_S, FAULT_S, wait_until

CHROMIUM = Path("/usr/bin/chromium")
Run = dict[str, Any]
PAGES = "http://127.0.0.1:9"
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


ENGINE = """
import json, sys, uuid
import prefect
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from answerkey.flows.evaluate_release import evaluate_release

for line in sys.stdin:
    asked = json.loads(line)
    with get_client(sync_client=True) as client:
        run = client.create_flow_run(evaluate_release, parameters=asked["parameters"], tags=["answerkey"]) \\
            if asked["run"] is None else client.read_flow_run(uuid.UUID(asked["run"]))
    print("engine:", json.dumps(str(run.id)), flush=True)
    try:
        found = run_flow(evaluate_release, flow_run=run, parameters=asked["parameters"])
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print("engine:", json.dumps(found), flush=True)
"""


class Engine:
    """A process that carries out runs of `evaluate-release`, as a worker starts one for each; the same run again is
    what Retry does."""

    def __init__(self, url: str, log: Path, **changes: str) -> None:
        environment = {**os.environ, "PREFECT_API_URL": url, "ANSWERKEY_JUDGE_KEY": "none", **changes}
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", ENGINE], cwd=ROOT, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out,
                preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
            )  # fmt: skip

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def start(self, parameters: Run, run_id: str | None = None) -> str:
        """Start a run, or one again; returns its id."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"run": run_id, "parameters": parameters}) + "\n")
        self.process.stdin.flush()
        return str(self.result())

    def result(self) -> Any:
        """What the run has returned, or its error as text."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("engine: "):
                return json.loads(line.removeprefix("engine: "))
        raise EOFError


class Deployed:
    """The server's API, the home that the deployments use, and their ids by name."""

    def __init__(self, url: str, home: Path | str, bare_cli: Cli | None = None) -> None:
        self.url, self.home, self._bare_cli = url, home, bare_cli

    def deploy(self) -> None:
        """Deploy as a team does."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        named = {"PATH": path, "PREFECT_API_URL": self.url, "ANSWERKEY_HOME": str(self.home)}
        done = finished(["sh", "deployments/deploy.sh"], cwd=ROOT, env={**os.environ, **named})  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request; None where the answer has no content."""
        return ask_prefect(self.url, method, path, body)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the warehouse, which runs at work are waited for."""
        with Home(self.home).warehouse.reading() as warehouse:
            return warehouse.execute(sql).fetchall()

    def deployment(self, name: str) -> Run:
        [found] = self.ask("POST", "deployments/filter", {"deployments": {"name": {"any_": [name]}}})
        return dict(found)

    def start(self, name: str, parameters: Run) -> str:
        """Create a run as the form does, and return its id."""
        body = {"parameters": parameters, "enforce_parameter_schema": True, "state": {"type": "SCHEDULED"}}
        return str(self.ask("POST", f"deployments/{self.deployment(name)['id']}/create_flow_run", body)["id"])

    def run(self, run_id: str) -> Run:
        return dict(self.ask("GET", f"flow_runs/{run_id}"))

    def runs_of(self, name: str) -> list[Run]:
        """The runs of a deployment that were meant to start by now, oldest first."""
        wanted = {"deployment_id": {"any_": [self.deployment(name)["id"]]}}
        found = self.ask("POST", "flow_runs/filter", {"flow_runs": wanted, "sort": "EXPECTED_START_TIME_ASC"})
        return [run for run in found if run["state_name"] != "Scheduled" or not run["auto_scheduled"]]

    def evaluations_of(self, release: str) -> list[Run]:
        """The runs of `evaluate` for a registered release."""
        [(name,)] = self.query(f"SELECT registration FROM registered WHERE release = '{release}'")
        return [
            run for run in self.runs_of("evaluate") if run["parameters"]["data"] == {"answers": f"registered:{name}"}
        ]

    def retry(self, run_id: str) -> None:
        """As the button in the UI does, but for the worker."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        self.ask("POST", f"flow_runs/{run_id}/set_state", {"state": state, "force": True})

    def wait(self, run_id: str) -> Run:
        """The run once it has ended."""
        return wait_until(lambda: found if (found := self.run(run_id))["state_type"] in FINAL else None, run_id)

    def messages(self, run_id: str) -> list[str]:
        """What the log of an ended run says, in order. Its last lines come after its state; a crash cuts them off."""
        of_run = {"logs": {"flow_run_id": {"any_": [run_id]}}, "sort": "TIMESTAMP_ASC"}

        def all_of_them() -> list[str] | None:
            lines = [line["message"] for line in self.ask("POST", "logs/filter", of_run)]
            whole = any(line.startswith("Finished in state ") for line in lines)
            return lines if whole or self.run(run_id)["state_type"] == "CRASHED" else None

        return wait_until(all_of_them, "the whole log")

    def story(self, run_id: str) -> str:
        """The state of a run that has ended, and its log: what a test that failed has to say of it."""
        return "\n".join([str(self.run(run_id)["state"]), *self.messages(run_id)])

    def task_runs(self, run_id: str, last: str = "announce") -> list[Run]:
        """The task runs of an evaluation. The server learns of them by events, of the last one at last."""

        def all_of_them() -> list[Run] | None:
            found = self.ask("POST", "task_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
            return list(found) if last in {one["name"] for one in found} else None

        return wait_until(all_of_them, "the task runs")

    def edges(self, run_id: str, last: str = "announce") -> set[tuple[str, str]]:
        """The edges of the graph of an evaluation, by the names of its task runs."""
        tasks = self.task_runs(run_id, last)
        names = {one["id"]: one["name"] for one in tasks}
        return {
            (names[before["id"]], one["name"])
            for one in tasks
            for inputs in one["task_inputs"].values()
            for before in inputs
            if before["input_type"] == "task_run"
        }

    def artifacts(self, run_id: str) -> dict[str, Run]:
        found = self.ask("POST", "artifacts/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
        return {artifact["key"]: artifact for artifact in found}

    def cli(self, *arguments: object, server: bool = True) -> str:
        """The command line on the same home."""
        assert self._bare_cli
        on = {"PREFECT_API_URL": self.url} if server else {}
        done = self._bare_cli(*arguments, "--home", self.home, **on)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def said_by_prefect(runs, ask):
    """What the server's API says of the runs."""
    of_runs = {"flow_runs": {"id": {"any_": runs}}}
    events = {"filter": {"related": {"id": [f"prefect.flow-run.{run}" for run in runs]}}, "limit": 50}
    return {
        "flow runs": json.dumps(ask("flow_runs/filter", of_runs)),
        "task runs": json.dumps(ask("task_runs/filter", of_runs)),
        "artifacts": json.dumps(ask("artifacts/filter", of_runs)),
        "logs": json.dumps(ask("logs/filter", {"logs": {"flow_run_id": {"any_": runs}}})),
        "events": json.dumps(ask("events/filter", events)["events"]),
    }


def neverspoken(texts, *folders):
    """Assert that no secret is in texts or files, of which the names are returned; every secret has this word."""
    assert all(texts.values())
    assert [place for place, text in texts.items() if "neverspoken" in text] == []
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if b"neverspoken" in path.read_bytes()] == []
    return {path.name for path in files}


def within(found, seconds):
    """Poll `found` until it returns something true; None if it does not in time, and is to be tried again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.5)
    return None


@contextmanager
def worker(url, name, log, inside=list, **changes):
    """A process worker. It and what it started are gone afterwards.

    `inside` makes of the command one that runs it somewhere else; `changes` are of its environment.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PREFECT_API_URL": url, "PREFECT_WORKER_QUERY_SECONDS": "2", "PYTHONPATH": path}
    environment |= {"ANSWERKEY_PAGES": PAGES, **changes}
    arguments = ["worker", "start", "--pool", "answerkey", "--type", "process", "--name", name]
    with log.open("w") as out:
        process = subprocess.Popen(
            inside([sys.executable, "-m", "prefect", *arguments]),
            cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
        )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def in_a_browser():
    """A page of Chromium that waits for what it is asked for: pages of a busy server come late."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1400})
        page.set_default_timeout(1_000 * FAULT_S)
        yield page
        browser.close()


def field(page, title, kind="textarea"):
    """A field of the form of a run, by its title."""
    label = f"//span[contains(@class, 'schema-form-property__label') and normalize-space() = '{title}']"
    return page.locator(f"xpath={label}/ancestor::label[1]/following::{kind}[1]")


def submitted(page, deployed, before):
    """Press Submit as people do: again, where the form was still being redrawn and nothing came of it."""
    button = page.get_by_role("button", name="Submit")
    # The form is left once its run was made.
    if button.is_visible():
        button.click()
    return within(lambda: deployed.runs_of("evaluate")[before:], AGAIN_S)
