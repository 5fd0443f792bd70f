"""`answerkey serve` and `answerkey deploy`: the flows on a Prefect server.

`serve` starts a server, `answerkey deploy`, the pages and a worker as children of this process, one after the other,
and does nothing that takes long itself: it can be ended at any moment, and they end with it, unless it is killed by
force.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.flows.environment import printable
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
_LOOK_S = 0.3
"""Between two looks whether a child has ended, or this process was told to."""
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
    """This process was told to end. `Stop.check` raises it, and no handler of a signal does."""


class Stop:
    """Whether this process was told to end: by Ctrl-C, another signal to end, or a terminal that was closed.

    The handler of the signals does nothing but note it. An exception from there would come up in the middle of whatever
    runs at that moment, and some of that, as an import, catches every exception and goes on.
    """

    told = False

    def check(self) -> None:
        """Raise `Stopped` if so. Whatever waits calls it again and again."""
        if self.told:
            raise Stopped


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
    with stop_on_signals() as stop:
        from answerkey.flows.cli.deploying import check_reset

        check_reset(reset)
        if database and not database.startswith("postgresql+asyncpg://"):
            raise UserError("--database: give postgresql+asyncpg://USER@HOST/NAME")
        home = Home.parse(home.address)
        try:
            return _serve(home, port, server_environment(home, port, database), reset, stop)
        except Stopped:
            print("stopped; reports, runs and schedules are kept", flush=True)
            return 0


def _serve(home: Home, port: int, environment: dict[str, str], reset: Sequence[str], stop: Stop) -> int:
    few = environment.get(_DATABASE, "sqlite").startswith("sqlite")
    size = "one person or a few (a team gives --database)" if few else "a team"
    print(f"starting a Prefect server for {size} on port {port}; the first time takes half a minute", flush=True)
    logs = home.local / "prefect"
    with ExitStack() as stack:
        prefect = stack.enter_context(server(home, port, environment, stop))
        # Says itself on standard error what is wrong.
        options = ["--home", home.address, *(word for name in reset for word in ("--reset", name))]
        command = ["-m", "answerkey.flows.cli", "deploy", *options]
        with running(command, environment, logs / "deploy.log", stderr=None) as deploying:
            if wait_for(prefect, deploying, stop=stop) is deploying and deploying.returncode > 0:
                return deploying.returncode
        if deploying.returncode == 0:
            pages = stack.enter_context(page_server(home, port + 1, environment, stop))
            from answerkey.flows.cli.deploying import POOL, PendingReleases, project_folder

            command = ["-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
            worker = stack.enter_context(running(command, environment, logs / "worker.log", project_folder()))
            print(f"ready: http://127.0.0.1:{port}  (home {home}; Ctrl-C stops it)", flush=True)
            # Prefect reads them when it is imported, which the first look does that finds something.
            os.environ.update(environment)
            look_each_minute(PendingReleases(home).start, stop)
            wait_for(prefect, worker, pages, stop=stop)
    raise UserError(f"the server or the worker stopped unexpectedly; see the logs in {logs}")


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
        print(f"left as set on the server (--reset NAME resets one): {', '.join(kept)}", file=sys.stderr)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """A `Stop` that SIGINT, SIGTERM and SIGHUP set. A child started meanwhile heeds them as it likes."""
    stop = Stop()

    def note(*_: object) -> None:
        stop.told = True

    numbers = [signal.SIGINT, signal.SIGTERM]
    # As nohup has it, that of a terminal which is closed is ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def answer_until_stopped(pages: HTTPServer) -> None:
    """Answer requests until a signal says that this process is to end."""
    pages.timeout = _LOOK_S
    with stop_on_signals() as stop:
        while not stop.told:
            pages.handle_request()


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
def server(home: Home, port: int, environment: Mapping[str, str], stop: Stop) -> Iterator[subprocess.Popen[bytes]]:
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
                stop.check()
        _check_port(port)
        log = folder / "server.log"
        arguments = ["-m", "answerkey.flows.prefect_server", "--host", _HOST, "--port", str(port)]
        child = stack.enter_context(running(arguments, environment, log))
        _wait_until_it_answers(child, f"http://{_HOST}:{port}/api/health", log, stop)
        note = home.local / NOTE
        note.write_text(f"http://{_HOST}:{port}/api\n", encoding="utf-8")
        stack.callback(note.unlink, missing_ok=True)
        yield child


@contextmanager
def running(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    folder: Path | None = None,
    stderr: int | None = subprocess.STDOUT,
) -> Iterator[subprocess.Popen[bytes]]:
    """`python ARGUMENTS` as a child, while the context is open; it and all of its children are gone afterwards.

    Its output goes into `log`, and its errors too, unless `stderr` says otherwise; see subprocess.
    """
    with log.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=stderr,
            # A group of its own: Ctrl-C in the terminal comes to us alone, and we end the whole group.
            start_new_session=True,
        )
    try:
        yield child
    finally:
        _end(child)


@contextmanager
def page_server(home: Home, port: int, environment: Mapping[str, str], stop: Stop) -> Iterator[subprocess.Popen[bytes]]:
    """The pages of the reports, on a port of its own; see `pages`.

    Raises:
        UserError: the port is taken, or nothing starts on it.
    """
    _check_port(port)
    arguments = ["-m", "answerkey.flows.pages", home.address, "--port", str(port)]
    log = home.local / "prefect" / "pages.log"
    with running(arguments, environment, log) as child:
        _wait_until_it_answers(child, f"http://{_HOST}:{port}/", log, stop)
        yield child


def wait_for(*children: subprocess.Popen[bytes], stop: Stop) -> subprocess.Popen[bytes]:
    """Wait until one of the children has ended, and return it."""
    while True:
        for child in children:
            if child.poll() is not None:
                return child
        stop.check()
        time.sleep(_LOOK_S)


def look_each_minute(look: Callable[[], object], stop: Stop) -> None:
    """Call `look` now and once a minute from now on, in a thread, as it may wait for the warehouse or the server.

    What goes wrong in it is one line on standard error, once until something else does, and is tried again.
    """

    def keep_looking() -> None:
        message = ""
        while not stop.told:
            try:
                look()
                message = ""
            except Exception as error:
                if not stop.told and message != (message := printable(str(error) or type(error).__name__)):
                    print(f"answerkey: no look at the registered releases, the next is in a minute: {message}",
                          file=sys.stderr, flush=True)  # fmt: skip
            time.sleep(_PENDING_S)

    # A look that waits is to delay nobody who ends this process.
    threading.Thread(target=keep_looking, name="registered releases", daemon=True).start()


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise UserError(f"--port {port}: not available ({error}); choose another one") from error


def _wait_until_it_answers(child: subprocess.Popen[bytes], address: str, log: Path, stop: Stop) -> None:
    # Without the proxies that the environment may name.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _HEALTHY_S
    while time.monotonic() < deadline and child.poll() is None:
        stop.check()
        try:
            with opener.open(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(_LOOK_S)
    raise UserError(f"{address} did not start; see {log}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and its group: with SIGTERM, then by force."""
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
