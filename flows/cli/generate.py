"""`answerkey generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from answerkey.flows.cli.evaluate import prepare, print_result, with_suite
from answerkey.flows.cli.options import (
    COMPARING,
    HOME,
    JUDGING,
    LIMITS,
    SCORING,
    AsJson,
    Flags,
    HomeOption,
    Quiet,
    absolute,
    command,
)
from answerkey.flows.environment import started_here
from answerkey.flows.generating import Afterwards, Generating, Questions
from answerkey.flows.parameters import Judging, Limits, Scoring
from answerkey.tasks.warehouse.home import Home

_QUESTIONS = Flags(
    "Questions",
    {"name": "dataset-name", "columns": "map", "slices": "slice"},
    repeated=("columns", "slices"),
)
_MODEL = Flags(
    "Model",
    {
        "timeout_s": "timeout", "deadline_s": "deadline", "max_cost_usd": "max-cost",
        "max_cost_total_usd": "max-cost-total",
    },
)  # fmt: skip
# Whether and what the judges may cost is asked apart from the model under test.
_JUDGES = Flags("Judge", JUDGING.names, prefix=JUDGING.prefix, omit=("dry_run",))


@command
def generate(  # noqa: PLR0913
    questions: Annotated[Questions, _QUESTIONS],
    generating: Annotated[Generating, _MODEL],
    afterwards: Annotated[Afterwards, Flags(COMPARING.name)],
    scoring: Annotated[Scoring, SCORING],
    judging: Annotated[Judging, _JUDGES],
    limits: Annotated[Limits, LIMITS],
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    home: HomeOption = HOME,
) -> int:
    """Ask a model all questions of a data set and register its answers as a release.

    Replies are kept in the ledger, so that no question is paid for twice. With --evaluate the release is evaluated at
    once, with the options for scoring, judges and limits.
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
    limits = with_suite(limits)
    policy = prepare(home, scoring, judging, afterwards.policy, afterwards.baseline, quiet=quiet)
    afterwards = afterwards.model_copy(update={"policy": policy})
    _check(home, questions, generating)
    with bars(quiet=quiet), started_here():
        from answerkey.flows.generate_answers import generate_answers

        made = generate_answers(questions, generating, afterwards, scoring, judging, limits, str(home))
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
        reports, home, dry_run=False, as_json=as_json, compared=bool(afterwards.baseline), gated=bool(policy)
    )


def _path_or_text(given: str) -> str:
    from answerkey.tasks.releases.questions import text_or_file

    # A file may have another path for the process that reads it, and its content is another than its name.
    return absolute(given.strip()) if text_or_file(given) != given else given


def _check(home: Home, questions: Questions, generating: Generating) -> None:
    """Whatever is wrong is said before a server is started for it.

    Raises:
        UserError: a file or data set is not there, a column is not in it, the release has answers of another kind, or
            the model cannot be asked.
    """
    import shutil
    import uuid

    from answerkey.metrics_core.llm.litellm import check
    from answerkey.tasks.releases.generate import check_release
    from answerkey.tasks.releases.questions import questions as read

    asking = generating.asking(home, "")
    # Processes of two containers that share the home may have the same id.
    work = home.scratch / f"tried-{uuid.uuid4().hex}"
    try:
        questions_of = questions.find(home, work)
        check_release(home, questions_of.dataset, generating.release, asking)
        next(read(questions_of, asking.prompting.template, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    check([asking.with_key().model], asking.limits, "model")
