"""Worker processes for work that one interpreter cannot do twice at once."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def spawned_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of `workers` processes that end when this one does, however it ends.

    Spawned, not forked: a fork of a process with threads (torch, an orchestrator) can hang.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)


def _end_with_parent() -> None:
    # The workers of a parent that was killed would otherwise wait for its next call for ever.
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
