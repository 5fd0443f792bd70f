"""Calibrate a metric or judge against human labels, and correct the means of releases for its errors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from answerkey.metrics_core.decide.clustered import codes_of, mean, mean_interval, proportion_interval
from answerkey.metrics_core.decide.evidence import Calibrated, Missing
from answerkey.metrics_core.decide.intervals import Estimate, Interval
from answerkey.metrics_core.decide.ppi import PredictionPowered, ppi_mean
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.calibration import HumanAgreement, Labelled, human_agreement
from answerkey.metrics_core.metrics.label import LABEL, MOST_LABELLED
from answerkey.tasks.compare.difference import signature_changes
from answerkey.tasks.gate.labels import LabelRow, read_labels
from answerkey.tasks.load.references import by_plain_id, respelled
from answerkey.tasks.reports.report import Report, latest_run, read_reports, report_named
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A release's mean of a metric, and the mean of the human labels that it predicts (PPI++), both with intervals.

    Holds where the labelled answers are a random sample of the release's.
    """

    release: str
    raw: Estimate
    corrected: PredictionPowered


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration found.

    Attributes:
        name: METRIC.FIELD; `signature`: of the metric, to which all this is bound.
        report_ids: the reports that the scores are from; empty where the labels file brings them.
        labels: where the labels are from: answers.correct, or a file.
        parts: over all releases, then each.
        corrected: of the releases of the reports, where some or all answers have a human label.
        n_without_score: labelled answers that have no score; they count nowhere.
    """

    name: str
    signature: str
    report_ids: tuple[str, ...]
    labels: str
    parts: tuple[HumanAgreement, ...]
    corrected: tuple[CorrectedMean, ...]
    n_without_score: int


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """The score of an answer, and what people said of it; None where there is none."""

    sample_id: str
    release: str
    score: float | None
    correct: bool | None
    cluster: str
    repeat: int = 1
    second: bool | None = None


STORED = "stored"
"""In the signature of scores that a labels file brings."""

_log = logging.getLogger("answerkey")
_SQL = statements(__name__)

OWN_LABELS = "answers.correct"
"""Where labels are from that came with the answers."""


def calibrate(
    home: Home, name: str, *, reports: Sequence[str] = (), labels: str = "", mapping: Sequence[str] = ()
) -> Calibration:
    """Compare METRIC.FIELD `name` with human labels.

    Args:
        reports: ids, or names of releases; the newest run's reports where none is named.
        labels: a file with id, label and, where there are several reports, release; also a second annotator's label,
            or scores of its own, which are then calibrated instead of a report's. Empty: the labels that came with
            the answers.
        mapping: KEY=PATH pairs for that file.

    Raises:
        UserError: no such field or report, the reports were not scored in the same way, or nothing is labelled.
    """
    metric, _, field = name.partition(".")
    if not metric or not field:
        raise UserError(f"{name}: write METRIC.FIELD, for instance meaning_match.match")
    label_rows = read_labels(labels, mapping)[0] if labels else []
    scored: list[Report] = []
    if any(row.score is not None for row in label_rows):
        # A file with scores of its own needs no report
        signature = f"{metric}|{STORED}"
        rows = [
            LabelledScore(
                sample_id=row.sample_id,
                release=row.release or "all",
                score=row.score,
                correct=row.label,
                cluster=row.cluster,
                repeat=row.repeat,
                second=row.second,
            )
            for row in label_rows
        ]
    else:
        scored, signature, rows = labelled_scores(home, name, reports, label_rows, labels=labels)
    labelled = [row for row in rows if row.score is not None and row.correct is not None]
    if not labelled:
        raise UserError(f"{name}: no answer has a score and a label; map a label column, or give --labels FILE")
    agreement_rows = Labelled(
        scores=[float(row.score or 0) for row in labelled],
        labels=[bool(row.correct) for row in labelled],
        releases=[row.release for row in labelled],
        clusters=[row.cluster for row in labelled],
        second=[row.second for row in labelled],
    )
    # A file has only the answers that somebody labelled, so it has no mean to correct
    corrected = []
    for release in dict.fromkeys(row.release for row in labelled):
        if scored:
            corrected.append(_corrected(release, [row for row in rows if row.release == release]))
    return Calibration(
        name=name,
        signature=signature,
        report_ids=tuple(report.report_id for report in scored),
        labels=labels or OWN_LABELS,
        parts=tuple(human_agreement(agreement_rows)),
        corrected=tuple(corrected),
        n_without_score=sum(row.score is None and row.correct is not None for row in rows),
    )


def labelled_scores(
    home: Home, name: str, reports: Sequence[str], label_rows: Sequence[LabelRow], *, labels: str
) -> tuple[list[Report], str, list[LabelledScore]]:
    """Read the reports, the signature that they share, and the scores of METRIC.FIELD `name`.

    The labels are those that came with the answers, or `label_rows`, those of the file `labels`.

    Raises:
        UserError: no such report or field, several signatures, or no label is about an answer of the reports.
    """
    metric, _, field = name.partition(".")
    ids = [report_named(home, report, fields=[name]) for report in reports] or latest_run(home)
    scored = read_reports(home, list(dict.fromkeys(ids)))
    if not scored:
        raise UserError(f"{name}: there is no report; run `answerkey evaluate` first")
    for report in scored:
        if name not in report.names:
            raise UserError(f"{name}: {report.report_id} has {', '.join(report.names)}")
    # Scores of two judges cannot be calibrated as one
    by_signature = {report.manifest["signatures"][metric]: report.report_id for report in reversed(scored)}
    if len(by_signature) > 1:
        raise UserError(f"{metric}: {' and '.join(by_signature.values())} were not scored in the same way; name one")
    rows: list[LabelledScore] = []
    with home.warehouse.reading() as warehouse:
        for report in scored:
            rows += _scores(warehouse, report, metric, field)
    return scored, str(next(iter(by_signature))), _with_labels(rows, label_rows, labels, scored) if labels else rows


def _scores(warehouse: duckdb.DuckDBPyConnection, report: Report, metric: str, field: str) -> list[LabelledScore]:
    """Read the scores of a report's answers, with the labels that came with these."""
    values = {"answers": report.answers_version, "report": report.report_id, "metric": metric, "field": field}
    return [LabelledScore(*row) for row in warehouse.execute(_SQL["scores"], values).fetchall()]


def _with_labels(
    rows: list[LabelledScore], label_rows: Sequence[LabelRow], file: str, reports: Sequence[Report]
) -> list[LabelledScore]:
    """Give the rows the labels of the file instead of their own, and add one without a score for any other label."""
    # The file may spell the ids of the reports otherwise
    ids = by_plain_id(row.sample_id for row in label_rows)
    spellings = respelled(ids, by_plain_id(row.sample_id for row in rows))
    if spellings:
        spelling, report_id = next(iter(spellings.items()))
        _log.info(f"{file}: {len(spellings):,} ids are spelled otherwise in the reports: {spelling!r} is {report_id!r}")
    label_rows = [replace(row, sample_id=spellings.get(row.sample_id, row.sample_id)) for row in label_rows]
    if len(reports) > 1 and any(not row.release for row in label_rows):
        raise UserError(f"{file}: a row names no release, and there are {len(reports)} reports; --map release=COLUMN")
    # A file about a single report need not name its release
    release = reports[0].release if len(reports) == 1 else ""
    scored = {(row.release, row.sample_id, row.repeat) for row in rows}
    unscored = [row for row in label_rows if (row.release or release, row.sample_id, row.repeat) not in scored]
    if len(unscored) == len(label_rows):
        report_id = min(row.sample_id for row in rows)
        examples = f"the first is {unscored[0].sample_id!r}, and an id of the reports {report_id!r}"
        raise UserError(
            f"{file}: no label is about an answer of these reports; {examples}; map the column with --map id="
        )
    labels = {(row.release, row.sample_id, row.repeat): row for row in label_rows}
    merged = []
    for row in rows:
        key = (row.sample_id, row.repeat)
        label = labels.get((row.release, *key)) or (labels.get(("", *key)) if release else None)
        if label:
            merged.append(replace(row, correct=label.label, second=label.second))
        else:
            merged.append(replace(row, correct=None, second=None))
    for label in unscored:
        merged.append(
            LabelledScore(
                sample_id=label.sample_id,
                release=label.release or release,
                score=None,
                correct=label.label,
                cluster=label.cluster,
                repeat=label.repeat,
            )
        )
    return merged


def _corrected(release: str, rows: list[LabelledScore]) -> CorrectedMean:
    """Correct the mean of all answers of a release that have a score (PPI++)."""
    scored = [row for row in rows if row.score is not None]
    scores = np.array([row.score for row in scored], np.float64)
    clusters = [row.cluster for row in scored]
    codes = codes_of(clusters, len(scored))
    binary = bool(set(scores.tolist()) <= {0.0, 1.0})
    interval = proportion_interval(scores, codes) if binary else mean_interval(scores, codes)
    # None becomes NaN
    labels = np.array([row.correct for row in scored], np.float64)
    return CorrectedMean(release, Estimate(mean(scores), interval), ppi_mean(scores, labels, clusters=clusters))


def by_own_labels(
    warehouse: duckdb.DuckDBPyConnection, report: Report, names: Sequence[str]
) -> dict[str, CorrectedMean]:
    """Estimate the mean human label of a report of which a part is labelled, by each METRIC.FIELD of `names`.

    Empty where no answer has a label, and where so many have one that their own mean is used.
    """
    labels = next((score for score in report.overall if score.metric == LABEL), None)
    if labels is None or not 0 < labels.n_scored < MOST_LABELLED * labels.n_total:
        return {}
    scored = {score.name for score in report.overall if score.metric != LABEL and score.n_scored}
    means = {}
    for name in (name for name in names if name in scored):
        metric, _, field = name.partition(".")
        rows = _scores(warehouse, report, metric, field)
        if any(row.score is not None and row.correct is not None for row in rows):
            means[name] = _corrected(report.release, rows)
    return means


def columns_of(calibration: Calibration, part: HumanAgreement) -> dict[str, Any]:
    """Return one part as the columns of the table `calibrations`, by name; also what --json prints."""
    agreed = part.agreement
    ceiling = part.ceiling
    corrected = next((mean for mean in calibration.corrected if mean.release == part.release), None)
    estimates = {
        "accuracy": agreed and agreed.accuracy,
        "kappa": agreed and agreed.kappa,
        "ac1": agreed and agreed.ac1,
        "sensitivity": agreed and agreed.sensitivity,
        "specificity": agreed and agreed.specificity,
        "bias": agreed and agreed.bias,
        "auroc": part.auroc,
        "threshold": part.threshold and Estimate(part.threshold.value, part.threshold.interval),
        "ceiling_kappa": ceiling and ceiling.kappa,
        "raw_mean": corrected and corrected.raw,
        "ppi_mean": corrected and Estimate(corrected.corrected.value, corrected.corrected.interval),
    }
    row: dict[str, Any] = {
        "release": part.release,
        "n": part.n,
        "n_clusters": part.clusters,
        "base_rate": agreed.base_rate if agreed else None,
        "n_ceiling": ceiling.n if ceiling else None,
        "n_unlabelled": corrected.corrected.unlabelled if corrected else None,
        "ppi_weight": corrected.corrected.weight if corrected else None,
    }
    # Each estimate is three columns
    for name, estimate in estimates.items():
        interval = estimate.interval if estimate else None
        row[name] = estimate.value if estimate else None
        row[f"{name}_low"], row[f"{name}_high"] = (interval.low, interval.high) if interval else (None, None)
    return row


def store_calibration(home: Home, calibration: Calibration) -> None:
    """Write a calibration, one row over all releases and one for each. Older ones stay, and the newest counts."""
    metric, _, field = calibration.name.partition(".")
    common = {
        "metric": metric,
        "field": field,
        "signature": calibration.signature,
        "report_ids": list(calibration.report_ids),
        "labels": calibration.labels,
    }
    with home.warehouse.writing() as warehouse:
        for part in calibration.parts:
            row = {**common, **columns_of(calibration, part)}
            slots = ", ".join("?" * len(row))
            warehouse.execute(
                f"INSERT INTO calibrations (created_at, {', '.join(row)}) VALUES (now(), {slots})", list(row.values())
            )


def calibrations_of(home: Home, reports: Sequence[Report], name: str) -> tuple[Calibrated | Missing, ...]:
    """Find the newest calibration of METRIC.FIELD `name` on the release of each report, with its signature there.

    A calibration with another signature has expired: another judge, prompt or parser errs in another way. One on other
    releases does not count: a judge may be kind to one release and hard on another.
    """
    metric, _, field = name.partition(".")
    remedy = " ".join(["run answerkey calibrate", name, *(f"--report {report.report_id}" for report in reports)])
    calibrations: list[Calibrated | Missing] = []
    for report in reports:
        signature = report.manifest["signatures"].get(metric)
        key = {"metric": metric, "field": field, "signature": signature, "release": report.release}
        rows = home.rows(_SQL["newest"], key)
        if not rows or signature is None:
            calibrations.append(Missing(f"it was never calibrated; {remedy}"))
            continue
        [(release, calibrated, n, kappa, low, high, labels)] = rows
        if calibrated != signature:
            changes = ", ".join(map(str, signature_changes(calibrated, signature)))
            reason = f"its calibration on answers of {release} has expired ({changes}); {remedy}"
            calibrations.append(Missing(reason))
        elif release != report.release:
            reason = f"it was calibrated on answers of {release}, and not on those of {report.release}; {remedy}"
            calibrations.append(Missing(reason))
        else:
            source = "that came with the answers" if labels == OWN_LABELS else f"of {labels}"
            interval = None if low is None else Interval(low, high, "delta-log-t")
            estimate = None if kappa is None else Estimate(kappa, interval)
            calibrations.append(Calibrated(release, estimate, n, source))
    return tuple(calibrations)
