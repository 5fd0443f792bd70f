"""Make a report again with other parameters, from the answers in the warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.flows.answers import REPORT
from answerkey.flows.estimate_release import estimate_release
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import (
    METRIC_OPTIONS,
    NO_SUCH_OPTION,
    NOTHING,
    Data,
    Judging,
    Limits,
    Rerunning,
    Scoring,
)
from answerkey.flows.prefect_or_local import flow, tagged
from answerkey.flows.runs import Run, form_of, run_id
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import OFFLINE
from answerkey.metrics_core.llm.cost import Cost
from answerkey.metrics_core.registry import with_content
from answerkey.metrics_core.validation import InvalidValue
from answerkey.tasks.releases.register import kept_gate
from answerkey.tasks.reports.report import read_reports, report_named
from answerkey.tasks.warehouse.home import Home


def _run_name() -> str:
    return f"rerun {form_of('rerun', Rerunning).report}"


@flow(
    name="rerun-report",
    description="Make a report again: with another judge or threshold, with other metrics, or only what failed.",
    flow_run_name=_run_name,
    persist_result=True,
)
def rerun_report(rerun: Rerunning, home: str = ".answerkey", page: bool = True) -> list[str] | list[Cost]:
    """Make the next version of a report, or of a pair, from the answers and references that it was made from.

    Nothing is paid for twice: what judges said is in the ledger. The new report names the old one.

    Args:
        rerun: Which report to make again, and what to change.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    parsed_home = Home.parse(home)
    [report] = read_reports(parsed_home, [report_named(parsed_home, rerun.report)])
    forms = (Data(answers=f"{REPORT}{report.report_id}"), *changed_forms(report.manifest, rerun), home)
    Run(parsed_home, run_id()).describe({"changed": _changes(rerun)})
    if not rerun.against:
        compared_with = ("", rerun.policy)
        if rerun.dry_run:
            return estimate_release.fn(*forms, *compared_with)
        return evaluate_release.fn(*forms, *compared_with, page)

    # The old report of the pair first, with the same changes
    [old_report] = read_reports(parsed_home, [report_named(parsed_home, rerun.against, report.dataset)])
    old_data = Data(answers=f"{REPORT}{old_report.report_id}")
    old_forms = (old_data, *changed_forms(old_report.manifest, rerun), home)
    if rerun.dry_run:
        return estimate_release.fn(*old_forms, NOTHING) + estimate_release.fn(*forms, NOTHING)
    with tagged():
        [baseline] = evaluate_release(*old_forms, NOTHING, page=False)
    policy = rerun.policy or kept_gate(parsed_home, report.dataset)[1]
    return evaluate_release.fn(*forms, baseline, policy, page)


def _changes(rerun: Rerunning) -> list[str]:
    """What is changed, for the tags of the run."""
    changed = rerun.model_dump(
        mode="json",
        include={"metrics", "own_metrics", "judges", "threshold", "only_failed"},
        exclude_defaults=True,
    )
    tags = []
    for name, value in changed.items():
        tags.append(f"{name} {', '.join(value)}" if isinstance(value, list) else f"{name} {value}")
    return tags


def changed_forms(manifest: Mapping[str, Any], rerun: Rerunning) -> tuple[Scoring, Judging, Limits]:
    """The parameters of a report, with what is wanted changed in them.

    Raises:
        UserError: the parameters cannot be used any more, failed rows are to be scored by another judge, or none of
            the metrics has a threshold.
    """
    parameters = manifest["parameters"]
    try:
        scored_with = dict(parameters["scoring"])
        # The rubrics and the suite that were used, wherever their files are now
        rubrics = manifest.get("rubrics", {})
        scored_with["metrics"] = [with_content(spec, rubrics) for spec in scored_with["metrics"]]
        scoring = Scoring(**scored_with)
        judging = Judging(**parameters["judging"])
        limited_by = dict(parameters["limits"])
        if suite := manifest.get("expectations"):
            limited_by["expectations"] = suite
        limits = Limits(**limited_by)
    except (InvalidValue, KeyError) as error:
        raise UserError(
            f"{rerun.report}: it was made by another version of answerkey, with unknown parameters; "
            "evaluate its answers again"
        ) from error

    # How to score
    if rerun.only_failed and (rerun.judges or rerun.threshold is not None):
        raise UserError("only failed rows: nothing has failed yet with another judge or threshold; drop one of the two")
    changes: dict[str, Any] = {"only_failed": rerun.only_failed}
    if rerun.metrics or rerun.own_metrics:
        changes["metrics"] = [*(rerun.metrics or scoring.metrics), *rerun.own_metrics]
    if rerun.threshold is not None:
        changes["threshold"] = rerun.threshold
    scoring = scoring.model_copy(update=changes)
    # What the report was made with, and the metrics of the new one do not have.
    dropped = {name: METRIC_OPTIONS[name][1].default for name in scoring.unused if name not in changes}
    scoring = scoring.model_copy(update=dropped)
    if scoring.unused:
        raise UserError(f"{scoring.unused[0]}: {NO_SUCH_OPTION}")

    # Which judges to ask, and what it may cost
    changed_judging = rerun.model_dump(include={"max_calls", "max_cost_usd", "max_cost_total_usd"})
    if rerun.key_from:
        changed_judging["key_from"] = rerun.key_from
    if rerun.judges:
        fallbacks = () if OFFLINE in rerun.judges else judging.fallbacks
        changed_judging["fallbacks"] = tuple(judge for judge in fallbacks if judge not in rerun.judges)
        changed_judging |= {"judges": rerun.judges, "api_base": rerun.api_base}
    # A report whose judges were named outside of it is not made again with others by accident
    elif scoring.asks_judges and not judging.judges:
        old_judges = (manifest.get("judge") or {}).get("judges")
        new_judges = list(judging.options().labels)
        if old_judges and old_judges != new_judges:
            raise UserError(
                f"the report asked {', '.join(old_judges)}, which were not named in it; now it would ask "
                f"{', '.join(new_judges)}; name the ones you want"
            )
    return scoring, judging.model_copy(update=changed_judging), limits
