"""`answerkey serve`: it starts again what dies, and ends whenever it is told to."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from answerkey.flows.cli import server
from tests.flows.conftest import MIGRATED_DATABASE, ROOT
from tests.flows.deployed_help import Deployed
from tests.judge_server import JudgeServer, agreeable
from tests.kit.ports import two_free_ports
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.comparing_help import answer
from tests.tasks.staging_help import jsonl

SWALLOWING = """
import signal, sys

set_handler = signal.signal

def swallowing(number, handler):
    def call(*given):
        try:
            handler(*given)
        except Exception:
            pass
    return set_handler(number, call if callable(handler) else handler)

signal.signal = swallowing
from answerkey.flows.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command line in a process where an exception from the handler of a signal reaches nobody, as within an import."""

MARK = "MARK_OF_THE_TEST"
STOPPED = "stopped; reports, runs and schedules are kept"
READY = "ready: "


class Serving:
    """`answerkey serve` as a process, and what it has started."""

    def __init__(self, home: Path, *program: str, port: int = 0) -> None:
        self.home, self.port, self._mark = home, port or two_free_ports(), uuid.uuid4().hex
        if MIGRATED_DATABASE.exists() and not home.exists():
            (home / "prefect").mkdir(parents=True)
            shutil.copy(MIGRATED_DATABASE, home / "prefect/prefect.db")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        self.process = subprocess.Popen(
            [sys.executable, *program, "serve", "--port", str(self.port), "--home", str(home)],
            cwd=ROOT, env={**environment, MARK: self._mark, "ANSWERKEY_JUDGE_KEY": "none"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def alive(self) -> list[int]:
        """The processes that it has started and that have not ended, wherever they belong now, without itself."""
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"{MARK}={self._mark}".encode() in environment.read_bytes():
                    found.append(int(environment.parent.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return [pid for pid in found if pid != self.process.pid]

    def kill(self, module: str) -> None:
        """Kill by force what runs a module: of runs, that may be one of a schedule too."""
        for pid in self.alive():
            if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def line(self, beginning: str) -> str:
        """Wait for a line of its output that begins so."""
        assert self.process.stdout
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if line.startswith(beginning):
                return line.rstrip("\n")
        raise AssertionError(f"no line {beginning!r} in {seen}")

    def answers(self, port: int) -> bool:
        """Whether something listens there."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def ended_by(self, number: int) -> tuple[int, str]:
        """Its exit code and its last line after a signal."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=FAULT_S)
        return self.process.returncode, said.splitlines()[-1] if said else ""


@contextmanager
def serving(home, *program, port=0):
    started = Serving(home, *(program or ("-m", "answerkey.flows.cli")), port=port)
    try:
        yield started
    finally:
        # Where it has not ended by itself, a test has failed already.
        for pid in (*started.alive(), started.process.pid):
            if pid != started.process.pid or started.process.poll() is None:
                os.kill(pid, signal.SIGKILL)
        started.process.wait()
        assert started.process.stdout
        started.process.stdout.close()


# ----- It ends


@pytest.mark.real
@pytest.mark.parametrize(
    ("moment", "number"),
    [("the server starts", signal.SIGTERM), ("it deploys", signal.SIGINT), ("the worker starts", signal.SIGTERM)],
)
def test_it_ends_with_its_children_whenever_it_is_told_to_while_it_starts(moment, number, tmp_path):
    with serving(tmp_path / "home", "-c", SWALLOWING) as served:
        served.line("starting a Prefect server")
        if moment == "it deploys":
            wait_until(lambda: served.answers(served.port) or served.process.poll(), "the server")
        if moment == "the worker starts":
            wait_until(lambda: served.answers(served.port + 1) or served.process.poll(), "the pages")
        wait_until(served.alive, "a child")

        code, last = served.ended_by(number)

        assert code == 0
        assert last == STOPPED
        assert served.alive() == []
        assert not served.answers(served.port)


@pytest.mark.parametrize("hangup", [signal.SIG_DFL, signal.SIG_IGN])
def test_what_it_ends_by_is_noted_and_raised_only_where_somebody_asks(hangup):
    before = signal.signal(signal.SIGHUP, hangup)
    try:
        with server.stop_on_signals() as stop:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                stop.told = False
                stop.check()
                signal.raise_signal(number)
                if number == signal.SIGHUP and hangup == signal.SIG_IGN:
                    # As under nohup, which has it go on when the terminal is closed.
                    assert not stop.told
                    continue
                assert stop.told
                with pytest.raises(server.Stopped):
                    stop.check()
        assert signal.getsignal(signal.SIGHUP) == hangup
    finally:
        signal.signal(signal.SIGHUP, before)


# ----- It stays up


@pytest.mark.real
def test_what_dies_is_started_again_and_a_run_goes_on_where_it_was_killed_with_everything(tmp_path):
    home = tmp_path / "home"
    rows = jsonl(tmp_path / "killed.jsonl", [{**answer(i, f"It is {i}."), "release": "r"} for i in range(6)])
    with JudgeServer(agreeable, holds=lambda judge: judge.begun >= 2) as judge:
        judging = {"judges": [f"openai/x@{judge.url}"], "concurrency": 2, "check": "never"}
        forms = {"data": {"answers": rows}, "scoring": {"metrics": ["meaning_match"]}, "judging": judging}
        with serving(home) as served:
            served.line(READY)
            deployed = Deployed(f"http://127.0.0.1:{served.port}/api", home)
            served.kill("prefect_server")
            served.line("answerkey: server ended unexpectedly and is started again")
            wait_until(lambda: served.answers(served.port), "the server")
            run_id = deployed.start("evaluate", {**forms, "page": False})
            wait_until(lambda: judge.n_requests > 2, "some requests")
            # As where the machine goes down: nobody says a last word. What starts runs dies with its parent, and would
            # otherwise tell the server that the run has crashed.
            served.process.kill()
            served.process.wait()
            served.kill("prefect.engine")
            wait_until(lambda: not served.alive(), "the end of all children")
        judge.release()
        with serving(home, port=served.port) as served:
            served.line(READY)
            run = deployed.wait(run_id)
            assert (run["state_type"], run["run_count"]) == ("COMPLETED", 2)
            # Two were in flight, and have no answer.
            assert judge.n_requests <= 6 + 2
            assert [one["parameters"]["home"] for one in deployed.runs_of("evaluate")] == [str(home)]
