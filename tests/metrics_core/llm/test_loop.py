"""The one event loop for all judges of a process, and the threads that wait for it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import pairwise
from pathlib import Path

import pytest

from answerkey.metrics_core.llm import loop as runtime
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger_place import open_ledger
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.rate_limit import AdaptiveLimit
from answerkey.metrics_core.llm.sqlite_ledger import FILE
from answerkey.metrics_core.measurement import Measurement
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import ask, match, options, patiently, samples

ROOT = Path(__file__).resolve().parents[3]


def never() -> None:
    raise AssertionError("ticked")


async def where() -> tuple[int, str]:
    return id(asyncio.get_running_loop()), threading.current_thread().name


def test_the_work_is_done_and_its_result_returned() -> None:
    async def work() -> int:
        await asyncio.sleep(0.01)
        return 7

    assert runtime.run(work(), never) == 7


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("slow"), ExceptionGroup("both", [KeyError("x")])])
def test_the_error_of_the_work_is_the_error_of_the_caller(error: Exception) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        runtime.run(work(), never)
    assert (type(caught.value), caught.value.args) == (type(error), error.args)


def test_work_that_gives_up_by_itself_does_not_hold_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.loop._CLEAN_UP_S", 100.0)

    async def work() -> None:
        raise asyncio.CancelledError

    began = time.monotonic()
    with pytest.raises(CancelledError):
        runtime.run(work(), never)
    assert time.monotonic() - began < 50.0


def test_the_caller_hears_how_far_it_is() -> None:
    ticks = [time.monotonic()]

    async def work() -> None:
        while len(ticks) < 4:
            await asyncio.sleep(0.01)

    runtime.run(work(), lambda: ticks.append(time.monotonic()), every_s=0.1)
    assert all(later - earlier >= 0.099 for earlier, later in pairwise(ticks))


def test_a_caller_that_fails_while_waiting_ends_the_work_first() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            ended.append("cleaned up")

    def tick() -> None:
        raise OSError("the log is full")

    with pytest.raises(OSError, match="the log is full"):
        runtime.run(work(), tick, every_s=0.05)
    assert ended == ["cleaned up"]


def test_one_loop_for_scripts_threads_and_those_with_a_loop_of_their_own() -> None:
    async def inside() -> tuple[int, str]:
        return runtime.run(where(), never)

    found = {runtime.run(where(), never), asyncio.run(inside())}

    def from_a_thread() -> None:
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


def test_threads_that_come_first_at_once_get_the_same_loop() -> None:
    command = [sys.executable, "-c", FIRST_AT_ONCE]
    run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    assert (run.stdout, run.stderr) == ("1 1\n", "")


def test_all_callers_with_the_same_judge_and_key_share_one_queue() -> None:
    judge = ModelRef("openai/j", "http://h/v1", "sk-first-key")
    limits = CallLimits(8, max_calls=3)
    queue = runtime.queue_of(judge, limits)
    assert runtime.queue_of(ModelRef("openai/j", "http://h/v1", "sk-first-key"), CallLimits(8)) is queue
    others = [
        runtime.queue_of(ModelRef("openai/j", "http://h/v1", "sk-second-key"), limits),
        runtime.queue_of(ModelRef("openai/j", "http://g/v1", "sk-first-key"), limits),
        runtime.queue_of(ModelRef("openai/k", "http://h/v1", "sk-first-key"), limits),
        runtime.queue_of(judge, CallLimits(9)),
    ]
    assert len({id(one) for one in (queue, *others)}) == 5


def test_a_server_of_unknown_size_gets_two_calls_at_first() -> None:
    def first_limit(model: ModelRef) -> int:
        return runtime.queue_of(model, CallLimits(64)).limit.limit

    assert first_limit(ModelRef("openai/gpt-4o-mini")) == 16
    assert first_limit(ModelRef("openai/gpt-4o-mini", "http://127.0.0.1:8080/v1")) == 2
    assert first_limit(ModelRef("ollama/qwen2.5")) == 2


def test_who_allows_many_calls_at_once_begins_with_a_quarter_of_them() -> None:
    def limit(model: ModelRef, concurrency: int) -> AdaptiveLimit:
        return runtime.queue_of(model, CallLimits(concurrency)).limit

    provider, own = ModelRef("openai/gpt-4o-mini"), ModelRef("openai/gpt-4o-mini", "http://127.0.0.1:8080/v1")
    assert [limit(provider, most).limit for most in (8, 65, 256, 1000)] == [8, 16, 64, 250]
    unknown = limit(own, 256)
    ticket = unknown.start(0.0)
    assert unknown.limit == 2
    unknown.start(0.0)
    unknown.end(ticket, 0.2, "ok")
    assert unknown.limit == 64


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_leaves_no_claim_and_no_call_in_flight(
    judge_server: Callable[..., JudgeServer], tmp_path: Path
) -> None:
    server = judge_server(match, latency=60)

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while server.n_requests < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(samples(5), options(server, ledger=str(tmp_path), run="run", timeout_s=100.0))
    thread.join()
    # At once: not some time after the caller has gone on.
    database = sqlite3.connect(tmp_path / FILE)
    assert database.execute("SELECT count(*) FROM claims").fetchall() == [(0,)]
    assert database.execute("SELECT status, code, count(*) FROM calls").fetchall() == [("error", "cancelled", 2)]
    assert database.execute("SELECT calls, in_flight, reserved FROM budgets").fetchall() == [(2, 0, 0.0)]
    database.close()
    assert list((tmp_path / "judge-owners").iterdir()) == []
    assert time.monotonic() - began < 50  # and not until the judge replies


def test_a_process_that_stands_still_keeps_nothing_from_others_and_pays_for_nothing_twice(
    judge_server: Callable[..., JudgeServer], tmp_path: Path
) -> None:
    server = judge_server(match, holds=lambda _server: True)
    asked = options(server, ledger=str(tmp_path), run="run")
    found: list[Measurement] = []
    thread = threading.Thread(target=lambda: found.extend(ask(samples(5), asked)))
    thread.start()
    while server.n_requests < 2:
        time.sleep(0.02)
    taken: list[str] = []

    def stand_still() -> None:
        time.sleep(0.5)
        other = open_ledger(str(tmp_path))
        with sqlite3.connect(tmp_path / FILE) as database:
            keys = [key for (key,) in database.execute("SELECT request_key FROM claims ORDER BY 1")]
        # One is taken over for good: another process is still asking it when this one goes on.
        taken.extend(key for key in keys if other.claim(key))
        for key in taken[1:]:
            other.release(key)
        server.release()
        threading.Timer(1.0, other.close).start()

    began, loop_began = time.monotonic(), runtime._loop().time()
    runtime.pause(stand_still)
    # No call times out by it: for them, no time has passed.
    assert runtime._loop().time() - loop_began <= time.monotonic() - began - 0.5
    thread.join()
    assert len(taken) == 5
    assert [one.status for one in found] == ["scored"] * 5
    # Those in flight have been answered, the others were asked when this process went on: each once.
    assert server.n_requests == 5
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("SELECT status, count(*) FROM calls GROUP BY 1").fetchall() == [("usable", 5)]
        assert database.execute("SELECT in_flight FROM budgets WHERE run = 'run'").fetchall() == [(0,)]


WAITING = """
import asyncio, sys
from answerkey.metrics_core.llm import loop as runtime

async def work():
    reader, _ = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    print("waiting", flush=True)
    async with asyncio.timeout(float(sys.argv[2])):
        return await reader.readline()

print(runtime.run(work(), lambda: None))
"""


def test_what_came_while_the_process_was_stopped_is_read_before_its_time_is_out() -> None:
    def check(timeout_s: float) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            command = [sys.executable, "-c", WAITING, str(listener.getsockname()[1]), str(timeout_s)]
            with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
                connection, _ = listener.accept()
                assert process.stdout
                assert process.stdout.readline() == "waiting\n"
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                connection.sendall(b"a reply\n")
                time.sleep(timeout_s + 1.0)
                process.send_signal(signal.SIGCONT)
                assert process.stdout.read() == "b'a reply\\n'\n"
                connection.close()

    patiently(check, 1.0, 10.0)


def test_what_came_while_the_loop_was_kept_from_its_work_is_read_before_its_time_is_out() -> None:
    here, there = socket.socketpair()

    def keep() -> None:
        there.sendall(b"a reply\n")
        time.sleep(1.0)

    async def work() -> bytes:
        reader, writer = await asyncio.open_connection(sock=here)
        asyncio.get_running_loop().call_soon(keep)
        async with asyncio.timeout(0.2):
            reply = await reader.readline()
        writer.close()
        return reply

    with there:
        assert runtime.run(work(), never) == b"a reply\n"


def test_a_loop_that_is_always_kept_from_its_work_comes_to_its_time_outs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "_STANDSTILL_S", 0.01)
    rounds = 0

    async def starved() -> None:
        nonlocal rounds
        async with asyncio.timeout(0.3):
            for rounds in range(1, 400):  # noqa: B007
                await asyncio.sleep(0)
                time.sleep(0.03)

    with asyncio.Runner(loop_factory=runtime._Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, runtime._Loop)
        with pytest.raises(TimeoutError):
            runner.run(starved())
        # Twenty are left out, and about ten more are three tenths of a second.
        assert 20 <= rounds <= 40
        assert loop.stillness.seconds >= 20 * 0.03


@pytest.mark.parametrize("asking", ["a run that is stopped", "one of several rules/whose run is stopped"])
def test_what_a_run_asks_in_any_thread_ends_when_it_is_stopped(
    asking: str, judge_server: Callable[..., JudgeServer], tmp_path: Path
) -> None:
    server = judge_server(match, holds=lambda _server: True)
    asked = options(server, ledger=str(tmp_path), run=asking, timeout_s=1_000.0)
    ended: list[Exception] = []

    def evaluate(what: str) -> None:
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
        assert database.execute("SELECT count(*) FROM claims").fetchall() == [(0,)]
        assert database.execute("SELECT status, code FROM calls").fetchall() == [("error", "cancelled")] * 2
