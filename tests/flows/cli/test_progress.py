"""Progress on a terminal: it fits any width with every number whole, and is nowhere else."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORK = """
import logging, sys, time
from answerkey.flows.cli.progress import bars
from answerkey.metrics_core.progress import HOW_FAR, Advance, is_news, tell

with bars(quiet="--quiet" in sys.argv):
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(is_news)
    log = logging.getLogger("answerkey")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    tell(Advance("validate"))
    tell(Advance("load shards", 10, 40))
    log.info("loaded 10/40 shards", extra=HOW_FAR)
    log.info("a note that is longer than any line of the narrow terminal, as a path may be: " + "x" * 80)
    tell(Advance("answer_correctness", 90_000, 405_184))
    tell(Advance("meaning\\x1b[2J_match", 0, 405_184))
    for _ in range(7):
        tell(Advance("meaning\\x1b[2J_match", more=10, cost_usd=0.01757))
    tell(Advance("meaning\\x1b[2J_match", 3))
    time.sleep(0.3)
log.info("after")
print("result")
"""


def on_a_terminal(width: int, *arguments: str) -> str:
    """All that is written to a terminal of a width, with its control sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-c", WORK, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ):
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:
            # The other end is closed.
            pass
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def lines(written: str) -> list[str]:
    """What stood on the terminal at any time, line by line."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in re.split(r"\n|\r", plain) if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_bars_fit_and_every_number_is_whole(width: int) -> None:
    written = on_a_terminal(width)
    shown = lines(written)
    note = next(line for line in shown if line.startswith("a note"))
    assert note.endswith("x" * 80)
    assert max(len(line) for line in shown if line != note) <= width
    last = "\n".join(shown[-8:])
    assert "answer_correctness" in last
    assert ("22 %" if width < 80 else "90,000/405,184") in last
    assert ("70/405,184" in last) == (width >= 80)
    assert "$0.1230" in last
    assert "load shards" in last and "validate" not in last and "…" not in last
    # The bars say how far it is; other lines stay, before and after.
    assert "loaded 10/40 shards" not in written
    assert shown[-2:] == ["after", "result"]
    assert "\x1b[2J" not in written


def test_nothing_with_quiet_or_without_a_terminal() -> None:
    quiet = on_a_terminal(80, "--quiet")
    assert "\x1b" not in quiet and "answer_correctness" not in quiet
    assert "loaded 10/40 shards" in quiet
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "result\n"
    assert done.stderr.splitlines()[0] == "loaded 10/40 shards"
    assert "\x1b" not in done.stderr
