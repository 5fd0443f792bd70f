"""`answerkey generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from answerkey.flows.cli.evaluate import check_asked, print_result, with_suite
from answerkey.flows.cli.options import (
    COMPARING,
    HOME,
    AsJson,
    Flags,
    HomeOption,
    Quiet,
    absolute,
    command,
    from_anywhere,
)
from answerkey.flows.environment import running
from answerkey.flows.parameters import Afterwards, Generating, Judging, Limits, Questions, Scoring


@command
def generate(  # noqa: PLR0913
    questions: Annotated[Questions, Flags("Questions")],
    generating: Annotated[Generating, Flags("Model")],
    afterwards: Annotated[Afterwards, Flags(COMPARING.name)],
    scoring: Annotated[Scoring, Flags("Scoring")],
    # What the judges may cost is said apart from the model under test.
    judging: Annotated[Judging, Flags("Judge", omit=("dry_run",), prefix="judge")],
    limits: Annotated[Limits, Flags("Limits")],
    *,
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
    from answerkey.flows.cli.progress import bars
    from answerkey.flows.cli.tables import print_estimates, print_generated
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.releases.register import registrations

    is_file = "::" in questions.dataset or Path(questions.dataset).is_file()
    if is_file:
        questions = questions.model_copy(update={"dataset": absolute(questions.dataset)})
    texts = {name: _path_or_text(getattr(generating, name)) for name in ("system", "template")}
    generating = generating.model_copy(update=texts)
    afterwards = afterwards.model_copy(update={"policy": from_anywhere(afterwards.policy)})
    check_asked(scoring, judging, afterwards.policy, afterwards.baseline)
    with running(home, quiet=quiet, findings=True), bars(quiet=quiet):
        from answerkey.flows.generate_answers import generate_answers

        made = generate_answers(questions, generating, afterwards, scoring, judging, with_suite(limits), str(home))
    if isinstance(made, Cost):
        print_estimates([made], as_json=as_json, models="the model")
        return 0
    reports = list(made.report_ids)
    if not (as_json and reports):
        [registration] = registrations(home, made.registration)
        print_generated(made.generated, registration, as_json=as_json)
        if not reports:
            return 0
        print()
    return print_result(
        reports, home, dry_run=False, as_json=as_json, compared=bool(afterwards.baseline), gated=bool(afterwards.policy)
    )


def _path_or_text(given: str) -> str:
    from answerkey.tasks.releases.questions import text_or_file

    # A file may have another path for the process that reads it, and its content is another than its name.
    return absolute(given.strip()) if text_or_file(given) != given else given
