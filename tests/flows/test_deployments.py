"""The deployment file as its README uses it: a pool, a deploy, a run from the form's parameters, a worker."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from metrics_core.registry import METRICS
from tasks.warehouse.warehouse import reading
from tests.judge_server import JudgeServer, agreeable

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-form-0123456789abcdef"


def prefect(server: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": server, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_a_deployed_evaluation_runs_from_its_form(server: str, ask: Any, save_secret: Any, tmp_path: Path) -> None:
    # `prefect work-pool create` looks for newer kinds of workers on the network first; the API does not.
    ask("work_pools/", {"name": "answerkey", "type": "process"})
    prefect(server, "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
    [deployment] = ask("deployments/filter", {"deployments": {"name": {"any_": ["evaluate"]}}})
    form = deployment["parameter_openapi_schema"]
    assert list(form["properties"]) == ["data", "scoring", "judging", "limits", "home", "baseline"]
    assert form["properties"]["scoring"]["description"] == "How to score it."
    metrics = form["definitions"]["Scoring"]["properties"]["metrics"]
    assert metrics["items"]["enum"] == list(METRICS)
    fields = [field for model in form["definitions"].values() for field in model["properties"].values()]
    assert all(field["title"] and field["description"] for field in fields)
    assert form["definitions"]["Judging"]["title"] == "Judge"
    _a_pasted_key_is_refused(server, deployment["id"], tmp_path)
    save_secret("judge-key-of-the-form", KEY)
    with JudgeServer(agreeable) as judge:
        judging = {"judges": [f"openai/x@{judge.url}"], "key_from": "secret:judge-key-of-the-form"}
        scoring = {"metrics": ["contains", "meaning_match"]}
        prefect(
            server, "deployment", "run", "evaluate-release/evaluate", "--param", f"home={tmp_path / 'home'}",
            "--param", f"scoring={json.dumps(scoring)}", "--param", f"judging={json.dumps(judging)}",
        )  # fmt: skip
        prefect(server, "worker", "start", "--pool", "answerkey", "--run-once")
        assert {request.headers["authorization"] for request in judge.requests} == {f"Bearer {KEY}"}
    runs = ask("flow_runs/filter", {"flow_runs": {"deployment_id": {"any_": [deployment["id"]]}}})
    assert [(run["name"], run["state_type"]) for run in runs] == [("evaluate 2 releases on examples", "COMPLETED")]
    logs = ask("logs/filter", {"logs": {"flow_run_id": {"any_": [runs[0]["id"]]}}})
    assert "examples: 152 rows read, 152 accepted, 0 quarantined" in [line["message"] for line in logs]
    with reading(tmp_path / "home") as warehouse:
        judged = warehouse.execute(
            "SELECT status, count(*) FROM measurements WHERE metric = 'meaning_match' GROUP BY status"
        ).fetchall()
    assert judged == [("scored", 152)]


def _a_pasted_key_is_refused(server: str, deployment: str, home: Path) -> None:
    """The form knows how a place is written, so what is none is never stored."""
    parameters = {"judging": {"key_from": KEY}, "home": str(home)}
    request = urllib.request.Request(
        f"{server}/deployments/{deployment}/create_flow_run",
        json.dumps({"parameters": parameters, "enforce_parameter_schema": True}).encode(),
        {"Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    assert caught.value.code in (409, 422)
