"""How many traces came how far under a rule in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BUCKETS: Mapping[str, str] = {
    "disabled": "the rule is switched off",
    "filtered": "do not fit a filter",
    "sampled_out": "not in the sample",
    "quarantined": "cannot be scored",
    "scored": "have a number",
    "undefined": "nothing to say: no reference",
    "failed": "tried again by the next run",
    "skipped": "left for the next run",
}
"""Where a trace can end, in the order of the way, and what it means there."""


@dataclass(frozen=True, slots=True)
class Funnel:
    """The counts of one rule in one run; those of `BUCKETS` add up to `seen`.

    `again` of the seen ones were known from another run; `measured` measurements were made. `mean` is of the main field
    of the metric over the scored traces, with its 95 % interval; None where there is none.
    """

    rule: str
    metric: str
    signature: str
    seen: int
    disabled: int
    filtered: int
    sampled_out: int
    quarantined: int
    scored: int
    undefined: int
    failed: int
    skipped: int
    again: int
    measured: int
    field: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    watermark: str | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, bucket) for bucket in BUCKETS) != self.seen:
            counts = ", ".join(f"{bucket} {getattr(self, bucket):,}" for bucket in BUCKETS)
            raise RuntimeError(f"{self.rule}: the funnel does not add up: seen {self.seen:,}, {counts}")
