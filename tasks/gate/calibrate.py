"""Calibrate a metric or judge against human labels, and correct the means of releases for its errors."""

from __future__ import annotations

import logging
import math
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
from answerkey.tasks.load.ids import by_plain_id, respelled
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
    given = read_labels(labels, mapping)[0] if labels else []
    if any(row.score is not None for row in given):
        rows = [
            LabelledScore(r.sample_id, r.release or "all", r.score, r.label, r.cluster, r.repeat, r.second)
            for r in given
        ]
        return _calibrated(name, f"{metric}|{STORED}", (), labels, rows)
    found, signature, rows = labelled_scores(home, name, reports, labels, given)
    return _calibrated(name, signature, tuple(r.report_id for r in found), labels or OWN_LABELS, rows)


def labelled_scores(
    home: Home, name: str, reports: Sequence[str], labels: str, given: Sequence[LabelRow]
) -> tuple[list[Report], str, list[LabelledScore]]:
    """The reports, the signature that they share, and the scores of METRIC.FIELD `name`.

    The labels are those that came with the answers, or those `given` by the file `labels`.

    Raises:
        UserError: no such report or field, several signatures, or no label is about an answer of the reports.
    """
    metric, _, field = name.partition(".")
    ids = [report_named(home, one, fields=[name]) for one in reports] or latest_run(home)
    found = read_reports(home, list(dict.fromkeys(ids)))
    signature = _signature(found, name)
    with home.warehouse.reading() as warehouse:
        rows = [row for report in found for row in _scores(warehouse, report, metric, field)]
    return found, signature, _with_labels(rows, given, labels, found) if labels else rows


def _signature(reports: Sequence[Report], name: str) -> str:
    """The one signature of the metric in all reports."""
    metric = name.partition(".")[0]
    if not reports:
        raise UserError(f"{name}: there is no report; run `answerkey evaluate` first")
    for report in reports:
        if name not in report.names:
            raise UserError(f"{name}: {report.report_id} has {', '.join(report.names)}")
    by_signature = {report.manifest["signatures"][metric]: report.report_id for report in reversed(reports)}
    if len(by_signature) > 1:
        raise UserError(f"{metric}: {' and '.join(by_signature.values())} were not scored in the same way; name one")
    return str(next(iter(by_signature)))


def _scores(warehouse: duckdb.DuckDBPyConnection, report: Report, metric: str, field: str) -> list[LabelledScore]:
    values = {"answers": report.answers_version, "report": report.report_id, "metric": metric, "field": field}
    return [LabelledScore(*row) for row in warehouse.execute(_SQL["scores"], values).fetchall()]


def _with_labels(
    rows: list[LabelledScore], given: Sequence[LabelRow], file: str, reports: Sequence[Report]
) -> list[LabelledScore]:
    """The rows with the labels of the file instead of their own, and one without a score for any other label."""
    given = _as_reports_spell_ids(given, rows, file)
    labels = {(row.release, row.sample_id, row.repeat): row for row in given}
    if len(reports) > 1 and any(not row.release for row in given):
        raise UserError(f"{file}: a row names no release, and there are {len(reports)} reports; --map release=COLUMN")
    only = reports[0].release if len(reports) == 1 else ""
    known = {(row.release, row.sample_id, row.repeat) for row in rows}
    strange = [row for row in given if (row.release or only, row.sample_id, row.repeat) not in known]
    if len(strange) == len(given):
        ids = f"the first is {strange[0].sample_id!r}, and an id of the reports {min(row.sample_id for row in rows)!r}"
        raise UserError(f"{file}: no label is about an answer of these reports; {ids}; map the column with --map id=")
    merged = []
    for row in rows:
        key = (row.sample_id, row.repeat)
        label = labels.get((row.release, *key)) or (labels.get(("", *key)) if only else None)
        correct, second = (label.label, label.second) if label else (None, None)
        merged.append(replace(row, correct=correct, second=second))
    return merged + [
        LabelledScore(row.sample_id, row.release or only, None, row.label, row.cluster, row.repeat) for row in strange
    ]


def _as_reports_spell_ids(given: Sequence[LabelRow], rows: Sequence[LabelledScore], file: str) -> list[LabelRow]:
    """Return the labels with the ids of the reports, where the file spells these otherwise."""
    ids = by_plain_id(row.sample_id for row in given)
    spellings = respelled(ids, by_plain_id(row.sample_id for row in rows))
    if spellings:
        spelling, known = next(iter(spellings.items()))
        _log.info(f"{file}: {len(spellings):,} ids are spelled otherwise in the reports: {spelling!r} is {known!r}")
    return [replace(row, sample_id=spellings.get(row.sample_id, row.sample_id)) for row in given]


def _calibrated(
    name: str, signature: str, report_ids: tuple[str, ...], labels: str, rows: list[LabelledScore]
) -> Calibration:
    both = [row for row in rows if row.score is not None and row.correct is not None]
    if not both:
        raise UserError(f"{name}: no answer has a score and a label; map a label column, or give --labels FILE")
    labelled = Labelled(
        [float(row.score or 0) for row in both],
        [bool(row.correct) for row in both],
        [row.release for row in both],
        [row.cluster for row in both],
        [row.second for row in both],
    )
    releases = dict.fromkeys(row.release for row in both) if report_ids else {}
    return Calibration(
        name,
        signature,
        report_ids,
        labels,
        tuple(human_agreement(labelled)),
        tuple(_corrected(release, [row for row in rows if row.release == release]) for release in releases),
        sum(row.score is None and row.correct is not None for row in rows),
    )


def _corrected(release: str, rows: list[LabelledScore]) -> CorrectedMean:
    """PPI++ over all answers of a release that have a score."""
    scored = [row for row in rows if row.score is not None]
    scores = np.array([row.score for row in scored], np.float64)
    clusters = [row.cluster for row in scored]
    codes = codes_of(clusters, len(scored))
    binary = bool(set(scores.tolist()) <= {0.0, 1.0})
    interval = proportion_interval(scores, codes) if binary else mean_interval(scores, codes)
    labels = [math.nan if row.correct is None else float(row.correct) for row in scored]
    return CorrectedMean(release, Estimate(mean(scores), interval), ppi_mean(scores, labels, clusters=clusters))


def by_own_labels(
    warehouse: duckdb.DuckDBPyConnection, report: Report, names: Sequence[str]
) -> dict[str, CorrectedMean]:
    """By METRIC.FIELD of `names`: the mean of the human labels of the report, estimated where a part of it is labelled.

    Empty where no answer has a label, and where so many have one that their own mean is used.
    """
    own = next((score for score in report.overall if score.metric == LABEL), None)
    if own is None or not 0 < own.n_scored < MOST_LABELLED * own.n_total:
        return {}
    known = {score.name for score in report.overall if score.metric != LABEL and score.n_scored}
    found = {}
    for name in (name for name in names if name in known):
        metric, _, field = name.partition(".")
        rows = _scores(warehouse, report, metric, field)
        if any(row.score is not None and row.correct is not None for row in rows):
            found[name] = _corrected(report.release, rows)
    return found


def columns_of(found: Calibration, part: HumanAgreement) -> dict[str, Any]:
    """One part as the columns of the table `calibrations`, by name; also what --json prints."""
    agreed, ceiling = part.agreement, part.ceiling
    corrected = next((one for one in found.corrected if one.release == part.release), None)
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
    for name, estimate in estimates.items():
        interval = estimate.interval if estimate else None
        row[name] = estimate.value if estimate else None
        row[f"{name}_low"], row[f"{name}_high"] = (interval.low, interval.high) if interval else (None, None)
    return row


def store_calibration(home: Home, found: Calibration) -> None:
    """Write a calibration, one row over all releases and one for each. Older ones stay, and the newest counts."""
    metric, _, field = found.name.partition(".")
    about = {
        "metric": metric, "field": field, "signature": found.signature, "report_ids": list(found.report_ids),
        "labels": found.labels,
    }  # fmt: skip
    with home.warehouse.writing() as warehouse:
        for part in found.parts:
            row = {**about, **columns_of(found, part)}
            places = ", ".join("?" * len(row))
            warehouse.execute(
                f"INSERT INTO calibrations (created_at, {', '.join(row)}) VALUES (now(), {places})", list(row.values())
            )


def calibrations_of(home: Home, reports: Sequence[Report], name: str) -> tuple[Calibrated | Missing, ...]:
    """The newest calibration of METRIC.FIELD `name` on the release of each report, with the signature it has there.

    A calibration with another signature has expired: another judge, prompt or parser errs in another way. One on other
    releases does not count: a judge may be kind to one release and hard on another.
    """
    how = " ".join(["run answerkey calibrate", name, *(f"--report {report.report_id}" for report in reports)])
    return tuple(_calibration_of(home, report, name, how) for report in reports)


def _calibration_of(home: Home, report: Report, name: str, how: str) -> Calibrated | Missing:
    metric, _, field = name.partition(".")
    signature = report.manifest["signatures"].get(metric)
    about = {"metric": metric, "field": field, "signature": signature, "release": report.release}
    rows = home.rows(_SQL["newest"], about)
    if not rows or signature is None:
        return Missing(f"it was never calibrated; {how}")
    [(release, calibrated, n, kappa, low, high, labels)] = rows
    if calibrated != signature:
        what = ", ".join(str(change) for change in signature_changes(calibrated, signature))
        return Missing(f"its calibration on answers of {release} has expired ({what}); {how}")
    if release != report.release:
        return Missing(f"it was calibrated on answers of {release}, and not on those of {report.release}; {how}")
    source = "that came with the answers" if labels == OWN_LABELS else f"of {labels}"
    interval = None if low is None else Interval(low, high, "delta-log-t")
    return Calibrated(release, None if kappa is None else Estimate(kappa, interval), n, source)
