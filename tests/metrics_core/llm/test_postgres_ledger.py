"""The ledger in PostgreSQL under processes that work at once, die, or lose their server."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.ledger import Budget, LedgerError, Spent
from answerkey.metrics_core.llm.ledger_place import ledger_exists, open_ledger
from answerkey.metrics_core.llm.postgres_ledger import PostgresLedger
from tests.cluster_servers import Postgres
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import ask, match, options, samples

ROOT = Path(__file__).resolve().parents[3]
CALL = {"request_key": "k", "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
HEAD = """
import sys, time
from answerkey.metrics_core.llm.ledger import Budget
from answerkey.metrics_core.llm.ledger_place import open_ledger
place, name = sys.argv[1:]
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
ledger = open_ledger(place)
print("ready", flush=True)
"""


@pytest.fixture
def place(postgres: str) -> str:
    return f"postgresql:{postgres}"


@contextmanager
def script(text: str, place: str, name: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has the ledger open and waits for a line before it runs this text; killed at the end."""
    command = [sys.executable, "-c", f"{HEAD}sys.stdin.readline()\n{text}", place, name]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go\n")


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip("\n")


def four(text: str, place: str, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
    """What four processes say that run this text at once, each with a number as its name."""
    with ExitStack() as stack:
        processes = [stack.enter_context(script(text, place, str(number))) for number in range(4)]
        for process in processes:
            go(process)
        meanwhile()
        outputs = [process.communicate(timeout=250)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
    return [line for output in outputs for line in output.splitlines()]


def seen(postgres: str, statement: str, *values: object) -> list[Any]:
    with psycopg.connect(postgres, autocommit=True) as database:
        found = database.execute(statement, values)
        return found.fetchall() if found.description else []


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# Processes at once.

MAX_CALLS = """
few = Budget("few", max_calls=50)
while (permit := ledger.start(few, {"request_key": f"few {name}", **call}, None)[0]) != "max_calls":
    print(permit)
"""
MAX_COST = """
cheap = Budget("cheap", max_cost_usd=1.0)
while True:
    permit, call_id = ledger.start(cheap, {"request_key": f"cheap {name}", **call}, 0.125)
    if permit == "max_cost":
        break
    if permit == "go":
        ledger.finish(cheap, call_id, "usable", 0.125, {"reply": "", "cost_usd": 0.0625})
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
        _, call_id = ledger.start(Budget("run"), {"request_key": key, **call}, None)
        print(key, flush=True)
        time.sleep(0.005)
        ledger.finish(Budget("run"), call_id, "usable", None, {"reply": "yes", "cost_usd": 0.0})
    ledger.release(key)
"""


def test_four_processes_keep_to_the_budget_and_pay_for_each_request_once(place: str, postgres: str) -> None:
    lines = Counter(four(MAX_CALLS + MAX_COST + EACH_ONCE, place))
    assert lines.pop("go") == 50
    lines.pop("wait", None)
    assert lines == Counter(f"key {number}" for number in range(200))
    ledger = open_ledger(place)
    few, cheap, run = (ledger.spent(name) for name in ("few", "cheap", "run"))
    ledger.close()
    assert (few.calls, run.calls) == (50, 200)
    # One call more could have cost too much.
    assert 0.875 < cheap.cost_usd <= 1.0
    assert cheap.calls * 0.0625 == cheap.cost_usd
    assert seen(postgres, "SELECT count(*) FROM answerkey_calls") == [(250 + cheap.calls,)]
    assert seen(postgres, "SELECT count(*) FROM answerkey_claims") == [(0,)]


def test_the_server_may_be_restarted_meanwhile(place: str, postgres: str, postgres_server: Postgres) -> None:
    def restart() -> None:
        until(lambda: seen(postgres, "SELECT count(*) FROM answerkey_calls")[0][0] >= 50)
        assert postgres_server.process
        postgres_server.process.send_signal(signal.SIGINT)
        postgres_server.process.wait()
        postgres_server.start()

    paid = four(EACH_ONCE, place, restart)
    assert sorted(paid) == sorted(f"key {number}" for number in range(200))
    assert seen(postgres, "SELECT count(*), count(DISTINCT request_key) FROM answerkey_calls") == [(200, 200)]


def test_a_server_that_does_not_come_back_ends_the_run_in_one_line(
    place: str, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.postgres_session._WAIT_SECONDS", 0.5)
    ledger = open_ledger(place)
    assert ledger.claim("k")
    assert postgres_server.process
    postgres_server.process.send_signal(signal.SIGINT)
    postgres_server.process.wait()
    try:
        for _ in range(3):
            with pytest.raises(LedgerError) as error:
                ledger.start(Budget("run"), CALL, None)
            assert "bring the server back, then run again" in str(error.value)
            assert "\n" not in str(error.value)
        ledger.close()
    finally:
        postgres_server.start()


# Processes that die, and connections.

IN_FLIGHT = """
run = Budget("run", max_calls=10, max_cost_usd=2.0)
for key in ("a", "b"):
    assert ledger.claim(key)
    assert ledger.start(run, {"request_key": key, **call}, 0.75)[0] == "go"
print("sent", flush=True)
while True:
    ledger.keep_alive()
    time.sleep(0.1)
"""


@pytest.mark.slow
def test_what_a_killed_process_had_in_flight_is_free_and_counts_as_spent(place: str) -> None:
    ledger, run = open_ledger(place), Budget("run", max_calls=10, max_cost_usd=2.0)
    with script(IN_FLIGHT, place) as process:
        go(process)
        assert said(process) == "sent"
        assert [ledger.claim(key) for key in ("a", "b", "c")] == [False, False, True]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # Its 1.50 might still come in cheaper, for all that anybody knows.
    assert ledger.start(run, CALL, 1.0) == ("wait", "")
    until(lambda: ledger.claim("a"))
    until(lambda: ledger.claim("b"))
    assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
    assert ledger.start(run, CALL, 1.0) == ("max_cost", "")
    permit, call_id = ledger.start(run, {**CALL, "request_key": "a"}, 0.5)
    ledger.finish(run, call_id, "usable", 0.5, {"reply": "", "cost_usd": 0.25})
    ledger.release("a")
    assert ledger.claim("a")  # there is nothing left to settle
    assert (permit, ledger.spent("run")) == ("go", Spent(calls=3, cost_usd=1.75))
    ledger.close()


def test_what_was_in_flight_is_settled_while_the_next_process_is_at_work(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.postgres_ledger._GRACE_SECONDS", 0.2)
    closed, month = open_ledger(place), Budget("next", max_cost_total_usd=2.0)
    assert closed.claim("left")
    assert closed.start(Budget("closed"), {**CALL, "request_key": "left"}, 0.25)[0] == "go"
    closed.close()
    with script(IN_FLIGHT, place) as process:
        go(process)
        assert said(process) == "sent"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    ledger = open_ledger(place)

    def permit() -> str:
        ledger.keep_alive()
        return ledger.start(month, {**CALL, "request_key": "c"}, 1.0)[0]

    until(lambda: permit() == "max_cost_total")
    assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
    assert ledger.spent("closed") == Spent(calls=1, cost_usd=0.25)
    assert [ledger.claim("a"), ledger.claim("left")] == [True, True]
    ledger.close()


def test_a_process_that_stands_still_is_alive(place: str) -> None:
    ledger = open_ledger(place)
    with script(IN_FLIGHT, place) as process:
        go(process)
        assert said(process) == "sent"
        process.send_signal(signal.SIGSTOP)
        assert not ledger.claim("a")
        [gone] = seen(place.removeprefix("postgresql:"), "SELECT max(gone_since) FROM answerkey_claims")
        assert gone == (None,)
    ledger.close()


OWNERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid > 0 AND granted AND pid != ALL(%s)"


def test_a_process_whose_connection_was_cut_keeps_its_claims(place: str, postgres: str) -> None:
    ledger = open_ledger(place)
    ledger.claim("ours")
    ours = [pid for (pid,) in seen(postgres, OWNERS, [])]
    with script(IN_FLIGHT, place) as process:
        go(process)
        assert said(process) == "sent"
        [(theirs,)] = seen(postgres, OWNERS, ours)
        assert seen(postgres, "SELECT pg_terminate_backend(%s, 10000)", theirs) == [(True,)]
        ledger.claim("a")
        until(lambda: seen(postgres, OWNERS, [*ours, theirs]))
        # However long that took: it is back, and nothing is held against it.
        assert not ledger.claim("a")
        until(lambda: seen(postgres, "SELECT max(gone_since) FROM answerkey_claims") == [(None,)])
        assert process.poll() is None
    ledger.close()


def test_a_call_of_a_process_that_was_given_up_for_dead_is_not_given_back_twice(place: str, postgres: str) -> None:
    ledger, run = open_ledger(place), Budget("run", max_cost_usd=10.0)
    assert ledger.claim("k")
    _, call_id = ledger.start(run, CALL, 1.0)
    other = open_ledger(place)
    seen(postgres, "UPDATE answerkey_claims SET owner = 0, gone_since = now() - interval '1 hour'")
    assert other.claim("k")
    assert other.spent("run").cost_usd == 1.0
    ledger.finish(run, call_id, "usable", 1.0, {"reply": "yes", "cost_usd": 0.5})
    assert (other.reply("k"), other.spent("run").cost_usd) == ("yes", 1.0)
    assert seen(postgres, "SELECT in_flight, reserved FROM answerkey_budgets") == [(0, 0.0)]
    other.close()
    ledger.close()


# What cannot be used.


def test_there_is_no_ledger_before_one_is_opened(place: str) -> None:
    assert not ledger_exists(place)
    open_ledger(place).close()
    assert ledger_exists(place)


def test_of_many_that_open_at_once_one_makes_the_tables(place: str) -> None:
    everybody = threading.Barrier(8)
    errors = []

    def open_one() -> None:
        everybody.wait(timeout=60)
        try:
            open_ledger(place).close()
        except LedgerError as error:
            errors.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_another_version_is_refused(place: str, postgres: str) -> None:
    open_ledger(place).close()
    seen(postgres, "UPDATE answerkey_ledger SET version = 6")
    with pytest.raises(LedgerError, match="was made by another answerkey: its version is 6, and this one needs 5"):
        open_ledger(place)


def test_the_version_before_is_brought_up_to_date(place: str, postgres: str) -> None:
    ledger = open_ledger(place)
    ledger.claim("k")
    call = {"request_key": "k", "judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
    _, call_id = ledger.start(Budget("run"), call, None)
    ledger.finish(Budget("run"), call_id, "usable", None, {"reply": "yes"})
    ledger.close()
    for change in (
        "ALTER TABLE answerkey_calls DROP COLUMN batch", "DROP INDEX answerkey_calls_by_run",
        "DROP TABLE answerkey_batches", "ALTER TABLE answerkey_calls DROP COLUMN size",
        "ALTER TABLE answerkey_calls DROP COLUMN weights", "DROP INDEX answerkey_calls_by_prompt",
        "UPDATE answerkey_ledger SET version = 2",
    ):  # fmt: skip
        seen(postgres, change)
    ledger = open_ledger(place)
    assert (ledger.reply("k"), ledger.in_batches()) == ("yes", 0)
    ledger.close()
    assert seen(postgres, "SELECT version FROM answerkey_ledger") == [(5,)]


def test_weights_have_a_column_where_the_version_before_had_none(place: str, postgres: str) -> None:
    ask = {**CALL, "kind": "ask", "size": 9}
    with closing(open_ledger(place)) as ledger:
        ledger.claim("old")
        _, call_id = ledger.start(Budget("run"), {**ask, "request_key": "old"}, None)
        ledger.finish(Budget("run"), call_id, "usable", None, {"reply": "yes"})
    seen(postgres, "ALTER TABLE answerkey_calls DROP COLUMN weights")
    seen(postgres, "UPDATE answerkey_ledger SET version = 4")
    with closing(open_ledger(place)) as ledger:
        _, call_id = ledger.start(Budget("run"), {**ask, "request_key": "new"}, None)
        ledger.finish(Budget("run"), call_id, "usable", None, {"reply": "no", "weights": "[]"})
        assert [(ledger.reply(key), ledger.origin(key).weights) for key in ("old", "new")] == [
            ("yes", None), ("no", "[]"),
        ]  # fmt: skip
    assert seen(postgres, "SELECT version FROM answerkey_ledger") == [(5,)]


def test_a_call_that_an_older_version_left_in_flight_is_settled(place: str, postgres: str) -> None:
    ledger, month = open_ledger(place), Budget("run", max_cost_total_usd=9.0)
    ask = {**CALL, "kind": "ask"}
    for key, cost in (("known", 0.25), ("left", None), ("claimed", None)):
        ledger.claim(key)
        _, call_id = ledger.start(month, {**ask, "request_key": key}, 0.5)
        if cost:
            ledger.finish(month, call_id, "usable", 0.5, {"reply": "yes", "cost_usd": cost, "tokens_out": 5})
    seen(postgres, "DELETE FROM answerkey_claims WHERE request_key = 'left'")
    seen(postgres, "DROP INDEX answerkey_calls_by_prompt")
    for column in ("size", "weights"):
        seen(postgres, f"ALTER TABLE answerkey_calls DROP COLUMN {column}")
    seen(postgres, "UPDATE answerkey_ledger SET version = 3")
    open_ledger(place).close()
    query = "SELECT request_key, cost_usd, reserved FROM answerkey_calls ORDER BY number"
    # At what the one like it has cost.
    assert seen(postgres, query) == [("known", 0.25, None), ("left", 0.25, None), ("claimed", None, 0.5)]
    assert set(seen(postgres, "SELECT calls, cost_usd, in_flight, reserved FROM answerkey_budgets")) == {
        (3, 0.5, 1, 0.5)
    }
    ledger.close()


def test_a_process_that_rests_lets_others_take_over_at_once(place: str) -> None:
    ledger, other = open_ledger(place), open_ledger(place)
    assert [ledger.claim(key) for key in ("a", "b")] == [True, True]
    assert not other.claim("a")
    ledger.rest()
    assert other.claim("a")
    assert ledger.wake() == {"b"}
    assert [other.claim("b"), ledger.claim("b")] == [False, False]
    for one in (ledger, other):
        one.close()


def test_a_damaged_reply_is_not_known(place: str, postgres: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = open_ledger(place)
    for reply in ("first", "second", "third\0"):
        _, call_id = ledger.start(Budget("run"), CALL, None)
        ledger.finish(Budget("run"), call_id, "usable", None, {"reply": reply})
    assert ledger.reply("k") == "third\ufffd"
    seen(postgres, "UPDATE answerkey_calls SET reply = 'another' WHERE reply != 'first'")
    assert ledger.reply("k") == "first"
    assert "a reply to the request k is damaged; it counts as not known" in caplog.text
    assert [row[-1] for row in ledger.calls(["k"])] == ["first", None, None]
    ledger.close()


@pytest.mark.parametrize("form", ["postgresql:host=db password={}", "postgresql://me:{}@db/answerkey"])
def test_a_password_is_refused_and_not_repeated(form: str) -> None:
    with pytest.raises(UserError, match="must not contain a password: put it into the file that PGPASSFILE") as error:
        open_ledger(form.format("tell-nobody"))
    assert "tell-nobody" not in str(error.value)


def test_text_that_is_no_place_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError, match="write postgresql://USER@HOST/DATABASE") as error:
        open_ledger("postgresql:tell-nobody")
    assert "tell-nobody" not in str(error.value)


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises(LedgerError) as error:
        open_ledger("postgresql://me@127.0.0.1:1/answerkey")
    assert str(error.value).startswith("the ledger postgresql://me@127.0.0.1:1/answerkey cannot be used (")
    assert "\n" not in str(error.value)
    assert "tell-nobody" not in str(error.value)


def test_a_wrong_password_is_one_line(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises(LedgerError, match="password authentication failed") as error:
        open_ledger(place)
    assert "\n" not in str(error.value)
    assert "tell-nobody" not in str(error.value)


class Pooler(socketserver.BaseRequestHandler):
    """Hands everything on but the number of the server's process, in whose place poolers give one of their own."""

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.behind)) as server:  # type: ignore[attr-defined]
            while ready := select.select([self.request, server], [], [], 60)[0]:
                for end in ready:
                    if not (data := end.recv(1 << 16)):
                        return
                    if end is server:
                        data = re.sub(rb"(?s)K\0\0\0\x0c....", b"K\0\0\0\x0c\0\0\0\7", data)
                    (self.request if end is server else server).sendall(data)


def test_a_connection_pooler_is_refused(place: str, postgres_server: Postgres) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Pooler) as pooler:
        pooler.daemon_threads = True
        pooler.behind = postgres_server.port  # type: ignore[attr-defined]
        threading.Thread(target=pooler.serve_forever, daemon=True).start()
        # The file of passwords names the server's port.
        through = place.replace(f"port={postgres_server.port}", f"port={pooler.server_address[1]}")
        passfile = Path(os.environ["PGPASSFILE"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGPASSWORD", passfile.read_text().strip().rpartition(":")[2])
            with pytest.raises(LedgerError, match=r"is behind a connection pooler .*: name the server itself"):
                open_ledger(through)
        pooler.shutdown()


# Judges.


def test_judges_are_asked_once_through_it(place: str) -> None:
    with JudgeServer(match) as server:
        judge = options(server, ledger=place, run="run")
        assert [one.from_ledger for one in ask(samples(40), judge)] == [False] * 40
        assert [one.from_ledger for one in ask(samples(40), judge)] == [True] * 40
        assert server.n_requests == 40
    ledger = PostgresLedger(place)
    assert ledger.spent("run").calls == 40
    ledger.close()
