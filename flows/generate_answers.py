"""From a model and a data set's questions to a registered release."""

from __future__ import annotations

from answerkey.flows.parameters import Generating, Questions
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import Run, form_of, log, may_succeed, started
from answerkey.metrics_core.llm.access import CallLimits
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.generate import ANSWERS, Prompting, placeholders
from answerkey.metrics_core.llm.model import ModelRef, check_reachable
from answerkey.metrics_core.llm.provider import check
from answerkey.metrics_core.llm.provider_options import check_environment, extras
from answerkey.metrics_core.progress import Advance, tell
from answerkey.tasks.load.columns import parse_map
from answerkey.tasks.publish.artifacts import artifact_key, show_table
from answerkey.tasks.publish.table import Table
from answerkey.tasks.publish.tables import costs
from answerkey.tasks.publish.text import count, price, what_it_costs
from answerkey.tasks.releases.generate import (
    Asking,
    Generated,
    check_answered,
    check_release,
    counts,
    estimate_answers,
    generate,
    register_generated,
    tally,
)
from answerkey.tasks.releases.questions import QuestionSet, find_questions, text_or_file

estimate_calls = task(estimate_answers, name="estimate costs")
ask_model = task(
    generate,
    name="generate",
    task_run_name="generate {release}",
    retries=2,
    retry_delay_seconds=[1, 10],
    retry_condition_fn=may_succeed,
)
register_answers = task(register_generated, name="register")


def _run_name() -> str:
    return f"generate {form_of('generating', Generating).release}"


@flow(
    name="generate-answers",
    description="Ask a model all questions of a data set, and register the answers as a release.",
    flow_run_name=_run_name,
)
def generate_answers(
    questions: Questions, generating: Generating, home: str = ".answerkey"
) -> tuple[Generated, str] | Cost:
    """Ask a model all questions of a data set, and register its answers; after a dry run, say what it would cost.

    What was answered once is never asked again, whether a run was stopped by a limit, was killed, or ended.

    Args:
        questions: What to ask.
        generating: Which model to ask, how, and what it may cost.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.

    Returns:
        The answers, and the id of their registration; after a dry run, the cost.
    """
    with started(home) as run:
        # What is asked and how: without the key, through the ledger of the home
        template = text_or_file(generating.template)
        placeholders(template)
        limits = CallLimits(
            concurrency=generating.concurrency,
            timeout_s=generating.timeout_s,
            deadline_s=generating.deadline_s,
            max_calls=generating.max_calls or None,
            max_cost_usd=generating.max_cost_usd or None,
            max_cost_total_usd=generating.max_cost_total_usd or None,
        )
        prompting = Prompting(
            extras=extras(generating.extra_headers, generating.extra_body),
            system=text_or_file(generating.system),
            template=template,
            temperature=generating.temperature,
            seed=generating.seed,
            max_tokens=generating.max_tokens,
        )
        asking = Asking(
            prompting=prompting,
            model=ModelRef.parse(generating.model),
            limits=limits,
            access=run.access,
            key_from=generating.key_from,
            repeats=generating.repeats,
        )

        # Whether it can be asked, before anything is paid
        check_environment(generating.extra_headers)
        model = asking.model if generating.dry_run else asking.with_key().model
        check([model], asking.limits, "model", needs_key=not generating.dry_run)
        question_set = find_questions(
            run.home, questions.dataset, run.folder, name=questions.name, paths=parse_map(questions.columns),
            slices=questions.slices,
        )  # fmt: skip
        check_release(run.home, question_set.dataset, generating.release, asking)
        parameters = {"questions": questions.model_dump(), "generating": generating.model_dump()}
        with run.recorded("generate-answers", question_set.dataset, parameters, dry_run=generating.dry_run):
            generated = _generate(run, question_set, asking, generating)
    return generated


def _generate(run: Run, question_set: QuestionSet, asking: Asking, form: Generating) -> tuple[Generated, str] | Cost:
    if form.repeats > 1 and not form.temperature:
        log.warning(f"{form.repeats} answers per question at temperature 0: they will be alike; raise the temperature")
    tell(Advance("count questions"))
    estimate = estimate_calls(question_set, asking, run.folder)
    if form.dry_run:
        show_table(
            costs("", [estimate]), artifact_key("dry-run", question_set.dataset), "What the model would be asked"
        )
        log.info(f"dry run: {estimate.calls:,} calls, {price(total_usd([estimate]))}; the model was not asked")
        return estimate
    log.info(what_it_costs([asking.model.label], asking.limits, [estimate]))
    if estimate.calls:
        check_reachable([asking.model])
    tell(Advance(ANSWERS, 0, estimate.samples))
    # A concurrency limit of that name holds the asking back, as it does for judges.
    tags = [f"model-{form.model.partition('/')[0]}"]
    generated = ask_model.with_options(tags=tags, name=f"generate {form.release}")(
        run.home, question_set, asking, form.release, run.folder
    )

    # What came of the questions, and whether that is enough
    log.info(tally(generated))
    rows = [*counts(generated), *((f"without an answer: {reason}", n) for reason, n in generated.reasons)]
    table = Table("", ("what", "questions"), [(label, count(n)) for label, n in rows])
    show_table(table, artifact_key("generated", generated.dataset, generated.release), tally(generated))
    check_answered(generated, form.min_answered)
    registration = register_answers(run.home, question_set, generated, run.id, run.folder)
    log.info(f"{registration.name} is registered as {registration.registration}")
    return generated, registration.registration
