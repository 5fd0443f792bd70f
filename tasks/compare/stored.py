"""The table `comparisons`: what was found about two reports, for SQL, for other tools and to be read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.metrics_core.comparison import Comparison, Pair
from answerkey.tasks.warehouse.home import Home

_OF_PAIR = {
    "old": "old_report",
    "new": "new_report",
    "warnings": "warnings",
    "not_comparable": "not_comparable",
    "n_common": "samples_common",
    "n_only_old": "samples_only_old",
    "n_only_new": "samples_only_new",
    "n_changed": "samples_changed",
}
"""What all rows about two reports share: attribute of `Pair` to column."""

_OF_ROW = {
    **{name: name for name in ("metric", "field", "slice", "n_common", "n_only_old", "n_only_new", "old", "new")},
    **{"difference": "difference", "low": "ci_low", "high": "ci_high"},
    **{name: name for name in ("p", "p_adjusted", "mde", "needed", "fixed", "broken", "test", "note", "level")},
    **{name: name for name in ("people", "people_low", "people_high", "n_labelled")},
}
_COUNTS = ("missing_old", "missing_new")


def store(home: Home, pair: Pair, *, seed: int) -> None:
    """Write `pair`, in place of what was stored about the same two reports."""
    import pyarrow as pa

    about = {column: getattr(pair, name) for name, column in _OF_PAIR.items()} | {"seed": seed}
    rows = pa.Table.from_pylist([about | {"place": place} | _columns(row) for place, row in enumerate(pair.rows)])
    with home.warehouse.writing() as warehouse:
        warehouse.execute("DELETE FROM comparisons WHERE old_report = ? AND new_report = ?", [pair.old, pair.new])
        if pair.rows:
            warehouse.register("compared", rows)
            warehouse.execute("INSERT INTO comparisons BY NAME SELECT *, now() AS created_at FROM compared")
            warehouse.unregister("compared")


def _columns(row: Comparison) -> dict[str, Any]:
    values = {column: getattr(row, name) for name, column in _OF_ROW.items()}
    counts = {name: json.dumps(dict(getattr(row, name))) for name in _COUNTS}
    return values | counts | {"finding": row.finding}


def stored(home: Home, new_report_ids: Sequence[str]) -> tuple[Pair, ...]:
    """The comparisons whose new report is one of `new_report_ids`, in that order, then in the order of their making."""
    with home.warehouse.reading() as warehouse:
        found = warehouse.execute(
            "SELECT * FROM comparisons WHERE new_report IN (SELECT unnest(?)) "
            "ORDER BY list_position(?, new_report), created_at, old_report, place",
            [list(new_report_ids)] * 2,
        )
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    pairs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row["old_report"], row["new_report"]), []).append(row)
    return tuple(map(_pair, pairs.values()))


def _pair(rows: Sequence[Mapping[str, Any]]) -> Pair:
    about = {name: rows[0][column] for name, column in _OF_PAIR.items()}
    about["warnings"] = tuple(about["warnings"])
    return Pair(rows=tuple(map(_row, rows)), **about)


def _row(row: Mapping[str, Any]) -> Comparison:
    counts = {name: json.loads(row[name]) for name in _COUNTS}
    return Comparison(**{name: row[column] for name, column in _OF_ROW.items()}, **counts)
