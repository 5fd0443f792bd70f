"""A run of a rule on the road of every evaluation: select, validate, plan, commit; and how many traces came how far."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from answerkey.metrics_core.formatting import literal
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.metric import Metric
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.publish.artifacts import artifact_key, show_markdown, show_table
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.text import NONE, count, dollars, ends, number
from answerkey.tasks.reports.commit import collect_calls, commit_measurements, insert_calls, insert_quarantine
from answerkey.tasks.score.check import estimate_costs
from answerkey.tasks.score.plan import MAX_SHARDS, Plan, plan
from answerkey.tasks.traces.over_time import by_period, estimate_of, over_time
from answerkey.tasks.traces.rules import Rule
from answerkey.tasks.traces.select import Selection, Window, select
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import validate
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch

_SQL = statements(__name__)
_CONTRACT = Contract(max_quarantined=1.0, references="wanted")
"""Each trace stands for itself: many bad ones are counted, and stop nothing. One without a reference is undefined."""
_MAX_SHOWN = 1_000
_DAYS = 30

BUCKETS: Mapping[str, str] = {
    "disabled": "the rule is switched off",
    "filtered": "do not meet the condition",
    "sampled_out": "not in the sample",
    "quarantined": "cannot be scored",
    "scored": "have a number",
    "undefined": "not scored: no reference",
    "failed": "tried again by the next run",
    "skipped": "left for the next run",
}
"""Where a trace can end, in the order of the way, and what it means there."""


@contextmanager
def alone(home: Home, rules: Sequence[str], say: Callable[[str], object]) -> Iterator[None]:
    """Allow one run of these rules on this home at a time; a second run waits, and `say` is called once.

    A process that dies releases its locks.
    """
    with ExitStack() as stack:
        # In one order everywhere, so that no two runs wait for each other.
        for rule in sorted(set(rules)):
            if not stack.enter_context(home.warehouse.claimed(f"rule-{rule}")):
                say(f"{rule}: another run is at work on this rule; waiting until it is done")
                stack.enter_context(home.warehouse.claimed(f"rule-{rule}", wait=True))
        yield


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of a rule's run before anything is scored.

    Attributes:
        accepted: a Parquet file of the sampled traces that can be scored, with the columns of `staged_schema()`.
        quarantine: one of those that cannot, with the columns of `quarantine_schema()`.
        plan: None if no trace is to be scored.
    """

    rule: Rule
    window: Window
    metric: Metric
    selection: Selection
    accepted: str
    quarantine: str
    plan: Plan | None
    notes: tuple[str, ...]

    @property
    def todo(self) -> int:
        """Measurements to make: those known are not among them, and equal answers count once."""
        return sum(rows for _, rows in self.plan.n_todo) if self.plan else 0


def prepare(
    rule: Rule, metric: Metric, home: Home, out: Path, window: Window, *, most: int = MAX_SHARDS, key_from: str = ""
) -> Prepared:
    """Select the traces of a rule, and plan their scoring. Nothing in the warehouse changes.

    Args:
        metric: that of the rule, without a judge's key.
        out: a folder for this rule in this run alone.
        most: shards that the rule may have.
        key_from: where the key of its judges is kept.

    Raises:
        UserError: as `select`; or a judge is missing.
    """
    import pyarrow.parquet as pq

    selection = select(rule, home, out, window, metric.columns)
    accepted = selection.staged
    quarantine = selection.rejects
    planned = None
    notes = [*selection.notes]
    if pq.read_metadata(accepted).num_rows:
        contract = _CONTRACT
        if "references" not in metric.needs:
            contract = contract.model_copy(update={"references": "unused"})
        validation = validate(accepted, quarantine, str(out), contract, home=home.local)
        accepted = validation.accepted
        quarantine = validation.quarantine
        for check in validation.checks:
            if not check.success and check.release is None and check.rule != "unreadable":
                notes.append(f"{rule.name}: {check.message}")
        if validation.n_accepted:
            planned = plan(accepted, home, out, [metric], only_failed=False, most=most, key_from=key_from)
    return Prepared(rule, window, metric, selection, accepted, quarantine, planned, tuple(notes))


@dataclass(frozen=True, slots=True)
class Selected:
    """How many traces one rule has seen in one run, and how many of them are not to be scored."""

    rule: str
    metric: str
    signature: str
    seen: int
    disabled: int
    filtered: int
    sampled_out: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A trace that would be scored."""

    trace_id: str
    time: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Preview(Selected):
    """The counts of a rule before anything is scored: seen = disabled + filtered + sampled_out + quarantined + taken.

    `measured` measurements would be made for the traces taken; the others are known, or equal each other. `estimate`
    is None where the metric asks no judge. `traces` are the first of those taken, by time.
    """

    taken: int
    measured: int
    estimate: Cost | None
    traces: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Funnel(Selected):
    """The counts of one rule in one run; those of `BUCKETS` add up to `seen`.

    `again` of the seen ones were known from another run; `measured` measurements were made. `mean` is of the main field
    of the metric, with its 95 % interval, as they hold for all traces that should have a number; None: there is none.
    """

    scored: int
    undefined: int
    failed: int
    skipped: int
    again: int
    measured: int
    field: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    watermark: str | None = None


def preview(prepared: Prepared) -> Preview:
    """Count what a run would do; no judge is asked, and nothing changes.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    # What would be scored: sampled, and accepted by the validation
    files = {"accepted": one_file(prepared.accepted), "decided": one_file(prepared.selection.decided)}
    with scratch(Path(prepared.accepted).parent) as connection:
        rows = connection.execute(_SQL["shown"], {**files, "most": _MAX_SHOWN}).fetchall()
    taken = rows[0][0] if rows else 0
    counts = prepared.selection.counts
    return Preview(
        rule=prepared.rule.name,
        metric=prepared.rule.metric,
        signature=prepared.metric.signature,
        seen=prepared.selection.seen,
        disabled=counts["disabled"],
        filtered=counts["filtered"],
        sampled_out=counts["sampled_out"],
        quarantined=counts["quarantined"] + counts["sampled"] - taken,
        taken=taken,
        measured=prepared.todo,
        estimate=next(iter(estimate_costs(prepared.plan)), None) if prepared.plan else None,
        traces=tuple(Shown(*row) for _, *row in rows),
    )


def commit(home: Home, run_id: str, prepared: Prepared, parts: Sequence[str], out: Path) -> Funnel:
    """Commit the results of a run for the traces of a rule, and count where the traces ended.

    A process that dies before the end leaves everything as it was: the next run looks at the same traces, and finds
    the finished parts and the replies of the judges. Committing twice changes nothing.

    Args:
        parts: of the plan's shards; they are dropped afterwards.
        out: the folder of the rule in this run.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    rule = prepared.rule
    selection = prepared.selection
    metric = prepared.metric
    files = {"accepted": one_file(prepared.accepted), "decided": one_file(selection.decided)}
    names = {"rule": rule.name, "metric": metric.name, "signature": metric.signature, "run_id": run_id}
    # The ledger is read first, since nobody else can write while the warehouse is open
    calls = collect_calls(home, parts, out)
    with home.warehouse.writing(taken_in=parts) as warehouse:
        commit_measurements(warehouse, home, run_id, parts)
        if calls:
            insert_calls(warehouse, calls)
        insert_quarantine(warehouse, run_id, rule.name, without_secrets(rule.source), prepared.quarantine)

        # One row per trace: of several rows about one, one that was scored counts
        warehouse.execute(_SQL["ends"], {"signature": metric.signature, **files})
        warehouse.execute(_SQL["new_outcomes"], names)
        warehouse.execute(_SQL["replace_outcomes"])
        warehouse.execute(_SQL["add_outcomes"])

        # The watermark; what was filtered long ago goes, or the outcomes would grow with the log
        watermarks = [selection.last_run.watermark, None if prepared.window.backfill else selection.newest]
        watermark = max(filter(None, watermarks), default=None)
        definition = json.dumps(rule.definition, ensure_ascii=False)
        parameters: dict[str, object] = {
            "rule": rule.name,
            "metric": rule.metric,
            "run_id": run_id,
            "watermark": watermark,
        }
        warehouse.execute("DELETE FROM trace_rules WHERE rule = ?", [rule.name])
        warehouse.execute(_SQL["add_rule"], {**parameters, "definition": definition})
        if rule.late_days is not None and watermark is not None:
            begin = watermark - timedelta(days=rule.late_days)
            warehouse.execute(_SQL["forget_outcomes"], {"rule": rule.name, "begin": begin})

        # The funnel
        counts = dict(warehouse.execute(_SQL["counts"]).fetchall())
        [numbers] = warehouse.execute(_SQL["mean"], {"field": metric.headline}).fetchall()
        mean, low, high = estimate_of(rule.metric, metric.headline, *numbers)
        counts |= {"seen": selection.seen, "again": selection.again, "measured": prepared.todo}
        columns = {column: counts.get(column, 0) for column in ("seen", *BUCKETS, "again", "measured")}
        parameters |= {"since": prepared.window.since, "until": prepared.window.until, "sampling": rule.sampling}
        warehouse.execute("DELETE FROM trace_funnels WHERE run_id = ? AND rule = ?", [run_id, rule.name])
        warehouse.execute(_SQL["add_funnel"], {**parameters, "signature": metric.signature, **columns})
    return Funnel(
        rule=rule.name,
        metric=rule.metric,
        signature=metric.signature,
        **columns,
        field=metric.headline,
        mean=mean,
        low=low,
        high=high,
        watermark=watermark.isoformat() if watermark else None,
    )


def publish(home: Home, funnels: Sequence[Funnel]) -> None:
    """Make a table artifact of the run's funnels, and a markdown artifact of every rule with its days."""
    show_table(funnel_table(funnels), "score-traces", "How many traces came how far")
    for funnel in funnels:
        show_markdown(markdown(home, funnel), artifact_key("rule", funnel.rule), funnel.rule)


def markdown(home: Home, funnel: Funnel) -> str:
    """Write one page about a rule: how many traces of this run came how far, and its mean by day."""
    history = over_time(home, funnel.rule)
    parts = [
        f"# {literal(funnel.rule)}",
        f"`{funnel.signature}`",
        funnel_table([funnel]).markdown(),
        f"{funnel.measured:,} measurements were made; the others were known, or equal each other.",
        f"## {literal(history.name)} by day",
        by_period("", "day", history.periods[-_DAYS:]).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def funnel_table(funnels: Sequence[Funnel]) -> Table:
    """Return a column a rule: how many traces were seen, where each of them ended, and the mean of the main field."""
    meanings = {}
    for name, meaning in {"again": "of these, seen before", **BUCKETS}.items():
        if name == "scored" or any(getattr(funnel, name) for funnel in funnels):
            meanings[name] = meaning
    means = [
        ("field", *(f"{funnel.metric}.{funnel.field}" for funnel in funnels), ""),
        ("mean", *(number(funnel.mean) for funnel in funnels), ""),
        ("95 % interval", *(ends(funnel.low, funnel.high) for funnel in funnels), ""),
    ]
    return _by_rule(funnels, [{"seen": ""}, meanings], means)


def preview_table(previews: Sequence[Preview]) -> Table:
    """Return a column a rule: what a run would do with its traces, and what it would ask judges."""
    meanings = {
        "seen": "",
        **{name: BUCKETS[name] for name in ("disabled", "filtered", "sampled_out", "quarantined")},
        "taken": "would have a score",
        "measured": "of them: measurements to make",
    }
    estimates = [preview.estimate for preview in previews]
    calls = [count(estimate.calls if estimate else None) for estimate in estimates]
    costs = [dollars(estimate.cost_usd) if estimate else NONE for estimate in estimates]
    judges = [("calls", *calls, "to judges"), ("cost", *costs, "")] if any(estimates) else []
    return _by_rule(previews, [meanings], judges)


def _by_rule(
    rules: Sequence[Selected], counts: Sequence[Mapping[str, str]], last_rows: Sequence[tuple[str, ...]]
) -> Table:
    """Return a column for each rule with its counts in groups, and one that says what each row is; then `last_rows`."""
    rows = []
    groups = []
    # Lines between the groups keep apart what adds up
    for group, meanings in enumerate(counts):
        for name, meaning in meanings.items():
            rows.append((name.replace("_", " "), *(count(getattr(rule, name)) for rule in rules), meaning))
            groups.append(group)
    groups += [len(counts)] * len(last_rows)
    head = ("traces", *(rule.rule for rule in rules), "")
    return Table("", head, [*rows, *last_rows], left=[""], wrapped={"": 16}, groups=groups)
