"""Answers of a model for a whole data set: kept, counted, continued, registered, and evaluated without a false zero."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.tasks.releases.generate import (
    Asking,
    check_answered,
    estimate_answers,
    generate,
    register_generated,
    tally,
)
from answerkey.tasks.releases.provenance import answers_file, generation_of
from answerkey.tasks.releases.questions import find_questions
from answerkey.tasks.releases.register import stored_source
from answerkey.tasks.warehouse.home import Home
from tests.conftest import ROOT
from tests.judge_server import JudgeProcess, JudgeServer
from tests.kit.waiting import FAULT_S, wait_until
from tests.metrics_core.judges.asking import count
from tests.tasks.staging_help import jsonl, query, refusal, run

KEY = "sk-canary-generation-0123456789"
PLAIN = Prompting()
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima"}


def knows_all(body):
    question = body["messages"][-1]["content"]
    return next(f"It is {capital}." for land, capital in CAPITALS.items() if land in question)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("ANSWERKEY_MODEL_KEY", KEY)


@pytest.fixture
def server():
    with JudgeServer(knows_all) as started:
        yield started


@pytest.fixture
def found(tmp_path, home):
    rows = [
        {"id": land, "question": f"Capital of {land}?", "reference": capital, "south": land == "Peru"}
        for land, capital in CAPITALS.items()
    ]
    file = jsonl(tmp_path / "capitals.jsonl", [*rows, {"id": "none", "question": " ", "reference": "-"}])
    return find_questions(home, file, tmp_path / "work", slices=("south",))


@pytest.fixture
def asking(server, home):
    """How a run asks, by its name."""

    def asking(run_id="run", prompting=PLAIN, repeats=1, **limits):
        access = Access(ledger=home.ledger, run=run_id)
        model = ModelRef("openai/gpt-4o-mini", server.url)
        return Asking(prompting, model, CallLimits(**limits), access, repeats=repeats)

    return asking


@pytest.fixture
def generated(home, found, asking, tmp_path):
    """Runs, by their names, that generate the answers of a release."""

    def generated(run_id="run", release="gpt-5", questions=found, **how):
        return generate(home, questions, asking(run_id, **how), release, tmp_path / "work")

    return generated


def lines(made):
    return [json.loads(line) for line in Path(made.answers).read_text(encoding="utf-8").splitlines()]


def counted(made):
    return made.n_questions, made.n_generated, made.n_from_ledger, made.n_failed, made.n_skipped


def test_answers_are_kept_in_order_with_how_they_were_made(server, found, asking, generated, tmp_path):
    foreseen = estimate_answers(found, asking(), tmp_path / "work")
    assert (foreseen.samples, foreseen.calls, foreseen.in_ledger, server.n_requests) == (4, 4, 0, 0)
    summary = generated(release="gpt 5")
    assert server.n_requests == summary.calls == foreseen.calls
    assert [(row["id"], row["answer"]) for row in lines(summary)] == [
        *((land, f"It is {capital}.") for land, capital in CAPITALS.items()),
        ("none", None),
    ]
    assert lines(summary)[-1]["missing_because"] == "the question is blank"
    assert counted(summary) == (5, 4, 0, 0, 1)
    assert summary.cost_usd > 0
    about = generation_of(summary.answers)
    assert (about["model"], about["template"], about["temperature"]) == (
        f"openai/gpt-4o-mini@{server.url.removeprefix('http://')}", "{question}", 0.0,
    )  # fmt: skip
    assert (about["run"]["calls"], about["answered_by"], about["answered"]) == (4, {"gpt-4o-mini": 4}, 4)
    assert about["versions"]["litellm"][0].isdigit()
    # A second time no model is asked, the file is the same, and what the first run knew is kept.
    before = Path(summary.answers).read_bytes()
    repeated = generated("again", release="gpt 5")
    assert (counted(repeated), repeated.calls, server.n_requests) == ((5, 0, 4, 0, 1), 0, 4)
    assert (Path(summary.answers).read_bytes(), generation_of(summary.answers)) == (before, about)
    # Answers that were edited no longer count as generated.
    Path(summary.answers).write_bytes(before.replace(b"Rome", b"Lyon"))
    assert generation_of(summary.answers) is None


def test_repeats_are_asked_one_by_one_and_more_of_them_later(server, home, found, asking, generated, tmp_path):
    assert generated().calls == 4
    foreseen = estimate_answers(found, asking("second", repeats=3), tmp_path / "work")
    assert (foreseen.samples, foreseen.calls, foreseen.in_ledger) == (12, 8, 4)
    summary = generated("second", repeats=3)
    assert (counted(summary), summary.repeats, summary.calls, server.n_requests) == ((5, 8, 4, 0, 3), 3, 8, 12)
    # Every request has a seed of its own; the first repeat is the request that was made without repeats.
    assert Counter(request.body["seed"] for request in server.requests) == {0: 4, 1: 4, 2: 4}
    assert [(row["id"], row["repeat"], row["answer"]) for row in lines(summary)][:4] == [
        *(("France", repeat, "It is Paris.") for repeat in (1, 2, 3)), ("Italy", 1, "It is Rome."),
    ]  # fmt: skip
    assert len({row["request"] for row in lines(summary)}) == 13
    whole = "capitals/gpt-5: 5 questions, 3 answers each: 8 generated, 4 from ledger, 0 failed, 3 skipped (3 the"
    assert tally(summary).startswith(whole)
    assert generation_of(summary.answers)["repeats"] == 3
    # A run that is stopped half way goes on where it ended.
    stopped = generated("third", repeats=5, max_calls=3)
    missing = Counter(row["missing_because"] for row in lines(stopped))
    assert missing == {None: 15, "budget used up: 3 calls (max_calls)": 5, "the question is blank": 5}
    assert counted(stopped) == (5, 3, 12, 0, 10)
    few = "15 of 25 answers are there (5 budget used up, 5 the question is blank)"
    assert few in refusal(check_answered, stopped, 0.95)
    full = generated("fourth", repeats=5)
    assert (full.n_generated, full.n_from_ledger, server.n_requests) == (5, 15, 20)
    registered = register_generated(home, found, full, "registering", tmp_path / "work")
    completed = run(home, stored_source(home, registered, tmp_path / "work"), ["contains"])
    assert [(release.n_rows, release.n_questions, release.repeats) for release in completed.committed.releases] == [
        (25, 5, 5)
    ]


@pytest.mark.parametrize(
    ("changed", "how"),
    [
        ({"temperature": 0.7}, "temperature 0.0, and here it is 0.7"),
        ({"seed": 1, "max_tokens": 9}, "seed 0, and here it is 1; max tokens 1024, and here it is 9"),
        ({"system": "Be\nbrief."}, "system '', and here it is 'Be brief.'"),
        ({"template": "Q: {question} " * 9}, "template '{question}', and here it is 'Q: {question} Q: {question} "),
    ],
)
def test_answers_of_another_kind_are_not_mixed_into_a_release(changed, how, server, home, generated, tmp_path):
    summary = generated()
    before, other = Path(summary.answers).read_bytes(), Prompting(**changed)
    message = refusal(generated, "two", prompting=other)
    assert message.startswith(f"capitals/gpt-5: its answers were generated with {how}")
    folder = home.local / "answers" / "capitals" / "gpt-5"
    assert message.endswith(f"; give the release another name (--release), or remove {folder}")
    assert (server.n_requests, Path(summary.answers).read_bytes()) == (4, before)
    # Another name is another release; the first one goes on as it was, with more questions too.
    assert generated("two", "newer", prompting=other).calls == server.n_requests - 4 == 4
    more = jsonl(tmp_path / "capitals.jsonl", [{"id": "Peru", "question": "Peru? Capital of Peru?", "reference": "-"}])
    assert generated("three", questions=find_questions(home, more, tmp_path / "work")).calls == 1


def test_a_missing_answer_lowers_the_coverage_and_not_the_score(server, home, found, generated, tmp_path):
    server.faults = lambda _number, body: "context" if "Peru" in body["messages"][-1]["content"] else None
    made, work = generated(), tmp_path / "work"
    assert counted(made) == (5, 3, 0, 1, 1)
    assert made.why == "1 too_long, 1 the question is blank"
    message = refusal(check_answered, made, 0.95)
    assert message.startswith(f"capitals/gpt-5: 3 of 5 questions have an answer ({made.why}), and it takes 95%")
    check_answered(made, 0.6)
    kept = register_generated(home, found, made, "registering", work)
    completed = run(home, stored_source(home, kept, work), ["contains", "rouge_l"])
    scores = query(home, "SELECT metric, field, n_total, n_scored, n_failed, mean, bound_low FROM report_scores "
                         "WHERE slice = 'all' AND field IN ('match', 'recall') ORDER BY metric")  # fmt: skip
    assert scores == [("contains", "match", 5, 3, 2, 1.0, 0.6), ("rouge_l", "recall", 5, 3, 2, 1.0, 0.6)]
    [(status, message)] = query(home, "SELECT status, message FROM reports")
    assert (status, message.split("; ")[0]) == (
        "PARTIAL", "contains: 2 of 5 not scored: 1 unanswered (the question is blank), 1 unanswered (too_long)",
    )  # fmt: skip
    unanswered = query(home, "SELECT sample_id FROM answers WHERE missing_because IS NOT NULL ORDER BY ALL")
    assert unanswered == [("Peru",), ("none",)]
    checks = {check.rule: check.n_failed for check in completed.validation.checks}
    assert (checks["blank_answer"], checks["unanswered"]) == (0, 2)
    # A blank answer that was really given is still a wrong one, and is not taken for a missing one.
    blank = jsonl(tmp_path / "blank.jsonl", [{"id": "Peru", "answer": None}])
    stored = stored_source(home, kept, work)
    run(home, replace(stored, answers=blank, release="blank", paths={}), ["contains"])
    of_blank = "SELECT n_scored, mean FROM report_scores WHERE release = 'blank' AND slice = 'all'"
    assert query(home, of_blank) == [(1, 0.0)]


def test_the_manifest_goes_where_the_answers_go(home, found, generated, tmp_path):
    summary = generated()
    kept = register_generated(home, found, summary, "registering", tmp_path / "work")
    assert (kept.dataset, kept.release) == ("capitals", "gpt-5")
    assert kept.generation == generation_of(summary.answers)
    assert query(home, "SELECT DISTINCT map_keys(slices) FROM answers") == [(["south"],)]
    assert query(home, "SELECT generation ->> '$.release' FROM registered") == [("gpt-5",)]


def test_the_key_is_in_no_file(server, home, generated):
    # This answer quotes the key.
    server.faults = lambda number, _body: "unauthorized" if number == 0 else None
    summary = generated(concurrency=1)
    assert summary.n_failed and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    files = [path for path in home.local.rglob("*") if path.is_file()]
    assert {"answers.jsonl", "answers.manifest.json", "judge.sqlite"} <= {path.name for path in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


N, CONCURRENCY = 300, 8
GENERATE = f"""
import sys
from pathlib import Path
from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.tasks.releases.generate import Asking, generate
from answerkey.tasks.releases.questions import find_questions
from answerkey.tasks.warehouse.home import Home

url, file, home, run = sys.argv[1:]
model, access = ModelRef("openai/model", url), Access(ledger=home, run=run)
asking = Asking(Prompting(), model, CallLimits(concurrency={CONCURRENCY}), access)
work = Path(home) / "work"
place = Home.parse(home)
made = generate(place, find_questions(place, file, work), asking, "gpt-5", work)
print(made.n_generated, made.n_from_ledger, made.calls)
"""


@pytest.mark.real
def test_a_killed_run_goes_on_and_asks_nothing_again(tmp_path):
    rows = [{"id": f"q{i}", "question": f"What is {i}?", "reference": str(i)} for i in range(N)]
    file, home = jsonl(tmp_path / "many.jsonl", rows), tmp_path / "home"

    def start(run_id):
        command = [sys.executable, "-c", GENERATE, server.url, file, str(home), run_id]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    with JudgeProcess("--hold-after", str(N // 2), "--brain", "parrot") as server:
        killed = start("one")
        wait_until(lambda: server.stats()["requests"] >= N // 2, "half of the requests")
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        server.release()
        assert not answers_file(Home(home), "many", "gpt-5").exists()
        known, in_flight = count(home, "status = 'usable'"), count(home, "status = 'sent'")
        again = start("two")
        said, _ = again.communicate(timeout=FAULT_S)
        assert [int(word) for word in said.split()] == [N - known, known, N - known]
        stats = server.stats()
        assert stats["requests"] <= N + in_flight <= N + CONCURRENCY
        assert Counter(stats["bodies"].values())[1] >= N - in_flight
        assert len(stats["bodies"]) == N
    ids = [json.loads(line)["id"] for line in answers_file(Home(home), "many", "gpt-5").read_text().splitlines()]
    assert ids == [f"q{i}" for i in range(N)]
