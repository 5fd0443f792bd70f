"""Run one step of .ci/run, and add what it took to a table: step.py TABLE NAME CPU_BUDGET_S -- COMMAND...

The budget is in seconds of CPU of a machine that makes twenty million additions in 1.3 s, 0 for none. A machine that
is slower has as much more. A step that takes more than twice its budget fails.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

REFERENCE_S = 1.3


def seconds_of_additions() -> float:
    """The CPU time of twenty million additions."""
    start = time.process_time()
    total = 0
    while total < 20_000_000:
        total += 1
    return time.process_time() - start


def main() -> int:
    """Run the command, and return its exit code, or 1 if it took too much CPU."""
    table, name, budget, _, *command = sys.argv[1:]
    additions_before = seconds_of_additions()
    start = time.monotonic()
    exit_code = subprocess.run(command, check=False).returncode
    wall = time.monotonic() - start

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime
    slowness = max(additions_before, seconds_of_additions()) / REFERENCE_S
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
