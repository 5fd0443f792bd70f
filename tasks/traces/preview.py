"""What a run of a rule would do: how many traces come how far, which would be scored, and what it would cost."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.judges.estimate import Estimate
from answerkey.tasks.score.estimate import foresee
from answerkey.tasks.traces.prepare import Prepared

MOST_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A trace that would be scored."""

    trace_id: str
    time: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The counts of a rule up to the first score: seen = disabled + filtered + sampled_out + quarantined + taken.

    `measured` measurements would be made for the traces taken; the others are known, or equal each other. `estimate`
    is None where the metric asks no judge. `traces` are the first `MOST_SHOWN` of those taken, by time.
    """

    rule: str
    metric: str
    signature: str
    seen: int
    disabled: int
    filtered: int
    sampled_out: int
    quarantined: int
    taken: int
    measured: int
    estimate: Estimate | None
    traces: tuple[Shown, ...]


def preview(prepared: Prepared) -> Preview:
    """Nobody is asked, and nothing changes.

    Raises:
        UserError: litellm does not know the provider of a judge.
        LedgerError: the ledger cannot be read.
    """
    selection = prepared.selection
    taken, shown = _taken(prepared)
    estimates = foresee(prepared.plan) if prepared.plan else ()
    return Preview(
        rule=prepared.rule.name,
        metric=prepared.rule.metric,
        signature=prepared.signature,
        seen=selection.seen,
        disabled=selection.disabled,
        filtered=selection.filtered,
        sampled_out=selection.sampled_out,
        quarantined=selection.seen - selection.disabled - selection.filtered - selection.sampled_out - taken,
        taken=taken,
        measured=prepared.todo,
        estimate=next(iter(estimates), None),
        traces=shown,
    )


def _taken(prepared: Prepared) -> tuple[int, tuple[Shown, ...]]:
    """How many traces would be scored, and the first of them by time."""
    if prepared.staged.accepted is None:
        return 0, ()
    import duckdb

    from answerkey.tasks.warehouse.warehouse import one_file

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute(
            """
            SELECT count(*) OVER (), a.sample_id, strftime(d.time, '%Y-%m-%d %H:%M:%S'), left(a.answer, 200)
            FROM read_parquet(?) a JOIN (SELECT trace_id, min(time) AS time FROM read_parquet(?) GROUP BY trace_id) d
                ON d.trace_id = a.sample_id
            ORDER BY d.time, a.sample_id LIMIT ?
            """,
            [one_file(prepared.staged.accepted), one_file(prepared.selection.decided), MOST_SHOWN],
        ).fetchall()
    return rows[0][0], tuple(Shown(*row) for _, *row in rows)
