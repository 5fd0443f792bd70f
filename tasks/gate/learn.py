"""Learn examples for a rubric from the labels of reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.check import estimate_cost
from answerkey.metrics_core.judges.learning import LabelledSample, Learned
from answerkey.metrics_core.judges.learning import learn as choose
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.rubric import MOST_EXAMPLES, Rubric, RubricMetric, fits, metric_of, read_rubric
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.gate.calibrate import labelled_scores
from answerkey.tasks.gate.labels import read_labels
from answerkey.tasks.score.keys import key
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Learning:
    """What to learn, and from which labels.

    Attributes:
        name: METRIC.FIELD of the reports, as for `calibrate`, whose labelled answers are meant.
        rubric: its path, or the name of one of this package; its scale must have two verdicts, worth 0 and 1.
        most: how many examples to choose.
        reports, labels, mapping: as for `calibrate`.
        out: where the rubric is written; empty: nowhere.
        key_from: where the key of the judge is.
    """

    name: str
    rubric: str
    most: int
    reports: Sequence[str] = ()
    labels: str = ""
    mapping: Sequence[str] = ()
    out: str = ""
    key_from: str = ""

    def check(self) -> None:
        """Find out what can be known before anything is read.

        Raises:
            UserError: no rubric is named, too many examples or none are asked for, or `out` cannot be written.
        """
        if not self.rubric or not 1 <= self.most <= MOST_EXAMPLES:
            raise UserError(
                f"--learn N: how many examples to choose, 1 to {MOST_EXAMPLES}, for the rubric that --rubric names"
            )
        if self.out and not os.access(Path(self.out).absolute().parent, os.W_OK):
            raise UserError(f"{self.out}: cannot be written: its folder is missing or read-only")


def learn(home: Home, plan: Learning, judge: JudgeOptions, run: str) -> Learned:
    """Choose examples for a rubric from the labelled answers of reports; see `learning.learn`.

    The file is written only where the examples showed a gain.

    Args:
        run: what the calls are counted for.

    Raises:
        UserError: the rubric cannot be used or written, no judge is named, or too few answers have a label.
    """
    rubric, rows = _read_labelled(home, plan, judge)
    access = Access(key(plan.key_from), ledger=home.ledger, run=run)

    def verdicts(candidate: Rubric, samples: Sequence[Sample]) -> list[str | None]:
        measurements = _metric(candidate, judge, access).measure(samples)
        return [measurement.details.get("verdict") for measurement in measurements]

    learned = choose(rubric, rows, verdicts, plan.most)
    if learned.rubric == rubric:
        return learned
    # Other examples make another metric, so its scores must not be taken for those of the old one
    learned = replace(learned, rubric=replace(learned.rubric, version=rubric.version + 1))
    if plan.out:
        try:
            Path(plan.out).write_text(learned.rubric.text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{plan.out}: cannot be written: {error.strerror or error}") from error
    return learned


def estimate_learning(home: Home, plan: Learning, judge: JudgeOptions) -> Cost:
    """Estimate what `learn` will ask and cost at most. No call is made.

    Which examples are tried depends on verdicts. This is for a judge that is wrong about every answer until it is shown
    examples: then as many answers as possible are judged again.

    Raises:
        UserError: as `learn`.
    """
    rubric, rows = _read_labelled(home, plan, judge)
    true_verdicts = {id(row.sample): row.verdict for row in rows}
    passes: list[Cost] = []
    access = Access(ledger=home.ledger)

    def verdicts(candidate: Rubric, samples: Sequence[Sample]) -> list[str | None]:
        passes.append(estimate_cost(_metric(candidate, judge, access), samples))
        if candidate is rubric:
            return [""] * len(samples)
        return [true_verdicts[id(sample)] for sample in samples]

    choose(rubric, rows, verdicts, plan.most)
    return Cost(
        metric=rubric.name,
        samples=len(rows),
        calls=sum(cost.calls for cost in passes),
        in_ledger=sum(cost.in_ledger for cost in passes),
        tokens_in=sum(cost.tokens_in for cost in passes),
        tokens_out=sum(cost.tokens_out for cost in passes),
        cost_usd=total_usd(passes),
    )


def _metric(rubric: Rubric, judge: JudgeOptions, access: Access) -> RubricMetric:
    """Return the metric of a rubric, with these judges."""
    # The check of judges asks about the examples, and which these are is the question here
    return metric_of(rubric)(judge=judge.model_copy(update={"check": "never"}), access=access)


def _read_labelled(home: Home, plan: Learning, judge: JudgeOptions) -> tuple[Rubric, list[LabelledSample]]:
    """Read the rubric, and the labelled answers that it can judge."""
    plan.check()
    rubric = read_rubric(plan.rubric)
    if len(rubric.criteria) > 1:
        raise UserError(f"{rubric.source}: labels are about one criterion, so --learn needs a rubric with one")
    verdicts = {value: label for label, value in rubric.scale}
    if len(rubric.scale) != 2 or verdicts.keys() != {0.0, 1.0}:
        raise UserError(f"{rubric.source}: labels are true or false, so --learn needs a scale of two, like yes/no")
    metric = metric_of(rubric)(judge=judge)
    metric.check()

    # Labels of the reports' answers
    label_rows = read_labels(plan.labels, plan.mapping)[0] if plan.labels else []
    reports, _, scores = labelled_scores(home, plan.name, plan.reports, label_rows, labels=plan.labels)
    labels = {(row.release, row.sample_id, row.repeat): row for row in scores if row.correct is not None}

    # Their texts, without those that need no judge
    texts = home.rows(_SQL["texts"], {"reports": [report.report_id for report in reports]})
    labelled = []
    for release, sample_id, repeat, question, answer, references, context, columns in texts:
        row = labels.get((release, sample_id, repeat))
        if row is None:
            continue
        sample = Sample(sample_id, answer, references, question, context=context, columns=columns or {})
        if fits(rubric, sample) and metric.without_judge(sample) is None:
            labelled.append(LabelledSample(sample, verdicts[float(row.correct or 0)], row.cluster))
    return rubric, labelled
