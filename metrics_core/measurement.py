"""The outcome of one metric on one sample: scored, undefined, failed or skipped.

A score and the absence of one are different types. Nothing in this project turns a failure into a
number, because a failure that becomes 0 (or leaves the mean) moves the mean without a trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

Status = Literal["scored", "undefined", "failed", "skipped"]
"""The kinds of outcomes, which are the values of the `status` columns in the warehouse."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The metric has a number for every field it declares.

    Raises:
        ValueError: a value is NaN or infinite.
    """

    status: ClassVar[Status] = "scored"

    values: Mapping[str, float]
    reason: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.values.values())):
            raise ValueError(f"{dict(self.values)}: a score is a finite number or it is no score")

    def __reduce__(self) -> tuple[type[Scored], tuple[object, ...]]:
        return Scored, (self.values, self.reason, self.details)


@dataclass(frozen=True, slots=True)
class Undefined:
    """The metric does not apply to the input, for instance because it has no reference. Not a failure."""

    status: ClassVar[Status] = "undefined"

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The metric could not be computed, and trying again may help."""

    status: ClassVar[Status] = "failed"

    code: str
    message: str
    attempts: int = 1

    @property
    def reason(self) -> str:
        """Code and message."""
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Not attempted: a budget or a filter left the sample out."""

    status: ClassVar[Status] = "skipped"

    reason: str


Outcome = Scored | Undefined | Failed | Skipped


@dataclass(frozen=True, slots=True)
class Usage:
    """Time, tokens and cost of a measurement. A `cost_usd` of None is unknown, not 0."""

    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0


class Measurement(NamedTuple):
    """One metric on one sample, with the signature of everything that changes the number.

    `usage` is what this call spent; with `from_ledger`, all replies of judges came from the ledger. `requests` are the
    keys of the requests in the ledger that the measurement rests on.
    """

    # A tuple is made in a third of the time of a frozen dataclass, which is a fifth of what short texts take.
    sample_id: str
    metric: str
    signature: str
    outcome: Outcome
    usage: Usage = Usage()
    from_ledger: bool = False
    requests: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """`scored`, `undefined`, `failed` or `skipped`."""
        return self.outcome.status

    @property
    def values(self) -> Mapping[str, float]:
        """Field name to number; empty unless scored."""
        # A copy: one outcome may be that of many samples.
        return dict(self.outcome.values) if isinstance(self.outcome, Scored) else {}

    @property
    def reason(self) -> str | None:
        """The explanation of the metric if scored, otherwise why there is no score."""
        return self.outcome.reason

    @property
    def details(self) -> Mapping[str, Any]:
        """Evidence for the numbers, as JSON values; empty unless scored."""
        return dict(self.outcome.details) if isinstance(self.outcome, Scored) else {}
