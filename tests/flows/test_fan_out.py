"""A large source is loaded, and measured for validation, in shards: the run is that of the source in one piece."""

import json
import logging
from pathlib import Path

import pytest
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Limits, Scoring
from answerkey.tasks.load import shard as source_shards
from tests.flows.deployed_help import Deployed
from tests.flows.test_orchestration import rows
from tests.tasks.staging_help import query


def test_a_large_source_writes_the_same_rows_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [{"id": f"q{i}", "answer": f"It is {i}.", "reference": f"{i}"} for i in range(200)]
    # In another shard than those they contradict.
    answers += [{"id": "q1", "answer": "It is 1.", "reference": "1"}, {"id": "q2", "answer": "2", "reference": "two"}]
    file = tmp_path / "faq.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in answers))

    def run(home: str) -> object:
        data, scoring = Data(answers=str(file), release="new"), Scoring(metrics=["exact_match"])
        return evaluate_release(data, scoring, home=str(tmp_path / home), page=False)

    with caplog.at_level(logging.INFO, "answerkey"):
        assert run("whole") == ["faq/new/v1"]
        assert not [line for line in caplog.messages if line.startswith("loaded")]
        monkeypatch.setattr(source_shards, "LARGE_BYTES", 1)
        monkeypatch.setattr(source_shards, "SHARD_BYTES", 4_000)
        assert run("shards") == ["faq/new/v1"]
    assert "loaded 3/3 shards" in caplog.messages
    assert rows(tmp_path / "shards") == rows(tmp_path / "whole")
    assert any("id_unique" in one and "False" in one for one in rows(tmp_path / "shards")["validations"])


def test_a_large_file_of_references_writes_the_same_rows_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, server: str
) -> None:
    file, references = tmp_path / "faq.jsonl", tmp_path / "known.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{i}", "answer": f"It is {i}."}) + "\n" for i in range(200)))
    known = [{"id": f"q{i}", "question": f"What is {i}?", "reference": f"{i}", "lang": "en"} for i in range(190)]
    # Twice, as it was.
    references.write_text("".join(json.dumps(row) + "\n" for row in [*known, known[0]]))

    def run(home: str) -> object:
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
    loads = {after for before, after in edges if before in ("cut references", "cut a source") and "load" in after}
    assert len(loads) == 6
    of_answers = {after for before, after in edges if before == "cut a source" and after in loads}
    assert len(of_answers) == 2
    assert {(one, to) for one in of_answers for to in ("gather", "gather measures")} <= edges
    assert {(one, "cut a source") for one in loads - of_answers} <= edges
    assert {("gather", "validate"), ("gather measures", "validate"), ("validate", "plan")} <= edges
