"""Which processes are alive, as the files of their locks show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from answerkey.metrics_core.llm.sqlite_owners import Owners

ROOT = Path(__file__).resolve().parents[3]

STAY = """
import sys
from pathlib import Path
from answerkey.metrics_core.llm.sqlite_owners import Owners
owner = Owners(Path(sys.argv[1]))
print(owner.me, flush=True)
sys.stdin.read()
"""


@contextmanager
def living(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Another process that is one of the owners, and its name."""
    command = [sys.executable, "-c", STAY, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_two_in_one_process_see_each_other_until_one_closes(tmp_path: Path) -> None:
    ours, theirs = Owners(tmp_path), Owners(tmp_path)
    assert ours.me != theirs.me
    assert [ours.alive(ours.me), ours.alive(theirs.me), theirs.alive(ours.me)] == [True, True, True]
    theirs.close()
    theirs.close()  # once is as good as twice
    assert [ours.alive(ours.me), ours.alive(theirs.me)] == [True, False]
    ours.close()
    assert list(tmp_path.iterdir()) == []


def test_looking_does_not_end_a_life(tmp_path: Path) -> None:
    ours, theirs = Owners(tmp_path), Owners(tmp_path)
    assert [ours.alive(theirs.me) for _ in range(3)] == [True, True, True]
    assert Owners(tmp_path).alive(theirs.me)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_is_alive_until_it_dies_however_it_dies(end: signal.Signals, tmp_path: Path) -> None:
    ours = Owners(tmp_path)
    with living(tmp_path) as (name, process):
        assert ours.alive(name)
        process.send_signal(end)
        process.wait()
        assert (tmp_path / name).exists()
        assert not ours.alive(name)
        assert sorted(path.name for path in tmp_path.iterdir()) == [ours.me]
    ours.close()


def test_a_stopped_process_is_alive(tmp_path: Path) -> None:
    ours = Owners(tmp_path)
    with living(tmp_path) as (name, process):
        process.send_signal(signal.SIGSTOP)
        assert ours.alive(name)
    ours.close()


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    """A pool or a shell that outlives a killed run must not stand in for it."""
    ours = Owners(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        theirs = Owners(tmp_path)
        ours.close()
        assert not theirs.alive(ours.me)
        assert child.stdin
        child.stdin.close()
    theirs.close()


def test_a_process_that_never_existed_is_dead(tmp_path: Path) -> None:
    assert not Owners(tmp_path).alive("0" * 32)


def test_alone_without_a_folder() -> None:
    alone = Owners(None)
    assert (alone.alive(alone.me), alone.alive("0" * 32)) == (True, False)
    alone.close()


def test_no_file_stays_open(tmp_path: Path) -> None:
    ours, theirs = Owners(tmp_path), Owners(tmp_path)
    before = len(os.listdir("/dev/fd"))
    for _ in range(50):
        ours.alive(theirs.me)
        Owners(tmp_path).close()
    assert len(os.listdir("/dev/fd")) == before
