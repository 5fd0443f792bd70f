"""The server that `answerkey serve` keeps for a home takes part in its runs; a signal ends a run within seconds."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from answerkey.metrics_core.llm.ledger import FILE
from answerkey.tasks.server import NOTE, kept_server
from answerkey.tasks.warehouse.home import Home
from tests.flows.deployed_help import until
from tests.judge_server import JudgeProcess

WAIT_S = 100.0


@pytest.fixture
def served_home(server, server_folder, tmp_path):
    """A home as `answerkey serve` leaves it while it runs: the server has its database there."""
    home = tmp_path / "served"
    home.mkdir()
    (home / "prefect").symlink_to(server_folder)
    (home / NOTE).write_text(f"{server}\n")
    yield home
    (home / NOTE).unlink()


def test_a_run_is_on_the_server_of_its_home(served_home, bare_cli, answers, ask):
    bare_cli("evaluate", answers, "--metrics", "exact_match", "--no-page", "--home", served_home, code=0)
    with Home(served_home).warehouse.reading() as warehouse:
        [(run,)] = warehouse.execute("SELECT run_id FROM runs").fetchall()
    [found] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert found["name"] == "evaluate 2 releases on faq"


def test_a_release_that_is_registered_is_announced_to_the_server_of_its_home(served_home, bare_cli, tmp_path, ask):
    rows = tmp_path / "new.csv"
    rows.write_text("id,answer,reference\nq1,Paris,Paris\n")
    done = bare_cli("register-release", "new", "--dataset", "faq", "--answers", rows, "--home", served_home, code=0)
    assert "evaluate it with" not in done.stdout
    with Home(served_home).warehouse.reading() as warehouse:
        [(run, flow, status)] = warehouse.execute("SELECT run_id, flow, status FROM runs").fetchall()
    [found] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert (flow, status, found["name"]) == ("register-release", "complete", "register new on faq")
    assert found["state"]["message"].startswith("faq/new is registered as ")
    wanted = {"event": {"name": ["answerkey.release.registered"]}, "order": "DESC"}

    def announced():
        found: Any = ask("events/filter", {"filter": wanted, "limit": 50})
        return any(one["payload"]["home"] == str(served_home) for one in found["events"])

    until(announced, WAIT_S, "the event")


def test_a_server_of_another_home_and_one_that_is_gone_are_not_used(served_home, server, tmp_path):
    assert kept_server(served_home) == server
    other = tmp_path / "other" / NOTE
    other.parent.mkdir(parents=True)
    assert kept_server(tmp_path / "other") == ""
    for address in (server, "http://127.0.0.1:9/api", "nonsense"):
        other.write_text(address)
        assert kept_server(tmp_path / "other") == ""


@pytest.mark.parametrize("reply", ["null", "[]", '"/home"', '{"home": 1}', "", "no JSON"])
def test_what_answers_like_no_server_of_prefect_is_not_used(reply, tmp_path):
    class Reply(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(reply.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    note = tmp_path / NOTE
    note.parent.mkdir()
    with HTTPServer(("127.0.0.1", 0), Reply) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        note.write_text(f"http://127.0.0.1:{other.server_port}/api")
        assert kept_server(tmp_path) == ""


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
LONG_S = 100.0
"""Ten times what it takes to end, and less than the judge would take."""
WHOLE_S = 250.0
"""For a start, or a whole run."""


def _heeds_ctrl_c():
    """As from a terminal: where pytest itself was started in the background, what it starts ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Evaluation:
    """The command on these rows, in a group of processes of its own, as a shell starts it."""

    def __init__(self, judge: JudgeProcess, folder: Path, prefect: str) -> None:
        file = folder / "a.jsonl"
        rows = [
            {"id": f"s{n}", "question": f"question {n}?", "reference": f"reference {n}", "answer": f"answer {n}"}
            for n in range(ROWS)
        ]
        file.write_text("\n".join(map(json.dumps, rows)))
        environment = {**os.environ, "ANSWERKEY_JUDGE_KEY": "sk-none", "PREFECT_API_URL": prefect}
        if not prefect:
            del environment["PREFECT_API_URL"]
        self._judge, self._ledger = judge, folder / "home" / FILE
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "answerkey.flows.cli", "evaluate", file, "--home", folder / "home"),
                *("--metrics", "meaning_match", "--judge", f"openai/gpt-4o-mini@{judge.url}", "--no-page"),
                *("--judge-concurrency", str(IN_FLIGHT), "--probes", "never"),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            preexec_fn=_heeds_ctrl_c,  # noqa: PLW1509
        )

    def wait_until_held(self) -> None:
        """Until the judge has replied to some, and does not reply to others."""
        until = time.monotonic() + WHOLE_S
        while self._judge.stats()["requests"] < ANSWERED + IN_FLIGHT:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        """As a terminal sends it."""
        os.killpg(self.process.pid, number)

    def end(self, timeout: float = LONG_S) -> tuple[int, str]:
        """Its exit code, and what it has said."""
        said, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, said

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """What its ledger has."""
        database = sqlite3.connect(self._ledger)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()


@pytest.fixture
def judge():
    with JudgeProcess("--latency", "0.01", "--hold-after", str(ANSWERED)) as started:
        yield started


@contextmanager
def held(judge, folder, prefect):
    """An evaluation whose judge does not reply any more."""
    run = Evaluation(judge, folder, prefect)
    try:
        run.wait_until_held()
        yield run
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.communicate()


STATES = "SELECT status, coalesce(code, ''), count(*) FROM answerkey_calls GROUP BY 1, 2 ORDER BY 1, 2"


def assert_the_rest_is_asked_once(judge, folder, prefect, *, twice):
    """Another run of the same command ends well; so many of its questions had been asked before, without a reply."""
    judge.release()
    again = Evaluation(judge, folder, prefect)
    code, said = again.end(timeout=WHOLE_S)
    assert code == 0, said
    asked = sorted(judge.stats()["bodies"].values())
    assert asked == [1] * (ROWS - twice) + [2] * twice
    assert again.rows("SELECT count(*) FROM answerkey_claims") == [(0,)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("number", "code", "on_server"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True)],
)
def test_a_run_that_is_told_to_end_ends_and_leaves_no_claim(
    number,
    code,
    on_server,
    judge,
    request,
    tmp_path,
):
    prefect = request.getfixturevalue("server") if on_server else ""
    with held(judge, tmp_path, prefect) as run:
        run.send(number)
        ended, said = run.end()
    assert (ended, said.splitlines()[-1]) == (
        code,
        "answerkey: stopped; what was scored so far is kept, run the same command again",
    )
    assert "Traceback" not in said
    assert run.rows(STATES) == [("error", "cancelled", IN_FLIGHT), ("usable", "", ANSWERED)]
    assert run.rows("SELECT count(*) FROM answerkey_claims") == [(0,)]
    with Home(tmp_path / "home").warehouse.reading() as warehouse:
        [(state,)] = warehouse.execute("SELECT status FROM runs").fetchall()
    assert state == "stopped"
    if not on_server:
        assert_the_rest_is_asked_once(judge, tmp_path, prefect, twice=IN_FLIGHT)
