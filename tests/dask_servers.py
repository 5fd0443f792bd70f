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
from typing import Any

from tests.cluster_servers import Server, free_ports

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


class Scheduler(_Alone):
    """The scheduler. A worker's death is blamed on a shard at most once, so that tests need few deaths."""

    name = "dask"

    def __init__(self) -> None:
        super().__init__({"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"})
        [self.port] = free_ports(1)
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

    def workers(self) -> dict[str, Any]:
        """The workers by their addresses, as the scheduler has them."""
        from distributed import Client

        with Client(self.address.replace("dask", "tcp"), set_as_default=False) as client:
            found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            return found


class Worker(_Alone):
    """A nanny and its worker, of one thread. It has started when the scheduler has it."""

    name = "dask-worker"

    def __init__(self, scheduler: Scheduler, *options: str, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables)
        self.scheduler = scheduler
        self.options = options or ("--nthreads", "1", "--resources", RESOURCES)
        self.start()

    def command(self) -> Sequence[str]:
        return self.alone(
            "distributed.cli.dask_worker", f"tcp://127.0.0.1:{self.scheduler.port}", "--host", "127.0.0.1",
            "--no-dashboard", "--local-directory", str(self.home), "--name", self.folder.name, *self.options,
        )  # fmt: skip

    def answers(self) -> bool:
        return "Registered to" in self.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The process that scores, below the nanny, as it is now."""
        [found] = [one["pid"] for one in self._about() if one["pid"]]
        return int(found)

    def _about(self) -> list[dict[str, Any]]:
        from distributed import Client

        with Client(self.scheduler.address.replace("dask", "tcp"), set_as_default=False) as client:
            names = {address: one["name"] for address, one in client.scheduler_info(n_workers=-1)["workers"].items()}
            return [
                {"pid": pid} for address, pid in client.run(os.getpid).items() if names[address] == self.folder.name
            ]


class DaskCluster:
    """A scheduler and workers; `address` is what `--runner` takes."""

    def __init__(self, n_workers: int = 2) -> None:
        self.scheduler = Scheduler()
        self.workers = [Worker(self.scheduler) for _ in range(n_workers)]

    @property
    def address(self) -> str:
        """As `--runner` takes it."""
        return self.scheduler.address

    def close(self) -> None:
        """End all of them."""
        for one in (*self.workers, self.scheduler):
            one.close()
