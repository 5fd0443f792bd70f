"""Load and score shards on the workers of a Dask cluster, which share nothing with this machine but the home."""

from __future__ import annotations

import logging
import pickle
import re
import socket
import time
import uuid
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from answerkey.flows.cluster_worker import RESOURCES, TOPIC, AnyShard, difference, fingerprint, not_ready, work_here
from answerkey.flows.parameters import LOCAL, RUNNER_PATTERN
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.evaluate import check_portable
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.metric import Metric, Workload
from answerkey.tasks.score.score import schedule_order
from answerkey.tasks.score.shard import Shard, portable
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.store import Unreachable

if TYPE_CHECKING:
    from distributed import Client, Future

_log = logging.getLogger("answerkey")
S = TypeVar("S", bound=AnyShard)

WORKER = 'dask worker tcp://HOST:PORT --nthreads 1 --no-dashboard --resources "model=1 judge=1"'
"""How a worker is started."""

_RETRIES = 2
_CONNECT_S = 10.0
_TICK_S = 1.0
_EASY = ("answerkey", "duckdb", "pyarrow")
"""What a scheduler, which scores nothing, must have in the same version as the workers."""


class WorkersDied(Exception):
    """Whatever worker scored a shard died of it."""


class NoWorker(Exception):
    """No worker takes such a shard any more."""


class _Lost(Exception):
    """The scheduler has forgotten what it was asked."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers of the Dask scheduler at `address`: dask://HOST:PORT, or dask+tls:// if it asks for certificates.

    A scheduler, or workers, that went away are waited for as long as `patience_s`.
    """

    address: str
    patience_s: float = 300.0

    def check(self, home: Home, needs: Iterable[tuple[Metric, str]]) -> None:
        """See to it, before anything slow starts, that the workers can score the metrics in `needs`.

        Each comes with the place where the key of its judges is.

        Raises:
            UserError: Dask is not installed, nothing answers at the address, there are no workers, something is
                installed in another version there, the workers do not see the home or cannot ask a judge, or none
                offers what a metric needs.
        """
        needs = list(needs)
        for metric, _ in needs:
            check_portable(metric)
        with self.connected() as client:
            workers = workers_of(client)
            problem = self.unfit(workers) or self.unlike(client)
            for metric, _ in needs:
                need = RESOURCES.get(metric.workload, "")
                if not problem and need and not offered(workers, need):
                    problem = f"no worker offers the resource {need}, which {metric.name} needs; start some: {WORKER}"
            if problem := problem or self.not_ready(client, home, needs):
                raise UserError(f"{self.address}: {problem}")

    def run(self, shards: Sequence[S]) -> Generator[tuple[S, str | Exception]]:
        """Work on shards; yields each as it ends, with its part or with the reason why there is none.

        What a lost worker was scoring is scored by another. Closing the iterator cancels what has not ended: workers
        ask judges nothing more, and wait for the calls in flight.

        Raises:
            UserError: as `check`.
            Unreachable: the scheduler is gone for good.
        """
        return _Run(self, shards).outcomes()

    @contextmanager
    def connected(self) -> Iterator[Client]:
        """A client of the scheduler.

        Raises:
            UserError: Dask is not installed, or nothing answers.
        """
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError(f"{self.address}: Dask is not installed; run: pip install 'answerkey[cluster]'") from error
        # What it has to say is said by us, in one line each.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        tcp = self.address.replace("dask+tls", "tls").replace("dask", "tcp")
        try:
            # Dask would try a port that nobody listens on until the time is up.
            host, _, port = tcp.rpartition("/")[2].rpartition(":")
            socket.create_connection((host, int(port)), _CONNECT_S).close()
            client = Client(tcp, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.address} does not answer as a Dask scheduler ({str(error) or type(error).__name__}); start one "
                "with `dask scheduler`, or correct --runner"
            ) from error
        try:
            yield client
        finally:
            client.close(timeout=_CONNECT_S)

    def unfit(self, workers: Mapping[str, Any]) -> str:
        """Why nothing can be scored by such workers, as a clause; empty if it can."""
        if not workers:
            return f"the scheduler has no workers; start some: {WORKER}"
        for address, worker in workers.items():
            if worker["nthreads"] != 1:
                return (
                    f"worker {address} has {worker['nthreads']} threads, which take turns; start it with --nthreads 1"
                )
        return ""

    def unlike(self, client: Client) -> str:
        """What is installed otherwise on the scheduler or on a worker than here, as a clause; empty if nothing is."""
        found: Any = client.get_versions(packages=_EASY)
        here = {name: found["client"]["packages"][name] for name in ("python", "distributed", *_EASY)}
        # The scheduler unpickles what it passes on, so it needs answerkey as well.
        for name, place in {"the scheduler": found["scheduler"], **found["workers"]}.items():
            if problem := difference(place["packages"], here):
                return f"{name}: {problem}; use one image for all of them"
        for name, there in client.run(fingerprint).items():
            if problem := difference(there, fingerprint()):
                return f"{name}: {problem}; use one image for all of them"
        return ""

    def not_ready(self, client: Client, home: Home, needs: Iterable[tuple[Metric, str]]) -> str:
        """Why a worker cannot score these metrics for the home, as a clause; empty if all can."""
        token = f"runs/{uuid.uuid4().hex}"
        pickled = pickle.dumps([(portable(metric), key_from) for metric, key_from in needs])
        with home.store.atomic_write(token) as file:
            file.touch()
        try:
            for address, problem in client.run(not_ready, home.address, token, pickled).items():
                if problem:
                    return f"worker {address}: {problem}"
        finally:
            home.store.remove(token)
        return ""


def cluster_at(address: str) -> Cluster | None:
    """The cluster that a form or the command line names; None for this machine.

    Raises:
        UserError: the address is neither `local` nor that of a Dask scheduler.
    """
    if address == LOCAL:
        return None
    if not re.fullmatch(RUNNER_PATTERN, address):
        # Not repeated: there may be a password in it.
        raise UserError("--runner: write local, or dask://HOST:PORT of a Dask scheduler")
    return Cluster(address)


def workers_of(client: Client) -> dict[str, Any]:
    """The workers by their addresses, each with `nthreads` and `resources`."""
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def offered(workers: Mapping[str, Any], resource: str) -> int:
    """How much of a resource the workers offer together."""
    return int(sum(worker["resources"].get(resource, 0) for worker in workers.values()))


class _Run(Generic[S]):
    """The shards of one run: those that wait, those that the cluster has, and those that workers died of.

    Dask blames the death of a worker on every shard that the worker holds, and gives up what was blamed too often. So
    the cluster gets hardly more shards than it has threads, and what it gave up is tried once more, alone.
    """

    def __init__(self, cluster: Cluster, shards: Sequence[S]) -> None:
        self._cluster = cluster
        self._id = uuid.uuid4().hex
        kinds: tuple[Workload, ...] = ("semantic", "judge", "offline", "lexical")
        self._waiting: dict[Workload, deque[S]] = {kind: deque() for kind in kinds}
        for shard in schedule_order(shards):
            self._waiting[shard.workload].append(shard)
        self._sent: dict[Future[None], S] = {}
        self._suspects: deque[S] = deque()
        self._alone: S | None = None
        self._askers = 0

    def outcomes(self) -> Generator[tuple[S, str | Exception]]:
        lost_at: float | None = None
        while self._left:
            try:
                with self._cluster.connected() as client:
                    try:
                        for outcome in self._on(client):
                            lost_at = None
                            yield outcome
                    finally:
                        self._take_back(client)
            except (_Lost, UserError) as error:
                if lost_at is None:
                    if isinstance(error, UserError):
                        raise
                    lost_at = time.monotonic()
                    _log.warning(f"{self._cluster.address}: the scheduler is gone; waiting for it")
                if time.monotonic() > lost_at + self._cluster.patience_s:
                    raise Unreachable(
                        f"{self._cluster.address}: the scheduler is gone, and did not come back within "
                        f"{self._cluster.patience_s:.0f} seconds; finished parts and paid replies are kept, "
                        "run the same command again"
                    ) from error
                time.sleep(1)

    @property
    def _left(self) -> bool:
        return bool(self._sent or self._suspects or any(self._waiting.values()))

    def _on(self, client: Client) -> Iterator[tuple[S, str | Exception]]:
        logged: SimpleQueue[tuple[float, Mapping[str, Any]]] = SimpleQueue()
        client.subscribe_topic(TOPIC, logged.put)
        workers: dict[str, Any] = {}
        served = dict.fromkeys(self._waiting, time.monotonic())
        while self._left:
            workers = _still_there(client, workers)
            room = self._room(workers)
            for kind in self._waiting:
                if room[kind] or not self._has(kind):
                    served[kind] = time.monotonic()
                elif time.monotonic() > served[kind] + self._cluster.patience_s:
                    yield from self._given_up(client, kind)
            self._send_some(client, room)
            for future in _done(client, self._sent):
                yield from self._ended(future)
            while not logged.empty():
                _, told = logged.get()
                if told["run"] == self._id:
                    _log.log(told["level"], f"{told['message']} (worker {told['worker']})")

    def _room(self, workers: Mapping[str, Any]) -> dict[Workload, int]:
        """How many shards of each kind the cluster gets at a time: of judges no more than calls are allowed at once.

        Kinds that wait share the workers: those that ask judges mostly wait for them.
        """
        self._askers = self._askers or offered(workers, RESOURCES["judge"])
        asking = min(offered(workers, RESOURCES["judge"]), self._askers)
        metrics = [shard.metric for shard in islice(self._waiting["judge"], 1) if isinstance(shard, Shard)]
        at_once = [metric.judge.concurrency for metric in metrics if isinstance(metric, JudgeMetric)]
        threads = len(workers)
        in_python = threads + 1 + threads // 4 if threads else 0
        room: dict[Workload, int] = {
            "semantic": offered(workers, RESOURCES["semantic"]),
            "judge": min([asking, *at_once]),
            "offline": in_python,
            "lexical": in_python,
        }
        kinds = sum(map(bool, self._waiting.values())) or 1
        return {kind: -(-most // kinds) for kind, most in room.items()}

    def _has(self, kind: Workload) -> bool:
        return bool(self._waiting[kind]) or any(shard.workload == kind for shard in self._sent.values())

    def _send_some(self, client: Client, room: Mapping[Workload, int]) -> None:
        for kind, waiting in self._waiting.items():
            free = room[kind] - sum(shard.workload == kind for shard in self._sent.values())
            for _ in range(min(free, len(waiting))):
                self._send(client, waiting.popleft())
        if self._suspects and not self._sent and not any(self._waiting.values()):
            self._alone = self._suspects.popleft()
            self._send(client, self._alone)

    def _send(self, client: Client, shard: S) -> None:
        sent: AnyShard = shard
        if isinstance(shard, Shard) and isinstance(shard.metric, JudgeMetric):
            share = max(1, shard.metric.judge.concurrency // max(1, self._askers))
            judge = shard.metric.judge.model_copy(update={"concurrency": share})
            sent = replace(shard, metric=replace(shard.metric, judge=judge))
        # Dask keeps what it learns of tasks by the first of the two, so that must not be the part.
        name = f"{shard.name}, alone" if shard is self._alone else shard.name
        resource = RESOURCES.get(shard.workload)
        future = client.submit(
            work_here, pickle.dumps(sent), fingerprint(), self._id,
            key=(name, shard.part), pure=False, retries=_RETRIES, resources={resource: 1} if resource else None,
        )  # fmt: skip
        self._sent[future] = shard

    def _ended(self, future: Future[None]) -> Iterator[tuple[S, str | Exception]]:
        from distributed import KilledWorker

        shard = self._sent.pop(future)
        error = future.exception() if future.status == "error" else None
        # A future that is held would be computed again if its worker went away, even after its part was committed.
        future.release()
        if isinstance(error, KilledWorker):
            if shard is not self._alone:
                self._suspects.append(shard)
                return
            n, last = error.allowed_failures + 1, error.last_worker.address
            error = WorkersDied(f"{n} workers died while they worked on it, the last one was {last}")
        yield shard, shard.part if error is None else error

    def _given_up(self, client: Client, kind: Workload) -> Iterator[tuple[S, str | Exception]]:
        sent = [future for future, shard in self._sent.items() if shard.workload == kind]
        client.cancel(sent)
        shards = [*(self._sent.pop(future) for future in sent), *self._waiting[kind]]
        self._waiting[kind].clear()
        for shard in shards:
            yield shard, NoWorker(f"for {self._cluster.patience_s:.0f} seconds there was no worker for it")

    def _take_back(self, client: Client) -> None:
        """Cancel what has not ended, so that it may be sent again."""
        if self._sent and client.status == "running":
            client.cancel(list(self._sent))
        for shard in self._sent.values():
            self._waiting[shard.workload].appendleft(shard)
        self._sent.clear()


def _still_there(client: Client, before: Mapping[str, Any]) -> dict[str, Any]:
    """The workers that there are now; those that there were `before` and that are gone are logged."""
    try:
        now = workers_of(client)
    except OSError as error:
        raise _Lost from error
    for address in before.keys() - now.keys():
        _log.warning(f"worker {address} is gone; another one takes over what it was working on")
    return now


def _done(client: Client, sent: Collection[Future[None]]) -> Collection[Future[None]]:
    """What has ended; waits a moment for the first."""
    from distributed import CancelledError, wait

    if not sent:
        time.sleep(_TICK_S)
        return ()
    try:
        with client.as_current():
            done: set[Future[None]] = wait(list(sent), timeout=_TICK_S, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        done = set()
    except CancelledError as error:
        raise _Lost from error
    if client.status != "running":
        raise _Lost
    return done
