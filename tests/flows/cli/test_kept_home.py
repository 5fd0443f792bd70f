"""A home that an earlier version made: what `docs/stability.md` promises of it.

It lies in `files/home-1`. With UPDATE_HOME=1 in the environment it is made anew by this version; do so only where the
version of the tables changes, and keep the old one.
"""

import json
import lzma
import os
import shutil
from pathlib import Path

import pytest

from answerkey.tasks.publish.site import build_overview, render_overview
from answerkey.tasks.warehouse.home import Home
from tests.judge_brains import says
from tests.judge_server import UNTESTED, JudgeServer, data_of

KEPT = Path(__file__).parent / "files" / "home-1"
FILES = "answerkey.duckdb", "judge.sqlite"
N, OLD_RIGHT, NEW_RIGHT = 60, 30, 57
METRICS = "exact_match,meaning_match"
POLICY = "{primary: exact_match.match, margin: 0.02}"
PORT = 37711
JUDGE = f"openai/judge@http://127.0.0.1:{PORT}/v1"


def answers(path, release, right):
    """Answers to `N` questions, of which the first `right` are right."""
    rows = [
        {"id": f"q{i}", "question": f"How many lamps has house {i}?", "answer": f"{i + (i >= right)} lamps"}
        | {"references": [f"{i} lamps"], "release": release}
        for i in range(N)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def judged(body):
    data = data_of(body)
    return says(data["answer"] == data["references"][0])


def make(home, command):
    """Two releases, judged by a model and gated, and the gate kept."""
    with JudgeServer(judged, port=PORT):
        judge = ("--judge", JUDGE, *UNTESTED)
        for release, right in (("old", OLD_RIGHT), ("new", NEW_RIGHT)):
            file = answers(home.parent / f"{release}.jsonl", release, right)
            command("evaluate", file, "--dataset", "lamps", "--metrics", METRICS, *judge)
    command("gate", "old", "new", "--policy", POLICY, "--keep")
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (KEPT / f"{name}.xz").write_bytes(lzma.compress((home / name).read_bytes(), preset=9 | lzma.PRESET_EXTREME))


@pytest.fixture
def command(bare_cli, tmp_path):
    def run(*arguments, code=0):
        return bare_cli(*arguments, "--home", tmp_path / "home", code=code).stdout

    return run


@pytest.fixture
def kept(command, tmp_path):
    """The home, where a command finds it."""
    home = tmp_path / "home"
    if os.environ.get("UPDATE_HOME"):
        make(home, command)
        shutil.rmtree(home)
    home.mkdir()
    for name in FILES:
        (home / name).write_bytes(lzma.decompress((KEPT / f"{name}.xz").read_bytes()))
    return home


def test_a_kept_home_is_read_compared_gated_and_made_again(kept, command):
    # Read, compared and gated as on the day on which it was made.
    reports = json.loads(command("report", "old", "new", "--json"))
    means = {report["report_id"]: [score["mean"] for score in report["scores"]] for report in reports}
    assert means == {"lamps/old/v1": [0.5, 0.5], "lamps/new/v1": [0.95, 0.95]}
    for row in json.loads(command("compare", "old", "new", "--json"))["rows"]:
        assert (row["n_common"], row["fixed"], row["broken"]) == (N, NEW_RIGHT - OLD_RIGHT, 0)
    assert "PASS  new may ship in place of old" in command("gate", "old", "new", "--policy", POLICY)

    # A new version has the old measurements, and the judge is not there any more, but its replies are.
    assert "lamps/new/v2" in command("rerun", "new")
    assert "answered by judge" in command("judge", "q40", "--release", "old", "--judge", JUDGE)

    # The kept gate decides about a release of today.
    later = answers(kept.parent / "later.jsonl", "later", right=10)
    verdict = command("evaluate", later, "--dataset", "lamps", "--metrics", "exact_match", code=1)
    assert "FAIL  later must not ship in place of old" in verdict
    page = render_overview(build_overview(Home(kept)))
    assert 'The dashed line is the anchor of the gate, <bdi dir="auto">old/v1</bdi>.' in page
