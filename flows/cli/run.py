"""A flow run that is started from the command line: where its files go, and what is printed while it works."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from answerkey.flows import environment
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.dead_runs import TAG
from answerkey.tasks.publish.server import has_server
from answerkey.tasks.warehouse.home import Home

# Of Linux, where alone the interface can be down like this: SIOCSIFFLAGS, and IFF_UP with IFF_RUNNING.
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41


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
        wake_loopback()
        logging.getLogger("answerkey").info(
            "starting a temporary Prefect server (10 to 20 seconds; PREFECT_API_URL names one that runs)"
        )
    from prefect import tags

    with tags(TAG):
        yield


def wake_loopback() -> None:
    """Bring up this machine's loopback interface, where Prefect's temporary server listens, if it is down.

    It is in a network namespace that was made to keep programs off the network (`unshare -n`).

    Raises:
        UserError: it is down, and this user may not change that.
    """
    with socket.socket() as probe:
        # Nobody need answer: that the address can be reached is all there is to know.
        if probe.connect_ex(("127.0.0.1", 9)) != errno.ENETUNREACH:
            return
        try:
            fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
        except OSError as error:
            raise UserError(
                "the loopback interface is down, and Prefect's temporary server needs it: run `ip link set lo up`"
            ) from error
