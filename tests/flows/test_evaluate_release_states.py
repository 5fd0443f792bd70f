"""What the state of a run says of how it ended, its graph, and what Retry does, on a real server."""

import pytest

from tests.flows.deployed_help import Deployed, Engine
from tests.judge_server import JudgeServer, agreeable
from tests.tasks.comparing_help import answer
from tests.tasks.staging_help import jsonl, query


@pytest.fixture(scope="module")
def engine(server, tmp_path_factory):
    with Engine(server, tmp_path_factory.mktemp("engine") / "log") as found:
        yield found


@pytest.mark.real
def test_a_run_says_what_is_missing_and_is_not_repeated_once_it_is_complete(server, engine, tmp_path, home):
    rows = [{"id": f"q{i}", "question": "Who?", "answer": f"No {i}.", "reference": f"{i}"} for i in range(3)]
    answers = [{**row, "release": release} for row in rows for release in ("states-a", "states-b")]
    on_server = Deployed(server, home)
    with JudgeServer(agreeable, faults=lambda _number, _body: "unauthorized") as judge:
        parameters = {
            "data": {"answers": str(jsonl(tmp_path / "states.jsonl", answers))},
            "scoring": {"metrics": ["exact_match", "meaning_match"]},
            "judging": {"judges": [f"openai/x@{judge.url}"], "check": "never"},
            "home": str(home), "baseline": "states-a", "policy": "{primary: exact_match.match, margin: 0.02}",
            "page": False,
        }  # fmt: skip
        run_id = engine.start(parameters)
        first, asked = engine.result(), judge.n_requests
        on_server.retry(run_id)
        engine.start(parameters, run_id)
        again = engine.result()
    assert first == again == ["states/states-a/v1", "states/states-b/v1"]
    assert query(home, "SELECT count(*) FROM reports") == [(2,)]
    assert asked == judge.n_requests
    state = on_server.run(run_id)["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "Partial")
    assert state["message"].startswith("meaning_match: 3 of 3 not scored: 3 ")
    assert " (states/states-a/v1, states/states-b/v1 are PARTIAL); " in state["message"]
    tasks = [one["name"] for one in on_server.task_runs(run_id)]
    names = {name.split(" ")[0] if name.startswith("score") else name for name in tasks}
    # Nothing was done again.
    assert len(tasks) == len(set(tasks))
    assert {"load", "validate", "plan", "score", "commit", "aggregate", "publish", "compare", "gate"} <= names
    scores = {name for name in tasks if name.startswith("score")}
    assert {
        ("load", "validate"), ("validate", "plan"), *(("plan", one) for one in scores),
        *((one, "commit") for one in scores), ("commit", "aggregate"), ("aggregate", "publish"),
        ("aggregate", "compare"), ("compare", "gate"), ("gate", "publish page"), ("gate", "announce"),
    } <= on_server.edges(run_id)  # fmt: skip


@pytest.mark.real
def test_a_retry_of_a_failed_run_goes_on(server, engine, tmp_path):
    missing = tmp_path / "late.jsonl"
    rows = [{"id": f"q{i}", "answer": release, "reference": "good", "release": release}
            for i in range(40) for release in ("good", "bad")]  # fmt: skip
    parameters = {"data": {"answers": str(missing)}, "scoring": {"metrics": ["exact_match"]}, "page": False}
    parameters |= {"baseline": "good", "policy": "{primary: exact_match.match, margin: 0.02}"}
    parameters["home"] = str(tmp_path / "home")
    on_server = Deployed(server, tmp_path)
    run_id = engine.start(parameters)
    assert "late.jsonl" in engine.result()
    jsonl(missing, rows)
    for _ in range(2):
        # The second time it is complete.
        on_server.retry(run_id)
        engine.start(parameters, run_id)
        assert engine.result() == ["late/good/v1", "late/bad/v1"]
        state = on_server.run(run_id)["state"]
        assert (state["type"], state["name"]) == ("COMPLETED", "Completed")
        assert state["message"].startswith("FAIL: ")
    # Without a file there is a page all the same.
    assert "report-late-bad" in on_server.artifacts(run_id)


@pytest.mark.real
def test_a_comparison_without_a_policy_ends_with_what_it_has_found(server, engine, tmp_path):
    rows = [answer(i, text) | {"release": text} for text in ("yes", "no") for i in range(40)]
    parameters = {"data": {"answers": str(jsonl(tmp_path / "found.jsonl", rows))}, "home": str(tmp_path / "home")}
    run_id = engine.start(parameters | {"scoring": {"metrics": ["exact_match"]}, "page": False})
    assert engine.result() == ["found/yes/v1", "found/no/v1"]
    found = "found/no/v1 is worse than found/yes/v1: exact_match.match went from 1.000 to 0.000 (-1.000, "
    assert Deployed(server, tmp_path).run(run_id)["state"]["message"].startswith(found)
