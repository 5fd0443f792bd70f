"""The server that `answerkey serve` keeps for a home takes part in its runs; a signal ends a run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing, contextmanager

import pytest

from answerkey.metrics_core.llm.ledger import FILE
from answerkey.tasks.server import NOTE, kept_server
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import command
from tests.judge_http import http
from tests.judge_server import JudgeProcess
from tests.kit.waiting import FAULT_S, wait_until
from tests.raw_server import RawServer
from tests.tasks.staging_help import jsonl, query


@pytest.fixture
def served_home(server, server_folder, tmp_path):
    """A home as `answerkey serve` leaves it while it runs: the server has its database there."""
    home = tmp_path / "served"
    home.mkdir()
    (home / "prefect").symlink_to(server_folder)
    (home / NOTE).write_text(f"{server}\n")
    yield home
    (home / NOTE).unlink()


@pytest.mark.real
def test_a_run_is_on_the_server_of_its_home(served_home, answers, ask):
    asked = command("evaluate", answers, "--metrics", "exact_match", "--no-page", "--home", served_home)
    # Prefect reads which server it has when it is imported.
    subprocess.run(asked, check=True, capture_output=True, timeout=FAULT_S)
    with Home(served_home).warehouse.reading() as warehouse:
        [(run,)] = warehouse.execute("SELECT run_id FROM runs").fetchall()
    [record] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert record["name"] == "evaluate 2 releases on faq"


@pytest.mark.nightly
def test_a_server_of_another_home_and_one_that_is_gone_are_not_used(served_home, server, tmp_path):
    assert kept_server(served_home) == server
    other = tmp_path / "other" / NOTE
    other.parent.mkdir(parents=True)
    assert kept_server(tmp_path / "other") == ""
    for address in (server, "http://127.0.0.1:9/api", "nonsense"):
        other.write_text(address)
        assert kept_server(tmp_path / "other") == ""


@pytest.mark.parametrize("reply", ["null", '"/home"', '{"home": 1}', "no JSON"])
def test_what_answers_like_no_server_of_prefect_is_not_used(reply, tmp_path):
    note = tmp_path / NOTE
    note.parent.mkdir()
    with RawServer(http(200, reply.encode())) as other:
        note.write_text(f"http://127.0.0.1:{other.port}/api")
        assert kept_server(tmp_path) == ""


@pytest.mark.nightly
def test_an_address_that_others_have_written_or_that_is_elsewhere_is_not_used(served_home, server, monkeypatch):
    note = served_home / NOTE
    note.write_text(server.replace("127.0.0.1", "localhost"))
    assert kept_server(served_home) == ""
    note.write_bytes(b"\xff")
    assert kept_server(served_home) == ""
    note.write_text(server)
    assert kept_server(served_home) == server
    ours = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: ours + 1)
    assert kept_server(served_home) == ""


ROWS, ANSWERED, IN_FLIGHT = 30, 10, 4


def _heeds_ctrl_c():
    """As from a terminal: where pytest itself was started in the background, what it starts ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def judge():
    with JudgeProcess("--latency", "0.01", "--hold-after", str(ANSWERED)) as started:
        yield started


@contextmanager
def evaluating(judge, folder, prefect):
    """The command on these rows, in a group of processes of its own, as a shell starts it."""
    rows = [
        {"id": f"s{n}", "question": f"question {n}?", "reference": f"reference {n}", "answer": f"answer {n}"}
        for n in range(ROWS)
    ]
    config = f"{{judging: {{concurrency: {IN_FLIGHT}, check: never}}}}"
    words = ("--metrics", "meaning_match", "--judge", f"openai/gpt-4o-mini@{judge.url}", "--config", config,
             "--no-page", "--home", folder / "home")  # fmt: skip
    run = subprocess.Popen(
        command("evaluate", jsonl(folder / "a.jsonl", rows), *words),
        env={**os.environ, "ANSWERKEY_JUDGE_KEY": "sk-none", **({"PREFECT_API_URL": prefect} if prefect else {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
        preexec_fn=_heeds_ctrl_c,  # noqa: PLW1509
    )  # fmt: skip
    try:
        yield run
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


def ledger(home, query):
    with closing(sqlite3.connect(home / FILE)) as database:
        return database.execute(query).fetchall()


STATES = "SELECT status, coalesce(code, ''), count(*) FROM answerkey_calls GROUP BY 1, 2 ORDER BY 1, 2"
CLAIMS = "SELECT count(*) FROM answerkey_claims"


@pytest.mark.real
@pytest.mark.parametrize(
    ("number", "code", "on_server"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, True)],
)
def test_a_run_that_is_told_to_end_ends_and_leaves_no_claim(number, code, on_server, judge, request, tmp_path):
    prefect, home = request.getfixturevalue("server") if on_server else "", tmp_path / "home"
    with evaluating(judge, tmp_path, prefect) as run:
        # The judge has replied to some, and does not reply to others.
        wait_until(lambda: run.poll() is not None or judge.stats()["requests"] >= ANSWERED + IN_FLIGHT, "requests")
        os.killpg(run.pid, number)
        said, _ = run.communicate(timeout=FAULT_S)
    stopped = "answerkey: stopped; what was scored so far is kept, run the same command again"
    assert (run.returncode, said.splitlines()[-1], "Traceback" in said) == (code, stopped, False)
    assert ledger(home, STATES) == [("error", "cancelled", IN_FLIGHT), ("usable", "", ANSWERED)]
    assert ledger(home, CLAIMS) == [(0,)]
    assert query(home, "SELECT status FROM runs") == [("stopped",)]
    if on_server:
        return
    # The same command ends well; only what was in flight is asked a second time.
    judge.release()
    with evaluating(judge, tmp_path, prefect) as again:
        said, _ = again.communicate(timeout=FAULT_S)
    assert again.returncode == 0, said
    assert sorted(judge.stats()["bodies"].values()) == [1] * (ROWS - IN_FLIGHT) + [2] * IN_FLIGHT
    assert ledger(home, CLAIMS) == [(0,)]
