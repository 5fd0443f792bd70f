"""Metrics that Dask workers import in tests."""

import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.contains import Contains
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True)
class Deadly(Contains):
    """An answer that says so kills the process that scores it."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        logging.getLogger("answerkey").warning(f"scoring {len(samples)} rows")
        answers = {sample.answer for sample in samples}
        if "poison" in answers:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure(samples)
