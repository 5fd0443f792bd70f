"""A second look at verdicts of language models: does the answer talk to its judge, and does the offline judge agree?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import SecondOpinion
from answerkey.metrics_core.judges.pleas import addressed
from answerkey.metrics_core.judges.votes import ADDRESSES_JUDGE, SECOND_OPINION
from answerkey.metrics_core.measurement import Failed, Outcome, Scored
from answerkey.metrics_core.sample import Sample

DISPUTED = "disputed"
"""The code of a failure: the answer addresses its judge, and the offline judge disagrees with the verdict."""

_log = logging.getLogger("answerkey")


class Second(Protocol):
    """A metric whose verdicts the offline judge can check."""

    name: ClassVar[str]
    checked_offline: ClassVar[bool]

    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """See `JudgeMetric`."""

    def differs_in_case(self, sample: Sample) -> bool:
        """See `JudgeMetric`."""

    def disagreement(self, verdict: Scored, second: Outcome | None) -> str | None:
        """See `JudgeMetric`."""


def reviewed(
    metric: Second, samples: Sequence[Sample], outcomes: Sequence[Outcome], wanted: SecondOpinion
) -> list[Outcome]:
    """The outcomes after a second look; only verdicts of language models are given.

    An answer that addresses its judge has a note of it in the details. Where the offline judge disagrees, this is noted
    too; if the answer also addresses its judge, the measurement fails as `DISPUTED`.
    """
    found = list(outcomes)
    if wanted == "never":
        return found
    why = {
        place: said
        for place, (sample, outcome) in enumerate(zip(samples, outcomes, strict=True))
        if isinstance(outcome, Scored) and (said := addressed(sample.answer or ""))
    }
    places = [
        place
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, Scored) and (wanted == "always" or place in why)
    ]
    # Where only the case of a unit differs, the offline judge has nothing to say: it takes them for the same.
    asked = [place for place in places if not metric.differs_in_case(samples[place])]
    seconds = dict(zip(asked, _judged(metric, [samples[place] for place in asked]), strict=True))
    for place in places:
        outcome = found[place]
        assert isinstance(outcome, Scored)
        against = metric.disagreement(outcome, seconds.get(place))
        if against and place in why:
            message = f"the answer addresses its judge ({why[place]}), and the offline judge disagrees: {against}"
            found[place] = Failed(DISPUTED, message)
            continue
        notes = {SECOND_OPINION: against} if against else {}
        notes |= {ADDRESSES_JUDGE: why[place]} if place in why else {}
        found[place] = replace(outcome, details={**outcome.details, **notes}) if notes else outcome
    return found


def _judged(metric: Second, samples: Sequence[Sample]) -> Sequence[Outcome | None]:
    try:
        return metric.judge_offline(samples) if samples and metric.checked_offline else [None] * len(samples)
    except UserError as error:
        _log.warning(f"{metric.name}: no second opinion of the offline judge: {error}")
        return [None] * len(samples)
