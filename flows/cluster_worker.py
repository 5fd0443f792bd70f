"""What the workers of a Dask cluster run, without Prefect and without knowing the machine of the driver."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric, check
from answerkey.metrics_core.metric import Workload
from answerkey.tasks.load.shard import SourceShard, stage_shard
from answerkey.tasks.reports.commit_shard import CommitShard, write_commit
from answerkey.tasks.reports.manifest import code_revision, versions
from answerkey.tasks.reports.scores import ScoresShard, write_scores
from answerkey.tasks.score.keys import key
from answerkey.tasks.score.score import score
from answerkey.tasks.score.shard import Shard
from answerkey.tasks.validate.measures import MeasuredShard, measure_shard
from answerkey.tasks.warehouse.home import Home

TOPIC = "answerkey"
"""The events by which workers tell drivers what they log."""

RESOURCES: Mapping[Workload, str] = {"semantic": "model", "judge": "judge"}
"""What a worker must offer to get such a shard: `dask worker ... --resources "model=1 judge=1"`."""

AnyShard = Shard | MeasuredShard | SourceShard | CommitShard | ScoresShard
"""Rows to score, rows of a source to load, or rows of a commit or of reports to write."""

OTHER_WORK: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    MeasuredShard: ("load", measure_shard),
    SourceShard: ("load", stage_shard),
    CommitShard: ("write a commit", write_commit),
    ScoresShard: ("write scores", write_scores),
}
"""By the kind of a shard other than one to score: what working on it is called, and what does it."""

_log = logging.getLogger("answerkey")


@cache
def fingerprint() -> Mapping[str, str]:
    """What numbers depend on in this installation: versions of libraries, and the scoring code itself."""
    import pyarrow as pa

    return {**versions(), "pyarrow": pa.__version__, "the scoring code": code_revision()}


def work_here(pickled: bytes, expected: Mapping[str, str], run: str) -> None:
    """Work on a shard in this worker's process, which has one thread; its part is in the store afterwards.

    The shard comes pickled, so that the scheduler need not import the metrics of users. The key of its judges is
    looked up here. What is logged meanwhile goes to `TOPIC`, marked with the id `run`.

    Raises:
        UserError: this worker is not installed as the driver is, cannot import a metric, or cannot ask a judge.
        Cancelled: the driver, or the scheduler, wants it no more.
    """
    if problem := difference(fingerprint(), expected):
        raise UserError(f"worker {_address()}: {problem}; use one image for all of them")
    with _told(run):
        shard = _loaded(pickled)
        if isinstance(shard, Shard):
            score(shard, spawn=False, stopped=_unwanted())
        else:
            OTHER_WORK[type(shard)][1](shard)


def _unwanted() -> Callable[[], bool]:
    """Whether this task was cancelled, or this worker has lost its scheduler, since it began.

    Dask goes on as if nothing had been where a task is wanted again; but what was not asked meanwhile is missing.
    """
    from distributed import Status, get_worker

    worker = get_worker()
    key = worker.get_current_task()
    gone = (Status.closing, Status.closed, Status.failed)
    cancelled = False

    def unwanted() -> bool:
        nonlocal cancelled
        task = worker.state.tasks.get(key)
        cancelled = cancelled or task is None or task.state != "executing" or worker.status in gone
        return cancelled

    return unwanted


def not_ready(home: str, token: str, pickled: bytes, dask_worker: Any = None) -> str:
    """Why this worker cannot score shards of the home, in one sentence; empty if it can.

    Args:
        home: the address of the home; `token` is a file that the driver has just put into its store.
        pickled: the metrics, each with the place where the key of its judges is.
        dask_worker: this worker, as Dask fills it in; it asks judges if it offers `judge`.
    """
    try:
        if not Home.parse(home).store.exists(token):
            return f"it does not see the files in {home}: a home for several machines is s3://BUCKET/PREFIX"
        asks = dask_worker.state.total_resources.get(RESOURCES["judge"])
        for metric, key_from in pickle.loads(pickled):
            if asks and isinstance(metric, JudgeMetric) and metric.workload == "judge":
                check(metric.judge, key(key_from))
    except Exception as error:
        return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return ""


def difference(found: Mapping[str, str | None], expected: Mapping[str, str | None]) -> str:
    """The first thing that is installed in another version than expected, as a clause; empty if there is none.

    >>> difference({"duckdb": "1.5.4"}, {"duckdb": "1.5.5"})
    'it has duckdb 1.5.4, and the run duckdb 1.5.5'
    """
    for name, version in expected.items():
        if found.get(name) != version:
            return f"it has {name} {found.get(name) or 'not installed'}, and the run {name} {version}"
    return ""


def _loaded(pickled: bytes) -> AnyShard:
    try:
        shard: AnyShard = pickle.loads(pickled)
    except (ImportError, AttributeError) as error:
        raise UserError(f"worker {_address()} cannot import a metric: {error}; install its package there") from error
    return shard


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


@contextmanager
def _told(run: str) -> Iterator[None]:
    """Send what is logged to the driver."""
    handler, level = _Sender(run), _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


class _Sender(logging.Handler):
    def __init__(self, run: str) -> None:
        from distributed import get_worker

        super().__init__(logging.INFO)
        self._worker, self._run = get_worker(), run

    def emit(self, record: logging.LogRecord) -> None:
        told = {"level": record.levelno, "message": record.getMessage(), "run": self._run}
        self._worker.log_event(TOPIC, {**told, "worker": self._worker.address})
