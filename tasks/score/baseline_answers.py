"""What other releases of the run answered, for the metrics that compare answers with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metric import Metric
from answerkey.metrics_core.metrics.preference import Preference, Ranking
from answerkey.metrics_core.sample import content_hash
from answerkey.metrics_core.statistics.ranking import opponents_of
from answerkey.tasks.warehouse.sql import statements
from answerkey.tasks.warehouse.warehouse import one_file, scratch

_SQL = statements(__name__)


def check_baseline_answers(metrics: Sequence[Metric], baseline: str) -> None:
    """Find out before anything is loaded whether there is a baseline to compare answers with.

    Raises:
        UserError: a metric needs one, and none is named.
    """
    for metric in metrics:
        if type(metric) is Preference and not baseline:
            raise UserError(
                f"{metric.name}: it compares with the answers of a baseline; evaluate both releases in one run and "
                "name one of them (--baseline). A run of one release, such as a rerun, goes without it: name the other "
                "metrics (--metrics)"
            )


def with_baseline_answers(metrics: Sequence[Metric], accepted: str, baseline: str) -> list[Metric]:
    """The metrics, with the answers in the file `accepted` of the releases that they compare with.

    Of several answers of a release to a question, the first counts.

    Raises:
        UserError: the file has no answers of the release `baseline`, or of fewer than three releases to rank.
    """
    metrics = [_with_rivals(metric, accepted) if isinstance(metric, Ranking) else metric for metric in metrics]
    if not any(type(metric) is Preference for metric in metrics):
        return metrics
    about = {"accepted": one_file(accepted), "baseline": baseline}
    with closing(scratch(Path(accepted).parent)) as connection:
        answers = connection.execute(_SQL["answers"], about).fetchall()
        pairs = connection.execute(_SQL["baseline_answers"], about).fetchall()
    if not answers:
        raise UserError(
            f"{baseline}: no answers of it in this source, and `preference` shows a judge both; evaluate both releases "
            "in one run, from one source"
        )
    against = content_hash(answers)[:12]
    return [
        replace(metric, baseline_answers=dict(pairs), against=against) if type(metric) is Preference else metric
        for metric in metrics
    ]


def _with_rivals(metric: Ranking, accepted: str) -> Ranking:
    with closing(scratch(Path(accepted).parent)) as connection:
        rows = connection.execute(_SQL["by_release"], {"accepted": one_file(accepted)}).fetchall()
    releases = sorted({release for _, release, _, _ in rows})
    if len(releases) < 3:
        raise UserError(
            f"ranking: this source has answers of {', '.join(releases) or 'no release'}; it ranks three releases or "
            "more of one run. For two, take preference"
        )
    answers: dict[str, dict[str, str]] = {}
    for sample_id, release, _, answer in rows:
        answers.setdefault(sample_id, {})[release] = answer
    rivals: dict[str, dict[str, str]] = {}
    for sample_id, release, keys, _ in rows:
        for other in opponents_of(sample_id, release, releases, metric.opponents):
            if other in answers[sample_id]:
                for key in keys:
                    # Equal answers to equal questions have one key.
                    rivals.setdefault(key, {}).setdefault(other, answers[sample_id][other])
    return replace(metric, rivals=rivals, against=content_hash([(*row[:2], row[3]) for row in rows])[:12])
