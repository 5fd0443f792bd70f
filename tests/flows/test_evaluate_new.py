"""Which runs are started for registered releases, on a real server without workers."""

import os
import subprocess
import sys

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from answerkey.flows.compare_releases import compare_releases
from answerkey.flows.evaluate_new import evaluate_new
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Comparing, Data, Scoring
from answerkey.tasks.gate.gate import read_policy
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.register import keep_gate
from answerkey.tasks.warehouse.home import Home
from tests.flows.conftest import ROOT
from tests.flows.deployed_help import Deployed
from tests.kit.waiting import wait_until
from tests.tasks.comparing_help import answer
from tests.tasks.staging_help import jsonl, query, registered

POLICY = read_policy("{primary: exact_match.match, margin: 0.05}")


DEPLOY = """
import sys
from answerkey.flows.serving import deployments
from answerkey.tasks.warehouse.home import Home
for deployment in deployments(Home(sys.argv[1])):
    deployment.apply()
"""


@pytest.fixture
def deployed(server, home):
    """The server with all deployments on it. In this process flows may have been imported without a server."""
    environment = {**os.environ, "PREFECT_API_URL": server}
    subprocess.run([sys.executable, "-c", DEPLOY, str(home)], env=environment, cwd=ROOT, check=True)
    return Deployed(server, home)


def looked_twice(deployed):
    """What two runs of `evaluate-new` have started."""
    with temporary_settings({PREFECT_API_URL: deployed.url}):
        return [evaluate_new(str(deployed.home)) for _ in range(2)]


def registration_of(folder, release, right):
    """Of a release with so many right answers of 60."""
    rows = [answer(i, "yes" if i < right else "no") for i in range(60)]
    return registered(folder / "home", Source(jsonl(folder / "answers.jsonl", rows), dataset="kept", release=release))


@pytest.mark.real
def test_each_release_gets_one_run_whether_by_its_event_or_by_the_schedule(deployed, home, tmp_path):
    registration_of(tmp_path, "missed", 50)
    with temporary_settings({PREFECT_API_URL: deployed.url}):
        registration_of(tmp_path, "heard", 50)
    [run] = wait_until(lambda: deployed.evaluations_of("heard"), "the automation")

    assert looked_twice(deployed) == [["kept/missed"], []]

    assert len(deployed.evaluations_of("missed")) == 1
    # The rest is as in the deployment: an event says nothing but which release it is
    usual = deployed.deployment("evaluate")["parameters"]
    assert run["parameters"] == usual | {"data": run["parameters"]["data"]}


@pytest.mark.real
def test_a_release_that_has_a_report_and_no_verdict_gets_a_run_that_decides(deployed, home, tmp_path):
    scoring = Scoring(metrics=["exact_match"])
    for release, right in (("old", 50), ("new", 20)):
        made = registration_of(tmp_path, release, right)
        evaluate_release(Data(answers=made.address), scoring, home=str(home), page=False)
    keep_gate(Home(home), "kept", "kept/old/v1", POLICY)

    assert looked_twice(deployed) == [["kept/new/v1"]] * 2

    # Once, though it has not decided yet
    [run] = deployed.runs_of("compare")
    form = run["parameters"]
    compare_releases(Comparing(**form["comparing"]), form["home"], form["policy"], page=False)
    assert query(home, "SELECT new_report, outcome FROM verdicts") == [("kept/new/v1", "FAIL")]
    assert evaluate_new(str(home)) == []
