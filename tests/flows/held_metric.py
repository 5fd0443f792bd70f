"""A metric that a test holds up, in whatever process it runs."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.words import Contains
from answerkey.metrics_core.sample import Sample


@dataclass(frozen=True)
class Held(Contains):
    """Waits as long as the file is there that `HELD` names in the environment, and writes its process beside it."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        held = Path(os.environ["HELD"])
        held.with_suffix(".pid").write_text(str(os.getpid()))
        while held.exists():
            time.sleep(0.05)
        return super().measure(samples)
