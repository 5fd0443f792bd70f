"""Who decided what in the metrics that need a judge, and where the offline judge was out of its depth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.judges.details import DECIDED_BY, OUT_OF_DEPTH
from answerkey.metrics_core.judges.options import OFFLINE

if TYPE_CHECKING:
    import duckdb

_MOST_REASONS = 3

# Needs the temporary tables `places` and `fields` of the aggregation. All fields of a metric have the same details.
_COUNTS = f"""
SELECT p.report_id, f.metric, coalesce(json_extract_string(m.details, '$.{DECIDED_BY}'), ''),
       coalesce(json_extract_string(m.details, '$.{OUT_OF_DEPTH}'), ''), count(*)
FROM places p
JOIN (SELECT DISTINCT metric, signature FROM fields WHERE contains(signature, ':offline@')) f ON p.slice = 'all'
JOIN measurements m ON m.sample_key = p.sample_key AND m.signature = f.signature AND m.status = 'scored'
GROUP BY ALL ORDER BY ALL
"""


def note_judges(warehouse: duckdb.DuckDBPyConnection) -> None:
    """Write into the manifest of every new report, under `judge`, what the offline judge did for it, by metric.

    `decided`: of a cascade, how many answers it decided (`offline`) and how many were left (`judge`).
    `out_of_depth`: for how many answers it warns of its own verdict, by reason, and `of` how many.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for report_id, metric, decided_by, why, n in warehouse.execute(_COUNTS).fetchall():
        noted = found.setdefault(report_id, {"decided": {}, "out_of_depth": {}})
        if decided_by:
            counts = noted["decided"].setdefault(metric, {"offline": 0, "judge": 0})
            counts[decided_by] += n
        depth = noted["out_of_depth"].setdefault(metric, {"of": 0, "why": {}})
        depth["of"] += n
        if why:
            depth["why"][why] = depth["why"].get(why, 0) + n
    for report_id, noted in found.items():
        _write(warehouse, report_id, {key: _telling(by_metric) for key, by_metric in noted.items()})


def _telling(by_metric: Mapping[str, Any]) -> dict[str, Any]:
    return {metric: counts for metric, counts in by_metric.items() if counts.get("why", counts)}


def _write(warehouse: duckdb.DuckDBPyConnection, report_id: str, noted: Mapping[str, Any]) -> None:
    [(text,)] = warehouse.execute("SELECT manifest FROM reports WHERE report_id = ?", [report_id]).fetchall()
    manifest = json.loads(text)
    manifest.setdefault("judge", {}).update({key: value for key, value in noted.items() if value})
    warehouse.execute(
        "UPDATE reports SET manifest = ? WHERE report_id = ?", [json.dumps(manifest, ensure_ascii=False), report_id]
    )


def saved(manifest: Mapping[str, Any]) -> tuple[int, int] | None:
    """Answers of a report that the first judge of a cascade decided, and calls that this saved; None without one."""
    judge = manifest.get("judge") or {}
    if "decided" not in judge:
        return None
    decided = sum(counts["offline"] for counts in judge["decided"].values())
    return decided, decided * len(judge["judges"]) * judge["repeats"]


def named(manifest: Mapping[str, Any]) -> str:
    """Who judged a report, in a few words: the offline judge with how far it agrees with people; "" without a judge."""
    judge = manifest.get("judge") or {}
    models = ", ".join(name for name in judge.get("judges", ()) if name != OFFLINE)
    return "; then ".join(filter(None, (judge.get("about", ""), models)))


def depth_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """For each metric in which the offline judge was out of its depth, a sentence."""
    found = (manifest.get("judge") or {}).get("out_of_depth") or {}
    return [_sentence(metric, counts) for metric, counts in found.items()]


def _sentence(metric: str, counts: Mapping[str, Any]) -> str:
    why = sorted(counts["why"].items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{n:,} {reason}" for reason, n in why[:_MOST_REASONS]]
    rest = sum(n for _, n in why[_MOST_REASONS:])
    named += [f"{rest:,} for other reasons"] if rest else []
    n = sum(counts["why"].values())
    return f"{metric}: the offline judge is out of its depth on {n:,} of {counts['of']:,} answers: {', '.join(named)}"
