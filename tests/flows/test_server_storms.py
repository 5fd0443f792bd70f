"""A server that is killed, and one that is slow, while there is work to do."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from answerkey.flows.cli.server import running, server_environment
from answerkey.tasks.reports.report import list_reports
from answerkey.tasks.server import NOTE
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import ROOT, command
from tests.flows.deployed_help import Deployed, worker
from tests.judge_server import JudgeServer, agreeable
from tests.kit.ports import free_port
from tests.kit.waiting import FAULT_S, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7_200)]
DELAY_S = 6.0
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


@contextmanager
def slowed(port):
    """A port on which a server on `port` takes `DELAY_S` longer to answer on each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pass_on(client):
            time.sleep(DELAY_S)
            with client, socket.create_connection(("127.0.0.1", port)) as server:
                both = [threading.Thread(target=copy, args=pair) for pair in ((client, server), (server, client))]
                for one in both:
                    one.start()
                for one in both:
                    one.join()

        def copy(source, target):
            try:
                while data := source.recv(65_536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def accept():
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=pass_on, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_thirty_releases_that_are_registered_with_a_slow_server_are_each_evaluated_once(tmp_path):
    home, port = tmp_path / "home", free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}

    def register(number):
        file = tmp_path / f"r{number:02}.csv"
        file.write_text(f"id,question,answer,reference\nq1,How many?,It is {number}.,{number}\n")
        for _ in range(3):
            done = subprocess.run(
                command("register-release", f"r{number:02}", "--dataset", "d", "--answers", file, "--home", home),
                check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=FAULT_S,
            )  # fmt: skip
            if "run again to see its result: all is kept" not in done.stderr:
                break
        assert done.returncode == 0, done.stderr

    with subprocess.Popen(
        command("serve", "--port", port, "--home", home),
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as serving:  # fmt: skip
        try:
            assert serving.stdout
            assert serving.stdout.readline().startswith("starting")
            assert serving.stdout.readline().startswith("ready: ")
            with slowed(port) as slow, ThreadPoolExecutor(6) as six:
                (home / NOTE).write_text(f"http://127.0.0.1:{slow}/api")
                for done in [six.submit(register, number) for number in range(30)]:
                    done.result()
            wanted = sorted(f"d/r{number:02}/v1" for number in range(30))
            for n in range(1, len(wanted) + 1):
                wait_until(lambda n=n: len(list_reports(Home(home))) >= n, f"report {n}")
            # Nothing is evaluated twice by what is still on its way.
            deployed = Deployed(f"http://127.0.0.1:{port}/api", home)
            busy = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}}
            busy["flow_runs"]["tags"] = {"all_": ["registered"]}
            wait_until(lambda: deployed.ask("POST", "flow_runs/count", busy) == 0, "the last run")
            assert sorted(row[0] for row in list_reports(Home(home))) == wanted
        finally:
            serving.terminate()
