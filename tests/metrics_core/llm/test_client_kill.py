"""kill -9 in the middle of 600 calls, and two processes over one release: what was answered is never asked again."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest

from answerkey.metrics_core.llm.provider import abilities
from tests.conftest import ROOT
from tests.judge_server import JudgeProcess
from tests.kit.waiting import FAULT_S, wait_until
from tests.metrics_core.judges.asking import count, execute, spent

pytestmark = pytest.mark.nightly

SAMPLES = 600
CONCURRENCY = 32
MODEL = "openai/gpt-4o-mini"
# Prints, for each sample, its id, whether it was scored, and whether this process asked for it.
EVALUATE = f"""
import json, sys
from tests.metrics_core.judges.asking import ask, samples, setup

url, ledger, concurrency = sys.argv[1:]
limits = {{"concurrency": int(concurrency), "timeout_s": {FAULT_S}, "deadline_s": {FAULT_S}}}
judge = setup(f"{MODEL}@{{url}}", ledger=ledger, run="run", **limits)
found = ask(samples({SAMPLES}), judge)
print(json.dumps([(one.sample_id, one.status, not one.from_ledger) for one in found]))
"""


@contextmanager
def evaluation(server, ledger, concurrency=CONCURRENCY):
    """A process that evaluates all samples."""
    command = [sys.executable, "-c", EVALUATE, server.url, str(ledger), str(concurrency)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill(process):
    """As the system does it when memory runs out."""
    assert process.poll() is None, "it should be in the middle of its work"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def asked(process):
    """Wait for the end, at which every sample must be scored; for how many of them this process asked."""
    output, _ = process.communicate(timeout=FAULT_S)
    assert process.returncode == 0
    found = json.loads(output)
    assert [(name, status) for name, status, _ in found] == [(f"s{n}", "scored") for n in range(SAMPLES)]
    return sum(asked for *_, asked in found)


@pytest.fixture
def pausing():
    """A server that stops answering after half of the requests until it is released."""
    with JudgeProcess("--latency", "0.01", "--hold-after", str(SAMPLES // 2)) as started:
        yield started


def stats_when(server, reached):
    """The server's counts once they have reached something."""
    return wait_until(lambda: stats if reached(stats := server.stats()) else None, lambda: str(server.stats()))


def settled(server):
    """The server's counts once no request is pending."""
    return stats_when(server, lambda stats: not stats["in_flight"])


def assert_counted_as_paid(ledger, requests):
    """At no less than the server was paid; what was never answered at the most that it may cost, and not much more."""
    usable, lost = count(ledger, "status = 'usable'"), count(ledger, "status = 'sent'")
    cost_usd = spent(ledger).cost_usd
    [(each,)] = execute(ledger, "SELECT avg(cost_usd) FROM answerkey_calls WHERE status = 'usable'")
    assert cost_usd >= each * requests
    # All of `max_tokens`, and a long prompt.
    price = abilities(MODEL).price
    room = 1_024 * price[2]
    assert room < (cost_usd - usable * each) / lost < room + 5_000 * price[0]


def test_a_killed_run_loses_no_more_than_its_calls_in_flight(pausing, tmp_path):
    with evaluation(pausing, tmp_path) as process:
        stats_when(pausing, lambda stats: stats["requests"] >= SAMPLES // 2)
        kill(process)
    pausing.release()
    seen = settled(pausing)["requests"]
    usable, in_flight = count(tmp_path, "status = 'usable'"), count(tmp_path, "status = 'sent'")
    assert SAMPLES // 2 <= seen < SAMPLES
    # Written down before it is sent, and again as soon as its reply is there.
    assert usable + in_flight == count(tmp_path)
    assert 0 <= seen - usable <= in_flight <= CONCURRENCY
    with evaluation(pausing, tmp_path) as process:
        assert asked(process) == SAMPLES - usable
    stats = settled(pausing)
    assert stats["requests"] == SAMPLES + seen - usable <= SAMPLES + in_flight
    assert len(stats["bodies"]) == SAMPLES
    assert Counter(stats["bodies"].values()) == Counter({1: SAMPLES - (seen - usable), 2: seen - usable}) - Counter()
    assert count(tmp_path, "status = 'usable'") == SAMPLES
    assert_counted_as_paid(tmp_path, stats["requests"])


@contextmanager
def two_at_once(server, ledger):
    """Two processes that both have calls in flight at a server that holds its answers."""
    most = 4
    with evaluation(server, ledger, concurrency=most) as first:
        stats_when(server, lambda stats: stats["requests"] >= SAMPLES // 2 + most)
        # With more questions at hand than the first has claimed, or all of them might wait for the first.
        with evaluation(server, ledger, concurrency=4 * most) as second:
            stats_when(server, lambda stats: stats["in_flight"] > most)  # more than the first may have
            yield first, second


def test_one_of_two_is_killed_and_the_other_finishes(pausing, tmp_path):
    with two_at_once(pausing, tmp_path) as (killed, other):
        kill(killed)
        pausing.release()
        asked(other)
    stats = settled(pausing)
    # The dead one never wrote down how these ended.
    in_flight = count(tmp_path, "status = 'sent'")
    assert in_flight <= CONCURRENCY
    assert count(tmp_path, "status = 'usable'") == SAMPLES
    assert SAMPLES <= stats["requests"] <= SAMPLES + in_flight == count(tmp_path)
    assert len(stats["bodies"]) == SAMPLES
    assert max(stats["bodies"].values()) <= 2
