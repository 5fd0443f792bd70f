"""The label of people as a metric field like any other, where the data set brings labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from answerkey.metrics_core.metric import Field

if TYPE_CHECKING:
    import duckdb

    from answerkey.tasks.reports.commit import Committed

LABEL = "label"
LABEL_SIGNATURE = "label|v1"
LABEL_FIELD = Field("correct", "1 where people call the answer right", binary=True)
NOT_LABELLED = "not labelled"
MOST_LABELLED = 0.5
"""The share of the rows below which the others are predicted from their scores.

Where people labelled more, the labels speak for themselves. The others then mostly have none because people could not
judge them, and what is predicted for them is worth less than it looks.
"""


def has_labels(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> bool:
    """Whether people have labelled any answer of the run."""
    return any(
        warehouse.execute(
            "SELECT 1 FROM answers WHERE dataset = ? AND release = ? AND answers_version = ? AND correct IS NOT NULL "
            "LIMIT 1",
            [committed.dataset, release.release, release.answers_version],
        ).fetchone()
        for release in committed.releases
    )


def label_scores(warehouse: duckdb.DuckDBPyConnection, committed: Committed) -> None:
    """Write a row of `scores` for every answer of the run: its label, or that it has none.

    Needs the temporary table `new_reports` of the aggregation.
    """
    warehouse.execute(
        """
        INSERT INTO scores
        SELECT n.report_id, a.dataset, $version, a.release, a.sample_id, $metric, $field, a.correct::DOUBLE,
               if(a.correct IS NULL, 'undefined', 'scored'), if(a.correct IS NULL, $reason, NULL), $signature
        FROM new_reports n
        JOIN answers a ON a.dataset = $dataset AND a.release = n.release AND a.answers_version = n.answers_version
        """,
        {
            "version": committed.dataset_version,
            "dataset": committed.dataset,
            "metric": LABEL,
            "field": LABEL_FIELD.name,
            "reason": NOT_LABELLED,
            "signature": LABEL_SIGNATURE,
        },
    )
