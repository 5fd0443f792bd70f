"""The ledger's file under killed processes, processes that begin at once, and disks that do not play along."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.ledger import COLUMNS, Budget, LedgerError, Origin, Spent
from answerkey.metrics_core.llm.sqlite_file import make
from answerkey.metrics_core.llm.sqlite_ledger import FILE, SQLiteLedger

ROOT = Path(__file__).resolve().parents[3]
CALL = {"judge": "j", "prompt": "p", "kind": "ask", "attempt": 1, "format": "text"}


@contextmanager
def script(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this text; it is killed at the end."""
    command = [sys.executable, "-c", text, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.rstrip("\n")


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin
    process.stdin.write(f"{line}\n")


def written(folder: Path, key: str, reply: str) -> None:
    """A usable reply in the ledger of a folder."""
    ledger, run = SQLiteLedger(folder), Budget("run")
    _, call_id = ledger.start(run, {"request_key": key, **CALL}, None)
    ledger.finish(run, call_id, "usable", None, {"reply": reply})
    ledger.close()


def first_version(folder: Path) -> None:
    """A ledger with the tables of the first version: they had no checksum, and no version."""
    SQLiteLedger(folder).close()
    with changed(folder) as database:
        database.execute("ALTER TABLE calls DROP COLUMN checksum")
        for column in ("batch", "size", "weights"):
            database.execute(f"ALTER TABLE calls DROP COLUMN {column}")
        for index in ("calls_by_run", "calls_by_prompt"):
            database.execute(f"DROP INDEX {index}")
        database.execute("DROP TABLE batches")
        database.execute("PRAGMA user_version = 0")


@contextmanager
def changed(folder: Path) -> Iterator[sqlite3.Connection]:
    """The file of a ledger, to be changed by other hands."""
    database = sqlite3.connect(folder / FILE)
    with database:
        yield database
    database.close()


# Killed processes.

CALLS_WITHOUT_END = """
import itertools, sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
ledger, run = SQLiteLedger(Path(sys.argv[1])), Budget("run", max_cost_usd=1_000.0)
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
for number in itertools.count():
    key = f"{sys.argv[2]}-{number}"
    assert ledger.claim(key)
    _, call_id = ledger.start(run, {"request_key": key, **call}, 0.5)
    ledger.finish(run, call_id, "usable", 0.5, {"reply": f"reply {number} " * 50, "cost_usd": 0.25})
    print(number, flush=True)
    ledger.release(key)
"""


def test_a_killed_process_leaves_every_finished_call_behind(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        with script(CALLS_WITHOUT_END, str(tmp_path), name) as process:
            while said(process) != "30":
                pass
            process.kill()  # SIGKILL, straight after a line that says that a call was written down
            assert process.stdout
            finished = 30 + len(process.stdout.readlines())
        ledger = SQLiteLedger(tmp_path)
        replies = [ledger.reply(f"{name}-{number}") for number in range(finished + 1)]
        assert replies == [f"reply {number} " * 50 for number in range(finished + 1)]
        # One more at most was under way.
        assert len(list(ledger.calls([f"{name}-{number}" for number in range(finished + 50)]))) <= finished + 2
        ledger.close()
    database = sqlite3.connect(tmp_path / FILE)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


IN_FLIGHT = """
import sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
ledger, run = SQLiteLedger(Path(sys.argv[1])), Budget("run", max_calls=10, max_cost_usd=2.0)
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
for key in ("a", "b"):
    assert ledger.claim(key)
    assert ledger.start(run, {"request_key": key, **call}, 0.75)[0] == "go"
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_claims_of_the_living_hold_and_those_of_the_dead_do_not(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path)
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
        assert [ledger.claim(key) for key in ("a", "b", "c")] == [False, False, True]
        process.kill()
        process.wait()
        assert [ledger.claim(key) for key in ("a", "b")] == [True, True]
    assert [ledger.claim(key) for key in ("a", "b")] == [False, False]
    ledger.close()


def test_a_process_that_stands_still_is_alive(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path)
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
        process.send_signal(signal.SIGSTOP)
        assert not ledger.claim("a")
    ledger.close()


def test_what_a_killed_process_had_in_flight_counts_as_spent_once_it_is_asked_again(tmp_path: Path) -> None:
    ledger, run = SQLiteLedger(tmp_path), Budget("run", max_calls=10, max_cost_usd=2.0)
    assert ledger.claim("c")
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
    # Its 1.50 might still come in cheaper, for all that anybody knows.
    assert ledger.start(run, {"request_key": "c", **CALL}, 1.0) == ("wait", "")
    assert [ledger.claim("a"), ledger.claim("b")] == [True, True]
    assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
    assert ledger.start(run, {"request_key": "c", **CALL}, 1.0) == ("max_cost", "")
    permit, call_id = ledger.start(run, {"request_key": "a", **CALL}, 0.5)
    ledger.finish(run, call_id, "usable", 0.5, {"reply": "", "cost_usd": 0.25})
    ledger.release("a")
    assert ledger.claim("a")  # there is nothing left to settle
    assert (permit, ledger.spent("run")) == ("go", Spent(calls=3, cost_usd=1.75))
    ledger.close()


def test_what_a_killed_process_had_in_flight_is_settled_when_the_next_one_begins_to_write(tmp_path: Path) -> None:
    month = Budget("next", max_cost_total_usd=2.0)
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
        other = SQLiteLedger(tmp_path)
        assert other.start(month, {"request_key": "c", **CALL}, 1.0) == ("wait", "")
        other.close()
    ledger = SQLiteLedger(tmp_path)
    assert ledger.start(month, {"request_key": "c", **CALL}, 1.0) == ("max_cost_total", "")
    assert ledger.spent("run") == Spent(calls=2, cost_usd=1.5)
    ledger.close()


def test_a_call_that_is_in_flight_when_its_ledger_is_closed_is_settled(tmp_path: Path) -> None:
    first, run = SQLiteLedger(tmp_path), Budget("run", max_cost_usd=2.0)
    assert [first.claim("a"), first.claim("b")] == [True, True]
    assert first.start(run, {"request_key": "a", **CALL}, 1.5)[0] == "go"
    first.close()
    second = SQLiteLedger(tmp_path)
    assert second.start(run, {"request_key": "c", **CALL}, 1.0) == ("max_cost", "")
    assert second.spent("run") == Spent(calls=1, cost_usd=1.5)
    second.close()


def test_what_is_settled_counts_at_what_calls_like_it_have_cost(tmp_path: Path) -> None:
    first, run = SQLiteLedger(tmp_path), Budget("run")
    for key, prompt, cost, tokens in (
        ("a", "p", 0.5, 5),
        ("b", "p", 0.25, 5),
        ("c", "q", 4.0, 5),
        ("d", "p", 9.0, None),
    ):
        _, call_id = first.start(run, {"request_key": key, **CALL, "prompt": prompt, "size": 40}, 9.0)
        result = {"reply": "yes", "cost_usd": cost, "tokens_in": 10, "tokens_out": tokens}
        first.finish(run, call_id, "usable", 9.0, result)
    assert first.lengths("j", "p") == [(40, 10, 5), (40, 10, 5)]
    assert first.lengths("j", "r") == []
    spent = 13.75
    for key, most, counts in (("e", 1.0, 0.375), ("f", 0.125, 0.125)):
        first.claim(key)
        first.start(run, {"request_key": key, **CALL}, most)
        first.close()
        first = SQLiteLedger(tmp_path)
        assert first.claim("another")
        first.release("another")
        spent += counts
        # At the mean of those whose length is known, and at no more than was reserved.
        assert first.spent("run").cost_usd == spent
    first.close()


# Processes that begin at once, or meet.


def test_a_write_waits_for_the_one_before_it(tmp_path: Path) -> None:
    SQLiteLedger(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, other.execute, ["COMMIT"])
    began = time.monotonic()
    timer.start()
    written(tmp_path, "k", "late")
    assert time.monotonic() - began >= 0.3
    timer.join()
    other.close()


EACH_IN_TURN = """
import sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
print("ready", flush=True)
for line in sys.stdin:
    folder, key = line.split()
    ledger, run = SQLiteLedger(Path(folder)), Budget("run", max_calls=1)
    ledger.claim("wanted by all") and print("mine", end=" ")
    permit, call_id = ledger.start(run, {"request_key": key, **call}, None)
    if permit == "go":
        ledger.finish(run, call_id, "usable", None, {"reply": key})
    print(permit, flush=True)
"""


def test_two_processes_may_make_the_file_at_the_same_moment(tmp_path: Path) -> None:
    with script(EACH_IN_TURN) as one, script(EACH_IN_TURN) as other:
        assert [said(one), said(other)] == ["ready", "ready"]
        for number in range(10):
            folder = tmp_path / "new" / str(number)
            tell(one, f"{folder} one")
            tell(other, f"{folder} other")
            lines = [said(one), said(other)]
            assert sorted(" ".join(lines).split()) == ["go", "max_calls", "mine"]
            ledger = SQLiteLedger(folder)
            winner = "one" if "go" in lines[0] else "other"
            assert (ledger.reply(winner), ledger.spent("run").calls) == (winner, 1)
            ledger.close()


# A disk that does not play along.

UNTIL_FULL = """
import sys, resource
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget, LedgerError
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
ledger, run = SQLiteLedger(Path(sys.argv[1])), Budget("run")
ledger.claim("held")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
done = 0
try:
    while True:
        _, call_id = ledger.start(run, {"request_key": f"k{done}", **call}, None)
        ledger.finish(run, call_id, "usable", None, {"reply": "x" * 5_000})
        done += 1
except LedgerError as error:
    print(done, error, sep="|")
try:
    ledger.start(run, {"request_key": "more", **call, "prompt": "p" * 1_500_000}, None)
except LedgerError as error:
    print("again", error, sep="|")
try:
    ledger.close()
except LedgerError as error:
    print("closing", error, sep="|")
# This process lives on, and must not seem to hold its claims.
print("closed", flush=True)
sys.stdin.read()
"""


def test_a_full_disk_stops_the_work_and_loses_nothing(tmp_path: Path) -> None:
    with script(UNTIL_FULL, str(tmp_path)) as process:
        lines = list(iter(lambda: said(process), "closed"))
        done, message = lines[0].split("|")
        for line in lines:
            assert f"the ledger {tmp_path / FILE} cannot be used (" in line
            assert "what was paid for so far is kept in it: free space or repair the file, then run again" in line
        # The reason, and not what came of it.
        assert "disk I/O error" in message or "disk is full" in message
        assert lines[1].startswith("again|")
        after = SQLiteLedger(tmp_path)
        assert int(done) > 10
        assert [after.reply(f"k{number}") for number in range(int(done))] == ["x" * 5_000] * int(done)
        assert after.claim("held")
        after.close()
    database = sqlite3.connect(tmp_path / FILE)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


READ_ONLY = """
import os, sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import LedgerError
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
folder = Path(sys.argv[1])
for path in (folder, *folder.rglob("*")):
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)  # what root may not write is nothing
before = sorted(folder.iterdir())
ledger = SQLiteLedger(folder)
print(ledger.reply("known"), ledger.spent("run").calls, len(list(ledger.calls(["known", "other"]))))
for ask in (lambda: ledger.claim("other"), lambda: ledger.start(None, {}, None)):
    try:
        ask()
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


@pytest.mark.parametrize("version", [1, 4, 5])
def test_a_ledger_that_may_only_be_read_serves_replies_and_lets_nothing_be_asked(
    version: int, open_folder: Path
) -> None:
    folder = open_folder / "ledger"
    written(folder, "known", "yes")
    if version == 1:
        first_version(folder)
    if version == 4:
        with changed(folder) as database:
            database.execute("ALTER TABLE calls DROP COLUMN weights")
            database.execute("PRAGMA user_version = 4")
    command = [sys.executable, "-c", READ_ONLY, str(folder)]
    run = subprocess.run(command, check=False, cwd=ROOT, text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    refused = (
        f"the ledger {folder / FILE} may only be read, so no question can be asked whose reply is not in it: "
        "make the file and its folder writable, then run again"
    )
    assert run.stdout.splitlines() == ["yes 1 1", refused, refused, "True"]


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_bytes(b"This is a letter to my grandmother. " * 100)
    with pytest.raises(LedgerError, match="file is not a database"):
        SQLiteLedger(tmp_path)
    assert file.read_bytes().startswith(b"This is a letter")


def test_a_folder_in_the_place_of_the_file_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(LedgerError, match="cannot be used"):
        SQLiteLedger(tmp_path)


def test_a_file_whose_log_was_removed_has_what_it_had_before_and_goes_on(tmp_path: Path) -> None:
    written(tmp_path, "a", "yes")
    open_still = SQLiteLedger(tmp_path)
    run = Budget("run")
    _, call_id = open_still.start(run, {"request_key": "b", **CALL}, None)
    open_still.finish(run, call_id, "usable", None, {"reply": "only in the log"})
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / FILE).write_bytes((tmp_path / FILE).read_bytes())
    open_still.close()
    assert SQLiteLedger(tmp_path).reply("b") == "only in the log"
    ledger = SQLiteLedger(copy)
    assert [ledger.reply(key) for key in ("a", "b")] == ["yes", None]
    assert ledger.claim("b")
    ledger.close()


def test_a_folder_that_cannot_be_made_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be used"):
        SQLiteLedger(tmp_path / "taken" / "folder")


# Versions, and what is damaged.


def test_a_ledger_of_the_first_version_is_taken_over_with_its_replies(tmp_path: Path) -> None:
    first_version(tmp_path)
    with changed(tmp_path) as database:
        for key in ("a", "b"):
            database.execute(
                "INSERT INTO calls (call_id, request_key, judge, prompt, run, kind, attempt, format, status, "
                "started_at, reply) VALUES (?, ?, 'j', 'p', 'run', 'ask', 1, 'text', 'usable', 0, ?)",
                (f"call-{key}", key, f"reply {key}"),
            )
    ledger = SQLiteLedger(tmp_path)
    assert [ledger.reply(key) for key in ("a", "b", "c")] == ["reply a", "reply b", None]
    ledger.close()
    written(tmp_path, "c", "reply c")
    with changed(tmp_path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
        found = database.execute("SELECT reply, checksum IS NULL FROM calls ORDER BY rowid").fetchall()
    assert found == [("reply a", 1), ("reply b", 1), ("reply c", 0)]


def test_a_call_that_an_older_version_left_in_flight_is_settled_and_those_that_are_claimed_wait(tmp_path: Path) -> None:
    ledger, month = SQLiteLedger(tmp_path), Budget("run", max_cost_total_usd=9.0)
    for key in ("left", "claimed", "batched"):
        ledger.claim(key)
        ledger.start(month, {"request_key": key, **CALL, "batch": "b" if key == "batched" else None}, 0.5)
    with changed(tmp_path) as database:
        # As an older version gave up its claims, and as one that still runs holds them.
        database.execute("DELETE FROM claims WHERE request_key != 'claimed'")
        for column in ("size", "weights"):
            database.execute(f"ALTER TABLE calls DROP COLUMN {column}")
        database.execute("DROP INDEX calls_by_prompt")
        database.execute("PRAGMA user_version = 3")
    SQLiteLedger(tmp_path).close()
    with changed(tmp_path) as database:
        calls = database.execute("SELECT request_key, cost_usd, reserved FROM calls ORDER BY rowid").fetchall()
        budgets = database.execute("SELECT calls, cost_usd, in_flight, reserved FROM budgets").fetchall()
    assert calls == [("left", 0.5, None), ("claimed", None, 0.5), ("batched", None, 0.5)]
    assert budgets == [(3, 0.5, 2, 1.0)] * 2
    ledger.close()


def fourth_version(folder: Path) -> None:
    """A ledger as answerkey wrote it when its version was 4: four calls, one of them in a batch."""
    with changed(folder) as database:
        database.executescript((Path(__file__).parent / "data" / "ledger_v4.sql").read_text())


def test_a_ledger_of_the_fourth_version_keeps_its_replies_its_batch_and_what_was_spent(tmp_path: Path) -> None:
    fourth_version(tmp_path)
    with changed(tmp_path) as database:
        before = database.execute("SELECT *, NULL FROM calls ORDER BY rowid").fetchall()
    ledger = SQLiteLedger(tmp_path)
    assert (ledger.reply("known") or "").endswith('"verdict": "match"}')
    assert ledger.origin("known") == Origin("gpt-4o-mini-2024-07-18", "fp_1", "stop", 300, 40, 0.0002, None)
    assert [ledger.reply(key) for key in ("unread", "failed", "batched")] == [None] * 3
    assert (ledger.in_batches(), ledger.spent("nightly")) == (1, Spent(4, pytest.approx(0.0003), 0))
    ledger.close()
    with changed(tmp_path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
        assert database.execute("SELECT * FROM calls ORDER BY rowid").fetchall() == before
        made = {name: sql for name, sql in database.execute("SELECT name, sql FROM sqlite_master").fetchall()}
    with changed(tmp_path) as _, closing(sqlite3.connect(":memory:")) as new:
        make(new)
        assert made.keys() == {name for (name,) in new.execute("SELECT name FROM sqlite_master").fetchall()}
        assert [row[1:3] for row in new.execute("PRAGMA table_info(calls)").fetchall()][-1] == ("weights", "TEXT")


def test_weights_that_are_damaged_make_the_reply_unknown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger, run = SQLiteLedger(tmp_path), Budget("run")
    for key in ("a", "b"):
        _, call_id = ledger.start(run, {"request_key": key, **CALL}, None)
        ledger.finish(run, call_id, "usable", None, {"reply": "yes", "weights": '[[["yes", -0.25]]]'})
    assert ledger.origin("a").weights == '[[["yes", -0.25]]]'
    with changed(tmp_path) as database:
        database.execute("UPDATE calls SET weights = replace(weights, '-0.25', '-0.75') WHERE request_key = 'a'")
    assert [ledger.reply(key) for key in ("a", "b")] == [None, "yes"]
    assert [record.message for record in caplog.records] == [
        f"the ledger {tmp_path / FILE}: a reply to the request a is damaged; it counts as not known"
    ]
    ledger.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("PRAGMA user_version = 6", r"was made by a newer answerkey \(its version is 6\)"),
        (
            "ALTER TABLE calls DROP COLUMN fingerprint",
            "is not a ledger that this .* use: its calls have no fingerprint",
        ),
        ("DROP TABLE calls", "is not a ledger that this answerkey can use: it has no table of calls"),
    ],
)
def test_tables_that_are_not_known_are_refused_before_anything_is_asked(change: str, why: str, tmp_path: Path) -> None:
    SQLiteLedger(tmp_path).close()
    with changed(tmp_path) as database:
        database.execute(change)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LedgerError, match=why):
        SQLiteLedger(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_that_lost_its_content_does_not_become_a_new_ledger(tmp_path: Path) -> None:
    written(tmp_path, "a", "yes")
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(LedgerError, match="is empty: restore it from a backup"):
        SQLiteLedger(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b""


def test_a_file_that_is_gone_while_its_log_is_not_does_not_become_a_new_ledger(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}-wal").write_bytes(b"what was written last")
    with pytest.raises(LedgerError, match=f"is gone, but {FILE}-wal beside it is not"):
        SQLiteLedger(tmp_path)
    assert not (tmp_path / FILE).exists()


def test_a_file_that_was_cut_off_is_a_ledger_error(tmp_path: Path) -> None:
    for number in range(50):
        written(tmp_path, f"k{number}", "x" * 5_000)
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(LedgerError, match="restore it from a backup, or move it away to begin a new one"):
        ledger = SQLiteLedger(tmp_path)
        for number in range(50):
            ledger.reply(f"k{number}")


def test_a_name_that_is_no_text_any_more_is_a_damaged_ledger(tmp_path: Path) -> None:
    written(tmp_path, "a", "yes")
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"sqlite_autoindex_calls", b"sqlite_autoindex_call\xff"))
    with pytest.raises(LedgerError) as error:
        list(SQLiteLedger(tmp_path).calls())
    assert str(error.value).startswith(f"the ledger {file} cannot be used (")
    assert str(error.value).endswith("damaged: restore it from a backup, or move it away to begin a new one")


@pytest.mark.parametrize("damage", ["'no'", "CAST(x'ff00fe' AS TEXT)"])
def test_a_damaged_reply_is_not_known_and_reported_once(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, "twice", "first")
    for key in ("a", "b", "twice"):
        written(tmp_path, key, "yes")
    with changed(tmp_path) as database:
        database.execute(f"UPDATE calls SET reply = {damage} WHERE request_key != 'b' AND reply = 'yes'")
    ledger = SQLiteLedger(tmp_path)
    assert [ledger.reply(key) for key in ("a", "b", "twice", "a")] == [None, "yes", "first", None]
    assert [record.message for record in caplog.records] == [
        f"the ledger {tmp_path / FILE}: a reply to the request {key} is damaged; it counts as not known"
        for key in ("a", "twice")
    ]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in ledger.calls(["a", "b"])]
    assert [(row["reply"], row["code"]) for row in rows] == [(None, "damaged"), ("yes", None)]
    ledger.close()


def test_an_old_reply_that_is_no_text_is_not_known(tmp_path: Path) -> None:
    first_version(tmp_path)
    for key in ("a", "b"):
        written(tmp_path, key, "yes")
    with changed(tmp_path) as database:
        database.execute("UPDATE calls SET checksum = NULL")
        database.execute(
            "UPDATE calls SET reply = CAST(x'c3' AS TEXT), judge = CAST(x'6aff' AS TEXT) WHERE request_key = 'a'"
        )
    ledger = SQLiteLedger(tmp_path)
    assert [ledger.reply(key) for key in ("a", "b")] == [None, "yes"]
    [row, _] = ledger.calls(["a", "b"])
    assert dict(zip(COLUMNS, row, strict=True))["judge"] == "j\ufffd"
    ledger.close()


SMALL_DISK = """
import subprocess, sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget, LedgerError
from answerkey.metrics_core.llm.sqlite_ledger import SQLiteLedger
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", sys.argv[1]], check=True)
ledger = SQLiteLedger(Path(sys.argv[1]))
print(ledger.claim("a"))
call = dict(request_key="a", judge="j", prompt="p", kind="ask", attempt=1, format="text")
try:
    ledger.start(Budget("run"), call, None)
except LedgerError as error:
    print(error)
"""


def test_nothing_is_asked_where_the_disk_might_not_hold_the_reply(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("a disk can only be mounted as root")
    command = ["unshare", "-m", sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    run = subprocess.run(command, check=True, cwd=ROOT, text=True, capture_output=True)
    claimed, message = run.stdout.splitlines()
    assert claimed == "True"
    assert re.fullmatch(
        rf"the disk of the ledger {tmp_path / FILE} has only [78]\.\d MiB left, so that replies might not be kept, and "
        "nothing more is asked: free space, then run again",
        message,
    )
