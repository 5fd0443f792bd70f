"""Read everything that the page shows from the warehouse. Nothing is written, nothing is computed twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.agreement import Confusion
from answerkey.metrics_core.decide.intervals import Estimate
from answerkey.metrics_core.decide.ppi import rogan_gladen
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.label import LABEL, LABEL_FIELD
from answerkey.tasks.gate.calibrate import by_own_labels
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.model import FieldSummary, Page, Release
from answerkey.tasks.publish.page.samples import MOST_SAMPLES, read_samples
from answerkey.tasks.publish.page.warnings import summary, warnings
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.publish.tables import Row, estimated
from answerkey.tasks.publish.text import NONE, count
from answerkey.tasks.reports.headline import fields_of, headlines, why_primary
from answerkey.tasks.reports.report import Report, Score, moments, read_report
from answerkey.tasks.reports.report import labels as labels_of
from answerkey.tasks.validate.validate import Check
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_REFUSED = 100
_RAW_CHARS = 2_000
_CORRECTED = ("metric", "release", "as scored", "in human labels", "labelled", "not labelled", "method")


def build_page(
    home: Home,
    report_ids: Sequence[str],
    *,
    comparisons: Sequence[Comparison] = (),
    gates: Sequence[ReleaseVerdict] = (),
    primary: str | None = None,
    most_samples: int = MOST_SAMPLES,
) -> Page:
    """The page about the reports `report_ids`, in that order: the oldest release first.

    `comparisons` are comparisons between them, and `gates` what gates say about the same comparisons. `primary` is the
    METRIC.FIELD that decides; without it, it is that of the gates, of the newest comparison, or what
    `headline.primary` says. Of more than `most_samples` samples those are kept whose primary score moves most.

    Raises:
        UserError: there are none, one is not in the warehouse, they are about several data sets, none of them has
            the field `primary`, or a comparison is about other reports.
    """
    with home.warehouse.reading() as warehouse:
        # The reports, which are about one data set
        reports = [read_report(warehouse, report_id, home) for report_id in dict.fromkeys(report_ids)]
        datasets = list(dict.fromkeys(report.dataset for report in reports))
        if len(datasets) != 1:
            raise UserError(
                f"a page is about one data set, and these reports are about {', '.join(datasets) or 'none'}"
            )

        # The field that decides: by the gates, else by the newest comparison, else by what the reports have
        names = {*chain.from_iterable(report.names for report in reports)}
        deciding_fields = [gated.deciding_field for gated in gates]
        candidates = [*deciding_fields, *(comparison.primary for comparison in comparisons[::-1])]
        page_headlines = headlines(reports, primary or next((name for name in candidates if name in names), ""))
        deciding = page_headlines[0]
        is_declared = primary or deciding in deciding_fields or deciding != headlines(reports)[0]

        # Comparisons and verdicts by the names that releases have on the page
        labels = labels_of(reports)
        margins = {(gated.old, gated.new): gated.margin for gated in gates if gated.deciding_field == deciding}
        labelled_comparisons = []
        for pair in comparisons:
            if missing := [report_id for report_id in (pair.old, pair.new) if report_id not in labels]:
                raise UserError(f"{missing[0]}: compared, but not on the page")
            margin = margins.get((pair.old, pair.new), pair.margin)
            labelled_comparisons.append(replace(pair, old=labels[pair.old], new=labels[pair.new], margin=margin))
        verdicts = tuple(
            replace(gated, old=labels.get(gated.old, gated.old), new=labels.get(gated.new, gated.new))
            for gated in gates
        )

        # What the page has of each release, with its means in human labels where a part of its answers has labels
        means: list[Row] = []
        for report in reports:
            for name, mean in by_own_labels(warehouse, report, page_headlines).items():
                estimates = estimated(mean.raw), estimated(mean.corrected)
                n_answers = count(mean.corrected.labelled), count(mean.corrected.unlabelled)
                means.append((name, labels[report.report_id], *estimates, *n_answers, "PPI++"))
        ids = {"ids": list(labels)}
        lengths = dict(warehouse.execute(_SQL["median_lengths"], ids).fetchall())
        binary = {name for (name,) in warehouse.execute(_SQL["binary_fields"], ids).fetchall()}
        checks = tuple(Check(*row) for row in warehouse.execute(_SQL["checks"], ids).fetchall())
        n_quarantined, refused = _quarantine(warehouse, ids)
        agreements, calibrated = _agreements(warehouse, reports, labels, binary)
        # A calibration of a report stands for the mean by its own labels
        corrected = {(row[0], row[1]): row for row in (*means, *calibrated)}
        releases = tuple(
            Release(labels[report.report_id], report, report.manifest.get("command", ""), lengths.get(report.report_id))
            for report in reports
        )
        return Page(
            dataset=datasets[0],
            made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            primary=deciding,
            why_primary="" if is_declared else why_primary(deciding),
            headlines=page_headlines,
            fields=tuple(_field(name, reports, name in binary) for name in fields_of(reports, deciding)),
            releases=releases,
            gates=verdicts,
            summary=summary(releases, labelled_comparisons, verdicts, deciding),
            warnings=warnings(releases, labelled_comparisons, checks, n_quarantined),
            comparisons=tuple(labelled_comparisons),
            failures=_failures(warehouse, labels),
            checks=checks,
            n_quarantined=n_quarantined,
            quarantine=refused,
            agreements=agreements,
            corrected=Table("Corrected means", _CORRECTED, list(corrected.values()), left=["release", "method"]),
            history=moments(warehouse, datasets, page_headlines)[datasets[0]],
            samples=read_samples(warehouse, labels, reports, primary=deciding, max_samples=most_samples),
        )


def _field(name: str, reports: Sequence[Report], is_binary: bool) -> FieldSummary:
    # Reports of other versions may have been made in another way
    metric = name.partition(".")[0]
    signatures = [report.manifest["signatures"].get(metric) for report in reports]
    notes = list(filter(None, (report.metric(metric) for report in reports)))
    summary = notes[0].summary if notes else ""
    return FieldSummary(
        name=name,
        metric=metric,
        summary=LABEL_FIELD.description if metric == LABEL else summary,
        signatures=tuple(dict.fromkeys(filter(None, signatures))),
        binary=is_binary,
        lower_is_better=any(report.lower_is_better(name) for report in reports),
    )


def _failures(warehouse: duckdb.DuckDBPyConnection, labels: Mapping[str, str]) -> Table:
    """Count rows without a score, by metric, status and reason, the most frequent first."""
    rows = warehouse.execute(_SQL["failures"], [list(labels)]).fetchall()
    cells = [(metric, labels[report_id], status, count(n), reason) for report_id, metric, status, reason, n in rows]
    head = ("metric", "release", "status", "rows", "reason")
    return Table("Why rows have no score", head, cells, left=["release", "status", "reason"], wrapped={"reason": 36})


def _quarantine(warehouse: duckdb.DuckDBPyConnection, ids: Mapping[str, Sequence[str]]) -> tuple[int, Table]:
    """Count the rows that the runs of the reports `ids` refused, and show the first of them."""
    rows = warehouse.execute(_SQL["quarantine"], {**ids, "chars": _RAW_CHARS, "most": _MOST_REFUSED}).fetchall()
    n_refused = rows[0][-1] if rows else 0
    cells = []
    for number, sample_id, release, rule, reason, raw, _ in rows:
        original = Cell(raw or NONE, kind="raw")
        cells.append((count(number), sample_id or NONE, release or NONE, rule, reason, original))
    notes = [f"The first {len(rows)}; the warehouse has all."] if len(rows) < n_refused else []
    head = ("row", "sample", "release", "rule", "problem", "original row")
    return n_refused, Table("Quarantine", head, cells, left=head, wrapped={"problem": 36}, notes=notes)


def _agreements(
    warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report], labels: Mapping[str, str], binary: set[str]
) -> tuple[Table, list[Row]]:
    """Read the newest calibration of each field and release with the signature that the reports have of its metric.

    Corrected means are those of a report of the page. Where the calibration is of another report of the release, for
    instance on another data set, the errors that it found are carried over, for the fields that are `binary`.
    """
    signatures = chain.from_iterable(report.manifest["signatures"].values() for report in reports)
    parameters = {"signatures": list({*signatures}), "releases": [report.release for report in reports]}
    agreements: list[Row] = []
    means: list[Row] = []
    for field, release, n, n_unlabelled, report_ids, base_rate, *estimates in warehouse.execute(
        _SQL["agreements"], parameters
    ).fetchall():
        *agreed, raw, corrected = estimates

        # The report that was calibrated, else another one of the same release
        of_release = [report for report in reports if report.release == release]
        calibrated = [report for report in of_release if report.report_id in report_ids]
        report = next(iter(calibrated or of_release), None)
        name = labels[report.report_id] if report else "all"
        agreements.append((field, name, count(n), *(estimate(*ends) for ends in agreed)))

        # Its corrected mean, or the errors that were found, carried over to these answers
        if calibrated and corrected[0] is not None:
            means.append((field, name, estimate(*raw), estimate(*corrected), count(n), count(n_unlabelled), "PPI++"))
        elif not calibrated and report and field in binary and base_rate is not None:
            _kappa, (sensitivity, *_), (specificity, *_), *_ = agreed
            score = report.score(field)
            carried_over = score and _carried_over(
                score, report, n, base_rate=base_rate, sensitivity=sensitivity, specificity=specificity
            )
            if score and carried_over:
                scored = estimate(score.mean, score.ci_low, score.ci_high)
                means.append(
                    (field, name, scored, estimated(carried_over), count(n), count(score.n_scored), "Rogan-Gladen")
                )

    # Those of one field together
    head = ("metric", "release", "labels", "kappa", "sensitivity", "specificity", "bias", "ceiling, kappa")
    groups = [row[0] for row in agreements]
    table = Table("Agreement with human labels", head, agreements, left=["release"], groups=groups)
    return table.without_empty("ceiling, kappa"), means


def _carried_over(
    score: Score, report: Report, n: int, *, base_rate: float, sensitivity: float | None, specificity: float | None
) -> Estimate | None:
    """Correct a mean of `report` for the errors that the judge makes on other answers of the release, if possible.

    Args:
        n: how many of those answers have a label; the share `base_rate` of them is right.
    """
    # Answers to one question are not independent, and the formula is for those that are
    if report.n_questions != report.n_total:
        return None
    if score.mean is None or sensitivity is None or specificity is None:
        return None
    # The counts behind the rates
    n_right = round(n * base_rate)
    true_positive = round(sensitivity * n_right)
    true_negative = round(specificity * (n - n_right))
    counts = Confusion(true_positive, n - n_right - true_negative, n_right - true_positive, true_negative)
    mean = rogan_gladen(round(score.mean * score.n_scored), score.n_scored, counts)
    return mean if mean and mean.interval else None
