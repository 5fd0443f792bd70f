"""The samples of the page in columns: ten thousand of them stay light in memory and in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Answers:
    """What a release answered, by the place of the sample.

    `correct` is the label of people. `values` go by METRIC.FIELD. `unscored`, `reasons` and `evidence` go by metric
    and hold places only where there is something to say: status and reason; the metric's own words; facts, votes and
    the rule of a judge. `absent` are places that the release does not have, `cut` the whole lengths of cut answers.
    """

    release: str
    texts: tuple[str | None, ...]
    correct: tuple[bool | None, ...]
    values: Mapping[str, tuple[float | None, ...]]
    unscored: Mapping[str, Mapping[int, tuple[str, str]]]
    reasons: Mapping[str, Mapping[int, str]]
    evidence: Mapping[str, Mapping[int, Mapping[str, Any]]]
    absent: tuple[int, ...] = ()
    cut: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of the table, in columns; `n_total` counts also those that the page leaves out for its size."""

    n_total: int
    ids: tuple[str, ...]
    questions: tuple[str | None, ...]
    references: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, ...], ...]
    slices: Mapping[str, tuple[str | None, ...]]
    answers: tuple[Answers, ...]
