"""Times of day in any form: "2 pm", "14:00", "2 in the afternoon", "noon"."""

from __future__ import annotations

import re

DAY, HALF_DAY = 24 * 60, 12 * 60
"""Minutes."""

_TIME = re.compile(
    r"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-3])"
    r"(?:(?P<colon>[:.])(?P<minute>[0-5]\d)(?::[0-5]\d)?)?"
    r"(?P<clock>\s?(?:o'clock|uhr)(?!\w))?"
    r"(?:\s?(?P<half>[ap])\.?\s?m(?!\w)\.?|\s(?:in the (?P<part>morning|afternoon|evening)|at (?P<night>night)))?"
    r"(?![\d:/-])"
)
_NAMED = re.compile(r"\b(?:(?P<noon>noon|midday)|midnight)\b")


def times(normal: str) -> list[frozenset[int]]:
    """Every time of day that a normalised text names: the minutes since midnight that each can mean.

    Without "am" or "pm" an hour from 1 to 12 is in the morning or in the afternoon.

    >>> [sorted(time) for time in times("from 2 p.m. to 16:30, or at 5 o'clock")]
    [[840], [990], [300, 1020]]
    """
    readings: list[frozenset[int]] = []
    for match in _TIME.finditer(normal):
        half = match["half"] or {"morning": "a", "afternoon": "p", "evening": "p"}.get(match["part"] or "")
        if not half and match["night"]:
            half = "p" if 6 <= int(match["hour"]) < 12 else "a"
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        if half and hour <= 12:
            readings.append(frozenset([hour % 12 * 60 + minute + (HALF_DAY if half == "p" else 0)]))
        elif match["colon"] == ":" or match["clock"]:
            minutes = hour % 24 * 60 + minute
            is_24_hour = hour > 12 or match["hour"].startswith("0")
            readings.append(frozenset([minutes] if is_24_hour else [minutes, (minutes + HALF_DAY) % DAY]))
    readings += [frozenset([HALF_DAY if match["noon"] else 0]) for match in _NAMED.finditer(normal)]
    return readings


def without_times(normal: str) -> str:
    """A normalised text without the times of day in it.

    >>> without_times("at 2 pm, on monday")
    'at  , on monday'
    """
    return _NAMED.sub(" ", _TIME.sub(" ", normal))
