"""Read everything that the page shows from the warehouse. Nothing is written, nothing is computed twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.registry import METRICS
from answerkey.tasks.gate.calibrate import by_own_labels
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish.page import read
from answerkey.tasks.publish.page.command import command
from answerkey.tasks.publish.page.model import Corrected, Field, Page, Release
from answerkey.tasks.publish.page.samples import MOST_SAMPLES, read_samples
from answerkey.tasks.publish.page.warnings import summary, warnings
from answerkey.tasks.reports.history import moments
from answerkey.tasks.reports.labels import LABEL, LABEL_FIELD, MOST_LABELLED
from answerkey.tasks.reports.names import labels as labels_of
from answerkey.tasks.reports.report import Report, read_reports
from answerkey.tasks.warehouse.home import Home

if TYPE_CHECKING:
    import duckdb

_LABEL = f"{LABEL}.{LABEL_FIELD.name}"
_JUDGES = ("meaning_match.match", "ground_truth_similarity.similarity")


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
    METRIC.FIELD that decides; without it, it is that of the gates, the label of people where at least half of the
    answers have one, a judge, or recall. Of more than `most_samples` samples those are kept whose primary score moves
    most.

    Raises:
        UserError: there are none, one is not in the warehouse, they are about several data sets, or none of them has
            the field `primary`.
    """
    reports = read_reports(home, list(dict.fromkeys(report_ids)))
    datasets = list(dict.fromkeys(report.dataset for report in reports))
    if len(datasets) != 1:
        raise UserError(f"a page is about one data set, and these reports are about {', '.join(datasets) or 'none'}")
    names = list(dict.fromkeys(f"{score.metric}.{score.field}" for report in reports for score in report.overall))
    gated = next((gated.primary for gated in gates if gated.primary in names), None)
    chosen = _primary(reports, names, primary or gated)
    labels = labels_of(reports)
    margins = {(gated.old, gated.new): gated.margin for gated in gates if gated.primary == chosen}
    named = tuple(
        _named(comparison, labels, margins.get((comparison.old, comparison.new), comparison.margin))
        for comparison in comparisons
    )
    said = tuple(replace(one, old=labels.get(one.old, one.old), new=labels.get(one.new, one.new)) for one in gates)
    headlines = _headlines(names, chosen)
    means = [mean for report in reports for mean in _means(home, report, headlines, labels[report.report_id])]
    with home.warehouse.reading() as warehouse:
        return _page(warehouse, reports, names, headlines, named, said, means, most_samples)


def _page(
    warehouse: duckdb.DuckDBPyConnection,
    reports: Sequence[Report],
    names: Sequence[str],
    headlines: tuple[str, ...],
    comparisons: tuple[Comparison, ...],
    gates: tuple[ReleaseVerdict, ...],
    means: Sequence[Corrected],
    most_samples: int,
) -> Page:
    labels, primary = labels_of(reports), headlines[0]
    lengths = read.median_lengths(warehouse, reports)
    binary = read.binary_fields(warehouse, reports)
    checks = read.checks(warehouse, reports)
    n_quarantined, refused = read.quarantine(warehouse, reports)
    agreements, calibrated = read.agreements(warehouse, reports, labels, binary)
    releases = tuple(
        Release(labels[report.report_id], report, command(report.manifest["parameters"]), lengths[report.report_id])
        for report in reports
    )
    return Page(
        dataset=reports[0].dataset,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        primary=primary,
        headlines=headlines,
        fields=tuple(_field(name, reports, name in binary) for name in names),
        releases=releases,
        gates=gates,
        summary=summary(releases, comparisons, primary),
        warnings=warnings(releases, comparisons, checks, n_quarantined),
        comparisons=comparisons,
        distributions=read.distributions(warehouse, labels, binary),
        failures=read.failures(warehouse, labels),
        checks=checks,
        n_quarantined=n_quarantined,
        quarantine=refused,
        agreements=agreements,
        corrected=tuple({(one.field, one.release): one for one in (*means, *calibrated)}.values()),
        history=moments(warehouse, reports[0].dataset, headlines),
        samples=read_samples(warehouse, labels, reports, primary, most_samples),
    )


def _means(home: Home, report: Report, headlines: Sequence[str], label: str) -> Iterator[Corrected]:
    for name, one in by_own_labels(home, report, headlines).items():
        better = one.corrected
        raw, corrected = (
            (part.value, *(part.interval[:2] if part.interval else (None, None))) for part in (one.raw, better)
        )
        yield Corrected(name, label, raw, corrected, better.labelled, better.unlabelled, "PPI++")


def _primary(reports: Sequence[Report], names: Sequence[str], wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in names:
            raise UserError(f"{wanted}: these reports have {', '.join(names)}")
        return wanted
    if _LABEL in names and all(_labelled(report) >= MOST_LABELLED for report in reports):
        return _LABEL
    if judged := [name for name in _JUDGES if name in names]:
        return judged[0]
    # Length sways precision, F1 and similarity, so recall speaks for the metrics that count words.
    recalls = [name for name in names if name.endswith("recall")]
    return next((name for name in recalls if "token_overlap" in name), [*recalls, *names][0])


def _labelled(report: Report) -> float:
    """The share of the answers that people have labelled."""
    return next((score.n_scored / score.n_total for score in report.overall if score.metric == LABEL), 0.0)


def _headlines(names: Sequence[str], primary: str) -> tuple[str, ...]:
    """The primary field, then one of every other metric."""
    by_metric: dict[str, list[str]] = {}
    for name in names:
        by_metric.setdefault(name.partition(".")[0], []).append(name)
    main = [
        next((name for name in fields if name.endswith((".recall", "token_overlap_recall"))), fields[0])
        for metric, fields in by_metric.items()
        if metric != primary.partition(".")[0]
    ]
    return (primary, *main)


def _named(comparison: Comparison, names: dict[str, str], margin: float | None) -> Comparison:
    missing = [one for one in (comparison.old, comparison.new) if one not in names]
    if missing:
        raise UserError(f"{missing[0]}: compared, but not on the page")
    return replace(comparison, old=names[comparison.old], new=names[comparison.new], margin=margin)


def _field(name: str, reports: Sequence[Report], binary: bool) -> Field:
    metric = name.partition(".")[0]
    found = [report.manifest["signatures"].get(metric) for report in reports]
    known = {LABEL: LABEL_FIELD.description} | {name: cls.described() for name, cls in METRICS.items()}
    return Field(name, metric, known.get(metric, ""), tuple(dict.fromkeys(filter(None, found))), binary)
