"""The main flow, from a file of answers to versioned reports, step by step."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.flows import steps
from answerkey.flows.command_line import command_line
from answerkey.flows.environment import DETAIL
from answerkey.flows.fan_out import fan_out
from answerkey.flows.parameters import NOTHING, Data, Judging, Limits, Scoring, checked
from answerkey.flows.prefect_or_local import Future, completed, flow, outcome
from answerkey.flows.runs import (
    Run,
    form_of,
    log,
    started,
    started_before,
)
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.gate.policy import Policy
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.model import check_reachable
from answerkey.metrics_core.progress import Advance, tell
from answerkey.tasks.compare.compare import primary_field
from answerkey.tasks.gate.gate import policy_for
from answerkey.tasks.gate.verdicts import ReleaseVerdict, stored_verdicts
from answerkey.tasks.load.load import Loaded, Source, dataset_name
from answerkey.tasks.load.remote import kept_parameters
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.artifacts import address, artifact_key, in_one_line, show_table
from answerkey.tasks.publish.tables import costs as cost_table
from answerkey.tasks.publish.text import first_is_old, not_counted, price, what_it_costs
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.releases.register import ADDRESS, registered_source, registrations
from answerkey.tasks.reports.commit import Committed, is_complete
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report, check_baseline, made_by, read_reports, report_named
from answerkey.tasks.score.baseline_answers import check_baseline_answers, with_baseline_answers
from answerkey.tasks.score.plan import Plan
from answerkey.tasks.score.score import start_processes
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.expectations import read_suite
from answerkey.tasks.validate.validate import Check, Validation
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture

    Docs = Future[str] | PrefectFuture[str]

_SCORING, _JUDGING, _LIMITS = Scoring(), Judging(), Limits()
_MOST_REASONS = 3
REPORT = "report:"
"""With the id of a report behind it, the answers of the form of an evaluation that makes this report again."""
RERUN_OF = "rerun_of"


def _run_name() -> str:
    data = form_of("data", Data)
    return f"evaluate {data.release or Path(data.answers.partition(chr(10))[0]).stem}"


@flow(
    name="evaluate-release",
    description="Score the answers of one or more releases against known answers, and report.",
    flow_run_name=_run_name,
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
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        baseline: A release, or a report, that every other release is compared with. Empty: exactly two releases are
            compared, and the first in the data is the old one. The word none: nothing is compared.
        policy: What must hold for a release to ship: a YAML file, or its text, as in {primary: meaning_match.match,
            margin: 0.02}. Empty: no gate.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters = {name: form.model_dump() for name, form in forms.items()} | {"baseline": baseline, "policy": policy}
    named = "" if baseline == NOTHING else baseline
    with started(home) as run:
        source, parameters, provenance = _source(run, data, scoring, parameters)
        before = _made_before(run, parameters["data"])
        if before and is_complete(run.home, run.id):
            log.info("this run is complete, so nothing is repeated; start a new run for another report")
            return completed(_ids(before), *how_they_ended(run.home, _ids(before)))

        # Whatever can be refused is refused before anything is loaded.
        judge, metrics = checked(scoring, judging, run.home.embeddings, run.access)
        contract = _contract(limits, scoring, source)
        rules = policy_for(policy, named, metrics)
        check_baseline_answers(metrics, named)
        with run.recorded(_flow_of(provenance), dataset_name(source), parameters, dry_run=judging.dry_run):
            loaded = steps.load(source, run.folder)
            if not judging.dry_run:
                start_processes(metrics, loaded.n_rows)
            tell(Advance("validate"))
            validated = steps.validate(
                loaded.staged, loaded.rejects, str(run.folder), contract, run.home.local, wait_for=[loaded]
            )
            steps.record_validation(run.home, run.id, source.answers, loaded, validated)
            _log_validation(loaded, validated)
            docs = _documented(run, loaded, contract, validated, drawn=page and not judging.dry_run)
            _check(run.home, source, named, loaded, validated, docs)

            metrics = with_baseline_answers(metrics, validated.accepted, named)
            plan = steps.plan(
                validated.accepted, run.home, run.folder, metrics, only_failed=scoring.only_failed,
                key_from=judging.key_from, wait_for=[validated],
            )  # fmt: skip
            if judging.dry_run:
                return _costs(plan, loaded.dataset, judge)
            _log_plan(plan, judge)
            if plan.known_answers:
                tell(Advance("check judges"))
                plan = steps.check_judges(plan)
            parts = [*fan_out(plan.shards, remedy="run again with --only-failed", wait_for=[plan]).values()]

            tell(Advance("report"))
            committed = steps.commit(
                run.home, run.id, source.answers, loaded, validated.accepted, parts, wait_for=[plan]
            )
            _describe(run, committed, provenance)
            content = _manifest(run, parameters, loaded, validated, plan, judge) | provenance
            reports = before or steps.aggregate(run.home, committed, metrics, content, min_coverage=limits.min_coverage)
            result = steps.publish_scores(reports)
            log.info(result, extra=DETAIL)

            verdicts = compare_and_gate(run, loaded.dataset, reports, baseline, rules, page=page, docs=docs)
        return completed(_ids(reports), *how_it_ended(reports, verdicts, result))


def compare_and_gate(
    run: Run,
    dataset: str,
    reports: Sequence[Report],
    baseline: str,
    policy: Policy | None,
    *,
    page: bool,
    docs: Docs | None = None,
) -> Sequence[ReleaseVerdict]:
    """Compare the reports with the baseline, decide about each, and publish."""
    pairs = _pairs(run.home, baseline, dataset, reports, policy)
    comparisons = compare(run.home, pairs, policy, wait_for=[reports])
    verdicts = [decide(run.home, *pair, policy, wait_for=[comparisons]) for pair in pairs] if policy else []
    tag_verdicts(run, verdicts)
    why_old = "" if baseline or not pairs else first_is_old(*(report.release for report in reports))
    _publish(run.home, reports, pairs, comparisons, verdicts, page=page, docs=docs, why_old=why_old)
    return verdicts


def _ids(reports: Iterable[Report]) -> list[str]:
    return [report.report_id for report in reports]


def _made_before(run: Run, data: object) -> list[Report]:
    """The reports that this run has made of the same data before it failed; a retry does not make them again.

    Within a flow of several evaluations, Prefect resumes a killed subflow run by its position, whatever is evaluated.
    """
    if not started_before():
        return []
    kept = json.loads(json.dumps(kept_parameters(data)))
    return [report for report in made_by(run.home, run.id) if report.manifest["parameters"]["data"] == kept]


def _contract(limits: Limits, scoring: Scoring, source: Source) -> Contract:
    """What the data must meet: references where a metric needs them."""
    if limits.expectations:
        read_suite(limits.expectations, [*source.slices, *source.column_paths])
    return limits.contract(needs_references=scoring.needs_references)


def _check(home: Home, source: Source, baseline: str, loaded: Loaded, validated: Validation, docs: Docs | None) -> None:
    """Find out whether the data can be scored, and compared with the baseline.

    Raises:
        UserError: they break the contract, or there is no such baseline.
    """
    if validated.broken:
        _data_docs(home, docs, broken=True)
        raise UserError(f"{called(source.answers)}: {validated.broken}")
    if baseline:
        check_baseline(home, baseline, loaded.dataset, validated.accepted)


def _flow_of(provenance: Mapping[str, Any]) -> str:
    return "rerun-report" if RERUN_OF in provenance else "evaluate-release"


def _describe(run: Run, committed: Committed, provenance: Mapping[str, Any]) -> None:
    """Name the run after what it has evaluated, and tag it for the filters of the page of runs."""
    releases = [release.release for release in committed.releases]
    what = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
    name = f"{_flow_of(provenance).partition('-')[0]} {what} on {committed.dataset}"
    run.describe({"dataset": [committed.dataset], "release": releases}, name)


def _manifest(
    run: Run, parameters: dict[str, Any], loaded: Loaded, validated: Validation, plan: Plan, judge: JudgeOptions
) -> dict[str, Any]:
    content = manifest(run.id, parameters, loaded, validated, plan, judge, run.access)
    return content | {"command": command_line(content["parameters"])}


def _pairs(
    home: Home, baseline: str, dataset: str, reports: Sequence[Report], policy: Policy | None
) -> list[tuple[str, str]]:
    """The report of the baseline with each of the other reports; without a baseline, both of exactly two."""
    report_ids = _ids(reports)
    if baseline == NOTHING or (not baseline and len(report_ids) < 2):
        return []
    if not baseline and len(report_ids) > 2:
        log.info(f"{len(report_ids)} releases: name one as the baseline to compare each of the others with it")
        return []
    fields = policy.fields if policy else ()
    old = report_named(home, baseline, dataset, fields) if baseline else report_ids[0]
    new = [report_id for report_id in report_ids if report_id != old]
    if not new:
        log.warning(f"{baseline}: there is no other release to compare it with")
    return [(old, report_id) for report_id in new]


def compare(
    home: Home,
    pairs: Sequence[tuple[str, str]],
    policy: Policy | None,
    *,
    wait_for: Sequence[object] = (),
) -> Sequence[Comparison]:
    """Compare each pair of an old and a new report by the field that decides; their p-values are adjusted together."""
    if not pairs:
        return ()
    everything = list(dict.fromkeys(report_id for pair in pairs for report_id in pair))
    primary = primary_field(home, everything, policy.primary.field) if policy else ""
    comparisons = steps.compare_all(home, pairs, primary=primary, wait_for=wait_for)
    for comparison in comparisons:
        steps.publish_comparison(comparison)
    return comparisons


def decide(
    home: Home,
    old: str,
    new: str,
    policy: Policy,
    *,
    dataset: str = "",
    wait_for: Sequence[object] = (),
) -> ReleaseVerdict:
    """The gate's verdict on two reports.

    No verdict fails the run: that the release is bad is a result.
    """
    gated = steps.gate(home, old, new, policy, dataset, wait_for=wait_for)
    verdict = gated.verdict.outcome
    level = logging.INFO if verdict == "PASS" else logging.WARNING
    log.log(level, f"{verdict}: {gated.verdict.sentence}", extra=DETAIL)
    return gated


def _publish(
    home: Home,
    reports: Sequence[Report],
    pairs: Sequence[tuple[str, str]],
    comparisons: Sequence[Comparison],
    verdicts: Sequence[ReleaseVerdict],
    *,
    page: bool,
    docs: Docs | None,
    why_old: str,
) -> None:
    """Write the page and announce the reports. If any of it fails, nothing is lost."""
    report_ids = _ids(reports)
    shown = [pairs[0][0], *(new for _, new in pairs)] if pairs else report_ids
    about = {"drawn": page, "docs": _data_docs(home, docs), "why_old": why_old}
    log_page(lambda: steps.publish_run(home, shown, comparisons, verdicts, **about, wait_for=[reports]))
    steps.announce(home, report_ids, verdicts, wait_for=[reports])


def tag_verdicts(run: Run, verdicts: Sequence[ReleaseVerdict]) -> None:
    """Have the page of runs filter by outcome and basis."""
    if verdicts:
        bases = [one.verdict.basis or "none" for one in verdicts]
        run.describe({"verdict": [one.verdict.outcome for one in verdicts], "basis": bases})


def how_it_ended(
    reports: Sequence[Report], verdicts: Sequence[ReleaseVerdict] = (), result: str = ""
) -> tuple[str, str]:
    """What the state of a run says: what has no score and why, what the gate has decided; and the name of the state.

    The reason is first: the page of a run shows some 65 characters. Where there is none, it says the result.
    """
    reasons: dict[str, list[str]] = {}
    for one in reports:
        if one.status == "PARTIAL":
            reasons.setdefault(one.message or "", []).append(one.report_id)
    partial = [
        f"{message} ({', '.join(ids)} {'is' if len(ids) == 1 else 'are'} PARTIAL)" for message, ids in reasons.items()
    ]
    more = [f"{len(partial) - _MOST_REASONS} more are PARTIAL"] if len(partial) > _MOST_REASONS else []
    decided = [
        f"{one.verdict.outcome}: {one.verdict.sentence} Basis: {one.verdict.basis or 'none'}." for one in verdicts
    ]
    said = [*partial[:_MOST_REASONS], *more, *decided]
    return "; ".join(said) or result, "Partial" if partial else "Completed"


def how_they_ended(home: Home, report_ids: Sequence[str]) -> tuple[str, str]:
    """The same of reports that are kept already, with the verdicts about them."""
    reports = read_reports(home, report_ids)
    return how_it_ended(reports, stored_verdicts(home, report_ids), in_one_line(reports))


def log_page(publish: Callable[[], str]) -> None:
    """Log where the page is. If it could not be written, nothing is lost: everything on it is in the warehouse."""
    try:
        page = publish()
    except Exception as error:
        log.warning(f"the page could not be made: {error}; `answerkey report --html FILE` makes it again")
        return
    if page:
        log.info(f"report: {page}")


def _source(
    run: Run, data: Data, scoring: Scoring, parameters: dict[str, Any]
) -> tuple[Source, dict[str, Any], dict[str, Any]]:
    """What to load, the parameters that reports keep, and what joins their manifests: where the answers come from."""
    generation, provenance = None, {}
    kind, _, name = data.answers.partition(":")
    if f"{kind}:" == REPORT:
        [old] = read_reports(run.home, [name])
        source = steps.export(
            run.home, old.dataset, old.dataset_version, old.release, old.answers_version, run.folder
        )  # fmt: skip
        asked, generation, provenance = old.manifest["parameters"], old.manifest.get("generation"), {RERUN_OF: name}
        # The suite may be given as the text that was checked.
        limits = parameters["limits"] | {"expectations": asked["limits"].get("expectations", "")}
        parameters = parameters | {"data": asked["data"], "limits": limits}
    elif f"{kind}:" == ADDRESS:
        [registration] = registrations(run.home, name)
        source, generation = registered_source(run.home, registration, run.folder), registration.generation
    else:
        source, generation = data.source(), generation_of(data.answers)
    columns = tuple(dict.fromkeys((*source.columns, *scoring.columns)))
    source = replace(source, needs_references=scoring.needs_references, columns=columns)
    return source, parameters, provenance | ({"generation": generation} if generation else {})


def _costs(plan: Plan, dataset: str, judge: JudgeOptions) -> list[Cost]:
    costs = list(steps.estimate_costs(plan))
    show_table(cost_table("", costs), artifact_key("dry-run", dataset), "What the judges would be asked")
    calls = sum(cost.calls for cost in costs)
    how = f"{' as a batch' if judge.batch else ''}{not_counted(_fallbacks(judge))}"
    log.info(f"dry run: {calls:,} calls, {price(total_usd(costs))}{how}; no judge was asked, and nothing was scored")
    return costs


def _fallbacks(judge: JudgeOptions) -> list[str]:
    return [model.label for model in judge.all_models()[len(judge.judges) :]]


def _log_validation(loaded: Loaded, checked: Validation) -> None:
    for note in loaded.notes:
        log.info(note)
    log.info(
        f"{loaded.dataset}: {checked.n_rows:,} rows read, {checked.n_accepted:,} accepted, "
        f"{checked.n_quarantined:,} quarantined"
    )
    alike: dict[str, list[Check]] = {}
    for check in checked.checks:
        if not check.success and check.message != checked.broken:
            alike.setdefault(check.rule if check.release else check.message, []).append(check)
    for first, *others in alike.values():
        more = f"; so it is with {', '.join(one.release or '' for one in others)}" if others else ""
        log.warning(f"{first.message}{more}")


def _documented(run: Run, loaded: Loaded, contract: Contract, checked: Validation, *, drawn: bool) -> Docs | None:
    """Begin to write the Data Docs, beside the scoring; None where the run writes no pages."""
    return steps.build_data_docs.submit(run.home, run.id, loaded.dataset, contract, checked) if drawn else None


def _data_docs(home: Home, documented: Docs | None, *, broken: bool = False) -> str:
    """The name of the page of the Data Docs in the store, once it is written. Without it, nothing is lost.

    `broken`: whether the page says why the run stops.
    """
    if documented is None:
        return ""
    page = outcome(documented)
    if isinstance(page, str):
        log.info(f"data docs: {address(home, page)}", extra={} if broken else DETAIL)
        return page
    log.warning(f"the Data Docs could not be made: {page}; the checks are in the warehouse")
    return ""


def _log_plan(plan: Plan, judge: JudgeOptions) -> None:
    """What is left to score. Naming a judge is consent to ask it; the expected cost is logged before it starts.

    Raises:
        UserError: a judge cannot be reached, and there is no fallback.
    """
    if any(shard.metric.kind == "judge" for shard in plan.shards) and not judge.offline:
        expected = steps.estimate_costs(plan)
        log.info(what_it_costs(judge.labels, judge.limits, expected, _fallbacks(judge)))
        if not judge.fallbacks and any(cost.calls for cost in expected):
            check_reachable(judge.models())
    todo = dict(plan.n_todo)
    metrics = [f"{metric} ({todo[metric]:,} new, {known:,} known)" for metric, known in plan.n_known]
    known = any(known for _, known in plan.n_known)
    log.info("scoring " + (", ".join(metrics) if known else f"with {len(metrics)} metric{'s' * (len(metrics) > 1)}"))
