"""Contests in turns: every contestant is a process that has imported what it needs, and runs when it is told to.

The process of a contestant calls `serve`; the benchmark starts one with `Contestant` and lets the contestants run by
turns with `rounds`. Imports are not measured. A turn runs in a fork, so that it finds no cache of an earlier turn, and
may keep whatever it likes within its own. This module imports nothing but the standard library: contestants are
imported in environments where this project is not installed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

ROUNDS = 5
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DO_NOT_TRACK": "1",
}
QUIET = _ONE_THREAD | _OFFLINE
"""Environment variables of every contestant: one thread, no telemetry, no downloads."""


class Failed(RuntimeError):
    """A contestant that cannot run, with the last line that it wrote."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn took, in seconds on the clock and of the processor, and the values that came of it."""

    wall: float
    cpu: float
    values: list[Any]


def serve(prepare: Callable[[str, str], Callable[[], list[Any]]], *distributions: str, forks: bool = True) -> None:
    """Answer the lines of standard input until it ends: the process of a contestant.

    Args:
        prepare: from a task and a file of inputs, what to time; called once for each pair, and not timed.
        distributions: whose versions the contestant names.
        forks: whether a turn runs in a process of its own.
    """
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, {name: importlib.metadata.version(name) for name in distributions})
    prepared: dict[tuple[str, str], Callable[[], list[Any]]] = {}
    for line in sys.stdin:
        task, file, result = json.loads(line)
        try:
            if (task, file) not in prepared:
                prepared[task, file] = prepare(task, file)
            work = prepared[task, file]
            if not forks:
                _timed(work, result)
            elif pid := os.fork():
                if os.waitpid(pid, 0)[1]:
                    raise Failed("its turn ended with an error")
            else:
                _in_fork(work, result)
        except Exception:
            traceback.print_exc()
            _say(answers, "failed")
        else:
            _say(answers, "done")


def _in_fork(work: Callable[[], list[Any]], result: str) -> None:
    status = 1
    try:
        _timed(work, result)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _timed(work: Callable[[], list[Any]], result: str) -> None:
    gc.collect()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    values = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    Path(result).write_text(json.dumps([wall, cpu, values]), encoding="utf-8")


def _say(out: TextIO, what: object) -> None:
    print(json.dumps(what), file=out, flush=True)


class Contestant:
    """The process of a contestant, seen from the benchmark.

    Raises:
        Failed: it cannot be started, or a turn failed.
    """

    def __init__(self, python: str, script: Path, *arguments: str, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="answerkey-bench-")
        self._log = Path(self._folder.name, "log").open("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=self._folder.name,
            env={**os.environ, **QUIET, "HOME": self._folder.name, **environment},
        )
        self.versions: dict[str, str] = self._answer()

    def turn(self, task: str, file: Path) -> Turn:
        """One turn at a task."""
        assert self._process.stdin is not None
        result = Path(self._folder.name, "result.json")
        self._process.stdin.write(json.dumps([task, str(file.resolve()), str(result)]) + "\n")
        self._process.stdin.flush()
        if self._answer() == "failed":
            raise Failed(self._last_line())
        return Turn(*json.loads(result.read_text(encoding="utf-8")))

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise Failed(self._last_line())
        return json.loads(line)

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        errors = [line for line in lines if "Error" in line or "error:" in line]
        return (errors or lines or ["it wrote nothing"])[-1].strip()[:200]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()


def command_turn(command: Sequence[str], cwd: Path, result: Callable[[], Any], **environment: str) -> Turn:
    """A turn that is a command, from its start to its end; the processor time is that of all its processes.

    Raises:
        Failed: it failed, with the last line that it wrote, or `result` could not read what it left.
    """
    log = cwd / "log"
    with log.open("w", encoding="utf-8") as out:
        start = time.perf_counter()
        variables = {**os.environ, **_OFFLINE, **environment}
        process = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=out, env=variables)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    try:
        if process.returncode:
            raise ValueError(f"exit code {process.returncode}")
        values = [result()]
    except (OSError, ValueError, LookupError, TypeError) as error:
        lines = log.read_text(encoding="utf-8").strip().splitlines() or [""]
        raise Failed(f"{error!r}: {lines[-1].strip()[:200]}") from error
    return Turn(wall, used.ru_utime + used.ru_stime, values)


def rounds(
    sides: dict[str, Callable[[], Turn]], n: int = ROUNDS, slow_s: float = math.inf
) -> tuple[dict[str, list[Turn]], dict[str, str]]:
    """Let the sides run by turns, after a round that does not count; the turns of each, and why others failed.

    Args:
        slow_s: a side that takes more seconds of CPU for a turn has one only, the first, which counts.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in sides}
    failed: dict[str, str] = {}
    for number in range(n + 1):
        # Every round begins with another side.
        names = list(sides)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name in failed or any(turn.cpu > slow_s for turn in turns[name][:1]):
                continue
            try:
                turn = sides[name]()
            except Failed as error:
                failed[name] = str(error)
                turns.pop(name)
                continue
            if number or turn.cpu > slow_s:
                turns[name].append(turn)
    return turns, failed


def spread(values: Iterable[float], digits: int = 3) -> list[float]:
    """Median, lowest and highest, to so many significant digits."""
    found = sorted(values)
    return [float(f"{value:.{digits}g}") for value in (statistics.median(found), found[0], found[-1])]


def ratios(theirs: Sequence[Turn], ours: Sequence[Turn], what: str = "cpu") -> list[float]:
    """How many times as much as ours theirs took, in each round that both ran in: median, lowest and highest."""
    return spread(getattr(a, what) / getattr(b, what) for a, b in zip(theirs, ours, strict=False))


def without_folders(text: str) -> str:
    """A message without the folders of this machine: the figures are published.

    >>> without_folders("No such file or directory: '/home/ada/.cache/ragas/bin/python'")
    "No such file or directory: '…/python'"
    """
    return re.sub(r"(?<![\w.:/])/(?:[^\s/'\":]+/)+", "…/", text)
