"""`answerkey serve` as its users start and stop it: one command, any port, a home of its own, nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster_servers import free_ports
from tests.flows.conftest import ROOT, command
from tests.flows.deployed_help import until


def two_free_ports():
    """The first of two that follow each other: the server's, and that of the pages."""
    while True:
        [port] = free_ports(1)
        with suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("serve") / "home"


@pytest.fixture(scope="module")
def port():
    return two_free_ports()


@pytest.fixture(scope="module")
def served(home, port):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    with subprocess.Popen(
        command("serve", "--port", port, "--home", home),
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        yield process
        # Not by force, which would leave its children.
        process.terminate()


def _get(address):
    with urllib.request.urlopen(address, timeout=100) as reply:
        return str(reply.read().decode())


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_it_serves_on_any_port_and_leaves_nothing_behind(served, home, port):
    assert served.stdout
    lines = [served.stdout.readline(), served.stdout.readline()]
    assert lines[0].startswith("starting a Prefect server for one person or a few (a team gives --database) on port ")
    assert lines[1] == f"ready: http://127.0.0.1:{port}  (home {home}; Ctrl-C stops it)\n", lines
    settings = json.loads(_get(f"http://127.0.0.1:{port}/ui-settings"))
    assert settings["api_url"] == "/api"
    assert settings["default_ui"] == "v1"
    assert "<html" in _get(f"http://127.0.0.1:{port}/").lower()
    # A page of another origin may not send JSON: a browser asks first, and is refused.
    asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "content-type"
    preflight = urllib.request.Request(f"http://127.0.0.1:{port}/api/flow_runs/", headers=asked, method="OPTIONS")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(preflight, timeout=100)
    assert "<h1>0 data sets</h1>" in _get(f"http://127.0.0.1:{port + 1}/")
    assert (home / "prefect/prefect.db").is_file()
    # A second one on the same home would take the first one's database.
    again = subprocess.run(
        command("serve", "--port", two_free_ports(), "--home", home),
        check=False, cwd=ROOT, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert again.returncode == 2
    assert f"{home}: another `answerkey serve` uses this home; stop it, or give --home" in again.stderr
    taken = subprocess.run(
        command("serve", "--port", port, "--home", home.parent / "other"),
        check=False, cwd=ROOT, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert taken.returncode == 2
    assert f"--port {port}: not available" in taken.stderr
    children = _children(served.pid)
    assert len(children) == 3
    served.send_signal(signal.SIGINT)
    assert served.wait(250) == 0
    assert served.stdout.read() == "stopped; reports, runs and schedules are kept\n"
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 100, "the children")
