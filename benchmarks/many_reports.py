"""Reading a home with a thousand reports: `report`, `history`, `compare`, the page, the overview.

    python benchmarks/bench.py many_reports

The home is made by the steps of the pipeline in one process: 1,000 releases of one data set, 50 questions each, in
runs of 100 releases, so that there is a report for each. Then each command runs as a process of its own, by turns; its
time is that of the whole command. The bar is two seconds.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from answerkey.tasks.load.load import Source  # noqa: E402
from answerkey.tasks.warehouse.home import Home  # noqa: E402
from benchmarks._turns import command_turn, rounds, spread  # noqa: E402
from tests.tasks.staging_help import run  # noqa: E402

RELEASES, PER_RUN, QUESTIONS = 1_000, 100, 50
METRICS = ("rouge_l", "token_overlap", "exact_match")
OLD, NEW = "bot-0998", "bot-0999"
COMMANDS = {
    "report": ("report", NEW),
    "report --list": ("report", "--list"),
    "history": ("history", "rouge_l.recall"),
    "compare": ("compare", OLD, NEW),
    "page of two": ("report", OLD, NEW, "--html", "page.html"),
}


def build(folder: Path, releases: int = RELEASES, per_run: int = PER_RUN, questions: int = QUESTIONS) -> Home:
    """A home with a report for each of so many releases."""
    home, rng = Home(folder / "home"), random.Random(7)
    for first in range(0, releases, per_run):
        file = folder / "answers.jsonl"
        with file.open("w", encoding="utf-8") as out:
            for number in range(first, min(first + per_run, releases)):
                for question in range(questions):
                    right = rng.random() < 0.6 + 0.2 * number / releases
                    out.write(json.dumps({
                        "id": f"q{question}",
                        "release": f"bot-{number:04}",
                        "question": f"How many bridges has river {question}?",
                        "answer": f"River {question} has {question + 2 + 7 * (not right)} bridges, says bot {number}.",
                        "reference": f"River {question} has {question + 2} bridges",
                    }) + "\n")  # fmt: skip
        run(home, Source(str(file), dataset="rivers"), METRICS)
    home.warehouse.publish()
    return home


def figures(cache: Path, n_rounds: int) -> dict[str, Any]:
    """Seconds of each command."""
    with tempfile.TemporaryDirectory(prefix="answerkey-reports-") as name:
        folder, start, cpu = Path(name), time.perf_counter(), time.process_time()
        home = build(folder)
        built = {"seconds_to_build": round(time.perf_counter() - start), "mib": round(home.warehouse.size()[1] / 2**20)}
        print(built, time.process_time() - cpu, flush=True)
        base = [sys.executable, "-m", "answerkey.flows.cli"]
        variables = {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}

        def side(words: tuple[str, ...]) -> Any:
            command = [*base, *words, "--home", str(home.local)]
            return lambda: command_turn(command, folder, lambda: (folder / "log").stat().st_size, **variables)

        turns, failed = rounds({what: side(words) for what, words in COMMANDS.items()}, n_rounds)
    rows = [
        {"command": what, **{how: spread(getattr(turn, how) for turn in of) for how in ("wall", "cpu")}}
        for what, of in turns.items()
    ]
    return {"releases": RELEASES, "questions": QUESTIONS, **built, "missing": failed, "rows": rows}


if __name__ == "__main__":
    # A home to look at.
    build(Path(sys.argv[1]), int(os.environ.get("RELEASES", RELEASES)))
