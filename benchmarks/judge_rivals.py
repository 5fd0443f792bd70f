"""answerkey's judges beside ragas, DeepEval and Inspect: the same samples, one server on loopback, also with faults.

    python benchmarks/judge_rivals.py [--rows 500] [--rivals-python PATH]

The libraries are no dependencies of this project: what PATH (or RIVALS_PYTHON, or else this interpreter) cannot import
is left out, and `--install FOLDER` makes an environment for them there.

A sample has a question, an answer and one reference, made from the examples; blank answers are left out, since ragas
and DeepEval do not take them. Every contestant is a fresh process with its own defaults for concurrency and retries
(ragas without the embedding part of its score, DeepEval without the file that it rewrites after every sample), and
the clock does not run while it imports. Calls are what the server counts, tokens what it reports: a quarter of the
characters; CPU is that of the contestant's process. A row that is "changed" by faults has another score than without
them: the server says the same to the same, so a bad reply was taken for a good one. Telemetry is off, and connections
beyond loopback are refused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._judge_rivals_brain import answer  # noqa: E402
from benchmarks._judge_rivals_contest import CONTESTANTS, KEY, Row, Scores  # noqa: E402
from tests.judge_brains import Body, Reply, message_text  # noqa: E402
from tests.judge_server import JudgeServer, scheduled  # noqa: E402

CONTEST = Path(__file__).with_name("_judge_rivals_contest.py")
LATENCY = 0.05
RATES = (0.0, 0.1)
KINDS = ("rate_limit", "error_500", "error_503", "empty", "prose", "cut_off")
LONGEST = 300.0
RIVALS = ("ragas==0.4.3", "deepeval==4.3.1", "langchain-community<0.4.2", "instructor>=1.10", "inspect-ai", "openai")
ENVIRONMENT = {
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "OPENAI_API_KEY": KEY,
}


@dataclass(frozen=True)
class Outcome:
    """What the server counted for a contestant, and its result; no scores where it did not finish in time."""

    calls: int
    tokens: int
    at_once: int
    seconds: float
    cpu: float
    scores: Scores | None


def outcome(name: str, python: str, rows: list[Row], rate: float) -> Outcome:
    """Run a contestant in a process of its own against a server of its own.

    Raises:
        RuntimeError: the process failed, with the last line that it wrote.
    """
    tokens: list[int] = []

    def brain(body: Body) -> Reply:
        text = answer(body)
        asked, said = sum(len(message_text(message)) for message in body["messages"]) // 4, len(text) // 4
        tokens.append(asked + said)
        return Reply(text, prompt_tokens=asked, completion_tokens=said)

    faults = scheduled(rate, 0, KINDS) if rate else None
    with tempfile.TemporaryDirectory() as folder, JudgeServer(brain, LATENCY, faults) as server:
        given, result = Path(folder, "rows.json"), Path(folder, "result.json")
        given.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
        command = [python, str(CONTEST), name, server.url, str(given), str(result)]
        # Both libraries keep files in the home and in the working folder.
        environment = ENVIRONMENT | {"HOME": folder, "PATH": os.environ["PATH"]}
        try:
            done = subprocess.run(
                command, env=environment, cwd=folder, timeout=LONGEST, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(server.n_requests, sum(tokens), server.max_in_flight, LONGEST, 0.0, None)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}")
        found = json.loads(result.read_text(encoding="utf-8"))
        used = found["seconds"], found["cpu"], found["scores"]
        return Outcome(server.n_requests, sum(tokens), server.max_in_flight, *used)


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


def installed(distribution: str, python: str) -> str | None:
    """Its version in that interpreter; None if it is not installed."""
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def environment_in(folder: str) -> str:
    """Make a virtual environment with the other libraries, as far as they can be installed; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = str(Path(folder, "bin", "python"))
    for names in (RIVALS[:4], RIVALS[4:]):
        done = subprocess.run([python, "-m", "pip", "install", "-q", *names], check=False)
        if done.returncode:
            print(f"{' '.join(names)} cannot be installed")
    return python


def line(rate: float, got: Outcome, without: Outcome) -> str:
    """Figures of one run; `without` is that without faults."""
    head = f"{rate:6.0%} {got.calls:6d} {got.tokens:9d} {got.at_once:8d}"
    if got.scores is None or without.scores is None:
        return f"{head}    stopped after {LONGEST:g} s"
    missing = got.scores.count(None)
    pairs = zip(got.scores, without.scores, strict=True)
    changed = sum(a != b for a, b in pairs if a is not None and b is not None)
    each = 1e3 * got.cpu / max(got.calls, 1)
    return f"{head} {got.seconds:8.1f} {each:11.1f} {missing:9d} {changed:8d}"


def main() -> None:
    parser = argparse.ArgumentParser(description="answerkey and others against the same loopback server")
    parser.add_argument("--rows", type=int, default=500, help="samples (default 500)")
    parser.add_argument("--rivals-python", default=os.environ.get("RIVALS_PYTHON", sys.executable), metavar="PATH")
    parser.add_argument("--install", metavar="FOLDER", help="make an environment with the other libraries there")
    arguments = parser.parse_args()
    if arguments.install:
        arguments.rivals_python = environment_in(arguments.install)
    rows = example_rows(arguments.rows)
    print(f"{len(rows)} samples, {LATENCY:g} s a reply; faults are {', '.join(KINDS)}")
    print(f"{'':40} faults  calls    tokens  at once  seconds  CPU ms/call  no score  changed")
    for name in CONTESTANTS:
        distribution = name.partition(" ")[0].lower()
        python = sys.executable if distribution == "answerkey" else arguments.rivals_python
        version = installed(distribution, python)
        if version is None:
            print(f"{name:40} not installed")
            continue
        outcomes: list[Outcome] = []
        try:
            for rate in RATES:
                outcomes.append(outcome(name, python, rows, rate))
                print(f"{f'{name} {version}':40} {line(rate, outcomes[-1], outcomes[0])}", flush=True)
        except RuntimeError as error:
            print(f"{f'{name} {version}':40} failed: {error}")


if __name__ == "__main__":
    main()
