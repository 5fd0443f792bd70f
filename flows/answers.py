"""Where the answers of an evaluation come from: a file, a report that is made again, or a registered release.

And the command that makes a report again, from the parameters of its run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from answerkey.flows.forms import Form, option_of
from answerkey.flows.parameters import Data, Judging, Limits, Scoring
from answerkey.flows.prefect_or_local import task
from answerkey.flows.runs import Run
from answerkey.tasks.load.load import Source
from answerkey.tasks.load.remote import without_secrets
from answerkey.tasks.releases.provenance import generation_of
from answerkey.tasks.releases.register import ADDRESS, registration_named, stored_source
from answerkey.tasks.reports.report import read_reports

REPORT = "report:"
"""With the id of a report behind it, the answers of the form of an evaluation that makes this report again."""
RERUN_OF = "rerun_of"

_FORMS: Mapping[str, type[Form]] = {"data": Data, "scoring": Scoring, "judging": Judging, "limits": Limits}

export_answers = task(stored_source, name="export")


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
    run: Run, data: Data, scoring: Scoring, *, judging: Judging, limits: Limits, baseline: str, policy: str
) -> Answers:
    """Find the answers of a form, from the warehouse if it names a report or a registered release.

    Raises:
        UserError: there is no such report or registration, or a column is not KEY=PATH.
    """
    forms = {"data": data, "scoring": scoring, "judging": judging, "limits": limits}
    parameters: dict[str, Any] = {name: form.model_dump() for name, form in forms.items()}
    parameters |= {"baseline": baseline, "policy": policy}
    kind, _, name = data.answers.partition(":")
    provenance: dict[str, Any] = {}
    if f"{kind}:" == REPORT:
        [report] = read_reports(run.home, [name])
        source = export_answers(run.home, report, run.folder)
        provenance[RERUN_OF] = name
        generation = report.manifest.get("generation")

        # The suite may be given as the text that was checked
        report_parameters = report.manifest["parameters"]
        parameters["data"] = report_parameters["data"]
        parameters["limits"]["expectations"] = report_parameters["limits"].get("expectations", "")
    elif f"{kind}:" == ADDRESS:
        registration = registration_named(run.home, name)
        source = stored_source(run.home, registration, run.folder)
        generation = registration.generation
        parameters["data"]["answers"] = registration.address
    else:
        source = data.source()
        generation = generation_of(data.answers)
    if generation:
        provenance["generation"] = generation

    columns = tuple(dict.fromkeys((*source.columns, *scoring.columns)))
    source = replace(source, needs_references=scoring.needs_references, columns=columns)
    return Answers(source, parameters, provenance)


def command_line(parameters: Mapping[str, Any]) -> str:
    """`answerkey evaluate` with the parameters of a run; empty where the run had none.

    Options are written also where they have their default, which a later release may change. What is empty or 0
    is left out, unless the default is another value. Fields without an option follow `--config`, where they differ
    from their default.

    >>> command_line({"data": {"answers": "a.csv"}, "scoring": {"metrics": ["bleu"]}, "baseline": ""}).split()
    ['answerkey', 'evaluate', '\\\\', 'a.csv', '\\\\', '--metrics', 'bleu']
    """
    data = parameters.get("data") or {}
    if not data.get("answers"):
        return ""
    words = ["answerkey evaluate", shlex.join(map(without_secrets, data["answers"].splitlines()))]
    config: dict[str, dict[str, Any]] = {}
    for name, form in _FORMS.items():
        values = parameters.get(name) or {}
        if name == "judging" and not values.get("judges"):
            continue
        for field, value in values.items():
            if not (field_info := form.model_fields.get(field)):
                continue
            option = option_of(field, field_info)
            if option.startswith("--"):
                words += _written(option, value, field_info.default)
            elif not option and value != field_info.get_default(call_default_factory=True):
                config.setdefault(name, {})[field] = value
    if config:
        words.append(f"--config {shlex.quote(without_secrets(json.dumps(config)))}")
    for name in ("baseline", "policy"):
        words += _written(f"--{name}", parameters.get(name), "")
    return " \\\n    ".join(words)


def _written(option: str, value: Any, default: Any) -> list[str]:
    if default is True:
        return [] if value else [option.replace("--", "--no-", 1)]
    if value is True:
        return [option]
    if not value and (value is False or not isinstance(value, int | float) or not default):
        return []
    written = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return [f"{option} {shlex.quote(without_secrets(written))}"]
