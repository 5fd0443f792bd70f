"""The main flow: from a file of answers to versioned reports. It only wires the steps."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from answerkey.flows.fan_out import fan_out
from answerkey.flows.parameters import Data, Judging, Limits, Scoring, preflight
from answerkey.flows.publishing import conclude, policy_of
from answerkey.flows.run_log import log
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.tasks import steps
from answerkey.tasks.load.load import Loaded, Source, dataset_name
from answerkey.tasks.publish.artifacts import artifact_key
from answerkey.tasks.publish.text import dollars, price, what_it_costs
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.reports.commit import recorded
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import check_baseline
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.score import worth_spawning
from answerkey.tasks.validate.validate import Validation
from answerkey.tasks.warehouse.home import Home

_SCORING, _JUDGING, _LIMITS = Scoring(), Judging(), Limits()


def _run_name() -> str:
    data = flow_run.parameters["data"]
    answers = data["answers"] if isinstance(data, dict) else data.answers
    release = data["release"] if isinstance(data, dict) else data.release
    return f"evaluate {release or Path(answers).stem}"


def score_runner() -> TaskRunner[PrefectFuture[Any]]:
    """Threads for the scoring tasks: they mostly wait for processes and models; two more than cores keep both busy."""
    return ThreadPoolTaskRunner(max_workers=2 + (os.cpu_count() or 1))  # type: ignore[return-value]


@flow(
    name="evaluate-release",
    description="Score the answers of one or more releases against known answers, and report.",
    flow_run_name=_run_name,
    retries=0,
    persist_result=False,
    validate_parameters=True,
    task_runner=score_runner(),
)
def evaluate_release(
    data: Data,
    scoring: Scoring = _SCORING,
    judging: Judging = _JUDGING,
    limits: Limits = _LIMITS,
    home: str = ".answerkey",
    baseline: str = "",
    policy: str = "",
    page: bool = True,
) -> list[str] | list[Cost]:
    """Evaluate releases and return the ids of their reports; after a dry run, what the judges would be asked.

    Args:
        data: What to evaluate.
        scoring: How to score it.
        judging: Which judges to ask, where the key is, and what it may cost.
        limits: When the data are too bad to score, and the scores too few to trust.
        home: The folder of the warehouse, on a disk of the machine that runs this.
        baseline: A release, or a report, that every other release is compared with. Empty: none is.
        policy: What must hold for a release to ship in place of the baseline: the path of a YAML file, or its text,
            for instance {primary: meaning_match.match, margin: 0.02}. Empty: no gate.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    place = Home.parse(home)
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters = {name: form.model_dump() for name, form in forms.items()} | {"baseline": baseline, "policy": policy}
    run = Run(
        place, this_run(), data.source(), scoring, judging, limits, parameters, baseline, policy=policy, page=page
    )  # fmt: skip
    return carry_out(run, "evaluate-release")


@dataclass(frozen=True, slots=True)
class Run:
    """One evaluation. `parameters` is what its reports keep of how it was asked for, `rerun_of` the report before.

    `generation` says how the answers were generated, where no manifest beside them does.
    """

    home: Home
    run_id: str
    source: Source
    scoring: Scoring
    judging: Judging
    limits: Limits
    parameters: dict[str, Any]
    baseline: str = ""
    rerun_of: str = ""
    generation: dict[str, Any] | None = None
    policy: str = ""
    page: bool = True

    @property
    def work(self) -> Path:
        """The folder of the run, which goes with it."""
        return work_folder(self.home, self.run_id)


def this_run() -> str:
    """The id of the flow run that calls."""
    return str(flow_run.id or uuid.uuid4())


def work_folder(home: Home, run_id: str) -> Path:
    """Where a run keeps its files while it works."""
    return home.scratch / run_id


def carry_out(run: Run, flow_name: str) -> list[str] | list[Cost]:
    """All steps of an evaluation, for the flow run that calls; and the row in `runs` that says how it ended."""
    dataset, dry_run = dataset_name(run.source), run.judging.dry_run
    with recorded(run.home, run.run_id, flow_name, dataset, run.parameters, dry_run=dry_run):
        try:
            return _evaluate(run)
        finally:
            # Staged copies only: what they held is in the warehouse, or can be read again.
            shutil.rmtree(run.work, ignore_errors=True)


def _evaluate(run: Run) -> list[str] | list[Cost]:
    home, source, scoring = run.home, run.source, run.scoring
    access = Access(ledger=home.ledger, run=run.run_id)
    judge = _judge(run)
    metrics = scoring.create(str(home.folder / "embeddings"), judge, access)
    policy = policy_of(run.policy, run.baseline, metrics)
    loaded = steps.load_step(source, run.work)
    for note in loaded.notes:
        log.info(note)
    validation = steps.validate_step(loaded.staged, loaded.rejects, str(run.work), run.limits.contract())
    steps.record_step(home, run.run_id, source.answers, loaded, validation)
    _announce(loaded, validation)
    if validation.broken:
        raise UserError(f"{source.answers}: {validation.broken}")
    if run.baseline:
        check_baseline(home, run.baseline, loaded.dataset, validation.accepted)
    plan = steps.plan_step(validation.accepted, home, run.work, metrics, only_failed=scoring.only_failed)
    if run.judging.dry_run:
        return _foresee(plan, loaded.dataset)
    _say_what_it_costs(plan, judge)
    parts = _score(plan, run.judging.key_from)
    committed = steps.commit_step(home, run.run_id, source.answers, loaded, validation.accepted, parts)
    _rename(committed.dataset, [release.release for release in committed.releases])
    made = manifest(run.run_id, run.parameters, loaded, validation, plan, judge, access)
    if run.rerun_of:
        made |= {"rerun_of": run.rerun_of}
    if generation := run.generation or generation_of(source.answers):
        made |= {"generation": generation}
    reports = steps.aggregate_step(home, committed, metrics, made, min_coverage=run.limits.min_coverage)
    steps.publish_step(home, reports)
    report_ids = [report.report_id for report in reports]
    conclude(home, committed.dataset, report_ids, baseline=run.baseline, policy=policy, page=run.page)
    return report_ids


def _judge(run: Run) -> JudgeOptions:
    """The judges; no model where no metric asks one. Without the key, which each task fetches for itself."""
    if not run.scoring.asks_judges:
        return OFFLINE_JUDGE
    options = run.judging.options()
    preflight(options, run.judging.key_from)
    return options


def _foresee(plan: Plan, dataset: str) -> list[Cost]:
    estimates = list(steps.foresee_step(plan))
    rows = [{**asdict(one), "cost_usd": dollars(one.cost_usd)} for one in estimates]
    create_table_artifact(rows, key=f"dry-run-{artifact_key(dataset)}", description="What the judges would be asked")
    calls = sum(one.calls for one in estimates)
    log.info(f"dry run: {calls:,} calls, {price(total_usd(estimates))}; no judge was asked, and nothing was scored")
    return estimates


def _say_what_it_costs(plan: Plan, judge: JudgeOptions) -> None:
    """Naming a judge is consent to ask it; what that comes to is said before it starts."""
    left = any(chunk.metric.kind == "judge" for chunk in plan.chunks)
    if left and not judge.offline:
        log.info(what_it_costs(judge.labels, judge.limits, steps.foresee_step(plan)))


def _announce(loaded: Loaded, validation: Validation) -> None:
    log.info(
        f"{loaded.dataset}: {validation.n_rows:,} rows read, {validation.n_accepted:,} accepted, "
        f"{validation.n_quarantined:,} quarantined"
    )
    for check in validation.checks:
        if not check.success and check.message != validation.broken:
            log.warning(check.message)


def _score(plan: Plan, key_from: str) -> list[str]:
    todo = dict(plan.n_todo)
    log.info(
        "scoring " + ", ".join(f"{metric} ({todo[metric]:,} new, {known:,} known)" for metric, known in plan.n_known)
    )
    spawn = worth_spawning(plan.chunks)
    parts = fan_out(plan.chunks, lambda _chunk: key_from, spawn=spawn, remedy="run again with --only-failed")
    return list(parts.values())


def _rename(dataset: str, releases: list[str]) -> None:
    """Name the flow run after what it evaluated, which only the data say."""
    what = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
    if flow_run.id:
        with get_client(sync_client=True) as client:
            client.update_flow_run(uuid.UUID(str(flow_run.id)), name=f"evaluate {what} on {dataset}")
