"""Whether the new reports are complete, and what there is to say about rows without a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_MOST_REASONS = 3

# All fields of a metric have the same rows. What needs no score (undefined) need not be covered.
_COUNTS = """
SELECT report_id, metric, max(n_total - n_undefined), max(n_scored), max(n_skipped)
FROM report_scores JOIN new_reports USING (report_id) JOIN fields USING (metric, field)
WHERE slice = 'all' GROUP BY report_id, metric ORDER BY report_id, min(place)
"""

_REASONS = """
SELECT report_id, metric, if(s.status = 'failed', split_part(s.reason, ':', 1), s.reason) AS why, count(*) AS n
FROM scores s JOIN new_reports USING (report_id)
JOIN (SELECT metric, arg_min(field, place) AS field FROM fields GROUP BY metric) USING (metric, field)
WHERE s.status IN ('failed', 'skipped') GROUP BY ALL ORDER BY n DESC, why
"""


def settle_reports(warehouse: duckdb.DuckDBPyConnection, min_coverage: float) -> None:
    """Give every new report its status and its message.

    PARTIAL: of some metric rows were skipped, or fewer than `min_coverage` (0 to 1) of the rows that should have a
    score have one. Needs the temporary tables `new_reports` and `fields` of the aggregation.
    """
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for report_id, metric, why, n in warehouse.execute(_REASONS).fetchall():
        reasons.setdefault((report_id, metric), []).append((why, n))
    partial: set[str] = set()
    said: dict[str, list[str]] = {}
    for report_id, metric, wanted, scored, skipped in warehouse.execute(_COUNTS).fetchall():
        if skipped or (wanted and scored / wanted < min_coverage):
            partial.add(report_id)
        if scored < wanted:
            why = _most_frequent(reasons[report_id, metric])
            said.setdefault(report_id, []).append(f"{metric}: {wanted - scored:,} of {wanted:,} not scored: {why}")
    _update(warehouse, said, partial)


def _most_frequent(reasons: Sequence[tuple[str, int]]) -> str:
    named = [f"{n:,} {why}" for why, n in reasons[:_MOST_REASONS]]
    rest = sum(n for _, n in reasons[_MOST_REASONS:])
    return ", ".join([*named, *([f"{rest:,} for other reasons"] if rest else [])])


def _update(warehouse: duckdb.DuckDBPyConnection, said: Mapping[str, Sequence[str]], partial: set[str]) -> None:
    # A report that is partial has rows without a score, so it has something to say.
    for report_id, lines in said.items():
        status = "PARTIAL" if report_id in partial else "COMPLETE"
        warehouse.execute(
            "UPDATE reports SET status = ?, message = ? WHERE report_id = ?", [status, "; ".join(lines), report_id]
        )
