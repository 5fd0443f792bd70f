"""From nothing to the first result: ten rows, exact match, by the command of each tool.

    python benchmarks/bench.py first_result

Every turn is the whole command in a fresh process, as a user types it; what it reads is in the cache of the system.
Six of the ten answers are their reference to the letter, so every definition gives .6.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._environments import PINS, Missing, promptfoo, python_of
from benchmarks._turns import Turn, command_turn, ratios, rounds, spread

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    {"id": f"q{n}", "question": f"Which is {n}?", "answer": f"It is {n}" if n < 6 else "no", "reference": f"It is {n}"}
    for n in range(10)
]
LIBRARY = """
import json, sys
from answerkey import Sample, evaluate
rows = map(json.loads, open(sys.argv[1], encoding="utf-8"))
found = evaluate([Sample(row["id"], row["answer"], [row["reference"]]) for row in rows], ["exact_match"])
print(json.dumps(sum(one.values["match"] for one in found) / len(found)), file=open("result.json", "w"))
"""
DEEPEVAL = """
import json
import pytest
from deepeval import assert_test
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase

ROWS = [json.loads(line) for line in open("rows.jsonl", encoding="utf-8")]

@pytest.mark.parametrize("row", ROWS)
def test_row(row):
    case = LLMTestCase(input=row["question"], actual_output=row["answer"], expected_output=row["reference"])
    try:
        assert_test(case, [ExactMatchMetric()], run_async=False)
        outcome = 1
    except AssertionError:
        outcome = 0
    print(outcome, file=open("outcomes", "a"))
"""
RAGAS = """
import json
from ragas import EvaluationDataset, SingleTurnSample, evaluate
from ragas.metrics import ExactMatch

rows = [json.loads(line) for line in open("rows.jsonl", encoding="utf-8")]
samples = [SingleTurnSample(response=row["answer"], reference=row["reference"]) for row in rows]
found = evaluate(EvaluationDataset(samples), [ExactMatch()], show_progress=False)
print(json.dumps(sum(one["exact_match"] for one in found.scores) / len(samples)), file=open("result.json", "w"))
"""
LM_EVAL = """
task: ten
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{reference}}"
generation_kwargs: {until: ["\\n"]}
process_results: !function given.process_results
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
GIVEN = """
def process_results(doc, results):
    return {"exact_match": float(doc["answer"] == doc["reference"])}
"""


def _json(folder: Path, name: str = "result.json") -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def _answerkey(folder: Path) -> Turn:
    shutil.rmtree(folder / "home", ignore_errors=True)
    command = [sys.executable, "-m", "answerkey.flows.cli", "evaluate", "rows.jsonl", "--metrics", "exact_match"]
    command += ["--home", "home", "--json", "--quiet"]

    def mean() -> float:
        text = (folder / "log").read_text(encoding="utf-8")
        return float(json.loads(text[text.index("[{") :])[0]["scores"][0]["mean"])

    return command_turn(command, folder, mean, PYTHONPATH=str(ROOT), PREFECT_API_URL="")


def _library(folder: Path) -> Turn:
    return command_turn(
        [sys.executable, "-c", LIBRARY, "rows.jsonl"], folder, lambda: float(_json(folder)), PYTHONPATH=str(ROOT)
    )


def _deepeval(folder: Path, python: str) -> Turn:
    (folder / "outcomes").unlink(missing_ok=True)
    (folder / "test_rows.py").write_text(DEEPEVAL, encoding="utf-8")
    command = [str(Path(python).with_name("deepeval")), "test", "run", "test_rows.py"]
    return command_turn(command, folder, lambda: _mean((folder / "outcomes").read_text().split()))


def _mean(outcomes: list[str]) -> float:
    return sum(map(float, outcomes)) / len(ROWS)


def _ragas(folder: Path, python: str) -> Turn:
    return command_turn([python, "-c", RAGAS], folder, lambda: float(_json(folder)))


def _lm_eval(folder: Path, python: str) -> Turn:
    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    (tasks / "ten.yaml").write_text(LM_EVAL, encoding="utf-8")
    (tasks / "given.py").write_text(GIVEN, encoding="utf-8")
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [str(Path(python).with_name("lm_eval")), "--model", "dummy", "--tasks", "ten", "--include_path", "tasks"]

    def mean() -> float:
        [file] = (folder / "out").rglob("results*.json")
        return float(json.loads(file.read_text(encoding="utf-8"))["results"]["ten"]["exact_match,none"])

    return command_turn([*command, "--output_path", "out"], folder, mean, HF_HOME=str(folder / "hf"))


def _promptfoo(folder: Path, command: list[str]) -> Turn:
    tests = [
        {"vars": {"answer": row["answer"]}, "assert": [{"type": "equals", "value": row["reference"]}]} for row in ROWS
    ]
    config = {"prompts": ["{{answer}}"], "providers": ["echo"], "tests": tests}
    (folder / "promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    quiet = {f"PROMPTFOO_DISABLE_{what}": "1" for what in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")}
    full = [*command, "eval", "-c", "promptfooconfig.json", "--no-cache", "--no-table", "--output", "result.json"]
    # It says with an exit code that tests failed, as four of the ten do.
    quiet |= {"PROMPTFOO_CONFIG_DIR": str(folder / "config"), "PROMPTFOO_FAILED_TEST_EXIT_CODE": "0"}
    return command_turn(full, folder, lambda: _json(folder)["results"]["stats"]["successes"] / len(ROWS), **quiet)


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Seconds of every tool, and how many times ours."""
    missing: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="answerkey-first-") as name:
        sides: dict[str, Callable[[], Turn]] = {}

        def add(tool: str, make: Callable[[Path], Callable[[], Turn]]) -> None:
            folder = Path(name, tool.replace(" ", "-"))
            folder.mkdir()
            (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
            try:
                sides[tool] = make(folder)
            except Missing as error:
                missing[tool] = str(error)

        def peer(library: str, turn: Callable[[Path, str], Turn]) -> Callable[[Path], Callable[[], Turn]]:
            def make(folder: Path) -> Callable[[], Turn]:
                python = python_of(library, cache)
                return lambda: turn(folder, python)

            return make

        def of_promptfoo(folder: Path) -> Callable[[], Turn]:
            command = promptfoo(cache)
            return lambda: _promptfoo(folder, command)

        add("answerkey evaluate", lambda folder: lambda: _answerkey(folder))
        add("answerkey, the library", lambda folder: lambda: _library(folder))
        add("deepeval test run", peer("deepeval", _deepeval))
        add("ragas, a script", peer("ragas", _ragas))
        add("lm_eval", peer("lm-eval", _lm_eval))
        add("promptfoo eval", of_promptfoo)
        turns, failed = rounds(sides, n_rounds)
    if "answerkey evaluate" in failed:
        raise SystemExit(failed["answerkey evaluate"])
    ours = turns["answerkey evaluate"]
    for tool, theirs in turns.items():
        wrong = {turn.values[0] for turn in theirs} - {0.6}
        if wrong:
            failed[tool] = f"its result was {wrong}, not .6"
            continue
        seconds = {what: spread(getattr(turn, what) for turn in theirs) for what in ("wall", "cpu")}
        rows.append({"tool": tool, **seconds, "times": {what: ratios(theirs, ours, what) for what in seconds}})
    versions = {name: PINS[name][0].partition("==")[2] for name in ("deepeval", "ragas", "lm-eval")}
    return {"versions": versions | {"promptfoo": "0.123.1"}, "missing": missing | failed, "rows": rows}
