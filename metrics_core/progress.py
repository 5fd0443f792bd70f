"""How far work is, for whoever shows it: a terminal. As with logging, nothing happens where nobody listens."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOGGER = logging.getLogger("answerkey.progress")
"""Its records have an `Advance` as their message. Whoever shows them adds a handler and sets the level to INFO."""

HOW_FAR = {"how_far": True}
"""Marks a line of the log that only says how far the work is."""

LOGGER.propagate = False


@dataclass(frozen=True, slots=True)
class Advance:
    """What is worked on, and how far it is.

    Attributes:
        done: how much of `total` is done by now; None: `more` is done than before.
        total: how much there is, where that is known.
        cost_usd: what was spent on it since the last one.
    """

    what: str
    done: int | None = None
    total: int | None = None
    more: int = 0
    cost_usd: float = 0.0


def tell(advance: Advance) -> None:
    """Say it to whoever listens."""
    if LOGGER.handlers:
        LOGGER.info(advance)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the log says more than how far the work is, or nobody else says that: a filter of handlers.

    Records about that alone have `how_far` (`log.info(..., extra=HOW_FAR)`).
    """
    return not (getattr(record, "how_far", False) and LOGGER.handlers)
