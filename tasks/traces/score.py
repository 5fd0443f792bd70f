"""Bring a rule's run into the warehouse: scores, outcomes, funnel, quarantine and watermark in one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from answerkey.tasks.load.sources import without_secrets
from answerkey.tasks.reports.commit import commit_measurements
from answerkey.tasks.reports.judge_calls import collect_calls, insert_calls
from answerkey.tasks.traces.funnel import Funnel
from answerkey.tasks.traces.prepare import Prepared
from answerkey.tasks.traces.rules import Rule
from answerkey.tasks.traces.summary import main_field, mean_of_run
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.warehouse import one_file

if TYPE_CHECKING:
    import duckdb


def commit(home: Home, run_id: str, prepared: Prepared, parts: Sequence[str], out: Path) -> Funnel:
    """Commit what a run found out about the traces of a rule, and say how many came how far.

    A process that dies before the end leaves everything as it was: the next run looks at the same traces, and finds
    the finished parts and the replies of the judges. Committing twice changes nothing.

    Args:
        parts: of the plan's chunks; they are dropped afterwards.
        out: the folder of the rule in this run.

    Raises:
        LedgerError: the ledger cannot be read; nothing is committed then.
    """
    calls = collect_calls(home, parts, out)
    with home.warehouse.writing(taken_in=[*parts, *([calls] if calls else [])]) as warehouse:
        commit_measurements(warehouse, run_id, parts)
        if calls:
            insert_calls(warehouse, calls)
        _new_outcomes(warehouse, run_id, prepared)
        _keep_outcomes(warehouse)
        _insert_quarantine(warehouse, run_id, prepared)
        watermark = _set_watermark(warehouse, run_id, prepared)
        _forget(warehouse, prepared.rule, watermark)
        funnel = _funnel(warehouse, prepared, watermark)
        _insert_funnel(warehouse, run_id, prepared, funnel, watermark)
    return funnel


def _new_outcomes(warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared) -> None:
    """The table `new_outcomes`: a row a trace. Of several rows about one trace, one with a number counts."""
    warehouse.execute("CREATE OR REPLACE TEMP TABLE taken (sample_id VARCHAR, sample_key VARCHAR)")
    if accepted := prepared.staged.accepted:
        warehouse.execute("INSERT INTO taken SELECT sample_id, sample_key FROM read_parquet(?)", [one_file(accepted)])
    warehouse.execute(
        """
        CREATE OR REPLACE TEMP TABLE new_outcomes AS
        SELECT $rule AS rule, d.trace_id, d."time",
               CASE WHEN d.bucket <> 'sampled' THEN d.bucket WHEN t.sample_id IS NULL THEN 'quarantined'
                    ELSE coalesce(m.status, 'skipped') END AS outcome,
               CASE WHEN d.bucket <> 'sampled' THEN d.reason ELSE m.reason END AS reason,
               $metric AS metric, $signature AS signature, t.sample_key,
               CASE WHEN outcome = 'scored' THEN m."values" END AS "values", $run_id AS run_id, now() AS updated_at
        FROM read_parquet($decided) d
        LEFT JOIN taken t ON t.sample_id = CASE WHEN d.bucket = 'sampled' THEN d.trace_id END
        LEFT JOIN (FROM measurements WHERE signature = $signature) m ON m.sample_key = t.sample_key
        QUALIFY row_number() OVER (PARTITION BY d.trace_id ORDER BY t.sample_id IS NULL, d.bucket) = 1
        """,
        {
            "rule": prepared.rule.name,
            "metric": prepared.rule.metric,
            "signature": prepared.signature,
            "run_id": run_id,
            "decided": one_file(prepared.selection.decided),
        },
    )


def _keep_outcomes(warehouse: duckdb.DuckDBPyConnection) -> None:
    # What has no number does not replace what has one: a backfill under a lower rate takes no score away.
    warehouse.execute(
        """
        DELETE FROM trace_outcomes AS old USING new_outcomes AS new
        WHERE old.rule = new.rule AND old.trace_id = new.trace_id
        AND (new.outcome = 'scored' OR old.outcome <> 'scored')
        """
    )
    warehouse.execute(
        "INSERT INTO trace_outcomes BY NAME SELECT * FROM new_outcomes ANTI JOIN trace_outcomes USING (rule, trace_id)"
    )


def _insert_quarantine(warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared) -> None:
    rule, files = prepared.rule, [one_file(prepared.staged.quarantine), one_file(prepared.selection.taken)]
    warehouse.execute("DELETE FROM quarantine WHERE run_id = ? AND dataset = ?", [run_id, rule.name])
    warehouse.execute(
        """
        INSERT INTO quarantine
        SELECT ?, ?, coalesce(file, ?), q."row", sample_id, NULL, q.rule, q.reason, q.raw
        FROM read_parquet(?) q
        LEFT JOIN (SELECT trace_id AS sample_id, "row", any_value(file) AS file FROM read_parquet(?) GROUP BY ALL)
            USING (sample_id, "row")
        """,
        [run_id, rule.name, without_secrets(rule.source), *files],
    )


def _set_watermark(warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared) -> datetime | None:
    rule, selection = prepared.rule, prepared.selection
    content = {**rule.located.content, "source": without_secrets(rule.located.content["source"])}
    known = [selection.watermark]
    if not prepared.window.backfill:
        # A trace that claims to come from the future must not make all others late.
        known.append(selection.newest and min(selection.newest, datetime.now(UTC)))
    watermark = max(filter(None, known), default=None)
    warehouse.execute("DELETE FROM trace_rules WHERE rule = ?", [rule.name])
    warehouse.execute(
        "INSERT INTO trace_rules VALUES (?, ?, ?, ?, ?, now())",
        [
            rule.name, watermark, rule.metric, json.dumps(content, ensure_ascii=False, default=str), run_id,
        ],
    )  # fmt: skip
    return watermark


def _forget(warehouse: duckdb.DuckDBPyConnection, rule: Rule, watermark: datetime | None) -> None:
    # Nobody looks at these again but a backfill, which decides anew. Without this a log of millions would stay.
    if rule.late_days is not None and watermark is not None:
        warehouse.execute(
            """
            DELETE FROM trace_outcomes
            WHERE rule = ? AND "time" < ? AND outcome IN ('disabled', 'filtered', 'sampled_out')
            """,
            [rule.name, watermark - timedelta(days=rule.late_days)],
        )


def _funnel(warehouse: duckdb.DuckDBPyConnection, prepared: Prepared, watermark: datetime | None) -> Funnel:
    rule, selection = prepared.rule, prepared.selection
    counts = dict(
        warehouse.execute(
            "SELECT coalesce(m.status, 'skipped'), count(*) FROM taken t "
            "LEFT JOIN (FROM measurements WHERE signature = ?) m USING (sample_key) GROUP BY ALL",
            [prepared.signature],
        ).fetchall()
    )
    [(quarantined,)] = warehouse.execute(
        "SELECT count(*) FROM read_parquet(?)", [one_file(prepared.staged.quarantine)]
    ).fetchall()
    mean, ends = mean_of_run(warehouse, rule.name, rule.metric, "new_outcomes")
    return Funnel(
        rule=rule.name,
        metric=rule.metric,
        signature=prepared.signature,
        seen=selection.seen,
        disabled=selection.disabled,
        filtered=selection.filtered,
        sampled_out=selection.sampled_out,
        quarantined=quarantined,
        scored=counts.get("scored", 0),
        undefined=counts.get("undefined", 0),
        failed=counts.get("failed", 0),
        skipped=counts.get("skipped", 0),
        again=selection.again,
        measured=prepared.todo,
        field=main_field(rule.metric),
        mean=mean,
        low=ends and ends.low,
        high=ends and ends.high,
        watermark=watermark.isoformat() if watermark else None,
    )


def _insert_funnel(
    warehouse: duckdb.DuckDBPyConnection, run_id: str, prepared: Prepared, funnel: Funnel, watermark: datetime | None
) -> None:
    warehouse.execute("DELETE FROM trace_funnels WHERE run_id = ? AND rule = ?", [run_id, funnel.rule])
    warehouse.execute(
        f"INSERT INTO trace_funnels VALUES (?, ?, now(), {', '.join('?' * 17)})",
        [
            run_id, funnel.rule, prepared.window.since, prepared.window.until, funnel.seen, funnel.disabled,
            funnel.filtered, funnel.sampled_out, funnel.quarantined, funnel.scored, funnel.undefined, funnel.failed,
            funnel.skipped, funnel.again, funnel.measured, prepared.rule.sampling, funnel.metric, funnel.signature,
            watermark,
        ],
    )  # fmt: skip
