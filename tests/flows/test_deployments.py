"""The deployment file as its README uses it: a pool, a deploy, a run from the form's parameters, a worker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from metrics_core.registry import METRICS

ROOT = Path(__file__).resolve().parents[2]


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


def test_a_deployed_evaluation_runs_from_its_form(server: str, ask: Any, tmp_path: Path) -> None:
    # `prefect work-pool create` looks for newer kinds of workers on the network first; the API does not.
    ask("work_pools/", {"name": "answerkey", "type": "process"})
    prefect(server, "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
    [deployment] = ask("deployments/filter", {"deployments": {"name": {"any_": ["evaluate"]}}})
    form = deployment["parameter_openapi_schema"]
    assert list(form["properties"]) == ["data", "scoring", "limits", "home"]
    assert form["properties"]["scoring"]["description"] == "How to score it."
    metrics = form["definitions"]["Scoring"]["properties"]["metrics"]
    assert metrics["items"]["enum"] == list(METRICS)
    fields = [field for model in form["definitions"].values() for field in model["properties"].values()]
    assert all(field["title"] and field["description"] for field in fields)
    prefect(
        server, "deployment", "run", "evaluate-release/evaluate",
        "--param", f"home={tmp_path / 'home'}", "--param", 'scoring={"metrics": ["contains"]}',
    )  # fmt: skip
    prefect(server, "worker", "start", "--pool", "answerkey", "--run-once")
    runs = ask("flow_runs/filter", {"flow_runs": {"deployment_id": {"any_": [deployment["id"]]}}})
    assert [(run["name"], run["state_type"]) for run in runs] == [("evaluate 2 releases on examples", "COMPLETED")]
    logs = ask("logs/filter", {"logs": {"flow_run_id": {"any_": [runs[0]["id"]]}}})
    assert "examples: 152 rows read, 152 accepted, 0 quarantined" in [line["message"] for line in logs]
