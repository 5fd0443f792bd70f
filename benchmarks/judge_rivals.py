"""answerkey's judges beside ragas, DeepEval and Inspect: the same samples, one server on loopback, also with faults.

    python benchmarks/bench.py judge_rivals

A sample has a question, an answer and one reference, made from the examples; blank answers are left out, since ragas
and DeepEval do not take them. Every contestant is a process in the environment of its library with its own defaults for
concurrency and retries (ragas without the embedding part of its score, DeepEval without the file that it rewrites after
every sample), and the clock does not run while it imports. Every turn asks about samples that were not asked about
before. Calls are what the server counts, tokens what it reports: a quarter of the characters; CPU is that of the
contestant's process. A row that is "changed" by faults has another score than without them: the server says the same to
the same, so a bad reply was taken for a good one. Telemetry is off, and connections beyond loopback are refused.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from benchmarks._environments import Missing, python_for  # noqa: E402
from benchmarks._judge_rivals_brain import answer  # noqa: E402
from benchmarks._judge_rivals_contest import CONTESTANTS, DISTRIBUTIONS, KEY, Row  # noqa: E402
from benchmarks._turns import Contestant, Failed, Turn, ratios, rounds, spread  # noqa: E402
from tests.judge_brains import Body, Reply, message_text  # noqa: E402
from tests.judge_server import JudgeServer, scheduled  # noqa: E402

CONTEST = Path(__file__).with_name("_judge_rivals_contest.py")
SAMPLES = 60
LATENCY = 0.05
RATES = (0.0, 0.1)
KINDS = ("rate_limit", "error_500", "error_503", "empty", "prose", "cut_off")
OURS = "answerkey meaning_match"


class Entry:
    """A contestant at one rate of faults, with a server of its own, and what the server counted in each turn."""

    def __init__(self, name: str, rate: float, cache: Path, stack: ExitStack) -> None:
        self.tokens = 0
        faults = scheduled(rate, 0, KINDS) if rate else None
        self.server = stack.enter_context(JudgeServer(self._brain, LATENCY, faults))
        python = python_for(DISTRIBUTIONS.get(name.partition(" ")[0], "").lower() or None, cache)
        self.contestant = Contestant(python, CONTEST, name, OPENAI_API_KEY=KEY)
        stack.callback(self.contestant.close)
        self.calls: list[int] = []
        self.tokens_of: list[int] = []

    def _brain(self, body: Body) -> Reply:
        text = answer(body)
        asked, said = sum(len(message_text(message)) for message in body["messages"]) // 4, len(text) // 4
        self.tokens += asked + said
        return Reply(text, prompt_tokens=asked, completion_tokens=said)

    def turn(self, file: Path) -> Turn:
        """One turn at the samples of a file."""
        calls, tokens = self.server.n_requests, self.tokens
        turn = self.contestant.turn(self.server.url, file)
        self.calls.append(self.server.n_requests - calls)
        self.tokens_of.append(self.tokens - tokens)
        return turn


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Calls, tokens, seconds and processor time of all contestants, by turns, without and with faults."""
    missing: dict[str, str] = {}
    entries: dict[str, Entry] = {}
    with tempfile.TemporaryDirectory(prefix="answerkey-rivals-") as folder, ExitStack() as stack:
        for name in CONTESTANTS:
            for rate in RATES:
                try:
                    entries[f"{name} {rate}"] = Entry(name, rate, cache, stack)
                except (Missing, Failed) as error:
                    missing[name] = str(error)
        files = [Path(folder, f"rows-{number}.json") for number in range(n_rounds + 1)]
        every = example_rows(SAMPLES * len(files))
        for number, file in enumerate(files):
            chosen = every[number * SAMPLES : (number + 1) * SAMPLES]
            file.write_text(json.dumps([asdict(row) for row in chosen]), encoding="utf-8")

        def side(entry: Entry) -> Callable[[], Turn]:
            number = count()
            return lambda: entry.turn(files[next(number)])

        turns, failed = rounds({name: side(entry) for name, entry in entries.items()}, n_rounds)
        versions = {key: value for entry in entries.values() for key, value in entry.contestant.versions.items()}
    rows = [_line(name, rate, entries, turns) for name in CONTESTANTS for rate in RATES if f"{name} {rate}" in turns]
    return {"samples": SAMPLES, "versions": versions, "missing": missing | failed, "rows": rows}


def _line(name: str, rate: float, entries: dict[str, Entry], turns: dict[str, list[Turn]]) -> dict[str, Any]:
    entry, of = entries[f"{name} {rate}"], turns[f"{name} {rate}"]
    without = turns.get(f"{name} {RATES[0]}", of)
    pairs = [pair for a, b in zip(of, without, strict=True) for pair in zip(a.values, b.values, strict=True)]
    return {
        "what": name,
        "faults": rate,
        "calls": round(statistics.median(entry.calls[1:])),
        "tokens": round(statistics.median(entry.tokens_of[1:])),
        "seconds": spread(turn.wall for turn in of),
        "ms": spread(1e3 * turn.cpu / SAMPLES for turn in of),
        "times": ratios(of, turns[f"{OURS} {rate}"]),
        "without": sum(a is None for a, _ in pairs),
        "changed": sum(a != b for a, b in pairs if a is not None and b is not None),
        "of": len(pairs),
    }


def example_rows(number: int) -> list[Row]:
    """The examples, repeated as often as needed; a number after the question makes each repetition a new sample."""
    questions, answers = (
        [json.loads(line) for line in (ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()]
        for name in ("questions.jsonl", "answers.jsonl")
    )
    asked = {row["id"]: row for row in questions}
    rows = (
        Row(f"{asked[row['id']]['question']} ({turn})", row["answer"], asked[row["id"]]["references"][0])
        for turn in count(1)
        for row in answers
        if (row["answer"] or "").strip()
    )
    return list(islice(rows, number))
