"""Score logged traces by rules: new ones, or those of a range of dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from answerkey.flows.evaluate_release import score_shard, try_judges
from answerkey.flows.fan_out import fan_out
from answerkey.flows.parameters import Judging, Scoring, Tracing, preflight
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import Run, form_of, log, started
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import JudgeMetric
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.cost import total_usd
from answerkey.metrics_core.llm.model import check_reachable
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.progress import Advance, tell
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.publish.artifacts import show_table
from answerkey.tasks.publish.text import price
from answerkey.tasks.score.plan import MAX_SHARDS, Plan
from answerkey.tasks.traces.funnel import (
    BUCKETS,
    Funnel,
    Prepared,
    Preview,
    alone,
    commit,
    prepare,
    preview,
    preview_table,
    publish,
)
from answerkey.tasks.traces.rules import Rule, instant, load_rules
from answerkey.tasks.traces.select import Window, check_source, newest_version
from answerkey.tasks.warehouse.home import Home

prepare_traces = task(prepare, name="prepare", task_run_name="prepare {rule.name}")
preview_traces = task(preview, name="preview", task_run_name="preview {prepared.rule.name}")
commit_traces = task(commit, name="commit", task_run_name="commit {prepared.rule.name}")
publish_traces = task(publish, name="publish")

_TRACING = Tracing()


def _run_name() -> str:
    form = form_of("traces", Tracing)
    return f"score traces: {', '.join(form.only or (Path(file).stem for file in form.rules))}"


@flow(
    name="score-traces",
    description="Score new logged traces by rules: a condition, a sample, a metric.",
    flow_run_name=_run_name,
)
def score_traces(traces: Tracing = _TRACING, home: str = ".answerkey") -> list[Funnel] | list[Preview]:
    """Score the traces that rules take, and return how many came how far; after a dry run, what would be done.

    Args:
        traces: Which rules to run, and on which traces.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
    """
    with started(home) as run:
        window = window_of(traces)
        todo = jobs(traces, run.home, run.id)
        names = [job.rule.name for job in todo]
        with run.recorded("score-traces", ", ".join(names), traces.model_dump(), dry_run=traces.dry_run):
            if traces.dry_run:
                return _preview(todo, run, window)
            with alone(run.home, names, log.info):
                return _score(todo, run, window)


def _score(todo: Sequence[Job], run: Run, window: Window) -> list[Funnel]:
    prepared, problems = _prepared(todo, run, window)

    # The judges: whether those without a fallback can be reached, and how they do on questions with known answers
    for prepared_rule in prepared:
        metric = prepared_rule.plan.metrics[0] if prepared_rule.plan and prepared_rule.todo else None
        if isinstance(metric, JudgeMetric) and metric.workload == "judge" and not metric.judge.fallbacks:
            with _located_at(prepared_rule.rule, "judge"):
                check_reachable(metric.judge.models())
    for index, prepared_rule in enumerate(prepared):
        if prepared_rule.plan and prepared_rule.plan.known_answers:
            plan: Plan = try_judges(prepared_rule.plan)
            prepared[index] = replace(prepared_rule, plan=plan)

    # The shards of all rules side by side
    plans = [prepared_rule.plan for prepared_rule in prepared if prepared_rule.plan]
    shards = [*chain.from_iterable(plan.shards for plan in plans)]
    parts = fan_out(score_shard, shards, remedy="the next run tries again")

    # How many traces of each rule came how far
    funnels = []
    tell(Advance("commit"))
    for prepared_rule in prepared:
        rule_parts = []
        if prepared_rule.plan:
            rule_parts = [parts[shard.part] for shard in prepared_rule.plan.shards]
        out = run.folder / prepared_rule.rule.name
        funnel = commit_traces(run.home, run.id, prepared_rule, parts=rule_parts, out=out)
        funnels.append(funnel)
        counts = {bucket.replace("_", " "): getattr(funnel, bucket) for bucket in BUCKETS}
        ends = [f"{n:,} {bucket}" for bucket, n in counts.items() if n]
        log.info(": ".join(filter(None, (f"{funnel.rule}: {funnel.seen:,} seen", ", ".join(ends)))))
    publish_traces(run.home, funnels)
    if problems:
        # The other rules are done; these are reported at the end, and make the run a failed one.
        raise UserError("\n".join(problems))
    return funnels


def _prepared(todo: Sequence[Job], run: Run, window: Window) -> tuple[list[Prepared], list[str]]:
    """Every rule prepared for scoring, and the problems of those whose source cannot be used."""
    max_shards = max(1, MAX_SHARDS // len(todo))
    prepared: list[Prepared] = []
    problems: list[str] = []
    for job in todo:
        tell(Advance(f"select {job.rule.name}"))
        try:
            prepared_rule = prepare_traces(
                job.rule,
                job.metric,
                run.home,
                out=run.folder / job.rule.name,
                window=window,
                most=max_shards,
                key_from=job.key_from,
            )
        except UserError as error:
            problems.append(str(error))
            continue
        for note in prepared_rule.notes:
            log.warning(note)
        log.info(
            f"{prepared_rule.rule.name}: {prepared_rule.selection.seen:,} traces seen, {prepared_rule.todo:,} to score"
        )
        prepared.append(prepared_rule)
    return prepared, problems


def _preview(todo: Sequence[Job], run: Run, window: Window) -> list[Preview]:
    prepared, problems = _prepared(todo, run, window)
    previews = [preview_traces(rule) for rule in prepared]
    estimates = [preview.estimate for preview in previews if preview.estimate]
    show_table(preview_table(previews), "dry-run-score-traces", "Which traces the rules would score")
    calls = sum(estimate.calls for estimate in estimates)
    log.info(f"dry run: {calls:,} calls, {price(total_usd(estimates))}; no judge was asked, and nothing was scored")
    if problems:
        raise UserError("\n".join(problems))
    return previews


def window_of(form: Tracing) -> Window:
    """The traces of a backfill, or no window.

    Raises:
        UserError: a day does not exist, or nothing lies between the two.
    """
    since = _moment("since", form.since)
    until = _moment("until", form.until)
    if since and until and since >= until:
        raise UserError(f"--since {form.since} --until {form.until}: nothing lies between them; until is exclusive")
    return Window(since, until)


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    if (moment := instant(text)) is None:
        raise UserError(f"--{name} {text}: write a day or a time, like 2026-11-01 or 2026-11-01T12:00Z")
    return moment


@dataclass(frozen=True, slots=True)
class Job:
    """A rule with everything needed to run it; `key_from` says where the key of its judges is."""

    rule: Rule
    metric: Metric
    key_from: str


def jobs(form: Tracing, home: Home, run_id: str) -> tuple[Job, ...]:
    """The rules of a form. Everything that can be checked before the traces are read is checked here.

    Raises:
        UserError: a rule, a source, a data set or a judge cannot be used; each line has file, line and key.
    """
    todo = []
    for rule in load_rules(form.rules, form.only):
        with _located_at(rule, "source"):
            check_source(rule.source)
        if rule.dataset:
            newest_version(rule, home)

        # The judges, if the metric asks any
        scoring = _form(rule, "options", Scoring, rule.options, metrics=[rule.metric])
        judge = OFFLINE_JUDGE
        key_from = ""
        if scoring.asks_judges:
            judging = _form(rule, "judge", Judging, rule.judge)
            with _located_at(rule, "judge"):
                judge = judging.options()
                key_from = judging.key_from
                if rule.enabled:
                    preflight(judge, key_from, needs_key=not form.dry_run)

        # Each rule has a budget of its own
        access = Access(ledger=home.ledger, run=f"{run_id}/{rule.name}")
        with _located_at(rule, "options"):
            [metric] = scoring.create(home.embeddings, judge, access)
            # A signature names the model, so a model that is not there is found before anything starts
            _ = metric.signature
        todo.append(Job(rule, metric, key_from))
    return tuple(todo)


@contextmanager
def _located_at(rule: Rule, key: str) -> Iterator[None]:
    """Say where in its file the rule has what cannot be used."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{rule.line(key)}: {key}: {error}") from error


_Model = TypeVar("_Model", bound=BaseModel)
_NOT_IN_RULES = ("metrics", "own_metrics", "only_failed")


def _form(rule: Rule, key: str, form: type[_Model], content: Mapping[str, Any], **fixed: Any) -> _Model:
    choices = [name for name in form.model_fields if name not in _NOT_IN_RULES]
    for name in content:
        if name not in choices:
            position = f"{key}.{name}"
            raise UserError(
                f"{rule.line(position)}: {position}: there is no such key; choose from {', '.join(choices)}"
            )
    try:
        return form(**content, **fixed)
    except InvalidValue as error:
        position = f"{key}.{error.field}" if error.field else key
        raise UserError(f"{rule.line(position)}: {position}: {error.problem}") from None
