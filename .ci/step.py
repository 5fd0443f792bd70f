"""Run one step of .ci/run, and add what it took to a table: step.py TABLE NAME CPU_BUDGET_S -- COMMAND...

The budget is in seconds of CPU on a machine that compiles three modules of the standard library, six times each, in
`REFERENCE_S`; 0 is none. A slower or busier machine has as much more. A step that takes more than twice its budget
fails.
"""

import argparse
import ast
import inspect
import resource
import subprocess
import sys
import time
from pathlib import Path

REFERENCE_S = 0.4


def compile_seconds() -> float:
    """The CPU time of compiling, which slows down as tests do where other processes share caches and cores."""
    sources = [Path(inspect.getfile(module)).read_text(encoding="utf-8") for module in (argparse, ast, inspect)]
    start = time.process_time()
    for source in sources * 6:
        compile(source, "source", "exec")
    return time.process_time() - start


def main() -> int:
    """Run the command, and return its exit code, or 1 if it took too much CPU."""
    table, name, budget, _, *command = sys.argv[1:]
    compile_before = compile_seconds()
    start = time.monotonic()
    exit_code = subprocess.run(command, check=False).returncode
    wall = time.monotonic() - start

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime
    slowness = max(compile_before, compile_seconds()) / REFERENCE_S
    allowed = float(budget) * max(slowness, 1.0)
    row = f"{name:<18}{wall:>8.0f}{cpu:>8.0f}"
    if allowed:
        row += f"{allowed:>10.0f}"
    with Path(table).open("a") as rows:
        rows.write(f"{row}\n")

    if exit_code == 0 and allowed and cpu > 2 * allowed:
        print(f"{name} took {cpu:.0f} s of CPU, more than twice its budget of {allowed:.0f} s")
        return 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
