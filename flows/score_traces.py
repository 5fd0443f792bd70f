"""Score logged traces by rules: new ones, or those of a range of dates. It only wires the steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from answerkey.flows import steps
from answerkey.flows.fan_out import Runner, fan_out, runner_at
from answerkey.flows.parameters import LOCAL, RunnerAddress
from answerkey.flows.prefect_or_local import flow
from answerkey.flows.runs import Run, log, started
from answerkey.flows.tracing import Job, Tracing, jobs
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.llm.cost import total_usd
from answerkey.metrics_core.progress import Advance, tell
from answerkey.tasks.publish.artifacts import show_table
from answerkey.tasks.publish.text import price
from answerkey.tasks.score.plan import MAX_SHARDS
from answerkey.tasks.traces.score import Prepared, Preview, alone, preview_table
from answerkey.tasks.traces.select import Window
from answerkey.tasks.traces.summary import BUCKETS, Funnel

_TRACING = Tracing()


def _run_name() -> str:
    from prefect.runtime import flow_run

    given = flow_run.parameters["traces"]
    form = given if isinstance(given, Tracing) else Tracing(**given)
    return f"score traces: {', '.join(form.only or (Path(place).stem for place in form.rules))}"


@flow(
    name="score-traces",
    description="Score new logged traces by rules: a condition, a sample, a metric.",
    flow_run_name=_run_name,
)
def score_traces(
    traces: Tracing = _TRACING, home: str = ".answerkey", *, runner: RunnerAddress = LOCAL
) -> list[Funnel] | list[Preview]:
    """Score the traces that rules take, and return how many came how far; after a dry run, what would be done.

    Args:
        traces: Which rules to run, and on which traces.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        runner: Where traces are scored: local, or dask://HOST:PORT of a Dask scheduler, whose workers do it.
    """
    with started(home) as run:
        window, todo = traces.window(), jobs(traces, run.home, run.id)
        names = [job.rule.name for job in todo]
        with run.recorded("score-traces", ", ".join(names), traces.model_dump(), dry_run=traces.dry_run):
            if traces.dry_run:
                return _preview(todo, run, window)
            chosen = runner_at(runner)
            chosen.check(run.home, [(job.metric, job.key_from) for job in todo])
            with alone(run.home, names, log.info):
                return _score(todo, run, window, chosen)


def _score(todo: Sequence[Job], run: Run, window: Window, runner: Runner) -> list[Funnel]:
    prepared, problems = _prepared(todo, run, window, runner.most_shards)
    keys = {job.rule.name: job.key_from for job in todo}
    key_from = {shard.part: keys[one.rule.name] for one in prepared if one.plan for shard in one.plan.shards}
    shards = [shard for one in prepared if one.plan for shard in one.plan.shards]
    parts = fan_out(runner, shards, lambda shard: key_from[shard.part], remedy="the next run tries again")
    funnels = []
    tell(Advance("commit"))
    for one in prepared:
        own = [parts[shard.part] for shard in (one.plan.shards if one.plan else ())]
        funnels.append(steps.commit_traces(run.home, run.id, one, own, run.folder / one.rule.name))
        log.info(_line(funnels[-1]))
    steps.publish_traces(run.home, funnels)
    if problems:
        # The other rules are done; these are reported at the end, and make the run a failed one.
        raise UserError("\n".join(problems))
    return funnels


def _prepared(
    todo: Sequence[Job], run: Run, window: Window, most_shards: int = MAX_SHARDS
) -> tuple[list[Prepared], list[str]]:
    """Every rule prepared for scoring, and the problems of those whose source cannot be used."""
    most = max(1, most_shards // len(todo))
    prepared, problems = [], []
    for job in todo:
        tell(Advance(f"select {job.rule.name}"))
        try:
            one = steps.prepare_traces(job.rule, job.metric, run.home, run.folder / job.rule.name, window, most=most)
        except UserError as error:
            problems.append(str(error))
            continue
        for note in (*one.selection.notes, *one.staged.notes):
            log.warning(note)
        log.info(f"{one.rule.name}: {one.selection.seen:,} traces seen, {one.todo:,} to score")
        prepared.append(one)
    return prepared, problems


def _line(funnel: Funnel) -> str:
    counts = ", ".join(
        f"{getattr(funnel, bucket):,} {bucket.replace('_', ' ')}" for bucket in BUCKETS if getattr(funnel, bucket)
    )
    return f"{funnel.rule}: {funnel.seen:,} seen{': ' if counts else ''}{counts}"


def _preview(todo: Sequence[Job], run: Run, window: Window) -> list[Preview]:
    prepared, problems = _prepared(todo, run, window)
    previews = [steps.preview_traces(one) for one in prepared]
    estimates = [one.estimate for one in previews if one.estimate]
    show_table(preview_table(previews), "dry-run-score-traces", "Which traces the rules would score")
    calls = sum(one.calls for one in estimates)
    log.info(f"dry run: {calls:,} calls, {price(total_usd(estimates))}; no judge was asked, and nothing was scored")
    if problems:
        raise UserError("\n".join(problems))
    return previews
