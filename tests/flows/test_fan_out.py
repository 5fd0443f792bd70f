"""Shards that are scored side by side: a run that is told to end waits for them."""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import pytest
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows.environment import started_here
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Scoring
from answerkey.flows.prefect_or_local import cancel_submitted
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.words import Contains
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.warehouse.home import Home
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import query


@dataclass(frozen=True)
class Slow(Contains):
    """Says when it has begun, and ends only once the run waits for it, or has removed its files."""

    began: ClassVar = threading.Event()
    ended: ClassVar[list[bool]] = []
    home: ClassVar[Home]

    def measure(self, samples: Sequence[Sample]) -> list[Measurement]:
        self.began.set()
        wait_until(lambda: not self.has_files() or in_main_thread(cancel_submitted), "a run that waits, or is gone")
        # One that does not wait has left the function by now.
        time.sleep(0.5)
        self.ended.append(self.has_files() and in_main_thread(cancel_submitted))
        return super().measure(samples)

    def has_files(self) -> bool:
        return any(self.home.scratch.glob("*/todo*"))


def in_main_thread(function):
    """Whether the main thread of this process is in a call of that function."""
    frames = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident or 0])
    return any(frame.f_code is function.__code__ for frame, _ in frames)


@pytest.mark.nightly
@pytest.mark.parametrize("with_server", [True, False])
def test_a_run_that_is_told_to_end_removes_its_files_once_its_shards_have_ended(with_server, request, tmp_path, capfd):
    file = tmp_path / "faq.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{i}", "answer": "a", "reference": "b"}) + "\n" for i in range(3)))
    Slow.home, home = Home(tmp_path / "home"), str(tmp_path / "home")
    Slow.began.clear()
    Slow.ended.clear()
    scoring = Scoring(metrics=[f"{Slow.__module__}:Slow"])

    def interrupt():
        assert Slow.began.wait(FAULT_S)
        os.kill(os.getpid(), signal.SIGTERM)

    server = request.getfixturevalue("server") if with_server else None
    threading.Thread(target=interrupt).start()
    with temporary_settings({PREFECT_API_URL: server}) if server else nullcontext():
        with pytest.raises(KeyboardInterrupt), started_here():
            evaluate_release(Data(answers=str(file), release="new"), scoring, home=home, page=False)
        if server:
            APILogWorker.drain_all()
    assert Slow.ended == [True]
    assert [*Slow.home.scratch.iterdir()] == []
    assert query(tmp_path / "home", "SELECT status FROM runs") == [("stopped",)]
    assert "Traceback" not in capfd.readouterr().err
