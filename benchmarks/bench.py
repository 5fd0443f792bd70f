"""All benchmarks that docs/benchmarks.md quotes: `make bench`, or some of them by name.

    python benchmarks/bench.py [PART ...] [--rounds 5] [--cache FOLDER] [--no-store]

Runs the parts, prints the section of each as it is in the page, and keeps their figures in benchmarks/bench.json;
`python docs/make_benchmarks.py` writes the page from that file. Other libraries are installed once, each into an
environment of its own below `--cache`. What is not there (data, Node.js, a library that cannot be installed) is left
out, and named. The `scale-` parts take longer, and run only where they are asked for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from benchmarks._environments import CACHE  # noqa: E402
from benchmarks._turns import ROUNDS, without_folders  # noqa: E402

STORE = Path(__file__).with_name("bench.json")
PARTS = (
    "first_result",
    "lexical",
    "semantic",
    "judge",
    "judge_rivals",
    "orchestration",
    "scale",
    "steps",
    "many_reports",
    "generate",
    "score_traces",
    "growth",
)
LARGE = ("scale-large", "scale-10m")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory / 2**20),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def commit() -> str:
    """The commit of the checkout; with a plus where files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def measured(part: str, cache: Path, rounds: int) -> dict[str, Any]:
    """The figures of a part, with the time, the code and the machine."""
    about = {"at": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit(), "machine": machine()}
    start = time.perf_counter()
    module, _, variant = part.partition("-")
    code = importlib.import_module(f"benchmarks.{module}")
    found = code.figures(cache, rounds, *([code.VARIANTS[variant]] if variant else []))
    if missing := found.get("missing"):
        found["missing"] = {name: without_folders(reason) for name, reason in missing.items()}
    return {**about, "seconds": round(time.perf_counter() - start), "rounds": rounds, **found}


def main() -> int:
    """Measure, print, and keep the figures."""
    import make_benchmarks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join((*PARTS, *LARGE))}; default: {len(PARTS)}"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the other libraries are (%(default)s)")
    parser.add_argument("--no-store", action="store_true", help="leave bench.json as it is")
    chosen = parser.parse_args()
    if unknown := [part for part in chosen.parts if part not in PARTS + LARGE]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS + LARGE)}")
    start, failed = time.perf_counter(), list[str]()
    for part in chosen.parts or PARTS:
        print(f"== {part}", flush=True)
        try:
            found = measured(part, chosen.cache, chosen.rounds)
        except (Exception, SystemExit):
            # The others are worth having, and the figures that are kept of this one stay.
            traceback.print_exc()
            failed.append(part)
            continue
        print(make_benchmarks.section(part, found), flush=True)
        if not chosen.no_store:
            stored = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
            STORE.write_text(make_benchmarks.compact(stored | {part: found}), encoding="utf-8")
    print(f"{time.perf_counter() - start:,.0f} s in all", *(f"failed: {part}" for part in failed), sep="; ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
