"""Bounds, quantifiers and hedges of a fact, English and Russian."""

from __future__ import annotations

import re

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.stance import hedges

_LIMITS = {
    name: re.compile("|".join(patterns))
    for name, patterns in {
        "above": (
            r"\b(?:more|greater|higher|longer|older) than\b", r"\b(?:exceed\w*|at least|no less than)\b",
            r"\b(?:over|above)(?= [$€£]?\d)", r"\b(?:больше|более чем|не менее|свыше)\b", r"\bболее(?= \d)",
        ),
        "below": (
            r"\b(?:less|fewer|lower|younger) than\b", r"\b(?:at most|no more than|up to)\b",
            r"\b(?:under|below)(?= [$€£]?\d)", r"\b(?:менее|меньше|не более)\b",
        ),
        "before": (r"\b(?:before|until|до)(?= (?:\w+ )?\d)",),
        "after": (r"\b(?:after|since|после)(?= (?:\w+ )?\d)",),
        "all": (r"\b(?:all|every|everything|always|весь|вся|все|всех|всем|каждый|каждая|каждое|всегда)\b",),
        "some": (r"\b(?:some|several|few|many|sometimes|часть|некоторые|некоторых|несколько|многие|иногда)\b",),
    }.items()
}  # fmt: skip
"""Bounds and quantifiers: "more than 95" is not 96, and "all cars" are not "cars"."""


def bounds(text: Text, question: Text) -> frozenset[str]:
    """What bounds `text` sets that the question does not: "above", "all", ...; "unsure" where it hedges."""
    found = {name for name, pattern in _LIMITS.items() if pattern.search(text.normal)}
    given = {name for name, pattern in _LIMITS.items() if pattern.search(question.normal)}
    return frozenset(found - given) | ({"unsure"} if hedges(text.normal) else frozenset())
