"""Corpus BLEU of a report, from the statistics that the metric `bleu` left with every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from answerkey.metrics_core.metrics.bleu import BleuStats, corpus_bleu
from answerkey.metrics_core.statistics.intervals import bootstrap

if TYPE_CHECKING:
    import duckdb
    import numpy as np

SEED = 20_240_101
"""Of the bootstrap; it stands in every manifest."""

_MOST_GROUPS = 2_000
_NUMBERS = 10

# Clusters, or rows, are resampled. Past 2,000 of them they are put into 2,000 random groups first: the
# variance of a sum over independent groups is the same, and a million rows take no longer than two thousand.
_STATS = f"""
WITH stats AS (
    SELECT p.report_id, p.release, p.slice, hash(p.unit) % {_MOST_GROUPS} AS bucket, p.unit,
           CAST(json_extract(m.details, '$.stats') AS BIGINT[]) AS numbers
    FROM places p JOIN fields f ON f.metric = 'bleu'
    JOIN measurements m ON m.sample_key = p.sample_key AND m.signature = f.signature AND m.status = 'scored'
), sizes AS (SELECT report_id, slice, count(DISTINCT unit) AS n FROM stats GROUP BY ALL)
SELECT report_id, any_value(release), slice, count(*),
       {", ".join(f"sum(numbers[{i}])::BIGINT" for i in range(1, _NUMBERS + 1))}
FROM stats JOIN sizes USING (report_id, slice)
GROUP BY report_id, slice, CASE WHEN n > {_MOST_GROUPS} THEN bucket::VARCHAR ELSE unit END
ORDER BY report_id, slice, min(unit)
"""


def corpus_bleu_rows(warehouse: duckdb.DuckDBPyConnection) -> None:
    """Add a row `bleu.corpus_bleu` to `report_scores` for every new report and slice that has sentence BLEU.

    Needs the temporary tables `places` and `fields` of the aggregation. Counts and coverage are those of the
    sentence scores; there are no bounds, since a missing answer has no lowest corpus BLEU of its own.
    """
    import numpy as np

    groups: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for report_id, _, slice_, _, *numbers in warehouse.execute(_STATS).fetchall():
        groups.setdefault((report_id, slice_), []).append(tuple(numbers))
    for (report_id, slice_), rows in groups.items():
        stats = np.array(rows, dtype=np.int64)
        interval = bootstrap(stats, _statistic, seed=SEED)
        low, high, method = interval or (None, None, None)
        warehouse.execute(
            """
            INSERT INTO report_scores
            SELECT report_id, release, metric, 'corpus_bleu', slice, n_total, n_scored, n_failed, n_undefined,
                   n_skipped, coverage, ?, ?, ?, ?, NULL, NULL
            FROM report_scores WHERE report_id = ? AND slice = ? AND metric = 'bleu' AND field = 'bleu'
            """,
            [_statistic(stats.sum(axis=0)), low, high, method, report_id, slice_],
        )


def _statistic(numbers: np.ndarray) -> float:
    return corpus_bleu(BleuStats.of_flat([int(number) for number in numbers]))
