"""Rules and traces made for a test, and a rule's run step by step, as the flow does it."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.registry import create
from answerkey.tasks.score.score import score
from answerkey.tasks.traces.funnel import commit, prepare
from answerkey.tasks.traces.rules import load_rules
from answerkey.tasks.traces.select import Window
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, query

NOW = Window()
MAPPING = {"question": "input", "answer": "output", "references": "expected"}


def trace(number, **changes):
    """A trace whose answer holds half of the reference; one a minute from the first of November on."""
    return {
        "id": f"t{number}",
        "start_time": f"2026-11-{1 + number // 1440:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00Z",
        "input": f"What is {number}?",
        "output": f"It is {number}",
        "expected": f"{number} indeed",
        "env": "production",
    } | changes


def rule(folder, **changes):
    """A rule in a file under `folder`, on `log.jsonl` beside it."""
    content = {"name": "r", "source": "log.jsonl", "mapping": MAPPING, "metric": "contains"} | changes
    file = folder / f"{content['name']}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    [read] = load_rules([str(file)])
    return read


def prepared(home, given, window=NOW, options=None):
    """Everything before the first score, the folder of the rule in the run, and the run's id."""
    run_id = uuid.uuid4().hex
    access = Access(ledger=str(home), run=f"{run_id}/{given.name}")
    [metric] = create([given.metric], {**(options or {}), "access": access})
    out = home / "runs" / run_id / given.name
    return prepare(given, metric, Home(home), out, window), out, run_id


def run(
    home, given, window=NOW, options=None, before_commit=lambda: None, scored=lambda shard: score(shard, spawn=False)
):
    """All steps of a rule's run."""
    one, out, run_id = prepared(home, given, window, options)
    parts = [scored(shard) for shard in (one.plan.shards if one.plan else ())]
    before_commit()
    return commit(Home(home), run_id, one, parts, out)


def counts(funnel):
    """The counts that are not 0, like `5 seen, 5 scored`; those of the buckets add up."""
    buckets = ("disabled", "filtered", "sampled_out", "quarantined", "scored", "undefined", "failed", "skipped")
    assert funnel.seen == sum(getattr(funnel, bucket) for bucket in buckets)
    found = {name: getattr(funnel, name) for name in ("seen", *buckets, "again", "measured")}
    return ", ".join(f"{n} {name}" for name, n in found.items() if n)


def days(text):
    """A window as `SINCE/UNTIL`, in UTC; an empty end is open."""
    return Window(*(datetime.fromisoformat(f"{end}T00:00:00Z"[:20]) if end else None for end in text.split("/")))


@dataclass(frozen=True)
class Traces:
    """A log, the rule `r` on it, and a home with what its runs left, in one folder."""

    folder: Path

    @property
    def home(self):
        return Home(self.folder)

    def log(self, *traces):
        """Write traces, and lines that are none, to the end of the log."""
        jsonl(self.folder / "log.jsonl", traces, mode="a")

    def prepared(self, window=NOW, **changes):
        return prepared(self.folder, rule(self.folder, **changes), window)[0]

    def run(self, window=NOW, **changes):
        return run(self.folder, rule(self.folder, **changes), window)

    def counts(self, window=NOW, **changes):
        return counts(self.run(window, **changes))

    def query(self, sql):
        return query(self.folder, sql)

    @property
    def outcomes(self):
        return dict(self.query("SELECT trace_id, outcome FROM trace_outcomes WHERE rule = 'r'"))
