"""What every test gets: homes of its own, and no network.

The product must switch off by itself whatever its libraries send or fetch, so nothing here sets their
offline switches. Instead every look-up of and connection to a host that is not this machine is refused and
written down, and the test in which it was noticed fails with the host's name: also when it was made in a
thread or in a process that the test started, and also when the caller swallowed the refusal.
"""

import atexit
import gc
import inspect
import os
import shutil
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, settings

from answerkey.metrics_core.llm import client
from answerkey.tasks.warehouse import warehouse
from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import Postgres, SeaweedFS, postgres_binaries
from tests.cluster_servers import lake as new_lake
from tests.warm_command import WarmCommand

ROOT = Path(__file__).resolve().parents[1]


# The libraries leave millions of objects, in which each search for cycles takes long and finds none.
gc.set_threshold(50_000, 20, 100)

SERVERS = {"browser", "postgres_server", "s3_server", "server"}
"""Fixtures that start a program: a test that asks for one is `real`, unless it is marked `nightly`."""
SERVERS_BY_PARAMETER = {"lake": "s3_server", "postgres": "postgres_server", "with a server": "server"}
"""Cases of tests whose fixtures ask for a server by themselves."""


def _servers(item):
    """The servers that a test starts, or shares with others."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = {value for value in parameters if isinstance(value, str)}
    by_parameter = {server for name, server in SERVERS_BY_PARAMETER.items() if name in names}
    return by_parameter | SERVERS.intersection(item.fixturenames)


def _level(item):
    """The level of a test: see docs/developing.md."""
    for level in ("nightly", "real"):
        if item.get_closest_marker(level):
            return level
    if _servers(item):
        return "real"
    return "unit" if "metrics_core" in item.path.relative_to(ROOT).parts else "flow"


def _process(item):
    """What has to run in one process: the tests of the Prefect server, so that a run has one, else those of a file."""
    if "server" in _servers(item):
        return "server"
    return item.nodeid.partition("::")[0]


def pytest_xdist_auto_num_workers():
    """With one process more than there are cores, none is idle while some tests wait for a judge."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Give each test its level, and the process that it shares with others."""
    for item in items:
        item.add_marker(_level(item))
        item.add_marker(pytest.mark.xdist_group(_process(item)))
    # One process is at work with the server for long, so it begins first.
    items.sort(key=lambda item: _process(item) != "server")


def pytest_collection_finish(session):
    """Check that tests which share a process do, and keep what was imported out of the collection of garbage."""
    if getattr(session.config.option, "loadgroup", False):
        # With a pytest that it does not know, pytest-xdist marks no test, and spreads those of a file over processes
        unmarked = [item.nodeid for item in session.items if "@" not in item.nodeid]
        assert not unmarked, f"pytest-xdist does not group tests: {unmarked[0]}"
    gc.collect()
    gc.freeze()


def refuse_network(log_path):
    """Refuse this process every host but loopback, and append one line to `log_path` for each attempt.

    An audit hook sees calls that a replaced `socket.socket.connect` would miss: names imported before, and
    the C level. The function brings its own imports because its source is also what started processes run.
    Called again, it only writes elsewhere: pytest's workers begin with the refusal of the process that started them.
    """
    import ipaddress
    import os
    import socket
    import sys

    refusing = hasattr(sys, "refusals_log")
    sys.refusals_log = log_path  # type: ignore[attr-defined]
    if refusing:
        return

    events = {
        "socket.connect": 1,
        "socket.getaddrinfo": 0,
        "socket.gethostbyname": 0,
        "socket.gethostbyaddr": 0,
        "socket.getnameinfo": 0,
        "socket.sendto": 1,
        "socket.sendmsg": 1,
    }

    def is_local(host):
        if isinstance(host, bytes):
            host = host.decode("ascii", "replace")
        if host in (None, "", "localhost"):
            return True
        try:
            address = ipaddress.ip_address(str(host).partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return bool(mapped.is_loopback or mapped.is_unspecified)

    def hook(event, arguments):
        if event not in events:
            return
        target = arguments[events[event]]
        first = arguments[0]
        if isinstance(first, socket.SocketType) and first.family not in (socket.AF_INET, socket.AF_INET6):
            return
        host = target[0] if isinstance(target, tuple) else target
        if is_local(host):
            return
        with open(sys.refusals_log, "a", encoding="utf-8") as log:  # type: ignore[attr-defined]
            log.write(f"{event} {host!r} in {os.path.basename(sys.argv[0]) if sys.argv else '?'}\n")
        raise ConnectionRefusedError(f"tests reach no host but this machine, and this asked for {host!r}")

    sys.addaudithook(hook)


def _started_processes_refuse_too(folder, log):
    """Put a `sitecustomize` with the same refusal before every Python that the tests start."""
    source = f"{inspect.getsource(refuse_network)}\n\nrefuse_network({str(log)!r})\n"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source, encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([inherited] if inherited else [])])


def _own_homes(folder):
    """Forget the caller's settings: tests write into `folder` and ask no server that is already running."""
    for name in [name for name in os.environ if name.startswith(("ANSWERKEY_", "PREFECT_"))]:
        del os.environ[name]
    os.environ["ANSWERKEY_HOME"] = str(folder / "answerkey")
    os.environ["PREFECT_HOME"] = str(folder / "prefect")


def _keep_bytecode():
    """As Python does where nobody forbids it: else each process that the tests start compiles what it imports."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


# At import and not in a fixture: the test modules import the libraries while pytest collects them.
SESSION = Path(tempfile.mkdtemp(prefix="answerkey-tests-"))
ATTEMPTS = SESSION / "network-attempts.txt"
ATTEMPTS.touch()
# Registered before any library registers its own clean-up, so it runs after a temporary server has stopped.
atexit.register(shutil.rmtree, SESSION, ignore_errors=True)
_own_homes(SESSION)
_keep_bytecode()
_started_processes_refuse_too(SESSION / "site", ATTEMPTS)
refuse_network(str(ATTEMPTS))

settings.register_profile(
    "answerkey",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("answerkey")


class _Attempts:
    """What the refusals wrote down, in this process and in those it started; each line is given once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def take(self) -> list[str]:
        with self._path.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        return new.decode("utf-8").splitlines()

    def check(self) -> None:
        lines = self.take()
        if lines:
            pytest.fail("the network was asked for:\n" + "\n".join(lines), pytrace=False)


_attempts = _Attempts(ATTEMPTS)


@pytest.fixture(scope="session", autouse=True)
def _no_network_at_the_end():
    """Set up before every other session fixture, so it looks after all of them were torn down."""
    yield
    _attempts.check()


@pytest.fixture(autouse=True)
def _no_network():
    yield
    _attempts.check()


@pytest.fixture(scope="session", autouse=True)
def _new_homes_are_copies(tmp_path_factory):
    """To make the tables of a home takes longer than most of what tests do with it, so it is done once."""
    empty = warehouse.WarehouseFile(tmp_path_factory.mktemp("empty-home"))
    with empty.writing():
        pass
    attach = warehouse._attach

    def attach_copy(instance, file, *others):
        if not file.exists():
            shutil.copy(empty.file, file)
        attach(instance, file, *others)

    def connect(database=":memory:", read_only=False, config=None):
        return connect_with(database, read_only, {"threads": 1, **(config or {})})

    # With several threads, one waits for the others at work, and takes as much CPU as they do
    connect_with = duckdb.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connect)
        patch.setattr(warehouse, "_attach", attach_copy)
        yield


@pytest.fixture(autouse=True)
def unknown_models(monkeypatch):
    """A server's port may have been that of an earlier test's server, of which this process has learned much."""
    monkeypatch.setattr(client, "_limiters", {})
    client.learned_of.cache_clear()


@pytest.fixture
def network_attempts():
    """Take the attempts on record, for a test that makes some on purpose."""
    return _attempts.take


@pytest.fixture(scope="session")
def shared():
    """The folder of shared data and golden cases beside the repository."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared is not beside the repository")
    return folder


@pytest.fixture(scope="session")
def warm_command():
    """Runs the command line without the seconds of its imports."""
    warm = WarmCommand()
    yield warm
    warm.stop()


@pytest.fixture(scope="session")
def postgres_server():
    """PostgreSQL, started by the first test that asks for it."""
    try:
        postgres_binaries()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server, monkeypatch):
    """A new database, as text for libpq without the password, which is in the file that PGPASSFILE names."""
    monkeypatch.setenv("PGPASSFILE", str(postgres_server.pgpass))
    with postgres_server.database() as conninfo:
        yield conninfo


@pytest.fixture(scope="session")
def s3_server():
    """An S3 server, started by the first test that asks for it."""
    server = SeaweedFS()
    yield server
    server.close()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The address of a new bucket, `s3://BUCKET`; its server and keys are in the variables AWS_*."""
    for name, value in s3_server.environment_of_clients.items():
        monkeypatch.setenv(name, value)
    with s3_server.bucket() as bucket:
        yield f"s3://{bucket}"


@pytest.fixture
def lake(postgres_server, s3_server, monkeypatch):
    """A new home in a bucket, as the text for --home; its catalog and its keys are in the environment."""
    with new_lake(postgres_server, s3_server) as address:
        yield address
        # What the test has set goes first, or it would bring the lake's own settings back
        monkeypatch.undo()


@pytest.fixture(params=["folder", "lake"])
def any_home(request, tmp_path):
    """A home of each kind, with nothing in it."""
    return Home.parse(request.getfixturevalue("lake")) if request.param == "lake" else Home(tmp_path / "home")
