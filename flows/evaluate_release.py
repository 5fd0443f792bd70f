"""The main flow: from a file of answers to versioned reports. It only wires the steps."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from answerkey.flows import steps
from answerkey.flows.fan_out import OnThisMachine, fan_out, load, runner_at, write_commit, write_scores
from answerkey.flows.forms import ReleaseChoice
from answerkey.flows.orchestration import Submitted, ended, flow, started_before
from answerkey.flows.parameters import LOCAL, Data, Judging, Limits, RunnerAddress, Scoring, preflight
from answerkey.flows.runs import Run, log, offer_names, started
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.policy import Policy
from answerkey.metrics_core.judges.options import OFFLINE_JUDGE, JudgeOptions
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.progress import Advance, tell
from answerkey.tasks.compare.compare import primary_field
from answerkey.tasks.gate.gate import policy_for
from answerkey.tasks.gate.verdicts import ReleaseVerdict, stored_verdicts
from answerkey.tasks.load.load import Loaded, Source, dataset_name
from answerkey.tasks.load.remote import kept_parameters
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.artifacts import artifact_key, show_table
from answerkey.tasks.publish.text import dollars, not_counted, price, what_it_costs
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.reports.aggregate import ReportRef
from answerkey.tasks.reports.commit import is_complete
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report, check_baseline, made_by, read_reports, report_named
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.rivals import check_rivals, with_rivals
from answerkey.tasks.score.score import start_processes
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.validate import Validation
from answerkey.tasks.warehouse.home import Home

_SCORING, _JUDGING, _LIMITS = Scoring(), Judging(), Limits()
_MOST_REASONS = 3


def _run_name(parameters: Mapping[str, Any]) -> str:
    data = parameters["data"]
    answers = data["answers"] if isinstance(data, dict) else data.answers
    release = data["release"] if isinstance(data, dict) else data.release
    return f"evaluate {release or Path(answers.split(chr(10))[0]).stem}"


@flow(
    name="evaluate-release",
    description="Score the answers of one or more releases against known answers, and report.",
    run_name=_run_name,
)
def evaluate_release(  # noqa: PLR0913
    data: Data,
    scoring: Scoring = _SCORING,
    judging: Judging = _JUDGING,
    limits: Limits = _LIMITS,
    home: str = ".answerkey",
    baseline: ReleaseChoice = "",
    policy: str = "",
    page: bool = True,
    *,
    runner: RunnerAddress = LOCAL,
    candidates: int = 1,
) -> list[str] | list[Cost]:
    """Evaluate releases and return the ids of their reports; after a dry run, what the judges would be asked.

    Args:
        data: What to evaluate.
        scoring: How to score it.
        judging: Which judges to ask, where the key is, and what it may cost.
        limits: When the data are too bad to score, and the scores too few to trust.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        baseline: A release, or a report, that every other release is compared with. Empty: no comparison.
        policy: What must hold for a release to ship: a YAML file, or its text, as in {primary: meaning_match.match,
            margin: 0.02}. Empty: no gate.
        page: Write a page for the browser into the folder pages of the warehouse.
        runner: Where answers are scored: local, or dask://HOST:PORT of a Dask scheduler, whose workers do it.
        candidates: How many new releases are compared with the baseline in all, if other runs evaluate more of them:
            comparisons and verdicts allow for that many.
    """
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters = {name: form.model_dump() for name, form in forms.items()} | {"baseline": baseline, "policy": policy}
    evaluation = Evaluation(
        data.source(), scoring, judging, limits, parameters, baseline, policy, page, candidates, runner=runner
    )
    with started(home) as run:
        return evaluation.carry_out(run, "evaluate-release")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is evaluated and how. `parameters` is what the reports keep of how it was asked for.

    `provenance` joins the manifests: the report that is made again, and how the answers were generated where no
    manifest beside them says it.
    """

    source: Source
    scoring: Scoring
    judging: Judging
    limits: Limits
    parameters: dict[str, Any]
    baseline: str = ""
    policy: str = ""
    page: bool = True
    candidates: int = 1
    provenance: dict[str, Any] | None = None
    runner: str = LOCAL

    @property
    def contract(self) -> Contract:
        """What the data must meet: references where a metric needs them."""
        return self.limits.contract(needs_references=self.scoring.needs_references)

    def carry_out(self, run: Run, flow_name: str) -> list[str] | list[Cost]:
        """All steps, with the row in `runs` that says how they ended; none of them for a run that is complete."""
        before = self._made_before(run) if started_before() else []
        if before and is_complete(run.home, run.id):
            log.info("this run is complete, and nothing of it is repeated; for another report start a new run")
            report_ids = [report.report_id for report in before]
            return ended(report_ids, *how_it_ended(before, stored_verdicts(run.home, report_ids)))
        with run.recorded(flow_name, dataset_name(self.source), self.parameters, dry_run=self.judging.dry_run):
            return evaluate(run, self, before)

    def _made_before(self, run: Run) -> list[Report]:
        """The reports that this run has made of the same data.

        Within a flow of others, Prefect takes up a run that was killed by its place there, whatever is evaluated now.
        """
        data = json.loads(json.dumps(kept_parameters(self.parameters["data"])))
        return [report for report in made_by(run.home, run.id) if report.manifest["parameters"]["data"] == data]


def evaluate(run: Run, asked: Evaluation, before: Sequence[Report] = ()) -> list[str] | list[Cost]:
    """The steps of an evaluation, in their order; returns the ids of the reports, after a dry run the costs.

    Reports that the same run has made `before` it failed are not made again.
    """
    home, source = run.home, replace(asked.source, needs_references=asked.scoring.needs_references)
    judge = _judge(asked)
    metrics = asked.scoring.create(home.embeddings, judge, run.access)
    policy = policy_for(asked.policy, asked.baseline, metrics)
    check_rivals(metrics, asked.baseline)
    runner = runner_at(asked.runner)
    if not asked.judging.dry_run:
        runner.check(home, [(metric, asked.judging.key_from) for metric in metrics])

    # Nobody has looked yet whether the workers can be used for a dry run.
    loaded, measures = load(OnThisMachine() if asked.judging.dry_run else runner, home, source, run.folder)
    if not (runner.elsewhere or asked.judging.dry_run):
        start_processes(metrics, loaded.n_rows)
    tell(Advance("validate"))
    checked = steps.validate.after(loaded)(loaded.staged, loaded.rejects, str(run.folder), asked.contract, measures)
    steps.record_validation(home, run.id, source.answers, loaded, checked)
    _log_validation(loaded, checked)
    documented = _documented(run, asked, loaded.dataset, checked)
    if checked.broken:
        _data_docs(home, documented)
        raise UserError(f"{called(source.answers)}: {checked.broken}")
    if asked.baseline:
        check_baseline(home, asked.baseline, loaded.dataset, checked.accepted)

    metrics = with_rivals(metrics, checked.accepted, asked.baseline)
    plan = steps.plan.after(checked)(
        checked.accepted, home, run.folder, metrics,
        only_failed=asked.scoring.only_failed, most=runner.most_shards,
    )  # fmt: skip
    if asked.judging.dry_run:
        return _costs(plan, loaded.dataset, judge)
    _log_plan(plan, judge)
    parts = fan_out(
        runner, plan.shards, lambda _shard: asked.judging.key_from,
        remedy="run again with --only-failed", after=plan,
    )  # fmt: skip

    tell(Advance("report"))
    scored = list(parts.values())
    cut = write_commit(runner, home, run.id, loaded, checked.accepted, scored, run.folder)
    committed = steps.commit.after(plan)(home, run.id, source.answers, loaded, checked.accepted, scored, cut)
    releases = [release.release for release in committed.releases]
    run.rename(
        f"evaluate {', '.join(releases) if len(releases) == 1 else f'{len(releases)} releases'} on {committed.dataset}"
    )
    made = manifest(run.id, asked.parameters, loaded, checked, plan, judge, run.access)
    made |= asked.provenance if asked.provenance is not None else _provenance(source)
    scores = write_scores(runner, home, committed, metrics, run.folder)
    reports: Sequence[ReportRef | Report] = before or steps.aggregate(
        home, committed, metrics, made, scores, min_coverage=asked.limits.min_coverage
    )
    steps.publish_scores(home, reports)
    return _concluded(home, asked, committed.dataset, reports, policy, documented)


def _concluded(
    home: Home,
    asked: Evaluation,
    dataset: str,
    reports: Sequence[ReportRef | Report],
    policy: Policy | None,
    documented: Submitted[str] | None,
) -> list[str]:
    """What is done with the reports: compare them with the baseline, decide, and publish."""
    report_ids = [report.report_id for report in reports]
    fields = policy.fields if policy else ()
    old = report_named(home, asked.baseline, dataset, fields) if asked.baseline else ""
    new = [report_id for report_id in report_ids if report_id != old]
    if old and not new:
        log.warning(f"{asked.baseline}: there is no other release to compare it with")
    candidates = max(asked.candidates, len(new))
    comparisons = compare(home, old, new, policy, candidates, after=reports) if old else ()
    verdicts = (
        [decide(home, old, one, policy, candidates=candidates, after=comparisons) for one in new]
        if old and policy
        else []
    )
    shown = [old, *new] if old else new
    docs = _data_docs(home, documented)
    publish = steps.publish_run.after(reports)
    log_page(lambda: publish(home, shown, comparisons, verdicts, drawn=asked.page, docs=docs))
    steps.announce.after(reports)(home, report_ids, verdicts)
    if any(report_id.endswith("/v1") for report_id in report_ids):
        offer_names(home)
    return ended(report_ids, *how_it_ended(reports, verdicts))


def how_it_ended(reports: Sequence[ReportRef | Report], verdicts: Sequence[ReleaseVerdict] = ()) -> tuple[str, str]:
    """What the state of a run says: what has no score and why, what the gate has decided; and the name of the state.

    The reason is first: the page of a run shows some 65 characters.
    """
    partial = [f"{one.message} ({one.report_id} is PARTIAL)" for one in reports if one.status == "PARTIAL"]
    more = [f"{len(partial) - _MOST_REASONS} more are PARTIAL"] if len(partial) > _MOST_REASONS else []
    decided = [f"{one.verdict.outcome}: {one.verdict.sentence}" for one in verdicts]
    return "; ".join([*partial[:_MOST_REASONS], *more, *decided]), "Partial" if partial else "Completed"


def how_they_ended(home: Home, report_ids: Sequence[str]) -> tuple[str, str]:
    """The same of reports that are kept already, with the verdicts about them."""
    return how_it_ended(read_reports(home, report_ids), stored_verdicts(home, report_ids))


def compare(
    home: Home, old: str, new: Sequence[str], policy: Policy | None, candidates: int, *, after: object = None
) -> Sequence[Comparison]:
    """Compare every new report with the old one, by the field that decides; they are corrected for together."""
    primary = primary_field(home, [old, *new], policy.primary.field) if policy else ""
    comparisons = steps.compare_all.after(after)(
        home, [(old, one) for one in new], primary=primary, candidates=candidates
    )
    for comparison in comparisons:
        steps.publish_comparison(comparison)
    return comparisons


def decide(
    home: Home, old: str, new: str, policy: Policy, *, candidates: int = 1, after: object = None
) -> ReleaseVerdict:
    """What the gate says about two reports, of which the new one is one of several candidates.

    No verdict fails the run: that the release is bad is a result.
    """
    gated = steps.gate.after(after)(home, old, new, policy, candidates=candidates)
    outcome = gated.verdict.outcome
    log.log(logging.INFO if outcome == "PASS" else logging.WARNING, f"{outcome}: {gated.verdict.sentence}")
    return gated


def log_page(publish: Callable[[], str]) -> None:
    """Log where the page is. If it could not be written, nothing is lost: everything on it is in the warehouse."""
    try:
        page = publish()
    except Exception as error:
        log.warning(f"the page could not be made: {error}; `answerkey report --html FILE` makes it again")
        return
    if page:
        log.info(f"page: {page}")


def _judge(asked: Evaluation) -> JudgeOptions:
    """The judges, checked before anything is loaded. Without the key, which each task fetches for itself."""
    if not asked.scoring.asks_judges:
        return OFFLINE_JUDGE
    options = asked.judging.options()
    preflight(options, asked.judging.key_from)
    return options


def _provenance(source: Source) -> dict[str, Any]:
    generation = generation_of(source.answers)
    return {"generation": generation} if generation else {}


def _costs(plan: Plan, dataset: str, judge: JudgeOptions) -> list[Cost]:
    costs = list(steps.estimate_costs(plan))
    rows = [{**asdict(cost), "cost_usd": dollars(cost.cost_usd)} for cost in costs]
    show_table(rows, artifact_key("dry-run", dataset), "What the judges would be asked")
    calls = sum(cost.calls for cost in costs)
    how = f"{' as a batch' if judge.batch else ''}{not_counted(_fallbacks(judge))}"
    log.info(f"dry run: {calls:,} calls, {price(total_usd(costs))}{how}; no judge was asked, and nothing was scored")
    return costs


def _fallbacks(judge: JudgeOptions) -> list[str]:
    return [one.label for one in judge.substitutes()]


def _log_validation(loaded: Loaded, checked: Validation) -> None:
    for note in loaded.notes:
        log.info(note)
    log.info(
        f"{loaded.dataset}: {checked.n_rows:,} rows read, {checked.n_accepted:,} accepted, "
        f"{checked.n_quarantined:,} quarantined"
    )
    for check in checked.checks:
        if not check.success and check.message != checked.broken:
            log.warning(check.message)


def _documented(run: Run, asked: Evaluation, dataset: str, checked: Validation) -> Submitted[str] | None:
    """Begin to write the Data Docs, beside the scoring; None where the run writes no pages."""
    if not asked.page or asked.judging.dry_run:
        return None
    return steps.build_data_docs.submit(run.home, run.id, dataset, asked.contract, checked)


def _data_docs(home: Home, documented: Submitted[str] | None) -> str:
    """The name of the page of the Data Docs in the store, once it is written. Without it, nothing is lost."""
    if documented is None:
        return ""
    page = documented.outcome()
    if isinstance(page, str):
        log.info(f"data docs: {home.store.address(page)}")
        return page
    log.warning(f"the Data Docs could not be made: {page}; the checks are in the warehouse")
    return ""


def _log_plan(plan: Plan, judge: JudgeOptions) -> None:
    """What is left to score. Naming a judge is consent to ask it; the expected cost is logged before it starts."""
    if any(shard.metric.kind == "judge" for shard in plan.shards) and not judge.offline:
        log.info(what_it_costs(judge.labels, judge.limits, steps.estimate_costs(plan), _fallbacks(judge)))
    todo = dict(plan.n_todo)
    log.info(
        "scoring " + ", ".join(f"{metric} ({todo[metric]:,} new, {known:,} known)" for metric, known in plan.n_known)
    )
