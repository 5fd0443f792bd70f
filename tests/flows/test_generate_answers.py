"""From a model to a report: the command line, a real Prefect server, a scripted model over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.flows.deployed_help import neverspoken, said_by_prefect
from tests.judge_http import http
from tests.judge_server import JudgeServer
from tests.raw_server import RawServer, said
from tests.tasks.staging_help import jsonl, query

KEY = "sk-neverspoken-model-0123456789abcdef"
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima"}


def knows_most(body):
    question = body["messages"][-1]["content"]
    return next(f"It is {name}." for land, name in CAPITALS.items() if land in question).replace("Lima", "Quito")


@pytest.fixture
def model():
    with JudgeServer(knows_most) as running:
        yield running


@pytest.fixture
def questions(tmp_path):
    rows = [
        {"id": land, "question": f"Capital of {land}?", "reference": name, "lang": "en"}
        for land, name in CAPITALS.items()
    ]
    return jsonl(tmp_path / "capitals.jsonl", rows)


@pytest.mark.real
def test_the_whole_life_of_a_release(cli, save_secret, model, questions, tmp_path, ask, home):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Answer in {lang}: {question}\n")
    save_secret("model-key", KEY)
    options = (
        "--model", f"openai/gpt-4o-mini@{model.url}", "--release", "new", "--key-from", "secret:model-key",
        "--system", "Be brief.", "--template", prompt,
    )  # fmt: skip

    dry = cli("generate", "--dataset", questions, "--slice", "lang", *options, "--dry-run", "--json", code=0)
    assert ([one["calls"] for one in json.loads(dry.stdout)], model.n_requests) == ([4], 0)

    little = cli("generate", "--dataset", questions, "--slice", "lang", *options, "--max-calls", "3")
    assert (little.returncode, model.n_requests) == (2, 3)
    assert little.stderr.splitlines()[-1] == (
        "answerkey: capitals/new: 3 of 4 questions have an answer (1 budget used up), and it takes 95% to register the "
        "release (--min-answered); run again to go on: what was answered is not asked again"
    )
    assert query(home, "SELECT * FROM registered") == []

    # The same again, with what is left.
    process = cli("generate", "--dataset", questions, "--slice", "lang", *options, code=0)
    assert model.n_requests == 4
    evaluated = cli("evaluate", "registered:capitals/new", "--metrics", "contains", code=0)
    assert set(model.stats()["bodies"].values()) == {1}
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {KEY}"}
    assert model.requests[0].body["messages"][0]["content"] == "Be brief."
    assert "capitals/new: 4 questions: 1 generated, 3 from ledger, 0 failed, 0 skipped; 1 call, $0.00" in process.stderr
    assert "capitals/new/v1  4 answers" in evaluated.stdout
    [(mean, generation)] = query(home, "SELECT mean, manifest -> '$.generation' FROM report_scores JOIN reports "
                                       "USING (report_id) WHERE slice = 'all'")  # fmt: skip
    about = json.loads(generation)
    assert (mean, about["template"], about["system"], about["answered"]) == (
        0.75, "Answer in {lang}: {question}", "Be brief.", 4,
    )  # fmt: skip
    assert query(home, "SELECT release, report_id FROM registrations") == [("new", "capitals/new/v1")]

    # The data set is known by its name now; what is asked otherwise is another release.
    warm = cli("generate", "--dataset", "capitals", *options, "--temperature", "0.7")
    assert (warm.returncode, model.n_requests) == (2, 4)
    assert warm.stderr.splitlines()[-1].startswith(
        "answerkey: capitals/new: its answers were generated with temperature 0.0, and here it is 0.7; give"
    )
    ended = query(home, "SELECT status FROM runs WHERE flow = 'generate-answers' ORDER BY started_at")
    assert ended == [("complete",), ("stopped",), ("complete",)]
    assert list((home / "runs").iterdir()) == []
    _shown_and_no_key(home, ask, [dry, little, process, evaluated, warm])


def _shown_and_no_key(home, ask, done):
    [artifact] = ask("artifacts/latest/filter", {"artifacts": {"key": {"any_": ["generated-capitals-new"]}}})
    counts = {row["what"]: row["questions"] for row in json.loads(artifact["data"])}
    assert counts == {"questions": "4", "generated": "1", "from ledger": "3", "failed": "0", "skipped": "0"}
    runs = [str(run) for (run,) in query(home, "SELECT run_id FROM runs")]
    texts = {"terminal": "".join(one.stdout + one.stderr for one in done), **said_by_prefect(runs, ask)}
    files = neverspoken(texts, home)
    assert {"answerkey.duckdb", "judge.sqlite", "answers.jsonl", "answers.manifest.json"} <= files


MODEL = "openai/gpt-4o-mini"
KEYS = {"ANSWERKEY_MODEL_KEY": "sk-model-0123456789", "ANSWERKEY_JUDGE_KEY": "sk-judge-0123456789"}


def numbered(folder, count):
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "reference": f"Answer {n}"} for n in range(count)]
    return jsonl(folder / "capitals.jsonl", rows)


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
        process = bare_cli(
            "generate", "--dataset", numbered(tmp_path, 5), "--model", f"{MODEL}@{server.url}", "--release", "new",
            "--home", tmp_path / "home", "--config", "{generating: {concurrency: 1}}", "--min-answered", "0.5", **KEYS,
        )  # fmt: skip
    assert process.returncode == 0, process.stderr
    rows, manifest = generated(tmp_path / "home")
    assert [(rows[f"q{n}"]["answer"], rows[f"q{n}"]["finish_reason"]) for n in range(5)] == [
        ("Answer 0", "stop"), ("Answer 1 is very", "length"), ("I will not say.", "refusal"), (None, None),
        (None, None),
    ]  # fmt: skip
    assert rows["q3"]["missing_because"].startswith("no_room: ")
    assert rows["q4"]["missing_because"] == "content_filter: the provider's filter stopped the reply"
    assert (manifest["cut_off"], manifest["refused"], manifest["failed"]) == (1, 1, 2)
    assert (
        "2 failed, 0 skipped (1 no_room, 1 content_filter); 1 cut off at the token limit; 1 refused" in process.stderr
    )


def test_what_a_provider_is_sent_beside_the_question(bare_cli, model, questions, tmp_path):
    words = ("generate", "--dataset", questions, "--model", f"openai/m@{model.url}", "--release", "new", "--home",
             tmp_path / "home")  # fmt: skip
    sent = ("--config", "{generating: {extra_headers: [X-Title=nightly], extra_body: {provider: {only: [a]}}}}")
    bare_cli(*words, *sent, code=0)
    assert {received.headers["x-title"] for received in model.requests} == {"nightly"}
    assert all(received.body["provider"] == {"only": ["a"]} for received in model.requests)
    # A release is of one way of asking.
    assert "extras" in bare_cli(*words, code=2).stderr
    assert (
        "a secret" in bare_cli(*words, "--config", "{generating: {extra_headers: [X-Api-Key=sk-abc]}}", code=2).stderr
    )


def test_the_manifest_counts_the_calls_of_all_runs(bare_cli, tmp_path):
    def answer(body):
        return f"Answer to {body['messages'][-1]['content']}"

    with JudgeServer(answer) as server:
        words = (
            "generate", "--dataset", numbered(tmp_path, 4), "--model", f"{MODEL}@{server.url}", "--release", "new",
            "--home", tmp_path / "home",
        )  # fmt: skip
        first = bare_cli(*words, "--max-calls", "3", **KEYS)
        assert (first.returncode, server.n_requests) == (2, 3), first.stderr
        second = bare_cli(*words, **KEYS)
        assert (second.returncode, server.n_requests) == (0, 4), second.stderr
    rows, manifest = generated(tmp_path / "home")
    assert [row["answer"] for row in rows.values()] == [f"Answer to Question {n}?" for n in range(4)]
    assert (manifest["run"]["calls"], manifest["all_runs"]["calls"]) == (1, 4)
    assert 3 * manifest["run"]["cost_usd"] < manifest["all_runs"]["cost_usd"] == manifest["cost_usd"]
