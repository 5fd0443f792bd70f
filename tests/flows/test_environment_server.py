"""The server that `answerkey serve` keeps for a home takes part in the runs of its commands, and no other one does."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from answerkey.tasks.server import NOTE, kept_server
from answerkey.tasks.warehouse.home import Home
from tests.flows.deployed_help import until

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
    done = bare_cli("evaluate", answers, "--metrics", "exact_match", "--no-page", "--home", served_home)
    assert done.returncode == 0, done.stderr
    with Home(served_home).warehouse.reading() as warehouse:
        [(run,)] = warehouse.execute("SELECT run_id FROM runs").fetchall()
    [found] = ask("flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert found["name"] == "evaluate 2 releases on faq"


def test_a_release_that_is_registered_is_announced_to_the_server_of_its_home(served_home, bare_cli, tmp_path, ask):
    rows = tmp_path / "new.csv"
    rows.write_text("id,answer,reference\nq1,Paris,Paris\n")
    done = bare_cli("register-release", "new", "--dataset", "faq", "--answers", rows, "--home", served_home)
    assert done.returncode == 0, done.stderr
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

    until(lambda: announced() or None, WAIT_S, "the event")


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
