"""The table `comparisons`: what was found about two reports, for SQL and for other tools."""

from __future__ import annotations

import json
from pathlib import Path

from metrics_core.pair import Pair
from tasks.warehouse.warehouse import writing


def store(home: Path, pair: Pair, *, seed: int, level: float) -> None:
    """Write `pair`, in place of what was stored about the same two reports."""
    warnings = [*([pair.not_comparable] if pair.not_comparable else []), *pair.warnings]
    rows = [
        [
            pair.old, pair.new, row.metric, row.field, row.slice, row.n_common, row.n_only_old, row.n_only_new,
            row.old, row.new, row.difference, row.low, row.high, row.p, row.p_adjusted, row.mde, row.needed,
            row.fixed, row.broken, row.test, row.finding, row.note, json.dumps(dict(row.missing_old)),
            json.dumps(dict(row.missing_new)), level, seed, warnings,
        ]
        for row in pair.rows
    ]  # fmt: skip
    with writing(home) as warehouse:
        warehouse.execute("DELETE FROM comparisons WHERE old_report = ? AND new_report = ?", [pair.old, pair.new])
        if rows:
            warehouse.executemany(f"INSERT INTO comparisons VALUES ({', '.join('?' * len(rows[0]))}, now())", rows)
