"""The main flow: answers go into DuckDB, are validated, are scored by parallel tasks, and become versioned reports.

    python flows/evaluate_release.py examples/museum.csv

load -> validate -> plan -> check judges -> score -> commit -> aggregate -> compare -> gate -> publish
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from answerkey.flows.answers import Answers, command_line, find_answers
from answerkey.flows.environment import DETAIL
from answerkey.flows.fan_out import fan_out, outcome
from answerkey.flows.on_dask import check_runner
from answerkey.flows.parameters import NOTHING, Data, Judging, Limits, Scoring, checked
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import (
    Run,
    completed,
    form_of,
    how_it_ended,
    how_they_ended,
    is_scheduled,
    log,
    log_comparisons,
    log_page,
    log_plan,
    log_validation,
    log_verdicts,
    may_succeed,
    started,
    started_before,
)
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.policy import Policy
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.model import check_reachable
from answerkey.metrics_core.progress import Advance, tell
from answerkey.tasks.compare.compare import compare_all, primary_field
from answerkey.tasks.gate.gate import gate, policy_for
from answerkey.tasks.gate.verdicts import stored_verdicts
from answerkey.tasks.load.load import Loaded, dataset_name, load
from answerkey.tasks.load.sources import called
from answerkey.tasks.publish.artifacts import address, publish_comparison, publish_run, publish_scores
from answerkey.tasks.publish.events import announce
from answerkey.tasks.publish.text import first_is_old, what_it_costs
from answerkey.tasks.releases.register import claimed, kept_gate
from answerkey.tasks.reports.aggregate import aggregate
from answerkey.tasks.reports.commit import Committed, commit, is_complete, record_validation
from answerkey.tasks.reports.manifest import manifest
from answerkey.tasks.reports.report import Report, check_baseline, made_by, read_reports, report_named
from answerkey.tasks.score.check import check_judges, estimate_costs
from answerkey.tasks.score.plan import Plan, check_baseline_answers, plan, with_baseline_answers
from answerkey.tasks.score.score import score, start_processes
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.validate.data_docs import build_data_docs
from answerkey.tasks.validate.expectations import read_suite
from answerkey.tasks.validate.validate import Validation, validate
from answerkey.tasks.warehouse.home import Home

load_answers = task(load, name="load")
validate_answers = task(validate, name="validate")
keep_validation = task(record_validation, name="record validation")
write_data_docs = task(build_data_docs, name="data docs")
plan_scores = task(plan, name="plan")
estimate_calls = task(estimate_costs, name="estimate costs")
try_judges = task(
    check_judges, name="check judges", retries=2, retry_delay_seconds=[1, 10], retry_condition_fn=may_succeed
)
score_shard = task(score, name="score", retries=2, retry_delay_seconds=[1, 10], retry_condition_fn=may_succeed)
commit_scores = task(commit, name="commit")
aggregate_scores = task(aggregate, name="aggregate")
publish_reports = task(publish_scores, name="publish")
compare_reports = task(compare_all, name="compare")
show_comparison = task(publish_comparison, name="publish comparison")
decide = task(gate, name="gate")
publish_page = task(publish_run, name="publish page")
announce_reports = task(announce, name="announce")

SCORING = Scoring()
JUDGING = Judging()
LIMITS = Limits()


def _run_name() -> str:
    form = form_of("data", Data)
    return f"evaluate {form.release or Path(form.answers.partition(chr(10))[0]).stem}"


@flow(
    name="evaluate-release",
    description="Score the answers of one or more releases against known answers, and report.",
    flow_run_name=_run_name,
    persist_result=True,
)
def evaluate_release(
    data: Data,
    scoring: Scoring = SCORING,
    judging: Judging = JUDGING,
    limits: Limits = LIMITS,
    home: str = ".answerkey",
    baseline: str = "",
    policy: str = "",
    page: bool = True,
) -> list[str]:
    """Evaluate releases and return the ids of their reports.

    Args:
        data: What to evaluate.
        scoring: How to score it.
        judging: Which judges to ask, where the key is, and what it may cost.
        limits: When the data are too bad to score, and the scores too few to trust.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        baseline: A release, or a report, that every other release is compared with. Empty: the gate that is kept for
            the data set decides; without one, exactly two releases are compared, and the first in the data is the old
            one. The word none: nothing is compared.
        policy: What must hold for a release to ship: a YAML file, or its text, as in {primary: meaning_match.match,
            margin: 0.02}. Empty: that of the gate that is kept, if no baseline is named either.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    with started(home) as run, claimed(run.home, data.answers) as (reports_of_release, reason):
        # A retry goes on with the reports that it has made. Any other run stops where the registered release has its
        # report already, or is being evaluated
        earlier = made_by(run.home, run.id) if started_before() else []
        if earlier and is_complete(run.home, run.id):
            log.info("this run is complete, so nothing is repeated; start a new run for another report")
            return completed(_ids(earlier), *how_they_ended(run.home, _ids(earlier)))
        if reason and not earlier:
            log.info(reason)
            return completed(reports_of_release, reason)
        answers = find_answers(run, data, scoring, judging=judging, limits=limits, baseline=baseline, policy=policy)

        # Whatever can be refused is refused before anything is loaded
        baseline, policy = with_kept_gate(run.home, answers, baseline, policy)
        named_baseline = "" if baseline == NOTHING else baseline
        judge, metrics = checked(scoring, judging, run.home.embeddings, run.access)
        contract = contract_of(limits, scoring, answers)
        rules = policy_for(policy, named_baseline, metrics)
        check_baseline_answers(metrics, named_baseline)
        check_runner(scoring.runner, run.home)

        with run.recorded(answers.flow, dataset_name(answers.source), answers.parameters):
            # The answers, in DuckDB's terms, and which of them can be scored
            loaded = load_answers(answers.source, run.folder)
            start_processes(() if scoring.runner else metrics, loaded.n_rows)
            tell(Advance("validate"))
            validated = validate_answers(
                loaded.staged, loaded.rejects, str(run.folder), contract, home=run.home.local, wait_for=[loaded]
            )
            keep_validation(run.home, run.id, answers.source.answers, loaded=loaded, validation=validated)
            log_validation(loaded, validated)
            docs = (
                write_data_docs.submit(run.home, run.id, loaded.dataset, contract, checked=validated) if page else None
            )
            check_validated(run.home, answers, named_baseline, loaded=loaded, validated=validated, docs=docs)

            # What has no score yet, and what that costs
            metrics = with_baseline_answers(metrics, validated.accepted, named_baseline)
            planned = plan_scores(
                validated.accepted, run.home, run.folder, metrics, only_failed=scoring.only_failed,
                key_from=judging.key_from, wait_for=[validated],
            )  # fmt: skip
            _check_reachable(planned, judge)
            log_plan(planned, validated.n_accepted)
            if planned.known_answers:
                tell(Advance("check judges"))
                planned = try_judges(planned)

            # One task for each metric and shard of rows, side by side
            parts = fan_out(
                score_shard, planned.shards, remedy="run again with --only-failed", runner=scoring.runner,
                wait_for=[planned],
            )  # fmt: skip

            tell(Advance("report"))
            committed = commit_scores(
                run.home, run.id, answers.source.answers, loaded=loaded, accepted=validated.accepted,
                parts=[*parts.values()], wait_for=[planned],
            )  # fmt: skip
            _describe(run, answers, committed)
            content = manifest(
                run.id, answers.parameters, loaded, validated, plan=planned, judge=judge, access=run.access
            )
            content |= {"command": command_line(content["parameters"])} | answers.provenance
            if is_scheduled() and (unchanged := _unchanged(run.home, committed, content, named_baseline)):
                return completed(
                    unchanged, f"nothing new: {', '.join(unchanged)} has these answers, scored and decided alike"
                )
            reports: Sequence[Report] = earlier or aggregate_scores(
                run.home, committed, metrics, content, min_coverage=limits.min_coverage
            )
            log.info(result := publish_reports(reports), extra=DETAIL)

            # What changed against the baseline, and whether it may ship
            pairs = _pairs(run.home, baseline, reports, rules)
            comparisons = _compare(run.home, reports, pairs, rules)
            verdicts = [decide(run.home, *pair, rules, wait_for=[comparisons]) for pair in pairs if rules]
            result = log_comparisons(comparisons) or result
            log_verdicts(run, verdicts)

            # The page: about the baseline and all that was compared with it, or about each report
            options = {"drawn": page, "docs": _data_docs(run.home, docs)}
            releases = [report.release for report in reports]
            options["why_old"] = first_is_old(*releases) if pairs and not baseline else ""
            on_page = [*dict.fromkeys(chain.from_iterable(pairs))] or _ids(reports)
            log_page(lambda: publish_page(run.home, on_page, comparisons, verdicts, **options, wait_for=[reports]))
            announce_reports(run.home, _ids(reports), verdicts, wait_for=[reports])
        return completed(_ids(reports), *how_it_ended(reports, verdicts, result))


def _ids(reports: Sequence[Report]) -> list[str]:
    return [report.report_id for report in reports]


def with_kept_gate(home: Home, answers: Answers, baseline: str, policy: str) -> tuple[str, str]:
    """The baseline and the policy of a run: where it names neither, those that are kept for its data set.

    What it finds is noted in the parameters of the run.
    """
    if not (baseline or policy):
        baseline, policy = kept_gate(home, dataset_name(answers.source))
        answers.parameters.update(baseline=baseline, policy=policy)
    return baseline, policy


def contract_of(limits: Limits, scoring: Scoring, answers: Answers) -> Contract:
    """What the data must meet: references where a metric needs them, and the suite of the user."""
    if limits.expectations:
        read_suite(limits.expectations, [*answers.source.slices, *answers.source.column_paths])
    return limits.contract(needs_references=scoring.needs_references)


def check_validated(
    home: Home, answers: Answers, baseline: str, loaded: Loaded, validated: Validation, docs: Any = None
) -> None:
    """Find out whether the data can be scored, and compared with the baseline.

    Raises:
        UserError: they break the contract, or there is no such baseline.
    """
    if validated.broken:
        _data_docs(home, docs, broken=True)
        raise UserError(f"{called(answers.source.answers)}: {validated.broken}")
    if baseline:
        check_baseline(home, baseline, loaded.dataset, validated.accepted)


def _data_docs(home: Home, docs: Any, *, broken: bool = False) -> str:
    """Wait for the Data Docs; returns the name of their page in the store. Without it, nothing is lost.

    Args:
        docs: the future of the task that writes them; None where the run writes no pages.
        broken: whether the page says why the run stops.
    """
    if docs is None:
        return ""
    page = outcome(docs)
    if isinstance(page, str):
        log.info(f"data docs: {address(home, page)}", extra={} if broken else DETAIL)
        return page
    log.warning(f"the Data Docs could not be made: {page}; the checks are in the warehouse")
    return ""


def _unchanged(home: Home, committed: Committed, content: Mapping[str, Any], baseline: str) -> list[str]:
    """The newest report of each release, if they say all that this run would; else none.

    They have the same answers and references, were made in the same way, and the gate decided against the same report.
    """
    expected = json.loads(json.dumps({name: content[name] for name in ("parameters", "signatures")}))
    unchanged = []
    try:
        old_report = report_named(home, baseline, committed.dataset) if baseline else ""
        for release in committed.releases:
            [report] = read_reports(home, [report_named(home, release.release, committed.dataset)])
            gated_against = {gated.old for gated in stored_verdicts(home, [report.report_id])}
            if (
                (report.dataset_version, report.answers_version) != (committed.dataset_version, release.answers_version)
                or any(report.manifest[name] != expected[name] for name in expected)
                or (expected["parameters"]["policy"] and old_report not in gated_against | {report.report_id})
            ):
                return []
            unchanged.append(report.report_id)
    except UserError:
        # A release has no report yet
        return []
    return unchanged


def _check_reachable(planned: Plan, judge: JudgeOptions) -> None:
    """Log what the judges are expected to cost. Naming a judge is consent to ask it.

    Raises:
        UserError: a judge cannot be reached, and there is no fallback.
    """
    if judge.offline or all(shard.metric.kind != "judge" for shard in planned.shards):
        return
    expected = estimate_calls(planned)
    log.info(what_it_costs(judge.labels, judge.limits, expected, judge.fallback_labels))
    if not judge.fallbacks and any(cost.calls for cost in expected):
        check_reachable(judge.models())


def _describe(run: Run, answers: Answers, committed: Committed) -> None:
    """Name the run after what it has evaluated, and tag it for the filters of the page of runs."""
    releases = [release.release for release in committed.releases]
    releases_named = releases[0] if len(releases) == 1 else f"{len(releases)} releases"
    name = f"{answers.flow.partition('-')[0]} {releases_named} on {committed.dataset}"
    run.describe({"dataset": [committed.dataset], "release": releases}, name)


def _pairs(home: Home, baseline: str, reports: Sequence[Report], policy: Policy | None) -> list[tuple[str, str]]:
    """The report of the baseline with each of the other reports; without a baseline, both of exactly two."""
    report_ids = _ids(reports)
    if baseline == NOTHING or (not baseline and len(report_ids) < 2):
        return []
    if not baseline and len(report_ids) > 2:
        log.info(f"{len(report_ids)} releases: name one as the baseline to compare each of the others with it")
        return []
    fields = policy.fields if policy else ()
    old = report_named(home, baseline, reports[0].dataset, fields) if baseline else report_ids[0]
    new = [report_id for report_id in report_ids if report_id != old]
    if not new:
        log.warning(f"{baseline}: there is no other release to compare it with")
    return [(old, report_id) for report_id in new]


def _compare(
    home: Home, reports: Sequence[Report], pairs: Sequence[tuple[str, str]], policy: Policy | None
) -> Sequence[Comparison]:
    """Compare each pair of an old and a new report by the field that decides; their p-values are adjusted together."""
    if not pairs:
        return ()
    report_ids = dict.fromkeys(chain.from_iterable(pairs))
    primary = primary_field(home, [*report_ids], policy.primary.field) if policy else ""
    comparisons: Sequence[Comparison] = compare_reports(home, pairs, primary=primary, wait_for=[reports])
    for comparison in comparisons:
        show_comparison(comparison)
    return comparisons


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        print(*evaluate_release(Data(answers="\n".join(sys.argv[1:]))), sep="\n")
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
