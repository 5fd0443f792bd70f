"""How many things a question asks."""

from __future__ import annotations

import re

from answerkey.metrics_core.text import words

_PARTS = re.compile(
    r"\s*,?\s+(?:and|и)\s+(?=(?:(?:in|on|at|for|from|to|by|of|в|на|с|из|от|к)\s+)?"
    r"(?:what|which|who|whom|whose|when|where|why|how"
    r"|кто|что|как|когда|где|куда|откуда|почему|сколько|какой|какая|какое|какие|каков|какова|каково|каковы|каком|какую|каких)\b)"
    r"|\?\s+|,\s+(?=(?:в|на)\s+как)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|[2-9]|list|name all|which of the"
    r"|две|два|двух|три|трех|четыре|пять|шесть|семь|восемь|перечислите|назовите)\b"
    r"|\b(?:what|which)(?: \w+)? (?:are|were)\b|\b(?:what|which) \w+s\b",
    re.IGNORECASE,
)


def parts_of(question: str | None) -> tuple[str, ...]:
    """What a question asks, one by one: "Who wrote it, and when?" asks two things."""
    return tuple(part for part in _PARTS.split(question or "") if words(part))


def asks_several(question: str | None) -> bool:
    """Whether a question asks for more than one thing."""
    return len(parts_of(question)) > 1 or _SEVERAL.search(question or "") is not None
