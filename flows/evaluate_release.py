"""The main flow: from a file of answers to versioned reports. It only wires the steps."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from pathlib import Path
from typing import Any, cast

from prefect import flow
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture, as_completed
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.parameters import Data, Limits, Scoring
from metrics_core.errors import BadInput
from tasks import steps
from tasks.commit import finish_run, start_run
from tasks.contract import Contract
from tasks.load import Loaded, Source, dataset_name
from tasks.manifest import manifest
from tasks.parts import Chunk
from tasks.plan import Plan
from tasks.score import in_good_order, worth_spawning
from tasks.validate import Validation

log = logging.getLogger("answerkey")
# What a run says is for its reader in the UI as well. A worker has set up its logging before it imports this.
log.setLevel(logging.INFO)
log.addHandler(APILogHandler())
_SCORING, _LIMITS = Scoring(), Limits()


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
    data: Data, scoring: Scoring = _SCORING, limits: Limits = _LIMITS, home: str = ".answerkey"
) -> list[str]:
    """Evaluate releases and return the ids of their reports.

    Args:
        data: What to evaluate.
        scoring: How to score it.
        limits: When the data are too bad to score.
        home: The folder of the warehouse, on a disk of the machine that runs this.
    """
    folder = Path(home)
    run_id = str(flow_run.id or uuid.uuid4())
    source = data.source()
    parameters = {"data": data.model_dump(), "scoring": scoring.model_dump(), "limits": limits.model_dump()}
    start_run(folder, run_id, "evaluate-release", dataset_name(source), parameters)
    try:
        report_ids = _evaluate(folder, run_id, source, scoring, limits, parameters)
    except BaseException as error:
        finish_run(folder, run_id, "stopped", f"{type(error).__name__}: {error}")
        raise
    finally:
        # Staged copies only: what they held is in the warehouse, or can be read again.
        shutil.rmtree(folder / "runs" / run_id, ignore_errors=True)
    finish_run(folder, run_id, "complete")
    return report_ids


def _evaluate(
    home: Path, run_id: str, source: Source, scoring: Scoring, limits: Limits, parameters: dict[str, Any]
) -> list[str]:
    work = home / "runs" / run_id
    options = scoring.options(str(home / "embeddings"))
    loaded = steps.load_step(source, work)
    for note in loaded.notes:
        log.info(note)
    validation = steps.validate_step(loaded.staged, loaded.rejects, str(work), Contract(**limits.model_dump()))
    steps.record_step(home, run_id, source.answers, loaded, validation)
    _announce(loaded, validation)
    if validation.broken:
        raise BadInput(f"{source.answers}: {validation.broken}")
    plan = steps.plan_step(validation.accepted, home, work, scoring.metrics, options, only_failed=scoring.only_failed)
    parts = _score(plan)
    committed = steps.commit_step(home, run_id, source.answers, loaded, validation.accepted, parts)
    _rename(committed.dataset, [release.release for release in committed.releases])
    reports = steps.aggregate_step(
        home, committed, scoring.metrics, options, manifest(run_id, parameters, loaded, validation, plan)
    )
    steps.publish_step(home, reports)
    return [report.report_id for report in reports]


def _announce(loaded: Loaded, validation: Validation) -> None:
    log.info(
        f"{loaded.dataset}: {validation.n_rows:,} rows read, {validation.n_accepted:,} accepted, "
        f"{validation.n_quarantined:,} quarantined"
    )
    for check in validation.checks:
        if not check.success and check.message != validation.broken:
            log.warning(check.message)


def _score(plan: Plan) -> list[str]:
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
        steps.score_step.submit(chunk, spawn=spawn): chunk for chunk in in_good_order(plan.chunks)
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
