"""The one event loop for all judges of a process, and the threads that wait for it."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.client import limiter_of
from answerkey.metrics_core.llm.model import ModelRef
from tests.metrics_core.judges.asking import ask, count, match, options, rows, samples

ROOT = Path(__file__).resolve().parents[3]


def never():
    raise AssertionError("ticked")


async def where():
    await asyncio.sleep(0.01)
    return id(asyncio.get_running_loop()), threading.current_thread().name


def test_one_loop_does_the_work_of_scripts_threads_and_those_with_a_loop_of_their_own():
    async def inside():
        return runtime.run(where(), never)

    with ThreadPoolExecutor(8) as threads:
        found = {runtime.run(where(), never), asyncio.run(inside())}
        found |= set(threads.map(lambda _: runtime.run(where(), never), range(8)))
    [(_, name)] = found
    assert name == "models"


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
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.2)
            ended.append("cleaned up")

    def tick():
        raise OSError("the log is full")

    with pytest.raises(OSError, match="the log is full"):
        runtime.run(work(), tick, every_s=0.05)
    assert ended == ["cleaned up"]


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
    def limiter(model="openai/j", host="h", key="sk-first-key", calls=8, **limits):
        return limiter_of(ModelRef(model, f"http://{host}/v1", key), CallLimits(calls, **limits))

    assert limiter(max_calls=3) is limiter()
    others = [limiter(key="sk-second-key"), limiter(host="g"), limiter(model="openai/k"), limiter(calls=9)]
    assert len({id(one) for one in (limiter(), *others)}) == 5


@pytest.mark.parametrize("run", ["a run that is stopped", "one of several rules/whose run is stopped"])
def test_what_a_run_asks_in_any_thread_ends_when_it_is_stopped(run, judge_server, tmp_path):
    server = judge_server(match, holds=lambda _server: True)
    asked = options(server, ledger=str(tmp_path), run=run, timeout_s=1_000.0)
    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, samples(3, what), asked) for what in ("one", "two")]
        while server.n_requests < 2:
            time.sleep(0.02)
        runtime.stop(run.partition("/")[0])
        assert [type(future.exception()) for future in asking] == [runtime.Stopped] * 2
    with pytest.raises(runtime.Stopped):
        ask(samples(1, "three"), asked)
    assert (server.n_requests, count(tmp_path, table="claims")) == (2, 0)
    assert rows(tmp_path, "status, code") == [("error", "cancelled")] * 2
