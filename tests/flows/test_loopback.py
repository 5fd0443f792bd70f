"""A network namespace without a network: the temporary server's loopback interface is down there at first."""

import socket
import subprocess
import sys

import pytest

from answerkey.flows.cli.run import wake_loopback
from tests.flows.conftest import ROOT

REACHED = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 9)))"
WOKEN = f"from answerkey.flows.cli.run import wake_loopback; wake_loopback(); {REACHED}"
NOT_ALLOWED = (
    "import os, socket\n"
    "from answerkey.flows.cli.run import wake_loopback\n"
    "os.setuid(65534)\n"
    "try:\n    wake_loopback()\nexcept Exception as error:\n    print(error)"
)


def alone(code: str) -> str:
    """What `code` prints in a network namespace of its own."""
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if "unshare failed" in done.stderr:
        pytest.skip("this user may not make a network namespace")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_woken_where_it_is_down() -> None:
    unreachable, refused = "101", "111"
    assert (alone(REACHED), alone(WOKEN)) == (unreachable, refused)


def test_who_may_not_is_told_what_to_run() -> None:
    assert alone(NOT_ALLOWED) == (
        "the loopback interface is down, and Prefect's temporary server needs it: run `ip link set lo up`"
    )


def test_one_that_is_up_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.ioctl", lambda *_: pytest.fail("changed"))
    wake_loopback()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] > 0
