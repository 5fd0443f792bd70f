"""From a model to a report: the command line, a real Prefect server, a scripted model over HTTP."""

import json

import pytest

from tests.judge_server import JudgeServer
from tests.tasks.staging_help import query

KEY = "sk-canary-model-0123456789abcdef"
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
    file = tmp_path / "capitals.jsonl"
    rows = [
        {"id": land, "question": f"Capital of {land}?", "reference": name, "lang": "en"}
        for land, name in CAPITALS.items()
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_the_whole_life_of_a_release(cli, save_secret, model, questions, tmp_path, ask, home):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Answer in {lang}: {question}\n")
    save_secret("model-key", KEY)
    asked = (
        "--model", f"openai/gpt-4o-mini@{model.url}", "--release", "new", "--key-from", "secret:model-key",
        "--system", "Be brief.", "--template", prompt,
    )  # fmt: skip

    dry = cli("generate", "--dataset", questions, "--slice", "lang", *asked, "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    assert ([one["calls"] for one in json.loads(dry.stdout)], model.n_requests) == ([4], 0)

    little = cli("generate", "--dataset", questions, "--slice", "lang", *asked, "--max-calls", "3")
    assert (little.returncode, model.n_requests) == (2, 3)
    assert little.stderr.splitlines()[-1] == (
        "answerkey: capitals/new: 3 of 4 questions have an answer (1 budget used up), and it takes 95% to register the "
        "release (--min-answered); run again to go on: what was answered is not asked again"
    )
    assert query(home, "SELECT * FROM registered") == []

    # The same again, with what is left.
    made = cli("generate", "--dataset", questions, "--slice", "lang", *asked, "--evaluate", "--metrics", "contains")
    assert made.returncode == 0, made.stderr
    assert model.n_requests == 4
    assert set(model.stats()["bodies"].values()) == {1}
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {KEY}"}
    assert model.requests[0].body["messages"][0]["content"] == "Be brief."
    assert "capitals/new: 4 questions: 1 generated, 3 from ledger, 0 failed, 0 skipped; 1 call, $0.00" in made.stderr
    assert "capitals/new/v1  4 answers" in made.stdout
    [(mean, generation)] = query(home, "SELECT mean, manifest -> '$.generation' FROM report_scores JOIN reports "
                                       "USING (report_id) WHERE slice = 'all'")  # fmt: skip
    about = json.loads(generation)
    assert (mean, about["template"], about["system"], about["answered"]) == (
        0.75, "Answer in {lang}: {question}", "Be brief.", 4,
    )  # fmt: skip
    assert query(home, "SELECT release, report_id FROM registered") == [("new", "capitals/new/v1")]

    # The data set is known by its name now; what is asked otherwise is another release.
    warm = cli("generate", "--dataset", "capitals", *asked, "--temperature", "0.7")
    assert (warm.returncode, model.n_requests) == (2, 4)
    assert warm.stderr.splitlines()[-1].startswith(
        "answerkey: capitals/new: its answers were generated with temperature 0.0, and here it is 0.7; give"
    )
    ended = query(home, "SELECT status FROM runs WHERE flow = 'generate-answers' ORDER BY started_at")
    assert ended == [("complete",), ("stopped",), ("complete",)]
    assert list((home / "runs").iterdir()) == []
    _shown_and_no_key(home, ask, [dry, little, made, warm])


def _shown_and_no_key(home, ask, done):
    [artifact] = ask("artifacts/latest/filter", {"artifacts": {"key": {"any_": ["generated-capitals-new"]}}})
    counts = {row["what"]: row["questions"] for row in json.loads(artifact["data"])}
    assert counts == {"questions": 4, "generated": 1, "from ledger": 3, "failed": 0, "skipped": 0}
    runs = [str(run) for (run,) in query(home, "SELECT run_id FROM runs")]
    of_runs = {"flow_runs": {"id": {"any_": runs}}}
    texts = {
        "terminal": "".join(one.stdout + one.stderr for one in done),
        "flow runs": json.dumps(ask("flow_runs/filter", of_runs)),
        "task runs": json.dumps(ask("task_runs/filter", of_runs)),
        "artifacts": json.dumps(ask("artifacts/filter", of_runs)),
        "logs": json.dumps(ask("logs/filter", {"logs": {"flow_run_id": {"any_": runs}}})),
    }
    assert all(texts.values())
    assert [place for place, text in texts.items() if "canary" in text] == []
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {"answerkey.duckdb", "judge.sqlite", "answers.jsonl", "answers.manifest.json"} <= {one.name for one in files}
    assert [path for path in files if b"canary" in path.read_bytes()] == []


def test_a_model_answers_each_question_several_times(cli, model, questions, tmp_path, home):
    asked = (
        "generate", "--dataset", questions, "--model", f"openai/gpt-4o-mini@{model.url}", "--release", "warm",
        "--repeats", "3", "--evaluate", "--metrics", "contains",
    )  # fmt: skip
    made = cli(*asked, "--temperature", "0.7", ANSWERKEY_MODEL_KEY=KEY)
    assert made.returncode == 0, made.stderr
    assert "capitals/warm: 4 questions, 3 answers each: 12 generated, 0 from ledger" in made.stderr
    assert "12 answers to 4 questions" in made.stdout
    assert "will be alike" not in made.stderr
    assert set(model.stats()["bodies"].values()) == {1} and model.n_requests == 12
    assert query(home, "SELECT count(*), count(DISTINCT sample_id), max(repeat) FROM answers") == [(12, 4, 3)]
    # The same again costs nothing; colder, it is another release, whose answers will be alike.
    again = cli(*asked, "--temperature", "0.7", ANSWERKEY_MODEL_KEY=KEY)
    assert (again.returncode, model.n_requests) == (0, 12)
    cold = cli(*asked, "--release", "cold", "--dry-run", ANSWERKEY_MODEL_KEY=KEY)
    assert (cold.returncode, model.n_requests) == (0, 12)
    assert cold.stderr.count("3 answers per question at temperature 0: they will be alike; set --temperature") == 1
