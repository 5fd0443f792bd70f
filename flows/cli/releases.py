"""The other commands that run flows: of registered releases, `rerun`, `generate` and `score-traces`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter
from pydantic import Field

from answerkey.flows.cli.evaluate import at_work, check_asked, print_result, with_suite
from answerkey.flows.cli.main import print_json
from answerkey.flows.cli.options import (
    COMPARING,
    HOME,
    JUDGES_OF_EVALUATE,
    AsJson,
    Baseline,
    Flags,
    HomeOption,
    PageOption,
    PolicyOption,
    Quiet,
    absolute,
    command,
    from_anywhere,
    pasted,
    with_files,
)
from answerkey.flows.environment import printable, running
from answerkey.flows.parameters import (
    Data,
    Generating,
    Judging,
    Limits,
    Questions,
    Rerunning,
    Scoring,
    Tracing,
    checked,
)
from answerkey.metrics_core.validation import Option
from answerkey.tasks.server import has_server

if TYPE_CHECKING:
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.traces.funnel import Funnel, Preview


_Evaluate = Annotated[
    bool,
    Parameter(
        "--evaluate",
        group=COMPARING,
        negative="",
        help="Evaluate the release at once. Without it, a server starts a run of its own for it.",
    ),
]


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
        from answerkey.tasks.releases.register import ADDRESS

        made = flow(answers, str(home))
    if as_json:
        print_json(asdict(made))
        return 0
    state = f"has the report {made.report_id}" if made.report_id else "waits for its evaluation"
    print(printable(f"{made.name} is registered as {made.registration} and {state}"))
    how = pasted(home, "evaluate", f"{ADDRESS}{made.name}")
    if how and not made.report_id and not has_server():
        print(f"evaluate it with: {how}")
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
def generate(  # noqa: PLR0913
    questions: Annotated[Questions, Flags("Questions")],
    generating: Annotated[Generating, Flags("Model")],
    scoring: Annotated[Scoring, Flags("Scoring", omit=("models", "threshold", "only_failed"))],
    # What the judges may cost is said apart from the model under test.
    judging: Annotated[Judging, Flags("Judge", omit=JUDGES_OF_EVALUATE, prefix="judge")],
    limits: Annotated[Limits, Flags("Limits", omit=tuple(Limits.model_fields))],
    *,
    evaluate: _Evaluate = False,
    baseline: Baseline = "",
    policy: PolicyOption = "",
    page: PageOption = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Ask a model all questions of a data set, and register its answers.

    Replies are kept in the ledger: no question is paid for twice. With --evaluate the release is evaluated at once,
    with the options for scoring, judges and limits.

    Examples:
        answerkey generate --dataset questions.jsonl --model openai/gpt-4o-mini --release mini --dry-run
        answerkey generate --dataset faq --model openai/gpt-4o-mini --release mini --evaluate --baseline gpt-4
    """
    from answerkey.flows.cli.tables import print_estimates, print_generated
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.releases.register import ADDRESS, registration_named

    is_file = "::" in questions.dataset or Path(questions.dataset).is_file()
    if is_file:
        questions = questions.model_copy(update={"dataset": absolute(questions.dataset)})
    texts = {name: _path_or_text(getattr(generating, name)) for name in ("system", "template")}
    generating = generating.model_copy(update=texts)
    check_asked(scoring, judging, policy, baseline)
    policy, reports = from_anywhere(policy), []
    with at_work(home, quiet=quiet):
        from answerkey.flows.evaluate_release import evaluate_release
        from answerkey.flows.generate_answers import generate_answers
        from answerkey.tasks.gate.gate import policy_for

        # What cannot be evaluated is not paid for
        if evaluate:
            policy_for(policy, baseline, checked(scoring, judging)[1])
        made = generate_answers(questions, generating, str(home))
        if evaluate and not isinstance(made, Cost):
            answers = Data(answers=f"{ADDRESS}{made.registration}")
            reports = evaluate_release(
                answers, scoring, judging, with_suite(limits), str(home), baseline, policy, page=page
            )
    if isinstance(made, Cost):
        print_estimates([made], as_json=as_json, models="the model")
        return 0
    if not (as_json and reports):
        print_generated(made.generated, registration_named(home, made.registration), as_json=as_json)
        if not reports:
            return 0
        print()
    return print_result(reports, home, as_json=as_json, compared=bool(baseline), gated=bool(policy))


def _path_or_text(given: str) -> str:
    from answerkey.tasks.releases.questions import text_or_file

    # A file may have another path for the process that reads it, and its content is another than its name.
    return absolute(given.strip()) if text_or_file(given) != given else given


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
    from answerkey.flows.cli.comparison_tables import print_funnels, print_previews

    traces = traces.model_copy(update={"rules": [absolute(place) for place in traces.rules]})
    with at_work(home, quiet=quiet):
        from answerkey.flows.score_traces import score_traces as run

        result = run(traces, str(home))
    if traces.dry_run:
        print_previews(cast("list[Preview]", result), as_json=as_json)
    else:
        print_funnels(cast("list[Funnel]", result), as_json=as_json)
    return 0
