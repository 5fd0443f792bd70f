"""`answerkey serve` and `answerkey deploy`: the flows on a Prefect server.

`serve` starts a server and a worker as children of this process, one after the other; they end with it, unless it is
killed by force.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.server import LOCK, NOTE, has_server
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import locked

_HOST = "127.0.0.1"
_DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
_HEALTHY_S = 180.0
_PENDING_S = 60.0
"""Between two looks at what is registered and not evaluated."""
_PATIENCE_S = 20.0
"""For a child to end by itself, a run that it works on included, before it is killed."""


ResetOption = Annotated[
    tuple[str, ...],
    Parameter(
        "--reset",
        metavar="NAME",
        negative="",
        help="A deployment or automation to reset to what answerkey deploys, discarding what was set on the server; "
        "`all` resets every one. May be repeated.",
    ),
]


class Stopped(Exception):
    """Ctrl-C, or a signal to end."""


def serve(
    *,
    port: Annotated[int, Parameter("--port", help="Port of the server; the next one is for the pages.")] = 4200,
    database: Annotated[
        str,
        Parameter(
            "--database",
            metavar="URL",
            help="Where the server keeps runs: postgresql+asyncpg://USER@HOST/NAME, with its password in PGPASSWORD. "
            "Empty: a file in the home, which is for one person or a few.",
        ),
    ] = "",
    reset: ResetOption = (),
    home: HomeOption = HOME,
) -> int:
    """Start a Prefect server with all flows on this machine.

    Examples:
        answerkey serve --port 4300
        answerkey serve --database postgresql+asyncpg://prefect@127.0.0.1/prefect
    """
    from answerkey.flows.cli.deploying import check_reset

    check_reset(reset)
    if database and not database.startswith("postgresql+asyncpg://"):
        raise UserError("--database: give postgresql+asyncpg://USER@HOST/NAME")
    home = Home.parse(home.address)
    environment = server_environment(home, port, database)
    try:
        with stopping_on_signals():
            _serve(home, port, environment, reset)
    except Stopped:
        print("stopped; reports, runs and schedules are kept", flush=True)
        return 0
    return 1


def _serve(home: Home, port: int, environment: dict[str, str], reset: Sequence[str]) -> None:
    few = environment.get(_DATABASE, "sqlite").startswith("sqlite")
    size = "one person or a few (a team gives --database)" if few else "a team"
    print(f"starting a Prefect server for {size} on port {port}; the first time takes half a minute", flush=True)
    with server(home, port, environment) as prefect:
        # Prefect reads them when it is imported, which is now.
        os.environ.update(environment)
        from answerkey.flows.cli.deploying import (
            POOL,
            PendingReleases,
            deploy_all,
            make_automations,
            make_pool,
            project_folder,
        )

        make_pool()
        kept = deploy_all(home, environment, reset=reset)
        _report(kept + make_automations(reset=reset)[1])
        log = home.local / "prefect" / "worker.log"
        command = ["-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
        with (
            page_server(home, port + 1, environment) as pages,
            running(command, environment, log, project_folder()) as worker,
        ):
            print(f"ready: http://127.0.0.1:{port}  (home {home}; Ctrl-C stops it)", flush=True)
            wait_for(prefect, worker, pages, meanwhile=PendingReleases(home).start)
            raise UserError(f"the server or the worker stopped unexpectedly; see the logs in {log.parent}")


def deploy(
    *,
    notify: Annotated[
        str,
        Parameter(
            "--notify",
            metavar="TYPE/NAME",
            help="The Prefect block that notifies people of failed gates and incomplete runs, for instance "
            "slack-webhook/team.",
        ),
    ] = "",
    pool: Annotated[
        Literal["process", "docker", "kubernetes"],
        Parameter(
            "--pool",
            help="Where runs execute: in processes on the worker's machine, or each in a Docker container or a "
            "Kubernetes job.",
        ),
    ] = "process",
    reset: ResetOption = (),
    home: HomeOption = HOME,
) -> int:
    """Deploy all flows and automations to the server at PREFECT_API_URL.

    Examples:
        answerkey deploy --pool docker --notify slack-webhook/team
    """
    if not has_server():
        raise UserError("no Prefect server is set: set PREFECT_API_URL, or use `answerkey serve`")
    from answerkey.flows.cli.deploying import check_reset, deploy_all, make_automations, make_pool

    check_reset(reset)
    work_pool = make_pool(pool)
    kept = deploy_all(home, dict(os.environ), work_pool, reset)
    made, kept_too = make_automations(notify, reset)
    server = without_secrets(os.environ.get("PREFECT_API_URL", "the server of your Prefect profile"))
    print(f"deployed to {server}; automations:")
    print("\n".join(f"  {name}" for name in made))
    if not notify:
        print("no notifications; --notify TYPE/NAME names a Prefect block that sends them")
    _report(kept + kept_too)
    print(f"start a worker with: prefect worker start --pool {work_pool}")
    return 0


def _report(kept: Sequence[str]) -> None:
    if kept:
        print(f"left as set on the server (--reset NAME resets one): {', '.join(kept)}", flush=True)


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread on SIGINT and SIGTERM. A child started meanwhile heeds SIGINT again."""

    def stop(*_: object) -> None:
        # Once: a second signal must not interrupt what ends the children.
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def server_environment(home: Home, port: int, database: str = "") -> dict[str, str]:
    """The environment of everything that belongs to the server on `port`, which keeps runs in `database`, if named."""
    from answerkey.tasks.publish.artifacts import PAGES

    return {
        # Leases of concurrency limits. In memory, where Prefect has them otherwise, a restart of the server loses them,
        # and with them every run that renews one later.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        **os.environ,
        **({_DATABASE: database} if database else {}),
        "PREFECT_HOME": str((home.local / "prefect").resolve()),
        "PREFECT_API_URL": f"http://{_HOST}:{port}/api",
        # Else the page calls port 4200, wherever it came from.
        "PREFECT_UI_API_URL": "/api",
        PAGES: f"http://{_HOST}:{port + 1}",
    }


@contextmanager
def server(home: Home, port: int, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A Prefect server that answers, with its database and its log in `home`/prefect.

    Raises:
        UserError: the port is taken, or another server uses this home, or the server does not start.
    """
    folder = home.local / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for wait_s in (1, 0):
            try:
                stack.enter_context(locked(home.local / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if not wait_s:
                    raise UserError(
                        f"{home}: another `answerkey serve` uses this home; stop it, or give --home"
                    ) from None
                # A command that looks whether it is held has it for a moment.
                time.sleep(wait_s)
        _check_port(port)
        log = folder / "server.log"
        arguments = ["-m", "prefect", "server", "start", "--host", _HOST, "--port", str(port)]
        child = stack.enter_context(running(arguments, environment, log))
        _wait_until_it_answers(child, f"http://{_HOST}:{port}/api/health", log)
        note = home.local / NOTE
        note.write_text(f"http://{_HOST}:{port}/api\n", encoding="utf-8")
        stack.callback(note.unlink, missing_ok=True)
        yield child


@contextmanager
def running(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`python ARGUMENTS` as a child, while the context is open; it and all of its children are gone afterwards."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # A group of its own: Ctrl-C in the terminal comes to us alone, and we end the whole group.
            start_new_session=True,
        )
    try:
        yield child
    finally:
        _end(child)


@contextmanager
def page_server(home: Home, port: int, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The pages of the reports, on a port of its own; see `pages`.

    Raises:
        UserError: the port is taken, or nothing starts on it.
    """
    _check_port(port)
    arguments = ["-m", "answerkey.flows.pages", home.address, "--port", str(port)]
    log = home.local / "prefect" / "pages.log"
    with running(arguments, environment, log) as child:
        _wait_until_it_answers(child, f"http://{_HOST}:{port}/", log)
        yield child


def wait_for(
    *children: subprocess.Popen[bytes], meanwhile: Callable[[], None] = lambda: None
) -> subprocess.Popen[bytes]:
    """Wait until one of the children has ended, and return it; `meanwhile` is called once a minute."""
    due = time.monotonic()
    while True:
        for child in children:
            if child.poll() is not None:
                return child
        if time.monotonic() >= due:
            meanwhile()
            due = time.monotonic() + _PENDING_S
        time.sleep(0.5)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise UserError(f"--port {port}: not available ({error}); choose another one") from error


def _wait_until_it_answers(child: subprocess.Popen[bytes], address: str, log: Path) -> None:
    # Without the proxies that the environment may name.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _HEALTHY_S
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with opener.open(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.3)
    raise UserError(f"{address} did not start; see {log}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and its group: with SIGINT, then by force."""
    _signal(child, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and (child.poll() is None or _signal(child, 0)):
        time.sleep(0.1)
    _signal(child, signal.SIGKILL)
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to the group of a child; false where none is left in it."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return False
    return True
