"""Time, memory and disk of `answerkey evaluate` on many rows.

    python benchmarks/bench.py scale            # up to 100,000 rows
    python benchmarks/bench.py scale-large      # up to a million
    python benchmarks/bench.py scale-10m        # 3 and 10 million: hours, and 40 GB of disk
    python benchmarks/scale.py --rows 10000000 [--what answer_correctness]

The rows are made with the lengths of real answers. The language model is a scripted judge on loopback that takes
200 ms; what one would cost is what a dry run says. Memory is the sum over the command and every process that it
started, as proportional set size, so that shared pages count once; CPU is of all of them, with imports and start. Disk
is the whole home.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._rows import made  # noqa: E402
from tests.judge_server import UNTESTED, JudgeProcess  # noqa: E402

LEXICAL, OFFLINE, ASKED = "answer_correctness", "meaning_match, offline", "meaning_match, a language model"
USUAL = "the default metrics"
MODEL = "openai/gpt-4o-mini"
Runs = tuple[tuple[str, int], ...]
SMALL: Runs = (
    *((LEXICAL, 1_000), (LEXICAL, 10_000), (LEXICAL, 100_000)),
    *((USUAL, 1_000), (USUAL, 10_000), (OFFLINE, 1_000), (OFFLINE, 10_000), (ASKED, 1_000), (ASKED, 3_000)),
)
VARIANTS: dict[str, Runs] = {
    "large": ((LEXICAL, 1_000_000), (USUAL, 100_000), (OFFLINE, 100_000), (ASKED, 10_000)),
    "10m": ((LEXICAL, 3_000_000), (LEXICAL, 10_000_000)),
}


def measure(what: str, rows: int, folder: Path) -> dict[str, Any]:
    """One run: seconds from the first row read, seconds of CPU, MiB at the peak, bytes on disk a row, dollars."""
    file = folder / f"rows-{rows}.jsonl"
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made(rows))
    home = folder / f"home-{what.replace(' ', '-')}-{rows}"
    evaluate = [sys.executable, "-m", "answerkey.flows.cli", "evaluate", str(file)]
    evaluate += [] if what == USUAL else ["--metrics", what.partition(",")[0]]
    peak, start, used = 0.0, 0.0, _cpu_of_children()
    with ExitStack() as opened:
        dollars, asked = 0.0, list[str]()
        if what == ASKED:
            dollars = _dollars([*evaluate, "--judge", MODEL, "--home", str(folder / "dry")])
            server = opened.enter_context(JudgeProcess("--latency", ".2"))
            # The scripted judge says yes to everything, which a check would find.
            asked = ["--judge", f"{MODEL}@{server.url}", *UNTESTED]
            used = _cpu_of_children()
        process = subprocess.Popen(
            [*evaluate, *asked, "--home", str(home), "--no-page", "--quiet"], stdout=subprocess.DEVNULL, cwd=ROOT,
            env={**os.environ, "ANSWERKEY_JUDGE_KEY": "none"},
        )  # fmt: skip
        while process.poll() is None:
            peak = max(peak, _tree_memory(process.pid))
            # Loading begins with a folder for the run.
            start = start or (time.perf_counter() if (home / "runs").exists() else 0.0)
            time.sleep(0.25)
        if process.returncode:
            raise SystemExit(f"the run failed with exit code {process.returncode}")
        seconds, cpu = time.perf_counter() - start, _cpu_of_children() - used
    disk = sum(one.stat().st_size for one in home.rglob("*") if one.is_file())
    return {
        "metric": what,
        "rows": rows,
        "seconds": round(seconds, 1),
        "cpu": round(cpu, 1),
        "peak_mib": round(peak),
        "disk": round(disk / rows),
        "dollars": dollars,
    }


def _dollars(command: list[str]) -> float:
    """What a dry run says that its judge would cost."""
    said = subprocess.run([*command, "--dry-run"], check=True, capture_output=True, text=True, cwd=ROOT)
    found = re.search(r"dry run: [\d,]+ calls, \$([\d.,]+)", said.stdout + said.stderr)
    if found is None:
        raise SystemExit(f"the dry run names no price: {said.stdout}")
    return float(found[1].replace(",", ""))


def figures(cache: Path, n_rounds: int, runs: Runs = SMALL) -> dict[str, Any]:
    """A line for each run; each is measured once."""
    rows = []
    for what, n in runs:
        with tempfile.TemporaryDirectory(prefix="answerkey-scale-") as folder:
            rows.append(measure(what, n, Path(folder)))
        print(rows[-1], flush=True)
    return {"rows": rows}


def _cpu_of_children() -> float:
    """Seconds of CPU of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree_memory(root: int) -> float:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = 0.0, [root]
    while queue:
        pid = queue.pop()
        queue += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--what", default=LEXICAL, choices=(LEXICAL, USUAL, OFFLINE, ASKED))
    chosen = parser.parse_args()
    figures(Path(), 1, tuple((chosen.what, rows) for rows in chosen.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
