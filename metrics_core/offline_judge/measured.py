"""What the metrics share that the offline matcher judges: everything but the judging itself is as with other judges."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.metrics_core.measurement import Measurement, Outcome, Usage
from answerkey.metrics_core.metric import Field, Kind, Metric
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True)
class OfflineMetric(Metric):
    """A judge metric that asks nobody: deterministic, free, without a network.

    Args:
        cache_dir: a folder for embeddings of earlier calls; it changes no number.
    """

    kind = "judge"
    needs = JudgeMetric.needs

    cache_dir: str | None = None

    twin_of: ClassVar[type[JudgeMetric]]
    """The metric with the same name, fields and degenerate cases that asks language models."""

    @property
    def twin(self) -> JudgeMetric:
        """The same metric for language models; it is not asked."""
        return self.twin_of(OFFLINE_JUDGE, blank_answer=self.blank_answer)

    @property
    def fields(self) -> tuple[Field, ...]:
        """As of the metric that asks language models."""
        return self.twin.fields

    @property
    def workload(self) -> Kind:
        """A model in this process."""
        return "semantic"

    @property
    @abstractmethod
    def signature(self) -> str:
        """One short text with everything that changes the number."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        """Score `samples`: same length, same order. Usage is that of the whole call, in equal parts.

        Raises:
            EncoderError: the embedding model of the matcher is not there.
        """
        signature, started = self.signature, time.perf_counter()
        local = self.twin.known(samples)
        pending = [sample for sample, known in zip(samples, local, strict=True) if known is None]
        judged = iter(self.judge(pending) if pending else ())
        usage = Usage((time.perf_counter() - started) / max(1, len(pending)))
        return [
            Measurement(sample.sample_id, self.name, signature, *((known, Usage()) if known else (next(judged), usage)))
            for sample, known in zip(samples, local, strict=True)
        ]

    @abstractmethod
    def judge(self, samples: Sequence[Sample]) -> list[Outcome]:
        """The outcomes of samples that have an answer and a reference, and are not the same in form."""
