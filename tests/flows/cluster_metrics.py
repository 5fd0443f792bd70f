"""Metrics and readers that Dask workers import in tests."""

import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from answerkey.flows.cluster_worker import OTHER_WORK
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.words import Contains
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.load.load import Stager
from answerkey.tasks.load.references import ReferenceStager
from answerkey.tasks.load.rows import Raw
from answerkey.tasks.reports.commit_shard import CommitShard


@dataclass(frozen=True)
class Deadly(Contains):
    """An answer that says so kills the process that scores it."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        logging.getLogger("answerkey").warning(f"scoring {len(samples)} rows")
        answers = {sample.answer for sample in samples}
        if "poison" in answers:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure(samples)


@dataclass(frozen=True)
class Held(Contains):
    """Waits as long as the file is there that `HELD` names in the environment."""

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        wait_until_gone(os.environ["HELD"])
        return super().measure(samples)


class DeadlyStager(Stager):
    """Whatever process loads a row dies of it."""

    def stage(self, raw: Raw) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().stage(raw)


def wait_until_gone(file):
    """Keep a worker from going on as long as a file is there."""
    while Path(file).exists():
        time.sleep(0.05)


@dataclass(frozen=True)
class HeldReferenceStager(ReferenceStager):
    """Loading of references goes on when a file is gone."""

    held: str = ""

    def stage(self, raw: Raw) -> dict[str, Any]:
        wait_until_gone(self.held)
        return super().stage(raw)


@dataclass(frozen=True)
class HeldCommit(CommitShard):
    """Rows of a commit that are written, and then kept back before a file is gone; who keeps them is said in it."""

    held: str = ""

    @property
    def of_measurements(self) -> Mapping[str, str]:
        """As of any other."""
        with suppress(FileNotFoundError):
            while True:
                # Never made anew.
                with Path(self.held).open("r+") as held:
                    held.write(f"{os.getpid()}")
                time.sleep(0.05)
        return super().of_measurements


# Workers import this module where they unpickle such a shard.
cast("dict[type, Any]", OTHER_WORK)[HeldCommit] = OTHER_WORK[CommitShard]
