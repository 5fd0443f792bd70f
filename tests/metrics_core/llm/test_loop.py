"""The one event loop for all judges of a process, and the threads that wait for it."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from itertools import pairwise
from pathlib import Path

import pytest

from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.client import limiter_of
from answerkey.metrics_core.llm.ledger import FILE
from answerkey.metrics_core.llm.model import ModelRef
from tests.metrics_core.judges.asking import ask, match, options, samples

ROOT = Path(__file__).resolve().parents[3]


def never():
    raise AssertionError("ticked")


async def where():
    return id(asyncio.get_running_loop()), threading.current_thread().name


def test_the_work_is_done_and_its_result_returned():
    async def work():
        await asyncio.sleep(0.01)
        return 7

    assert runtime.run(work(), never) == 7


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("slow"), ExceptionGroup("both", [KeyError("x")])])
def test_the_error_of_the_work_is_the_error_of_the_caller(error):
    async def work():
        raise error

    with pytest.raises(type(error)) as caught:
        runtime.run(work(), never)
    assert (type(caught.value), caught.value.args) == (type(error), error.args)


def test_work_that_gives_up_by_itself_does_not_hold_its_caller(monkeypatch):
    monkeypatch.setattr("answerkey.metrics_core.llm.loop._CLEAN_UP_S", 100.0)

    async def work():
        raise asyncio.CancelledError

    began = time.monotonic()
    with pytest.raises(CancelledError):
        runtime.run(work(), never)
    assert time.monotonic() - began < 50.0


def test_the_caller_hears_how_far_it_is():
    ticks = [time.monotonic()]

    async def work():
        while len(ticks) < 4:
            await asyncio.sleep(0.01)

    runtime.run(work(), lambda: ticks.append(time.monotonic()), every_s=0.1)
    assert all(later - earlier >= 0.099 for earlier, later in pairwise(ticks))


def test_a_caller_that_fails_while_waiting_ends_the_work_first():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            ended.append("cleaned up")

    def tick():
        raise OSError("the log is full")

    with pytest.raises(OSError, match="the log is full"):
        runtime.run(work(), tick, every_s=0.05)
    assert ended == ["cleaned up"]


def test_one_loop_for_scripts_threads_and_those_with_a_loop_of_their_own():
    async def inside():
        return runtime.run(where(), never)

    found = {runtime.run(where(), never), asyncio.run(inside())}

    def from_a_thread():
        found.add(runtime.run(where(), never))

    threads = [threading.Thread(target=from_a_thread) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(_, name)] = found
    assert name == "models"


FIRST_AT_ONCE = """
import asyncio, sys, threading
from answerkey.metrics_core.llm import loop as runtime
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(24), set()
async def where():
    return id(asyncio.get_running_loop())
def first():
    start.wait()
    found.add(runtime.run(where(), lambda: None))
threads = [threading.Thread(target=first) for _ in range(24)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), sum(thread.name == "models" for thread in threading.enumerate()))
"""


def test_threads_that_come_first_at_once_get_the_same_loop():
    command = [sys.executable, "-c", FIRST_AT_ONCE]
    run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    assert (run.stdout, run.stderr) == ("1 1\n", "")


def test_all_callers_with_the_same_judge_and_key_share_one_limiter():
    judge = ModelRef("openai/j", "http://h/v1", "sk-first-key")
    limits = CallLimits(8, max_calls=3)
    limiter = limiter_of(judge, limits)
    assert limiter_of(ModelRef("openai/j", "http://h/v1", "sk-first-key"), CallLimits(8)) is limiter
    others = [
        limiter_of(ModelRef("openai/j", "http://h/v1", "sk-second-key"), limits),
        limiter_of(ModelRef("openai/j", "http://g/v1", "sk-first-key"), limits),
        limiter_of(ModelRef("openai/k", "http://h/v1", "sk-first-key"), limits),
        limiter_of(judge, CallLimits(9)),
    ]
    assert len({id(one) for one in (limiter, *others)}) == 5


@pytest.mark.parametrize("asking", ["a run that is stopped", "one of several rules/whose run is stopped"])
def test_what_a_run_asks_in_any_thread_ends_when_it_is_stopped(asking, judge_server, tmp_path):
    server = judge_server(match, holds=lambda _server: True)
    asked = options(server, ledger=str(tmp_path), run=asking, timeout_s=1_000.0)
    ended = []

    def evaluate(what):
        try:
            ask(samples(3, what), asked)
        except runtime.Stopped as stopped:
            ended.append(stopped)

    threads = [threading.Thread(target=evaluate, args=(what,)) for what in ("one", "two")]
    for thread in threads:
        thread.start()
    while server.n_requests < 2:
        time.sleep(0.02)
    runtime.stop(asking.partition("/")[0])
    for thread in threads:
        thread.join()
    with pytest.raises(runtime.Stopped):
        ask(samples(1, "three"), asked)
    assert (len(ended), server.n_requests) == (2, 2)
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("SELECT count(*) FROM answerkey_claims").fetchall() == [(0,)]
        assert database.execute("SELECT status, code FROM answerkey_calls").fetchall() == [("error", "cancelled")] * 2
