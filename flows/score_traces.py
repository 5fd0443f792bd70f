"""Score logged traces by rules: those that are new, or those of a range of dates. It only wires the steps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run

from answerkey.flows.evaluate_release import score_runner, this_run, work_folder
from answerkey.flows.fan_out import fan_out
from answerkey.flows.run_log import log
from answerkey.flows.tracing import Job, Tracing, jobs
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.cost import total_usd
from answerkey.tasks import steps
from answerkey.tasks.publish.text import dollars, price
from answerkey.tasks.reports.commit import recorded
from answerkey.tasks.score.plan import MAX_CHUNKS
from answerkey.tasks.score.score import worth_spawning
from answerkey.tasks.traces.score import Prepared, Preview, alone
from answerkey.tasks.traces.select import Window
from answerkey.tasks.traces.summary import BUCKETS, Funnel
from answerkey.tasks.warehouse.home import Home

_TRACING = Tracing()


def _run_name() -> str:
    given = flow_run.parameters["traces"]
    form = given if isinstance(given, Tracing) else Tracing(**given)
    return f"score traces: {', '.join(form.only or (Path(place).stem for place in form.rules))}"


@flow(
    name="score-traces",
    description="Score new logged traces by rules: a condition, a sample, a metric.",
    flow_run_name=_run_name,
    retries=0,
    persist_result=False,
    validate_parameters=True,
    task_runner=score_runner(),
)
def score_traces(traces: Tracing = _TRACING, home: str = ".answerkey") -> list[Funnel] | list[Preview]:
    """Score the traces that rules take, and return how many came how far; after a dry run, what would be done.

    Args:
        traces: Which rules to run, and on which traces.
        home: The folder of the warehouse, on a disk of the machine that runs this.
    """
    place, run_id = Home.parse(home), this_run()
    window, todo = traces.window(), jobs(traces, place, run_id)
    names = [job.rule.name for job in todo]
    dry_run = traces.dry_run
    with recorded(place, run_id, "score-traces", ", ".join(names), traces.model_dump(), dry_run=dry_run):
        try:
            if dry_run:
                return _preview(todo, place, run_id, window)
            with alone(place, names, log.info):
                return _score(todo, place, run_id, window)
        finally:
            # Copies only: what they held is in the warehouse, or can be read again.
            shutil.rmtree(work_folder(place, run_id), ignore_errors=True)


def _score(todo: Sequence[Job], home: Home, run_id: str, window: Window) -> list[Funnel]:
    prepared, problems = _prepared(todo, home, run_id, window)
    keys = {job.rule.name: job.key_from for job in todo}
    key_from = {chunk.part: keys[one.rule.name] for one in prepared if one.plan for chunk in one.plan.chunks}
    chunks = [chunk for one in prepared if one.plan for chunk in one.plan.chunks]
    spawn = worth_spawning(chunks)
    parts = fan_out(chunks, lambda chunk: key_from[chunk.part], spawn=spawn, remedy="the next run tries again")
    funnels = []
    for one in prepared:
        own = [parts[chunk.part] for chunk in (one.plan.chunks if one.plan else ())]
        funnels.append(steps.commit_traces_step(home, run_id, one, own, _folder(home, run_id, one.rule.name)))
        log.info(_told(funnels[-1]))
    steps.publish_traces_step(home, funnels)
    if problems:
        # The other rules are done; this one is told at the end, and makes the run a failed one.
        raise UserError("\n".join(problems))
    return funnels


def _prepared(todo: Sequence[Job], home: Home, run_id: str, window: Window) -> tuple[list[Prepared], list[str]]:
    """Every rule up to its first score, and what is wrong with those whose source cannot be used."""
    most = max(1, MAX_CHUNKS // len(todo))
    prepared, problems = [], []
    for job in todo:
        out = _folder(home, run_id, job.rule.name)
        try:
            one = steps.prepare_traces_step(job.rule, job.metric, home, out, window, most=most)
        except UserError as error:
            problems.append(str(error))
            continue
        for note in (*one.selection.notes, *one.staged.notes):
            log.warning(note)
        log.info(f"{one.rule.name}: {one.selection.seen:,} traces seen, {one.todo:,} to score")
        prepared.append(one)
    return prepared, problems


def _folder(home: Home, run_id: str, rule: str) -> Path:
    return work_folder(home, run_id) / rule


def _told(funnel: Funnel) -> str:
    counts = ", ".join(
        f"{getattr(funnel, bucket):,} {bucket.replace('_', ' ')}" for bucket in BUCKETS if getattr(funnel, bucket)
    )
    return f"{funnel.rule}: {funnel.seen:,} seen{': ' if counts else ''}{counts}"


def _preview(todo: Sequence[Job], home: Home, run_id: str, window: Window) -> list[Preview]:
    prepared, problems = _prepared(todo, home, run_id, window)
    previews = [steps.preview_traces_step(one) for one in prepared]
    estimates = [one.estimate for one in previews if one.estimate]
    rows = [
        {**asdict(one), "estimate": dollars(one.estimate.cost_usd) if one.estimate else "–", "traces": len(one.traces)}
        for one in previews
    ]
    create_table_artifact(rows, key="dry-run-score-traces", description="Which traces the rules would score")
    calls = sum(one.calls for one in estimates)
    log.info(f"dry run: {calls:,} calls, {price(total_usd(estimates))}; no judge was asked, and nothing was scored")
    if problems:
        raise UserError("\n".join(problems))
    return previews
