"""The servers of the tests: nothing of them outlives a session that is killed."""

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from pyarrow import fs

from tests.cluster_servers import Postgres, SeaweedFS


def test_a_database_wants_its_password(postgres, monkeypatch):
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SHOW lc_messages").fetchall() == [("C",)]
        assert connection.execute("SHOW is_superuser").fetchall() == [("off",)]
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(postgres)


def test_a_bucket_wants_its_keys(s3, monkeypatch):
    bucket = s3.removeprefix("s3://")
    files = fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], region="us-east-1")
    with files.open_output_stream(f"{bucket}/a/b") as file:
        file.write(b"x")
    assert files.open_input_file(f"{bucket}/a/b").read() == b"x"
    strange = fs.S3FileSystem(
        access_key="AK", secret_key="SK", endpoint_override=os.environ["AWS_ENDPOINT_URL"], region="us-east-1"
    )
    with pytest.raises(OSError, match=r"ACCESS_DENIED|Access Denied|INVALID_ACCESS_KEY_ID"):
        strange.open_input_file(f"{bucket}/a/b")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is Linux's")
@pytest.mark.parametrize("kind", [Postgres, SeaweedFS])
def test_a_server_dies_with_the_process_that_started_it(kind):
    script = f"import sys; from tests.cluster_servers import {kind.__name__} as kind; server = kind()\n"
    script += "print(server.process.pid, server.folder, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as session:
        assert session.stdout is not None
        pid, folder = session.stdout.readline().split()
        watched = os.pidfd_open(int(pid))
        os.kill(session.pid, signal.SIGKILL)
    assert select.select([watched], [], [], 60)[0], "the server outlived its session"
    os.close(watched)
    shutil.rmtree(folder)
