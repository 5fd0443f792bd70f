"""A judge's key is nowhere but in the requests that it opens: not even where a server says it back."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from tests.judge_server import Body, JudgeServer, agreeable

Cli = Callable[..., subprocess.CompletedProcess[str]]
IN_ENVIRONMENT = "sk-canary-environment-0123456789abcdef"
IN_BLOCK = "sk-canary-block-0123456789abcdef"
METRICS = ("--metrics", "contains,meaning_match,ground_truth_similarity", "--judge", "openai/gpt-4o-mini")


def test_a_key_is_nowhere(
    cli: Cli, save_secret: Any, server_folder: Path, answers: Path, tmp_path: Path, ask: Any
) -> None:
    home = tmp_path / "home"
    save_secret("judge-key", IN_BLOCK)
    with JudgeServer(_says_keys) as judge:
        # This answer quotes the key.
        judge.faults = lambda _number, _body: "unauthorized"
        base = ("--judge-base", judge.url, "--home", home)
        refused = cli("evaluate", answers, *METRICS, *base, ANSWERKEY_JUDGE_KEY=IN_ENVIRONMENT)
        assert refused.returncode == 0, refused.stderr
        assert refused.stdout.count("PARTIAL\n  meaning_match: 2 of 4 not scored: 2 http_401\n") == 2
        n_refused = judge.n_requests
        judge.faults = lambda number, _body: "unauthorized" if number == n_refused + 3 else None
        half = cli("evaluate", answers, *METRICS, *base, "--judge-key-from", "secret:judge-key", "--json")
        assert half.returncode == 0, half.stderr
        sent = [request.headers["authorization"] for request in judge.requests]
    # It did travel, and each from the place that was named.
    assert 0 < n_refused < len(sent)
    assert sent == [f"Bearer {IN_ENVIRONMENT}"] * n_refused + [f"Bearer {IN_BLOCK}"] * (len(sent) - n_refused)
    assert "secret:judge-key" in half.stdout
    texts = {
        "terminal": refused.stdout + refused.stderr + half.stdout + half.stderr,
        "report": cli("report", "--home", home).stdout,
        "warehouse": _warehouse(home),
        "ledger": _ledger(home),
        **_prefect(home, ask),
    }
    assert "http_401" in texts["ledger"]
    assert all(texts.values())
    assert [place for place, text in texts.items() if "canary" in text] == []
    files = [path for folder in (home, server_folder) for path in folder.rglob("*") if path.is_file()]
    assert {"answerkey.duckdb", "judge.sqlite", "prefect.db"} <= {path.name for path in files}
    assert [path for path in files if b"canary" in path.read_bytes()] == []


def _says_keys(body: Body) -> str:
    """The verdict of an agreeable judge, with the key that it was sent as the reason."""
    said = json.loads(agreeable(body))
    return json.dumps({key: IN_BLOCK if key == "reason" else value for key, value in said.items()})


def _warehouse(home: Path) -> str:
    """All tables as text: in the file they are compressed."""
    with duckdb.connect(str(home / "answerkey.duckdb"), read_only=True) as warehouse:
        tables = [name for (name,) in warehouse.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert {"runs", "reports", "measurements", "judge_calls"} <= set(tables)
        return "\n".join(str(row) for name in tables for row in warehouse.execute(f"FROM {name}").fetchall())


def _ledger(home: Path) -> str:
    with sqlite3.connect(home / "judge.sqlite") as ledger:
        return "\n".join(ledger.iterdump())


def _prefect(home: Path, ask: Any) -> dict[str, str]:
    """What the server's API says of the runs."""
    with duckdb.connect(str(home / "answerkey.duckdb"), read_only=True) as warehouse:
        runs = [str(run) for (run,) in warehouse.execute("SELECT run_id FROM runs").fetchall()]
    assert len(runs) == 2
    of_runs = {"flow_runs": {"id": {"any_": runs}}}
    events = {"filter": {"related": {"id": [f"prefect.flow-run.{run}" for run in runs]}}, "limit": 50}
    return {
        "flow runs": json.dumps(ask("flow_runs/filter", of_runs)),
        "task runs": json.dumps(ask("task_runs/filter", of_runs)),
        "artifacts": json.dumps(ask("artifacts/filter", of_runs)),
        "logs": json.dumps(ask("logs/filter", {"logs": {"flow_run_id": {"any_": runs}}})),
        "events": json.dumps(ask("events/filter", events)["events"]),
    }
