"""Two metrics of one's own, for the example data; docs/custom_metrics.md explains them line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey import Field, Metric, Sample, Scored, metric, option


@metric(needs=("answer",))
def short(answer: str, references: Sequence[str], *, words: int = 12) -> bool:
    """The answer has at most so many words."""
    return len(answer.split()) <= words


@dataclass(frozen=True)
class FactCoverage(Metric):
    """Which of the facts that a full answer needs stand in the answer, word for word."""

    name = "fact_coverage"
    fields = (Field("coverage", "share of the facts in the answer"), Field("full", "1 where all are", binary=True))

    ignore_case: bool = option(True, description="whether upper and lower case are the same")

    def score(self, sample: Sample) -> Scored | None:
        """Undefined for a question whose facts are not known."""
        if not sample.facts:
            return None
        answer, facts = sample.answer or "", list(sample.facts)
        if self.ignore_case:
            answer, facts = answer.lower(), [fact.lower() for fact in facts]
        missing = [fact for fact in facts if fact not in answer]
        share = 1 - len(missing) / len(facts)
        return Scored({"coverage": share, "full": float(not missing)}, details={"missing": missing})
