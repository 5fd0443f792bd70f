"""Make a report again with other parameters, from the answers in the warehouse. It only wires the steps."""

from __future__ import annotations

from answerkey.flows import steps
from answerkey.flows.evaluate_release import Evaluation, evaluate
from answerkey.flows.parameters import LOCAL, RunnerAddress
from answerkey.flows.prefect_or_local import flow
from answerkey.flows.rerunning import Rerunning, again
from answerkey.flows.runs import started
from answerkey.metrics_core.llm.cost import Cost
from answerkey.tasks.reports.report import read_reports, report_named


def _run_name() -> str:
    from prefect.runtime import flow_run

    given = flow_run.parameters["rerun"]
    return f"rerun {given['report'] if isinstance(given, dict) else given.report}"


@flow(
    name="rerun-report",
    description="Make a report again: with another judge or threshold, with other metrics, or only what failed.",
    flow_run_name=_run_name,
)
def rerun_report(
    rerun: Rerunning, home: str = ".answerkey", page: bool = True, *, runner: RunnerAddress = LOCAL
) -> list[str] | list[Cost]:
    """Make the next version of a report, from the answers and references that it was made from.

    Nothing is paid for twice: what judges said is in the ledger. The new report names the old one.

    Args:
        rerun: Which report to make again, and what to change.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        page: Write a page for the browser into the folder pages of the warehouse.
        runner: Where answers are scored: local, or dask://HOST:PORT of a Dask scheduler, whose workers do it.
    """
    with started(home) as run:
        [old] = read_reports(run.home, [report_named(run.home, rerun.report)])
        forms = again(old.manifest, rerun)
        source = steps.export(
            run.home, old.dataset, old.dataset_version, old.release, old.answers_version, run.folder
        )  # fmt: skip
        asked = old.manifest["parameters"]
        parameters = {
            "data": asked["data"],
            "scoring": forms.scoring.model_dump(),
            "judging": forms.judging.model_dump(),
            "limits": forms.limits.model_dump() | {"expectations": asked["limits"].get("expectations", "")},
            "baseline": "",
        }
        provenance = {"rerun_of": old.report_id}
        if generation := old.manifest.get("generation"):
            provenance["generation"] = generation
        evaluation = Evaluation(
            source, forms.scoring, forms.judging, forms.limits, parameters,
            page=page, provenance=provenance, runner=runner,
        )  # fmt: skip
        return evaluate(run, evaluation, "rerun-report")
