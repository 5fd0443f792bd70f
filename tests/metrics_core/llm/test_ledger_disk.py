"""The ledger's file under killed processes, processes that begin at once, and disks that do not play along."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.ledger import FILE, Budget, Ledger, LedgerError, Spent

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


# Killed processes.

CALLS_WITHOUT_END = """
import itertools, sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget, Ledger
ledger, run = Ledger(Path(sys.argv[1])), Budget("run", max_cost_usd=1_000.0)
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
        ledger = Ledger(tmp_path)
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
from answerkey.metrics_core.llm.ledger import Budget, Ledger
ledger, run = Ledger(Path(sys.argv[1])), Budget("run", max_calls=10, max_cost_usd=2.0)
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
for key in ("a", "b"):
    assert ledger.claim(key)
    assert ledger.start(run, {"request_key": key, **call}, 0.75)[0] == "go"
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_claims_of_the_living_hold_and_those_of_the_dead_do_not(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
        assert [ledger.claim(key) for key in ("a", "b", "c")] == [False, False, True]
        process.kill()
        process.wait()
        assert [ledger.claim(key) for key in ("a", "b")] == [True, True]
    assert [ledger.claim(key) for key in ("a", "b")] == [False, False]
    ledger.close()


def test_a_process_that_stands_still_is_alive(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with script(IN_FLIGHT, str(tmp_path)) as process:
        assert said(process) == "ready"
        process.send_signal(signal.SIGSTOP)
        assert not ledger.claim("a")
    ledger.close()


def test_what_a_killed_process_had_in_flight_counts_as_spent_once_it_is_asked_again(tmp_path: Path) -> None:
    ledger, run = Ledger(tmp_path), Budget("run", max_calls=10, max_cost_usd=2.0)
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


# Processes that begin at once.

EACH_IN_TURN = """
import sys
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget, Ledger
call = dict(judge="j", prompt="p", kind="ask", attempt=1, format="text")
print("ready", flush=True)
for line in sys.stdin:
    folder, key = line.split()
    ledger, run = Ledger(Path(folder)), Budget("run", max_calls=1)
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
            ledger = Ledger(folder)
            winner = "one" if "go" in lines[0] else "other"
            assert (ledger.reply(winner), ledger.spent("run").calls) == (winner, 1)
            ledger.close()


# A disk that does not play along.

UNTIL_FULL = """
import sys, resource
from pathlib import Path
from answerkey.metrics_core.llm.ledger import Budget, Ledger, LedgerError
ledger, run = Ledger(Path(sys.argv[1])), Budget("run")
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
        after = Ledger(tmp_path)
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
from answerkey.metrics_core.llm.ledger import Budget, Ledger, LedgerError
folder = Path(sys.argv[1])
for path in (folder, *folder.rglob("*")):
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)  # what root may not write is nothing
try:
    Ledger(folder)
except LedgerError as error:
    print(error)
"""


def test_a_ledger_that_may_only_be_read_is_refused_with_the_remedy(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    Ledger(folder).close()
    opened = [folder, *(parent for parent in folder.parents if parent.stat().st_uid == os.getuid())]
    modes = [(path, path.stat().st_mode) for path in opened if path != Path(path.anchor)]
    try:
        for path, mode in modes:
            path.chmod(mode | 0o055)
        command = [sys.executable, "-c", READ_ONLY, str(folder)]
        run = subprocess.run(command, check=False, cwd=ROOT, text=True, capture_output=True)
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert run.stdout.startswith(f"the ledger {folder / FILE} cannot be used ("), run.stderr
    assert "free space or repair the file, then run again" in run.stdout


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_bytes(b"This is a letter to my grandmother. " * 100)
    with pytest.raises(LedgerError, match="file is not a database"):
        Ledger(tmp_path)
    assert file.read_bytes().startswith(b"This is a letter")


def test_a_folder_that_cannot_be_made_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(tmp_path / "taken" / "folder")
