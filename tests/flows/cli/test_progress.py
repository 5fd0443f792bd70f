"""Progress on a terminal: it fits any width with every number whole, and is nowhere else."""

import fcntl
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from pathlib import Path

import pytest

from answerkey.flows.parameters import Tracing
from answerkey.flows.score_traces import score_traces
from answerkey.metrics_core.progress import LOGGER, Advance
from tests.kit.processes import finished

ROOT = Path(__file__).resolve().parents[3]
WORK = """
import logging, sys
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
    log.info("a note that is longer than any line of the narrow terminal, and wrapped between words there")
    tell(Advance("answer_correctness", 90_000, 405_184))
    tell(Advance("m\\x1b_match", 0, 405_184))
    for _ in range(7):
        tell(Advance("m\\x1b_match", more=10, cost_usd=0.01757))
    tell(Advance("m\\x1b_match", 3))
log.info("after")
print("result")
"""


def on_a_terminal(width, *arguments):
    """All that `python ARGUMENTS` writes to a terminal of a width, with its control sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen([sys.executable, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
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


def lines(written):
    """What stood on the terminal at any time, line by line."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in re.split(r"\n|\r", plain) if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.real
def test_bars_fit_and_every_number_is_whole(width):
    written = on_a_terminal(width, "-c", WORK)
    shown = lines(written)
    assert max(map(len, shown)) <= width
    last = "\n".join(shown[-8:])
    assert re.search(r"answer_correctness[ ━╸]+90,000/405,184 ", last)
    assert re.search(r" 70/405,184 +[-:\d]+ +\$0\.1230", last)
    assert "load shards" in last and "validate" not in last and "…" not in last
    # The bars say how far it is; other lines stay, before and after.
    assert "loaded 10/40 shards" not in written
    assert shown[-2:] == ["after", "result"]
    assert "m\x1b_match" not in written and "m[U+001B]_match" in written


@pytest.mark.real
def test_nothing_with_quiet_or_without_a_terminal():
    quiet = on_a_terminal(80, "-c", WORK, "--quiet")
    assert "\x1b" not in quiet and "answer_correctness" not in quiet
    assert "loaded 10/40 shards" in quiet
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = finished([sys.executable, "-c", WORK], env=environment, check=True)
    assert process.stdout == "result\n"
    assert process.stderr.splitlines()[0] == "loaded 10/40 shards"
    assert "\x1b" not in process.stderr


COMMAND = ("-X", "importtime", "-m", "answerkey.flows.cli")
"""Says on standard error, where the frames are drawn too, what it imports, in this order."""


@pytest.mark.parametrize("command", ["evaluate", "score-traces"])
@pytest.mark.real
def test_the_first_frame_is_there_before_what_works_is_imported(command, tmp_path):
    written = on_a_terminal(80, *COMMAND, command, "none", "--home", str(tmp_path / "home"))
    before, frame, after = written.partition(" start ")
    assert frame
    imported = set(re.findall(r"\| +(answerkey\S*|\w+)\r?$", before, re.MULTILINE))
    assert {module for module in imported if module.startswith("answerkey.")} == {
        "answerkey.flows", "answerkey.flows.environment", "answerkey.flows.cli", "answerkey.flows.cli.main",
        "answerkey.flows.cli.progress", "answerkey.tasks", "answerkey.tasks.publish", "answerkey.tasks.publish.escape",
        "answerkey.tasks.server",
    }  # fmt: skip
    assert imported & {"pydantic", "numpy", "duckdb", "pyarrow", "pandas", "prefect"} == set()
    assert re.search(r"\| +answerkey\.metrics_core\r?$", after, re.MULTILINE)
    # Nothing is left of it where the command fails.
    assert "\x1b[2K" in after and "answerkey: " in lines(after)[-1]


@pytest.mark.parametrize("arguments", [("evaluate", "none.csv", "--quiet"), ("evaluate", "--help")])
@pytest.mark.real
def test_no_frame_where_none_is_wanted(arguments, tmp_path):
    written = on_a_terminal(80, "-m", "answerkey.flows.cli", *arguments, "--home", str(tmp_path / "home"))
    assert " start " not in written and "\x1b[2K" not in written


class Listener(logging.Handler):
    """Keeps what is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Advance] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        assert isinstance(record.msg, Advance)
        self.told.append(record.msg)


@contextmanager
def listening():
    """What is told meanwhile of how far the work is."""
    listener, level = Listener(), LOGGER.level
    LOGGER.addHandler(listener)
    LOGGER.setLevel(logging.INFO)
    try:
        yield listener.told
    finally:
        LOGGER.removeHandler(listener)
        LOGGER.setLevel(level)


def test_scoring_traces_tells_which_rule_is_at_work(tmp_path):
    with listening() as told:
        score_traces(Tracing(rules=[str(ROOT / "examples/rules")], only=["faq-words"]), str(tmp_path / "home"))
    assert [line.what for line in told] == ["select faq-words", "load rows", "token_overlap", "token_overlap", "commit"]
    first, last = told[2:4]
    assert (first.done, last.done) == (0, last.total) and last.total
