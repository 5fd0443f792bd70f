"""Overhead of the pipeline over the library: 10,000 real answers, the seven lexical metrics, no page.

    python benchmarks/orchestration.py [--shared ../shared/data] [--metrics a,b] [--rounds 5]

Starts a Prefect server of its own on loopback. In each round the library, the pipeline with the server and the pipeline
without one come one after the other, each in a fresh process with a new home, which pays for its own imports. Wall time
says something only on a machine that does nothing else; processor time, with that of the server apart, does on any.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROWS = 10_000
PORT = 4390
METRICS = "answer_correctness,rouge_l,token_overlap,bleu,chrf,exact_match,contains"
TICKS = os.sysconf("SC_CLK_TCK")

DIRECT = """
import json, sys
from answerkey.metrics_core import Sample, evaluate
rows = map(json.loads, open(sys.argv[1], encoding="utf-8"))
samples = [Sample(row["id"], row["answer"], row["references"], row["question"]) for row in rows]
measured = evaluate(samples, sys.argv[2].split(","))
print(len(measured))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one command: on the clock, of the processors for it and its children, and of the server meanwhile."""

    wall: float
    cpu: float
    server: float = 0.0


def write_rows(shared: Path, file: Path) -> None:
    """The first 10,000 answers of the two question-answering sets that have references."""
    sources = [shared / "evouna_nq/evouna_nq_dev.jsonl", shared / "nq301/nq301.jsonl"]
    lines = itertools.chain.from_iterable(source.open(encoding="utf-8") for source in sources)
    rows = (row for row in map(json.loads, lines) if row["references"])
    with file.open("w", encoding="utf-8") as out:
        for row in itertools.islice(rows, ROWS):
            kept = {key: row[key] for key in ("id", "question", "references", "answer")}
            out.write(json.dumps(kept, ensure_ascii=False) + "\n")


def cost(command: list[str], server_cpu: Callable[[], float] = lambda: 0.0, **environment: str) -> Cost:
    """What a command costs, which must succeed."""
    before, served, start = _children(), server_cpu(), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return Cost(time.perf_counter() - start, _children() - before, server_cpu() - served)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if not chosen.shared.is_dir():
        print(f"{chosen.shared} is not there: nothing to measure on")
        return 0
    found: dict[str, list[Cost]] = {"library": [], "with a server": [], "without one": []}
    with tempfile.TemporaryDirectory(prefix="answerkey-orchestration-") as name:
        folder = Path(name)
        file = folder / "rows.jsonl"
        write_rows(chosen.shared, file)
        direct = [sys.executable, "-c", DIRECT, str(file), chosen.metrics]
        flow = [sys.executable, "-m", "answerkey.flows.cli", "evaluate", str(file)]
        flow += ["--metrics", chosen.metrics, "--no-page", "--quiet"]
        with server(folder / "server") as (url, used):
            for turn in range(chosen.rounds):
                homes = [["--home", str(folder / f"{turn}-{kind}")] for kind in ("with", "without")]
                found["library"].append(cost(direct))
                found["with a server"].append(cost([*flow, *homes[0]], used, PREFECT_API_URL=url))
                found["without one"].append(cost([*flow, *homes[1]], PREFECT_API_URL=""))
                for kind, costs in found.items():
                    one = costs[-1]
                    said = f"{one.wall:6.1f} s, CPU {one.cpu:5.1f} s, of the server {one.server:4.1f} s"
                    print(f"{turn} {kind:14} {said}", flush=True)
    for kind in ("with a server", "without one"):
        ratios = {
            name: [
                getattr(one, name) / getattr(base, name)
                for one, base in zip(found[kind], found["library"], strict=True)
            ]
            for name in ("wall", "cpu")
        }
        print(f"{kind}, times the library: " + "; ".join(
            f"{name} median {statistics.median(of):.2f} ({min(of):.2f} to {max(of):.2f})" for name, of in ratios.items()
        ))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
