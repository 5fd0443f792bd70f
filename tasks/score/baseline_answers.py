"""What other releases of the run answered, for the metrics that compare answers with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.metrics.preference import Preference
from answerkey.metrics_core.sample import content_hash
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch

_SQL = statements(__name__)


def check_baseline_answers(metrics: Sequence[Metric], baseline: str) -> None:
    """Find out before anything is loaded whether there is a baseline to compare answers with.

    Raises:
        UserError: a metric needs one, and none is named.
    """
    for metric in metrics:
        if isinstance(metric, Preference) and not baseline:
            raise UserError(
                f"{metric.name}: it compares with the answers of a baseline; evaluate both releases in one run and "
                "name one of them (--baseline). A run of one release, such as a rerun, goes without it: name the other "
                "metrics (--metrics)"
            )


def with_baseline_answers(metrics: Sequence[Metric], accepted: str, baseline: str) -> list[Metric]:
    """The metrics, with the answers in the file `accepted` of the releases that they compare with.

    Of several answers of a release to a question, the first counts.

    Raises:
        UserError: the file has no answers of the release `baseline`.
    """
    if not any(isinstance(metric, Preference) for metric in metrics):
        return list(metrics)
    parameters = {"accepted": one_file(accepted), "baseline": baseline}
    with closing(scratch(Path(accepted).parent)) as connection:
        answers = connection.execute(_SQL["answers"], parameters).fetchall()
        pairs = connection.execute(_SQL["baseline_answers"], parameters).fetchall()
    if not answers:
        raise UserError(
            f"{baseline}: no answers of it in this source, and `preference` shows a judge both; evaluate both releases "
            "in one run, from one source"
        )
    answers_hash = content_hash(answers)[:12]
    with_answers: list[Metric] = []
    for metric in metrics:
        if isinstance(metric, Preference):
            with_answers.append(replace(metric, baseline_answers=dict(pairs), against=answers_hash))
        else:
            with_answers.append(metric)
    return with_answers
