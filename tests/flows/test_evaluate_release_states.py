"""What the state of a run says of how it ended, its graph, and what Retry does, on a real server."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prefect
import pytest
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import AwaitingRetry, Running

from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Scoring
from tests.flows.deployed_help import Deployed, Engine, until
from tests.judge_server import JudgeServer, agreeable
from tests.tasks.staging_help import jsonl, query

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def engine(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(server, tmp_path_factory.mktemp("engine") / "log") as found:
        yield found


def test_a_run_says_what_is_missing_and_is_not_repeated_once_it_is_complete(
    server: str, engine: Engine, tmp_path: Path
) -> None:
    rows = [{"id": f"q{i}", "question": "Who?", "answer": f"No {i}.", "reference": f"{i}"} for i in range(3)]
    answers = [{**row, "release": release} for row in rows for release in ("states-a", "states-b")]
    home = tmp_path / "home"
    on_server = Deployed(server, home)
    with JudgeServer(agreeable, faults=lambda _number, _body: "unauthorized") as judge:
        parameters = {
            "data": {"answers": str(jsonl(tmp_path / "states.jsonl", answers))},
            "scoring": {"metrics": ["exact_match", "meaning_match"]},
            "judging": {"judges": [f"openai/x@{judge.url}"], "probes": "never"},
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
    assert state["message"].startswith("states/states-a/v1 is PARTIAL: meaning_match: 3 of 3 not scored: 3 ")
    tasks = until(lambda: _tasks(on_server, run_id), 100, "the task runs")
    edges = {(tasks[before], one["name"]) for one in _task_runs(on_server, run_id) for before in _inputs(one)}
    names = {name.split(" ")[0] if name.startswith("score") else name for name in tasks.values()}
    # Nothing was done again.
    assert len(tasks) == len(set(tasks.values()))
    assert {"load", "validate", "plan", "score", "commit", "aggregate", "publish", "compare", "gate"} <= names
    scores = {name for name in tasks.values() if name.startswith("score")}
    assert {
        ("load", "validate"), ("validate", "plan"), *(("plan", one) for one in scores),
        *((one, "commit") for one in scores), ("commit", "aggregate"), ("aggregate", "publish"),
        ("aggregate", "compare"), ("compare", "gate"), ("gate", "publish page"), ("gate", "announce"),
    } <= edges  # fmt: skip


def test_a_retry_of_a_failed_run_goes_on(server: str, engine: Engine, tmp_path: Path) -> None:
    missing = tmp_path / "late.jsonl"
    row = {"id": "q", "answer": "a", "reference": "a", "release": "late"}
    parameters = {"data": {"answers": str(missing)}, "scoring": {"metrics": ["exact_match"]}, "page": False}
    parameters["home"] = str(tmp_path / "home")
    on_server = Deployed(server, tmp_path)
    run_id = engine.start(parameters)
    assert "late.jsonl" in engine.result()
    missing.write_text(json.dumps(row))
    on_server.retry(run_id)
    engine.start(parameters, run_id)
    assert engine.result() == ["late/late/v1"]
    state = on_server.run(run_id)["state"]
    assert (state["name"], state["message"]) == ("Completed", None)
    # Without a file there is a page all the same.
    assert "report-late-late" in on_server.artifacts(run_id)


def test_within_a_flow_of_ones_own_a_retry_takes_no_report_of_other_answers(server: str, tmp_path: Path) -> None:
    home, todo = tmp_path / "home", ["first"]

    @prefect.flow
    def own() -> list[object]:
        forms = [Data(answers=str(tmp_path / f"{name}.jsonl"), release=name) for name in todo]
        scoring = Scoring(metrics=["exact_match"])
        return [evaluate_release(data, scoring, home=str(home), page=False) for data in forms]

    for name in ("first", "second"):
        jsonl(tmp_path / f"{name}.jsonl", [{"id": "q", "answer": "a", "reference": "a"}])
    with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
        run = client.create_flow_run(own)
        assert run_flow(own, flow_run=run) == [["first/first/v1"]]
        [(part,)] = query(home, "SELECT run_id FROM runs")
        # As a kill leaves them.
        client.set_flow_run_state(uuid.UUID(str(part)), Running(), force=True)
        client.set_flow_run_state(run.id, AwaitingRetry(), force=True)
        todo[:] = ["second"]
        assert run_flow(own, flow_run=client.read_flow_run(run.id)) == [["second/second/v1"]]
        APILogWorker.drain_all()
    assert query(home, "SELECT report_id FROM reports ORDER BY 1") == [("first/first/v1",), ("second/second/v1",)]


def _task_runs(on_server: Deployed, run_id: str) -> list[dict[str, Any]]:
    return list(on_server.ask("POST", "task_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}}))


def _tasks(on_server: Deployed, run_id: str) -> dict[str, str] | None:
    """The names of the task runs by their ids; the server learns of them by events, the last of them at last."""
    found = {one["id"]: one["name"] for one in _task_runs(on_server, run_id)}
    return found if "announce" in found.values() else None


def _inputs(task_run: dict[str, Any]) -> set[str]:
    return {
        one["id"] for inputs in task_run["task_inputs"].values() for one in inputs if one["input_type"] == "task_run"
    }
