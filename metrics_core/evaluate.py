"""Score samples with metrics, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from typing import Any, ParamSpec, TypeVar

from answerkey.metrics_core import frame
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metric import Metric, measured
from answerkey.metrics_core.registry import DEFAULT_METRICS, MetricLike, create
from answerkey.metrics_core.result import Result
from answerkey.metrics_core.sample import Sample

P = ParamSpec("P")
R = TypeVar("R")


def evaluate(
    samples: Any,
    metrics: Iterable[MetricLike] | None = None,
    *,
    workers: int = 1,
    **options: object,
) -> Result:
    """Score every sample with every metric.

    Args:
        samples: what to score, the answers of one release: an iterable of `Sample`, or a data frame (pandas, polars,
            Arrow) whose columns are recognised by their names. Samples with one id are answers to one question.
        metrics: names from `METRICS`, specs (`x=my_package.metrics:Politeness(threshold=.9)`), metrics such as
            `RougeL()`, classes of metrics, functions of an answer and its references. When not given:
            `DEFAULT_METRICS`; unless `judge` names a model, the judge is the offline one.
        workers: processes for the lexical metrics. More than one needs the usual `if __name__ ==
            "__main__":` guard in scripts, since processes are spawned.
        options: options of the metrics that are not given as an object, for instance
            `profile="continuous_eval_v0_3"` or `judge=JudgeOptions(judges=["openai/gpt-4o-mini"])`.

    Returns:
        One measurement per metric and sample, metric by metric, in the order of `metrics` and `samples`: a list that
        also has `summary()`, `to_pandas()`, `worst()`, `compare(baseline)` and `plot()`.

    Raises:
        UserError: a data frame has no such columns, an id twice, or the answers of several releases; a metric is not
            known; an option is not known or out of its range, or no metric here has it.

    >>> [m] = evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])
    >>> m.values["match"]
    1.0
    """
    samples = _samples(samples)
    if isinstance(metrics, str):
        raise UserError(f"metrics is the text {metrics!r}; give a list: metrics=[{metrics!r}]")
    # One budget for all metrics of this call.
    run = uuid.uuid4().hex
    chosen = [_of_run(metric, run) for metric in create(DEFAULT_METRICS if metrics is None else metrics, **options)]
    if workers > 1 and len(samples) > 1:
        return Result(_in_processes(samples, chosen, workers), samples, chosen)
    return Result((measurement for metric in chosen for measurement in measured(metric, samples)), samples, chosen)


def _samples(given: Any) -> list[Sample]:
    if isinstance(given, Sample):
        raise UserError("a single sample; give a list of samples, or a data frame")
    if (found := frame.samples(given)) is not None:
        return found
    found = list(given) if isinstance(given, Iterable) else [given]
    for one in found:
        if not isinstance(one, Sample):
            raise UserError(f"to be scored: samples, or a data frame, not {type(one).__name__}; see answerkey.Sample")
    return found


def _of_run(metric: Metric, run: str) -> Metric:
    if not isinstance(metric, JudgeMetric) or metric.access.run:
        return metric
    return replace(metric, access=replace(metric.access, run=run))


def _in_processes(samples: list[Sample], metrics: list[Metric], workers: int) -> list[Measurement]:
    size = -(-len(samples) // (workers * 4))
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    made: list[Measurement] = []
    with spawned_pool(workers) as pool:
        for metric in metrics:
            if metric.workload == "lexical":
                check_portable(metric)
                parts = pool.map(partial(measured, metric), chunks)
                made.extend(measurement for part in parts for measurement in part)
            else:
                made.extend(measured(metric, samples))
    return made


def check_portable(metric: Metric) -> None:
    """See to it that a metric can be sent to another process.

    Raises:
        UserError: it cannot, for instance since it is defined within a function.
    """
    try:
        pickle.loads(pickle.dumps(metric))
    except Exception as error:
        raise UserError(
            f"metric {metric.name} cannot be sent to another process ({error}): define it at the top level of a module"
        ) from error


def spawned_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of `workers` processes that end when this one does, however it ends.

    Spawned, not forked: a fork of a process with threads (torch, an orchestrator) can hang.
    """
    return _Pool(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        # This may start a process, which inherits that it is deaf to Ctrl-C until it is ready to end by it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _start_executor_manager_thread(self) -> None:
        super()._start_executor_manager_thread()
        manager: Any = self._executor_manager_thread
        if not hasattr(manager, "_terminate_broken"):
            # Python 3.11 ends a broken pool while others may still submit to it: their calls would never be answered,
            # and a process started for them would never end.
            manager._terminate_broken, lock = manager.terminate_broken, self._shutdown_lock

            def terminate_broken(cause: object) -> None:
                with lock:
                    pool = manager.executor_reference()
                    if pool is not None:
                        pool._broken = "a process of the pool ended abruptly"
                del pool
                manager._terminate_broken(cause)

            manager.terminate_broken = terminate_broken


def _end_with_parent() -> None:
    # Ctrl-C is for every process of a terminal. What it means is said by the parent: no traceback for each worker.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # The workers of a parent that was killed would otherwise wait for its next call for ever.
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
