"""Overhead of the pipeline over the library: 10,000 real answers, all metrics, against a running Prefect server.

    python benchmarks/orchestration.py [--shared ../shared/data] [--metrics a,b]

Starts a server of its own on loopback. Both sides are fresh processes and pay for their own imports and models;
neither has cached embeddings. The library makes no page, so the pipeline is measured without one, and again with it.
The last line is the same command without a server.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROWS = 10_000
PORT = 4390

DIRECT = """
import json, sys
from answerkey.metrics_core import Sample, evaluate
rows = map(json.loads, open(sys.argv[1], encoding="utf-8"))
samples = [Sample(row["id"], row["answer"], row["references"], row["question"]) for row in rows]
measured = evaluate(samples, sys.argv[2].split(","))
print(len(measured))
"""


def write_rows(shared: Path, file: Path) -> None:
    """The first 10,000 answers of the two question-answering sets that have references."""
    sources = [shared / "evouna_nq/evouna_nq_dev.jsonl", shared / "nq301/nq301.jsonl"]
    lines = itertools.chain.from_iterable(source.open(encoding="utf-8") for source in sources)
    rows = (row for row in map(json.loads, lines) if row["references"])
    with file.open("w", encoding="utf-8") as out:
        for row in itertools.islice(rows, ROWS):
            kept = {key: row[key] for key in ("id", "question", "references", "answer")}
            out.write(json.dumps(kept, ensure_ascii=False) + "\n")


def seconds(command: list[str], **environment: str) -> float:
    """Wall time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A Prefect server on loopback with a home of its own."""
    quiet = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(PORT)]
    process = subprocess.Popen(
        command, env={**os.environ, **quiet}, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    url = f"http://127.0.0.1:{PORT}/api"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--metrics",
        default="answer_correctness,rouge_l,token_overlap,bleu,chrf,exact_match,contains,semantic_similarity",
    )
    chosen = parser.parse_args()
    if not chosen.shared.is_dir():
        print(f"{chosen.shared} is not there: nothing to measure on")
        return 0
    with tempfile.TemporaryDirectory(prefix="answerkey-orchestration-") as name:
        folder = Path(name)
        file = folder / "rows.jsonl"
        write_rows(chosen.shared, file)
        flow = [
            sys.executable,
            "-m",
            "answerkey.flows.cli",
            "evaluate",
            str(file),
            "--metrics",
            chosen.metrics,
            "--quiet",
        ]
        direct = seconds([sys.executable, "-c", DIRECT, str(file), chosen.metrics])
        with server(folder / "server") as url:
            piped = seconds([*flow, "--no-page", "--home", str(folder / "one")], PREFECT_API_URL=url)
            paged = seconds([*flow, "--home", str(folder / "two")], PREFECT_API_URL=url)
        alone = seconds([*flow, "--no-page", "--home", str(folder / "three")], PREFECT_API_URL="")
    print(f"library alone            {direct:7.1f} s")
    print(f"pipeline, server running {piped:7.1f} s   {piped - direct:+.1f} s, {100 * (piped / direct - 1):+.0f} %")
    print(f"allowed                  {1.15 * direct + 5:7.1f} s   (15 % + 5 s)")
    print(f"with its page            {paged:7.1f} s   {paged - piped:+.1f} s")
    print(f"pipeline, no server      {alone:7.1f} s   {alone - direct:+.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
