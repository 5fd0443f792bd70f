"""A Dask cluster as a test session starts it: a scheduler, and workers that share nothing with it or each other.

Where the machine allows it, each has a mount namespace of its own, with its home in memory that nobody else sees.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster_servers import Server
from tests.kit.ports import free_port
from tests.kit.waiting import FAULT_S

if TYPE_CHECKING:
    from distributed import Client

ROOT = Path(__file__).resolve().parents[1]
RESOURCES = "model=1 judge=1"


@cache
def namespaces() -> bool:
    """Whether this machine lets us make mount namespaces."""
    if not shutil.which("unshare"):
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


class _Alone(Server):
    """A process of Dask. `variables` are those of its environment that tests choose."""

    def __init__(self, variables: dict[str, str] | None = None) -> None:
        super().__init__()
        self.variables = variables or {}

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{ROOT}", **self.variables}

    def alone(self, *words: str) -> Sequence[str]:
        """The command in a mount namespace of its own, where there are such."""
        command = [sys.executable, "-m", *words]
        if not namespaces():
            return command
        return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs tmpfs {self.home} && exec {shlex.join(command)}"]

    def start(self) -> None:
        # What is written there says when it has started.
        self.log.unlink(missing_ok=True)
        super().start()


class Scheduler(_Alone):
    """The scheduler. A worker's death is blamed on a shard at most once, so that tests need few deaths."""

    name = "dask"

    def __init__(self, **variables: str) -> None:
        super().__init__({"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1", **variables})
        self.port = free_port()
        self.start()

    @property
    def address(self) -> str:
        """As `--runner` takes it."""
        return f"dask://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return self.alone(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard",
            "--no-show",
        )  # fmt: skip

    def answers(self) -> bool:
        return "Scheduler at" in self.log.read_text(errors="replace")

    def client(self) -> Client:
        """A client of it, to be closed."""
        from distributed import Client

        return Client(self.address.replace("dask", "tcp"), set_as_default=False)


class Worker(_Alone):
    """A nanny and its worker, of one thread. It has started when the scheduler has it."""

    name = "dask-worker"
    host = "127.0.0.1"
    """Where the others reach it."""

    def __init__(self, scheduler: Scheduler, *options: str, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables)
        self.scheduler = scheduler
        self.options = options or ("--nthreads", "1", "--resources", RESOURCES)
        self.start()

    def command(self) -> Sequence[str]:
        return self.alone(
            "distributed.cli.dask_worker", f"tcp://127.0.0.1:{self.scheduler.port}", "--host", self.host,
            "--no-dashboard", "--local-directory", str(self.home), "--name", self.folder.name, *self.options,
        )  # fmt: skip

    def answers(self) -> bool:
        return "Registered to" in self.log.read_text(errors="replace")

    def has(self, address: str) -> bool:
        """Whether the process that scores, below the nanny, has this address now."""
        return address in self.log.read_text(errors="replace")


class DaskCluster:
    """A scheduler and two workers, which have the key of the judges; `address` is what `--runner` takes.

    `variables` are others of the workers' environment.
    """

    KEY = "sk-canary-worker-0123456789abcdef"

    def __init__(self, variables: dict[str, str] | None = None) -> None:
        self.scheduler = Scheduler()
        known = {**(variables or {}), "ANSWERKEY_JUDGE_KEY": self.KEY}
        self.workers = [Worker(self.scheduler, variables=known) for _ in range(2)]

    @classmethod
    def of_a_lake(cls) -> DaskCluster:
        """Workers that know nothing but how to reach the lake of this environment, and the key of the judges."""
        known = ("ANSWERKEY_CATALOG", "PGPASSFILE")
        return cls({name: value for name, value in os.environ.items() if name in known or name.startswith("AWS_")})

    @property
    def address(self) -> str:
        """As `--runner` takes it."""
        return self.scheduler.address

    def start_again(self) -> None:
        """Start everything anew, at the same address."""
        everybody = (self.scheduler, *self.workers)
        for one in everybody:
            one.kill()
        for one in everybody:
            one.start()

    def wait(self) -> None:
        """Until the scheduler has every worker again."""
        with self.scheduler.client() as client:
            client.wait_for_workers(len(self.workers), timeout=FAULT_S)

    def pids(self) -> dict[str, int]:
        """The processes that score, by their addresses."""
        with self.scheduler.client() as client:
            return dict(client.run(os.getpid))

    def tasks(self) -> list[str]:
        """The state of every task that a worker still has, as the worker itself sees it."""
        with self.scheduler.client() as client:
            found = client.run(lambda dask_worker: [task.state for task in dask_worker.state.tasks.values()])
        return [state for states in found.values() for state in states]

    def busy(self) -> list[str]:
        """The addresses of the workers that have a shard."""
        with self.scheduler.client() as client:
            return [address for address, keys in client.processing().items() if keys]

    def close(self) -> None:
        """End all of them. None has said the key of the judges."""
        everybody = (*self.workers, self.scheduler)
        told = [one.name for one in everybody if self.KEY in one.log.read_text(errors="replace")]
        for one in everybody:
            one.close()
        assert not told
