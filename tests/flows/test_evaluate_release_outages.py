"""A Prefect server that is killed while a run scores, and a run that stands still: nothing is lost or paid twice."""

import time

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.tasks.maintenance import close_runs
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import PrefectServer
from tests.flows.deployed_help import Deployed, Engine
from tests.judge_server import JudgeServer, agreeable
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import jsonl, query

N, ANSWERED = 24, 8

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def prefect_server(tmp_path_factory):
    running = PrefectServer(tmp_path_factory.mktemp("outages"))
    yield running
    running.stop()


@pytest.fixture
def judge():
    """One that answers some questions, and no more until it is released."""
    with JudgeServer(agreeable, holds=lambda server: server.begun >= ANSWERED) as found:
        yield found


def asked(judge, folder):
    """The parameters of a run with a judge."""
    rows = [
        {"id": f"q{i}", "question": f"What is {i} times 7?", "answer": f"It is {i * 7}.", "reference": f"{i * 7}"}
        for i in range(N)
    ]
    return {
        "data": {"answers": str(jsonl(folder / "outage.jsonl", rows)), "release": "a"},
        "scoring": {"metrics": ["meaning_match", "exact_match"]},
        "judging": {
            "judges": [f"openai/x@{judge.url}"], "check": "never",
            # What is in flight while a run stands still is not given up.
            "timeout_s": FAULT_S, "deadline_s": FAULT_S,
        },
        "home": str(folder / "home"), "page": False,
    }  # fmt: skip


def is_scoring(judge):
    return judge.n_requests > ANSWERED


def each_asked_once_in_one_report(judge, home):
    assert sorted(judge.count_by_user_message().values()) == [1] * N
    assert query(home, "SELECT report_id, status FROM reports") == [("outage/a/v1", "COMPLETE")]
    assert query(home, "SELECT status FROM runs") == [("complete",)]


def test_a_server_that_comes_back_is_told_how_the_run_has_ended(prefect_server, judge, tmp_path):
    # More patient than a deployment: on a busy machine, the server takes its time to start.
    with Engine(prefect_server.url, tmp_path / "log", PREFECT_CLIENT_MAX_RETRIES="10") as engine:
        run_id = engine.start(asked(judge, tmp_path))
        wait_until(lambda: is_scoring(judge), "requests")
        prefect_server.kill()
        judge.release()
        time.sleep(10)
        prefect_server.start()
        assert engine.result() == ["outage/a/v1"]
    state = Deployed(prefect_server.url, tmp_path).run(run_id)["state"]
    assert (state["type"], state["name"]) == ("COMPLETED", "Completed")
    each_asked_once_in_one_report(judge, tmp_path / "home")


def test_a_run_that_could_not_say_how_it_ended_is_found_by_its_retry(prefect_server, judge, tmp_path):
    parameters = asked(judge, tmp_path)
    with Engine(prefect_server.url, tmp_path / "log") as engine:
        run_id = engine.start(parameters)
        wait_until(lambda: is_scoring(judge), "requests")
        prefect_server.kill()
        judge.release()
        assert "ConnectError" in engine.result()
    each_asked_once_in_one_report(judge, tmp_path / "home")

    prefect_server.start()
    on_server = Deployed(prefect_server.url, tmp_path)
    assert on_server.run(run_id)["state_type"] == "RUNNING"
    with temporary_settings({PREFECT_API_URL: prefect_server.url}):
        # As the automation does that misses its heartbeat
        state = {"type": "CRASHED", "message": "no heartbeat for 5 minutes: its process is gone"}
        on_server.ask("POST", f"flow_runs/{run_id}/set_state", {"state": state, "force": True})
        # What the warehouse says of it was true before.
        assert close_runs(Home(tmp_path / "home")) == 0
    assert on_server.run(run_id)["state_type"] == "CRASHED"
    on_server.retry(run_id)
    with Engine(prefect_server.url, tmp_path / "log") as engine:
        engine.start(parameters, run_id)
        assert engine.result() == ["outage/a/v1"]
    assert on_server.run(run_id)["state_type"] == "COMPLETED"
    each_asked_once_in_one_report(judge, tmp_path / "home")


def test_a_database_that_is_lost_leaves_the_runs_of_the_warehouse_true(judge, tmp_path):
    """Both: the run whose process was killed with its server, and the one that goes on."""
    homes = {name: tmp_path / name / "home" for name in ("killed", "goes-on")}
    server = PrefectServer(made(tmp_path / "first"))
    another = None
    try:
        with (
            Engine(server.url, tmp_path / "log-1") as killed,
            Engine(server.url, tmp_path / "log-2") as goes_on,
        ):
            for engine, home in zip((killed, goes_on), homes.values(), strict=True):
                engine.start(asked(judge, made(home.parent)))
            wait_until(lambda: judge.held >= len(homes), "requests of both")
            wait_until(lambda: {*map(status, homes.values())} == {"running"}, "both runs")
            server.kill()
            killed.process.kill()
            killed.process.wait()
            another = PrefectServer(made(tmp_path / "second"))
            with temporary_settings({PREFECT_API_URL: another.url}):
                assert {name: close_runs(Home(home)) for name, home in homes.items()} == {"killed": 1, "goes-on": 0}
            judge.release()
            wait_until(lambda: status(homes["goes-on"]) == "complete", "the end of the other")
        assert query(homes["killed"], "SELECT status, message FROM runs") == [
            ("stopped", "no server knows it, and its process is gone")
        ]
    finally:
        server.stop()
        if another:
            another.stop()


def made(folder):
    folder.mkdir(parents=True)
    return folder


def status(home):
    """What the warehouse says of its one run, once it is there."""
    if not Home(home).warehouse.exists():
        return None
    with Home(home).warehouse.writing() as warehouse:
        found = warehouse.execute("SELECT status FROM runs").fetchone()
    return str(found[0]) if found else None
