"""Known-answer probes: samples whose verdict is known, which show whether a judge can be believed."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True, slots=True)
class Probe:
    """A sample, and where the main number of the metric must lie: from `least` to `most`, both included.

    `name` says in a few words what it tries, for people. No probe is decided without a judge.

    >>> probe = Probe("another city", Sample("probe", "It is Lyon.", ["Paris"], "The capital of France?"), 0.0, 0.0)
    >>> probe.passed_by(0.0), probe.passed_by(1.0)
    (True, False)
    """

    name: str
    sample: Sample
    least: float
    most: float

    def passed_by(self, value: float) -> bool:
        """Whether a judge that gives this number is right."""
        return self.least <= value <= self.most
