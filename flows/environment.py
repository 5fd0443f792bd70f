"""Settings that libraries read when they are imported: no telemetry, no look-ups, no chatter."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from answerkey.tasks.server import has_server, kept_server, server_address

if TYPE_CHECKING:
    from answerkey.tasks.warehouse.home import Home

_QUIET = {
    # Each of these libraries would otherwise look for a host when it is imported or first used.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # The second user interface asks a host abroad for settings of its own, whatever else is switched off.
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    # Its server, which asks nobody who they are, answers pages of every origin otherwise, and takes what they send: any
    # page that is open in a browser on this machine could start runs. See `prefect_server` for what these two leave.
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "http://127.0.0.1:4200",
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    # A heartbeat, so that a run that died silently can be recognised.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
}


def quiet() -> None:
    """Switch off what libraries would send or fetch, where the user has not decided otherwise."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if os.environ.get("PREFECT_API_URL") == "":
        # Prefect takes an empty address for an address, and complains with every event.
        del os.environ["PREFECT_API_URL"]
    if "prefect" not in sys.modules and (address := server_address()):
        # Else files of the working folder would come before the user's profile.
        os.environ["PREFECT_API_URL"] = address


def use_kept_server(home: Home) -> None:
    """Use the Prefect server that `answerkey serve` keeps for the home, unless the user has named one.

    Call before Prefect is imported. Without a server nothing of Prefect takes part.
    """
    if not has_server() and (address := kept_server(home.local)):
        os.environ["PREFECT_API_URL"] = address


def printable(text: str) -> str:
    """Text in which names from data may stand, as one line: white space as spaces, and `visible`."""
    from answerkey.tasks.publish.escape import visible

    return re.sub(r"\s", " ", visible(text))


class PrintableLines(logging.Formatter):
    """Messages as they are, each of their lines printable."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging."""
        return "\n".join(map(printable, super().format(record).split("\n")))


DETAIL = {"detail": True}
"""Marks a line of the log that a Prefect server shows, and a terminal does not: a command ends with what it says."""


@contextmanager
def running(home: Home, *, quiet: bool = True) -> Iterator[None]:
    """Around a command's import and call of a flow: its server, its log on standard error, and signals.

    Args:
        home: its server, if `answerkey serve` keeps one, takes part unless the user has named another.
        quiet: show only warnings.
    """
    use_kept_server(home)
    from answerkey.metrics_core.progress import is_news

    # Our own lines say what happens; Prefect's go to its server, where they belong.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableLines("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    handler.addFilter(is_news)
    handler.addFilter(lambda record: not getattr(record, "detail", False))
    logger = logging.getLogger("answerkey")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with started_here():
            yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def started_here() -> Iterator[None]:
    """Around the import and the call of a flow: heeds signals, and on a server tags the run."""
    from answerkey.flows.prefect_or_local import tagged

    # Else Prefect writes the address of the server, with a password that may be in it, where it cannot send a log.
    logging.raiseExceptions = not has_server()
    with tagged(), _signals():
        yield


_told_to_end: list[int] = []
"""Signals that this process was sent meanwhile."""


def raise_if_interrupted() -> None:
    """End a run that was told to end, where the exception that said so was caught by something else: Python ignores
    exceptions in callbacks, of which each import has some."""
    if _told_to_end:
        raise KeyboardInterrupt(_told_to_end[0])


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signal.SIGINT: _end, signal.SIGTERM: _end}
    # What was ignored from the start is to be ignored.
    old_handlers = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    old_hook = sys.unraisablehook
    sys.unraisablehook = _say_ignored
    try:
        yield
    finally:
        sys.unraisablehook = old_hook
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        _told_to_end.clear()


def _say_ignored(ignored: sys.UnraisableHookArgs) -> None:
    # A signal that came in a callback is heeded at the next step.
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)


def _end(number: int, _frame: object) -> None:
    _told_to_end.append(number)
    raise KeyboardInterrupt(number)
