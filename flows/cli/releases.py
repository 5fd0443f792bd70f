"""`answerkey register-release`, `evaluate-registered` and `rerun`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from answerkey.flows.cli.evaluate import RunnerOption, check_asked, print_result, with_suite
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    HOME,
    AsJson,
    Baseline,
    Flags,
    HomeOption,
    PageOption,
    PolicyOption,
    Quiet,
    command,
    from_anywhere,
    pasted,
    with_files,
)
from answerkey.flows.environment import printable, running
from answerkey.flows.parameters import LOCAL, Data, Judging, Limits, Rerunning, Scoring, Waiting
from answerkey.metrics_core.validation import Option
from answerkey.tasks.server import has_server


class _Registered(Data):
    """The answers of one release, which has a name, to a data set that has one."""

    answers: Annotated[str, Option("--answers")] = Data.model_fields["answers"]  # type: ignore[assignment]
    release: Annotated[str, Option("NAME")] = Field(
        min_length=1, description="The release that gave all these answers."
    )
    dataset: str = Field(min_length=1, description="Name of the data set.")


@command
def register_release(
    data: Annotated[_Registered, Flags("Data")],
    *,
    as_json: AsJson = False,
    home: HomeOption = HOME,
) -> int:
    """Register the answers of a release for evaluation.

    Notifies the Prefect server, if there is one. Registering the same answers again changes nothing. Without
    references, those of the data set's newest evaluation are used.

    Examples:
        answerkey register-release gpt-5 --dataset faq --answers answers.csv
    """
    from dataclasses import asdict

    answers = with_files(data)
    with running(home):
        from answerkey.flows.register_release import register_release as flow

        made = flow(answers, str(home))
    if as_json:
        print_json(asdict(made))
        return 0
    state = f"has the report {made.report_id}" if made.report_id else "waits for its evaluation"
    print(printable(f"{made.name} is registered as {made.registration} and {state}"))
    how = pasted(home, "evaluate-registered", made.name)
    if how and not made.report_id and not has_server():
        print(f"evaluate it with: {how}")
    return 0


@command
def evaluate_registered(  # noqa: PLR0913
    waiting: Annotated[Waiting, Flags("Releases")],
    scoring: Annotated[Scoring, Flags("Scoring")],
    judging: Annotated[Judging, Flags("Judge")],
    limits: Annotated[Limits, Flags("Limits")],
    *,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    page: PageOption = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Evaluate every registered release without a report.

    Running it again does nothing.

    Examples:
        answerkey evaluate-registered
        answerkey evaluate-registered faq/gpt-5 --baseline gpt-4 --policy gate.yaml
    """
    from answerkey.flows.cli.progress import bars

    check_asked(scoring, judging, policy, baseline)
    with running(home, quiet=quiet, findings=True), bars(quiet=quiet):
        from answerkey.flows.evaluate_registered import evaluate_registered as flow

        result = flow(
            waiting, scoring, judging, with_suite(limits), str(home), baseline, from_anywhere(policy),
            page=page, runner=runner,
        )  # fmt: skip
    return print_result(
        result, home, dry_run=judging.dry_run, as_json=as_json, compared=bool(baseline), gated=bool(policy)
    )


@command
def rerun(
    rerun: Annotated[Rerunning, Flags("Rerun")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
    runner: RunnerOption = LOCAL,
) -> int:
    """Make a report again with another judge, threshold or metrics.

    The new report is the next version, from the same answers. Options that you leave out stay as they were.

    Examples:
        answerkey rerun faq/gpt-4/v2 --judge openai/gpt-4o-mini --max-cost 5
        answerkey rerun gpt-4 --only-failed
    """
    from answerkey.flows.cli.progress import bars

    with running(home, quiet=quiet, findings=True), bars(quiet=quiet):
        from answerkey.flows.rerun_report import rerun_report

        result = rerun_report(rerun, str(home), runner=runner)
    return print_result(result, home, dry_run=rerun.dry_run, as_json=as_json)
