"""Generating answers: wall time relative to its bound, with faults, and how much a killed run leaves to do.

    python benchmarks/bench.py generate

Bound: questions x latency / concurrency, 0.2 s and 64 at once, against a server on this machine. Each run is a process
of its own that asks one question before the clock starts, so that importing litellm is not counted. The last one is
killed with SIGKILL when the server has seen half of the questions, and started again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# tests/ holds the scripted server; the benchmark runs from a checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answerkey.metrics_core.llm.access import Access, CallLimits
from answerkey.metrics_core.llm.generate import Prompting
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.tasks.releases.generate import Asking, generate
from answerkey.tasks.releases.questions import find_questions
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeProcess

LATENCY_S, CONCURRENCY, QUESTIONS = 0.2, 64, 1_000
RATE = "0.3"
TRANSIENT = ("error_500", "error_503", "drop", "empty", "not_json_body")


def work(url: str, home: Path, run: str) -> None:
    """Generate the answers, and print the seconds and what came of the questions."""
    model = ModelRef("openai/gpt-4o-mini", url)
    asking = Asking(Prompting(), model, CallLimits(concurrency=CONCURRENCY), Access(ledger=str(home), run=run))
    seconds = 0.0
    for name in ("one", "many"):
        found = find_questions(Home(home), str(home / f"{name}.jsonl"), home / "work")
        started = time.perf_counter()
        made = generate(Home(home), found, asking, "release", home / "work")
        seconds = time.perf_counter() - started
    print(json.dumps([seconds, made.n_generated, made.n_from_ledger, made.n_failed]))


def start(url: str, home: Path, run: str) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, url, str(home), run]
    environment = {**os.environ, "ANSWERKEY_MODEL_KEY": "none"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def line(what: str, process: subprocess.Popen[str], calls: int, n: int) -> dict[str, Any]:
    """What came of a run."""
    said, _ = process.communicate()
    seconds, generated, known, failed = json.loads(said)
    over = float(f"{seconds / (n * LATENCY_S / CONCURRENCY):.3g}")
    return {"what": what, "calls": calls, "asked": generated, "known": known, "failed": failed, "bound": over}


def figures(cache: Path, n_rounds: int, n: int = QUESTIONS) -> dict[str, Any]:
    """The runs, each measured once; what counts is what is asked again."""
    rows = []
    for what, faults in (
        ("no faults", ()),
        ("30 % faults", ("--faults", RATE, "--kinds", *TRANSIENT)),
        ("killed halfway, started again", ()),
    ):
        with tempfile.TemporaryDirectory(prefix="answerkey-generate-") as folder, server(*faults) as model:
            home = Path(folder)
            questions(home / "one.jsonl", ["warm"])
            questions(home / "many.jsonl", [str(number) for number in range(n)])
            process, before = start(model.url, home, "first"), 0
            if what.startswith("killed"):
                killed(process, model, n)
                before = model.stats()["requests"]
                process = start(model.url, home, "second")
            process.wait()
            rows.append(line(what, process, model.stats()["requests"] - before, n))
            print(rows[-1], flush=True)
    return {"questions": n, "latency_ms": 1_000 * LATENCY_S, "concurrency": CONCURRENCY, "rows": rows}


def server(*faults: str) -> JudgeProcess:
    """A model that echoes the question."""
    return JudgeProcess("--latency", str(LATENCY_S), "--brain", "parrot", *faults)


def questions(file: Path, names: list[str]) -> None:
    """A data set with a question for each name."""
    rows = ({"id": name, "question": f"Which number is {name}?", "reference": name} for name in names)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def killed(process: subprocess.Popen[str], model: JudgeProcess, n: int) -> None:
    """Wait until half of the questions were asked, and kill."""
    while process.poll() is None and model.stats()["requests"] < n // 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # Calls in flight are answered, and the replies are lost.
    time.sleep(2 * LATENCY_S)


if __name__ == "__main__":
    # The process of a run.
    work(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
