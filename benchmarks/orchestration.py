"""What the pipeline costs over the library: 10,000 answers, the seven lexical metrics, no page.

    python benchmarks/bench.py orchestration

Starts a Prefect server of its own on loopback. Each turn is a fresh process with a new home, which pays for its own
imports. The processor time of the server is counted with the command that it serves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks._rows import made
from benchmarks._turns import Turn, command_turn, ratios, rounds, spread

ROOT = Path(__file__).resolve().parents[1]
ROWS = 10_000
PORT = 4390
METRICS = "answer_correctness,rouge_l,token_overlap,bleu,chrf,exact_match,contains"
TICKS = os.sysconf("SC_CLK_TCK")
DIRECT = """
import json, sys
from answerkey import Sample, evaluate
rows = map(json.loads, open(sys.argv[1], encoding="utf-8"))
samples = [Sample(row["id"], row["answer"], row["references"], row["question"]) for row in rows]
print(len(evaluate(samples, sys.argv[2].split(","))))
"""


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """A Prefect server on loopback with a home of its own: its address, and the processor time that it has used."""
    quiet = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(PORT)]
    process = subprocess.Popen(
        command, env={**os.environ, **quiet}, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    url = f"http://127.0.0.1:{PORT}/api"

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.5)
        yield url, used
    finally:
        process.terminate()
        process.wait(30)


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Seconds of the library and of the command, with a server and without."""
    with tempfile.TemporaryDirectory(prefix="answerkey-orchestration-") as name:
        folder = Path(name)
        file = folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in made(ROWS)), encoding="utf-8")
        flow = [sys.executable, "-m", "answerkey.flows.cli", "evaluate", str(file), "--metrics", METRICS]
        flow += ["--no-page", "--quiet", "--home"]
        home = count()

        def command(words: list[str], **environment: str) -> Turn:
            return command_turn(words, folder, lambda: 0, PYTHONPATH=str(ROOT), **environment)

        with server(folder / "server") as (url, used):

            def served() -> Turn:
                before = used()
                turn = command([*flow, str(folder / str(next(home)))], PREFECT_API_URL=url)
                return replace(turn, cpu=turn.cpu + used() - before)

            sides: dict[str, Callable[[], Turn]] = {
                "the library": lambda: command([sys.executable, "-c", DIRECT, str(file), METRICS]),
                "`answerkey evaluate`, no server": lambda: command(
                    [*flow, str(folder / str(next(home)))], PREFECT_API_URL=""
                ),
                "`answerkey evaluate`, Prefect server running": served,
            }
            turns, failed = rounds(sides, n_rounds)
    ours = turns["the library"]
    rows = [
        {
            "what": what,
            **{how: spread(getattr(turn, how) for turn in of) for how in ("wall", "cpu")},
            "times": {how: ratios(of, ours, how) for how in ("wall", "cpu")},
        }
        for what, of in turns.items()
    ]
    return {"answers": ROWS, "missing": failed, "rows": rows}
