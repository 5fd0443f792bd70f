"""A flow run that is started from the command line: where its files go, and what is printed while it works."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from answerkey.flows import environment
from answerkey.tasks.dead_runs import TAG
from answerkey.tasks.publish.server import has_server
from answerkey.tasks.warehouse.home import Home


def prepare_run(home: Home, *, quiet: bool) -> None:
    """Settings that must stand before Prefect is imported, and progress on standard error unless `quiet`."""
    environment.prepare(home)
    # Our own lines tell the user what happens; Prefect's go to its server, where they belong.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    logger = logging.getLogger("answerkey")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@contextmanager
def started_here() -> Iterator[None]:
    """Around the call of a flow: says what takes long, and gives the run the tag by which housekeeping knows it."""
    if not has_server():
        logging.getLogger("answerkey").info(
            "starting a temporary Prefect server (10 to 20 seconds; PREFECT_API_URL names one that runs)"
        )
    from prefect import tags

    with tags(TAG):
        yield
