"""A warehouse with given scores, written straight into its tables: what a run leaves there, without the run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tests.tasks.staging_help import at

Scores = Mapping[str, float | str | None]
"""Score of each sample; None where there is nothing to score, a status (failed, skipped) where that was the outcome,
also with a reason (failed: timeout); unanswered where the release gave no answer."""


@dataclass(frozen=True)
class Made:
    """A report to be: scores by METRIC.FIELD, each sample with its cluster and slices, signatures by metric,
    and what the manifest says of its judge."""

    release: str
    scores: Mapping[str, Scores]
    labels: Mapping[str, bool] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    judge: Mapping[str, object] = field(default_factory=dict)


def warehouse(home, made, dataset="faq"):
    """Write one report of each release on one data set, and return their ids."""
    ids = []
    with at(home).warehouse.writing() as connection:
        everyone = sorted({sample for one in made for scores in one.scores.values() for sample in scores})
        clusters = {sample: name for one in made for sample, name in one.clusters.items()}
        connection.register(
            "s", pa.table({"id": everyone, "c": pa.array([clusters.get(one) for one in everyone], pa.string())})
        )
        connection.execute(
            "INSERT INTO samples BY NAME SELECT ? AS dataset, 'v' AS dataset_version, id AS sample_id, "
            "'question ' || id AS question, ['reference'] AS \"references\", c AS cluster FROM s",
            [dataset],
        )
        for one in made:
            report_id = f"{dataset}/{one.release}/v1"
            ids.append(report_id)
            _report(connection, dataset, report_id, one)
    return ids


def _report(connection, dataset, report_id, one):
    samples = sorted({sample for scores in one.scores.values() for sample in scores})
    signatures = {name.partition(".")[0]: f"{name.partition('.')[0]}|v1" for name in one.scores} | dict(one.signatures)
    manifest = {"run_id": "r", "answers_version": one.release, "n_rows": len(samples), "signatures": signatures}
    manifest["judge"] = dict(one.judge)
    execute = connection.execute
    execute(
        "INSERT INTO reports BY NAME SELECT ? AS report_id, ? AS dataset, 'v' AS dataset_version, ? AS release, "
        "1 AS version, now() AS created_at, 'COMPLETE' AS status, ? AS manifest, release AS answers_version, "
        "'r' AS run_id",
        [report_id, dataset, one.release, json.dumps(manifest)],
    )
    answers = pa.table(
        {
            "id": samples,
            "correct": pa.array([one.labels.get(sample) for sample in samples], pa.bool_()),
            "slices": pa.array(
                [list(one.slices.get(s, {}).items()) for s in samples], pa.map_(pa.string(), pa.string())
            ),
            "missing": pa.array(
                ["timeout" if any(v.get(s) == "unanswered" for v in one.scores.values()) else None for s in samples],
                pa.string(),
            ),
        }
    )
    connection.register("a", answers)
    execute(
        "INSERT INTO answers "
        "SELECT ?, ?, ?, id, md5(id || ?), 'answer', correct::VARCHAR, correct, slices, missing, 1, NULL, NULL, NULL "
        "FROM a",
        [dataset, one.release, one.release, one.release],
    )
    for name, scores in one.scores.items():
        metric, _, field_ = name.partition(".")
        table = pa.table(
            {
                "id": list(scores),
                "value": pa.array([v if isinstance(v, float) else None for v in scores.values()], pa.float64()),
                "status": [_status(v)[0] for v in scores.values()],
                "reason": pa.array([_status(v)[1] for v in scores.values()], pa.string()),
            }
        )
        connection.register("v", table)
        execute(
            "INSERT INTO scores SELECT ?, ?, 'v', ?, id, ?, ?, value, status, reason, ?, 1 FROM v",
            [report_id, dataset, one.release, metric, field_, signatures[metric]],
        )
        known = [v for v in scores.values() if isinstance(v, float)]
        statuses = [_status(v)[0] for v in scores.values()]
        execute(
            "INSERT INTO report_scores BY NAME SELECT ? AS report_id, ? AS release, ? AS metric, ? AS field, "
            "'all' AS slice, ? AS n_total, ? AS n_scored, ? AS n_failed, ? AS n_undefined, ? AS n_skipped, "
            "? AS coverage, ? AS mean",
            [
                report_id, one.release, metric, field_, len(scores),
                *(statuses.count(status) for status in ("scored", "failed", "undefined", "skipped")),
                len(known) / len(scores),
                float(np.mean(known)) if known else None,
            ],
        )  # fmt: skip


def _status(value):
    if isinstance(value, float):
        return "scored", None
    if value == "unanswered":
        return "failed", "unanswered (timeout)"
    status, _, reason = (value or "undefined").partition(": ")
    return status, reason or None


def evouna(shared):
    """The label of each usable question of evouna_nq, by release."""
    found = {}
    for line in (shared / "data/evouna_nq/evouna_nq_dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["meta"]["usable"]:
            release = found.setdefault(row["meta"]["model_key"], {})
            release[row["meta"]["question_id"]] = float(row["human_label"])
    return found
