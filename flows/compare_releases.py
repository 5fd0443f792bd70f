"""Compare two releases by their reports, and decide whether releases may ship."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from answerkey.flows.environment import DETAIL
from answerkey.flows.evaluate_release import announce_reports, decide, show_comparison
from answerkey.flows.parameters import Comparing
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import completed, form_of, how_it_ended, log, log_comparisons, log_page, log_verdicts, started
from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.compare.compare import compare, primary_field
from answerkey.tasks.gate.gate import read_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.notebook.score_files import add_scores
from answerkey.tasks.publish.artifacts import publish_pair, publish_verdict, unversioned
from answerkey.tasks.releases.register import keep_gate
from answerkey.tasks.reports.report import datasets_of, pair_named

load_scores = task(add_scores, name="load scores")
compare_pair = task(compare, name="compare")
publish_pair_page = task(publish_pair, name="publish page")
publish_verdict_page = task(publish_verdict, name="publish page")


def _run_name() -> str:
    form = form_of("comparing", Comparing)
    return f"compare {form.new or 'the new release'} with {form.old}"


@flow(
    name="compare-releases",
    description="Is the new release better or worse than the old one, on the samples that both have?",
    flow_run_name=_run_name,
)
def compare_releases(
    comparing: Comparing, home: str = ".answerkey", policy: str = "", keep: bool = False, page: bool = True
) -> Comparison:
    """Compare two reports, or files of scores, keep what is found in the warehouse, and show it.

    Args:
        comparing: Which two reports, and what to look at.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        policy: What must hold for the new release to ship: the path of a YAML file, or its text, for instance
            {primary: meaning_match.match, margin: 0.02}. Empty: no gate.
        keep: Keep the old release and the policy as the gate of the data set: it decides on every release that is
            evaluated from now on, if the run names neither.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    rules = read_policy(policy) if policy else None
    if keep and not rules:
        raise UserError("keep: a gate needs a policy: what must hold for the new release to ship")
    fields = [*comparing.fields, comparing.primary, *(rules.fields if rules else ())]
    with started(home) as run:
        from_files = Path(comparing.old).is_file()
        if from_files:
            reports, doubt = load_scores(run.home, comparing.old, comparing.new, dataset=comparing.dataset)
            if doubt:
                log.warning(doubt)
            old, new = (report.report_id for report in reports)
        elif comparing.new:
            old, new = pair_named(run.home, comparing.old, comparing.new, comparing.dataset, fields=fields)
        else:
            raise UserError(f"{comparing.old}: there is no such file, and for two reports or releases `new` is missing")
        datasets, releases = zip(*map(unversioned, (old, new)), strict=True)
        run.describe({"dataset": datasets[:1], "release": releases})
        with run.recorded("compare-releases", datasets[0], {"comparing": comparing.model_dump(), "policy": policy}):
            decides = primary_field(run.home, (old, new), rules.primary.field) if rules else ""
            pair = compare_pair(
                run.home,
                old,
                new,
                fields=comparing.fields,
                all_fields=comparing.all_fields or from_files,
                primary=comparing.primary or decides,
            )
            for warning in pair.warnings:
                log.warning(warning, extra=DETAIL)
            show_comparison(pair)
            gates = [decide(run.home, old, new, rules, wait_for=[pair])] if rules else []
            if rules and keep:
                keep_gate(run.home, datasets[0], releases[0] if from_files else comparing.old, rules)
            result = log_comparisons([pair])
            log_verdicts(run, gates)
            log_page(lambda: publish_pair_page(run.home, pair, gates, drawn=page))
            announce_reports(run.home, [], gates)
    return completed(pair, *how_it_ended([], gates, result))


def _gate_name() -> str:
    from prefect.runtime import flow_run

    return f"gate {', '.join(flow_run.parameters['new'])} against {flow_run.parameters['old']}"


@flow(name="gate-releases", description="May a new release ship in place of the old one?", flow_run_name=_gate_name)
def gate_releases(
    old: str, new: list[str], policy: str, dataset: str = "", home: str = ".answerkey", page: bool = True
) -> list[ReleaseVerdict]:
    """Decide on each new release, keep the verdicts in the warehouse, and show them.

    Args:
        old: A report (faq/gpt-4/v2), or a release (gpt-4), which stands for its newest report. If there is none, the
            verdict is INCOMPLETE.
        new: The reports or releases that are to replace the old one.
        policy: What must hold for a new release to ship: the path of a YAML file, or its text, for instance
            {primary: meaning_match.match, margin: 0.02}.
        dataset: Needed only if the releases have reports on several data sets.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        page: Write a page about each pair for the browser into the folder pages of the warehouse.
    """
    with started(home) as run:
        rules = read_policy(policy)
        with run.recorded(
            "gate-releases",
            dataset or ", ".join(datasets_of(run.home, new[0])),
            {"old": old, "new": new, "policy": policy, "dataset": dataset},
        ):
            gates = [decide(run.home, old, new_report, rules, dataset=dataset) for new_report in new]
            log_verdicts(run, gates)
            for gated in gates:
                log_page(partial(publish_verdict_page, run.home, gated, drawn=page))
            announce_reports(run.home, [], gates)
    return completed(gates, *how_it_ended([], gates))
