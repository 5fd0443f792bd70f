"""The flow that compares a metric or judge with human labels."""

from __future__ import annotations

from prefect import flow

from answerkey.tasks import steps
from answerkey.tasks.gate.calibrate import Calibration
from answerkey.tasks.publish.artifacts import artifact_key
from answerkey.tasks.warehouse.home import Home

_NEWEST: list[str] = []
_USUAL: list[str] = []


@flow(
    name="calibrate-judge",
    description="How well does a metric or a judge agree with human labels?",
    flow_run_name="calibrate {metric}",
)
def calibrate_judge(
    metric: str,
    reports: list[str] = _NEWEST,
    labels: str = "",
    columns: list[str] = _USUAL,
    home: str = ".answerkey",
    seed: int = 0,
) -> str:
    """Calibrate METRIC.FIELD, keep the result in the warehouse, and show it.

    Args:
        metric: METRIC.FIELD, for instance meaning_match.match.
        reports: Reports (faq/gpt-4/v2), or releases, which stand for their newest reports. Empty: the newest run.
        labels: A file with id, label and release. Empty: the labels that came with the answers.
        columns: KEY=PATH, where a column of that file is: id, release, label, score, cluster, or second for another
            annotator. Common names are recognised without it.
        home: Where everything is kept: a folder of the machine that runs this, or s3://BUCKET/PREFIX.
        seed: Of the bootstrap.

    Returns:
        The signature that the calibration is bound to.
    """
    found = steps.calibrate(Home.parse(home), metric, reports=reports, labels=labels, mapping=columns, seed=seed)
    steps.store_calibration(Home.parse(home), found)
    _show(found)
    return found.signature


def _show(found: Calibration) -> None:
    from prefect.artifacts import create_table_artifact

    from answerkey.tasks.gate.calibrate import columns_of

    rows = [
        {"release": row["release"] or "all", **{k: row[k] for k in ("n", "kappa", "kappa_low", "kappa_high", "bias")}}
        for row in (columns_of(found, part) for part in found.parts)
    ]
    create_table_artifact(rows, key=f"calibration-{artifact_key(found.name)}", description=found.signature)
