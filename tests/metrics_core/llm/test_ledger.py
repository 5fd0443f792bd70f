"""The contract of a ledger, in a folder and in PostgreSQL: what is served and counted, who may ask, what breaks."""

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger import (
    COLUMNS,
    FILE,
    UNSENT,
    AsyncLedger,
    ClaimLost,
    JudgeSpent,
    Ledger,
    LedgerError,
    Spent,
    ledger_exists,
    open_ledger,
)
from tests.conftest import ROOT
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S, wait_until
from tests.metrics_core.judges.asking import call, count, execute, lapse

FREE, RUN = CallLimits(run="run"), CallLimits(run="run", max_calls=10, max_cost_usd=2.0)


@pytest.fixture
def ledger(place):
    with closing(open_ledger(place)) as opened:
        yield opened


def start(ledger, budget, call, most_usd=None):
    assert ledger.claim(call["request_key"])
    return ledger.start(budget, call, most_usd)


def write(ledger, key, status, reply, **result):
    permit, call_id = start(ledger, FREE, call(key))
    assert permit == "go"
    ledger.finish(call_id, status, {"reply": reply, **result})


def buy(ledger, budget, key, most, cost):
    """Make a call, if the budget allows it."""
    permit, call_id = start(ledger, budget, call(key), most)
    if permit == "go":
        ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": cost})
    return permit


def as_dicts(rows):
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


# What is served.


@pytest.mark.parametrize(
    ("calls", "served"),
    [
        ([], None),
        ([("sent", None)], None),
        ([("unreadable", "I would rather not say")], None),
        ([("error", "half a rep")], None),
        ([("usable", "first"), ("usable", "second")], "second"),
        ([("usable", "good"), ("error", None), ("sent", None)], "good"),
    ],
)
def test_the_newest_usable_reply_is_served_also_by_a_clock_that_runs_backwards(calls, served, ledger, monkeypatch):
    write(ledger, "other", "usable", "of another request")
    now = time.time()
    for number, (status, reply) in enumerate(calls):
        monkeypatch.setattr(time, "time", lambda hours=number: now - 3_600.0 * hours)
        if status == "sent":
            start(ledger, FREE, call())
        else:
            write(ledger, "k", status, reply)
    assert ledger.reply("k") == served
    assert [(row["status"], row["reply"]) for row in as_dicts(ledger.calls(["k"]))] == calls


def test_what_was_forgotten_is_asked_again_and_stays_paid(ledger):
    for key, reply in (("a", "first"), ("a", "second"), ("b", "other")):
        write(ledger, key, "usable", reply)
    spent = ledger.spent("run")
    assert (ledger.forget(["a", "never sent"]), ledger.forget([])) == (2, 0)
    assert (ledger.reply("a"), ledger.reply("b")) == (None, "other")
    assert [row["request_key"] for row in as_dicts(ledger.calls())] == ["b"]
    assert ledger.spent("run") == spent == Spent(calls=3, unpriced=0)


def test_a_row_says_everything_about_its_call(ledger):
    result = {
        "seconds": 0.5, "tokens_in": 7, "tokens_out": 3, "cost_usd": 0.25, "model": "j-2026", "fingerprint": "fp",
        "finish_reason": "stop", "reply": "{}",
    }  # fmt: skip
    before = time.time()
    _, call_id = start(ledger, FREE, call(attempt=4), 1.0)
    ledger.finish(call_id, "usable", result)
    [row] = as_dicts(ledger.calls(["k"]))
    assert before <= row.pop("started_at") <= time.time()
    expected = {**call(attempt=4), **result, "call_id": call_id, "run": "run", "status": "usable"}
    assert row == {**expected, "code": None, "message": None}


def test_calls_are_found_for_any_number_of_requests_and_each_once(ledger):
    keys = [f"k{number}" for number in range(1_203)]
    ids = [start(ledger, FREE, call(key))[1] for key in keys]
    assert Counter(row[0] for row in ledger.calls(keys)) == Counter(ids)
    assert list(ledger.calls([])) == []


def test_a_call_ends_once_and_one_that_never_was_does_not(ledger):
    _, call_id = start(ledger, FREE, call(), 0.5)
    ledger.finish(call_id, "usable", {"reply": "first", "cost_usd": 0.25})
    ledger.finish(call_id, "error", {"code": UNSENT, "cost_usd": 0.0})
    assert (ledger.reply("k"), ledger.spent("run")) == ("first", Spent(1, 0.25))
    with pytest.raises(KeyError):
        ledger.finish("a call that was never made", "usable", {"reply": "lost"})


def test_a_ledger_in_memory_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(open_ledger(None)) as memory:
        write(memory, "k", "usable", "yes")
        assert memory.reply("k") == "yes"
    assert list(tmp_path.iterdir()) == []


# Budgets.

runs = iter(f"run {number}" for number in range(10**9))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["start", "start", "end", "unsent"]), st.integers(0, 8), st.integers(0, 8)),
        max_size=30,
    )
)
def test_no_order_of_calls_spends_more_than_was_allowed(steps, ledger):
    """In eighths of a dollar, which are exact. No call costs more than it was said to cost at most."""
    budget = CallLimits(run=next(runs), max_calls=9, max_cost_usd=2.0)
    in_flight, spent, n_calls = [], 0.0, 0
    for step, most, cost in steps:
        reserved = sum(amount for _, amount in in_flight)
        if step == "start":
            permit, call_id = start(ledger, budget, call(), most / 8)
            if n_calls < 9 and spent + reserved + most / 8 <= 2.0:
                assert permit == "go"
                in_flight.append((call_id, most / 8))
                n_calls += 1
            else:
                assert permit == ("wait" if in_flight else "max_calls" if n_calls == 9 else "max_cost")
                assert call_id == ""
        elif in_flight:
            call_id, amount = in_flight.pop(0)
            if step == "end":
                spent += min(cost / 8, amount)
                ledger.finish(call_id, "usable", {"cost_usd": min(cost / 8, amount), "reply": ""})
            else:
                n_calls -= 1
                ledger.finish(call_id, "error", {"code": UNSENT, "cost_usd": 0.0})
        assert ledger.spent(budget.run) == Spent(n_calls, spent + sum(amount for _, amount in in_flight))


def test_a_run_with_more_budget_goes_on_where_it_stopped_and_another_has_its_own(ledger):
    two, three = CallLimits(run="run", max_calls=2), CallLimits(run="run", max_calls=3)
    assert [start(ledger, budget, call())[0] for budget in (two, two, two, three, three)] == [
        "go", "go", "wait", "go", "wait",
    ]  # fmt: skip
    assert start(ledger, CallLimits(run="another", max_calls=1), call())[0] == "go"
    assert (ledger.spent("run"), ledger.spent("never")) == (Spent(calls=3, unpriced=3), Spent())


def test_what_has_no_price_or_no_reply_is_counted_apart(ledger):
    write(ledger, "a", "usable", "x", cost_usd=None)
    write(ledger, "b", "unreadable", "x", cost_usd=None)
    write(ledger, "c", "usable", "x", cost_usd=0.5)
    # A reply of which nothing can be made has to be paid all the same; a call without a reply has no price to miss.
    write(ledger, "d", "error", "", cost_usd=None)
    write(ledger, "e", "error", None)
    assert ledger.spent("run") == Spent(calls=5, cost_usd=0.5, unpriced=3)


def test_what_was_spent_on_each_judge(ledger):
    def one(judge, **result):
        _, call_id = start(ledger, FREE, call(judge=judge), 0.5)
        ledger.finish(call_id, "error" if "code" in result else "usable", result)

    for cost in (0.1, 0.2):
        one("openai/a", reply="yes", tokens_in=100, tokens_out=10, cost_usd=cost)
    one("openai/a", code="timeout", cost_usd=0.5)
    one("openai/a", code="http_429")
    one("openai/b", reply="yes", tokens_in=7, tokens_out=1, cost_usd=None)
    one("openai/c", code="timeout", cost_usd=None)
    one("openai/d", code=UNSENT, cost_usd=0.0)
    assert ledger.spent_by_judge("run") == [
        JudgeSpent("openai/a", 4, 200, 20, pytest.approx(0.8), 0.5),
        JudgeSpent("openai/b", 1, 7, 1, None, 0.0),
        JudgeSpent("openai/c", 1, 0, 0, None, 0.0),
        JudgeSpent("openai/d", 0, 0, 0, 0.0, 0.0),
    ]
    assert ledger.spent_by_judge("another") == []


def within(run, total=1.0, **limits):
    return CallLimits(run=run, max_cost_total_usd=total, **limits)


def test_a_limit_for_the_month_spans_runs_and_what_was_spent_before_there_was_one(ledger):
    assert [buy(ledger, CallLimits(run="before"), f"a{n}", 0.3, 0.1) for n in range(6)] == ["go"] * 6
    assert [buy(ledger, within("two"), f"b{n}", 0.2, 0.1) for n in range(4)] == ["go"] * 3 + ["max_cost_total"]
    assert buy(ledger, within("two"), "cheap", 0.09, 0.05) == "go"
    assert buy(ledger, within("three", total=2.0), "more", 0.2, 0.1) == "go"
    # $1.05 is spent.
    permit, call_id = start(ledger, CallLimits(run="before"), call("in flight"), 0.05)
    assert permit == "go"
    assert start(ledger, within("after", 1.15), call("c"), 0.1) == ("wait", "")
    ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.02})
    assert start(ledger, within("after", 1.15), call("c"), 0.1) == ("max_cost_total", "")
    assert buy(ledger, within("after", 1.15), "d", 0.07, 0.01) == "go"


def test_the_own_limit_of_a_run_comes_first(ledger):
    budget = within("run", max_cost_usd=0.25, max_calls=2)
    assert [buy(ledger, budget, f"a{n}", 0.1, 0.1) for n in range(3)] == ["go", "go", "max_calls"]
    assert buy(ledger, within("run", max_cost_usd=0.25), "b", 0.1, 0.1) == "max_cost"


# Claims.


def test_a_call_needs_the_claim_of_its_request_which_keeps_others_out(place):
    with closing(open_ledger(place)) as ours:
        theirs = open_ledger(place)
        with pytest.raises(ClaimLost):
            ours.start(FREE, call(), 0.5)
        assert (ours.claim("k"), theirs.claim("k"), theirs.claim("other")) == (True, False, True)
        assert ours.claim("k")  # it holds it
        theirs.release("k")  # which is not theirs
        assert not theirs.claim("k")
        ours.release("k")
        with pytest.raises(ClaimLost):
            ours.start(FREE, call(), 0.5)
        assert (list(ours.calls()), ours.spent("run"), theirs.claim("k")) == ([], Spent(), True)
        theirs.close()
        assert [ours.claim(key) for key in ("k", "other")] == [True, True]


def test_a_process_that_stood_still_for_too_long_keeps_its_replies_and_asks_nothing_twice(place):
    with closing(open_ledger(place)) as slow, closing(open_ledger(place)) as other:
        assert [slow.claim(key) for key in ("sent", "queued", "free")] == [True] * 3
        _, call_id = slow.start(RUN, call("sent"), 0.5)
        lapse(place)
        assert [other.claim(key) for key in ("sent", "queued")] == [True, True]
        with pytest.raises(ClaimLost):
            slow.start(RUN, call("queued"), 0.5)
        slow.renew()
        assert (slow.claim("queued"), slow.claim("free"), other.claim("free")) == (False, True, False)
        slow.finish(call_id, "usable", {"reply": "late", "cost_usd": 0.25})
        assert (other.reply("sent"), other.spent("run")) == ("late", Spent(1, 0.25))


def test_claims_hold_for_as_long_as_they_are_renewed(place, monkeypatch):
    monkeypatch.setattr("answerkey.metrics_core.llm.ledger.LEASE_S", 1.0)

    async def hold():
        ledger, other = await AsyncLedger.open(place), open_ledger(place)
        assert await ledger.do(Ledger.claim, "k")
        [(first,)] = execute(place, "SELECT expires_at FROM answerkey_claims")
        while execute(place, "SELECT expires_at FROM answerkey_claims") < [(first + 1.0,)]:
            await asyncio.sleep(0.02)
        # From now on for so long that it does not lapse before it is asked for. The pause before a renewal is a part of
        # the lease: a longer lease could make this one wait for minutes.
        monkeypatch.setattr("answerkey.metrics_core.llm.ledger.LEASE_S", 30.0)
        while execute(place, "SELECT expires_at FROM answerkey_claims") < [(first + 15.0,)]:
            await asyncio.sleep(0.02)
        before = other.claim("k")
        await ledger.close()
        after = other.claim("k")
        other.close()
        return before, after

    assert asyncio.run(hold()) == (False, True)


# Calls in batches.


def test_a_call_in_a_batch_is_found_by_who_asks_next_and_charged_to_them(place):
    before = time.time()
    with closing(open_ledger(place)) as first:
        assert start(first, CallLimits(run="monday", max_cost_usd=1.0), call(batch="b"), 0.5)[0] == "go"
        start(first, FREE, call("collected", batch="never sent"))
        first.put_batch("b", "openai/j", None)
        first.put_batch("b", "openai/j", "batch_7")
    with closing(open_ledger(place)) as second:
        assert second.claim("k")
        adopted = second.adopt("k", "tuesday")
        assert (adopted.batch, adopted.provider_id, adopted.most_usd, adopted.format) == ("b", "batch_7", 0.5, "text")
        assert before <= adopted.sent_at <= time.time()
        unsent = second.adopt("collected", "run")
        assert (unsent.sent_at, unsent.provider_id) == (None, None)
        assert (second.adopt("k", "tuesday"), second.adopt("other", "tuesday")) == (adopted, None)
        assert (second.spent("monday"), second.spent("tuesday")) == (Spent(), Spent(1, 0.5))
        second.finish(adopted.call_id, "usable", {"reply": "yes", "cost_usd": 0.125})
        assert (second.reply("k"), second.adopt("k", "tuesday")) == ("yes", None)
        assert (second.spent("monday"), second.spent("tuesday")) == (Spent(), Spent(1, 0.125))


# Processes that work at once, or die.

HEAD = """
import itertools, resource, sys
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.ledger import LedgerError, open_ledger
location, name = sys.argv[1:]
def call(key):
    return dict(request_key=key, judge="j", prompt="p", kind="ask", attempt=1, format="text")
ledger = open_ledger(location)
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def script(text, place, name=""):
    """A process that has the ledger open and runs this text; it is killed at the end."""
    command = [sys.executable, "-c", HEAD + text, place, name]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as process:
        try:
            assert line_of(process) == "ready"
            process.stdin.write("go\n")
            yield process
        finally:
            process.kill()


def line_of(process):
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.rstrip("\n")


CALLS_WITHOUT_END = """
for number in itertools.count():
    key = f"{name}-{number}"
    assert ledger.claim(key)
    _, call_id = ledger.start(CallLimits(run="run", max_cost_usd=1_000.0), call(key), 0.5)
    ledger.finish(call_id, "usable", {"reply": f"reply {number} " * 50, "cost_usd": 0.25})
    print(number, flush=True)
    ledger.release(key)
"""


def test_a_killed_process_leaves_every_finished_call_behind(place):
    for name in ("first", "second"):
        with script(CALLS_WITHOUT_END, place, name) as process:
            while line_of(process) != "30":
                pass
            process.kill()  # SIGKILL, straight after a line that says that a call was written down
            n_finished = 31 + len(process.stdout.readlines())
        with closing(open_ledger(place)) as ledger:
            replies = [ledger.reply(f"{name}-{number}") for number in range(n_finished)]
            assert replies == [f"reply {number} " * 50 for number in range(n_finished)]
            # One more at most was under way.
            assert len(list(ledger.calls([f"{name}-{number}" for number in range(n_finished + 50)]))) <= n_finished + 1


IN_FLIGHT = """
for key in ("a", "b"):
    assert ledger.claim(key)
    assert ledger.start(CallLimits(run="run", max_calls=10, max_cost_usd=2.0), call(key), 0.75)[0] == "go"
print("sent", flush=True)
sys.stdin.readline()
"""


def test_what_a_killed_process_had_in_flight_is_free_after_its_lease_and_stays_counted(ledger, place):
    assert ledger.claim("c")
    with script(IN_FLIGHT, place) as process:
        assert line_of(process) == "sent"
    assert [ledger.claim(key) for key in ("a", "b")] == [False, False]
    # Its 1.50 might still come in cheaper, for all that anybody knows.
    assert ledger.start(RUN, call("c"), 1.0) == ("wait", "")
    lapse(place)
    assert [ledger.claim(key) for key in ("a", "b", "c")] == [True, True, True]
    assert ledger.start(RUN, call("c"), 1.0) == ("max_cost", "")
    assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
    assert buy(ledger, RUN, "a", 0.5, 0.25) == "go"
    assert ledger.spent("run") == Spent(calls=3, cost_usd=1.75)
    assert sum(judge.reserved_usd for judge in ledger.spent_by_judge("run")) == 1.75


TOGETHER = """
few = CallLimits(run="few", max_calls=50)
key = f"few {name}"
assert ledger.claim(key)
while (permit := ledger.start(few, call(key), None)[0]) == "go":
    print(permit)
ledger.release(key)
cheap, key = CallLimits(run=f"cheap {name}", max_cost_total_usd=1.0), f"cheap {name}"
assert ledger.claim(key)
while (started := ledger.start(cheap, call(key), 0.125))[0] != "max_cost_total":
    if started[0] == "go":
        ledger.finish(started[1], "usable", {"reply": "", "cost_usd": 0.0625})
ledger.release(key)
"""
EACH_ONCE = """
waiting = [f"key {number * (int(name) * 2 + 1) % 200}" for number in range(200)]
while waiting:
    key = waiting.pop(0)
    if ledger.reply(key) is not None:
        continue
    if not ledger.claim(key):
        waiting.append(key)
        continue
    if ledger.reply(key) is None:
        _, call_id = ledger.start(CallLimits(run="run"), call(key), None)
        print(key, flush=True)
        ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.0})
    ledger.release(key)
"""


def four(text, place, meanwhile=lambda: None):
    """The lines of four processes that run this text at once, each with a number as its name."""
    with ExitStack() as stack:
        processes = [stack.enter_context(script(text, place, str(number))) for number in range(4)]
        meanwhile()
        outputs = [process.communicate(timeout=FAULT_S)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
    return Counter(line for output in outputs for line in output.splitlines())


@pytest.mark.real
def test_four_processes_keep_to_the_budgets_and_pay_for_each_request_once(place):
    lines = four(TOGETHER + EACH_ONCE, place)
    assert lines.pop("go") == 50
    assert lines == Counter(f"key {number}" for number in range(200))
    with closing(open_ledger(place)) as ledger:
        cheap = [ledger.spent(f"cheap {number}") for number in range(4)]
        assert (ledger.spent("few").calls, ledger.spent("run").calls) == (50, 200)
        # One call more could have cost too much.
        assert 0.875 < sum(one.cost_usd for one in cheap) <= 1.0
        assert len(list(ledger.calls())) == 250 + sum(one.calls for one in cheap)
    assert count(place, table="claims") == 0


def test_of_many_that_open_at_once_one_makes_the_tables(place):
    everybody, errors = threading.Barrier(8), []
    new = place if place.startswith("postgresql:") else f"{place}/new/folder"
    assert not ledger_exists(new)

    def open_it():
        everybody.wait(timeout=FAULT_S)
        try:
            with closing(open_ledger(new)) as ledger:
                ledger.claim("k")
        except LedgerError as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, ledger_exists(new)) == ([], True)


# A server that goes away.


def test_the_server_may_be_restarted_meanwhile(postgres, postgres_server):
    place = f"postgresql:{postgres}"

    def restart():
        wait_until(lambda: count(place) >= 50, "50 calls")
        postgres_server.process.send_signal(2)  # SIGINT: it ends its sessions at once
        postgres_server.process.wait()
        postgres_server.start()

    paid = four(EACH_ONCE, place, restart)
    assert set(paid) == {f"key {number}" for number in range(200)}
    # A session that is cut in the middle of a commit does not learn whether it took place.
    assert sum(paid.values()) <= 204


def test_a_server_that_does_not_come_back_ends_the_run_in_one_line(postgres, postgres_server, monkeypatch):
    monkeypatch.setattr("answerkey.metrics_core.llm.ledger._WAIT_S", 0.5)
    ledger = open_ledger(f"postgresql:{postgres}")
    assert ledger.claim("k")
    postgres_server.process.send_signal(2)
    postgres_server.process.wait()
    try:
        for _ in range(3):
            with pytest.raises(LedgerError, match=r"bring the server back, then run again$"):
                ledger.start(RUN, call(), None)
        ledger.close()
    finally:
        postgres_server.start()


# On an event loop.


@contextmanager
def locked(place):
    """Nobody else can write to the ledger meanwhile."""
    if place.startswith("postgresql:"):
        with psycopg.connect(place.removeprefix("postgresql:")) as other:
            other.execute("LOCK TABLE answerkey_claims, answerkey_calls, answerkey_budgets")
            yield
        return
    with closing(sqlite3.connect(Path(place) / FILE, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield
        file.execute("COMMIT")


def test_a_loop_goes_on_while_the_ledger_waits_and_what_is_cancelled_is_given_back(place):
    async def work():
        ledger = await AsyncLedger.open(place)
        assert [await ledger.do(Ledger.claim, key) for key in ("a", "b")] == [True, True]
        _, call_id = await ledger.start(RUN, call("a"), 0.5)
        with locked(place):
            # The loop turns: a ledger that kept it would keep it here for as long as the lock is held, for ever.
            finish = ledger.do(Ledger.finish, call_id, "usable", {"reply": "yes", "cost_usd": 0.25})
            tasks = [asyncio.create_task(finish), asyncio.create_task(ledger.start(RUN, call("b"), 1.0))]
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.05)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        await ledger.close()

    asyncio.run(work())
    with closing(open_ledger(place)) as ledger:
        assert (ledger.reply("a"), ledger.spent("run")) == ("yes", Spent(1, 0.25))
        assert [(row["status"], row["code"]) for row in as_dicts(ledger.calls(["b"]))] == [("error", UNSENT)]


# Places that cannot be used.


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def replace_by_folder(file):
    file.unlink()
    file.mkdir()


def replace_by_older_format(file):
    file.unlink()
    execute(file.parent, "CREATE TABLE calls (call_id TEXT)")
    execute(file.parent, "PRAGMA user_version = 5")


DAMAGED = "restore it from a backup, or move it away to start a new one"
BROKEN = {
    "cut off": (truncate, DAMAGED),
    "no text": (
        lambda file: execute(file.parent, "UPDATE answerkey_calls SET reply = CAST(x'ff00fe' AS TEXT)"), DAMAGED,
    ),
    "a letter": (
        lambda file: file.write_bytes(b"This is a letter to my grandmother. " * 100),
        f"file is not a database); what was paid for so far is kept in it: the file is damaged: {DAMAGED}",
    ),
    "a folder": (replace_by_folder, "unable to open database file"),
    "a newer format": (
        lambda file: execute(file.parent, "UPDATE answerkey_ledger SET version = 7"),
        "was made by another version of answerkey: its format is 7, and this one needs 6",
    ),
    "an older format": (
        replace_by_older_format,
        "is not a ledger that this version of answerkey can use: move it away to start a new one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_cannot_be_used_is_one_line_and_stays_as_it_is(how, tmp_path):
    damage, why = BROKEN[how]
    with closing(open_ledger(str(tmp_path))) as ledger:
        for number in range(50):
            write(ledger, f"k{number}", "usable", "x" * 5_000)
    damage(tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes() if how != "a folder" else None
    with pytest.raises(LedgerError) as error, closing(open_ledger(str(tmp_path))) as ledger:
        for number in range(50):
            ledger.reply(f"k{number}")
    assert str(tmp_path / FILE) in str(error.value)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert before is None or (tmp_path / FILE).read_bytes() == before


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be used"):
        open_ledger(str(tmp_path / "taken" / "folder"))


UNTIL_FULL = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
done = 0
try:
    while True:
        assert ledger.claim(f"k{done}")
        _, call_id = ledger.start(CallLimits(run="run"), call(f"k{done}"), None)
        ledger.finish(call_id, "usable", {"reply": "x" * 5_000})
        done += 1
except LedgerError as error:
    print(done, error, sep="|")
ledger.close()
"""


def test_a_full_disk_stops_the_work_and_loses_nothing_that_was_written_down(tmp_path):
    with script(UNTIL_FULL, str(tmp_path)) as process:
        n_done, message = line_of(process).split("|")
        process.communicate(timeout=FAULT_S)
        assert process.returncode == 0
    assert message.startswith(f"the ledger {tmp_path / FILE} cannot be used (")
    assert "what was paid for so far is kept in it: free space" in message
    # The reason, and not what came of it.
    assert "disk I/O error" in message or "disk is full" in message
    assert int(n_done) > 10
    with closing(open_ledger(str(tmp_path))) as ledger:
        assert {ledger.reply(f"k{number}") for number in range(int(n_done))} == {"x" * 5_000}
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]


READ_ONLY = """
import os, sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import LedgerError, open_ledger
folder = Path(sys.argv[1])
for path in (folder, *folder.rglob("*")):
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)  # what root may not write is nothing
before = sorted(folder.iterdir())
ledger = open_ledger(str(folder))
print(ledger.reply("known"), ledger.spent("run").calls, len(list(ledger.calls(["known", "other"]))))
try:
    ledger.claim("other")
except LedgerError as error:
    print(error)
ledger.close()
print(sorted(folder.iterdir()) == before)
"""


@pytest.fixture
def open_folder():
    """A folder to which every user has a way. Each start of pytest closes the one to its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_ledger_that_may_only_be_read_serves_replies_and_lets_nothing_be_asked(open_folder):
    folder = open_folder / "ledger"
    with closing(open_ledger(str(folder))) as ledger:
        write(ledger, "known", "usable", "yes")
    command = [sys.executable, "-c", READ_ONLY, str(folder)]
    run = finished(command, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "yes 1 1",
        f"the ledger {folder / FILE} cannot be used (attempt to write a readonly database); what was paid for so far "
        "is kept in it: make the file and its folder writable, then run again",
        "True",
    ]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("postgresql:host=db password=tell-nobody", "put it into the file that PGPASSFILE names"),
        ("postgresql://me:tell-nobody@db/answerkey", "put it into the file that PGPASSFILE names"),
        ("postgresql:tell-nobody", "write postgresql://USER@HOST/DATABASE"),
        (
            "postgresql://me@127.0.0.1:1/answerkey",
            r"^the ledger postgresql://me@127\.0\.0\.1:1/answerkey cannot be used \(",
        ),
    ],
)
def test_a_location_that_cannot_be_used_is_one_line_without_a_password(location, why, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises((UserError, LedgerError), match=why) as error:
        open_ledger(location)
    assert "tell-nobody" not in str(error.value)
    assert "\n" not in str(error.value)


def test_another_user_and_another_format_of_a_server_are_one_line(postgres, monkeypatch):
    place = f"postgresql:{postgres}"
    open_ledger(place).close()
    execute(place, "UPDATE answerkey_ledger SET version = 5")
    with pytest.raises(LedgerError, match="its format is 5, and this one needs 6"):
        open_ledger(place)
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises(LedgerError, match="password authentication failed") as error:
        open_ledger(place)
    assert "\n" not in str(error.value)
    assert "tell-nobody" not in str(error.value)
