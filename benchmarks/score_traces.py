"""Time of `answerkey score-traces` with three rules over many logged traces, and of the run after it.

    python benchmarks/bench.py score_traces

Two rules count words (half of the traces, and a fifth of the others), one asks a scripted judge on this machine about
one in a hundred, with 0.2 s a call and without a check of the judge, which a script does not pass. Seconds are those
between the first and the last entry of a run in the warehouse: without the start and the end of the process.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answerkey.tasks.traces.funnel import BUCKETS
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeProcess

TRACES = 30_000
_WORDS = [f"{a}{b}" for a in ("ba", "ko", "mi", "su", "te", "ra") for b in ("lan", "dor", "vik", "nes", "mo", "tur")]
_RULES = """\
rules:
  - name: words
    source: log.jsonl
    where: metadata.environment = 'production'
    mapping: {{input: input.question, output: output.text, ground_truth: metadata.expected}}
    metric: token_overlap
  - name: rouge
    source: log.jsonl
    where: metadata.environment = 'staging' AND metadata.ms < 4000
    sampling: {rate}
    mapping: {{input: input.question, output: output.text, ground_truth: metadata.expected}}
    metric: rouge_l
  - name: judged
    source: log.jsonl
    sampling: 0.01
    mapping: {{input: input.question, output: output.text, ground_truth: metadata.expected}}
    metric: meaning_match
    judge: {{judges: [openai/judge@{judge}], check: never}}
"""


def traces(first: int, n: int) -> Iterator[str]:
    """Lines of a log: about 500 characters each, one a second."""
    rng = random.Random(first)
    for i in range(first, first + n):
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + i))
        yield json.dumps({
            "id": f"{i:032x}",
            "start_time": moment,
            "input": {"question": f"{' '.join(rng.choices(_WORDS, k=10))} {i}?"},
            "output": {"text": " ".join(rng.choices(_WORDS, k=25)), "model": "m"},
            "metadata": {
                "environment": rng.choice(["production", "staging"]),
                "ms": rng.randint(1, 5_000),
                "expected": " ".join(rng.choices(_WORDS, k=12)),
            },
        }) + "\n"  # fmt: skip


def run(folder: Path, *arguments: str) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of the run, and the funnels."""
    home = folder / "home"
    command = [
        sys.executable,
        "-m",
        "answerkey.flows.cli",
        "score-traces",
        str(folder),
        "--home",
        str(home),
        "--json",
        "--quiet",
    ]
    environment = {**os.environ, "ANSWERKEY_JUDGE_KEY": "none"}
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"the run failed with exit code {done.returncode}")
    with Home(home).warehouse.reading() as warehouse:
        [(seconds,)] = warehouse.execute(
            "SELECT epoch(finished_at - started_at) FROM runs ORDER BY started_at DESC LIMIT 1"
        ).fetchall()
    return seconds, check(json.loads(done.stdout))


def check(funnels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The funnels, after a check that each adds up."""
    for one in funnels:
        if sum(one[bucket] for bucket in BUCKETS) != one["seen"]:
            raise SystemExit(f"the funnel does not add up: {one}")
    return funnels


def taken(folder: Path, rule: str) -> set[str]:
    """The traces that have a score."""
    with Home(folder / "home").warehouse.reading() as warehouse:
        rows = warehouse.execute(
            "SELECT trace_id FROM trace_outcomes WHERE rule = ? AND outcome = 'scored'", [rule]
        ).fetchall()
    return {trace_id for (trace_id,) in rows}


def figures(cache: Path, n_rounds: int, n: int = TRACES) -> dict[str, Any]:
    """The runs one after the other, each measured once: seconds and what each rule has seen and scored."""
    rows: list[dict[str, Any]] = []

    def add(what: str, seconds: float, funnels: list[dict[str, Any]]) -> None:
        counts = [{key: one[key] for key in ("rule", "seen", "scored", "measured")} for one in funnels]
        rows.append({"what": what, "seconds": round(seconds, 1), "rules": counts})
        print(rows[-1], flush=True)

    with tempfile.TemporaryDirectory(prefix="answerkey-traces-") as name, JudgeProcess("--latency", "0.2") as judge:
        folder = Path(name)
        rules, log = folder / "rules.yaml", folder / "log.jsonl"
        rules.write_text(_RULES.format(rate=0.1, judge=judge.url))
        with log.open("w", encoding="utf-8") as out:
            out.writelines(traces(0, n))
        seconds, funnels = run(folder)
        if idle := [one["rule"] for one in funnels if not one["scored"]]:
            raise SystemExit(f"nothing was scored by {', '.join(idle)}")
        add(f"{n:,} traces", seconds, funnels)
        add("the same again", *run(folder))
        with log.open("a", encoding="utf-8") as out:
            out.writelines(traces(n, n // 100))
        add(f"{n // 100:,} new ones", *run(folder))
        before = taken(folder, "rouge")
        rules.write_text(_RULES.format(rate=0.2, judge=judge.url))
        add("rule rouge at .2, backfill", *run(folder, "--rule", "rouge", "--since", "2026-01-01"))
        kept = len(before & taken(folder, "rouge"))
        calls = judge.stats()["requests"]
    return {"sampled": len(before), "kept": kept, "calls": calls, "rows": rows}
