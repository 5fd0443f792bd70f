"""Everything about a rule's run up to the first score: which traces, what is left to measure, in which chunks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from answerkey.metrics_core.registry import Options, create
from answerkey.tasks.score.plan import MAX_CHUNKS, Plan, plan
from answerkey.tasks.traces.rules import Rule
from answerkey.tasks.traces.select import Selection, Window, select
from answerkey.tasks.traces.stage import Staged, stage
from answerkey.tasks.warehouse.home import Home


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of a rule's run before anything is scored. `plan` is None where no trace is to be scored."""

    rule: Rule
    window: Window
    signature: str
    selection: Selection
    staged: Staged
    plan: Plan | None

    @property
    def todo(self) -> int:
        """Measurements to make: those known are not among them, and equal answers count once."""
        return sum(rows for _, rows in self.plan.n_todo) if self.plan else 0


def prepare(rule: Rule, options: Options, home: Home, out: Path, window: Window, *, most: int = MAX_CHUNKS) -> Prepared:
    """Select the traces of a rule, stage them, and plan their scoring. Nothing in the warehouse changes.

    Args:
        options: of the rule's metric, without a judge's key.
        out: a folder for this rule in this run alone.
        most: chunks that the rule may have.

    Raises:
        UserError: the source cannot be read, an id or a time stands nowhere, or a data set or a judge is missing.
    """
    selection = select(rule, home, out, window)
    staged = stage(rule, home, selection, out)
    planned = None
    if staged.accepted:
        planned = plan(staged.accepted, home, out, [rule.metric], options, only_failed=False, most=most)
    [metric] = create([rule.metric], options)
    return Prepared(rule, window, metric.signature, selection, staged, planned)
