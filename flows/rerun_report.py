"""Make a report again with other parameters, from what the warehouse holds. It only wires the steps."""

from __future__ import annotations

from prefect import flow
from prefect.runtime import flow_run

from answerkey.flows.evaluate_release import Run, carry_out, score_runner, this_run, work_folder
from answerkey.flows.rerunning import Rerunning, again
from answerkey.metrics_core.llm.cost import Cost
from answerkey.tasks import steps
from answerkey.tasks.reports.report import read_reports, report_named
from answerkey.tasks.warehouse.home import Home


def _run_name() -> str:
    given = flow_run.parameters["rerun"]
    return f"rerun {given['report'] if isinstance(given, dict) else given.report}"


@flow(
    name="rerun-report",
    description="Make a report again: with another judge or threshold, with other metrics, or only what failed.",
    flow_run_name=_run_name,
    retries=0,
    persist_result=False,
    validate_parameters=True,
    task_runner=score_runner(),
)
def rerun_report(rerun: Rerunning, home: str = ".answerkey", page: bool = True) -> list[str] | list[Cost]:
    """Make the next version of a report, from the answers and references that it was made from.

    Nothing is paid for twice: what judges said is in the ledger. The new report names the old one.

    Args:
        rerun: Which report to make again, and what to change.
        home: The folder of the warehouse, on a disk of the machine that runs this.
        page: Write a page for the browser into the folder pages of the warehouse.
    """
    place, run_id = Home.parse(home), this_run()
    [old] = read_reports(place, [report_named(place, rerun.report)])
    forms = again(old.manifest, rerun)
    source = steps.stored_step(place, old.report_id, work_folder(place, run_id))
    parameters = {
        "data": old.manifest["parameters"]["data"],
        "scoring": forms.scoring.model_dump(),
        "judging": forms.judging.model_dump(),
        "limits": forms.limits.model_dump(),
        "baseline": "",
    }
    run = Run(
        place, run_id, source, forms.scoring, forms.judging, forms.limits, parameters, page=page,
        rerun_of=old.report_id, generation=old.manifest.get("generation"),
    )  # fmt: skip
    return carry_out(run, "rerun-report")
