"""`answerkey serve`: the flows on a Prefect server of this machine; and `view`: the whole home in a browser.

`serve` starts a server, the pages and the process that serves the deployments as children, starts again what dies, and
does nothing that takes long itself: it can be ended at any moment, and they end with it, even if it is killed by force.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import HTTPServer
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from answerkey.flows.cli.options import HOME, HomeOption
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.server import LOCK, NOTE, SERVING
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import atomic_write, locked

_HOST = "127.0.0.1"
_DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
_HEALTHY_S = 180.0
_LOOK_S = 0.3
"""Between two looks whether a child has ended, or this process was told to."""
_PATIENCE_S = 20.0
"""For a child to end by itself, a run that it works on included, before it is killed."""
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
"""See prctl(2)."""
_LIST = ".answerkey-pages"
"""Names what `view --to` has written into a folder. Nothing else in it is ever removed."""


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


def serve(*, port: int = 4200, database: Annotated[str, Parameter(metavar="URL")] = "", home: HomeOption = HOME) -> int:
    """Start a Prefect server with all flows on this machine.

    Args:
        port: Port of the server; the next one is for the pages.
        database: Where the server keeps runs: postgresql+asyncpg://USER@HOST/NAME, with its password in PGPASSWORD.
            Empty: a file in the home, which is for one person or a few.

    Examples:
        answerkey serve --port 4300
        answerkey serve --database postgresql+asyncpg://prefect@127.0.0.1/prefect
    """
    if database and not database.startswith("postgresql+asyncpg://"):
        raise UserError("--database: give postgresql+asyncpg://USER@HOST/NAME")
    home = Home.parse(home.address)
    with stop_on_signals() as stop:
        from answerkey.tasks.publish.artifacts import PAGES

        # The environment of everything that belongs to the server
        environment = {
            # Leases of concurrency limits. In memory, where Prefect has them otherwise, a restart of the server loses
            # them, and with them every run that renews one later.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
            **os.environ,
            **({_DATABASE: database} if database else {}),
            "PREFECT_HOME": str((home.local / "prefect").resolve()),
            "PREFECT_API_URL": f"http://{_HOST}:{port}/api",
            # Runs without a home of their own, and the home that the pages are of.
            "ANSWERKEY_HOME": home.address,
            # Else the page calls port 4200, wherever it came from.
            "PREFECT_UI_API_URL": "/api",
            PAGES: f"http://{_HOST}:{port + 1}",
        }
        try:
            _serve(home, port, environment, stop)
        except Stopped:
            print("stopped; reports, runs and schedules are kept", flush=True)
    return 0


def _serve(home: Home, port: int, environment: dict[str, str], stop: Stop) -> None:
    is_small = environment.get(_DATABASE, "sqlite").startswith("sqlite")
    size = "one person or a few (a team gives --database)" if is_small else "a team"
    print(f"starting a Prefect server for {size} on port {port}; the first time takes half a minute", flush=True)

    # One server for a home, with its log beside the runs
    logs = home.local / "prefect"
    logs.mkdir(parents=True, exist_ok=True)
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
        for own_port in (port, port + 1):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((_HOST, own_port))
                except (OSError, OverflowError) as error:
                    raise UserError(f"--port {own_port}: not available ({error}); choose another one") from error
        api = f"http://{_HOST}:{port}/api"
        serving = home.local / SERVING
        serving.unlink(missing_ok=True)

        # The server first: the two others need it
        children = [
            Child("server", ["prefect_server", "--port", str(port)], partial(_answers, f"{api}/health")),
            Child(
                "pages",
                ["pages", home.address, "--port", str(port + 1)],
                partial(_answers, f"http://{_HOST}:{port + 1}/"),
            ),
            Child("flows", ["serving", home.address], serving.exists),
        ]
        for child in children:
            stack.callback(child.end)
            child.start(environment, logs)
            child.wait_until_up(stop)
            if child.name == "server":
                note = home.local / NOTE
                note.write_text(f"{api}\n", encoding="utf-8")
                stack.callback(note.unlink, missing_ok=True)
        print(f"ready: http://{_HOST}:{port}  (home {home}; Ctrl-C stops it)", flush=True)

        # What dies is started again, until this process is told to stop
        while True:
            stop.check()
            for child in children:
                if child.has_ended:
                    problem = f"{child.name} ended unexpectedly and is started again; see {child.log}"
                    print(f"answerkey: {problem}", file=sys.stderr, flush=True)
                    child.end()
                    child.start(environment, logs)
                    child.wait_until_up(stop)
            time.sleep(_LOOK_S)


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


@dataclass
class Child:
    """A module of answerkey as a process, with a session of its own, which is gone with its children at the end."""

    name: str
    arguments: Sequence[str]
    is_up: Callable[[], bool]
    log: Path = Path()
    process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str], logs: Path) -> None:
        """Start it; its output is added to its log."""
        self.log = logs / f"{self.name}.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"answerkey.flows.{self.arguments[0]}", *self.arguments[1:]],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C in the terminal comes to us alone, and we end the whole group.
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - it calls nothing but the kernel
            )

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def wait_until_up(self, stop: Stop) -> None:
        """Wait until it does its work.

        Raises:
            UserError: it ended, or it takes minutes.
        """
        deadline = time.monotonic() + _HEALTHY_S
        while time.monotonic() < deadline and not self.has_ended:
            stop.check()
            if self.is_up():
                return
            time.sleep(_LOOK_S)
        raise UserError(f"{self.name} did not start; see {self.log}")

    def end(self) -> None:
        """End it and its group: with SIGTERM, then by force."""
        if self.process is None:
            return
        if self.name == "flows":
            # Told to end, it cancels its runs. Killed, it leaves them to us: they end, and go on with the next start.
            self.process.kill()
        _signal(self.process, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline and (self.process.poll() is None or _signal(self.process, 0)):
            time.sleep(0.1)
        _signal(self.process, signal.SIGKILL)
        self.process.wait()


def _end_with_parent() -> None:
    """Have the kernel kill the process that calls once its parent is gone, where the kernel is Linux."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answers(address: str) -> bool:
    # Without the proxies that the environment may name.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5):
            return True
    except OSError as error:
        # Pages with a login answer nobody without it
        return getattr(error, "code", None) == HTTPStatus.UNAUTHORIZED


def _signal(child: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal to the group of a child; false where none is left in it."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return False
    return True


def view(
    *, port: int = 4210, to: Annotated[Path | None, Parameter(metavar="FOLDER")] = None, home: HomeOption = HOME
) -> int:
    """Look at everything in a browser: data sets, releases over time, verdicts, reports and spend.

    Serves the home read-only on this machine until Ctrl-C, or writes the same pages as files. They are made from the
    snapshot, so they delay no run.

    Args:
        port: Port on this machine; 0 takes one that is free.
        to: Write all pages as files into this folder, for a web server or an object store, instead of serving them.
            Pages of an earlier call that no longer exist are removed.

    Examples:
        answerkey view
        answerkey view --home evaluations --port 4300
        answerkey view --to site
    """
    home = Home.parse(home.address)
    if not home.warehouse.exists():
        raise UserError(f"{home}: no warehouse here yet; run `answerkey evaluate` first, or give --home")
    if to:
        print(f"{_write(home, to)} files in {to}; open {to / 'index.html'}")
        return 0
    from answerkey.flows.pages import page_server

    with page_server(home, port) as server:
        print(f"http://127.0.0.1:{server.server_port}  (home {home}, read-only; Ctrl-C stops it)", flush=True)
        answer_until_stopped(server)
    print("stopped", flush=True)
    return 0


def _write(home: Home, folder: Path) -> int:
    """Write the site into a folder, each file whole or not at all, and remove what an earlier call has left of others.

    Returns how many files it has.
    """
    from answerkey.tasks.publish.site import Site

    if folder.is_file():
        raise UserError(f"--to {folder}: this is a file; give a folder")
    if isinstance(home.place, Path) and home.place.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise UserError(f"--to {folder}: this is in the home; give a folder outside of it")
    site = Site(home)
    written: list[str] = []
    earlier_names: list[str] = []
    try:
        names = list(site.names())
        # What the last call has written there and may remove: nothing that a link, or an edited list, has elsewhere.
        # No page has a name that cannot be printed, and some of these no path can have
        top = folder.resolve()
        with suppress(FileNotFoundError, UnicodeDecodeError):
            for name in (folder / _LIST).read_text(encoding="utf-8").splitlines():
                if name != _LIST and name.isprintable() and (top / name).parent.resolve().is_relative_to(top):
                    earlier_names.append(name)
        # Ahead, so that what a kill leaves behind is known as well.
        _note(folder, dict.fromkeys([*earlier_names, *names]))
        for name in names:
            try:
                content = site.read(name)
            except FileNotFoundError:
                # Removed since its name was read.
                continue
            with atomic_write(folder / name) as unfinished:
                unfinished.write_bytes(content)
            written.append(name)
        # What is a page no longer, and the folders that are empty without it
        for name in {*earlier_names, *names} - {*written}:
            file = folder / name
            if file.is_dir():
                continue
            file.unlink(missing_ok=True)
            for parent in file.parents[: len(Path(name).parts) - 1]:
                with suppress(OSError):
                    parent.rmdir()
        _note(folder, written)
    except OSError as error:
        raise UserError(f"--to {folder}: cannot be written: {error.strerror or error}") from error
    return len(written)


def _note(folder: Path, names: Iterable[str]) -> None:
    with atomic_write(folder / _LIST) as unfinished:
        unfinished.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
