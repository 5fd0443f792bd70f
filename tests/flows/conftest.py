"""A real Prefect server, started by the first test that needs it, and the command line as its users start it."""

import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from answerkey.flows.cli.main import main
from tests.cluster_servers import dies_with_its_parent
from tests.conftest import ROOT
from tests.kit.ports import free_port
from tests.kit.prefect_api import ask_prefect
from tests.kit.processes import finished
from tests.kit.waiting import AGAIN_S, FAULT_S, wait_until
from tests.warm_command import READ_LATER

Cli = Callable[..., subprocess.CompletedProcess[str]]
MIGRATED_DATABASE = ROOT / ".pytest_cache" / f"prefect-{version('prefect')}.db"
"""The database of a server that has just been started for the first time; every other server begins with a copy."""


def keep_database(database):
    """Keep a copy of a server's database, for the servers that start later."""
    MIGRATED_DATABASE.parent.mkdir(exist_ok=True)
    copy = MIGRATED_DATABASE.with_suffix(f".{os.getpid()}")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    # Two servers may start at once: the name is always that of a whole file.
    copy.replace(MIGRATED_DATABASE)


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory):
    """Where the server keeps its database."""
    return tmp_path_factory.mktemp("prefect-server")


class PrefectServer:
    """A server with a home of its own, that keeps its port and its database while it is down.

    `changes` are of its environment.
    """

    def __init__(self, folder: Path, **changes: str) -> None:
        self._folder, self._port, self._changes = folder, free_port(), changes
        self.url = f"http://127.0.0.1:{self._port}/api"
        # The migrations of a new database take longer than all the rest of a start.
        own_database = "PREFECT_SERVER_DATABASE_CONNECTION_URL" in changes
        if not own_database and MIGRATED_DATABASE.exists():
            shutil.copy(MIGRATED_DATABASE, folder / "prefect.db")
        self.start()
        if not own_database and not MIGRATED_DATABASE.exists():
            keep_database(folder / "prefect.db")

    def start(self) -> None:
        environment = {
            **os.environ,
            "PREFECT_HOME": str(self._folder),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            # As `answerkey serve` has it: else the page calls port 4200, and a host abroad.
            "PREFECT_UI_API_URL": "/api",
            "PREFECT_SERVER_UI_V2_ENABLED": "false",
            **self._changes,
        }
        log = self._folder / "server.log"
        with log.open("a") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "answerkey.flows.prefect_server", "--port", str(self._port)],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
            )
        _wait_until_healthy(self.url, self._process, log)

    def kill(self) -> None:
        """As the kernel does when there is no memory left."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(AGAIN_S)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(scope="session")
def server(server_folder):
    """The API address of a server that runs for all tests of flows, with a home of its own."""
    running = PrefectServer(server_folder)
    yield running.url
    running.stop()


def _wait_until_healthy(url, process, log):
    def is_healthy():
        if process.poll() is not None:
            pytest.fail(f"the server died at start:\n{log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=AGAIN_S) as reply:
                return reply.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    wait_until(is_healthy, lambda: f"a healthy server:\n{log.read_text()[-2000:]}")


@pytest.fixture
def ask(server):
    """Ask the server's API: a path under the API and a filter, for a list of objects."""

    def asked(path, body):
        found: list[dict[str, object]] = ask_prefect(server, "POST", path, body)
        return found

    return asked


@pytest.fixture
def on_server(warm_command, server, tmp_path):
    """Run Python that has the server, as a user's own script, and return what it prints."""

    def run(code, **changes):
        script = tmp_path / "script.py"
        script.write_text(code, encoding="utf-8")
        environment = {**os.environ, "PREFECT_API_URL": server, **changes}
        completed = warm_command.run(str(script), [], ROOT, environment, FAULT_S)
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    return run


@pytest.fixture
def save_secret(on_server):
    """Keep a secret in a block of that name, as Prefect's users do."""

    def save(name, value):
        kept = f"Secret(value=os.environ['KEY_OF_THE_TEST']).save({name!r})"
        on_server(f"import os\nfrom prefect.blocks.system import Secret\n{kept}", KEY_OF_THE_TEST=value)

    return save


def command(*arguments):
    return [sys.executable, "-m", "answerkey.flows.cli", *map(str, arguments)]


def started_on(server, *arguments, **changes):
    """A command that has begun on the server, in a process of its own."""
    return subprocess.Popen(
        command(*arguments), cwd=ROOT, env={**os.environ, "PREFECT_API_URL": server, **changes},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _run_here(arguments, changes):
    """Run a command in this process, where what it needs is imported and read already."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        open(os.devnull, encoding="utf-8") as nothing,
    ):
        patch.chdir(ROOT)
        patch.setattr(sys, "stdin", nothing)
        for name, value in changes.items():
            patch.setenv(name, value)
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def bare_cli(request):
    """The command line without a server; its exit code is checked where one is named.

    It has a process of its own where the environment is changed by what is read while that starts. An evaluation draws
    the page of the run, which takes as long as all else, only where it is wanted.
    """

    def run(*arguments, code=None, page=False, **changes):
        arguments = [*map(str, arguments)]
        if arguments[0] == "evaluate" and not page:
            arguments.append("--no-page")
        environment = {**os.environ, **changes}
        if all(name.startswith(READ_LATER) for name in changes):
            done = _run_here(arguments, changes)
        elif (warm := request.getfixturevalue("warm_command")).can_run(environment):
            done = warm.run("answerkey.flows.cli", arguments, ROOT, environment, FAULT_S)
        else:
            done = finished(command(*arguments), cwd=ROOT, env=environment)
        assert code in (None, done.returncode), f"{done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


@pytest.fixture
def home(tmp_path):
    """A home with nothing in it."""
    return tmp_path / "home"


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """A home with nothing in it, for a test in a file whose other tests share one."""
    monkeypatch.setenv("ANSWERKEY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _commands_use_the_home(request, monkeypatch):
    """A test that has a home, its own or that of its file, need not name it in commands."""
    if "home" in request.fixturenames:
        monkeypatch.setenv("ANSWERKEY_HOME", str(request.getfixturevalue("home")))


@pytest.fixture
def cli(request, bare_cli):
    """The command line, on the running server where a test has anything to do with it, and without one elsewhere."""
    if "server" not in request.fixturenames:
        return bare_cli
    return partial(bare_cli, PREFECT_API_URL=request.getfixturevalue("server"))


@pytest.fixture
def refusal(capsys, monkeypatch):
    """What a command says, in one line on standard error, that ends with an exit code other than 0."""
    for name in ("ANSWERKEY_JUDGE_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def line(*arguments, code=2):
        capsys.readouterr()
        assert main([*map(str, arguments)]) == code
        printed = capsys.readouterr()
        [message] = printed.err.splitlines()
        assert (printed.out, message.startswith("answerkey: ")) == ("", True), printed
        return message.removeprefix("answerkey: ")

    return line


@pytest.fixture
def answers(tmp_path):
    """Eight answers of two releases to four questions, in the shape of the usual names."""
    rows = [
        ("q1", "old", "Paris", "Paris", "geo"),
        ("q2", "old", "It is 5.", "-5", "number"),
        ("q3", "old", None, "blue", "colour"),
        ("q4", "old", "Dmitri Mendeleev made it", "Mendeleev", "name"),
        ("q1", "new", "The capital is Paris", "Paris", "geo"),
        ("q2", "new", "-5", "-5", "number"),
        ("q3", "new", "blue", "blue", "colour"),
        ("q4", "new", "Nobody knows", "Mendeleev", "name"),
    ]
    file = tmp_path / "faq.jsonl"
    names = ("id", "release", "response", "reference", "topic")
    file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return file
