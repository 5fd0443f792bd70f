"""Rules and traces made for a test, and a rule's run step by step, as the flow does it."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.registry import create
from answerkey.tasks.score.score import score
from answerkey.tasks.traces.rules import Rule, load_rules
from answerkey.tasks.traces.score import Prepared, commit, prepare
from answerkey.tasks.traces.select import Window
from answerkey.tasks.traces.summary import Funnel
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query

NOW = Window()
MAPPING = {"question": "input", "answer": "output", "references": "expected"}


def trace(number: int, **changes: Any) -> dict[str, Any]:
    """A trace whose answer holds half of the reference; one a minute from the first of November on."""
    return {
        "id": f"t{number}",
        "start_time": f"2026-11-{1 + number // 1440:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00Z",
        "input": f"What is {number}?",
        "output": f"It is {number}",
        "expected": f"{number} indeed",
        "env": "production",
    } | changes


def rule(folder: Path, **changes: Any) -> Rule:
    """A rule in a file under `folder`, on `log.jsonl` beside it."""
    content = {"name": "r", "source": "log.jsonl", "mapping": MAPPING, "metric": "contains"} | changes
    file = folder / f"{content['name']}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    [read] = load_rules([str(file)])
    return read


def prepared(
    home: Path, given: Rule, window: Window = NOW, options: dict[str, Any] | None = None
) -> tuple[Prepared, Path, str]:
    """Everything before the first score, the folder of the rule in the run, and the run's id."""
    run_id = uuid.uuid4().hex
    access = Access(ledger=str(home), run=f"{run_id}/{given.name}")
    [metric] = create([given.metric], {**(options or {}), "access": access})
    out = home / "runs" / run_id / given.name
    return prepare(given, metric, Home(home), out, window), out, run_id


def run(
    home: Path,
    given: Rule,
    window: Window = NOW,
    options: dict[str, Any] | None = None,
    before_commit: Callable[[], object] = lambda: None,
) -> Funnel:
    """All steps of a rule's run."""
    one, out, run_id = prepared(home, given, window, options)
    parts: Sequence[str] = [score(shard, spawn=False) for shard in (one.plan.shards if one.plan else ())]
    before_commit()
    return commit(Home(home), run_id, one, parts, out)


def counts(funnel: Funnel) -> dict[str, int]:
    """The counts that are not 0."""
    names = ("seen", "disabled", "filtered", "sampled_out", "quarantined", "scored", "undefined", "failed", "skipped")
    return {name: getattr(funnel, name) for name in (*names, "again", "measured") if getattr(funnel, name)}


def days(text: str) -> Window:
    """A window as `SINCE/UNTIL`, in UTC; an empty end is open."""
    return Window(*(datetime.fromisoformat(f"{end}T00:00:00Z"[:20]) if end else None for end in text.split("/")))


@dataclass(frozen=True)
class Traces:
    """A log, the rule `r` on it, and a home with what its runs left, in one folder."""

    folder: Path

    @property
    def home(self) -> Home:
        return Home(self.folder)

    def log(self, *traces: Mapping[str, Any] | str) -> None:
        """Write traces, and lines that are none, to the end of the log."""
        jsonl(self.folder / "log.jsonl", traces, mode="a")

    def prepared(self, window: Window = NOW, **changes: Any) -> tuple[Prepared, Path, str]:
        return prepared(self.folder, rule(self.folder, **changes), window)

    def notes(self, window: Window = NOW, **changes: Any) -> tuple[str, ...]:
        return self.prepared(window, **changes)[0].selection.notes

    def run(self, window: Window = NOW, **changes: Any) -> Funnel:
        return run(self.folder, rule(self.folder, **changes), window)

    def counts(self, window: Window = NOW, **changes: Any) -> dict[str, int]:
        return counts(self.run(window, **changes))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return query(self.folder, sql)

    @property
    def outcomes(self) -> dict[str, str]:
        return dict(self.query("SELECT trace_id, outcome FROM trace_outcomes WHERE rule = 'r'"))
