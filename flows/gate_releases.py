"""Decide whether releases may ship in place of another one. It only wires the steps."""

from __future__ import annotations

from functools import partial

from answerkey.flows import steps
from answerkey.flows.evaluate_release import decide, how_it_ended, log_page, tag_verdicts, wait_for_labels
from answerkey.flows.prefect_or_local import completed, flow
from answerkey.flows.runs import started
from answerkey.tasks.gate.gate import read_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.reports.report import datasets_of


def _run_name() -> str:
    from prefect.runtime import flow_run

    return f"gate {', '.join(flow_run.parameters['new'])} against {flow_run.parameters['old']}"


@flow(name="gate-releases", description="May a new release ship in place of the old one?", flow_run_name=_run_name)
def gate_releases(
    old: str, new: list[str], policy: str, dataset: str = "", home: str = ".answerkey", page: bool = True
) -> list[ReleaseVerdict]:
    """Decide on each new release, keep the verdicts in the warehouse, and show them.

    Args:
        old: A report (faq/gpt-4/v2), or a release (gpt-4), which stands for its newest report. If there is none, the
            verdict is INCOMPLETE.
        new: The reports or releases that are to replace the old one. Verdicts on several share the error rate of one.
        policy: What must hold for a new release to ship: the path of a YAML file, or its text, for instance
            {primary: meaning_match.match, margin: 0.02}.
        dataset: Needed only if the releases have reports on several data sets.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        page: Write a page about each pair for the browser into the folder pages of the warehouse.
    """
    parameters = {"old": old, "new": new, "policy": policy, "dataset": dataset}
    with started(home) as run:
        rules = read_policy(policy)
        with run.recorded("gate-releases", dataset or ", ".join(datasets_of(run.home, new[0])), parameters):
            gates = [decide(run.home, old, one, rules, len(new), dataset=dataset) for one in new]
            tag_verdicts(run, gates)
            for gated in gates:
                log_page(partial(steps.publish_verdict, run.home, gated, drawn=page))
            steps.announce(run.home, [], gates)
        wait_for_labels(run.home, gates)
    return completed(gates, *how_it_ended([], gates))
