"""The judge client against a server on loopback: wall time relative to its bound, and the cost of a rerun.

Bound: calls x latency / concurrency. 2,000 samples, 200 ms, 64 at once: 6.25 s; 8,000 at 256 at once, so that the bound
is the same and so is the weight of the first second, in which the client learns how many calls the server bears. The
client has made one call before the clock starts, so that importing litellm (seconds) is not counted. `litellm alone`
sends the same requests through bare `litellm.acompletion`, as many coroutines and nothing else: no ledger, no retries,
no reading of replies. `--profile` shows where our time goes.

    python benchmarks/bench.py judge
    python benchmarks/judge.py [--samples N] [--concurrency 64] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

# tests/ holds the scripted server; the benchmark runs from a checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answerkey import evaluate
from answerkey.metrics_core.judges.judge_metric import request
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.model import ModelRef
from answerkey.metrics_core.llm.provider import litellm
from answerkey.metrics_core.llm.response import ResponseFormat
from answerkey.metrics_core.measurement import Measurement
from answerkey.metrics_core.metrics.meaning_match import PROMPT, _fields
from answerkey.metrics_core.sample import Sample
from benchmarks._turns import Contestant, Turn, ratios, rounds, serve, spread
from tests.judge_server import JudgeProcess

MODEL, LATENCY_S, CONCURRENCY, SAMPLES = "openai/gpt-4o-mini", 0.2, 64, 1_000
SIDES = ("litellm alone", "answerkey", "answerkey, the same again")


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Times the bound, and processor time a call, of litellm alone and of ours, by turns."""
    bound = SAMPLES * LATENCY_S / CONCURRENCY
    with ExitStack() as stack:
        sides: dict[str, Callable[[], Turn]] = {}
        for name in SIDES:
            server = stack.enter_context(JudgeProcess("--latency", str(LATENCY_S)))
            contestant = Contestant(sys.executable, Path(__file__), "--side", name)
            stack.callback(contestant.close)
            sides[name] = lambda contestant=contestant, url=server.url: contestant.turn(url, Path("-"))
        turns, failed = rounds(sides, n_rounds)
    rows = [
        {
            "what": name,
            "calls": of[0].values[0],
            "bound": spread(turn.wall / bound for turn in of),
            "ms": spread(1e3 * turn.cpu / SAMPLES for turn in of),
            "times": ratios(of, turns["answerkey"]),
        }
        for name, of in turns.items()
    ]
    about = {"samples": SAMPLES, "latency_ms": 1_000 * LATENCY_S, "concurrency": CONCURRENCY}
    return {**about, "versions": {"litellm": version("litellm")}, "missing": failed, "rows": rows}


def _side(name: str) -> Callable[[str, str], Callable[[], list[Any]]]:
    """The process of a side: every turn asks new questions, but for those of `again`."""
    folder = tempfile.mkdtemp(dir=".")
    turn = count()

    def prepare(url: str, _: str) -> Callable[[], list[Any]]:
        options = JudgeOptions(judges=(f"{MODEL}@{url}",), concurrency=CONCURRENCY, check="never")
        access = Access("none", ledger=folder)
        _timed([_sample(-1)], options, access)
        if name == "litellm alone":
            return lambda: [asyncio.run(_bare(MODEL, url, SAMPLES, CONCURRENCY)) and SAMPLES]

        def work() -> list[int]:
            first = 0 if name.endswith("again") else next(turn) * SAMPLES
            measured = _measured([_sample(number) for number in range(first, first + SAMPLES)], options, access)
            if any(one.status != "scored" for one in measured):
                raise RuntimeError("an answer has no score")
            return [sum(not one.from_ledger for one in measured)]

        return work

    return prepare


def main() -> None:
    """Print one line per run."""
    if sys.argv[1:2] == ["--side"]:
        serve(_side(sys.argv[2]), forks=False)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, help="default: 2,000 for 64 at once, more in proportion")
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--model", default="openai/gpt-4o-mini")
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    chosen.samples = chosen.samples or 2_000 * chosen.concurrency // 64
    bound = chosen.samples * chosen.latency / chosen.concurrency
    print(f"{chosen.samples:,} samples, {chosen.latency * 1_000:.0f} ms, {chosen.concurrency} at once: {bound:.2f} s")
    with tempfile.TemporaryDirectory() as folder, JudgeProcess("--latency", str(chosen.latency)) as server:
        options = JudgeOptions(judges=(f"{chosen.model}@{server.url}",), concurrency=chosen.concurrency, check="never")
        access = Access("none", ledger=folder)
        _timed([_sample(-1)], options, access)
        wall, cpu = asyncio.run(_bare(chosen.model, server.url, chosen.samples, chosen.concurrency))
        print(_line("litellm alone", chosen.samples, chosen.samples, wall, bound, cpu))
        samples = [_sample(number) for number in range(chosen.samples)]
        for name in ("first run", "unchanged rerun"):
            before = server.stats()["requests"]
            wall, cpu, measured = _timed(samples, options, access, profile=chosen.profile and name == "first run")
            calls = server.stats()["requests"] - before
            scored = sum(one.status == "scored" for one in measured)
            problems = Counter(one.reason for one in measured if one.status != "scored")
            print(_line(name, calls, scored, wall, bound, cpu))
            for problem, count in problems.most_common(3):
                print(f"  {count:,} not scored: {problem}")


def _line(name: str, calls: int, scored: int, wall: float, bound: float, cpu: float) -> str:
    return (
        f"{name:<16} {calls:>6,} calls {scored:>6,} replies {wall:>7.2f} s  {wall / bound:.2f} x the bound, "
        f"CPU {1_000 * cpu / scored:.1f} ms a sample"
    )


async def _bare(model: str, url: str, n_calls: int, concurrency: int) -> tuple[float, float]:
    """Seconds of wall time and of CPU that litellm alone takes for the same requests."""
    judge = ModelRef(model, url)
    asked = (request(PROMPT, _fields(_sample(number)), judge, 0, JudgeOptions()) for number in range(n_calls))

    async def work() -> None:
        for one in asked:
            settings = ResponseFormat("json_schema").settings(one, one.max_tokens)
            await litellm().acompletion(
                model=model, messages=list(one.messages), api_base=url, api_key="none", **settings
            )

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return time.perf_counter() - wall, time.process_time() - cpu


def _sample(number: int) -> Sample:
    return Sample(
        str(number), f"It was opened in {1800 + number}, after long repairs.", [f"{1800 + number}"],
        f"When was bridge number {number} over the river opened?",
    )  # fmt: skip


def _timed(
    samples: list[Sample], options: JudgeOptions, access: Access, *, profile: bool = False
) -> tuple[float, float, list[Measurement]]:
    wall, cpu = time.perf_counter(), time.process_time()
    asked = _profiled if profile else _measured
    measured = asked(samples, options, access)
    return time.perf_counter() - wall, time.process_time() - cpu, measured


def _measured(samples: list[Sample], options: JudgeOptions, access: Access) -> list[Measurement]:
    return evaluate(samples, ["meaning_match"], judge=options, access=access)


def _profiled(samples: list[Sample], options: JudgeOptions, access: Access) -> list[Measurement]:
    """The same with a profile of the thread that makes the calls."""
    from answerkey.metrics_core.llm import loop as runtime

    profile = cProfile.Profile()
    loop = runtime._loop()
    loop.call_soon_threadsafe(profile.enable)
    measured = _measured(samples, options, access)
    loop.call_soon_threadsafe(profile.disable)
    time.sleep(0.1)
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    return measured


if __name__ == "__main__":
    main()
