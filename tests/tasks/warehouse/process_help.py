"""Another process that works with the home of a test."""

import os
import signal
import subprocess
import sys

from tests.kit.waiting import FAULT_S

RUN = "INSERT INTO runs VALUES (?, 'flow', 'data', now(), NULL, 'running', NULL, '{}')"
RUNS = "SELECT run_id FROM runs ORDER BY run_id"
HEAD = f"""
import sys, duckdb
from answerkey.tasks.warehouse.home import Home
home, RUN = Home.parse(sys.argv[1]), {RUN!r}
folder = home.local
def wait():
    print('ready', flush=True)
    sys.stdin.readline()
"""


def write(home, name):
    """Commit a run of this name."""
    with home.warehouse.writing() as warehouse:
        warehouse.execute(RUN, [name])


class Other:
    """A process that runs a script with `home`, says "ready" where that waits, and goes on when it gets a line."""

    def __init__(self, script, home):
        command = [sys.executable, "-c", HEAD + script, str(home)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def go_on(self):
        self.process.communicate("\n", timeout=FAULT_S)
        assert self.process.returncode == 0

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=FAULT_S)
        assert self.process.returncode == -signal.SIGKILL
