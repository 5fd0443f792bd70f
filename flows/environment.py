"""Settings that libraries read when they are imported: no telemetry, no look-ups, no chatter."""

from __future__ import annotations

import logging
import os
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
    # Its server, which asks nobody who they are, answers pages of every origin otherwise: any page that is open in a
    # browser on this machine could start runs. Its own pages are of the origin that they ask.
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "http://127.0.0.1:4200",
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


def prepare(home: Home) -> None:
    """Make the folder of the home, and use the Prefect server that `answerkey serve` keeps for it, unless the user has
    named one.

    Call before Prefect is imported. Without a server nothing of Prefect takes part.

    Raises:
        UserError: the folder of the home cannot be made.
    """
    if has_server():
        return
    from answerkey.tasks.warehouse.warehouse import made

    made(home.local)
    use_kept_server(home)


def use_kept_server(home: Home) -> None:
    """As `prepare`, and make nothing: for commands that ask the server, and start no run."""
    if not has_server() and (address := kept_server(home.local)):
        os.environ["PREFECT_API_URL"] = address


def printable(text: str) -> str:
    """Text in which names from data may stand, without what could move the cursor or turn the writing round."""
    # A joiner belongs to the spelling of Persian and of emoji.
    return "".join(
        char if char.isprintable() or char in "\u200c\u200d" else " " if char.isspace() else "�" for char in text
    )


class PrintableLines(logging.Formatter):
    """Messages as they are, each of their lines printable."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging."""
        return "\n".join(map(printable, super().format(record).split("\n")))


def prepare_run(home: Home, *, quiet: bool) -> None:
    """Set up a run that is started here: its server, and its progress on standard error unless `quiet`."""
    from answerkey.metrics_core.progress import is_news

    prepare(home)
    # Our own lines say what happens; Prefect's go to its server, where they belong.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableLines("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    handler.addFilter(is_news)
    logger = logging.getLogger("answerkey")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@contextmanager
def started_here() -> Iterator[None]:
    """Around the import and the call of a flow: heeds signals, and on a server tags the run."""
    from answerkey.flows.orchestration import tagged

    # Else Prefect writes the address of the server, with a password that may be in it, where it cannot send a log.
    logging.raiseExceptions = not has_server()
    with tagged(), _signals():
        yield


_told_to_end: list[int] = []
"""Signals that this process was sent meanwhile."""


def heed_signals() -> None:
    """End a run that was told to end, where the exception that said so was caught by something else: Python ignores
    exceptions in callbacks, of which each import has some."""
    if _told_to_end:
        raise KeyboardInterrupt(_told_to_end[0])


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does; Ctrl-Z leaves no claim in the ledger that others would have to wait for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signal.SIGINT: _end, signal.SIGTERM: _end, signal.SIGTSTP: _pause}
    # What was ignored from the start is to be ignored.
    before = {number: signal.signal(number, handler) for number, handler in handlers.items() if _heeded(number)}
    say_ignored, sys.unraisablehook = sys.unraisablehook, _say_ignored
    try:
        yield
    finally:
        sys.unraisablehook = say_ignored
        for number, handler in before.items():
            signal.signal(number, handler)
        _told_to_end.clear()


def _say_ignored(ignored: sys.UnraisableHookArgs) -> None:
    # A signal that came in a callback is heeded at the next step.
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)


def _heeded(number: signal.Signals) -> bool:
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def _end(number: int, _frame: object) -> None:
    _told_to_end.append(number)
    raise KeyboardInterrupt(number)


def _pause(_number: int, _frame: object) -> None:
    # Where no model is asked, there is no such module.
    loop = sys.modules.get("answerkey.metrics_core.llm.loop")
    stand_still = loop.pause if loop else lambda stop: stop()
    stand_still(_stop_this_process)


def _stop_this_process() -> None:
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        os.kill(os.getpid(), signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, handler)
