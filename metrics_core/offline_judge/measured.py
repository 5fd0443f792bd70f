"""What the metrics share that the offline matcher judges: everything but the judging itself is as with other judges."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import NO_JUDGE
from answerkey.metrics_core.measurement import Measurement, Outcome, Usage
from answerkey.metrics_core.metric import BlankAnswer, Field, Need
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True)
class OfflineMetric(ABC):
    """A judge metric that asks nobody: deterministic, free, without a network.

    Args:
        blank_answer: as everywhere.
        cache_dir: a folder for embeddings of earlier calls; it changes no number.
    """

    blank_answer: BlankAnswer = "zero"
    cache_dir: str | None = None

    twin_of: ClassVar[type[JudgeMetric]]
    """The metric with the same name, fields and degenerate cases that asks language models."""

    @property
    def twin(self) -> JudgeMetric:
        """The same metric for language models; it is not asked."""
        return self.twin_of(NO_JUDGE, self.blank_answer)

    @property
    def name(self) -> str:
        """As of the metric that asks language models."""
        return self.twin_of.name

    @property
    def fields(self) -> tuple[Field, ...]:
        """As of the metric that asks language models."""
        return self.twin.fields

    @property
    def needs(self) -> frozenset[Need]:
        """An answer, its references, and the question that both are read by."""
        return self.twin.needs

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
