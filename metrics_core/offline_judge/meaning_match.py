"""Meaning match by the offline matcher: alone, or before a language model that is asked where it is undecided."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from answerkey.metrics_core.judges.details import DECIDED_BY, OUT_OF_DEPTH
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.votes import SPREAD
from answerkey.metrics_core.measurement import Measurement, Outcome, Scored
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from answerkey.metrics_core.offline_judge import matcher
from answerkey.metrics_core.offline_judge.matcher import Match, Pair
from answerkey.metrics_core.offline_judge.measured import OfflineMetric
from answerkey.metrics_core.sample import Sample

_log = logging.getLogger("answerkey")


@dataclass(frozen=True)
class OfflineMeaningMatch(OfflineMetric):
    """Whether the answer says the same essential thing as any of the references: `match` is 0 or 1, with a reason.

    `details` say the `verdict`, the `rule` that decided ("model" where none did), the calibrated `probability` that
    people would call it a match, the index of the `reference` that matched, and `out_of_depth` where it applies.
    """

    name = MeaningMatch.name
    summary = MeaningMatch.summary
    twin_of: ClassVar[type[JudgeMetric]] = MeaningMatch

    @property
    def signature(self) -> str:
        """For instance `meaning_match|v1|judge:offline@1:3fa2c1|blank:zero`."""
        return f"{self.name}|v1|judge:{matcher.signature()}|blank:{self.blank_answer}"

    def judge(self, samples: Sequence[Sample]) -> list[Outcome]:
        """One verdict a sample."""
        found = matcher.match(_pairs(samples), cache_dir=self.cache_dir)
        return [_scored(one, sample) for one, sample in zip(found, samples, strict=True)]


@dataclass(frozen=True)
class CascadeMeaningMatch(MeaningMatch):
    """Meaning match in two steps: the offline matcher, and the judges only where it is undecided.

    It is undecided where, at the error that `judge.cascade` accepts, its calibrated probabilities leave both
    verdicts open. `details` say who `decided_by`: offline or judge.
    """

    cache_dir: str | None = None

    @property
    def signature(self) -> str:
        """That of the judges, with the matcher that comes `first` and the error that is accepted."""
        judges, _, blank = super().signature.rpartition("|blank:")
        return f"{judges}|first:{matcher.signature()}|cascade:{self._accepted:g}|blank:{blank}"

    @property
    def _accepted(self) -> float:
        return self.judge.cascade

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """As for every judge metric; what judges decided is marked."""
        return [_by_judge(one) if one.requests else one for one in super().measure(samples)]

    def known(self, samples: Sequence[Sample]) -> list[Outcome | None]:
        """Where nobody need be asked: also where the matcher is decided."""
        outcomes = super().known(samples)
        pending = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if not pending:
            return outcomes
        found = matcher.match(_pairs([samples[place] for place in pending]), cache_dir=self.cache_dir)
        for place, one in zip(pending, found, strict=True):
            if not matcher.undecided(one, self._accepted):
                outcomes[place] = self._decided(one, samples[place])
        asked = outcomes.count(None)
        _log.info(
            f"{self.name}: the offline matcher decided {len(pending) - asked:,} of {len(pending):,} answers at an "
            f"accepted error of {self._accepted:.3g}; the other {asked:,} go to the judge"
        )
        return outcomes

    def _decided(self, found: Match, sample: Sample) -> Scored:
        scored = _scored(found, sample)
        spread = {SPREAD: 0.0} if len(self.fields) > 1 else {}
        return replace(scored, values={**scored.values, **spread}, details={**scored.details, DECIDED_BY: "offline"})


def _pairs(samples: Sequence[Sample]) -> list[Pair]:
    return [
        Pair(sample.question or "", sample.answer or "", tuple(text for _, text in sample.usable_references))
        for sample in samples
    ]


def _scored(found: Match, sample: Sample) -> Scored:
    index = sample.usable_references[found.reference][0] if found.match else None
    details = {
        "verdict": found.verdict,
        "rule": found.rule,
        "probability": round(found.probability, 4),
        "reference": index,
        **({OUT_OF_DEPTH: found.out_of_depth} if found.out_of_depth else {}),
    }
    return Scored({"match": float(found.match)}, found.reason, details)


def _by_judge(measured: Measurement) -> Measurement:
    outcome = measured.outcome
    if not isinstance(outcome, Scored):
        return measured
    return replace(measured, outcome=replace(outcome, details={**outcome.details, DECIDED_BY: "judge"}))
