"""Dask workers on a lake, by the clock: where the time goes in each part of a run.

    python benchmarks/cluster.py [--rows 500000] [--rounds 2] [--workers 1 2] [--metric answer_correctness]
                                 [--delay-ms 5 --loss .01]

Servers of its own (PostgreSQL, SeaweedFS, a Dask scheduler and its workers) run on this machine, as in the tests, so
`pip install -e '.[dev]'` is needed. With 0 workers the driver scores by itself, in processes of its own. With a delay,
each worker is in a network of its own, and packets to it and from it take that long (Linux, as root).

A round is one run with each number of workers, every second one in turned order; each run has a home with nothing in
it. A line for each part of a run: seconds by the clock, CPU of the driver, of the workers and of all servers, and how
much of the time the workers had nothing to do. Cores that driver, servers and workers share are the limit: with fewer
than the workers and two more, the ratio says as much about the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._network import Network  # noqa: E402
from benchmarks._rows import made  # noqa: E402

PLACES = {"driver": 1, "workers": 2, "servers": 3}
_TICKS = os.sysconf("SC_CLK_TCK")
_EVENTS, _PIDS = "ANSWERKEY_BENCH_EVENTS", "ANSWERKEY_BENCH_PIDS"


def cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU of processes, of those below them, and of those below that have ended."""
    below: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(field) for field in fields[11:15])
    ticks, queue = 0, [*pids]
    while queue:
        pid = queue.pop()
        queue += below.get(pid, [])
        ticks += used.get(pid, 0)
    return ticks / _TICKS


def drive(words: list[str]) -> int:
    """The command line, which writes down when each of its steps begins and ends, with the CPU used by then."""
    from answerkey.flows.cli.main import main as command
    from answerkey.flows.prefect_or_local import Task

    groups = {"driver": [os.getpid()], **json.loads(os.environ[_PIDS])}
    call = Task.__call__

    def note(what: str) -> None:
        used = {name: cpu(pids) for name, pids in groups.items()}
        with Path(os.environ[_EVENTS]).open("a") as file:
            file.write(json.dumps({"what": what, "at": time.time(), **used}) + "\n")

    def noted(step: Any, *args: Any, **kwargs: Any) -> Any:
        # The work of shards begins when it is asked what has ended: it is what comes after the step that cut them.
        name = step.options["name"]
        if name == "work on a cluster":
            return call(step, *args, **kwargs)
        note(name)
        try:
            return call(step, *args, **kwargs)
        finally:
            note(f"after {name}")

    Task.__call__ = noted  # type: ignore[assignment, method-assign]
    note("check")
    sys.argv = ["answerkey", *words]
    try:
        return int(command() or 0)
    finally:
        note("end")


def far_worker(scheduler: Any, network: Network, number: int, known: dict[str, str]) -> Any:
    """A worker in the namespace of that number."""
    from tests.dask_servers import Worker

    class Far(Worker):
        host = network.addresses[number]

        def command(self) -> Sequence[str]:
            return network.within(number, super().command())

    return Far(scheduler, variables=known)


def run(
    file: Path, n_workers: int, metric: str, postgres: Any, s3: Any, delay_s: float, loss: float
) -> list[dict[str, Any]]:
    """One run; what was written down of it."""
    from tests.cluster_servers import lake
    from tests.dask_servers import Scheduler, Worker

    with ExitStack() as opened:
        home = opened.enter_context(lake(postgres, s3))
        known = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "PG", "ANSWERKEY_CAT"))}
        scheduler = Scheduler()
        opened.callback(scheduler.close)
        if delay_s or loss:
            ports = [postgres.port, s3.endpoint.rpartition(":")[2], scheduler.port]
            network = Network(n_workers, ports, delay_s, loss)
            opened.callback(network.close)
            workers = [far_worker(scheduler, network, number, known) for number in range(n_workers)]
        else:
            workers = [Worker(scheduler, variables=known) for _ in range(n_workers)]
        for one in workers:
            opened.callback(one.close)
        events = Path(opened.enter_context(tempfile.TemporaryDirectory())) / "events"
        servers = [one.process.pid for one in (postgres, s3, scheduler) if one.process]
        pids = {"workers": [one.process.pid for one in workers if one.process], "servers": servers}
        words = ["evaluate", file, "--metrics", metric, "--home", home]
        words += ["--runner", scheduler.address] if n_workers else []
        began = time.time()
        subprocess.run(
            [sys.executable, __file__, "--drive", *map(str, words), "--no-page", "--quiet"], cwd=ROOT, check=True,
            stdout=subprocess.DEVNULL, env={**os.environ, _EVENTS: str(events), _PIDS: json.dumps(pids)},
        )  # fmt: skip
        found = [json.loads(line) for line in events.read_text().splitlines()]
        return [{**found[0], "what": "start", "at": began, "driver": 0.0}, *found]


def parts(events: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Seconds and CPU of each part, in order; what is done between two steps is called by the first: scoring is after
    the plan, and what workers write is after a cut."""
    found: dict[str, dict[str, float]] = {}
    for one, next_one in pairwise(events):
        part = found.setdefault(one["what"], dict.fromkeys(("seconds", *PLACES), 0.0))
        part["seconds"] += next_one["at"] - one["at"]
        for name in PLACES:
            part[name] += next_one[name] - one[name]
    return found


def table(found: Mapping[str, Mapping[str, float]], n_workers: int) -> None:
    """Print the parts that take any time, and their sum."""
    whole = {name: sum(part[name] for part in found.values()) for name in ("seconds", *PLACES)}
    print(f"{'':<28}{'seconds':>9}{'driver':>9}{'workers':>9}{'servers':>9}{'idle':>7}")
    for what, part in [*found.items(), ("all", whole)]:
        if part["seconds"] >= 0.2:
            idle = 1 - min(1.0, part["workers"] / (n_workers * part["seconds"])) if n_workers else 0.0
            values = "".join(f"{part[name]:>9.1f}" for name in ("seconds", *PLACES))
            print(f"{what:<28}{values}{idle:>7.0%}", flush=True)


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] == ["--drive"]:
        return drive(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--metric", default="answer_correctness")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of each packet to or from a worker")
    parser.add_argument("--loss", type=float, default=0.0, help="share of these packets that are lost")
    args = parser.parse_args()
    from tests.cluster_servers import Postgres, SeaweedFS

    seconds: dict[int, list[float]] = {n: [] for n in args.workers}
    with tempfile.TemporaryDirectory(prefix="answerkey-cluster-") as folder, ExitStack() as opened:
        file = Path(folder) / "made.jsonl"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made(args.rows))
        postgres, s3 = Postgres(), SeaweedFS()
        opened.callback(postgres.close)
        opened.callback(s3.close)
        for number in range(args.rounds):
            for n_workers in args.workers if number % 2 == 0 else args.workers[::-1]:
                found = parts(run(file, n_workers, args.metric, postgres, s3, args.delay_ms / 1_000, args.loss))
                seconds[n_workers].append(sum(part["seconds"] for part in found.values()))
                load = os.getloadavg()[0]
                print(f"\n{args.rows:,} rows, {n_workers} workers, round {number + 1}, load {load:.1f}")
                table(found, n_workers)
    for n_workers, of in seconds.items():
        print(f"{n_workers} workers: {', '.join(f'{one:.1f}' for one in of)} s")
    fewest, *more = sorted(seconds)
    for n_workers in more:
        ratios = [few / many for few, many in zip(seconds[fewest], seconds[n_workers], strict=True)]
        print(f"{n_workers} are as fast as {fewest} times {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
