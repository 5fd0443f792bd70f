"""kill -9 in the middle of 600 calls, and two processes over one release: what was answered is never asked again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.ledger import open_ledger
from answerkey.metrics_core.llm.provider import abilities
from tests.judge_server import JudgeProcess
from tests.metrics_core.judges.asking import count, rows

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = 600
CONCURRENCY = 32
# Prints, for each sample, its id, whether it was scored, and whether this process asked for it.
EVALUATE = f"""
import json, sys
from tests.metrics_core.judges.asking import ask, samples, setup

url, ledger, model, concurrency = sys.argv[1:]
judge = setup(f"{{model}}@{{url}}", ledger=ledger, run="run", concurrency=int(concurrency))
found = ask(samples({SAMPLES}), judge)
print(json.dumps([(one.sample_id, one.status, not one.from_ledger) for one in found]))
"""


class Evaluation:
    """A process that evaluates all samples."""

    def __init__(self, server, ledger, model="openai/judge", concurrency=CONCURRENCY):
        self._process = subprocess.Popen(
            [sys.executable, "-c", EVALUATE, server.url, str(ledger), model, str(concurrency)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill(self):
        """As the system does it when memory runs out."""
        assert self._process.poll() is None, "it should be in the middle of its work"
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        assert self._process.returncode == -signal.SIGKILL

    def asked(self):
        """Wait for the end, at which every sample must be scored; for how many of them this process asked."""
        output, _ = self._process.communicate(timeout=250)
        assert self._process.returncode == 0
        found = json.loads(output)
        assert [(name, status) for name, status, _ in found] == [(f"s{n}", "scored") for n in range(SAMPLES)]
        return sum(asked for *_, asked in found)

    def end(self):
        """Leave nothing behind when a test failed."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def pausing():
    """A server that stops answering after half of the requests until it is released."""
    with JudgeProcess("--latency", "0.01", "--hold-after", str(SAMPLES // 2)) as started:
        yield started


def wait_for(server, number, what="requests"):
    """Until the server has seen that many requests, or has them in flight."""
    until = time.monotonic() + 200
    while server.stats()[what] < number:
        assert time.monotonic() < until, server.stats()
        time.sleep(0.05)


def settled(server):
    """The server's counts once no request is pending."""
    until = time.monotonic() + 100
    while (stats := server.stats())["in_flight"]:
        assert time.monotonic() < until, stats
        time.sleep(0.05)
    return stats


@pytest.mark.slow
def test_a_killed_run_loses_no_more_than_its_calls_in_flight(pausing, tmp_path):
    server = pausing
    killed = Evaluation(server, tmp_path)
    try:
        wait_for(server, SAMPLES // 2)
        killed.kill()
    finally:
        killed.end()
    server.release()
    seen = settled(server)["requests"]
    usable, in_flight = count(tmp_path, "status = 'usable'"), count(tmp_path, "status = 'sent'")
    assert SAMPLES // 2 <= seen < SAMPLES
    # Written down before it is sent, and again as soon as its reply is there.
    assert usable + in_flight == count(tmp_path)
    assert 0 <= seen - usable <= in_flight <= CONCURRENCY

    again = Evaluation(server, tmp_path)
    try:
        assert again.asked() == SAMPLES - usable
    finally:
        again.end()
    stats = settled(server)
    assert stats["requests"] == SAMPLES + seen - usable <= SAMPLES + in_flight
    assert len(stats["bodies"]) == SAMPLES
    assert Counter(stats["bodies"].values()) == Counter({1: SAMPLES - (seen - usable), 2: seen - usable}) - Counter()
    assert count(tmp_path, "status = 'usable'") == SAMPLES

    # A third run finds everything.
    idle = Evaluation(server, tmp_path)
    try:
        assert idle.asked() == 0
    finally:
        idle.end()
    assert settled(server)["requests"] == stats["requests"]


@contextmanager
def two_at_once(server, ledger):
    """Two processes that both have calls in flight at a server that holds its answers."""
    most = 4
    first = Evaluation(server, ledger, concurrency=most)
    both = [first]
    try:
        wait_for(server, SAMPLES // 2 + most)
        # With more questions at hand than the first has claimed, or all of them might wait for the first.
        both.append(second := Evaluation(server, ledger, concurrency=4 * most))
        wait_for(server, most + 1, what="in_flight")  # more than the first may have
        yield first, second
    finally:
        for one in both:
            one.end()


@pytest.mark.slow
def test_two_processes_at_once_ask_everything_once(pausing, tmp_path):
    with two_at_once(pausing, tmp_path) as both:
        pausing.release()
        asked = [one.asked() for one in both]
    stats = settled(pausing)
    assert sum(asked) == SAMPLES
    assert min(asked) > 0
    assert stats["requests"] == len(stats["bodies"]) == SAMPLES == count(tmp_path)
    assert set(rows(tmp_path, "kind, status, attempt")) == {("ask", "usable", 1)}


@pytest.mark.slow
def test_one_of_two_is_killed_and_the_other_finishes(pausing, tmp_path):
    with two_at_once(pausing, tmp_path) as (killed, other):
        killed.kill()
        pausing.release()
        other.asked()
    stats = settled(pausing)
    # The dead one never wrote down how these ended.
    in_flight = count(tmp_path, "status = 'sent'")
    assert in_flight <= CONCURRENCY
    assert count(tmp_path, "status = 'usable'") == SAMPLES
    assert SAMPLES <= stats["requests"] <= SAMPLES + in_flight == count(tmp_path)
    assert len(stats["bodies"]) == SAMPLES
    assert max(stats["bodies"].values()) <= 2


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.kills)])
def test_a_run_that_is_killed_again_and_again_is_counted_as_it_was_paid(kills, tmp_path):
    with JudgeProcess("--latency", "0.1") as server:
        for number in range(kills):
            process = Evaluation(server, tmp_path, "openai/gpt-4o-mini")
            try:
                wait_for(server, SAMPLES * (number + 1) // (kills + 2))
                process.kill()
            finally:
                process.end()
        last = Evaluation(server, tmp_path, "openai/gpt-4o-mini")
        try:
            last.asked()
        finally:
            last.end()
        stats = settled(server)
    usable, lost = count(tmp_path, "status = 'usable'"), count(tmp_path, "status = 'sent'")
    assert usable == SAMPLES
    # Nothing is asked twice but what was in flight.
    assert stats["requests"] - SAMPLES <= lost <= kills * CONCURRENCY
    assert len(stats["bodies"]) == SAMPLES
    ledger = open_ledger(str(tmp_path))
    spent = ledger.spent("run")
    ledger.close()
    [(each,)] = rows(tmp_path, "avg(cost_usd) FILTER (WHERE status = 'usable')")
    assert spent.cost_usd >= each * stats["requests"]
    # Calls that were never answered count at the most that they may cost: all of `max_tokens`, and a long prompt.
    price = abilities("openai/gpt-4o-mini").price
    assert price is not None
    room = 1_024 * price[2]
    assert room < (spent.cost_usd - usable * each) / lost < room + 5_000 * price[0]
