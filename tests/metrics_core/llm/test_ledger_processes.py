"""The ledger under processes that work at once or die, on an event loop, and in places that cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
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
from answerkey.metrics_core.llm.ledger import (
    FILE,
    AsyncLedger,
    Budget,
    ClaimLost,
    Ledger,
    LedgerError,
    Spent,
    ledger_exists,
    open_ledger,
)
from tests.cluster_servers import Postgres
from tests.judge_server import JudgeServer
from tests.metrics_core.judges.asking import ask, lapse, match, options, samples

ROOT = Path(__file__).resolve().parents[3]
CALL = {"judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}
RUN = Budget("run", max_calls=10, max_cost_usd=2.0)
HEAD = """
import itertools, resource, sys, time
from answerkey.metrics_core.llm.ledger import Budget, ClaimLost, LedgerError, open_ledger
location, name = sys.argv[1:]
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
ledger = open_ledger(location)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A location that processes can share."""
    return f"postgresql:{request.getfixturevalue('postgres')}" if request.param == "postgres" else str(tmp_path)


@contextmanager
def script(text: str, place: str, name: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has the ledger open and runs this text; it is killed at the end."""
    command = [sys.executable, "-c", HEAD + text, place, name]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as process:
        assert process.stdin
        try:
            assert line_of(process) == "ready"
            process.stdin.write("go\n")
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.rstrip("\n")


def changed(place: str, statement: str) -> list[Any]:
    """The rows of a statement that somebody else has made."""
    if place.startswith("postgresql:"):
        with psycopg.connect(place.removeprefix("postgresql:"), autocommit=True) as other:
            cursor = other.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(Path(place) / FILE, isolation_level=None)) as file:
        return file.execute(statement).fetchall()


@contextmanager
def locked(place: str) -> Iterator[None]:
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


# Processes that die, or stand still.

CALLS_WITHOUT_END = """
for number in itertools.count():
    key = f"{name}-{number}"
    assert ledger.claim(key)
    _, call_id = ledger.start(Budget("run", max_cost_usd=1_000.0), {"request_key": key, **call}, 0.5)
    ledger.finish(call_id, "usable", {"reply": f"reply {number} " * 50, "cost_usd": 0.25})
    print(number, flush=True)
    ledger.release(key)
"""


def test_a_killed_process_leaves_every_finished_call_behind(place: str) -> None:
    for name in ("first", "second", "third"):
        with script(CALLS_WITHOUT_END, place, name) as process:
            while line_of(process) != "30":
                pass
            process.kill()  # SIGKILL, straight after a line that says that a call was written down
            assert process.stdout
            n_finished = 31 + len(process.stdout.readlines())
        with closing(open_ledger(place)) as ledger:
            replies = [ledger.reply(f"{name}-{number}") for number in range(n_finished)]
            assert replies == [f"reply {number} " * 50 for number in range(n_finished)]
            # One more at most was under way.
            assert len(list(ledger.calls([f"{name}-{number}" for number in range(n_finished + 50)]))) <= n_finished + 1


IN_FLIGHT = """
for key in ("a", "b"):
    assert ledger.claim(key)
    permit, _ = ledger.start(Budget("run", max_calls=10, max_cost_usd=2.0), {"request_key": key, **call}, 0.75)
    assert permit == "go"
print("sent", flush=True)
sys.stdin.readline()
"""


def test_what_a_killed_process_had_in_flight_is_free_after_its_lease_and_stays_counted(place: str) -> None:
    with closing(open_ledger(place)) as ledger:
        assert ledger.claim("c")
        with script(IN_FLIGHT, place) as process:
            assert line_of(process) == "sent"
        assert [ledger.claim(key) for key in ("a", "b")] == [False, False]
        # Its 1.50 might still come in cheaper, for all that anybody knows.
        assert ledger.start(RUN, {**CALL, "request_key": "c"}, 1.0) == ("wait", "")
        lapse(place)
        assert [ledger.claim(key) for key in ("a", "b", "c")] == [True, True, True]
        assert ledger.start(RUN, {**CALL, "request_key": "c"}, 1.0) == ("max_cost", "")
        assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
        permit, call_id = ledger.start(RUN, {**CALL, "request_key": "a"}, 0.5)
        ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.25})
        assert (permit, ledger.spent("run")) == ("go", Spent(calls=3, cost_usd=1.75))
        [judge] = ledger.spent_by_judge("run")
        assert (judge.calls, judge.cost_usd, judge.reserved_usd) == (3, 1.75, 1.75)


def test_a_process_that_stood_still_for_too_long_keeps_its_replies_and_asks_nothing_twice(place: str) -> None:
    with closing(open_ledger(place)) as slow, closing(open_ledger(place)) as other:
        assert [slow.claim(key) for key in ("sent", "queued", "free")] == [True] * 3
        _, call_id = slow.start(RUN, {**CALL, "request_key": "sent"}, 0.5)
        lapse(place)
        assert [other.claim(key) for key in ("sent", "queued")] == [True, True]
        with pytest.raises(ClaimLost):
            slow.start(RUN, {**CALL, "request_key": "queued"}, 0.5)
        slow.renew()
        assert (slow.claim("queued"), slow.claim("free"), other.claim("free")) == (False, True, False)
        slow.finish(call_id, "usable", {"reply": "late", "cost_usd": 0.25})
        assert (other.reply("sent"), other.spent("run")) == ("late", Spent(1, 0.25))


def test_claims_hold_for_as_long_as_they_are_renewed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.ledger.LEASE_S", 1.0)

    async def hold() -> list[bool]:
        ledger, other = await AsyncLedger.open(place), open_ledger(place)
        assert await ledger.do(Ledger.claim, "k")
        [(first,)] = changed(place, "SELECT expires_at FROM answerkey_claims")
        while changed(place, "SELECT expires_at FROM answerkey_claims") < [(first + 1.0,)]:
            await asyncio.sleep(0.02)
        before = other.claim("k")
        await ledger.close()
        after = other.claim("k")
        other.close()
        return [before, after]

    assert asyncio.run(hold()) == [False, True]


# Processes at once.

TOGETHER = """
few = Budget("few", max_calls=50)
key = f"few {name}"
assert ledger.claim(key)
while (permit := ledger.start(few, {"request_key": key, **call}, None)[0]) == "go":
    print(permit)
ledger.release(key)
cheap, key = Budget("cheap", max_cost_usd=1.0), f"cheap {name}"
assert ledger.claim(key)
while True:
    permit, call_id = ledger.start(cheap, {"request_key": key, **call}, 0.125)
    if permit == "max_cost":
        break
    if permit == "go":
        ledger.finish(call_id, "usable", {"reply": "", "cost_usd": 0.0625})
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
        _, call_id = ledger.start(Budget("run"), {"request_key": key, **call}, None)
        print(key, flush=True)
        ledger.finish(call_id, "usable", {"reply": "yes", "cost_usd": 0.0})
    ledger.release(key)
"""


def four(text: str, place: str, meanwhile: Callable[[], None] = lambda: None) -> Counter[str]:
    """The lines of four processes that run this text at once, each with a number as its name."""
    with ExitStack() as stack:
        processes = [stack.enter_context(script(text, place, str(number))) for number in range(4)]
        meanwhile()
        outputs = [process.communicate(timeout=250)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
    return Counter(line for output in outputs for line in output.splitlines())


def test_four_processes_keep_to_the_budget_and_pay_for_each_request_once(place: str) -> None:
    lines = four(TOGETHER + EACH_ONCE, place)
    assert lines.pop("go") == 50
    lines.pop("wait", None)
    assert lines == Counter(f"key {number}" for number in range(200))
    with closing(open_ledger(place)) as ledger:
        few, cheap, run = (ledger.spent(name) for name in ("few", "cheap", "run"))
        assert (few.calls, run.calls) == (50, 200)
        # One call more could have cost too much.
        assert 0.875 < cheap.cost_usd <= 1.0
        assert cheap.calls * 0.0625 == cheap.cost_usd
        assert len(list(ledger.calls())) == 250 + cheap.calls
    assert changed(place, "SELECT count(*) FROM answerkey_claims") == [(0,)]


def test_of_many_that_open_at_once_one_makes_the_tables(place: str) -> None:
    everybody, errors = threading.Barrier(8), []
    new = place if place.startswith("postgresql:") else f"{place}/new/folder"
    assert not ledger_exists(new)

    def open_it() -> None:
        everybody.wait(timeout=60)
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
    assert errors == []
    assert ledger_exists(new)


def test_judges_are_asked_once_through_it(place: str) -> None:
    with JudgeServer(match) as server:
        judge = options(server, ledger=place, run="run")
        assert [result.from_ledger for result in ask(samples(40), judge)] == [False] * 40
        assert [result.from_ledger for result in ask(samples(40), judge)] == [True] * 40
        assert server.n_requests == 40
    with closing(open_ledger(place)) as ledger:
        assert ledger.spent("run").calls == 40


# A server that goes away.


def test_the_server_may_be_restarted_meanwhile(postgres: str, postgres_server: Postgres) -> None:
    place = f"postgresql:{postgres}"

    def restart() -> None:
        while changed(place, "SELECT count(*) FROM answerkey_calls")[0][0] < 50:
            time.sleep(0.01)
        assert postgres_server.process
        postgres_server.process.send_signal(2)  # SIGINT: it ends its sessions at once
        postgres_server.process.wait()
        postgres_server.start()

    paid = four(EACH_ONCE, place, restart)
    assert set(paid) == {f"key {number}" for number in range(200)}
    # A session that is cut in the middle of a commit does not learn whether it took place.
    assert sum(paid.values()) <= 204


def test_a_server_that_does_not_come_back_ends_the_run_in_one_line(
    postgres: str, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerkey.metrics_core.llm.ledger._WAIT_S", 0.5)
    ledger = open_ledger(f"postgresql:{postgres}")
    assert ledger.claim("k")
    assert postgres_server.process
    postgres_server.process.send_signal(2)
    postgres_server.process.wait()
    try:
        for _ in range(3):
            with pytest.raises(LedgerError) as error:
                ledger.start(RUN, {**CALL, "request_key": "k"}, None)
            assert "bring the server back, then run again" in str(error.value)
            assert "\n" not in str(error.value)
        ledger.close()
    finally:
        postgres_server.start()


# On an event loop.


def test_the_loop_goes_on_while_the_ledger_waits_for_others(place: str) -> None:
    async def work() -> tuple[bool, bool]:
        ledger = await AsyncLedger.open(place)
        with locked(place):
            waiting = asyncio.create_task(ledger.do(Ledger.claim, "k"))
            # The loop turns: a ledger that kept it would keep it here for as long as the lock is held, for ever.
            for _ in range(20):
                await asyncio.sleep(0.01)
            waited = not waiting.done()
        claimed = await waiting
        await ledger.close()
        return waited, claimed

    assert asyncio.run(work()) == (True, True)


def test_a_call_whose_start_was_cancelled_is_given_back_and_an_end_is_written_down_all_the_same(place: str) -> None:
    async def work() -> None:
        ledger = await AsyncLedger.open(place)
        assert [await ledger.do(Ledger.claim, key) for key in ("a", "b")] == [True, True]
        _, call_id = await ledger.start(RUN, {**CALL, "request_key": "a"}, 0.5)
        with locked(place):
            finish = ledger.do(Ledger.finish, call_id, "usable", {"reply": "yes", "cost_usd": 0.25})
            tasks = [
                asyncio.create_task(finish),
                asyncio.create_task(ledger.start(RUN, {**CALL, "request_key": "b"}, 1.0)),
            ]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.05)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        await ledger.close()

    asyncio.run(work())
    with closing(open_ledger(place)) as ledger:
        assert (ledger.reply("a"), ledger.spent("run")) == ("yes", Spent(1, 0.25))
        assert [row[8:10] for row in ledger.calls(["b"])] == [("error", "unsent")]


# Places that cannot be used.


def broken(folder: Path, how: str) -> None:
    """Make something else of a ledger with fifty replies."""
    with closing(open_ledger(str(folder))) as ledger:
        for number in range(50):
            assert ledger.claim(f"k{number}")
            _, call_id = ledger.start(Budget("run"), {**CALL, "request_key": f"k{number}"}, None)
            ledger.finish(call_id, "usable", {"reply": "x" * 5_000})
    file = folder / FILE
    if how == "cut off":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif how == "no text":
        changed(str(folder), "UPDATE answerkey_calls SET reply = CAST(x'ff00fe' AS TEXT)")
    elif how == "a letter":
        file.write_bytes(b"This is a letter to my grandmother. " * 100)
    elif how == "a folder":
        file.unlink()
        file.mkdir()
    elif how == "a newer format":
        changed(str(folder), "UPDATE answerkey_ledger SET version = 7")
    elif how == "an older format":
        file.unlink()
        changed(str(folder), "CREATE TABLE calls (call_id TEXT)")
        changed(str(folder), "PRAGMA user_version = 5")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("cut off", "restore it from a backup, or move it away to begin a new one"),
        ("no text", "restore it from a backup, or move it away to begin a new one"),
        ("a letter", "file is not a database); what was paid for so far is kept in it: the file is damaged: restore"),
        ("a folder", "unable to open database file"),
        ("a newer format", "was made by another version of answerkey: its format is 7, and this one needs 6"),
        ("an older format", "is not a ledger that this version of answerkey can use: move it away to begin a new one"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_stays_as_it_is(how: str, why: str, tmp_path: Path) -> None:
    broken(tmp_path, how)
    before = (tmp_path / FILE).read_bytes() if how != "a folder" else None
    with pytest.raises(LedgerError) as error, closing(open_ledger(str(tmp_path))) as ledger:
        for number in range(50):
            ledger.reply(f"k{number}")
    assert str(tmp_path / FILE) in str(error.value)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert before is None or (tmp_path / FILE).read_bytes() == before


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be used"):
        open_ledger(str(tmp_path / "taken" / "folder"))


UNTIL_FULL = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
done = 0
try:
    while True:
        assert ledger.claim(f"k{done}")
        _, call_id = ledger.start(Budget("run"), {"request_key": f"k{done}", **call}, None)
        ledger.finish(call_id, "usable", {"reply": "x" * 5_000})
        done += 1
except LedgerError as error:
    print(done, error, sep="|")
ledger.close()
"""


def test_a_full_disk_stops_the_work_and_loses_nothing_that_was_written_down(tmp_path: Path) -> None:
    with script(UNTIL_FULL, str(tmp_path)) as process:
        n_done, message = line_of(process).split("|")
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert message.startswith(f"the ledger {tmp_path / FILE} cannot be used (")
    assert "what was paid for so far is kept in it: free space" in message
    # The reason, and not what came of it.
    assert "disk I/O error" in message or "disk is full" in message
    assert int(n_done) > 10
    with closing(open_ledger(str(tmp_path))) as ledger:
        assert {ledger.reply(f"k{number}") for number in range(int(n_done))} == {"x" * 5_000}
    assert changed(str(tmp_path), "PRAGMA integrity_check") == [("ok",)]


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
def open_folder() -> Iterator[Path]:
    """A folder to which every user has a way. Each start of pytest closes the one to its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_ledger_that_may_only_be_read_serves_replies_and_lets_nothing_be_asked(open_folder: Path) -> None:
    folder = open_folder / "ledger"
    with closing(open_ledger(str(folder))) as ledger:
        assert ledger.claim("known")
        _, call_id = ledger.start(RUN, {**CALL, "request_key": "known"}, None)
        ledger.finish(call_id, "usable", {"reply": "yes"})
    command = [sys.executable, "-c", READ_ONLY, str(folder)]
    run = subprocess.run(command, check=False, cwd=ROOT, text=True, capture_output=True)
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
    ],
)
def test_a_location_that_cannot_be_used_is_refused_and_not_repeated(location: str, why: str) -> None:
    with pytest.raises(UserError, match=why) as error:
        open_ledger(location)
    assert "tell-nobody" not in str(error.value)


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises(LedgerError) as error:
        open_ledger("postgresql://me@127.0.0.1:1/answerkey")
    assert str(error.value).startswith("the ledger postgresql://me@127.0.0.1:1/answerkey cannot be used (")
    assert "\n" not in str(error.value)
    assert "tell-nobody" not in str(error.value)


def test_another_user_and_another_format_of_a_server_are_one_line(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"postgresql:{postgres}"
    open_ledger(place).close()
    changed(place, "UPDATE answerkey_ledger SET version = 5")
    with pytest.raises(LedgerError, match="its format is 5, and this one needs 6"):
        open_ledger(place)
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    with pytest.raises(LedgerError, match="password authentication failed") as error:
        open_ledger(place)
    assert "\n" not in str(error.value)
    assert "tell-nobody" not in str(error.value)
