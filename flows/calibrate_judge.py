"""The flow that compares a metric or judge with human labels, or has a rubric learn from them."""

from __future__ import annotations

from typing import Any

from answerkey.flows.parameters import Estimating, preflight
from answerkey.flows.prefect_or_local import flow, task
from answerkey.flows.runs import log, may_succeed, started
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.formatting import literal
from answerkey.metrics_core.judges.learning import Learned
from answerkey.metrics_core.llm.cost import Cost
from answerkey.tasks.gate.calibrate import Calibration, calibrate, store_calibration
from answerkey.tasks.gate.learn import Learning, estimate_learning, learn
from answerkey.tasks.publish.artifacts import artifact_key, show_markdown, show_table
from answerkey.tasks.publish.tables import agreement, costs
from answerkey.tasks.publish.text import code_block, price, what_it_learned
from answerkey.tasks.warehouse.warehouse import nothing_here

compare_with_people = task(calibrate, name="calibrate", task_run_name="calibrate {name}")
keep_calibration = task(store_calibration, name="keep calibration")
estimate_calls = task(estimate_learning, name="estimate costs")
learn_examples = task(
    learn,
    name="learn examples",
    task_run_name="learn {plan.most} examples for {plan.rubric}",
    retries=2,
    retry_delay_seconds=[1, 10],
    retry_condition_fn=may_succeed,
)

_NEWEST: list[str] = []
_USUAL: list[str] = []
_JUDGING = Estimating()


@flow(
    name="calibrate-judge",
    description="How well does a metric or a judge agree with human labels?",
    flow_run_name="calibrate {metric}",
)
def calibrate_judge(  # noqa: PLR0913
    metric: str,
    reports: list[str] = _NEWEST,
    labels: str = "",
    columns: list[str] = _USUAL,
    home: str = ".answerkey",
    *,
    learn: int = 0,
    rubric: str = "",
    out: str = "",
    judging: Estimating = _JUDGING,
) -> Calibration | Learned | list[Cost]:
    """Calibrate METRIC.FIELD, keep the result in the warehouse, and show it; or learn examples for a rubric.

    Args:
        metric: METRIC.FIELD, for instance meaning_match.match.
        reports: Reports (faq/gpt-4/v2), or releases, which stand for their newest reports. Empty: the newest run.
        labels: A file with id, label and release. Empty: the labels that came with the answers.
        columns: KEY=PATH, where a column of that file is: id, release, label, score, cluster, or second for another
            annotator. Common names are recognised without it.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        learn: Choose so many examples for the rubric below from these labels, and show what they change. 0: compare
            the scores of the reports with the labels, and ask no judge.
        rubric: The file of the rubric that learns.
        out: Where the rubric is written, on the machine that runs this. Empty: it is only shown.
        judging: Which judge learns, where the key is, and what it may cost.

    Returns:
        The calibration, with the signature that it is bound to; what was learned, with the rubric; or, in a dry run,
        what that would cost at most.

    Raises:
        UserError: what is given does not go together, or there is no such report, field, label or judge.
    """
    if columns and not labels:
        raise UserError("--map names columns of a labels file; give --labels FILE as well")
    parameters: dict[str, Any] = {"metric": metric, "reports": reports, "labels": labels, "columns": columns}
    if learn:
        parameters |= {"learn": learn, "rubric": rubric, "out": out}
        learning = Learning(
            name=metric, rubric=rubric, most=learn, reports=reports, labels=labels, mapping=columns, out=out,
            key_from=judging.key_from,
        )  # fmt: skip
        return _learn(home, learning, judging, parameters)
    if rubric or out:
        raise UserError("--rubric and --out go with --learn N: how many examples to choose")
    if judging.judges or judging.cascade or judging.dry_run:
        raise UserError(
            "--judge and --dry-run go with --learn: without it, scores of reports are compared, and no judge is asked"
        )
    with started(home) as run:
        if not labels and not run.home.warehouse.exists():
            raise nothing_here(home)
        with run.recorded("calibrate-judge", metric, parameters):
            calibration = compare_with_people(run.home, metric, reports=reports, labels=labels, mapping=columns)
            keep_calibration(run.home, calibration)
    show_table(agreement(calibration), artifact_key("calibration", calibration.name), calibration.signature)
    return calibration


def _learn(home: str, learning: Learning, judging: Estimating, parameters: dict[str, Any]) -> Learned | list[Cost]:
    with started(home) as run:
        learning.check()
        options = judging.options()
        preflight(options, judging.key_from, needs_key=not judging.dry_run)
        if not run.home.warehouse.exists():
            raise nothing_here(home)
        parameters |= {"judging": judging.model_dump()}
        with run.recorded("calibrate-judge", learning.name, parameters, dry_run=judging.dry_run):
            if judging.dry_run:
                cost = estimate_calls(run.home, learning, options)
                log.info(f"dry run: {cost.calls:,} calls at most, {price(cost.cost_usd)}; no judge was asked")
                show_table(costs("", [cost]), artifact_key("dry-run", learning.name), "What would be asked at most")
                return [cost]
            learned = learn_examples(run.home, learning, options, run.id)
            markdown = f"{literal(what_it_learned(learned))}\n\n{code_block(learned.rubric.text, 'yaml')}\n"
            show_markdown(markdown, artifact_key("learned", learning.name), learned.rubric.name)
            log.info(what_it_learned(learned))
            return learned
