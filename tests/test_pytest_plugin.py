"""The fixture `answerkey_gate`, in a test session of a user's own."""

import os
import sys
import tomllib

import pytest

from tests.conftest import ROOT
from tests.kit.processes import finished
from tests.tasks.gating_help import Made, warehouse

pytestmark = pytest.mark.real

FIELD = "label.correct"
TESTS = f"""
POLICY = "{{primary: {FIELD}, margin: 0.05}}"


def test_same(answerkey_gate):
    verdict = answerkey_gate("old", "same", POLICY).verdict
    assert verdict.outcome == "PASS"


def test_worse(answerkey_gate):
    answerkey_gate("old", "worse", POLICY)


def test_no_baseline(answerkey_gate):
    answerkey_gate("gone", "same", POLICY)


def test_elsewhere(answerkey_gate, tmp_path):
    answerkey_gate("old", "same", POLICY, home=tmp_path)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """What pytest prints of `TESTS`, started in a project of its own, with ANSWERKEY_HOME set."""
    folder = tmp_path_factory.mktemp("project")
    scores = {
        name: {f"q{i:03}": float(i >= wrong) for i in range(500)}
        for name, wrong in (("old", 50), ("same", 50), ("worse", 150))
    }
    warehouse(folder / "home", [Made(name, {FIELD: found}) for name, found in scores.items()])
    (folder / "test_release.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "ANSWERKEY_HOME": str(folder / "home"), "COLUMNS": "300"}
    process = finished([*command, str(folder)], cwd=folder, env=environment)
    assert process.returncode == 1, process.stdout + process.stderr
    return process.stdout


def test_a_release_that_may_ship_passes_and_no_other_verdict_does(session):
    assert session.splitlines()[-1].startswith("3 failed, 1 passed")
    assert "\nFAIL  worse must not ship in place of old: label.correct went from 0.900 to 0.700" in session
    assert f"\n  FAIL          {FIELD} >= -0.05: " in session
    assert "\n  PASS          coverage >= 0.95: " in session
    assert "\nINCOMPLETE  It cannot be decided whether faq/same/v1 may ship: there is no report" in session


def test_bad_input_fails_in_one_line_that_names_the_home(session):
    [line] = [
        line for line in session.splitlines() if line.endswith("or give --home") and not line.startswith("FAILED")
    ]
    assert line.endswith("test_elsewhere0: no warehouse here yet; run `answerkey evaluate` first, or give --home")
    assert "Traceback" not in session


def test_it_is_declared_to_pytest():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"answerkey": "answerkey.pytest_plugin"}
