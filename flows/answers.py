"""Where the answers of an evaluation come from: a file, a report that is made again, or a registered release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.flows.prefect_or_local import task
from answerkey.flows.runs import Run
from answerkey.tasks.load.load import Source
from answerkey.tasks.releases.export import stored_answers
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.releases.register import ADDRESS, registered_source, registration_named
from answerkey.tasks.reports.report import read_reports

REPORT = "report:"
"""With the id of a report behind it, the answers of the form of an evaluation that makes this report again."""
RERUN_OF = "rerun_of"

export_answers = task(stored_answers, name="export")


@dataclass(frozen=True, slots=True)
class Answers:
    """What is evaluated.

    Attributes:
        source: what to load.
        parameters: those of the run, as its reports keep them.
        provenance: where the answers come from, for the manifests of the reports.
    """

    source: Source
    parameters: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def flow(self) -> str:
        """The flow that the run is listed under."""
        return "rerun-report" if RERUN_OF in self.provenance else "evaluate-release"


def find_answers(
    run: Run, data: Data, scoring: Scoring, judging: Judging, limits: Limits, baseline: str, policy: str
) -> Answers:
    """Find the answers of a form, from the warehouse if it names a report or a registered release.

    Raises:
        UserError: there is no such report or registration, or a column is not KEY=PATH.
    """
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters: dict[str, Any] = {name: form.model_dump() for name, form in forms.items()}
    parameters |= {"baseline": baseline, "policy": policy}
    kind, _, name = data.answers.partition(":")
    rerun_of: Mapping[str, Any] = {}
    if f"{kind}:" == REPORT:
        [report] = read_reports(run.home, [name])
        source = export_answers(
            run.home, report.dataset, report.dataset_version, report.release, report.answers_version, run.folder
        )
        generation, rerun_of = report.manifest.get("generation"), {RERUN_OF: name}

        # The suite may be given as the text that was checked
        report_parameters = report.manifest["parameters"]
        parameters["data"] = report_parameters["data"]
        parameters["limits"]["expectations"] = report_parameters["limits"].get("expectations", "")
    elif f"{kind}:" == ADDRESS:
        registration = registration_named(run.home, name)
        source, generation = registered_source(run.home, registration, run.folder), registration.generation
        parameters["data"]["answers"] = registration.address
    else:
        source, generation = data.source(), generation_of(data.answers)

    columns = tuple(dict.fromkeys((*source.columns, *scoring.columns)))
    source = replace(source, needs_references=scoring.needs_references, columns=columns)
    return Answers(source, parameters, {**rerun_of, **({"generation": generation} if generation else {})})
