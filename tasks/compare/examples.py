"""The samples whose score moved most between two reports, with both answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from answerkey.tasks.warehouse.home import Home

Direction = Literal["both", "better", "worse"]


@dataclass(frozen=True, slots=True)
class ChangedSample:
    """One sample in two reports. `difference` is new - old; reasons are the metric's own words, where it has any."""

    sample_id: str
    question: str | None
    references: tuple[str, ...]
    old_answer: str | None
    new_answer: str | None
    old: float
    new: float
    difference: float
    old_reason: str | None
    new_reason: str | None


_ORDER = {"both": "abs(difference) DESC", "better": "difference DESC", "worse": "difference"}
_WHICH = {"both": "difference <> 0", "better": "difference > 0", "worse": "difference < 0"}

# As in a comparison: a sample with another question or other references is not the same sample.
_SAME_SAMPLE = """(list_sort(o."references") IS NOT DISTINCT FROM list_sort(n."references")
    AND coalesce(o.question = n.question, true))"""

_SIDE = """
SELECT s.sample_id, s."value", s.reason, a.answer, s.dataset_version, m.question, m."references"
FROM scores s JOIN reports r USING (report_id)
JOIN answers a ON a.dataset = s.dataset AND a.release = s.release AND a.sample_id = s.sample_id
    AND a.answers_version = r.answers_version
LEFT JOIN samples m
    ON m.dataset = s.dataset AND m.dataset_version = s.dataset_version AND m.sample_id = s.sample_id
WHERE s.report_id = {report} AND s.metric = $metric AND s.field = $field AND s.status = 'scored'
"""


def most_changed(
    home: Home, old_report_id: str, new_report_id: str, name: str, *, direction: Direction = "both", limit: int = 20
) -> tuple[ChangedSample, ...]:
    """The `limit` samples whose field `name` (METRIC.FIELD) moved most; those that did not move are left out.

    The question and the references are those of the new report. Samples that moved alike come in the order of their
    ids.
    """
    metric, _, field = name.partition(".")
    # The texts of the chosen few are fetched last, so that a million answers need not be kept while they are sorted.
    with home.warehouse.reading() as warehouse:
        rows = warehouse.execute(
            f"""
            WITH o AS ({_SIDE.format(report="$old")}), n AS ({_SIDE.format(report="$new")}), moved AS (
                SELECT sample_id, n."value" - o."value" AS difference
                FROM o JOIN n USING (sample_id)
                WHERE {_WHICH[direction]} AND (o.dataset_version = n.dataset_version OR {_SAME_SAMPLE})
                ORDER BY {_ORDER[direction]}, sample_id LIMIT $limit
            )
            SELECT sample_id, n.question, n."references", o.answer, n.answer, o."value", n."value", difference,
                   o.reason, n.reason
            FROM moved JOIN o USING (sample_id) JOIN n USING (sample_id) ORDER BY {_ORDER[direction]}, sample_id
            """,
            {"old": old_report_id, "new": new_report_id, "metric": metric, "field": field, "limit": limit},
        ).fetchall()
    return tuple(ChangedSample(row[0], row[1], tuple(row[2] or ()), *row[3:]) for row in rows)
