"""What the tables of scores, comparisons, verdicts and calibrations say, for every place that shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from answerkey.metrics_core.comparison import Comparison, FieldComparison
from answerkey.metrics_core.decide.policy import ALL
from answerkey.metrics_core.decide.verdict import Verdict, rounded
from answerkey.metrics_core.formatting import chance
from answerkey.metrics_core.llm.untrusted import cut
from answerkey.metrics_core.metrics.label import LABEL
from answerkey.tasks.compare.warnings import MOVES_WITH_LENGTH, confounded
from answerkey.tasks.publish.table import Cell, Table, estimate
from answerkey.tasks.publish.text import (
    HUMAN,
    NONE,
    NOT_SHOWN,
    count,
    dollars,
    ends,
    finding,
    number,
    percent,
    rule_number,
    signed,
    total,
)
from answerkey.tasks.reports.report import Report, ReportPoint, Score, labels

if TYPE_CHECKING:
    from answerkey.metrics_core.decide.agreement import Threshold
    from answerkey.metrics_core.decide.intervals import Estimate
    from answerkey.metrics_core.decide.ppi import PredictionPowered
    from answerkey.metrics_core.llm.cost import Cost
    from answerkey.tasks.gate.calibrate import Calibration
    from answerkey.tasks.validate.validate import Check

ByRelease = Mapping[str, Report]
"""Reports by the names that they have in a table: those of their releases, with the version where that is needed."""
Row = Sequence[Cell | str]
_INTERVAL = "95 % interval"
_LONGEST_ID = 16
_TESTS = {
    "mcnemar": "McNemar, exact",
    "sign-flip": "permutation",
    "cluster sign-flip": "permutation, clusters",
    "exchange": "permutation",
}


def reports_by_release(reports: Sequence[Report]) -> ByRelease:
    """Return reports on one data set by the names of their releases."""
    names = labels(reports)
    return {names[report.report_id]: report for report in reports}


def scores_of(reports: Sequence[Report], names: Sequence[str]) -> Table:
    """Show the fields `names` of reports on one data set: of several with a column for each report.

    Of one report, each field has its mean, its interval, and how many answers it has scored.
    """
    [report, *other_reports] = reports
    if other_reports:
        by_release = reports_by_release(reports)
        title = f"{len(reports)} releases on {report.dataset}: mean [{_INTERVAL}]"
        return scores(title, by_release, names, list(counts(by_release)))
    # One report: a row for each field
    report_scores = list(filter(None, map(report.score, names)))
    rows = []
    for score in report_scores:
        n_scored = f"{score.n_scored:,}/{score.n_total:,}"
        interval = ends(score.ci_low, score.ci_high)
        n_clusters = count(score.n_clusters)
        n_failed = count(score.n_failed or None)
        rows.append((score.name, number(score.mean), interval, n_scored, n_clusters, n_failed))
    head = ("metric", "mean", _INTERVAL, "scored/total", "clusters", "failed")
    groups = [score.metric for score in report_scores]
    table = Table(f"{report.release} on {report.dataset}", head, rows, groups=groups)
    return table.without_empty("clusters", "failed")


def scores(title: str, by_release: ByRelease, names: Sequence[str], footer: Sequence[Row] = ()) -> Table:
    """Show the fields `names` with a column for each report, and below them rows about whole reports."""
    rows: list[Row] = []
    for name in names:
        rows.append((name, *(_mean(report.score(name)) for report in by_release.values())))
    metrics = [name.partition(".")[0] for name in names]
    # A line between metrics, unless each has a single field
    groups = metrics if len(set(metrics)) < len(metrics) else [""] * len(metrics)
    groups = [*groups, *("reports" for _ in footer)]
    return Table(title, ("metric", *by_release), [*rows, *footer], groups=groups, each=True)


def counts(by_release: ByRelease) -> Iterator[Row]:
    """Count the answers of each report that have labels and scores, and the clusters they are in.

    The counts are those of the metric that covers least: a table may not look more complete than its weakest row.
    Human labels stand apart: an answer without a label is no failure.
    """
    reports = list(by_release.values())
    scores = [*chain.from_iterable(report.overall for report in reports)]
    if any(score.metric == LABEL for score in scores):
        yield "labelled/total", *(_coverage(report, labels=True) for report in reports)
    yield "scored/total", *map(_coverage, reports)
    if any(score.n_clusters for score in scores):
        clusters = []
        for report in reports:
            clusters.append(max((score.n_clusters or 0 for score in report.overall), default=0))
        yield "clusters", *(count(n or None) for n in clusters)


def _coverage(report: Report, *, labels: bool = False) -> str:
    # Labels by themselves, and scores that came with the answers not at all
    notes = report.manifest.get("metrics", {})
    scores = [score for score in report.overall if (score.metric == LABEL) == labels]
    scores = [score for score in scores if notes.get(score.metric, {}).get("kind") != "given"]
    if not scores:
        return NONE
    # Where questions have several answers, pass@k and pass^k are about questions
    n_total = max(score.n_total for score in scores)
    n_scored = min(score.n_scored for score in scores if score.n_total == n_total)
    return f"{n_scored:,}/{n_total:,}"


def _mean(score: Score | None) -> Cell:
    if score is None:
        return Cell(NONE)
    if score.mean is None and score.ci_low is not None and score.ci_high is not None:
        # Too few answers have a score for a mean; that of all answers lies in this interval
        return replace(estimate(0.0, score.ci_low, score.ci_high), text=NONE)
    return estimate(score.mean, score.ci_low, score.ci_high)


def agreements(by_release: ByRelease, primary: str) -> Table:
    """Show how far the scores that came with the answers agree with the field `primary`, where both are 0 or 1."""
    rows = []
    for release, report in by_release.items():
        for pair in report.manifest.get("given", {}).get("agreements", ()):
            if pair["field"] == primary:
                agree = percent(pair["same"] / pair["n"])
                only = f"{pair['only_given']:,}/{pair['only_ours']:,}"
                # As much of a long id, such as a hash, as is mostly enough to find it
                sample_ids = ", ".join(cut(sample_id, _LONGEST_ID) for sample_id in pair["samples"]) or NONE
                rows.append((pair["given"], release, f"{pair['n']:,}", agree, only, sample_ids))
    rows.sort(key=lambda row: str(row[0]))
    head = ("given score", "release", "answers", "agree", "only given/ours", "samples that differ")
    return Table(
        f"Given scores against {primary}", head, rows, left=["release", "samples that differ"],
        wrapped={"samples that differ": 16}, groups=[row[0] for row in rows],
    )  # fmt: skip


def slices(by_release: ByRelease, name: str, max_values: int | None = None) -> Table:
    """Show METRIC.FIELD `name` by slice, with a column for each report.

    Args:
        max_values: how many values of a column are shown, those with most answers; None: all.
    """
    # The scores of each slice, a place for each report
    by_slice: dict[str, list[Score | None]] = {}
    for index, report in enumerate(by_release.values()):
        for score in report.scores:
            if score.name == name and score.slice != ALL:
                by_slice.setdefault(score.slice, [None] * len(by_release))[index] = score

    # The largest slices of each column, in the order of their sizes if some are left out
    sizes = {slice_: max(score.n_total for score in scores if score) for slice_, scores in by_slice.items()}
    columns = {slice_: slice_.partition("=")[0] for slice_ in by_slice}
    displayed: list[str] = []
    for column in dict.fromkeys(columns.values()):
        column_slices = [slice_ for slice_ in by_slice if columns[slice_] == column]
        if max_values and len(column_slices) > max_values:
            column_slices = sorted(column_slices, key=lambda slice_: -sizes[slice_])[:max_values]
        displayed += column_slices

    # Their means, and how many answers and clusters these are of
    is_clustered = any(score and score.n_clusters for slice_ in displayed for score in by_slice[slice_])
    count_names = ["n_scored", "n_clusters"] if is_clustered else ["n_scored"]
    rows: list[Row] = []
    for slice_ in displayed:
        scores = by_slice[slice_]
        counts = []
        for count_name in count_names:
            numbers = [count(getattr(score, count_name, None)) for score in scores]
            # One count if all releases agree, else one for each of them
            counts.append(" / ".join(numbers if len(set(numbers)) > 1 else numbers[:1]))
        rows.append((slice_, *map(_mean, scores), *counts))
    notes = []
    if n_left_out := len(by_slice) - len(displayed):
        notes.append(f"The largest values of each column; {n_left_out:,} smaller ones are in the warehouse.")
    head = ("slice", *by_release, *(count_name.removeprefix("n_") for count_name in count_names))
    groups = [columns[slice_] for slice_ in displayed]
    return Table(f"{name} by slice: mean [{_INTERVAL}]", head, rows, groups=groups, each=True, notes=notes)


def comparison(title: str, rows: Sequence[FieldComparison], doubtful: Collection[str] = ()) -> Table:
    """Show the differences of fields on all samples, or of the slices of fields; without columns that say nothing.

    No finding is emphasized of the fields `doubtful`, which move with the lengths of the answers alone.
    Detectable is the minimum detectable effect; needed, how many samples would show the observed difference.
    """
    is_sliced = any(row.slice != ALL for row in rows)
    has_several_fields = is_sliced and len({row.name for row in rows}) > 1
    cells: list[Row] = []
    groups = []
    for row in rows:
        # What the row is about, and the group that it is in
        subject = row.name
        group = row.metric
        if has_several_fields:
            subject = f"{row.name}, {row.slice}"
            group = row.name
        elif is_sliced:
            subject = row.slice
            group = row.slice.partition("=")[0]
        groups.append(group)

        verdict = Cell(finding(row), kind=row.finding or "not compared")
        if row.name in doubtful:
            verdict = replace(verdict, kind="not compared", below=(MOVES_WITH_LENGTH,))

        # What stands below the numbers on the page
        test = (_TESTS.get(row.test, row.test),) if row.test else ()
        cells.append(
            (
                subject,
                Cell(f"{row.n_common:,}", below=one_sided(row)),
                count(row.n_clusters),
                number(row.old),
                number(row.new),
                estimate(row.difference, row.low, row.high, signed),
                estimate(row.people, row.people_low, row.people_high, signed),
                Cell(chance(row.p_adjusted), below=test),
                verdict,
                Cell(number(row.mde), below=(row.mde_note,) if row.mde_note else ()),
                needed(row) or NONE,
                NONE if row.fixed is None else f"{row.fixed:,}/{row.broken or 0:,}",
            )
        )

    # Columns without a number in any row are left out
    head = (
        "slice" if is_sliced else "field", "samples", "clusters", "old", "new", f"difference [{_INTERVAL}]", HUMAN,
        "p adjusted", "finding", "detectable", "needed", "fixed/broken",
    )  # fmt: skip
    table = Table(
        title,
        head,
        cells,
        left=["finding"],
        wrapped={"finding": 10},
        groups=groups,
        under={"clusters": "samples", "needed": "detectable"},
    )
    return table.without_empty("clusters", HUMAN, "detectable", "needed", "fixed/broken")


def needed(row: FieldComparison) -> str:
    """Say roughly how many samples would show a difference that these do not show; empty where that is not known.

    One digit, since the difference is known to a factor of two or three only, and the number goes with its square.
    """
    return f"~{rounded(row.needed, 1):,}" if row.needed and row.finding == NOT_SHOWN else ""


def one_sided(row: FieldComparison) -> tuple[str, ...]:
    """Count the rows that have a number in one of the releases only, and say what they are in the other."""
    sides = (("only old", row.n_only_old, row.missing_new), ("only new", row.n_only_new, row.missing_old))
    lines = []
    for side, n, missing in sides:
        reasons = ", ".join(f"{n_missing:,} {reason}" for reason, n_missing in missing.items())
        if n:
            lines.append(f"{side} {n:,} ({reasons})" if reasons else f"{side} {n:,}")
    return tuple(lines)


def differences(pair: Comparison, primary: str) -> list[Table]:
    """The fields on all samples, then the slices of the field that decides, then those of all others."""
    sliced = [row for row in pair.rows if row.slice != ALL]
    parts = {
        "Differences, all samples": pair.overall,
        f"{primary} by slice": [row for row in sliced if row.name == primary],
        "Other metrics by slice": [row for row in sliced if row.name != primary],
    }
    return [comparison(title, rows, confounded(pair)) for title, rows in parts.items() if rows]


def coverage(by_release: ByRelease, names: Sequence[str]) -> Table:
    """How many rows of each release have a score in each metric, and between which bounds the mean lies without gaps.

    The bounds are the mean if every row that failed or was skipped had the lowest, or the highest, value.
    """
    rows = []
    for name in names:
        for label, report in by_release.items():
            if score := report.score(name):
                n_scored = f"{score.n_scored:,}/{score.n_total:,}"
                unscored = map(count, (score.n_failed, score.n_undefined, score.n_skipped))
                bounds = ends(score.bound_low, score.bound_high)
                rows.append((name, label, n_scored, percent(score.coverage), *unscored, number(score.mean), bounds))
    head = ("metric", "release", "scored/total", "coverage", "failed", "undefined", "skipped", "mean", "bounds")
    return Table("Coverage", head, rows, left=["release"], groups=[row[0] for row in rows])


def checks(title: str, outcomes: Sequence[Check]) -> Table:
    """Show checks of the data, with what each found."""
    rows = []
    for check in outcomes:
        rows.append((check.rule, check.severity, count(check.n_failed), count(check.n_checked), check.message))
    head = ("check", "severity", "found", "checked", "message")
    return Table(title, head, rows, left=["severity", "message"], wrapped={"message": 36})


def versions(reports: Collection[Report]) -> Table:
    """What each report was made of and with."""
    rows: list[Row] = []
    for report in reports:
        hashes = [report.dataset_version, report.answers_version, report.manifest["code"], report.manifest["seed"]]
        codes = [Cell(str(text), kind="code") for text in (*hashes, report.run_id)]
        rows.append((report.report_id, report.created_at, report.status.lower(), *codes))
    head = ("report", "made", "status", "data set", "answers", "scoring code", "seed", "run")
    return Table("Versions and hashes", head, rows, left=head)


def rules(title: str, verdict: Verdict) -> Table:
    """Show how each rule of a gate came out, and why."""
    rows = []
    for rule in verdict.rules:
        value = estimate(rule.value, rule.low, rule.high, rule_number(rule.rule))
        rows.append((rule.rule, Cell(rule.outcome, kind=rule.outcome), value, count(rule.n), rule.sentence))
    head = ("rule", "outcome", "value", "samples", "why")
    return Table(title, head, rows, left=["outcome", "why"], wrapped={"rule": 22, "why": 36})


def history(title: str, moments: Sequence[ReportPoint]) -> Table:
    """Show a field in every report of a data set."""
    rows = []
    for point in moments:
        report = f"{point.release}/v{point.version}"
        n_scored = f"{point.n_scored:,}/{point.n_total:,}"
        dataset = Cell(point.dataset_version, kind="code")
        interval = ends(point.low, point.high)
        scores = number(point.mean), interval, n_scored, str(point.methods)
        rows.append((report, point.created_at, dataset, point.status.lower(), *scores))
    head = ("report", "made (UTC)", "data set", "status", "mean", _INTERVAL, "scored", "method")
    table = Table(title, head, rows, left=head[1:4], wrapped={"report": 16})
    methods = {point.methods for point in moments}
    return table if len(methods) > 1 else table.without("method")


def agreement(calibration: Calibration) -> Table:
    """Show how far a metric agrees with human labels, over all releases and in each of them."""
    rows: list[Row] = []
    for part in calibration.parts:
        agreed = part.agreement
        cells = [getattr(agreed, name, None) for name in ("kappa", "ac1", "sensitivity", "specificity", "bias")]
        cells += [part.auroc, part.threshold]
        rows.append((part.release or "all", f"{part.n:,}", *map(estimated, cells)))
    head = ("release", "n", "kappa", "AC1", "sensitivity", "specificity", "bias", "AUROC", "threshold")
    table = Table(f"{calibration.name} against human labels ({calibration.labels})", head, rows)
    return table.without_empty("AUROC", "threshold")


def corrected(calibration: Calibration) -> Table:
    """Show the mean of each release, as scored and in human labels."""
    rows = []
    for mean in calibration.corrected:
        by_labels = mean.corrected
        estimates = estimated(mean.raw), estimated(by_labels)
        rows.append((mean.release, *estimates, f"{by_labels.labelled:,}", f"{by_labels.unlabelled:,}"))
    title = "mean of each release, raw and corrected for these errors (PPI++)"
    return Table(title, ("release", "raw", "corrected", "labelled", "scored only"), rows)


def estimated(value: Estimate | PredictionPowered | Threshold | None) -> Cell:
    """Show an estimate with both ends of its interval, if it has one."""
    if value is None:
        return Cell(NONE)
    return estimate(value.value, *(value.interval[:2] if value.interval else (None, None)))


def costs(title: str, estimates: Sequence[Cost]) -> Table:
    """Show what a run would ask models, by metric and in all."""
    rows: list[Row] = []
    for cost in (*estimates, total(estimates)):
        n_tokens = f"{_rough(cost.tokens_in)}/{_rough(cost.tokens_out)}"
        n_calls = f"{cost.calls:,}", f"{cost.in_ledger:,}"
        rows.append((cost.metric, count(cost.samples), *n_calls, n_tokens, dollars(cost.cost_usd)))
    # The metrics are about the same samples, so these are not added up
    rows[-1] = ("total", "", *rows[-1][2:])
    head = ("metric", "samples", "calls", "ledger", "tokens in/out", "cost")
    return Table(title, head, rows, groups=[*("metric" for _ in estimates), "total"])


def _rough(tokens: int) -> str:
    """Show three digits: an estimate has no more to say."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= 0.9995 * size:
            return f"{tokens / size:.3g}{unit}"
    return str(tokens)
