"""A server that is killed, and one that is slow, while there is work to do."""

import json
import os
import signal

import pytest

from answerkey.flows.cli.server import running, server_environment
from answerkey.tasks.warehouse.home import Home
from tests.flows.deployed_help import Deployed, worker
from tests.judge_server import JudgeServer, agreeable
from tests.kit.ports import free_port
from tests.kit.waiting import FAULT_S, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7_200)]
LEASE_S = 225.0
"""After which Prefect renews the lease of a run's concurrency limit for the first time."""


def _healthy(deployed):
    try:
        return deployed.ask("GET", "health")
    except OSError:
        return None


def test_a_run_that_outlasts_its_lease_completes_though_the_server_was_killed(bare_cli, tmp_path):
    home, port = Home(tmp_path / "home"), free_port()
    (tmp_path / "home/prefect").mkdir(parents=True)
    environment = server_environment(home, port)
    start = ["-m", "answerkey.flows.prefect_server", "--port", str(port)]
    rows = tmp_path / "one.jsonl"
    rows.write_text(json.dumps({"id": "q1", "question": "Capital?", "answer": "It is Paris.", "reference": "Paris"}))
    deployed = Deployed(f"http://127.0.0.1:{port}/api", tmp_path / "home", bare_cli)
    # The judge answers once the lease has had to be renewed.
    late = JudgeServer(agreeable, latency=LEASE_S + 30)
    with late as judge, running(start, environment, tmp_path / "server.log") as first:
        wait_until(lambda: _healthy(deployed), "the server")
        bare_cli("deploy", "--reset", "all", "--home", home, PREFECT_API_URL=deployed.url, code=0)
        # A limit that somebody has set on the deployment, for which Prefect takes a lease.
        found = deployed.deployment("evaluate")["id"]
        deployed.ask("PATCH", f"deployments/{found}", {"concurrency_limit": 1})
        changes = {"PREFECT_HOME": environment["PREFECT_HOME"], "ANSWERKEY_JUDGE_KEY": "none"}
        with worker(deployed.url, "one", tmp_path / "worker.log", **changes):
            run = deployed.start(
                "evaluate",
                {
                    "data": {"answers": str(rows), "release": "a"},
                    "scoring": {"metrics": ["meaning_match"]},
                    "judging": {
                        "judges": [f"openai/m@{judge.url}"], "timeout_s": FAULT_S, "deadline_s": FAULT_S,
                    },
                    "home": str(tmp_path / "home"), "page": False,
                },
            )  # fmt: skip
            wait_until(lambda: deployed.run(run)["state_type"] == "RUNNING", "the run")
            wait_until(lambda: judge.n_requests, "the question to the judge")
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
            with running(start, environment, tmp_path / "server-2.log"):
                wait_until(lambda: _healthy(deployed), "the server again")
                ended = deployed.wait(run)
    assert (ended["state_type"], ended["state_name"]) == ("COMPLETED", "Completed"), ended["state"]
