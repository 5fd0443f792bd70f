"""A large source is loaded, and measured for validation, in shards: the run is that of the source in one piece."""

import json
import logging
import os
import signal
import subprocess
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
from answerkey.flows.parameters import Data, Limits, Scoring
from answerkey.flows.prefect_or_local import cancel_submitted
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.words import Contains
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.load import shard as source_shards
from answerkey.tasks.warehouse.home import Home
from tests.flows.deployed_help import Deployed
from tests.flows.test_prefect_or_local import rows
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import query


@pytest.mark.nightly
def test_a_large_file_of_references_writes_the_same_rows_as_a_small_one(tmp_path, monkeypatch, caplog, server):
    file, references = tmp_path / "faq.jsonl", tmp_path / "known.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{i}", "answer": f"It is {i}."}) + "\n" for i in range(200)))
    known = [{"id": f"q{i}", "question": f"What is {i}?", "reference": f"{i}", "lang": "en"} for i in range(190)]
    # Twice, as it was.
    references.write_text("".join(json.dumps(row) + "\n" for row in [*known, known[0]]))

    def run(home):
        data = Data(answers=str(file), references=str(references), release="new", slices=["lang"])
        limits = Limits(max_quarantined=0.5)
        scoring = Scoring(metrics=["exact_match"])
        return evaluate_release(data, scoring, limits=limits, home=str(tmp_path / home), page=False)

    with caplog.at_level(logging.INFO, "answerkey"):
        assert run("whole") == ["known/new/v1"]
        monkeypatch.setattr(source_shards, "LARGE_BYTES", 1)
        monkeypatch.setattr(source_shards, "SHARD_BYTES", 4_000)
        with temporary_settings({PREFECT_API_URL: server}):
            assert run("shards") == ["known/new/v1"]
            APILogWorker.drain_all()
    assert {"loaded 4/4 shards", "loaded 2/2 shards"} <= set(caplog.messages), caplog.messages
    assert rows(tmp_path / "shards") == rows(tmp_path / "whole")
    [(run_id,)] = query(tmp_path / "shards", "SELECT run_id FROM runs")
    edges = Deployed(server, tmp_path).edges(str(run_id))
    loads = {after for before, after in edges if before in ("split references", "split answers") and "load" in after}
    assert len(loads) == 6
    of_answers = {after for before, after in edges if before == "split answers" and after in loads}
    assert len(of_answers) == 2
    assert {(one, to) for one in of_answers for to in ("merge shards", "merge measures")} <= edges
    assert {(one, "split answers") for one in loads - of_answers} <= edges
    assert {("merge shards", "validate"), ("merge measures", "validate"), ("validate", "plan")} <= edges


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


UNGUARDED = """
import sys
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Scoring
from answerkey.tasks.load import shard
from answerkey.tasks.score import score

score._SPAWN_ROWS, shard.LARGE_BYTES, shard.SHARD_BYTES = 2, 1, 1
evaluate_release(Data(answers=sys.argv[1], release="new"), Scoring(metrics=["contains"]), home=sys.argv[2], page=False)
"""


@pytest.mark.nightly
def test_a_script_without_a_guard_is_run_once(tmp_path):
    file, script, home = tmp_path / "faq.jsonl", tmp_path / "script.py", tmp_path / "home"
    file.write_text("".join(json.dumps({"id": f"q{i}", "answer": "a", "reference": "a"}) + "\n" for i in range(3)))
    script.write_text(UNGUARDED)
    words = [sys.executable, str(script), str(file), str(home)]
    alone = {**os.environ, "PREFECT_API_URL": ""}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=alone, timeout=FAULT_S)
    assert done.returncode == 0, done.stderr
    assert "RuntimeError" not in done.stderr
    assert query(home, "SELECT status FROM runs") == [("complete",)]
    assert query(home, "SELECT status, count(*) FROM scores GROUP BY ALL") == [("scored", 3)]
