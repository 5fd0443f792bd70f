"""Read everything that the page shows from the warehouse. Nothing is written, nothing is computed twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.decide.agreement import Confusion
from answerkey.metrics_core.decide.ppi import rogan_gladen
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.label import LABEL, LABEL_FIELD
from answerkey.tasks.gate.calibrate import by_own_labels
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page.model import (
    CheckSummary,
    Corrected,
    FieldSummary,
    LabelAgreement,
    Page,
    Release,
)
from answerkey.tasks.publish.page.samples import MOST_SAMPLES, read_samples
from answerkey.tasks.publish.page.warnings import summary, warnings
from answerkey.tasks.publish.table import Cell, Table
from answerkey.tasks.publish.text import NONE, count
from answerkey.tasks.reports.headline import fields_of, headlines, why_primary
from answerkey.tasks.reports.report import Report, moments, read_reports
from answerkey.tasks.reports.report import labels as labels_of
from answerkey.tasks.warehouse.home import Home
from answerkey.tasks.warehouse.sql import statements

if TYPE_CHECKING:
    import duckdb

_SQL = statements(__name__)
_MOST_REFUSED = 100
_RAW_CHARS = 2_000


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
        UserError: there are none, one is not in the warehouse, they are about several data sets, or none of them has
            the field `primary`.
    """
    with home.warehouse.reading() as warehouse:
        reports = read_reports(home, list(dict.fromkeys(report_ids)))
        datasets = list(dict.fromkeys(report.dataset for report in reports))
        if len(datasets) != 1:
            raise UserError(
                f"a page is about one data set, and these reports are about {', '.join(datasets) or 'none'}"
            )
        names = {name for report in reports for name in report.names}
        asked = [*(gated.deciding_field for gated in gates), *(comparison.primary for comparison in comparisons[::-1])]
        shown = headlines(reports, primary or next((name for name in asked if name in names), ""))
        chosen = shown[0]
        declared = primary or any(gated.deciding_field == chosen for gated in gates) or chosen != headlines(reports)[0]
        why = "" if declared else why_primary(chosen)
        labels = labels_of(reports)
        margins = {(gated.old, gated.new): gated.margin for gated in gates if gated.deciding_field == chosen}
        named = tuple(
            _named(comparison, labels, margins.get((comparison.old, comparison.new), comparison.margin))
            for comparison in comparisons
        )
        said = tuple(replace(one, old=labels.get(one.old, one.old), new=labels.get(one.new, one.new)) for one in gates)

        means = [mean for report in reports for mean in _means(warehouse, report, shown, labels[report.report_id])]
        ids = {"ids": list(labels)}
        lengths = dict(warehouse.execute(_SQL["median_lengths"], ids).fetchall())
        binary = {name for (name,) in warehouse.execute(_SQL["binary_fields"], ids).fetchall()}
        checks = tuple(CheckSummary(*row) for row in warehouse.execute(_SQL["checks"], ids).fetchall())
        n_quarantined, refused = _quarantine(warehouse, ids)
        agreements, calibrated = _agreements(warehouse, reports, labels, binary)
        releases = tuple(
            Release(labels[report.report_id], report, report.manifest.get("command", ""), lengths.get(report.report_id))
            for report in reports
        )
        page = Page(
            dataset=datasets[0],
            made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            primary=chosen,
            why_primary=why,
            headlines=shown,
            fields=tuple(_field(name, reports, name in binary) for name in fields_of(reports, chosen)),
            releases=releases,
            gates=said,
            summary=summary(releases, named, said, chosen),
            warnings=warnings(releases, named, checks, n_quarantined),
            comparisons=named,
            failures=_failures(warehouse, labels),
            checks=checks,
            n_quarantined=n_quarantined,
            quarantine=refused,
            agreements=agreements,
            corrected=tuple({(one.field, one.release): one for one in (*means, *calibrated)}.values()),
            history=moments(warehouse, datasets, shown)[datasets[0]],
            samples=read_samples(warehouse, labels, reports, chosen, most_samples),
        )
        return page


def _means(
    warehouse: duckdb.DuckDBPyConnection, report: Report, names: Sequence[str], label: str
) -> Iterator[Corrected]:
    for name, one in by_own_labels(warehouse, report, names).items():
        better = one.corrected
        raw, corrected = (
            (part.value, *(part.interval[:2] if part.interval else (None, None))) for part in (one.raw, better)
        )
        yield Corrected(name, label, raw, corrected, better.labelled, better.unlabelled, "PPI++")


def _named(comparison: Comparison, names: dict[str, str], margin: float | None) -> Comparison:
    missing = [one for one in (comparison.old, comparison.new) if one not in names]
    if missing:
        raise UserError(f"{missing[0]}: compared, but not on the page")
    return replace(comparison, old=names[comparison.old], new=names[comparison.new], margin=margin)


def _field(name: str, reports: Sequence[Report], binary: bool) -> FieldSummary:
    metric = name.partition(".")[0]
    found = [report.manifest["signatures"].get(metric) for report in reports]
    notes = [note for report in reports if (note := report.metric(metric))]
    summary = LABEL_FIELD.description if metric == LABEL else notes[0].summary if notes else ""
    lower = any(report.lower_is_better(name) for report in reports)
    return FieldSummary(name, metric, summary, tuple(dict.fromkeys(filter(None, found))), binary, lower)


def _failures(warehouse: duckdb.DuckDBPyConnection, labels: Mapping[str, str]) -> Table:
    """Rows without a score, by metric, status and reason, the most frequent first."""
    rows = warehouse.execute(_SQL["failures"], [list(labels)]).fetchall()
    cells = [(metric, labels[report_id], status, count(n), reason) for report_id, metric, status, reason, n in rows]
    head = ("metric", "release", "status", "rows", "reason")
    return Table("Why rows have no score", head, cells, left=["release", "status", "reason"], wrapped={"reason": 36})


def _quarantine(warehouse: duckdb.DuckDBPyConnection, ids: Mapping[str, Sequence[str]]) -> tuple[int, Table]:
    """How many rows the runs of the reports `ids` refused, and the first of them."""
    [(n,)] = warehouse.execute(_SQL["n_quarantined"], ids).fetchall()
    rows = warehouse.execute(_SQL["quarantine"], {**ids, "chars": _RAW_CHARS, "most": _MOST_REFUSED}).fetchall()
    cells = [
        (count(row), sample_id or NONE, release or NONE, rule, reason, Cell(raw or NONE, kind="raw"))
        for row, sample_id, release, rule, reason, raw in rows
    ]
    notes = [f"The first {len(rows)}; the warehouse has all."] if len(rows) < n else []
    head = ("row", "sample", "release", "rule", "problem", "original row")
    return n, Table("Quarantine", head, cells, left=head, wrapped={"problem": 36}, notes=notes)


def _agreements(
    warehouse: duckdb.DuckDBPyConnection, reports: Sequence[Report], labels: Mapping[str, str], binary: set[str]
) -> tuple[tuple[LabelAgreement, ...], tuple[Corrected, ...]]:
    """The newest calibration of each field and release with the signature that the reports have of its metric.

    Corrected means are those of a report of the page. Where the calibration is of another report of the release, for
    instance on another data set, the errors that it found are carried over, for the fields that are `binary`.
    """
    signatures = {signature for report in reports for signature in report.manifest["signatures"].values()}
    rows = warehouse.execute(
        _SQL["agreements"],
        {"signatures": list(signatures), "releases": [report.release for report in reports]},
    ).fetchall()
    found, means = [], []
    for field, release, source, n, n_unlabelled, report_ids, base_rate, *numbers in rows:
        kappa, sensitivity, specificity, bias, ceiling, raw, corrected = zip(*[iter(numbers)] * 3, strict=True)
        of_release = [report for report in reports if report.release == release]
        own = next((report for report in of_release if report.report_id in report_ids), None)
        shown = own or next(iter(of_release), None)
        name = labels[shown.report_id] if shown else None
        one = LabelAgreement(field, name, source, n, kappa, sensitivity, specificity, bias, ceiling)
        found.append(one)
        if own and name and corrected[0] is not None:
            means.append(Corrected(field, name, raw, corrected, n, n_unlabelled, "PPI++"))
        elif not own and shown and field in binary and base_rate is not None:
            means += _carried_over(one, shown, base_rate)
    return tuple(found), tuple(means)


def _carried_over(one: LabelAgreement, report: Report, base_rate: float) -> list[Corrected]:
    """The mean of `report` corrected for the errors that the judge makes on other answers of the release, if it can."""
    score = report.score(one.field)
    # Answers to one question are not independent, and the formula is for those that are.
    if report.n_questions != report.n_total:
        return []
    if score is None or score.mean is None or one.sensitivity[0] is None or one.specificity[0] is None:
        return []
    # The counts behind the rates.
    ones = round(one.n * base_rate)
    right, caught = round(one.sensitivity[0] * ones), round(one.specificity[0] * (one.n - ones))
    counts = Confusion(right, one.n - ones - caught, ones - right, caught)
    found = rogan_gladen(round(score.mean * score.n_scored), score.n_scored, counts)
    if found is None or found.interval is None:
        return []
    corrected = (found.value, found.interval.low, found.interval.high)
    raw = (score.mean, score.ci_low, score.ci_high)
    return [Corrected(one.field, str(one.release), raw, corrected, one.n, score.n_scored, "Rogan-Gladen")]
