"""Two runs of one rule at once, and a run that is killed between its last score and its commit."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from answerkey.tasks.traces.score import alone
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer
from tests.tasks.judging_help import judged, wordy
from tests.tasks.staging_help import jsonl, query
from tests.tasks.traces.tracing_help import counts, rule, run, trace

ROOT = Path(__file__).resolve().parents[3]


def test_the_second_run_waits_says_so_and_finds_nothing_left(tmp_path):
    jsonl(tmp_path / "log.jsonl", [trace(n) for n in range(5)])
    given, said, found = rule(tmp_path), [], []
    told, scored = threading.Event(), threading.Event()

    def second():
        scored.wait(250)

        def say(line):
            said.append(line)
            told.set()

        with alone(Home(tmp_path), ["other", "r"], say):
            found.append(run(tmp_path, given))

    thread = threading.Thread(target=second)
    thread.start()

    def wait_for_the_second():
        scored.set()
        assert told.wait(250)

    with alone(Home(tmp_path), ["r"], said.append):
        first = run(tmp_path, given, before_commit=wait_for_the_second)
    thread.join(250)
    assert counts(first) == "5 seen, 5 scored, 5 measured"
    assert [counts(one) for one in found] == [""]
    assert said == ["r: another run is at work on this rule; waiting until it is done"]
    assert query(tmp_path, "SELECT count(*) FROM measurements") == [(5,)]


TWO = """
import sys
from pathlib import Path
from answerkey.tasks.traces.score import alone
from answerkey.tasks.traces.rules import load_rules
from answerkey.tasks.warehouse.home import Home
from tests.tasks.traces.tracing_help import counts, run

home = Path(sys.argv[1])
[rule] = load_rules([str(home / "r.yaml")])
print("ready", flush=True)
sys.stdin.readline()
with alone(Home(home), ["r"], str):
    print(counts(run(home, rule)))
"""


def started(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )


@pytest.mark.slow
def test_two_processes_at_once_score_every_trace_once(tmp_path):
    jsonl(tmp_path / "log.jsonl", [*(trace(n) for n in range(40)), "no json"])
    rule(tmp_path)
    runs = [started(TWO, tmp_path) for _ in range(2)]
    for one in runs:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in runs:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = sorted(one.communicate(timeout=250)[0] for one in runs)
    assert said == ["\n", "41 seen, 1 quarantined, 40 scored, 40 measured\n"]
    assert query(tmp_path, "SELECT outcome, count(*) FROM trace_outcomes GROUP BY ALL ORDER BY ALL") == [
        ("quarantined", 1), ("scored", 40),
    ]  # fmt: skip


def test_rules_of_different_names_do_not_wait(tmp_path):
    with alone(Home(tmp_path), ["a"], pytest.fail), alone(Home(tmp_path), ["b"], pytest.fail):
        pass


SCRIPT = """
import sys
from pathlib import Path
from answerkey.tasks.traces.score import alone
from answerkey.tasks.traces.rules import load_rules
from answerkey.tasks.warehouse.home import Home
from tests.tasks.judging_help import judged
from tests.tasks.traces.tracing_help import run

home, url = Path(sys.argv[1]), sys.argv[2]
def wait():
    print("scored", flush=True)
    sys.stdin.readline()
[rule] = load_rules([str(home / "r.yaml")])
with alone(Home(home), ["r"], print):
    run(home, rule, options=judged(url), before_commit=wait)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_before_its_commit_loses_nothing_and_pays_nothing_twice(tmp_path):
    jsonl(tmp_path / "log.jsonl", [*(trace(n) for n in range(5)), "no json"])
    given = rule(tmp_path, metric="meaning_match", judge="openai/some-model")
    with JudgeServer(wordy) as judge:
        process = started(SCRIPT, tmp_path, judge.url)
        assert process.stdout is not None
        assert process.stdout.readline() == "scored\n"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=250)
        assert judge.n_requests == 5
        assert not (tmp_path / "answerkey.duckdb").exists()
        with alone(Home(tmp_path), ["r"], pytest.fail):
            again = run(tmp_path, given, options=judged(judge.url))
        assert judge.n_requests == 5
    assert counts(again) == "6 seen, 1 quarantined, 5 scored, 5 measured"
    assert query(tmp_path, "SELECT DISTINCT from_ledger, cost_usd FROM measurements") == [(True, 0.0)]
    assert query(tmp_path, "SELECT count(*) FROM judge_calls") == [(5,)]
