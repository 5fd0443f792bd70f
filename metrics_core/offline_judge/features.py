"""What the model sees of an answer and its references: one row of numbers a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.offline_judge import lexical, meaning
from answerkey.metrics_core.offline_judge.case import Case, Finding
from answerkey.metrics_core.offline_judge.reading import read
from answerkey.metrics_core.offline_judge.rules import decide

Matrix = npt.NDArray[np.float64]
"""Features: shape (references of all pairs, features)."""

SPELLED_OUT = 0.99
"""From this recall on, an answer has the whole reference."""


class Asked(Protocol):
    """A question, an answer, and references that are not blank."""

    @property
    def question(self) -> str:
        """May be blank."""

    @property
    def answer(self) -> str:
        """Not blank."""

    @property
    def references(self) -> tuple[str, ...]:
        """At least one, none blank."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A pair as the model sees it, by reference: the features, and what a rule found."""

    values: tuple[dict[str, float], ...]
    findings: tuple[Finding | None, ...]


def look(pairs: Sequence[Asked], cache_dir: str | None = None) -> list[Seen]:
    """Features of every pair and reference; all texts are embedded at once."""
    cases = [_cases(pair) for pair in pairs]
    near = [[lexical.focus(case.answer, case.reference, case.question) for case in some] for some in cases]
    roles = [
        [meaning.texts(case, text) for case, text in zip(some, texts, strict=True)]
        for some, texts in zip(cases, near, strict=True)
    ]
    known = meaning.vectors({text for some in roles for by_role in some for text in by_role.values()}, cache_dir)
    seen = []
    for some, texts, by_roles in zip(cases, near, roles, strict=True):
        rows = [
            {**lexical.features(case, text), **meaning.features(by_role, known)}
            for case, text, by_role in zip(some, texts, by_roles, strict=True)
        ]
        together = _together(rows)
        seen.append(Seen(tuple({**row, **together} for row in rows), tuple(decide(case) for case in some)))
    return seen


def matrix(seen: Sequence[Seen], names: Sequence[str]) -> Matrix:
    """The features called `names`, row by row: the references of the first pair, then of the second, ..."""
    return np.array([[row[name] for name in names] for one in seen for row in one.values], np.float64)


def _cases(pair: Asked) -> list[Case]:
    question, answer = read(pair.question), read(pair.answer)
    references = [read(reference) for reference in pair.references]
    accepted = frozenset(stem for reference in references for stem in reference.stems)
    return [Case.of(question, answer, reference, accepted) for reference in references]


def _together(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """What the references say together; the same for each of them, in whatever order they come."""
    return {
        "references": math.log(len(rows)),
        "full_share": sum(row["recall"] >= SPELLED_OUT for row in rows) / len(rows),
        "best_span": max(row["near_span"] for row in rows),
        "best_asked": max(row["near_asked_focus"] for row in rows),
    }
