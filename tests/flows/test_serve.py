"""`answerkey serve`: it stays up whatever the warehouse does, and ends whenever it is told to."""

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
from answerkey.flows.cli.deploying import PendingReleases
from answerkey.flows.cli.server import Stop, look_each_minute
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import MIGRATED_DATABASE, ROOT
from tests.kit.ports import two_free_ports
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.comparing_help import answer, release

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
NO_LOOK = "answerkey: no look at the registered releases, the next is in a minute: "


class Serving:
    """`answerkey serve` as a process, and what it has started."""

    def __init__(self, home: Path, *program: str) -> None:
        self.home, self.port, self._mark = home, two_free_ports(), uuid.uuid4().hex
        if MIGRATED_DATABASE.exists():
            (home / "prefect").mkdir(parents=True)
            shutil.copy(MIGRATED_DATABASE, home / "prefect/prefect.db")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        self.process = subprocess.Popen(
            [sys.executable, *program, "serve", "--port", str(self.port), "--home", str(home)],
            cwd=ROOT, env={**environment, MARK: self._mark}, text=True,
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
def serving(home, *program):
    started = Serving(home, *(program or ("-m", "answerkey.flows.cli")))
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


@pytest.fixture
def looks(monkeypatch):
    """Looks without pauses, until the test is over; returns those that have begun."""
    monkeypatch.setattr(server, "_PENDING_S", 0.01)
    stop = Stop()

    def start(look):
        begun = []

        def counted():
            begun.append(look)
            look()

        look_each_minute(counted, stop)
        return begun

    yield start
    stop.told = True


def garbage(file):
    file.write_bytes(b"no database")


def folder(file):
    file.mkdir()


def damaged(file):
    content = bytearray(file.read_bytes())
    content[4_096:20_000] = b"x" * 15_904
    file.write_bytes(content)


@pytest.mark.parametrize("spoil", [garbage, folder, damaged])
def test_a_look_at_a_warehouse_that_cannot_be_read_is_one_line_and_is_repeated(spoil, looks, capfd, tmp_path):
    home = Home(tmp_path / "home")
    release(tmp_path / "home", "first", [answer(1, "yes")])
    file = tmp_path / "home/answerkey.duckdb"
    sound = file.read_bytes()
    for copy in (tmp_path / "home").glob("*.duckdb"):
        copy.unlink()
    if spoil is damaged:
        file.write_bytes(sound)
    spoil(file)

    begun = looks(PendingReleases(home).start)
    wait_until(lambda: len(begun) > 3, "more looks")

    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if not line.startswith(NO_LOOK)] == []
    assert len(said) == 1


def test_every_error_of_a_look_is_one_line_and_the_same_one_only_once(looks, capfd):
    errors = [ValueError("a\nb"), ValueError("a\nb"), MemoryError(), None, ValueError("a\nb"), OSError(28, "full")]
    left = list(errors)

    def look():
        error = left.pop(0) if left else None
        if error:
            raise error

    begun = looks(look)
    wait_until(lambda: len(begun) > len(errors), "all looks")

    said = [line.removeprefix(NO_LOOK) for line in capfd.readouterr().err.splitlines()]
    assert said == ["a b", "MemoryError", "a b", "[Errno 28] full"]
