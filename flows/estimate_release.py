"""A dry run: what the judges of an evaluation would be asked, and what that would cost."""

from __future__ import annotations

from answerkey.flows.answers import find_answers
from answerkey.flows.evaluate_release import (
    JUDGING,
    LIMITS,
    SCORING,
    check_validated,
    contract_of,
    estimate_calls,
    load_answers,
    plan_scores,
    validate_answers,
    with_kept_gate,
)
from answerkey.flows.parameters import NOTHING, Data, Judging, Limits, Scoring, checked
from answerkey.flows.prefect_or_local import flow
from answerkey.flows.runs import log, log_validation, started
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.tasks.gate.gate import policy_for
from answerkey.tasks.load.load import dataset_name
from answerkey.tasks.publish import tables
from answerkey.tasks.publish.artifacts import artifact_key, show_table
from answerkey.tasks.publish.text import not_counted, price
from answerkey.tasks.score.baseline_answers import with_baseline_answers


@flow(name="estimate-release", description="What the judges of an evaluation would be asked, and what that would cost.")
def estimate_release(
    data: Data,
    scoring: Scoring = SCORING,
    judging: Judging = JUDGING,
    limits: Limits = LIMITS,
    home: str = ".answerkey",
    baseline: str = "",
    policy: str = "",
) -> list[Cost]:
    """Estimate the calls of each metric. No judge is asked, no key is needed, and nothing is scored.

    Args:
        data: What would be evaluated.
        scoring: How it would be scored.
        judging: Which judges would be asked.
        limits: When the data are too bad to score.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        baseline: A release, or a report, that every other release would be compared with.
        policy: What would have to hold for a release to ship.
    """
    with started(home) as run:
        answers = find_answers(run, data, scoring, judging=judging, limits=limits, baseline=baseline, policy=policy)
        baseline, policy = with_kept_gate(run.home, answers, baseline, policy)
        named_baseline = "" if baseline == NOTHING else baseline
        judge, metrics = checked(scoring, judging, run.home.embeddings, run.access, needs_key=False)
        policy_for(policy, named_baseline, metrics)
        contract = contract_of(limits, scoring, answers)

        with run.recorded("estimate-release", dataset_name(answers.source), answers.parameters, dry_run=True):
            loaded = load_answers(answers.source, run.folder)
            validated = validate_answers(
                loaded.staged, loaded.rejects, str(run.folder), contract, home=run.home.local, wait_for=[loaded]
            )
            log_validation(loaded, validated)
            check_validated(run.home, answers, named_baseline, loaded=loaded, validated=validated)

            metrics = with_baseline_answers(metrics, validated.accepted, named_baseline)
            planned = plan_scores(
                validated.accepted, run.home, run.folder, metrics, only_failed=scoring.only_failed,
                key_from=judging.key_from, wait_for=[validated],
            )  # fmt: skip
            costs = [*estimate_calls(planned)]
            show_table(
                tables.costs("", costs), artifact_key("dry-run", loaded.dataset), "What the judges would be asked"
            )
            n_calls = sum(cost.calls for cost in costs)
            conditions = not_counted(judge.fallback_labels)
            if judge.batch:
                conditions = f" as a batch{conditions}"
            log.info(
                f"dry run: {n_calls:,} calls, {price(total_usd(costs))}{conditions}; no judge was asked, and nothing "
                "was scored"
            )
    return costs
