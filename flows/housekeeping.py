"""Clean up after runs that died: mark them, close them, and remove what they left behind. Maintain the tables.

Runs that crashed for the first time, or have waited for labels for long enough, go on.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from answerkey.flows.forms import Form
from answerkey.flows.prefect_or_local import flow
from answerkey.flows.runs import log, run_id
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.forget import forget_older
from answerkey.tasks.maintenance import close_runs, mark_dead_runs, prune, restart_crashed, resume_waiting
from answerkey.tasks.warehouse.home import Home


class Keeping(Form):
    """What counts as dead, and how long things are kept."""

    silent_minutes: int = Field(
        10,
        ge=2,
        title="Minutes without a heartbeat",
        description="A running run without a heartbeat for this long counts as dead. Runs send one every half minute.",
    )
    starting_minutes: int = Field(
        30,
        ge=2,
        title="Minutes to start",
        description="A run that a worker has been starting for this long counts as dead.",
    )
    days: int = Field(
        7,
        ge=1,
        description="How long the work of killed runs is kept. The same evaluation, started again, continues from it.",
    )
    tables: bool = Field(
        False,
        title="Maintain the tables",
        description="Merge small files and remove what no report needs. Best at night, since writers have to wait.",
    )
    older_than: int = Field(
        0,
        ge=0,
        title="Remove reports older than",
        description="Days. The newest report of each release is kept, with its data. 0: keep all.",
    )


_KEEPING = Keeping()


@flow(
    name="housekeeping",
    description="Mark runs that died silently as crashed, and remove what they left behind.",
    flow_run_name="housekeeping",
)
def housekeeping(keeping: Keeping = _KEEPING, home: str = ".answerkey") -> None:
    """Mark runs that died silently as crashed, and remove what they left behind.

    Args:
        keeping: What counts as dead, and how long things are kept.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
    """
    silent, starting = timedelta(minutes=keeping.silent_minutes), timedelta(minutes=keeping.starting_minutes)
    for dead in mark_dead_runs(silent, starting, but=[run_id()]):
        log.warning(f"{dead.name}: marked as crashed: {dead.reason}")
    for name in restart_crashed():
        log.info(f"{name}: it has crashed, and goes on")
    for name in resume_waiting():
        log.info(f"{name}: it has waited long enough for labels, and continues with what is known")
    closed = close_runs(Home.parse(home))
    gone = prune(Home.parse(home), keeping.days)
    log.info(
        f"{closed} runs closed in the warehouse; {gone.folders} folders and {gone.files} parts removed, "
        f"{gone.size / 1e6:.1f} MB"
    )
    warehouse = Home.parse(home).warehouse
    if keeping.older_than and warehouse.exists():
        try:
            removed = forget_older(Home.parse(home), keeping.older_than)
            log.info(
                f"removal {removed.removal}: {sum(removed.rows.values()):,} rows, {removed.calls:,} calls of the ledger"
            )
        except UserError as error:
            log.warning(f"nothing older was removed: {error}")
    if keeping.tables and warehouse.exists():
        done = warehouse.maintain()
        log.info(
            f"tables: {done.merged} files merged, {done.states} old snapshots removed, {done.removed} files removed"
        )
