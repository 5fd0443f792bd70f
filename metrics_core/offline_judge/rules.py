"""The rules that decide before the model is asked. Each has an id and reads one answer and one reference."""

from __future__ import annotations

from collections.abc import Callable

from answerkey.metrics_core.offline_judge.affirming import (
    acronym,
    alias,
    part_of_name,
    same_answer,
    same_date,
    same_number,
    same_polarity,
    same_text,
)
from answerkey.metrics_core.offline_judge.case import Case, Finding
from answerkey.metrics_core.offline_judge.rejecting import (
    alternatives,
    hedged,
    negated,
    opposite,
    other_date,
    other_list,
    other_number,
    refusal,
)

RULES_VERSION = 1
"""Change what a rule decides, change the number: it is part of the signature."""

FOR_A_MATCH = frozenset(
    ("same_text", "same_answer", "same_polarity", "same_number", "same_date", "alias", "acronym", "part_of_name")
)
AGAINST_ANSWER = frozenset(("refusal", "hedged", "alternatives"))
"""These speak against an answer whatever the reference; the other rules without a match against one reference."""

_RULES: tuple[Callable[[Case], Finding | None], ...] = (
    same_text, refusal, hedged, alternatives, negated, opposite, same_answer, same_polarity, same_number, same_date,
    alias, acronym, part_of_name, other_list, other_number, other_date,
)  # fmt: skip


def decide(case: Case) -> Finding | None:
    """The first rule that decides, or None where the model has to."""
    for rule in _RULES:
        finding = rule(case)
        if finding is not None:
            return finding
    return None
