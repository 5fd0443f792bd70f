"""Scoring on the workers of a Dask scheduler: the same rows as here, whatever dies, and refusals in a line."""

import json
import os
import signal
import subprocess
import sys

import pytest

from answerkey.flows.on_dask import StopSign
from tests.cluster_servers import dies_with_its_parent
from tests.flows.conftest import ROOT, started_on
from tests.judge_server import JudgeServer, agreeable
from tests.kit.ports import free_port
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import jsonl, query

ROWS = [{"id": str(i), "answer": f"answer {i} is {i * 7}", "reference": f"{i * 7}"} for i in range(400)]
METRICS = "chrf,bleu,exact_match,token_overlap,tests.flows.held_metric:Held"
SCORES = 'SELECT metric, sample_key, status, "values"::VARCHAR FROM measurements ORDER BY ALL'


def on(runner, **judging):
    return ["--config", json.dumps({"scoring": {"runner": runner}, "judging": judging})]


@pytest.fixture
def start_dask():
    """Starts a scheduler or a worker of Dask, as people do."""
    started = []

    def start(what, *arguments, **changes):
        quiet = ("--no-dashboard", "--host", "127.0.0.1", *arguments)
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + what, *quiet], cwd=ROOT,
            env=os.environ | changes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_its_parent(),  # noqa: PLW1509 - it calls nothing but the kernel
        )  # fmt: skip
        started.append(process)

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(start_dask, tmp_path):
    """The address of a scheduler without workers."""
    file = tmp_path / "scheduler.json"
    start_dask("scheduler", "--port", "0", "--scheduler-file", file)
    wait_until(lambda: file.exists() and file.read_text(), "a scheduler")
    return json.loads(file.read_text())["address"]


@pytest.mark.real
def test_a_worker_that_is_killed_loses_no_row_and_scores_are_those_of_one_machine(
    server, bare_cli, start_dask, scheduler, tmp_path, home, monkeypatch
):
    file = jsonl(tmp_path / "answers.jsonl", ROWS)
    held = tmp_path / "held"
    monkeypatch.setenv("HELD", str(held))
    bare_cli("evaluate", file, "--metrics", METRICS, "--home", tmp_path / "here", code=0)
    at_work = held.with_suffix(".pid")
    at_work.write_text("")
    held.touch()
    for number in range(2):
        start_dask("worker", scheduler, "--no-nanny", "--local-directory", tmp_path / f"worker-{number}")

    run = started_on(server, "evaluate", file, "--metrics", METRICS, "--no-page", *on(scheduler))
    wait_until(lambda: run.poll() is not None or at_work.read_text(), "a shard on a worker")
    assert run.poll() is None, run.communicate()
    os.kill(int(at_work.read_text()), signal.SIGKILL)
    held.unlink()
    _, said = run.communicate()

    assert run.returncode == 0, said
    scores = query(home, SCORES)
    assert len(scores) == 5 * len(ROWS)
    assert scores == query(tmp_path / "here", SCORES)


def _works_until_stopped(sign, at_work):
    at_work.touch()
    while not sign.is_set():
        pass
    return True


@pytest.mark.real
def test_a_worker_sees_that_the_run_has_ended(start_dask, scheduler, tmp_path):
    # Imported late: every process that collects the tests would take half a second for it
    from distributed import Client

    start_dask("worker", scheduler, "--no-nanny", "--local-directory", tmp_path / "worker")
    at_work = tmp_path / "at-work"
    with Client(scheduler) as client:
        sign = StopSign()
        result = client.submit(_works_until_stopped, sign, at_work)
        wait_until(at_work.exists, "a task at work")
        assert not result.done()

        sign.set()

        assert result.result(FAULT_S)


@pytest.mark.real
def test_a_run_that_is_ended_goes_on_with_no_reply_paid_twice(cli, server, start_dask, scheduler, tmp_path, home):
    n_rows = 300
    rows = [{"id": f"q{i}", "question": f"{i} + 1?", "answer": f"{i + 1}", "reference": f"{i}"} for i in range(n_rows)]
    file = jsonl(tmp_path / "answers.jsonl", rows)
    key = {"ANSWERKEY_JUDGE_KEY": "none"}
    start_dask("worker", scheduler, "--no-nanny", "--local-directory", tmp_path / "worker", **key)
    with JudgeServer(agreeable, latency=0.2) as judge:
        asked = ("evaluate", file, "--metrics", "meaning_match", "--judge", f"openai/m@{judge.url}", "--no-page")
        asked += tuple(on(scheduler, check="never"))
        run = started_on(server, *asked, **key)
        wait_until(lambda: run.poll() is not None or judge.n_requests >= 20, "calls by a worker")
        assert run.poll() is None, run.communicate()
        run.terminate()
        _, said = run.communicate()
        n_at_the_end = judge.n_requests
        cli(*asked, code=0, **key)

    assert run.returncode, said
    assert n_at_the_end < judge.n_requests == n_rows


@pytest.mark.real
def test_a_scheduler_that_cannot_score_is_refused_before_anything_is_loaded(
    cli, server, bare_cli, scheduler, tmp_path, home
):
    file = jsonl(tmp_path / "answers.jsonl", ROWS[:1])
    nobody = f"tcp://127.0.0.1:{free_port()}"
    evaluate = ("evaluate", file, "--metrics", "exact_match")

    message_by_runner = {
        runner: cli(*evaluate, *on(runner), code=2).stderr for runner in (nobody, scheduler, "tcp://10.1.2.3:1")
    }
    without_server = bare_cli(*evaluate, *on(nobody), code=2).stderr

    assert message_by_runner[nobody].startswith(
        f"answerkey: runner {nobody}: no Dask scheduler answers at this address"
    )
    assert f"the scheduler has no worker; start some with `dask worker {scheduler}`" in message_by_runner[scheduler]
    assert (
        "workers on other machines cannot reach the Prefect server at 127.0.0.1:"
        in message_by_runner["tcp://10.1.2.3:1"]
    )
    assert "workers report to a Prefect server, and none takes part" in without_server
    assert not list(home.rglob("*.duckdb"))
