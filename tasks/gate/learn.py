"""Learn examples for a rubric from the labels of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.learning import LabelledSample, Learned
from answerkey.metrics_core.judges.learning import learn as choose
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.rubric import Rubric, fits, read_rubric
from answerkey.metrics_core.judges.rubric_metric import metric_of
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.sample import Sample
from answerkey.tasks.gate.calibrate import labelled_scores
from answerkey.tasks.gate.labels import read_labels
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

_SQL = statements(__name__)


def learn(  # noqa: PLR0913
    home: Home,
    name: str,
    rubric: str,
    most: int,
    judge: JudgeOptions,
    access: Access,
    *,
    reports: Sequence[str] = (),
    labels: str = "",
    mapping: Sequence[str] = (),
    seed: int = 0,
) -> Learned:
    """Choose `most` examples for a rubric from the labelled answers of reports; see `learning.learn`.

    Args:
        name: METRIC.FIELD of the reports, as for `calibrate`, whose labelled answers are meant.
        rubric: its path, or the name of one of this package; its scale must have two verdicts, worth 0 and 1.

    Raises:
        UserError: the rubric cannot be used, no judge is named, or too few answers have a label.
    """
    given = read_rubric(rubric)
    right, wrong = _ends(given)
    metric_of(given)(judge=judge).check()
    rows = read_labels(labels, mapping)[0] if labels else []
    found, _, scores = labelled_scores(home, name, reports, labels, rows)
    known = {(row.release, row.sample_id, row.repeat): row for row in scores if row.correct is not None}
    with home.warehouse.reading() as warehouse:
        texts = warehouse.execute(_SQL["texts"], {"reports": [report.report_id for report in found]}).fetchall()
    labelled = []
    for release, sample_id, repeat, question, answer, references, context in texts:
        if (row := known.get((release, sample_id, repeat))) is not None:
            sample = Sample(sample_id, answer, references or (), question, context=context or ())
            if fits(given, sample) and metric_of(given)(judge=judge).without_judge(sample) is None:
                labelled.append(LabelledSample(sample, right if row.correct else wrong, row.cluster))
    unprobed = judge.model_copy(update={"probes": "never"})

    def verdicts(tried: Rubric, samples: Sequence[Sample]) -> list[str | None]:
        measured = metric_of(tried)(judge=unprobed, access=access).measure(samples)
        return [one.details.get("verdict") for one in measured]

    learned = choose(given, labelled, verdicts, most, seed=seed)
    return replace(learned, rubric=replace(learned.rubric, version=given.version + (learned.rubric != given)))


def _ends(rubric: Rubric) -> tuple[str, str]:
    """The verdicts that are worth 1 and 0."""
    by_value = {value: label for label, value in rubric.scale}
    if len(rubric.scale) != 2 or by_value.keys() != {0.0, 1.0}:
        raise UserError(f"{rubric.source}: labels are true or false, so --learn needs a scale of two, like yes/no")
    return by_value[1.0], by_value[0.0]
