"""What the state of a run says of how it ended, its graph, and what Retry does, on a real server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import ROOT
from tests.flows.deployed_help import Deployed, until
from tests.judge_server import JudgeServer, agreeable
from tests.tasks.staging_help import jsonl, query

TWICE = """
import json, sys
import prefect
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.states import Scheduled
from answerkey.flows.evaluate_release import evaluate_release

asked = json.load(sys.stdin)
found = []
with get_client(sync_client=True) as client:
    run = client.create_flow_run(evaluate_release, parameters=asked["parameters"], tags=["answerkey"])
    for _ in range(2):
        try:
            found.append(run_flow(evaluate_release, flow_run=run, parameters=asked["parameters"]))
        except Exception as error:
            found.append(str(error))
        if len(found) == 1:
            for path, text in asked["files"].items():
                open(path, "w").write(text)
            # As the button in the UI does.
            client.set_flow_run_state(run.id, Scheduled(name="AwaitingRetry"), force=True)
            run = client.read_flow_run(run.id)
print(json.dumps([str(run.id), found]))
"""
"""A run that is started, and retried once some files are there."""

pytestmark = pytest.mark.timeout(600)


def run_twice(server: str, parameters: dict[str, Any], files: dict[str, str]) -> tuple[str, list[Any]]:
    environment = {**os.environ, "PREFECT_API_URL": server, "ANSWERKEY_JUDGE_KEY": "none"}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], check=True, cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=500, input=json.dumps({"parameters": parameters, "files": files}),
    )  # fmt: skip
    run, found = json.loads(done.stdout.splitlines()[-1])
    return run, found


def test_a_run_says_what_is_missing_and_is_not_repeated_once_it_is_complete(server: str, tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "question": "Who?", "answer": f"No {i}.", "reference": f"{i}"} for i in range(3)]
    answers = [{**row, "release": release} for row in rows for release in ("states-a", "states-b")]
    home = tmp_path / "home"
    with JudgeServer(agreeable, faults=lambda _number, _body: "unauthorized") as judge:
        run_id, found = run_twice(server, {
            "data": {"answers": str(jsonl(tmp_path / "states.jsonl", answers))},
            "scoring": {"metrics": ["exact_match", "meaning_match"]},
            "judging": {"judges": [f"openai/x@{judge.url}"], "probes": "never"},
            "home": str(home), "baseline": "states-a", "policy": "{primary: exact_match.match, margin: 0.02}",
            "page": False,
        }, {})  # fmt: skip
        asked = judge.n_requests
    assert found == [["states/states-a/v1", "states/states-b/v1"]] * 2
    assert query(home, "SELECT count(*) FROM reports") == [(2,)]
    assert asked == judge.n_requests
    on_server = Deployed(server, home)
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


def test_a_retry_of_a_failed_run_goes_on(server: str, tmp_path: Path) -> None:
    missing = tmp_path / "late.jsonl"
    row = {"id": "q", "answer": "a", "reference": "a", "release": "late"}
    parameters = {"data": {"answers": str(missing)}, "scoring": {"metrics": ["exact_match"]}, "page": False}
    parameters["home"] = str(tmp_path / "home")
    run_id, found = run_twice(server, parameters, {str(missing): json.dumps(row)})
    assert "late.jsonl" in found[0] and found[1] == ["late/late/v1"]
    on_server = Deployed(server, tmp_path)
    state = on_server.run(run_id)["state"]
    assert (state["name"], state["message"]) == ("Completed", None)
    # Without a file there is a page all the same.
    assert "report-late-late" in on_server.artifacts(run_id)


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
