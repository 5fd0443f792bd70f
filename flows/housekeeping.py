"""Clean up after runs that died: close them, and remove what they left behind. Maintain the tables."""

from __future__ import annotations

from pydantic import Field

from answerkey.flows.forms import Form
from answerkey.flows.prefect_or_local import flow
from answerkey.flows.runs import log
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.forget import forget_older
from answerkey.tasks.maintenance import close_runs, prune
from answerkey.tasks.warehouse.home import Home


class Keeping(Form):
    """How long things are kept."""

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
    description="Close runs that died, and remove what they left behind.",
    flow_run_name="housekeeping",
)
def housekeeping(keeping: Keeping = _KEEPING, home: str = ".answerkey") -> None:
    """Close runs that died, and remove what they left behind.

    Args:
        keeping: How long things are kept.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
    """
    parsed_home = Home.parse(home)
    n_closed = close_runs(parsed_home)
    pruned = prune(parsed_home, keeping.days)
    log.info(
        f"{n_closed} runs closed in the warehouse; {pruned.folders} folders and {pruned.files} parts removed, "
        f"{pruned.size / 1e6:.1f} MB"
    )
    warehouse = parsed_home.warehouse
    if keeping.older_than and warehouse.exists():
        try:
            removed = forget_older(parsed_home, keeping.older_than)
            log.info(
                f"removal {removed.removal}: {sum(removed.rows.values()):,} rows, {removed.calls:,} calls of the ledger"
            )
        except UserError as error:
            log.warning(f"nothing older was removed: {error}")
    if keeping.tables and warehouse.exists():
        maintained = warehouse.maintain()
        log.info(
            f"tables: {maintained.merged} files merged, {maintained.states} old snapshots removed, "
            f"{maintained.removed} files removed"
        )
