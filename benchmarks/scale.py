"""Time and memory of `answerkey evaluate` with `answer_correctness` on many short rows.

    python benchmarks/scale.py [--rows 100000 300000 1000000]

Memory is the sum over the command and every process that it started, as proportional set size, so that shared pages
count once; CPU is of all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_WORDS = [f"{a}{b}" for a in ("ba", "ko", "mi", "su", "te", "ra") for b in ("lan", "dor", "vik", "nes", "mo", "tur")]


def make_rows(file: Path, rows: int) -> None:
    """Write `rows` answers of one release: about eight words each, two references, every row its own."""
    rng = random.Random(7)
    with file.open("w", encoding="utf-8") as out:
        for i in range(rows):
            truth = rng.choices(_WORDS, k=3)
            answer = ["It", "is", *truth[: rng.randint(1, 3)], str(i), *rng.choices(_WORDS, k=3)]
            record = {"id": str(i), "answer": " ".join(answer), "references": [f"{' '.join(truth)} {i}", truth[0]]}
            out.write(json.dumps(record) + "\n")


def measure(rows: int, folder: Path) -> tuple[float, float, float]:
    """Seconds from the first row read to the report, seconds of CPU, and the peak memory in MiB."""
    file = folder / f"rows-{rows}.jsonl"
    make_rows(file, rows)
    home = folder / f"home-{rows}"
    command = [sys.executable, "-m", "answerkey.flows.cli", "evaluate", str(file), "--metrics", "answer_correctness"]
    process = subprocess.Popen([*command, "--home", str(home), "--quiet"], stdout=subprocess.DEVNULL)
    peak, start, used = 0.0, 0.0, _cpu_of_children()
    while process.poll() is None:
        peak = max(peak, _tree_memory(process.pid))
        # Loading begins with a folder for the run.
        start = start or (time.perf_counter() if (home / "runs").exists() else 0.0)
        time.sleep(0.25)
    if process.returncode:
        raise SystemExit(f"the run failed with exit code {process.returncode}")
    return time.perf_counter() - start, _cpu_of_children() - used, peak


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
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    print(f"{'rows':>10}{'seconds':>10}{'ms/row':>9}{'CPU us/row':>12}{'peak MiB':>10}")
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory(prefix="answerkey-scale-") as folder:
            seconds, cpu, peak = measure(rows, Path(folder))
        per_row = f"{1000 * seconds / rows:>9.3f}{1e6 * cpu / rows:>12.1f}"
        print(f"{rows:>10,}{seconds:>10.1f}{per_row}{peak:>10,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
