"""The other commands that run flows: `register-release`, `rerun`, `generate` and `score-traces`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from answerkey.flows.cli.evaluate import at_work, print_result
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    HOME,
    AsJson,
    Flags,
    HomeOption,
    Quiet,
    absolute,
    command,
    pasted,
    with_files,
)
from answerkey.flows.environment import printable, running
from answerkey.flows.parameters import (
    Data,
    Generating,
    Questions,
    Rerunning,
    Tracing,
)
from answerkey.metrics_core.validation import Option
from answerkey.tasks.server import has_server

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.releases.register import Registration
    from answerkey.tasks.traces.funnel import Funnel, Preview
    from answerkey.tasks.warehouse.home import Home


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
    from answerkey.flows.cli.tables import registered

    answers = with_files(data)
    with running(home):
        from answerkey.flows.register_release import register_release as flow

        registration = flow(answers, str(home))
    if as_json:
        print_json(registration)
        return 0
    print(printable(registered(registration)))
    _print_next(home, registration)
    return 0


@command
def rerun(
    rerun: Annotated[Rerunning, Flags("Rerun")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Make a report again with another judge, threshold or metrics.

    The new report is the next version, from the same answers. Options that you leave out stay as they were.

    Examples:
        answerkey rerun faq/gpt-4/v2 --judge openai/gpt-4o-mini --max-cost 5
        answerkey rerun gpt-4 --only-failed
    """
    from answerkey.flows.cli.tables import print_estimates

    with at_work(home, quiet=quiet):
        from answerkey.flows.rerun_report import rerun_report

        result = rerun_report(rerun, str(home))
    if rerun.dry_run:
        print_estimates(cast("list[Cost]", result), as_json=as_json)
        return 0
    return print_result(cast("list[str]", result), home, as_json=as_json)


@command
def generate(
    questions: Annotated[Questions, Flags("Questions")],
    generating: Annotated[Generating, Flags("Model")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Ask a model all questions of a data set, and register its answers.

    Replies are kept in the ledger: no question is paid for twice. `answerkey evaluate registered:DATASET/RELEASE`
    evaluates them; a server starts that run by itself.

    Examples:
        answerkey generate --dataset questions.jsonl --model openai/gpt-4o-mini --release mini --dry-run
        answerkey generate --dataset faq --model openai/gpt-4o-mini --release mini --max-cost 5
    """
    from answerkey.flows.cli.tables import print_estimates, print_generated
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.releases.register import registration_named

    # A file of questions, or the name of a data set that has some
    if "::" in questions.dataset or Path(questions.dataset).is_file():
        questions = questions.model_copy(update={"dataset": absolute(questions.dataset)})
    with at_work(home, quiet=quiet):
        from answerkey.flows.generate_answers import generate_answers

        result = generate_answers(questions, generating, str(home))

    # A dry run has costs only
    if isinstance(result, Cost):
        print_estimates([result], as_json=as_json, models="the model")
        return 0
    generated, registration_id = result
    registration = registration_named(home, registration_id)
    print_generated(generated, registration, as_json=as_json)
    if not as_json:
        _print_next(home, registration)
    return 0


def _print_next(home: Home, registration: Registration) -> None:
    """The command that evaluates a registered release, where no server does."""
    from answerkey.tasks.releases.register import ADDRESS

    line = pasted(home, "evaluate", f"{ADDRESS}{registration.name}")
    if line and not registration.report_id and not has_server():
        print(f"evaluate it with: {line}")


@command
def score_traces(
    traces: Annotated[Tracing, Flags("Traces")],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Score logged traces by rules: new ones, or a range.

    Examples:
        answerkey score-traces rules --dry-run
        answerkey score-traces rules
        answerkey score-traces rules --rule faq-meaning --since 2026-11-01 --until 2026-12-01
    """
    from answerkey.flows.cli.tables import print_funnels, print_previews

    traces = traces.model_copy(update={"rules": [absolute(source) for source in traces.rules]})
    with at_work(home, quiet=quiet):
        from answerkey.flows.score_traces import score_traces as run

        result = run(traces, str(home))
    if traces.dry_run:
        print_previews(cast("list[Preview]", result), as_json=as_json)
    else:
        print_funnels(cast("list[Funnel]", result), as_json=as_json)
    return 0
