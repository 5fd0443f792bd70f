"""The main flow: from a file of answers to versioned reports. It only wires the steps."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture, as_completed
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.judging import Judging, preflight
from flows.parameters import Data, Limits, Scoring
from flows.terminal import dollars, price
from metrics_core.errors import BadInput
from metrics_core.judge.foresight import Estimate, total
from metrics_core.judge.options import NO_JUDGE, JudgeOptions
from tasks import steps
from tasks.commit import finish_run, start_run
from tasks.load import Loaded, Source, dataset_name
from tasks.manifest import manifest
from tasks.parts import Chunk
from tasks.plan import Plan
from tasks.publish import artifact_key
from tasks.report_names import check_baseline, report_named
from tasks.score import in_good_order, worth_spawning
from tasks.validate import Validation

log = logging.getLogger("answerkey")
# What a run says is for its reader in the UI as well. A worker has set up its logging before it imports this.
log.setLevel(logging.INFO)
log.addHandler(APILogHandler())
_SCORING, _JUDGING, _LIMITS = Scoring(), Judging(), Limits()


def _run_name() -> str:
    data = flow_run.parameters["data"]
    answers = data["answers"] if isinstance(data, dict) else data.answers
    release = data["release"] if isinstance(data, dict) else data.release
    return f"evaluate {release or Path(answers).stem}"


@flow(
    name="evaluate-release",
    description="Score the answers of one or more releases against known answers, and report.",
    flow_run_name=_run_name,
    retries=0,
    persist_result=False,
    validate_parameters=True,
    # Threads mostly wait for processes and models; two more than there are cores keep both busy.
    task_runner=ThreadPoolTaskRunner(max_workers=2 + (os.cpu_count() or 1)),  # type: ignore[arg-type]
)
def evaluate_release(
    data: Data,
    scoring: Scoring = _SCORING,
    judging: Judging = _JUDGING,
    limits: Limits = _LIMITS,
    home: str = ".answerkey",
    baseline: str = "",
) -> list[str] | list[Estimate]:
    """Evaluate releases and return the ids of their reports; after a dry run, what the judges would be asked.

    Args:
        data: What to evaluate.
        scoring: How to score it.
        judging: Whom to ask, where the key is, and what it may cost.
        limits: When the data are too bad to score, and the scores too few to trust.
        home: The folder of the warehouse, on a disk of the machine that runs this.
        baseline: A release, or a report, that every other release is compared with. Empty: none is.
    """
    folder = Path(home)
    run_id = str(flow_run.id or uuid.uuid4())
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters = {name: form.model_dump() for name, form in forms.items()} | {"baseline": baseline}
    run = _Run(folder, run_id, data.source(), scoring, judging, limits, parameters, baseline)
    start_run(folder, run_id, "evaluate-release", dataset_name(run.source), run.parameters)
    try:
        found = _evaluate(run)
    except BaseException as error:
        finish_run(folder, run_id, "stopped", f"{type(error).__name__}: {error}")
        raise
    finally:
        # Staged copies only: what they held is in the warehouse, or can be read again.
        shutil.rmtree(run.work, ignore_errors=True)
    finish_run(folder, run_id, "complete", "dry run" if judging.dry_run else None)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    home: Path
    run_id: str
    source: Source
    scoring: Scoring
    judging: Judging
    limits: Limits
    parameters: dict[str, Any]
    baseline: str

    @property
    def work(self) -> Path:
        return self.home / "runs" / self.run_id


def _evaluate(run: _Run) -> list[str] | list[Estimate]:
    home, source, scoring = run.home, run.source, run.scoring
    options = scoring.options(str(home / "embeddings"), _judge(run))
    loaded = steps.load_step(source, run.work)
    for note in loaded.notes:
        log.info(note)
    validation = steps.validate_step(loaded.staged, loaded.rejects, str(run.work), run.limits.contract())
    steps.record_step(home, run.run_id, source.answers, loaded, validation)
    _announce(loaded, validation)
    if validation.broken:
        raise BadInput(f"{source.answers}: {validation.broken}")
    if run.baseline:
        check_baseline(home, run.baseline, loaded.dataset, validation.accepted)
    plan = steps.plan_step(
        validation.accepted, home, run.work, scoring.metrics, options, only_failed=scoring.only_failed
    )
    if run.judging.dry_run:
        return _foresee(plan, loaded.dataset)
    parts = _score(plan, run.judging.key_from)
    committed = steps.commit_step(home, run.run_id, source.answers, loaded, validation.accepted, parts)
    _rename(committed.dataset, [release.release for release in committed.releases])
    made = manifest(run.run_id, run.parameters, loaded, validation, plan, options.judge)
    reports = steps.aggregate_step(
        home, committed, scoring.metrics, options, made, min_coverage=run.limits.min_coverage
    )
    steps.publish_step(home, reports)
    if run.baseline:
        _compare(home, run.baseline, committed.dataset, [report.report_id for report in reports])
    return [report.report_id for report in reports]


def _compare(home: Path, baseline: str, dataset: str, report_ids: list[str]) -> None:
    """The last step: every new report against the baseline, which may be one of them."""
    old = report_named(home, baseline, dataset)
    for new in report_ids:
        if new != old:
            steps.publish_comparison_step(steps.compare_step(home, old, new))
    if report_ids == [old]:
        log.warning(f"{baseline}: there is no other release to compare it with")


def _judge(run: _Run) -> JudgeOptions:
    """Who is asked: nobody where no metric does. Without the key, which each task fetches for itself."""
    if not run.scoring.asks_judges:
        return NO_JUDGE
    options = run.judging.options(run.home, run.run_id)
    preflight(options, run.judging.key_from)
    return options


def _foresee(plan: Plan, dataset: str) -> list[Estimate]:
    estimates = list(steps.foresee_step(plan))
    rows = [{**asdict(one), "cost_usd": dollars(one.cost_usd)} for one in estimates]
    create_table_artifact(rows, key=f"dry-run-{artifact_key(dataset)}", description="What the judges would be asked")
    calls = sum(one.calls for one in estimates)
    log.info(f"dry run: {calls:,} calls, {price(total(estimates))}; nobody was asked, and nothing was scored")
    return estimates


def _announce(loaded: Loaded, validation: Validation) -> None:
    log.info(
        f"{loaded.dataset}: {validation.n_rows:,} rows read, {validation.n_accepted:,} accepted, "
        f"{validation.n_quarantined:,} quarantined"
    )
    for check in validation.checks:
        if not check.success and check.message != validation.broken:
            log.warning(check.message)


def _score(plan: Plan, key_from: str) -> list[str]:
    """Fan out one task a chunk; a chunk that fails for good is written down as failed, and the run goes on."""
    todo = dict(plan.n_todo)
    log.info(
        "scoring " + ", ".join(f"{metric} ({todo[metric]:,} new, {known:,} known)" for metric, known in plan.n_known)
    )
    if not plan.chunks:
        return []
    # The type allows for a coroutine, which only asynchronous flows get.
    progress = cast(uuid.UUID, create_progress_artifact(0.0, key="scoring", description="Chunks scored"))
    spawn = worth_spawning(plan.n_todo)
    chunks: dict[PrefectFuture[str], Chunk] = {
        steps.score_step.submit(chunk, spawn=spawn, key_from=key_from): chunk for chunk in in_good_order(plan.chunks)
    }
    parts = []
    for done, future in enumerate(as_completed(list(chunks)), start=1):
        parts.append(_part(future, chunks[future]))
        update_progress_artifact(progress, 100 * done / len(chunks))
        log.info(f"scored {done}/{len(chunks)} chunks")
    return parts


def _part(future: PrefectFuture[str], chunk: Chunk) -> str:
    # An error comes back as the result, which the declared type does not say.
    outcome: object = future.result(raise_on_failure=False)
    if isinstance(outcome, str):
        return outcome
    if isinstance(outcome, BadInput):
        raise outcome
    problem = f"{type(outcome).__name__}: {outcome}"
    log.warning(f"{chunk.metric}: {chunk.n_rows:,} rows failed: {problem}; run again with --only-failed")
    return steps.fail_step(chunk, problem)


def _rename(dataset: str, releases: list[str]) -> None:
    """Name the flow run after what it evaluated, which only the data say."""
    what = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
    if flow_run.id:
        with get_client(sync_client=True) as client:
            client.update_flow_run(uuid.UUID(str(flow_run.id)), name=f"evaluate {what} on {dataset}")
