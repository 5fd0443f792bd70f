"""All deployments on a team's server, which is on PostgreSQL, with two workers: forms, events, schedules, kills, the
browser."""

import json
import os
import re
import signal
import subprocess
from contextlib import ExitStack

import pytest
from prefect.logging.handlers import APILogWorker

from answerkey.metrics_core.registry import DEFAULT_METRICS
from answerkey.tasks.maintenance import close_runs
from answerkey.tasks.warehouse.home import Home
from tests.cluster_servers import address_for_prefect
from tests.flows.conftest import ROOT, PrefectServer, command
from tests.flows.deployed_help import (
    CHROMIUM,
    PAGES,
    Deployed,
    field,
    in_a_browser,
    submitted,
    worker,
)
from tests.judge_server import JudgeServer, agreeable
from tests.kit.waiting import FAULT_S, wait_until
from tests.tasks.staging_help import jsonl

KEY = "sk-canary-form-0123456789abcdef"
LEXICAL = {"metrics": ["contains", "bleu"]}
BRIEF = """
expectations:
  - type: expect_column_mean_to_be_between
    kwargs: {column: answer_chars, max_value: 1}
    severity: warning
    description: Answers are brief
    meta: {name: brief}
"""
"""A suite of one's own, which the answers break."""

SILENT = "answerkey - a run without a heartbeat has crashed"
HEALS = "answerkey - a crashed run goes on"
MOST_SILENT_S = 300
"""By the automation of the project: for a test too long."""

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def server(postgres_server, tmp_path_factory):
    """One on PostgreSQL: on SQLite, Prefect drops events while the database is locked."""
    with postgres_server.database() as database:
        running = PrefectServer(
            tmp_path_factory.mktemp("team"),
            PREFECT_SERVER_DATABASE_CONNECTION_URL=address_for_prefect(database),
            PGPASSWORD=postgres_server.password,
        )
        yield running.url
        # Prefect's workers in this process outlive the server: events for the next one would be sent to this one first.
        APILogWorker.drain_all(timeout=FAULT_S)
        running.stop()


@pytest.fixture(scope="module")
def deployed(server, bare_cli, tmp_path_factory):
    """The server with everything from deployments/ on it, and two workers, called one and two."""
    folder = tmp_path_factory.mktemp("deployed")
    running = Deployed(server, folder / "home", bare_cli)
    running.deploy()
    _not_silent_for(running, 90)
    with ExitStack() as stack:
        for name in ("one", "two"):
            stack.enter_context(worker(server, name, folder / f"{name}.log", ANSWERKEY_HOME=str(running.home)))
        yield running


QUEUE = "work_pools/answerkey/queues/default"


@pytest.fixture(scope="module")
def doomed(deployed, tmp_path_factory):
    """A run that the command line has started, and that waits for a judge that never answers."""
    folder = tmp_path_factory.mktemp("doomed")
    rows = jsonl(folder / "doomed.jsonl", questions(1))
    with JudgeServer(agreeable, latency=900.0) as judge:
        options = ("--metrics", "meaning_match", "--judge", f"openai/x@{judge.url}", "--home", folder / "home")
        environment = {**os.environ, "PREFECT_API_URL": deployed.url, "ANSWERKEY_JUDGE_KEY": "none"}
        with subprocess.Popen(
            command("evaluate", rows, *options),
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            yield process
            process.kill()


@pytest.fixture(scope="module")
def rerun(deployed):
    """A run of the deployment `rerun` on faq/gpt-5, which goes on beside other tests."""
    with JudgeServer(agreeable) as judge:
        wanted = {"report": "faq/gpt-5", "metrics": ["contains", "meaning_match"], "judges": [f"openai/y@{judge.url}"]}
        wanted |= {"key_from": "secret:judge-key-of-the-form", "max_calls": 100}
        yield deployed.start("rerun", {"rerun": wanted, "page": False}), judge


def questions(n, release="gpt-5"):
    return [
        {
            "id": f"q{i}", "question": f"What is {i} times 7?", "answer": f"It is {i * 7}, says {release}.",
            "reference": f"{i * 7}",
        }
        for i in range(n)
    ]  # fmt: skip


def test_deploying_again_brings_up_to_date_and_doubles_nothing(deployed):
    automations = {HEALS, SILENT, "evaluate__automation_1"}
    assert {record["name"] for record in deployed.ask("POST", "automations/filter", {})} == automations
    hourly = _schedule(deployed, "housekeeping")
    deployed.deploy()
    assert sorted(record["name"] for record in deployed.ask("POST", "automations/filter", {})) == sorted(automations)
    assert _schedule(deployed, "housekeeping")["id"] == hourly["id"]
    # The automation stays as it was set by hand.
    [silent] = deployed.ask("POST", "automations/filter", {"automations": {"name": {"any_": [SILENT]}}})
    assert silent["trigger"]["within"] == 90
    assert all(deployed.deployment(name)["work_queue_name"] == "default" for name in ("evaluate", "rerun"))
    assert all(deployed.deployment(name)["work_queue_name"] == "beside" for name in ("compare", "housekeeping"))
    # As on a machine with more cores than the script expects.
    assert deployed.ask("GET", QUEUE)["concurrency_limit"] == 1
    deployed.ask("PATCH", QUEUE, {"concurrency_limit": 4})


def test_two_evaluations_at_once_on_one_home(deployed, doomed, save_secret, tmp_path):
    save_secret("judge-key-of-the-form", KEY)
    many = jsonl(tmp_path / "many.jsonl", [{**row, "release": "other"} for row in questions(300)])
    # The first run waits for its judge until the second one is at work.
    with JudgeServer(agreeable, holds=lambda _: True) as judge:
        judging = {"judges": [f"openai/x@{judge.url}"], "key_from": "secret:judge-key-of-the-form", "check": "never"}
        scoring = {"metrics": ["contains", "meaning_match"]}
        # A file of the machine that the worker is on.
        (suite := tmp_path / "suite.yaml").write_text(BRIEF, encoding="utf-8")
        limits = {"expectations": str(suite)}
        first = deployed.start("evaluate", {"scoring": scoring, "judging": judging, "limits": limits})
        second = deployed.start("evaluate", {"data": {"answers": many}, "scoring": LEXICAL, "page": False})
        both = (first, second)
        wait_until(lambda: all(deployed.run(one)["start_time"] for one in both), "two runs at work")
        judge.release()
        runs = [deployed.wait(one) for one in both]
        assert {request.headers["authorization"] for request in judge.requests} == {f"Bearer {KEY}"}
    assert [(run["name"], run["state_type"]) for run in runs] == [
        ("evaluate 2 releases on helpdesk", "COMPLETED"),
        ("evaluate other on many", "COMPLETED"),
    ]
    logs = [deployed.messages(run["id"]) for run in runs]
    assert max(run["start_time"] for run in runs) < min(run["end_time"] for run in runs)
    assert "helpdesk: 600 rows read, 600 accepted, 0 quarantined" in logs[0]
    assert not [line for line in logs[0] + logs[1] if "lock" in line.lower()]
    assert [line for line in logs[0] if line.startswith("the data break `brief`: Answers are brief; observed: ")]
    [docs] = (deployed.home / "pages/_data-docs/validations/suite").rglob("*.html")
    assert "Answers are brief" in docs.read_text(encoding="utf-8")
    counts = deployed.query("SELECT metric, count(*) FROM measurements GROUP BY metric ORDER BY metric")
    assert counts == [("bleu", 300), ("contains", 741), ("meaning_match", 441)]
    assert deployed.query("SELECT status FROM measurements GROUP BY ALL") == [("scored",)]
    artifacts = deployed.artifacts(first)
    assert {"scoring", "scores-helpdesk", "report-helpdesk-v2"} <= set(artifacts)
    assert list(json.loads(artifacts["scores-helpdesk"]["data"])[0]) == ["metric", "v1", "v2"]
    assert artifacts["open-report-helpdesk-v2"]["data"] == f"[Open the report]({PAGES}/helpdesk/v2-v1.html)"
    _tells_its_story(runs[0], logs[0])
    report = artifacts["report-helpdesk-v2"]["data"]
    assert report.startswith("# helpdesk")
    assert f"[Open the whole page]({PAGES}/helpdesk/v2-v1.html).\n" in report
    assert "judge-openai" in [tag for run in _task_runs(deployed, first) for tag in run["tags"]]
    _kill_with_a_heartbeat(deployed, doomed)


def _tells_its_story(run, lines):
    """On its page, of whose log each line says something new, and in the filters of the page of runs."""
    found = (
        "No difference between helpdesk/v2/v1 and helpdesk/v1/v1 is shown: meaning_match.match went from 1.000 to 1.000"
    )
    assert run["state"]["message"].startswith(found)
    assert {"dataset:helpdesk", "release:v1", "release:v2"} <= set(run["tags"])
    assert f"report: {PAGES}/helpdesk/v2-v1.html" in lines
    # Where two workers want the run, both write that they prepare it.
    begun = max(number for number, line in enumerate(lines) if line.startswith("Executing deployment step"))
    story = lines[begun:]
    assert len(story) == len(set(story)) <= 30, lines


def _kill_with_a_heartbeat(deployed, doomed):
    wanted = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id_prefix": ["prefect.flow-run."]}}

    def beat():
        found = deployed.ask("POST", "events/filter", {"filter": wanted, "limit": 50})["events"]
        return any(event["resource"]["prefect.resource.name"] == "evaluate doomed" for event in found)

    wait_until(beat, "the heartbeat of the run to be killed")
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()


def test_an_event_starts_the_evaluation_once(deployed, tmp_path):
    file = jsonl(tmp_path / "five.jsonl", questions(5))
    register = ("register-release", "gpt-5", "--answers", file, "--dataset", "faq")
    # Twice, as a doubled event.
    assert deployed.cli(*register) == deployed.cli(*register)

    def started():
        return runs if len(runs := deployed.evaluations_of("gpt-5")) == 2 else None

    runs = [deployed.wait(run["id"]) for run in wait_until(started, "two runs by the automation")]
    assert [run["state_type"] for run in runs] == ["COMPLETED"] * 2
    assert deployed.query("SELECT report_id FROM reports WHERE dataset = 'faq'") == [("faq/gpt-5/v1",)]
    said = [run["state"]["message"] for run in runs]
    assert [line for line in said if re.search("another run is evaluating it|has the report", line)]


def test_the_schedule_finds_what_no_event_told(deployed, tmp_path):
    broken = jsonl(tmp_path / "broken.jsonl", [{**row, "reference": ""} for row in questions(4)])
    deployed.cli("register-release", "broken", "--answers", broken, "--dataset", "faq", server=False)
    deployment, nightly = deployed.deployment("evaluate-new"), _schedule(deployed, "evaluate-new")
    assert (nightly["active"], nightly["schedule"]["timezone"]) == (True, "Etc/UTC")
    before = len(deployed.runs_of("evaluate-new"))
    path = f"deployments/{deployment['id']}/schedules/{nightly['id']}"
    deployed.ask("PATCH", path, {"active": True, "schedule": {"interval": 15.0}})
    # The scheduler looks at once only at what has changed itself; at everything each minute.
    deployed.ask("PATCH", f"deployments/{deployment['id']}", {"concurrency_limit": 2})
    try:
        [run] = wait_until(lambda: deployed.runs_of("evaluate-new")[before:][:1], "a scheduled run")
    finally:
        deployed.ask("PATCH", path, {"active": False})
    done = deployed.wait(run["id"])
    assert done["auto_scheduled"]
    assert done["state"]["message"] == "started 1: faq/broken"
    # One that cannot be evaluated says what is wrong with it.
    [failed] = [deployed.wait(run["id"]) for run in deployed.evaluations_of("broken")]
    assert failed["state_type"] == "FAILED"
    assert "100 % of the rows (4 of 4) are in quarantine, 20 % are allowed" in failed["state"]["message"]
    assert not [line for line in deployed.messages(failed["id"]) if "Traceback" in line]


@pytest.mark.usefixtures("rerun")
def test_a_killed_run_goes_on_by_itself_and_asks_nothing_again(deployed, tmp_path):
    n, at_once, answered = 24, 2, 8
    rows = jsonl(tmp_path / "killed.jsonl", questions(n))
    with JudgeServer(agreeable, holds=lambda server: server.begun >= answered) as judge:
        judging = {"judges": [f"openai/x@{judge.url}"], "key_from": "secret:judge-key-of-the-form"}
        judging |= {"concurrency": at_once, "check": "never"}
        forms = {"data": {"answers": rows}, "scoring": {"metrics": ["meaning_match"]}, "judging": judging}
        run_id = deployed.start("evaluate", {**forms, "page": False})
        wait_until(lambda: judge.n_requests > answered, "some requests")
        pid = int(str(deployed.run(run_id)["infrastructure_pid"]).rpartition(":")[2])
        os.kill(pid, signal.SIGKILL)
        judge.release()
        # By the worker, which looks at its processes; the automation would say so after ten heartbeats.
        crashed = deployed.wait(run_id)
        assert crashed["state_type"] == "CRASHED", crashed["state"]
        assert not crashed["state"]["message"].startswith("no heartbeat")
        assert deployed.query("SELECT status FROM runs WHERE dataset = 'killed'") == [("running",)]
        with _pointed_at(deployed):
            assert close_runs(Home(deployed.home)) == 1
        [(message,)] = deployed.query("SELECT message FROM runs WHERE dataset = 'killed'")
        assert message.startswith("Crashed: ")
        before = judge.n_requests
        assert before < n
        wait_until(lambda: deployed.run(run_id)["state_type"] not in FINAL_STATES, "the automation")
        run = deployed.wait(run_id)
        assert (run["state_type"], run["run_count"]) == ("COMPLETED", 2), deployed.story(run_id)
        # Only what was in flight when it died, and has no answer, was asked twice.
        times = judge.count_by_user_message()
        assert len(times) == n
        assert sum(count - 1 for count in times.values()) <= at_once
    assert deployed.query("SELECT status, count(*) FROM measurements WHERE metric = 'meaning_match' "
                 "AND run_id = '" + run_id + "' GROUP BY status") == [("scored", n)]  # fmt: skip
    assert deployed.query(f"SELECT status FROM runs WHERE run_id = '{run_id}'") == [("complete",)]


FINAL_STATES = {"CRASHED", "FAILED", "COMPLETED"}


@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_a_person_fills_the_form_in_a_browser(deployed, tmp_path):
    base = deployed.url.removesuffix("/api")
    rows = jsonl(tmp_path / "typed.jsonl", questions(3))

    with in_a_browser() as page:
        abroad: list[str] = []
        page.on("request", lambda asked: None if base in asked.url else abroad.append(asked.url))
        form = deployed.deployment("evaluate")
        page.goto(f"{base}/deployments/deployment/{form['id']}/run")
        field(page, "Answers").fill(rows)
        field(page, "References (Optional)").fill("")
        field(page, "Data set (Optional)").fill("typed")
        field(page, "Release (Optional)").fill("by-hand")
        for metric in [name for name in DEFAULT_METRICS if name != "answer_correctness"]:
            page.locator(f"xpath=//*[contains(@class, 'p-tag') and normalize-space() = '{metric}']//button").click()
        field(page, "Threshold (Optional)", "input").fill("3")
        page.get_by_role("button", name="Submit").click()
        # Refused before a run is made
        page.get_by_text("3 is greater than the maximum of 1").first.wait_for()
        before = len(deployed.runs_of("evaluate"))
        field(page, "Threshold (Optional)", "input").fill("0")
        field(page, "Threshold (Optional)", "input").blur()
        started = wait_until(lambda: submitted(page, deployed, before), "the run of the form")
        run_id = started[0]["id"]
        run = deployed.wait(run_id)
        assert run["state_type"] == "COMPLETED", run["state"]["message"]
        page.goto(f"{base}/runs/flow-run/{run_id}")
        page.get_by_text("Completed", exact=True).first.wait_for()
        page.get_by_text("Artifacts", exact=True).first.click()
        page.get_by_text("report-typed-by-hand", exact=True).first.click()
        page.get_by_role("cell", name="answer_correctness.token_overlap_recall").first.wait_for()
        page.screenshot(path=tmp_path / "artifact.png")
        # A copy of the run is about the same data: what was cleared does not come back from the deployment.
        page.goto(f"{base}/runs/flow-run/{run_id}")
        page.locator(".flow-run-menu button").first.click()
        page.get_by_text("Copy to new run", exact=True).click()
        field(page, "Answers").wait_for()
        titles = ("Answers", "References (Optional)", "Data set (Optional)", "Release (Optional)")
        assert [field(page, title).input_value() for title in titles] == [str(rows), "", "typed", "by-hand"]
    assert abroad == []
    assert deployed.run(run_id)["name"] == "evaluate by-hand on typed"
    assert deployed.query("SELECT report_id FROM reports WHERE dataset = 'typed'") == [("typed/by-hand/v1",)]


def test_a_run_without_a_heartbeat_is_marked_by_the_automation(deployed):
    tidying = deployed.start("housekeeping", {})
    runs = deployed.ask("POST", "flow_runs/filter", {"flow_runs": {"name": {"any_": ["evaluate doomed"]}}})
    [run] = [deployed.wait(run["id"]) for run in runs]
    assert run["state_type"] == "CRASHED"
    assert run["state"]["message"].startswith("no heartbeat for 5 minutes")
    assert deployed.wait(tidying)["state_type"] == "COMPLETED"
    assert any("runs closed in the warehouse" in line for line in deployed.messages(tidying))


@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_the_policy_in_the_docs_keeps_the_second_interface_from_other_hosts(deployed):
    base = deployed.url.removesuffix("/api")
    [name, policy] = re.findall(
        r"`(Content-Security-Policy): ([^`]+)`", (ROOT / "docs/prefect_server.md").read_text(encoding="utf-8")
    )[0]
    abroad: list[str] = []

    def is_abroad(asked):
        return not asked.url.startswith((base, "data:", "blob:"))

    def proxied(route):
        reply = route.fetch()
        route.fulfill(response=reply, headers={**reply.headers, name: policy})

    # Of Prefect's analytics. Once it asks nobody any more, the docs need no policy.
    with in_a_browser() as page, page.expect_event("request", is_abroad):
        page.goto(f"{base}/v2/deployments")
    with in_a_browser() as page:
        page.on("request", lambda asked: abroad.append(asked.url) if is_abroad(asked) else None)
        page.route(f"{base}/v2/deployments", proxied)
        page.goto(f"{base}/v2/deployments")
        page.get_by_text("Deployments", exact=True).first.wait_for()
        page.wait_for_load_state("networkidle")
    assert abroad == []


def _not_silent_for(deployed, seconds):
    """Change the automation as its page in the UI does."""
    [record] = deployed.ask("POST", "automations/filter", {"automations": {"name": {"any_": [SILENT]}}})
    assert record["trigger"]["within"] == MOST_SILENT_S
    record["trigger"]["within"] = seconds
    settings = {key: value for key, value in record.items() if key not in ("id", "created", "updated")}
    deployed.ask("PUT", f"automations/{record['id']}", settings)


def _schedule(deployed, name):
    """The first one: housekeeping has another for the night."""
    found = {one["slug"]: one for one in deployed.deployment(name)["schedules"]}
    return dict(found.get("hourly", found.get("missed-events")))


def _pointed_at(deployed):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    return temporary_settings({PREFECT_API_URL: deployed.url})


def _task_runs(deployed, run_id):
    return list(deployed.ask("POST", "task_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}}))
