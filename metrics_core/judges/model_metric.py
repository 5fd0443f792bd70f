"""Base class of the metrics that only language models can score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.measurement import Outcome
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True)
class ModelMetric(JudgeMetric):
    """A metric of which the offline judge knows nothing."""

    def check(self) -> None:
        """Find out before anything is asked whether there is a language model to ask.

        Raises:
            UserError: the judge is the offline one.
        """
        if self.judge.offline:
            raise UserError(
                f"{self.name}: the offline judge cannot judge this; name a language model with --judge, for instance "
                "openai/gpt-4o-mini"
            )

    def offline_signature(self) -> str:
        """There is nothing that the offline judge would say."""
        return "none"

    def judge_offline(self, samples: Sequence[Sample]) -> list[Outcome]:
        """Nothing.

        Raises:
            UserError: always.
        """
        self.check()
        return []
