"""Score on the workers of a Dask scheduler, by Prefect's own task runner for it (the extra `cluster`).

The workers read shards from the home of the run, write parts into it, and report to the Prefect server of the run.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from answerkey.metrics_core.errors import UserError
from answerkey.tasks.server import server_address, within_run
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from distributed import Client, Event

R = TypeVar("R")

_PATIENCE_S = 5
"""For a scheduler, or its workers, to answer."""


def check_runner(runner: str, home: Home) -> None:
    """Find out whether the workers of a Dask scheduler can score for a run, before anything is loaded.

    Args:
        runner: address of the scheduler, as in `tcp://10.0.0.5:8786`; empty: this machine scores.
        home: home of the run.

    Raises:
        UserError: no Prefect server takes part, or workers cannot reach it or the home; there is no scheduler at the
            address, it has no worker, or one without answerkey.
    """
    if not runner:
        return
    if not within_run():
        raise UserError(
            f"runner {runner}: workers report to a Prefect server, and none takes part; name it in PREFECT_API_URL, "
            "or leave the runner out"
        )
    if missing := _out_of_reach(runner, server_address(), home):
        raise UserError(f"runner {runner}: workers on other machines {missing}")
    try:
        from distributed import Client
    except ImportError:
        raise UserError(f"runner {runner} needs the extra cluster: pip install 'answerkey[cluster]'") from None
    try:
        with Client(runner, timeout=_PATIENCE_S, set_as_default=False) as client:
            workers = client.run(_is_ready)
    except OSError as error:
        raise UserError(f"runner {runner}: no Dask scheduler answers at this address: {error}") from None
    except ImportError as error:
        raise UserError(f"runner {runner}: a worker lacks what scoring needs: {error}") from None
    if not workers:
        raise UserError(f"runner {runner}: the scheduler has no worker; start some with `dask worker {runner}`")


def _out_of_reach(runner: str, server: str, home: Home) -> str:
    """What workers on other machines than this one cannot reach; empty where all is well.

    >>> _out_of_reach("tcp://10.0.0.5:8786", "http://127.0.0.1:4200/api", Home.parse("work"))
    'cannot reach the Prefect server at 127.0.0.1:4200; set PREFECT_API_URL to an address that they can reach'
    >>> _out_of_reach("tcp://10.0.0.5:8786", "http://10.0.0.1:4200/api", Home.parse("work"))
    'need a home in a bucket, s3://BUCKET/PREFIX'
    >>> _out_of_reach("tcp://[::1]:8786", "http://127.0.0.1:4200/api", Home.parse("work"))
    ''
    """
    if _is_loopback(urlsplit(runner).hostname):
        return ""
    address = urlsplit(server)
    if _is_loopback(address.hostname):
        return (
            f"cannot reach the Prefect server at {address.netloc}; set PREFECT_API_URL to an address that they can "
            "reach"
        )
    return "" if home.shared else "need a home in a bucket, s3://BUCKET/PREFIX"


def _is_loopback(host: str | None) -> bool:
    """Whether only this machine can reach a server or scheduler at this name or address."""
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _is_ready() -> bool:
    """On a worker: True, if answerkey is installed there."""
    return True


class StopSign:
    """Tells tasks on other machines that their run has ended; `set` and `is_set` are as in `threading.Event`."""

    def __init__(self, client: Client | None = None) -> None:
        from distributed import Event

        self._name = f"answerkey-{uuid.uuid4()}"
        self._event: Event | None = Event(self._name, client=client)
        _signs.append(self)

    def __getstate__(self) -> dict[str, object]:
        return {"_name": self._name, "_event": None}

    def set(self) -> None:
        """Say that the run has ended."""
        self._connected().set()

    def is_set(self) -> bool:
        """Whether the run has ended. On a worker, the first call has to come from the thread of the task."""
        return bool(self._connected().is_set())

    def _connected(self) -> Event:
        from distributed import Event

        if self._event is None:
            self._event = Event(self._name)
        return self._event


_signs: list[StopSign] = []


def stop_workers() -> None:
    """Stop what workers do for the runs of this process, which is about to end without a word to anybody."""
    for sign in _signs:
        # A scheduler that is gone has no worker to stop
        with suppress(Exception):
            sign.set()


def on_workers(runner: str, work: Callable[[StopSign], R]) -> R:
    """Call `work` in a flow of its own, whose submitted tasks run on the workers of the scheduler at `runner`."""
    from prefect import flow
    from prefect.context import FlowRunContext
    from prefect_dask.task_runners import DaskTaskRunner

    on_scheduler: Any = DaskTaskRunner(address=runner)

    @flow(
        name="score-on-dask",
        flow_run_name=f"score on {runner}",
        task_runner=on_scheduler,
        retries=0,
        persist_result=False,
    )
    def score_on_dask() -> R:
        context: Any = FlowRunContext.get()
        return work(StopSign(context.task_runner.client))

    return score_on_dask()
