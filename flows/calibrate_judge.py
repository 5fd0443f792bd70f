"""The flow that compares a metric or judge with labels of people."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from tasks.calibrate import Calibrating, calibration
from tasks.calibrations import keep
from tasks.publish import artifact_key

_calibrate = task(name="calibrate", task_run_name="calibrate {name}", cache_policy=NO_CACHE)(calibration)
_keep = task(name="keep calibration", task_run_name="keep calibration", cache_policy=NO_CACHE)(keep)


@flow(name="calibrate-judge", flow_run_name="calibrate {metric}")
def calibrate_judge(
    metric: str, reports: list[str] | None = None, labels: str = "", home: str = ".answerkey", seed: int = 0
) -> str:
    """Calibrate METRIC.FIELD, keep the result in the warehouse, and show it.

    Args:
        metric: METRIC.FIELD, for instance meaning_match.match.
        reports: ids of reports or names of releases; empty: the newest run.
        labels: a file with id, label and release; empty: the labels that came with the answers.
        home: folder of the warehouse.
        seed: of the bootstrap.

    Returns:
        The signature that the calibration is bound to.
    """
    found = _calibrate(Path(home), metric, reports=reports or [], labels=labels, seed=seed)
    _keep(Path(home), found)
    _show(found)
    return found.signature


def _show(found: Calibrating) -> None:
    from prefect.artifacts import create_table_artifact

    from tasks.calibrate import columns_of

    rows = [
        {"release": row["release"] or "all", **{k: row[k] for k in ("n", "kappa", "kappa_low", "kappa_high", "bias")}}
        for row in (columns_of(found, part) for part in found.parts)
    ]
    create_table_artifact(rows, key=f"calibration-{artifact_key(found.name)}", description=found.signature)
