"""Processes beside this one. It imports nothing of the product, so that they start at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Executor

_LOOK_AT_PARENT_SECONDS = 1.0
_LOKY = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e9"}
"""Loky restarts a worker that has grown by this many bytes since its first call. An encoder takes more than the
default of 300 MB, and would be loaded twice."""


def spawned_pool(workers: int) -> Executor:
    """A pool of `workers` processes that end with this process, even if it is killed.

    Spawned, not forked: a fork of a process with threads (torch, an orchestrator) can hang. By loky, since the pool of
    Python 3.11 can also hang: where a worker dies while a call is submitted, that call is never answered.
    """
    from multiprocessing import resource_tracker

    from loky import ProcessPoolExecutor

    # Starting the tracker unblocks SIGINT in this thread (Python 3.11), so it starts before SIGINT is blocked.
    resource_tracker.ensure_running()
    # A worker inherits the blocked SIGINT, until it is ready to end by it. The first call starts all workers.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool: Executor = ProcessPoolExecutor(workers, initializer=_end_with_parent, initargs=(os.getpid(),), env=_LOKY)
        pool.submit(os.getpid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pool


def _end_with_parent(parent: int) -> None:
    # Ctrl-C is for every process of a terminal. What it means is said by the parent: no traceback for each worker.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # The workers of a parent that was killed would otherwise wait for its next call for ever.
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_AT_PARENT_SECONDS)
    os._exit(1)
