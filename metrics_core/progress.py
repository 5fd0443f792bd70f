"""Progress reports, through logging: without a handler, nothing happens."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOGGER = logging.getLogger("answerkey.progress")
"""The message of its records is an `Advance`. To show them, add a handler and set the level to INFO."""

HOW_FAR = {"how_far": True}
"""Marks log lines that only report progress."""

LOGGER.propagate = False


@dataclass(frozen=True, slots=True)
class Advance:
    """The progress of a task.

    Attributes:
        done: the units done so far; None if `more` counts those done since the last report.
        total: all units; None if not known.
        cost_usd: the cost since the last report, in US dollars.
    """

    what: str
    done: int | None = None
    total: int | None = None
    more: int = 0
    cost_usd: float = 0.0


def tell(advance: Advance) -> None:
    """Send a report to the handlers."""
    if LOGGER.handlers:
        LOGGER.info(advance)


def is_news(record: logging.LogRecord) -> bool:
    """A filter of log handlers: drops lines that only report progress if a handler shows progress anyway.

    Such lines are logged with `extra=HOW_FAR`.
    """
    return not (getattr(record, "how_far", False) and LOGGER.handlers)
