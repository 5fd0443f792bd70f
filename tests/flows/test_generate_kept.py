"""What is kept about generated answers, and what a batch that is refused ends with: at the command line, over HTTP."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from tests.judge_batches import BatchServer
from tests.judge_http import http
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import every_third_match
from tests.raw_server import RawServer, said

Cli = Callable[..., subprocess.CompletedProcess[str]]
MODEL = "openai/gpt-4o-mini"
KEY = {"ANSWERKEY_MODEL_KEY": "sk-model-0123456789", "ANSWERKEY_JUDGE_KEY": "sk-judge-0123456789"}


def questions(folder, count):
    file = folder / "capitals.jsonl"
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "reference": f"Answer {n}"} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def generated(home):
    """The rows of the answers by their id, and the manifest."""
    folder = home / "answers" / "capitals" / "new"
    assert sorted(path.name for path in folder.iterdir()) == ["answers.jsonl", "answers.manifest.json"]
    lines = (folder / "answers.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}, json.loads(
        (folder / "answers.manifest.json").read_text()
    )


def test_how_each_answer_ended_is_kept_with_it_and_counted(bare_cli, tmp_path):
    ends: list[dict[str, Any]] = [
        said({"content": "Answer 0"}),
        said({"content": "Answer 1 is very"}, finish_reason="length"),
        said({"content": None, "refusal": "I will not say."}),
        said({"content": "<think>Perhaps 3, or"}, finish_reason="length"),
        said({"content": "Answer"}, finish_reason="content_filter"),
    ]
    with RawServer(*(http(200, json.dumps(end).encode()) for end in ends)) as server:
        done = bare_cli(
            "generate", "--dataset", questions(tmp_path, 5), "--model", f"{MODEL}@{server.url}", "--release", "new",
            "--home", tmp_path / "home", "--concurrency", "1", "--min-answered", "0.5", **KEY,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, manifest = generated(tmp_path / "home")
    assert [(rows[f"q{n}"]["answer"], rows[f"q{n}"]["finish_reason"]) for n in range(5)] == [
        ("Answer 0", "stop"), ("Answer 1 is very", "length"), ("I will not say.", "refusal"), (None, None),
        (None, None),
    ]  # fmt: skip
    assert rows["q3"]["missing_because"].startswith("no_room: ")
    assert rows["q4"]["missing_because"] == "content_filter: the provider's filter stopped the reply"
    assert (manifest["cut_off"], manifest["refused"], manifest["failed"]) == (1, 1, 2)
    assert (
        "2 failed, 0 skipped (1 no_room, 1 content_filter); 1 cut off at the limit of tokens; 1 refused" in done.stderr
    )


def test_the_manifest_counts_the_calls_of_all_runs(bare_cli, tmp_path):
    def answer(body):
        return f"Answer to {body['messages'][-1]['content']}"

    with JudgeServer(answer) as server:
        asked = (
            "generate", "--dataset", questions(tmp_path, 4), "--model", f"{MODEL}@{server.url}", "--release", "new",
            "--home", tmp_path / "home",
        )  # fmt: skip
        first = bare_cli(*asked, "--max-calls", "3", **KEY)
        assert (first.returncode, server.n_requests) == (2, 3), first.stderr
        second = bare_cli(*asked, **KEY)
        assert (second.returncode, server.n_requests) == (0, 4), second.stderr
    rows, manifest = generated(tmp_path / "home")
    assert [row["answer"] for row in rows.values()] == [f"Answer to Question {n}?" for n in range(4)]
    assert (manifest["run"]["calls"], manifest["all_runs"]["calls"]) == (1, 4)
    assert 3 * manifest["run"]["cost_usd"] < manifest["all_runs"]["cost_usd"] == manifest["cost_usd"]


def test_a_batch_that_is_refused_is_an_incomplete_report(bare_cli, tmp_path):
    answers = tmp_path / "answers.jsonl"
    rows = [{"id": f"q{n}", "question": f"Q {n}?", "answer": f"answer {n}", "reference": f"ref {n}"} for n in range(3)]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))

    with BatchServer(every_third_match, finishes=False) as server:

        def refuse():
            server.wait_for("create")
            for batch in server.batches.values():
                batch.status = "failed"

        refusing = threading.Thread(target=refuse)
        refusing.start()
        done = bare_cli(
            "evaluate", answers, "--dataset", "d", "--release", "r", "--metrics", "meaning_match", "--judge",
            f"{MODEL}@{server.url}", "--probes", "never", "--batch", "--batch-poll", "1", "--no-page", "--home",
            tmp_path / "home", **KEY,
        )  # fmt: skip
        refusing.join()
    assert done.returncode == 4, done.stderr
    assert "answerkey: d/r/v1: no answer has a score of meaning_match" in done.stderr
    assert "the provider refused the batch batch_0: Line 1 is too long." in done.stdout + done.stderr
